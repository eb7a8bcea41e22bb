/* exp_f32.h: e^x of + and * alone, so that it vectorizes and has the same bits on every machine.
 *
 * Method: x = n ln 2 + r with |r| <= 0.35, ln 2 in two parts so that n * high is exact (Cody and Waite,
 * "Software Manual for the Elementary Functions", 1980); e^r by its Taylor series to r^7, whose rest is below
 * 6e-9; 2^n in two factors, so that subnormal results are right. Within 1.03 ulp where the result is normal
 * (measured over all floats of at least 2^-25 in size); 0 below -104, infinity above 88.73. */
#ifndef SW_CPU_EXP_F32_H
#define SW_CPU_EXP_F32_H

#include "base/f16.h"

static inline float sw_exp_f32(float x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    float in = x < -104.0f ? 0.0f : x > 89.0f ? 89.0f : x;
    float shifted = in * 1.44269504f + magic;
    float n = shifted - magic;
    float r = in - n * 0.693145751953125f - n * 1.42860677e-6f;
    float p = 1.0f / 720 + r * (1.0f / 5040);
    p = 1.0f / 24 + r * (1.0f / 120 + r * p);
    p = 0.5f + r * (1.0f / 6 + r * p);
    p = 1.0f + (r + r * r * p);
    uint32_t power =
        sw_f32_to_bits(shifted) - 0x4b400000u + 256u;   /* n + 256, so that halving needs no sign */
    uint32_t first = power / 2, second = power - first; /* each 128 too large */
    float y = p * sw_bits_to_f32((first - 1u) << 23) * sw_bits_to_f32((second - 1u) << 23);
    return x < -104.0f ? 0.0f : y;
}

#endif
