/* sha256_shani.c: FIPS 180-4, section 6.2.2, by the SHA instructions of x86-64 processors (Intel, "Intel SHA
 * Extensions", 2013). State in two registers, {a, b, e, f} and {c, d, g, h}; four rounds a step. */
#include "base/sha256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include "base/cpu_features.h"

bool sw_sha256_has_instructions(void) {
    unsigned a, b, c, d;
    return sw_cpu_has(SW_ISA_AVX2) && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
}

void sw_sha256_blocks_by_instructions(uint32_t state[8], const uint32_t k[64], const uint8_t *data,
                                      size_t n_blocks) {
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const __m128i *words = (const void *)state;
    __m128i dcba = _mm_loadu_si128(words), hgfe = _mm_loadu_si128(words + 1);
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (; n_blocks > 0; n_blocks--, data += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
#pragma GCC unroll 16
        for (int step = 0; step < 16; step++) {
            if (step < 4) {
                w[step] = _mm_loadu_si128((const void *)(data + 16 * step));
                w[step] = _mm_shuffle_epi8(w[step], big_endian);
            } else {
                const __m128i before =
                    w[(step + 3) & 3]; /* the four words of one step, two steps back, ... */
                __m128i next = _mm_sha256msg1_epu32(w[step & 3], w[(step + 1) & 3]);
                next = _mm_add_epi32(next, _mm_alignr_epi8(before, w[(step + 2) & 3], 4));
                w[step & 3] = _mm_sha256msg2_epu32(next, before);
            }
            __m128i sum = _mm_add_epi32(w[step & 3], _mm_loadu_si128((const void *)(k + 4 * step)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before), cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}
#endif
