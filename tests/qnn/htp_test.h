/* htp_test.h: Qualcomm's library, or a skip said aloud; small graphs. */
#ifndef TESTS_QNN_HTP_TEST_H
#define TESTS_QNN_HTP_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "qnn/htp.h"

static const char *const test_folders[] = {SW_SOURCE_DIR "/external/qnn/onnxruntime_qnn", NULL};
enum { TEST_SKIPPED = 77 };

static sw_error test_error;
/* An assertion that says why a call failed. */
#define CHECK_OK(call)                                                                                       \
    do {                                                                                                     \
        test_error.message[0] = '\0';                                                                        \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, test_error.message);                                  \
    } while (0)

/* The fetched library; false, with a line on stdout, where it isn't there. */
static inline bool test_open_library(sw_qnn_library *library) {
    unsetenv("QNN_SDK_ROOT");
#if !defined(__x86_64__)
    printf("skipped: Qualcomm's host library is for x86-64\n");
    return false;
#endif
    if (access(SW_SOURCE_DIR "/external/qnn/onnxruntime_qnn/libQnnHtp.so", R_OK) != 0) {
        printf("skipped: external/qnn/onnxruntime_qnn/libQnnHtp.so is not there (make setup)\n");
        return false;
    }
    if (sw_qnn_library_open(library, NULL, test_folders, &test_error) == SW_OK) return true;
    fprintf(stderr, "%s\n", test_error.message);
    abort();
}

/* The next of a fixed sequence of numbers, 0..2^31-1 (Knuth's MMIX generator). */
static inline uint32_t test_next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static inline sw_tensor *test_tensor(sw_graph *graph, const char *name, sw_tensor_kind kind, sw_dtype dtype,
                                     uint32_t rank, const uint32_t *dims, float scale, int32_t offset) {
    sw_tensor *t = sw_arena_alloc(graph->arena, sizeof *t);
    assert_non_null(t);
    *t = (sw_tensor){.name = name, .range = name, .kind = kind, .dtype = dtype, .rank = rank};
    for (uint32_t i = 0; i < rank; i++) t->dims[i] = dims[i];
    t->encoding = (sw_encoding){scale, offset};
    assert_true(sw_graph_add_tensor(graph, t) != UINT32_MAX);
    return t;
}
#define DIMS(...)                                                                                            \
    sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (uint32_t[]) {                                     \
        __VA_ARGS__                                                                                          \
    }

static inline void test_op(sw_graph *graph, sw_op op, const char *name, const char *const *inputs,
                           uint32_t n_inputs, const char *output) {
    op.name = name;
    op.n_inputs = n_inputs;
    op.n_outputs = 1;
    for (uint32_t i = 0; i < n_inputs; i++) op.inputs[i] = sw_graph_find(graph, inputs[i]);
    op.outputs[0] = sw_graph_find(graph, output);
    assert_true(sw_graph_add_op(graph, &op));
}

#endif
