/* row_loops.h: the loops of cpu/row_isa.h, in C that compilers turn into vectors. Included once by each
 * variant, which defines ROW_ISA (its table's name) and ROW_NEEDS. */
#include <math.h>
#include <string.h>

#include "cpu/row_isa.h"

static inline int32_t held(int32_t v, int32_t max) {
    return v < 0 ? 0 : v > max ? max : v;
}

static int64_t squares_u8(size_t n, const uint8_t *x, int32_t offset) {
    int64_t sum = 0;
    for (size_t begin = 0; begin < n; begin += 16384) { /* 2^14 squares below 2^16 fit 32 bits */
        const size_t end = n - begin < 16384 ? n : begin + 16384;
        int32_t part = 0;
        for (size_t i = begin; i < end; i++) part += (x[i] + offset) * (x[i] + offset);
        sum += part;
    }
    return sum;
}

/* A square below 2^32, of which each half is summed in 32 bits. */
static int64_t squares_u16(size_t n, const uint16_t *x, int32_t offset) {
    int64_t sum = 0;
    for (size_t begin = 0; begin < n; begin += 65536) {
        const size_t end = n - begin < 65536 ? n : begin + 65536;
        uint32_t low = 0, high = 0;
        for (size_t i = begin; i < end; i++) {
            const uint32_t v = (uint32_t)(x[i] + offset), square = v * v;
            low += square & 0xffff, high += square >> 16;
        }
        sum += (int64_t)low + ((int64_t)high << 16);
    }
    return sum;
}

/* qf32(g * r) of a column, in its unit. */
static inline double norm_factor(double mantissa, double r) {
    const double product = mantissa * r; /* below 2^23; not below 2^22 where g * r carries */
    const double step = (double)(int32_t)product, at = product - step;
    const double low = at > 0.375 ? 0.5 : 0.25, fine = at > 0.625 ? 0.75 : low;
    return step + (product >= 0x1p22 ? 0.5 : fine);
}

static void norm_u16(size_t n, const uint16_t *restrict x, const float *restrict mantissas,
                     const float *restrict units, sw_norm_rule rule, uint16_t *restrict y) {
    for (size_t i = 0; i < n; i++) {
        const int32_t v = x[i] + rule.offset_x;
        const double wide = (double)v + (v == 0 ? 0x1p-60 : 0.0); /* a zero goes by its factor's sign */
        const double factor = norm_factor((double)mantissas[i], rule.factor) * ((double)units[i] * rule.unit);
        double z = floor(wide * factor) - rule.offset_y;
        z = z > 0.0 ? z : 0.0;
        z = z < UINT16_MAX ? z : UINT16_MAX;
        y[i] = (uint16_t)(int32_t)z;
    }
}

/* Half precision's 11 bits, nearest, ties to even; what is below its normal range is 0 when cut. */
static inline double shortened(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    bits = (bits + ((UINT64_C(1) << 41) - 1) + (bits >> 42 & 1)) & ~((UINT64_C(1) << 42) - 1);
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void norm_u8(size_t n, const uint8_t *restrict x, const float *restrict mantissas,
                    const float *restrict units, sw_norm_rule rule, uint8_t *restrict y) {
    for (size_t i = 0; i < n; i++) {
        const double factor = norm_factor((double)mantissas[i], rule.factor) * ((double)units[i] * rule.unit);
        double z = (double)(x[i] + rule.offset_x) * factor - (double)rule.offset_y;
        z = z > 0.0 ? z : 0.0;
        z = z < UINT8_MAX ? z : UINT8_MAX;
        y[i] = (uint8_t)(int32_t)shortened(z);
    }
}

#define ADD_LOOP(type)                                                                                       \
    for (size_t i = 0; i < n; i++) {                                                                         \
        const uint32_t sum = a[i] * rule.by_a + b[i] * rule.by_b;                                            \
        y[i] = (type)held(((int32_t)(sum >> rule.cut) + rule.constant) >> rule.shift, rule.max);             \
    }

static void add_u8(size_t n, const uint8_t *restrict a, const uint8_t *restrict b, sw_add_rule rule,
                   uint8_t *restrict y) {
    ADD_LOOP(uint8_t)
}

static void add_u16(size_t n, const uint16_t *restrict a, const uint16_t *restrict b, sw_add_rule rule,
                    uint16_t *restrict y) {
    ADD_LOOP(uint16_t)
}

/* a b may need 33 bits, with the bias it has 32: it is computed modulo 2^32. The product by the multiplier
 * has 62 bits; bits 31 and up of it are the result, which has 32. */
static inline int32_t eighths(int32_t a, int32_t b, int32_t bias, int32_t multiplier) {
    const int32_t product = (int32_t)((uint32_t)a * (uint32_t)b + (uint32_t)bias);
    return (int32_t)((uint64_t)((int64_t)product * multiplier) >> 31);
}

static void multiply_u16(size_t n, const uint16_t *restrict a, const uint16_t *restrict b,
                         sw_multiply_rule rule, uint16_t *restrict y) {
    for (size_t i = 0; i < n; i++) {
        const int32_t e = eighths(a[i] + rule.za, b[i] + rule.zb, rule.bias, rule.multiplier);
        y[i] = (uint16_t)held(((e - rule.share + 4) >> 3) - rule.offset, UINT16_MAX);
    }
}

static void multiply_u8(size_t n, const uint8_t *restrict a, const uint8_t *restrict b,
                        sw_multiply8_rule rule, uint8_t *restrict y) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t product = (uint32_t)((a[i] + rule.za) * (b[i] + rule.zb));
        y[i] = (uint8_t)held((int32_t)(product * rule.multiplier + rule.constant) >> rule.shift, UINT8_MAX);
    }
}

static inline int32_t product8(int32_t a, int32_t b, sw_product8_rule r) {
    return ((int32_t)((uint32_t)(a * b) * r.multiplier + r.constant) >> 15) - r.steps;
}

static void rotary_u8(size_t half, const uint8_t *restrict x, const uint8_t *restrict cosine,
                      const uint8_t *restrict sine, sw_rotary8_rule r, uint8_t *restrict y) {
    for (size_t i = 0; i < half; i++) {
        const int32_t a = x[i] + r.zx, b = x[i + half] + r.zx, c = cosine[i] + r.zc, s = sine[i] + r.zs;
        const int32_t low = product8(a, c, r.cosine) - product8(b, s, r.sine);
        const int32_t high = product8(b, c, r.cosine) + product8(a, s, r.sine);
        y[i] = (uint8_t)held(((low + r.half) >> r.fraction) - r.offset, UINT8_MAX);
        y[i + half] = (uint8_t)held(((high + r.half) >> r.fraction) - r.offset, UINT8_MAX);
    }
}

/* Of sizes [n], n a multiple of 16; a variant may have its own, as compilers make no vectors of table
 * look-ups. */
#ifndef ROW_SIGMOIDS
static void sigmoids_of_positive(size_t n, const uint32_t *sizes, sw_tanh_steps steps, int32_t *out) {
    for (size_t i = 0; i < n; i++) out[i] = sw_sigmoid_q15_of_positive(sizes[i], steps);
}
#endif

static void silu_u16(size_t n, const uint16_t *restrict x, sw_silu_rule r, uint16_t *restrict y) {
    enum { BLOCK = 256 };
    int32_t sigmoids[BLOCK];
    uint32_t sizes[BLOCK] = {0};
    for (size_t begin = 0; begin < n; begin += BLOCK, x += BLOCK, y += BLOCK) {
        const size_t m = n - begin < BLOCK ? n - begin : BLOCK;
        for (size_t i = 0; i < m; i++) {
            const int32_t d = x[i] + r.offset_x;
            sizes[i] = (uint32_t)(d < 0 ? -d : d);
        }
        sigmoids_of_positive((m + 15) / 16 * 16, sizes, r.steps, sigmoids);
        for (size_t i = 0; i < m; i++) {
            const int32_t d = x[i] + r.offset_x, sigmoid = d < 0 ? 32767 - sigmoids[i] : sigmoids[i];
            const uint32_t bits = (uint32_t)d * (uint32_t)(2 * sigmoid);
            const int64_t product = (int64_t)(int32_t)(bits + (uint32_t)r.bias) * r.multiplier;
            const int32_t e = (int32_t)((uint64_t)(product + (1 << 30)) >> 31);
            y[i] = (uint16_t)held(((e - r.share + 4) >> 3) - r.offset_y, UINT16_MAX);
        }
    }
}

static void rotary_u16(size_t half, const uint16_t *restrict x, const uint16_t *restrict cosine,
                       const uint16_t *restrict sine, sw_rotary_rule r, uint16_t *restrict y) {
    for (size_t i = 0; i < half; i++) {
        const int32_t a = x[i] + r.zx, b = x[i + half] + r.zx, c = cosine[i] + r.zc, s = sine[i] + r.zs;
        const int32_t low = eighths(a, c, r.cos_bias, r.cos_multiplier) -
                            eighths(b, s, r.sin_bias, r.sin_multiplier) - r.low_share;
        const int32_t high = eighths(b, c, r.cos_bias, r.cos_multiplier) +
                             eighths(a, s, r.sin_bias, r.sin_multiplier) - r.high_share;
        y[i] = (uint16_t)held(((low + 4) >> 3) - r.offset, UINT16_MAX);
        y[i + half] = (uint16_t)held(((high + 4) >> 3) - r.offset, UINT16_MAX);
    }
}

static void narrow(size_t n, const uint16_t *restrict x, sw_narrow_rule rule, uint8_t *restrict y) {
    for (size_t i = 0; i < n; i++)
        y[i] = (uint8_t)held((x[i] * rule.multiplier + rule.constant) >> rule.shift, UINT8_MAX);
}

static uint16_t greatest(size_t n, const uint16_t *x, uint16_t least) {
    uint16_t top = least;
    for (size_t i = 0; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

static uint64_t exp2_loop(size_t n, const uint16_t *restrict x, uint16_t top, int32_t to_log2,
                          uint16_t *restrict y) {
    uint64_t sum = 0;
    for (size_t begin = 0; begin < n; begin += 65536) { /* 2^16 values of 15 bits fit 32 */
        const size_t end = n - begin < 65536 ? n : begin + 65536;
        uint32_t part = 0;
        for (size_t i = begin; i < end; i++) {
            const uint32_t e = sw_exp2_q15((uint32_t)((top - x[i]) * to_log2) >> 6);
            y[i] = (uint16_t)e;
            part += e;
        }
        sum += part;
    }
    return sum;
}

static void scale(size_t n, const uint16_t *e, uint32_t factor, unsigned shift, uint16_t *y) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t q = (e[i] * factor) >> shift;
        y[i] = (uint16_t)(q < UINT16_MAX ? q : UINT16_MAX);
    }
}

const sw_row_isa ROW_ISA = {.needs = ROW_NEEDS,
                            .squares_u8 = squares_u8,
                            .squares_u16 = squares_u16,
                            .norm_u16 = norm_u16,
                            .norm_u8 = norm_u8,

                            .add_u8 = add_u8,
                            .add_u16 = add_u16,
                            .multiply_u16 = multiply_u16,
                            .multiply_u8 = multiply_u8,
                            .rotary_u8 = rotary_u8,
                            .silu_u16 = silu_u16,
                            .rotary_u16 = rotary_u16,
                            .narrow = narrow,
                            .greatest = greatest,
                            .exp2 = exp2_loop,
                            .scale = scale};
