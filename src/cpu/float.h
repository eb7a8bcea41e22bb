/* float.h: the float kernels. Each op is written once, on f32; f16 tensors are made f32 before and rounded
 * after (float.c). Internal to src/cpu. */
#ifndef SW_CPU_FLOAT_H
#define SW_CPU_FLOAT_H

#include "cpu/kernels.h"

typedef struct sw_float_op {
    uint32_t n_activations; /* leading inputs that run wants as dense f32 in in_data; 0: all */
    bool (*shapes)(const sw_op_call *call); /* whether the shapes fit each other */
    sw_code (*prepare)(sw_op_call *call, sw_arena *arena, sw_error *err); /* optional */
    size_t (*scratch_bytes)(const sw_op_call *call);                      /* optional */
    void (*run)(const sw_op_call *call); /* out_data is f32 [elements of out] */
} sw_float_op;

extern const sw_float_op sw_float_fully_connected, sw_float_matmul; /* float_matmul.c */
extern const sw_float_op sw_float_rms_norm, sw_float_rotary;        /* float_norm.c, float_rotary.c */
extern const sw_float_op sw_float_softmax, sw_float_sigmoid;        /* float_exp.c */
extern const sw_float_op sw_float_add, sw_float_multiply;           /* float_binary.c */

/* Same rank and dimensions. */
static inline bool sw_same_shape(const sw_tensor *a, const sw_tensor *b) {
    if (a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

static inline size_t sw_last_dim(const sw_tensor *t) {
    return t->dims[t->rank - 1];
}

/* Product of all dimensions but the last. */
static inline size_t sw_rows_count(const sw_tensor *t) {
    return (size_t)sw_tensor_elements(t) / sw_last_dim(t);
}

/* How many rows a thread should take at least, so that starting it pays. */
static inline size_t sw_row_grain(size_t row_elements) {
    return row_elements >= 8192 ? 1 : 8192 / row_elements;
}

#endif
