/* row_avx2.c: the elementwise loops, compiled for AVX2. */
#if defined(__AVX2__)

#include <immintrin.h>

#include "cpu/row_isa.h"

static inline __m256i coefficients(size_t power, __m256i segments) {
    const __m256i *c = (const __m256i *)(const void *)sw_tanh_segments[power];
    const __m256i low = _mm256_permutevar8x32_epi32(_mm256_load_si256(c), segments);
    const __m256i high = _mm256_permutevar8x32_epi32(_mm256_load_si256(c + 1), segments);
    return _mm256_blendv_epi8(low, high, _mm256_cmpgt_epi32(segments, _mm256_set1_epi32(7)));
}

/* t * by of 15 fraction bits, half up, and a coefficient of each value's segment. */
static inline __m256i step(__m256i t, __m256i by, size_t power, __m256i segments) {
    const __m256i rounded = _mm256_add_epi32(_mm256_mullo_epi32(t, by), _mm256_set1_epi32(1 << 14));
    return _mm256_add_epi32(_mm256_srai_epi32(rounded, 15), coefficients(power, segments));
}

/* cpu/row_isa.h, sw_sigmoid_q15_of_positive. */
#define ROW_SIGMOIDS
static void sigmoids_of_positive(size_t n, const uint32_t *sizes, sw_tanh_steps steps, int32_t *out) {
    const __m256i multiplier = _mm256_set1_epi32((int32_t)steps.multiplier), most = _mm256_set1_epi32(65535);
    for (size_t i = 0; i < n; i += 8) {
        const __m256i product =
            _mm256_mullo_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(sizes + i)), multiplier);
        const __m256i at =
            _mm256_min_epu32(_mm256_srl_epi32(product, _mm_cvtsi32_si128((int)steps.shift)), most);
        const __m256i v = _mm256_sub_epi32(most, at),
                      square = _mm256_srli_epi32(_mm256_mullo_epi32(v, v), 16);
        const __m256i rest = _mm256_and_si256(square, _mm256_set1_epi32(4095));
        const __m256i segments = _mm256_srli_epi32(square, 12);
        __m256i t = coefficients(3, segments);
        t = step(t, rest, 2, segments), t = step(t, rest, 1, segments);
        t = step(t, _mm256_add_epi32(rest, rest), 0, segments);
        const __m256i sigmoid = _mm256_srai_epi32(_mm256_add_epi32(t, _mm256_set1_epi32(32768)), 1);
        _mm256_storeu_si256((__m256i *)(void *)(out + i), sigmoid);
    }
}

#define ROW_ISA   sw_row_avx2
#define ROW_NEEDS SW_ISA_AVX2
#include "cpu/row_loops.h"
#else
typedef int sw_no_avx2_rows_here; /* ISO C wants a declaration */
#endif
