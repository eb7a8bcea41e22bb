/* quantized_softmax.c: Softmax of u8 and u16.
 *
 * Probabilities in 256ths or 65536ths: HTP's integers. e^x is 2^t, its fraction a parabola in each of 4
 * segments, 15 bits; the sum's reciprocal comes of five Newton steps in as many bits as the sum has, up to
 * 16. Other encodings: e^x in double, half up. Found by comparing with the emulator (docs/numerics.md,
 * "Softmax"). */
#include <math.h>

#include "cpu/quantized.h"
#include "cpu/row_isa.h"

/* e^x = 2^n * e^r, |r| <= ln 2 / 2, the series of e^r to the double's end. */
double sw_exp_of_negative(double x) {
    if (!(x > -700)) return 0;
    double n = (double)(int)(x * 1.4426950408889634 - 0.5);
    double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    double sum = 1;
    for (int i = 16; i > 0; i--) sum = 1 + sum * r / i;
    return ldexp(sum, (int)n); /* exact: a change of the exponent */
}

typedef struct softmax_prepared {
    bool u8, u16; /* by HTP's integers */
    const sw_row_isa *isa;
    int64_t to_log2;   /* of a distance to the row's greatest value: 22 fraction bits */
    double step;       /* otherwise, of a distance: to the natural logarithm */
    double table[256]; /* e^-(d * step), for u8 */
    uint16_t e[256];   /* u8: of 15 fraction bits */
} softmax_prepared;

bool sw_quantized_softmax_matches(const sw_op_call *call) {
    return sw_is_unsigned_quantized(call->in[0]) && call->out->dtype == call->in[0]->dtype &&
           sw_same_elements(call->out, call->in[0]);
}

/* e^x of a value d below the row's greatest, 15 fraction bits. */
static int64_t exp2_q15(int64_t d, int64_t to_log2) {
    const int64_t t = (d * to_log2) >> 6;
    return t >> 16 >= 16 ? 0 : sw_exp2_q15((uint32_t)t);
}

/* The same for u8: its parabola for fractions below 1/4 is another one, of Qualcomm's hexagon-nn
 * (op_softmax_d32.c), and would reach 32768. */
static uint16_t exp2_q15_u8(uint32_t t) {
    const uint32_t f = 65535 - (t & 65535);
    if (f < 49152) return (uint16_t)sw_exp2_q15(t);
    const uint32_t e = (((7230 * f + 16404 * 32768) >> 16) * f + 34675u * 32768) >> 16;
    return (uint16_t)((e < 32767 ? e : 32767) >> (t >> 16));
}

/* Octaves a step of x: single precision and this order, as the HTP's; it is cut, so that its last bit counts.
 */
static double octaves_of(const sw_op_call *call) {
    const float log2_e = 1.44269504f;
    return (double)(call->in[0]->encoding.scale * log2_e * call->op->params.softmax.beta);
}

/* A distance's step to octaves has 8 bits, cut. */
static void prepare_u8(const sw_op_call *call, softmax_prepared *p) {
    const sw_tensor *y = call->out;
    const double octaves = octaves_of(call);
    p->u8 = y->encoding.scale == 1.0f / 256 && y->encoding.offset == 0 && sw_last_dim(y) <= 65536 &&
            octaves >= 0x1p-20 && octaves < 0x1p10;
    if (!p->u8) return;
    int exponent;
    frexp(octaves, &exponent);
    const double cut = ldexp(floor(ldexp(octaves, 8 - exponent)), exponent - 8);
    for (int d = 0; d < 256; d++) {
        const double t = d * cut;
        p->e[d] = t >= 16 ? 0 : exp2_q15_u8((uint32_t)ldexp(t, 16));
    }
}

sw_code sw_quantized_softmax_prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    const sw_tensor *x = call->in[0], *y = call->out;
    softmax_prepared *p = sw_arena_alloc(arena, sizeof *p);
    if (p == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    p->step = (double)x->encoding.scale * call->op->params.softmax.beta;
    const double to_log2 = floor(ldexp(octaves_of(call), 22));
    /* Sums below 2^31, distances below 2^16: then no product leaves 64 bits. */
    p->u16 = x->dtype == SW_U16 && y->encoding.scale == 1.0f / 65536 && y->encoding.offset == 0 &&
             sw_last_dim(x) <= 65536 && to_log2 >= 0 && to_log2 < 0x1p40;
    if (p->u16) p->to_log2 = (int64_t)to_log2, p->isa = sw_row_best();
    for (int d = 0; x->dtype == SW_U8 && d < 256; d++) p->table[d] = sw_exp_of_negative(-d * p->step);
    if (x->dtype == SW_U8) prepare_u8(call, p);
    call->prepared = p;
    return SW_OK;
}

/* 1 / sum as factor / 2^shift. */
typedef struct reciprocal {
    int64_t factor;
    unsigned shift;
} reciprocal;

static reciprocal reciprocal_of(int64_t sum) {
    unsigned bits = 13; /* sum is in [2^bits, 2^(bits + 1)); the greatest value's half alone is 16383 */
    while (sum >> (bits + 1) > 0) bits++;
    const unsigned kept = bits < 16 ? bits : 16; /* of the reciprocal */
    int64_t r = (int64_t)1 << (kept - 1);
    for (int i = 0; i < 5; i++) r = (r * (((int64_t)2 << bits) - ((sum * r) >> kept))) >> bits;
    return (reciprocal){r, bits + kept};
}

/* to_log2 below 2^15, which is 65535 * 2^15 / 2^22 octaves at most, keeps the loops' values in 32 bits. */
static uint64_t exp_row(const softmax_prepared *p, const uint16_t *x, size_t n, uint16_t top, uint16_t *y) {
    if (p->to_log2 < 32768) return p->isa->exp2(n, x, top, (int32_t)p->to_log2, y);
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        y[i] = (uint16_t)exp2_q15(top - x[i], p->to_log2);
        sum += y[i];
    }
    return sum;
}

static int32_t row_u16(const softmax_prepared *p, const uint16_t *x, size_t n, sw_equal_columns equal,
                       uint16_t *y) {
    const int64_t n_equal = (int64_t)(equal.inner + equal.outer);
    const uint16_t top = p->isa->greatest(n, x, n_equal > 0 ? (uint16_t)equal.value : 0);
    const int64_t e_equal = n_equal > 0 ? exp2_q15(top - equal.value, p->to_log2) : 0;
    reciprocal r = reciprocal_of((n_equal * e_equal + (int64_t)exp_row(p, x, n, top, y)) >> 1);
    r.shift -= 15; /* of half the sum, to 65536ths */
    if (r.factor <= 65536 && r.shift < 32)
        p->isa->scale(n, y, (uint32_t)r.factor, r.shift, y);
    else
        for (size_t i = 0; i < n; i++) {
            const int64_t q = (y[i] * r.factor) >> r.shift;
            y[i] = q > UINT16_MAX ? UINT16_MAX : (uint16_t)q;
        }
    return (int32_t)((e_equal * r.factor) >> r.shift);
}

static int32_t row_u8(const softmax_prepared *p, const uint8_t *x, size_t n, sw_equal_columns equal,
                      uint8_t *y) {
    const int64_t n_equal = (int64_t)(equal.inner + equal.outer);
    int32_t top = n_equal > 0 ? equal.value : 0;
    for (size_t i = 0; i < n; i++) top = x[i] > top ? x[i] : top;
    const int64_t e_equal = n_equal > 0 ? p->e[top - equal.value] : 0;
    int64_t sum = n_equal * e_equal;
    for (size_t i = 0; i < n; i++) sum += p->e[top - x[i]];
    reciprocal r = reciprocal_of(sum);
    r.shift -= 8; /* to 256ths */
    const int64_t half = (int64_t)1 << (r.shift - 1);
    for (size_t i = 0; i < n; i++) {
        const int64_t q = (p->e[top - x[i]] * r.factor + half) >> r.shift;
        y[i] = q > UINT8_MAX ? UINT8_MAX : (uint8_t)q;
    }
    const int64_t q = (e_equal * r.factor + half) >> r.shift;
    return q > UINT8_MAX ? UINT8_MAX : (int32_t)q;
}

static double distance_exp(const sw_op_call *call, int32_t d) {
    const softmax_prepared *p = call->prepared;
    return call->in[0]->dtype == SW_U8 ? p->table[d] : sw_exp_of_negative(-d * p->step);
}

/* Sums of doubles, in the order of the columns. */
static int32_t row_exact(const sw_op_call *call, const void *x, size_t n, sw_equal_columns equal, void *out) {
    const sw_tensor *y = call->out;
    const sw_dtype type = y->dtype;
    const int32_t offset = y->encoding.offset, max = sw_dtype_max(type);
    const bool any_equal = equal.inner + equal.outer > 0;
    int32_t top = any_equal ? equal.value : 0;
    for (size_t i = 0; i < n; i++) {
        const int32_t q = sw_load_unsigned(x, type, i);
        if (q > top) top = q;
    }
    const double e_equal = any_equal ? distance_exp(call, top - equal.value) : 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; i == equal.split && k < equal.inner; k++) sum += e_equal;
        sum += distance_exp(call, top - sw_load_unsigned(x, type, i));
    }
    for (size_t k = 0; k < (n <= equal.split ? equal.inner : 0) + equal.outer; k++) sum += e_equal;
    const double multiplier = 1 / (sum * y->encoding.scale);
    for (size_t i = 0; i < n; i++) {
        const double e = distance_exp(call, top - sw_load_unsigned(x, type, i));
        sw_store_unsigned(out, type, i, sw_half_up_saturated(e * multiplier, offset, max));
    }
    return any_equal ? sw_half_up_saturated(e_equal * multiplier, offset, max) : 0;
}

int32_t sw_quantized_softmax_row(const sw_op_call *call, const void *x, size_t n, sw_equal_columns equal,
                                 void *y) {
    const softmax_prepared *p = call->prepared;
    if (p->u8) return row_u8(p, x, n, equal, y);
    return p->u16 ? row_u16(p, x, n, equal, y) : row_exact(call, x, n, equal, y);
}

static void softmax_rows(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    const size_t c = sw_last_dim(call->in[0]), bytes = c * sw_dtype_bytes(call->out->dtype);
    const sw_equal_columns none = {0, 0, 0, 0};
    for (size_t r = begin; r < end; r++)
        (void)sw_quantized_softmax_row(call, (const char *)call->in_data[0] + r * bytes, c, none,
                                       (char *)call->out_data + r * bytes);
}

void sw_quantized_softmax_run(const sw_op_call *call) {
    sw_op_call copy = *call;
    sw_pool_for(call->pool, (size_t)sw_tensor_elements(call->in[0]) / sw_last_dim(call->in[0]), 1,
                softmax_rows, &copy);
}
