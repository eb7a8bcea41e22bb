/* requantize.h: from the integer sum of a matrix product to the stored output, as HTP's matrix unit does it:
 * the sum loses its low bits, half of what was lost is put back, and a short multiplier follows. Found by
 * comparing with the emulator, whose integers this gives (docs/numerics.md, "Matrix products").
 *
 *   u8:  S = sum (q_x + offset) * w
 *        multiplier m of 12 bits, S cut to steps of at most 1/8 output step
 *   u16: S = floor(sum q_x * w / 256) + floor((offset * sum w + 127) / 256)
 *        multiplier 256 m of 22 bits, steps of at most 1/128
 *   y  = floor((floor(S / G) + 1/2) * G * multiplier + 1/2) - offset_y, saturated
 *
 * G is the power of two that makes G * multiplier <= the step; below 1 nothing is cut and half of G is added.
 */
#ifndef SW_CPU_REQUANTIZE_H
#define SW_CPU_REQUANTIZE_H

#include <math.h>
#include <string.h>

#include "cpu/quantized.h"

/* y = ((S >> shift) + half) * step. step and half are short enough to be exact in single precision; the
 * arithmetic is double. */
typedef struct sw_requantizer {
    float step, half;
    int32_t shift;
} sw_requantizer;

/* 2^n, n from -1022 to 1023: there are two for each channel of a model, and ldexp is slow. */
static inline double sw_power_of_two(int n) {
    const uint64_t bits = (uint64_t)(1023 + n) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* multiplier: scales of the factors over the output's, computed in single precision as the HTP does. */
static inline sw_requantizer sw_requantizer_of(float multiplier, sw_dtype type) {
    const bool wide = type == SW_U16;
    const int bits = wide ? 22 : 12, step_bits = wide ? 7 : 3;
    int exponent;
    double mantissa =
        frexp(wide ? 256 * (double)multiplier : (double)multiplier, &exponent); /* in [1/2, 1) */
    double rounded = floor(mantissa * sw_power_of_two(bits) + 0.5) * sw_power_of_two(exponent - bits);
    int shift = -step_bits - exponent;
    if (shift < 0) return (sw_requantizer){(float)rounded, (float)sw_power_of_two(shift - 1), 0};
    return (sw_requantizer){(float)(rounded * sw_power_of_two(shift)), 0.5f,
                            shift > 62 ? 62 : shift}; /* any sum is 0 or -1 then */
}

static inline int32_t sw_requantize(sw_requantizer r, int64_t sum, int32_t offset, int32_t max) {
    return sw_half_up_saturated(((double)(sum >> r.shift) + (double)r.half) * (double)r.step, offset, max);
}

/* What share = offset * sum w adds to a u16 product's S, and the S of that and raw = sum q_x * w. */
static inline int64_t sw_wide_share(int64_t share) {
    return (share + 127) >> 8;
}
static inline int64_t sw_wide_sum(int64_t raw, int64_t share) {
    return (raw >> 8) + sw_wide_share(share);
}

#endif
