/* quantized_sigmoid.c: Sigmoid, and x * Sigmoid(x) as one op, of u8 and u16: a table of every input value.
 *
 * u8 is exact, half up. u16 is HTP's fixed-point tanh of x / 2: with v = 1 - min(1, |x| * 3/32) of 16 bits, a
 * cubic of v^2 in each of 16 segments. Method and coefficients are those of Qualcomm's hexagon-nn
 * (op_tanh_16.c, hvx_constants.c); the emulator's integers confirm them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/product.h"
#include "cpu/quantized.h"

enum { ELEMENTS_PER_RANGE = 4096 };

/* In powers of v^2: of 15, 17, 20 and 23 fraction bits. */
static const int16_t tanh_segments[16][4] = {
    {32766, -58, -36, -1125},      {32746, -117, -390, -742},     {32702, -250, -672, -1192},
    {32613, -475, -1115, -1725},   {32453, -837, -1760, -2424},   {32179, -1392, -2667, -3266},
    {31735, -2214, -3894, -4178},  {31044, -3385, -5465, -5006},  {30007, -4987, -7354, -5405},
    {28509, -7078, -9406, -4952},  {26426, -9658, -11296, -3158}, {23647, -12622, -12509, 262},
    {20101, -15726, -12443, 4941}, {15800, -18595, -10586, 9594}, {10858, -20788, -6953, 12789},
    {5494, -21927, -2101, 13087},
};

/* a * b of 15 fraction bits, half up. */
static int32_t times(int32_t a, int32_t b) {
    return (a * b + (1 << 14)) >> 15;
}

/* 2^16 at |x| = 32/3, for x = d * scale: a multiplier of d with 15 bits, less for small scales. */
static double tanh_steps(float scale) {
    int exponent;
    const double steps = 6144 * (double)scale;
    frexp(steps, &exponent);
    const int bits = exponent < 0 ? 15 : 15 - exponent;
    return ldexp(floor(ldexp(steps, bits) + 0.5), -bits);
}

/* Sigmoid of 15 fraction bits, 0..32767. steps: tanh_steps of d's scale; the product is exact. */
static int32_t sigmoid_q15(int32_t d, double steps) {
    const int32_t size = sw_floor_saturated(abs(d) * steps, 65535);
    const uint32_t v = 65535 - (uint32_t)size;
    const int32_t square = (int32_t)(v * v >> 16), rest = square & 4095;
    const int16_t *c = tanh_segments[square >> 12];
    const int32_t tanh_q15 = times(times(times(c[3], rest) + c[2], rest) + c[1], 2 * rest) + c[0];
    const int32_t result = (tanh_q15 + 32768) >> 1;
    return d < 0 ? 32767 - result : result;
}

/* Sigmoid(d * scale) of u8, to the double's end. */
static double exact_sigmoid(double v) {
    const double e = sw_exp_of_negative(v < 0 ? v : -v);
    return (v < 0 ? e : 1) / (1 + e);
}

static void look_up(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    const sw_dtype type = call->out->dtype;
    const void *x = call->in_data[call->silu_input > 0 ? call->silu_input - 1 : 0];
    for (size_t i = begin; i < end; i++)
        sw_store_unsigned(call->out_data, type, i,
                          sw_load_unsigned(call->prepared, type, (size_t)sw_load_unsigned(x, type, i)));
}

static void run_table(const sw_op_call *call) {
    sw_op_call copy = *call;
    sw_pool_for(call->pool, (size_t)sw_tensor_elements(call->out), ELEMENTS_PER_RANGE, look_up, &copy);
}

static bool table_matches(const sw_op_call *call, uint32_t input) {
    return sw_is_unsigned_quantized(call->in[input]) && call->out->dtype == call->in[input]->dtype &&
           sw_same_elements(call->out, call->in[input]);
}

bool sw_quantized_sigmoid_matches(const sw_op_call *call) {
    return table_matches(call, 0);
}

typedef struct filling {
    const sw_op_call *call;
    sw_pool_body *body;
    void *table;
} filling;

static void fill_sigmoid(void *context, size_t begin, size_t end) {
    const filling *f = context;
    const sw_op_call *call = f->call;
    const sw_tensor *x = call->in[0], *y = call->out;
    const int32_t max = sw_dtype_max(y->dtype);
    const double steps = tanh_steps(x->encoding.scale);
    for (size_t q = begin; q < end; q++) {
        const int32_t d = (int32_t)q + x->encoding.offset;
        const double value = y->dtype == SW_U16 ? sigmoid_q15(d, steps) * 0x1p-15
                                                : exact_sigmoid(d * (double)x->encoding.scale);
        sw_store_unsigned(f->table, y->dtype, q,
                          sw_half_up_saturated(value / y->encoding.scale, y->encoding.offset, max));
    }
}

static void fill_table(void *context, void *out) {
    filling *f = context;
    f->table = out;
    sw_pool_for(f->call->pool, (size_t)sw_dtype_max(f->call->out->dtype) + 1, ELEMENTS_PER_RANGE, f->body, f);
}

/* All that a table hangs on. */
typedef struct table_key {
    sw_pool_body *body;
    uint32_t dtype;
    sw_encoding x, y;
} table_key;

/* Every input value's output, by all threads. */
static sw_code get_table(sw_op_call *call, const sw_tensor *x, sw_pool_body *body, sw_error *err) {
    table_key key;
    memset(&key, 0, sizeof key);
    key.body = body, key.dtype = call->out->dtype, key.x = x->encoding, key.y = call->out->encoding;
    const size_t bytes = ((size_t)sw_dtype_max(call->out->dtype) + 1) * sw_dtype_bytes(call->out->dtype);
    filling f = {.call = call, .body = body};
    const void *table = NULL;
    SW_TRY(sw_shared_get(call->shared, &key, sizeof key, bytes, fill_table, &f, &table, err));
    call->prepared = (void *)(uintptr_t)table;
    return SW_OK;
}

sw_code sw_quantized_sigmoid_prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    (void)arena;
    return get_table(call, call->in[0], fill_sigmoid, err);
}

void sw_quantized_sigmoid_run(const sw_op_call *call) {
    run_table(call);
}

bool sw_quantized_silu_matches(const sw_op_call *call) {
    return call->silu_input > 0 && table_matches(call, call->silu_input - 1);
}

/* Whatever the encoding of the Sigmoid between. u16: the product's rule of cpu/product.h with the sigmoid as
 * 65536ths, but rounded to eighths, and a bias rounded to single precision. */
static void fill_silu(void *context, size_t begin, size_t end) {
    const filling *f = context;
    const sw_op_call *call = f->call;
    const sw_tensor *x = call->in[call->silu_input - 1], *y = call->out;
    const int32_t max = sw_dtype_max(y->dtype), offset = y->encoding.offset;
    const float scale = x->encoding.scale, ratio = scale / 65536 * (1 / y->encoding.scale);
    const double steps = tanh_steps(scale);
    sw_product p = sw_product_of(ratio, x->encoding.offset, 0);
    p.bias = (int64_t)(float)p.bias;
    const int64_t share = sw_product_round(p.bias * p.multiplier);
    for (size_t q = begin; q < end; q++) {
        const int32_t d = (int32_t)q + x->encoding.offset;
        int32_t result;
        if (y->dtype == SW_U16 && sw_product_fits(ratio)) {
            const int64_t product = (int64_t)d * 2 * sigmoid_q15(d, steps) + p.bias;
            result = sw_product_store(sw_product_round(product * p.multiplier) - share, offset, max);
        } else {
            const double v = d * (double)scale;
            result = sw_half_up_saturated(v * exact_sigmoid(v) / y->encoding.scale, offset, max);
        }
        sw_store_unsigned(f->table, y->dtype, q, result);
    }
}

sw_code sw_quantized_silu_prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    (void)arena;
    return get_table(call, call->in[call->silu_input - 1], fill_silu, err);
}

void sw_quantized_silu_run(const sw_op_call *call) {
    run_table(call);
}
