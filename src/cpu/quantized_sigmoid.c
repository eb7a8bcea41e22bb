/* quantized_sigmoid.c: Sigmoid, and x * Sigmoid(x) as one op, of u8 and u16: a table of every input value,
 * but for x * Sigmoid(x) of u16, whose table would fill the caches.
 *
 * u8 is single precision, rounded where the HTP rounds. u16 is HTP's fixed-point tanh of x / 2: with v = 1 -
 * min(1, |x| * 3/32) of 16 bits, a cubic of v^2 in each of 16 segments. Method and coefficients are those of
 * Qualcomm's hexagon-nn (op_tanh_16.c, hvx_constants.c); the emulator's integers confirm them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/product.h"
#include "cpu/quantized.h"
#include "cpu/row_isa.h"

enum { ELEMENTS_PER_RANGE = 4096 };

/* 2^16 at |x| = 32/3, for x = d * scale: a multiplier of d with 15 bits, less for small scales. */
static sw_tanh_steps tanh_steps(float scale) {
    int exponent;
    const double steps = (double)(6144 * scale); /* a float: it decides ties */
    frexp(steps, &exponent);
    if (exponent > 16) return (sw_tanh_steps){65535, 0}; /* 2^16 and more: a single d is the end */
    const int bits = exponent < 0 ? 15 : 15 - exponent;
    const uint32_t multiplier = (uint32_t)floor(ldexp(steps, bits) + 0.5);
    return bits < 0 ? (sw_tanh_steps){2 * multiplier, 0} : (sw_tanh_steps){multiplier, (unsigned)bits};
}

/* To the double's end. */
static double exact_sigmoid(double v) {
    const double e = sw_exp_of_negative(v < 0 ? v : -v);
    return (v < 0 ? e : 1) / (1 + e);
}

/* In single precision, each operation rounded: u8's. */
static float float_sigmoid(float v) {
    const float e = (float)sw_exp_of_negative((double)(v < 0 ? v : -v));
    return (v < 0 ? e : 1) / (1 + e);
}

/* u8's stored integer of v: single precision, ties to even. */
static int32_t stored_u8(float v, const sw_tensor *y) {
    const float q = rintf(v * (1 / y->encoding.scale) - (float)y->encoding.offset);
    return sw_floor_saturated((double)q, UINT8_MAX);
}

typedef struct prepared {
    const sw_row_isa *isa; /* NULL: by the table */
    sw_silu_rule rule;
    const void *table;
} prepared;

static void look_up(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    const sw_dtype type = call->out->dtype;
    const void *x = call->in_data[call->silu_input > 0 ? call->silu_input - 1 : 0];
    const void *table = ((const prepared *)call->prepared)->table;
    for (size_t i = begin; i < end; i++)
        sw_store_unsigned(call->out_data, type, i,
                          sw_load_unsigned(table, type, (size_t)sw_load_unsigned(x, type, i)));
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
    const sw_tanh_steps steps = tanh_steps(x->encoding.scale);
    for (size_t q = begin; q < end; q++) {
        const int32_t d = (int32_t)q + x->encoding.offset;
        const double value = sw_sigmoid_q15(d, steps) * 0x1p-15;
        sw_store_unsigned(f->table, y->dtype, q,
                          y->dtype == SW_U8
                              ? stored_u8(float_sigmoid((float)d * x->encoding.scale), y)
                              : sw_half_up_saturated(value / y->encoding.scale, y->encoding.offset, max));
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
static sw_code get_table(sw_op_call *call, const sw_tensor *x, sw_pool_body *body, sw_arena *arena,
                         sw_error *err) {
    prepared *p = sw_arena_alloc(arena, sizeof *p);
    if (p == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    table_key key;
    memset(&key, 0, sizeof key);
    key.body = body, key.dtype = call->out->dtype, key.x = x->encoding, key.y = call->out->encoding;
    const size_t bytes = ((size_t)sw_dtype_max(call->out->dtype) + 1) * sw_dtype_bytes(call->out->dtype);
    filling f = {.call = call, .body = body};
    call->prepared = p;
    return sw_shared_get(call->shared, &key, sizeof key, bytes, fill_table, &f, &p->table, err);
}

sw_code sw_quantized_sigmoid_prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    return get_table(call, call->in[0], fill_sigmoid, arena, err);
}

void sw_quantized_sigmoid_run(const sw_op_call *call) {
    run_table(call);
}

bool sw_quantized_silu_matches(const sw_op_call *call) {
    return call->silu_input > 0 && table_matches(call, call->silu_input - 1);
}

static const sw_tensor *silu_x(const sw_op_call *call) {
    return call->in[call->silu_input - 1];
}

typedef struct silu {
    sw_tanh_steps steps;
    sw_product product;
    int64_t share;
    bool fits; /* the ratio of cpu/product.h */
} silu;

/* u16: the product's rule of cpu/product.h with the sigmoid as 65536ths, but rounded to eighths, and a bias
 * rounded to single precision. */
static silu silu_of(const sw_op_call *call) {
    const sw_tensor *x = silu_x(call), *y = call->out;
    const float ratio = x->encoding.scale / 65536 * (1 / y->encoding.scale);
    silu s = {.steps = tanh_steps(x->encoding.scale),
              .product = sw_product_of(ratio, x->encoding.offset, 0),
              .fits = y->dtype == SW_U16 && sw_product_fits(ratio)};
    s.product.bias = (int64_t)(float)s.product.bias;
    s.share = sw_product_round(s.product.bias * s.product.multiplier);
    return s;
}

/* Whatever the encoding of the Sigmoid between. */
static void fill_silu(void *context, size_t begin, size_t end) {
    const filling *f = context;
    const sw_tensor *x = silu_x(f->call), *y = f->call->out;
    const int32_t max = sw_dtype_max(y->dtype), offset = y->encoding.offset;
    const silu s = silu_of(f->call);
    for (size_t q = begin; q < end; q++) {
        const int32_t d = (int32_t)q + x->encoding.offset;
        int32_t result;
        if (y->dtype == SW_U8) {
            const double v = (double)((float)d * x->encoding.scale);
            result = stored_u8((float)(v * exact_sigmoid(v)), y);
        } else if (s.fits) {
            const int64_t product = (int64_t)d * 2 * sw_sigmoid_q15(d, s.steps) + s.product.bias;
            result =
                sw_product_store(sw_product_round(product * s.product.multiplier) - s.share, offset, max);
        } else {
            const double v = d * (double)x->encoding.scale;
            result = sw_half_up_saturated(v * exact_sigmoid(v) / y->encoding.scale, offset, max);
        }
        sw_store_unsigned(f->table, y->dtype, q, result);
    }
}

sw_code sw_quantized_silu_prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    const silu s = silu_of(call);
    if (!s.fits || s.product.multiplier >= 1 << 30)
        return get_table(call, silu_x(call), fill_silu, arena, err);
    prepared *p = sw_arena_alloc(arena, sizeof *p);
    if (p == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    *p = (prepared){.isa = sw_row_best(),
                    .rule = {.offset_x = silu_x(call)->encoding.offset,
                             .offset_y = call->out->encoding.offset,
                             .bias = (int32_t)s.product.bias,
                             .multiplier = (int32_t)s.product.multiplier,
                             .share = (int32_t)s.share,
                             .steps = s.steps}};
    call->prepared = p;
    return SW_OK;
}

static void silu_range(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    const prepared *p = call->prepared;
    const uint16_t *x = call->in_data[call->silu_input - 1];
    p->isa->silu_u16(end - begin, x + begin, p->rule, (uint16_t *)call->out_data + begin);
}

void sw_quantized_silu_run(const sw_op_call *call) {
    sw_op_call copy = *call;
    if (((const prepared *)call->prepared)->isa != NULL)
        sw_pool_for(call->pool, (size_t)sw_tensor_elements(call->out), ELEMENTS_PER_RANGE, silu_range, &copy);
    else
        run_table(call);
}
