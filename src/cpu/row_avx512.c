/* row_avx512.c: the elementwise loops, compiled for AVX-512. */
#if defined(__AVX512BW__)

#include <immintrin.h>

#include "cpu/row_isa.h"

/* t * by of 15 fraction bits, half up, and a coefficient of each value's segment. */
static inline __m512i step(__m512i t, __m512i by, size_t power, __m512i segments) {
    const __m512i rounded = _mm512_add_epi32(_mm512_mullo_epi32(t, by), _mm512_set1_epi32(1 << 14));
    const __m512i c = _mm512_permutexvar_epi32(segments, _mm512_load_si512(sw_tanh_segments[power]));
    return _mm512_add_epi32(_mm512_srai_epi32(rounded, 15), c);
}

/* cpu/row_isa.h, sw_sigmoid_q15_of_positive. */
#define ROW_SIGMOIDS
static void sigmoids_of_positive(size_t n, const uint32_t *sizes, sw_tanh_steps steps, int32_t *out) {
    const __m512i multiplier = _mm512_set1_epi32((int32_t)steps.multiplier), most = _mm512_set1_epi32(65535);
    for (size_t i = 0; i < n; i += 16) {
        const __m512i product = _mm512_mullo_epi32(_mm512_loadu_si512(sizes + i), multiplier);
        const __m512i at =
            _mm512_min_epu32(_mm512_srl_epi32(product, _mm_cvtsi32_si128((int)steps.shift)), most);
        const __m512i v = _mm512_sub_epi32(most, at),
                      square = _mm512_srli_epi32(_mm512_mullo_epi32(v, v), 16);
        const __m512i rest = _mm512_and_si512(square, _mm512_set1_epi32(4095));
        const __m512i segments = _mm512_srli_epi32(square, 12);
        __m512i t = _mm512_permutexvar_epi32(segments, _mm512_load_si512(sw_tanh_segments[3]));
        t = step(t, rest, 2, segments), t = step(t, rest, 1, segments);
        t = step(t, _mm512_add_epi32(rest, rest), 0, segments);
        _mm512_storeu_si512(out + i, _mm512_srai_epi32(_mm512_add_epi32(t, _mm512_set1_epi32(32768)), 1));
    }
}

#define ROW_ISA   sw_row_avx512
#define ROW_NEEDS SW_ISA_AVX512
#include "cpu/row_loops.h"
#else
typedef int sw_no_avx512_rows_here; /* ISO C wants a declaration */
#endif
