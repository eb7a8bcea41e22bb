/* product.h: the product of two u16 values as HTP's vector unit takes it: biased into 32 bits, scaled to
 * eighths of an output step, cut. The rule is that of Qualcomm's hexagon-nn (op_addsubmul_16.c) but for the
 * cut, where that rounds; the emulator's integers confirm it (docs/numerics.md, "ElementWiseMultiply").
 *
 *   e(a, b) = floor((a * b + bias) * multiplier / 2^31)      a, b with their offsets added
 *   bias centres a * b in 32 bits; share = round(bias * multiplier / 2^31) takes it off again, so that up to
 *   half an eighth of a step stays behind, the same for every product of an op. */
#ifndef SW_CPU_PRODUCT_H
#define SW_CPU_PRODUCT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Of two u8 values: the ratio as a multiplier of `shift` fraction bits, the product less a multiple of 256
 * that centres it, and the whole steps of 2^15 that give that back. */
typedef struct sw_product8 {
    int64_t multiplier, centre, steps;
} sw_product8;

/* For the greatest ratio of an op, below 1: 15 bits after it is rounded, but no more than 22 of fraction. At
 * least 14. */
static inline unsigned sw_product8_shift(float ratio) {
    int exponent;
    const double mantissa = frexp((double)ratio, &exponent);
    if (exponent < -7) return 22;
    return (unsigned)(15 - exponent - (rint(ldexp(mantissa, 15)) >= 0x1p15));
}

static inline sw_product8 sw_product8_of(float ratio, unsigned shift, int32_t offset_a, int32_t offset_b) {
    const int64_t a = offset_a, b = offset_b;
    const int64_t multiplier = (int64_t)rint(ldexp((double)ratio, (int)shift));
    const int64_t centre = (((2 * a + 255) * (2 * b + 255) + 256) >> 9) * 256 * multiplier;
    return (sw_product8){multiplier, centre, (16383 - centre) >> 15}; /* -centre, half down */
}

/* In 2^-(shift - 15) of an output step, half up. a, b with their offsets added. */
static inline int64_t sw_product8_rounded(sw_product8 p, int32_t a, int32_t b) {
    return ((a * b * p.multiplier - p.centre + (1 << 14)) >> 15) - p.steps;
}

typedef struct sw_product {
    int64_t multiplier; /* of 31 fraction bits, below 2^31 */
    int64_t bias;       /* |a * b + bias| <= 2^31 */
} sw_product;

/* ratio: output steps a unit of a * b, as the HTP computes it in single precision. */
static inline sw_product sw_product_of(float ratio, int32_t offset_a, int32_t offset_b) {
    const int64_t a = offset_a, b = offset_b;
    const double multiplier = rint(ldexp((double)ratio, 34));
    return (sw_product){multiplier < 0x7fffffff ? multiplier > 0 ? (int64_t)multiplier : 0 : 0x7fffffff,
                        32768 + a - (2 * a + 65535) * (b + 32768)};
}

/* True where a * b * multiplier + constant has 32 bits for all integers of [0, top] with their offsets added:
 * it is greatest and least at the corners. */
static inline bool sw_products_fit_int32(int32_t offset_a, int32_t offset_b, int32_t top, int64_t multiplier,
                                         int64_t constant) {
    for (int corner = 0; corner < 4; corner++) {
        const int64_t a = offset_a + (corner % 2) * (int64_t)top, b = offset_b + corner / 2 * (int64_t)top;
        const int64_t v = a * b * multiplier + constant;
        if (v < INT32_MIN || v > INT32_MAX) return false;
    }
    return true;
}

/* True where the multiplier has room for the ratio: up to 1/8 of a step. */
static inline bool sw_product_fits(float ratio) {
    return ratio < 0.125f;
}

/* floor(v / 2^31) and round(v / 2^31), v of 64 bits. */
static inline int64_t sw_product_cut(int64_t v) {
    return v >> 31;
}
static inline int64_t sw_product_round(int64_t v) {
    return (v + (1 << 30)) >> 31;
}

static inline int64_t sw_product_eighths(sw_product p, int64_t a, int64_t b) {
    return sw_product_cut((a * b + p.bias) * p.multiplier);
}

/* The same, to the nearest. */
static inline int64_t sw_product_rounded_eighths(sw_product p, int64_t a, int64_t b) {
    return sw_product_round((a * b + p.bias) * p.multiplier);
}

/* From eighths of a step to the stored integer: half up, saturated. */
static inline int32_t sw_product_store(int64_t eighths, int32_t offset, int32_t max) {
    const int64_t q = ((eighths + 4) >> 3) - offset;
    return q < 0 ? 0 : q > max ? max : (int32_t)q;
}

#endif
