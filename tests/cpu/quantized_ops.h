/* quantized_ops.h: for tests of the quantized kernels: tensors with values, and one op run through the table.
 */
#ifndef TEST_CPU_QUANTIZED_OPS_H
#define TEST_CPU_QUANTIZED_OPS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "cpu/kernels.h"

typedef struct values {
    sw_tensor t;
    void *data; /* exactly its bytes, so that AddressSanitizer sees a read past the end */
} values;

static uint32_t test_seed = 1;

static inline uint32_t test_random(void) {
    test_seed = test_seed * 1664525 + 1013904223;
    return test_seed >> 8;
}

static inline values make(sw_dtype type, float scale, int32_t offset, uint32_t rank, const uint32_t *dims) {
    values v = {.t = {.name = "t", .range = "t", .kind = SW_TENSOR_NATIVE, .dtype = type, .rank = rank}};
    for (uint32_t i = 0; i < rank; i++) v.t.dims[i] = dims[i];
    v.t.encoding = (sw_encoding){scale, offset};
    v.data = calloc(1, (size_t)sw_tensor_bytes(&v.t));
    assert_non_null(v.data);
    return v;
}
#define MAKE(type, scale, offset, ...)                                                                       \
    make(type, scale, offset, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (uint32_t[]){__VA_ARGS__})

static inline int32_t get(const values *v, size_t i) {
    switch (v->t.dtype) {
    case SW_U8:
        return ((const uint8_t *)v->data)[i];
    case SW_S8:
        return ((const int8_t *)v->data)[i];
    default:
        return ((const uint16_t *)v->data)[i];
    }
}

static inline void set(values *v, size_t i, int32_t q) {
    if (v->t.dtype == SW_U16)
        ((uint16_t *)v->data)[i] = (uint16_t)q;
    else
        ((uint8_t *)v->data)[i] = (uint8_t)q;
}

static inline size_t count(const values *v) {
    return (size_t)sw_tensor_elements(&v->t);
}

/* Uniform in [least, most] of the stored integers. */
static inline void fill(values *v, int32_t least, int32_t most) {
    for (size_t i = 0; i < count(v); i++)
        set(v, i, least + (int32_t)(test_random() % (uint32_t)(most - least + 1)));
}

static inline void release(values *v) {
    free(v->data);
}

/* Runs op on the first kernel of the table that matches. */
static inline void run_op(const sw_op *op, values *in, uint32_t n_in, values *out, sw_pool *pool) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_shared shared = {.store = sw_shared_store_create(), .arena = &arena};
    assert_non_null(shared.store);
    sw_op_call call = {.op = op, .out = &out->t, .out_data = out->data, .pool = pool, .shared = &shared};
    for (uint32_t i = 0; i < n_in; i++) {
        in[i].t.data = in[i].data;
        call.in[i] = &in[i].t;
        call.in_data[i] = in[i].data;
    }
    const sw_kernel *kernel = NULL;
    for (size_t i = 0; i < sw_kernels_quantized_count && kernel == NULL; i++)
        if (sw_kernels_quantized[i].op == op->type && sw_kernels_quantized[i].matches(&call))
            kernel = &sw_kernels_quantized[i];
    assert_non_null(kernel);
    sw_error err = {SW_OK, ""};
    if (kernel->prepare != NULL && kernel->prepare(&call, &arena, &err) != SW_OK) fail_msg("%s", err.message);
    if (kernel->scratch_bytes != NULL) {
        size_t bytes = (kernel->scratch_bytes(&call) + 63) / 64 * 64;
        call.scratch = aligned_alloc(64, bytes > 0 ? bytes : 64);
        assert_non_null(call.scratch);
        memset(call.scratch, 0xa5, bytes);
    }
    kernel->run(&call);
    free(call.scratch);
    sw_shared_release(&shared);
    sw_shared_store_destroy(shared.store);
    sw_arena_free(&arena);
}

#endif
