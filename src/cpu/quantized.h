/* quantized.h: what the quantized kernels share. docs/numerics.md has each op's integer semantics. */
#ifndef SW_CPU_QUANTIZED_H
#define SW_CPU_QUANTIZED_H

#include "cpu/kernels.h"

/* True for u8 and u16, the types of activations, with a zero point among their integers: what bounds the sums
 * of products. */
static inline bool sw_is_unsigned_quantized(const sw_tensor *t) {
    return (t->dtype == SW_U8 || t->dtype == SW_U16) && t->encoding.offset <= 0 &&
           t->encoding.offset >= -sw_dtype_max(t->dtype);
}

/* True where t has the values of like, whatever its rank. */
static inline bool sw_same_elements(const sw_tensor *t, const sw_tensor *like) {
    return sw_tensor_elements(t) == sw_tensor_elements(like);
}

static inline size_t sw_last_dim(const sw_tensor *t) {
    return t->dims[t->rank - 1];
}

/* Element i of u8 or u16 data. */
static inline int32_t sw_load_unsigned(const void *data, sw_dtype type, size_t i) {
    return type == SW_U8 ? ((const uint8_t *)data)[i] : ((const uint16_t *)data)[i];
}

static inline void sw_store_unsigned(void *data, sw_dtype type, size_t i, int32_t q) {
    if (type == SW_U8)
        ((uint8_t *)data)[i] = (uint8_t)q;
    else
        ((uint16_t *)data)[i] = (uint16_t)q;
}

/* floor(v) held in [0, max]: behind the lower bound truncation is floor. NaN gives 0. */
static inline int32_t sw_floor_saturated(double v, int32_t max) {
    return !(v > 0) ? 0 : v >= max ? max : (int32_t)v;
}

/* The stored integer of x output steps: half up, the offset taken off, saturated. */
static inline int32_t sw_half_up_saturated(double x, int32_t offset, int32_t max) {
    return sw_floor_saturated(x + 0.5 - offset, max);
}

/* e^x for x <= 0, of + and * alone: the same bits on every machine, whatever its libm. */
double sw_exp_of_negative(double x);

/* The kernels of the table in quantized.c. */
bool sw_quantized_fully_connected_matches(const sw_op_call *call);
bool sw_quantized_blockwise_matches(const sw_op_call *call); /* a MatMul; the rest is FullyConnected's */
sw_code sw_quantized_fully_connected_prepare(sw_op_call *call, sw_arena *arena, sw_error *err);
size_t sw_quantized_fully_connected_scratch(const sw_op_call *call);
void sw_quantized_fully_connected_run(const sw_op_call *call);
/* Several of the same input at once: one loop over the tiles of all. They share a scratch. */
enum { SW_MOST_TOGETHER = 4 };
void sw_quantized_fully_connected_run_together(const sw_op_call *calls, uint32_t n);

bool sw_quantized_matmul_matches(const sw_op_call *call);
sw_code sw_quantized_matmul_prepare(sw_op_call *call, sw_arena *arena, sw_error *err);
size_t sw_quantized_matmul_scratch(const sw_op_call *call);
void sw_quantized_matmul_run(const sw_op_call *call);

bool sw_quantized_rms_norm_matches(const sw_op_call *call);
sw_code sw_quantized_rms_norm_prepare(sw_op_call *call, sw_arena *arena, sw_error *err);
void sw_quantized_rms_norm_run(const sw_op_call *call);

bool sw_quantized_rotary_matches(const sw_op_call *call);
sw_code sw_quantized_rotary_prepare(sw_op_call *call, sw_arena *arena, sw_error *err);
void sw_quantized_rotary_run(const sw_op_call *call);

bool sw_quantized_softmax_matches(const sw_op_call *call);
sw_code sw_quantized_softmax_prepare(sw_op_call *call, sw_arena *arena, sw_error *err);
void sw_quantized_softmax_run(const sw_op_call *call);

/* Columns of a row that all hold `value` and aren't in its list: `inner` of them behind the first `split` of
 * the list, `outer` behind its end. */
typedef struct sw_equal_columns {
    size_t split, inner, outer;
    int32_t value;
} sw_equal_columns;

/* One row of a prepared Softmax: n integers, and what equal stands for; y [n]. Returns the output integer of
 * the equal columns, 0 where there are none. */
int32_t sw_quantized_softmax_row(const sw_op_call *call, const void *x, size_t n, sw_equal_columns equal,
                                 void *y);

bool sw_quantized_sigmoid_matches(const sw_op_call *call);
sw_code sw_quantized_sigmoid_prepare(sw_op_call *call, sw_arena *arena, sw_error *err);
void sw_quantized_sigmoid_run(const sw_op_call *call);

bool sw_quantized_silu_matches(const sw_op_call *call); /* a Multiply of x by Sigmoid(x) */
sw_code sw_quantized_silu_prepare(sw_op_call *call, sw_arena *arena, sw_error *err);
void sw_quantized_silu_run(const sw_op_call *call);

bool sw_quantized_binary_matches(const sw_op_call *call); /* Add and Multiply */
sw_code sw_quantized_binary_prepare(sw_op_call *call, sw_arena *arena, sw_error *err);
void sw_quantized_binary_run(const sw_op_call *call);

/* n sums of a prepared Add, element by element; swapped: a is the op's second input. */
void sw_quantized_add_row(const sw_op_call *call, bool swapped, size_t n, const void *a, const void *b,
                          void *y);
/* True of an Add that never gives less for more. */
bool sw_quantized_add_is_monotone(const sw_op_call *call);

bool sw_quantized_convert_matches(const sw_op_call *call);
void sw_quantized_convert_run(const sw_op_call *call);

#endif
