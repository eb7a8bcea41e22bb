/* Reading a context binary in a child process, over stand-ins for the system library that answer, crash, end
 * the process or refuse. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "qnn/binary_info.h"

typedef enum behaviour { ANSWERS, CRASHES, BUS_ERROR, ABORTS, EXITS, REFUSES, NO_LIBRARY } behaviour;

enum { N_INPUTS = 300 };

static Qnn_Tensor_t tensors[N_INPUTS];
static char names[N_INPUTS][16];
static uint32_t dims[2] = {3, 5};
static QnnSystemContext_GraphInfo_t graphs[2];
static QnnSystemContext_BinaryInfo_t info;
static behaviour does;

static uint64_t create(Qnn_Handle_t *handle) {
    *handle = &info;
    return 0;
}

static uint64_t get(Qnn_Handle_t handle, const void *data, uint64_t size,
                    const QnnSystemContext_BinaryInfo_t **out) {
    (void)handle;
    assert_int_equal(size, 4);
    assert_memory_equal(data, "\0\0\0\2", 4);
    switch (does) {
    case CRASHES:
        raise(SIGSEGV);
        break;
    case BUS_ERROR:
        raise(SIGBUS);
        break;
    case ABORTS:
        abort();
    case EXITS:
        _exit(0);
    case REFUSES:
        return 30010;
    default:
        break;
    }
    *out = &info;
    return 0;
}

static uint64_t release(Qnn_Handle_t handle) {
    (void)handle;
    return 0;
}

static QnnSystemInterface_t system_interface = {.system = {create, NULL, get, release}};
static sw_qnn_library library = {.system = &system_interface};

static void on_signal(int number) {
    (void)number;
    _exit(1);
}

static sw_code open_library(void *context, const sw_qnn_library **out, sw_error *err) {
    assert_ptr_equal(context, &does);
    if (does == NO_LIBRARY) return SW_FAIL(err, SW_NOT_FOUND, "no library in /nowhere");
    signal(SIGABRT, on_signal); /* as programs have it */
    *out = &library;
    return SW_OK;
}

static sw_arena arena;
static sw_binary_info out;
static sw_error err;

static sw_code read_as(behaviour b) {
    does = b;
    err.message[0] = '\0';
    return sw_binary_info_read_apart(open_library, &does, "a.bin", "\0\0\0\2", 4, &arena, &out, &err);
}

static int set_up(void **state) {
    (void)state;
    for (uint32_t i = 0; i < N_INPUTS; i++) {
        names[i][0] = 't', names[i][1] = (char)('a' + i % 26);
        tensors[i] = (Qnn_Tensor_t){.version = QNN_TENSOR_V2};
        tensors[i].v2.id = i, tensors[i].v2.name = names[i];
        tensors[i].v2.dataType = QNN_DATATYPE_UFIXED_POINT_16;
        tensors[i].v2.quantizeParams = (Qnn_QuantizeParams_t){
            QNN_DEFINED, QNN_ENCODING_SCALE_OFFSET, {.scaleOffset = {0.5f, -(int32_t)i}}};
        tensors[i].v2.rank = 2, tensors[i].v2.dimensions = dims;
    }
    for (uint32_t i = 0; i < 2; i++) {
        graphs[i] = (QnnSystemContext_GraphInfo_t){.version = 2};
        graphs[i].v3.graphName = i == 0 ? "prefill" : "decode";
        graphs[i].v3.numGraphInputs = N_INPUTS - i, graphs[i].v3.graphInputs = tensors;
        graphs[i].v3.numGraphOutputs = 1, graphs[i].v3.graphOutputs = &tensors[7];
    }
    info = (QnnSystemContext_BinaryInfo_t){.version = 3};
    info.u.v3.buildId = "v2.99", info.u.v3.numGraphs = 2, info.u.v3.graphs = graphs, info.u.v3.socModel = 57;
    return 0;
}

static int drop(void **state) {
    (void)state;
    sw_arena_free(&arena);
    return 0;
}

static void all_comes_back(void **state) {
    (void)state;
    assert_int_equal(read_as(ANSWERS), SW_OK);
    assert_string_equal(out.build_id, "v2.99");
    assert_int_equal(out.soc_model, 57);
    assert_int_equal(out.n_graphs, 2);
    assert_string_equal(out.graphs[1].name, "decode");
    assert_int_equal(out.graphs[1].n_inputs, N_INPUTS - 1);
    for (uint32_t i = 0; i < N_INPUTS - 1; i++) {
        const sw_binary_tensor *t = &out.graphs[1].inputs[i];
        assert_string_equal(t->name, names[i]);
        assert_int_equal(t->id, i);
        assert_int_equal(t->dims[1], 5);
        assert_true(t->has_encoding && t->encoding.scale == 0.5f && t->encoding.offset == -(int32_t)i);
    }
    assert_string_equal(out.graphs[0].outputs[0].name, names[7]);
}

static void deaths_are_told(void **state) {
    (void)state;
    static const struct {
        behaviour does;
        sw_code code;
        const char *says;
    } rows[] = {{CRASHES, SW_BAD_DATA, "a.bin: Qualcomm's reader of context binaries crashed on it (Segm"},
                {BUS_ERROR, SW_BAD_DATA, "crashed on it (Bus error): the file is damaged"},
                {ABORTS, SW_BAD_DATA, "crashed on it (Aborted): the file is damaged"},
                {EXITS, SW_BAD_DATA, "ended its process on it (exit status 0)"},
                {REFUSES, SW_BAD_DATA, "a.bin: not a readable context binary (4 bytes)"},
                {NO_LIBRARY, SW_NOT_FOUND, "no library in /nowhere"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(read_as(rows[i].does), rows[i].code);
        assert_int_equal(err.code, rows[i].code);
        if (strstr(err.message, rows[i].says) == NULL) fail_msg("%s", err.message);
    }
    info.version = 4;
    assert_int_equal(read_as(ANSWERS), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "binary info version 4, this build reads 1-3"));
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, drop)
    const struct CMUnitTest tests[] = {TEST(all_comes_back), TEST(deaths_are_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
