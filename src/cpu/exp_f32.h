/* exp_f32.h: e^x for x <= 0, of + and * alone, so that it vectorizes and has the same bits on every machine.
 *
 * Method: x = n ln 2 + r with |r| <= 0.35, ln 2 in two parts so that n * high is exact (Cody and Waite,
 * "Software Manual for the Elementary Functions", 1980); e^r by its Taylor series to r^7, whose rest is below
 * 6e-9; 2^n in two factors, so that subnormal results are right. Within 1.03 ulp where the result is normal
 * (measured over all floats of at least 2^-25 in size); 0 below -104; NaN of NaN. */
#ifndef SW_CPU_EXP_F32_H
#define SW_CPU_EXP_F32_H

#include <stddef.h>

#include "base/f16.h"

/* For x in [-105, 0]. */
static inline float sw_exp_f32_in_range(float x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    float shifted = x * 1.44269504f + magic;
    float n = shifted - magic;
    float r = x - n * 0.693145751953125f - n * 1.42860677e-6f;
    float p = 1.0f / 720 + r * (1.0f / 5040);
    p = 1.0f / 24 + r * (1.0f / 120 + r * p);
    p = 0.5f + r * (1.0f / 6 + r * p);
    p = 1.0f + (r + r * r * p);
    uint32_t power =
        sw_f32_to_bits(shifted) - 0x4b400000u + 256u;   /* n + 256, so that halving needs no sign */
    uint32_t first = power / 2, second = power - first; /* each 128 too large */
    /* Below 2^-150 the result is 0; multiplying by 0 gets there without a slow underflow. */
    float low = sw_bits_to_f32(first < 53u ? 0u : (first - 1u) << 23);
    return p * low * sw_bits_to_f32((second - 1u) << 23);
}

/* Loops that compilers vectorize with what the including file may use; see sw_f32_isa.exp. They are two,
 * since of a bound and what follows it gcc 12 makes control flow, which it doesn't vectorize. */
static inline void sw_exp_f32_loop(size_t n, float scale, float shift, const float *in, float *out) {
    for (size_t i = 0; i < n; i++) {
        float x = scale * in[i] - shift;
        out[i] = x < -105.0f ? -105.0f : x;
    }
    for (size_t i = 0; i < n; i++) out[i] = sw_exp_f32_in_range(out[i]);
}

#endif
