/* row_isa.h: the inner loops of the elementwise ops on u16, one variant an instruction set: the same C,
 * compiled for each (cpu/row_loops.h), so all give the same integers. The rules are in docs/numerics.md; what
 * a loop asks of its parameters keeps every value in 32 bits, but for the products, which have 64. */
#ifndef SW_CPU_ROW_ISA_H
#define SW_CPU_ROW_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu_features.h"

/* y = (((a * by_a + b * by_b) >> cut) + constant) >> shift, saturated to [0, max]. No sum leaves 32 bits. */
typedef struct sw_add_rule {
    uint32_t by_a, by_b;
    int32_t constant, max;
    unsigned cut, shift;
} sw_add_rule;

/* cpu/product.h: e(a, b) = floor((a b + bias) multiplier / 2^31), y = ((e - share + 4) >> 3) - offset; za,
 * zb: offsets of a and b. */
typedef struct sw_multiply_rule {
    int32_t za, zb, bias, multiplier, share, offset;
} sw_multiply_rule;

/* y = (a b multiplier + constant) >> shift, saturated to u8; the sum fits int32. */
typedef struct sw_multiply8_rule {
    int32_t za, zb;
    uint32_t multiplier, constant; /* modulo 2^32 */
    unsigned shift;
} sw_multiply8_rule;

/* cpu/product.h: p = ((a b multiplier + constant) >> 15) - steps; low = p_cos(a, c) - p_sin(b, s), high =
 * p_cos(b, c) + p_sin(a, s), y = ((p + half) >> fraction) - offset. The sums in brackets fit int32. */
typedef struct sw_product8_rule {
    uint32_t multiplier, constant; /* modulo 2^32 */
    int32_t steps;
} sw_product8_rule;
typedef struct sw_rotary8_rule {
    int32_t zx, zc, zs, half, offset;
    sw_product8_rule cosine, sine;
    unsigned fraction;
} sw_rotary8_rule;

/* x steps of an input are x * multiplier / 2^shift of 2^16 at 32/3; multiplier <= 2^16. */
typedef struct sw_tanh_steps {
    uint32_t multiplier;
    unsigned shift;
} sw_tanh_steps;

/* x * Sigmoid(x): the same with b the sigmoid as 65536ths, but rounded: e = floor(... / 2^31 + 1/2). steps:
 * of sw_sigmoid_q15. multiplier < 2^30, so that e - share fits. */
typedef struct sw_silu_rule {
    int32_t offset_x, offset_y, bias, multiplier, share;
    sw_tanh_steps steps;
} sw_silu_rule;

/* low = e_cos(a, c) - e_sin(b, s), high = e_cos(b, c) + e_sin(a, s), each less its share. */
typedef struct sw_rotary_rule {
    int32_t zx, zc, zs, cos_bias, cos_multiplier, sin_bias, sin_multiplier, low_share, high_share, offset;
} sw_rotary_rule;

/* y = (q * multiplier + constant) >> shift, saturated to u8. No sum leaves 32 bits. */
typedef struct sw_narrow_rule {
    int32_t multiplier, constant;
    unsigned shift;
} sw_narrow_rule;

/* A row of RmsNorm: what quantized_norm.c says of its columns; factor and unit are the row's. */
typedef struct sw_norm_rule {
    int32_t offset_x, offset_y;
    double factor, unit;
} sw_norm_rule;

typedef struct sw_row_isa {
    sw_isa needs;
    /* Sum of (x + offset)^2, n < 2^31. */
    int64_t (*squares_u8)(size_t n, const uint8_t *x, int32_t offset);
    int64_t (*squares_u16)(size_t n, const uint16_t *x, int32_t offset);
    /* y = floor(x * ((step + middle) * unit)) - offset_y: columns' mantissas and units [n]. u8: cut when the
     * offset is off and the value rounded to half precision. */
    void (*norm_u16)(size_t n, const uint16_t *x, const float *mantissas, const float *units,
                     sw_norm_rule rule, uint16_t *y);
    void (*norm_u8)(size_t n, const uint8_t *x, const float *mantissas, const float *units, sw_norm_rule rule,
                    uint8_t *y);
    void (*add_u8)(size_t n, const uint8_t *a, const uint8_t *b, sw_add_rule rule, uint8_t *y);
    void (*add_u16)(size_t n, const uint16_t *a, const uint16_t *b, sw_add_rule rule, uint16_t *y);
    void (*multiply_u16)(size_t n, const uint16_t *a, const uint16_t *b, sw_multiply_rule rule, uint16_t *y);
    void (*multiply_u8)(size_t n, const uint8_t *a, const uint8_t *b, sw_multiply8_rule rule, uint8_t *y);
    void (*rotary_u8)(size_t half, const uint8_t *x, const uint8_t *cosine, const uint8_t *sine,
                      sw_rotary8_rule rule, uint8_t *y);
    void (*silu_u16)(size_t n, const uint16_t *x, sw_silu_rule rule, uint16_t *y);
    void (*rotary_u16)(size_t half, const uint16_t *x, const uint16_t *cosine, const uint16_t *sine,
                       sw_rotary_rule rule, uint16_t *y);
    void (*narrow)(size_t n, const uint16_t *x, sw_narrow_rule rule, uint8_t *y);

    /* Softmax: the greatest of n values and `least`. */
    uint16_t (*greatest)(size_t n, const uint16_t *x, uint16_t least);
    /* y = 2^-t of 15 fraction bits, t = (top - x) * to_log2 / 2^22, to_log2 < 2^15; returns their sum. */
    uint64_t (*exp2)(size_t n, const uint16_t *x, uint16_t top, int32_t to_log2, uint16_t *y);
    /* y = min(65535, (e * factor) >> shift), factor <= 2^16; y may be e. */
    void (*scale)(size_t n, const uint16_t *e, uint32_t factor, unsigned shift, uint16_t *y);
} sw_row_isa;

/* 2^-t of 15 fraction bits, t >= 0 of 16: with t = n - f, f in [0, 1), a parabola in each of 4 segments of f
 * gives 2^f / 2. */
static inline uint32_t sw_exp2_q15(uint32_t t) {
    const uint32_t f = 65535 - (t & 65535), whole = t >> 16;
    const bool upper = f >= 32768, odd = (f & 16384) != 0;
    const uint32_t c0 = upper ? (odd ? 34681 : 33371) : (odd ? 32876 : 32769);
    const uint32_t c1 = upper ? (odd ? 16401 : 19857) : (odd ? 21816 : 22652);
    const uint32_t c2 = upper ? (odd ? 7227 : 6087) : (odd ? 5119 : 4300);
    const uint32_t slope = (c2 * f + c1 * 32768) >> 16;
    return ((slope * f + c0 * 32768) >> 16) >> (whole < 31 ? whole : 31);
}

/* Sigmoid of 15 fraction bits, 16384..32767, of `size` input steps above 0, size < 2^16; `steps` as
 * quantized_sigmoid.c has them. Of the tanh of half of it each of 16 segments is a cubic, in powers of v^2:
 * of 15, 17, 20 and 23 fraction bits. */
_Alignas(64) static const int32_t sw_tanh_segments[4][16] = {
    {32766, 32746, 32702, 32613, 32453, 32179, 31735, 31044, 30007, 28509, 26426, 23647, 20101, 15800, 10858,
     5494},
    {-58, -117, -250, -475, -837, -1392, -2214, -3385, -4987, -7078, -9658, -12622, -15726, -18595, -20788,
     -21927},
    {-36, -390, -672, -1115, -1760, -2667, -3894, -5465, -7354, -9406, -11296, -12509, -12443, -10586, -6953,
     -2101},
    {-1125, -742, -1192, -1725, -2424, -3266, -4178, -5006, -5405, -4952, -3158, 262, 4941, 9594, 12789,
     13087},
};

static inline int32_t sw_sigmoid_q15_of_positive(uint32_t size, sw_tanh_steps steps) {
    const uint32_t at = (size * steps.multiplier) >> steps.shift, v = at < 65535 ? 65535 - at : 0;
    const int32_t square = (int32_t)(v * v >> 16), rest = square & 4095, segment = square >> 12;
    int32_t t = ((sw_tanh_segments[3][segment] * rest + (1 << 14)) >> 15) + sw_tanh_segments[2][segment];
    t = ((t * rest + (1 << 14)) >> 15) + sw_tanh_segments[1][segment];
    t = ((t * 2 * rest + (1 << 14)) >> 15) + sw_tanh_segments[0][segment];
    return (t + 32768) >> 1;
}

/* Of d steps of either sign. */
static inline int32_t sw_sigmoid_q15(int32_t d, sw_tanh_steps steps) {
    const int32_t result = sw_sigmoid_q15_of_positive((uint32_t)(d < 0 ? -d : d), steps);
    return d < 0 ? 32767 - result : result;
}

extern const sw_row_isa sw_row_scalar;
#if defined(__x86_64__)
extern const sw_row_isa sw_row_avx2, sw_row_avx512;
#endif

/* Best first; the last is scalar. */
extern const sw_row_isa *const sw_row_variants[];
extern const size_t sw_row_variant_count;

/* The first variant that this processor can run and SPILLWAY_ISA allows. */
const sw_row_isa *sw_row_best(void);

#endif
