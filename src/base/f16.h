/* f16.h: IEEE 754 half and bfloat16 to and from float, round to nearest even. */
#ifndef SW_BASE_F16_H
#define SW_BASE_F16_H

#include <stdint.h>
#include <string.h>

static inline float sw_bits_to_f32(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t sw_f32_to_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float sw_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00u) return sw_bits_to_f32(sign | 0x7f800000u | (rest & 0x3ffu) << 13); /* inf, NaN */
    /* Shift the exponent in as if it were a float's, then scale by 2^112: exact, subnormals included. */
    float scaled = sw_bits_to_f32(rest << 13) * sw_bits_to_f32((127u + 112u) << 23);
    return sw_bits_to_f32(sign | sw_f32_to_bits(scaled));
}

static inline uint16_t sw_f32_to_f16(float f) {
    uint32_t bits = sw_f32_to_bits(f), sign = bits >> 16 & 0x8000u, mag = bits & 0x7fffffffu;
    if (mag > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);  /* NaN */
    if (mag >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* rounds to 65520 or more */
    if (mag < 0x38800000u) {                                   /* subnormal: let the FPU round */
        float shifted = sw_bits_to_f32(mag) + 0.5f;            /* ulp of 0.5 is 2^-24 */
        return (uint16_t)(sign | (sw_f32_to_bits(shifted) - 0x3f000000u));
    }
    mag += 0xfffu + (mag >> 13 & 1u); /* nearest even */
    return (uint16_t)(sign | (mag - (112u << 23)) >> 13);
}

static inline float sw_bf16_to_f32(uint16_t h) {
    return sw_bits_to_f32((uint32_t)h << 16);
}

#endif
