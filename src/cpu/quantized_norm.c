/* quantized_norm.c: RmsNorm of u8 and u16: x * r * gamma, cut, with r = 1 / sqrt(mean(x^2) + epsilon) of a
 * row.
 *
 * HTP's arithmetic, to the bit. The sum of squares is exact; its mean, r and r * gamma are qf32 (cpu/qf32.h)
 * in the order given here, found by comparing with the emulator (docs/numerics.md, "RmsNorm"). Results of u8
 * are rounded to half precision, which lifts those just below an integer. */
#include <math.h>

#include "cpu/qf32.h"
#include "cpu/quantized.h"
#include "cpu/row_isa.h"

/* Gamma over the output's scale, g = mantissa * unit, and what it takes to make the step of g * r that of its
 * factors; signs are in unit: mantissa >= 0. */
typedef struct prepared {
    const sw_row_isa *isa;
    float *mantissas, *units; /* exact: 24 bits, and powers of two */
} prepared;

bool sw_quantized_rms_norm_matches(const sw_op_call *call) {
    const sw_tensor *x = call->in[0], *gamma = call->in[1], *y = call->out;
    return sw_is_unsigned_quantized(x) && sw_is_unsigned_quantized(gamma) && y->dtype == x->dtype &&
           sw_same_elements(y, x) && gamma->rank == 1 && gamma->dims[0] == sw_last_dim(x);
}

/* A part of 32 bits over n: its two halves, each over n. */
static sw_qf32 part_of_mean(uint32_t sum, float by_n) {
    const float high = (float)(sum >> 16), low = (float)(sum & 0xffff);
    return sw_qf32_add(sw_qf32_multiply(sw_qf32_operand(high), sw_qf32_operand(65536 * by_n)),
                       sw_qf32_multiply(sw_qf32_operand(low), sw_qf32_operand(by_n)));
}

/* 1 / sqrt(sum / n + epsilon), all in units of the input's step: Newton's iteration, y (1.5 - x y^2 / 2). */
static float reciprocal_root(int64_t sum, float by_n, float epsilon) {
    const sw_qf32 high = part_of_mean((uint32_t)(sum >> 32), by_n), low = part_of_mean((uint32_t)sum, by_n);
    const sw_qf32 mean = sw_qf32_add(sw_qf32_multiply(high, sw_qf32_operand(0x1p32f)), low);
    const float x = sw_qf32_to_float(sw_qf32_add(mean, sw_qf32_operand(epsilon)));
    const float half = sw_qf32_product(x, 0.5f);
    union {
        float f;
        int32_t bits;
    } y = {.f = x};
    y.bits = 0x5f375a86 - (y.bits >> 1);
    for (int i = 0; i < 3; i++) {
        const float p = sw_qf32_product(sw_qf32_product(half, y.f), y.f);
        y.f = sw_qf32_product(y.f, sw_qf32_to_float(sw_qf32_round(1.5 - (double)p, 0, 0)));
    }
    return y.f;
}

static void make_columns(const sw_op_call *call, const void *data, prepared *p) {
    const sw_tensor *gamma = call->in[1];
    for (size_t i = 0; i < gamma->dims[0]; i++) {
        const int32_t q = sw_load_unsigned(data, gamma->dtype, i) + gamma->encoding.offset;
        const float g = (float)q * gamma->encoding.scale / call->out->encoding.scale;
        int e;
        const float m = frexpf(fabsf(g), &e);
        p->mantissas[i] = ldexpf(m, 23);
        p->units[i] = ldexpf(q < 0 ? -1 : 1, q == 0 ? -126 : e - 23);
    }
}

sw_code sw_quantized_rms_norm_prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    const size_t c = sw_last_dim(call->in[0]);
    prepared *p = sw_arena_alloc(arena, sizeof *p);
    if (p == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    *p = (prepared){.isa = sw_row_best(),
                    .mantissas = sw_arena_array(arena, c, sizeof *p->mantissas),
                    .units = sw_arena_array(arena, c, sizeof *p->units)};
    if (p->mantissas == NULL || p->units == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    if (call->in[1]->kind == SW_TENSOR_CONSTANT) make_columns(call, call->in[1]->data, p);
    call->prepared = p;
    return SW_OK;
}

/* u16: floor(x * qf32(g * r)). The product with x, a qf32 too, stays between the same integers, but for
 * zeros: those with a minus sign (x = 0 and gamma < 0, or x < 0 and gamma = 0) fall to -1. u8: the same, in
 * half precision with the zero point before it is cut. */
static void rms_norm_rows(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    const prepared *p = call->prepared;
    const sw_tensor *x = call->in[0];
    const size_t c = sw_last_dim(x);
    const float scale = x->encoding.scale;
    const float epsilon = call->op->params.rms_norm.epsilon / (scale * scale), by_n = 1 / (float)c;
    const uint16_t *q16 = call->in_data[0];
    const uint8_t *q8 = call->in_data[0];
    for (size_t row = begin; row < end; row++) {
        const size_t at = row * c;
        const int32_t offset = x->encoding.offset;
        const int64_t squares = x->dtype == SW_U8 ? p->isa->squares_u8(c, q8 + at, offset)
                                                  : p->isa->squares_u16(c, q16 + at, offset);
        int e;
        const double m = frexp((double)reciprocal_root(squares, by_n, epsilon), &e);
        const sw_norm_rule rule = {offset, call->out->encoding.offset, m, ldexp(1, e)};
        if (x->dtype == SW_U8)
            p->isa->norm_u8(c, q8 + at, p->mantissas, p->units, rule, (uint8_t *)call->out_data + at);
        else
            p->isa->norm_u16(c, q16 + at, p->mantissas, p->units, rule, (uint16_t *)call->out_data + at);
    }
}

void sw_quantized_rms_norm_run(const sw_op_call *call) {
    sw_op_call copy = *call;
    if (call->in[1]->kind != SW_TENSOR_CONSTANT) make_columns(call, call->in_data[1], call->prepared);
    sw_pool_for(call->pool, (size_t)sw_tensor_elements(call->in[0]) / sw_last_dim(call->in[0]), 1,
                rms_norm_rows, &copy);
}
