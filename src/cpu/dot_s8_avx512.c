/* dot_s8_avx512.c: dot products of u8 rows and s8 rows by VNNI: dpbusd adds four products to each int32
 * without saturation. Tiles of up to 4 x 4 rows keep 16 sums in registers, so that a loaded row serves four
 * times. */
#include "cpu/dot.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>

enum { TILE = 4, LANES = 64 };

/* The four totals of a, b, c, d. */
static inline __m128i totals(__m512i a, __m512i b, __m512i c, __m512i d) {
    __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/* One tile; n_x and n_w are constants at each call, so that the loops over them vanish. */
static inline __attribute__((always_inline)) void
tile(const uint8_t *x, size_t n_x, const int8_t *w, size_t n_w, size_t k, int32_t *out, size_t out_stride) {
    __m512i sums[TILE][TILE], row[TILE];
    for (size_t i = 0; i < TILE; i++)
        for (size_t j = 0; j < TILE; j++) sums[i][j] = _mm512_setzero_si512();
    size_t t = 0;
    for (; t + LANES <= k; t += LANES) {
        for (size_t j = 0; j < n_w; j++) row[j] = _mm512_loadu_si512(w + j * k + t);
        for (size_t i = 0; i < n_x; i++) {
            __m512i v = _mm512_loadu_si512(x + i * k + t);
            for (size_t j = 0; j < n_w; j++) sums[i][j] = _mm512_dpbusd_epi32(sums[i][j], v, row[j]);
        }
    }
    if (t < k) { /* the masked loads give 0 past the end, and read nothing there */
        __mmask64 mask = (__mmask64)-1 >> (LANES - (k - t));
        for (size_t j = 0; j < n_w; j++) row[j] = _mm512_maskz_loadu_epi8(mask, w + j * k + t);
        for (size_t i = 0; i < n_x; i++) {
            __m512i v = _mm512_maskz_loadu_epi8(mask, x + i * k + t);
            for (size_t j = 0; j < n_w; j++) sums[i][j] = _mm512_dpbusd_epi32(sums[i][j], v, row[j]);
        }
    }
    for (size_t i = 0; i < n_x; i++)
        _mm_mask_storeu_epi32(out + i * out_stride, (__mmask8)((1u << n_w) - 1),
                              totals(sums[i][0], sums[i][1], sums[i][2], sums[i][3]));
}

void sw_dot_u8s8_avx512(const uint8_t *x, size_t n_x, const int8_t *w, size_t n_w, size_t k, int32_t *out,
                        size_t out_stride) {
    for (size_t j = 0; j < n_w;) {
        const size_t width = n_w - j >= TILE ? TILE : 1;
        for (size_t i = 0; i < n_x;) {
            const size_t left = n_x - i, height = left >= 4 ? 4 : left >= 2 ? 2 : 1;
            const uint8_t *xi = x + i * k;
            const int8_t *wj = w + j * k;
            int32_t *to = out + i * out_stride + j;
            if (width == TILE) {
                if (height == 4)
                    tile(xi, 4, wj, TILE, k, to, out_stride);
                else if (height == 2)
                    tile(xi, 2, wj, TILE, k, to, out_stride);
                else
                    tile(xi, 1, wj, TILE, k, to, out_stride);
            } else {
                if (height == 4)
                    tile(xi, 4, wj, 1, k, to, out_stride);
                else if (height == 2)
                    tile(xi, 2, wj, 1, k, to, out_stride);
                else
                    tile(xi, 1, wj, 1, k, to, out_stride);
            }
            i += height;
        }
        j += width;
    }
}
#endif
