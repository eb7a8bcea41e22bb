/* dot_s8_avx2.c: dot products of u8 rows and s8 rows by widening to int16 and madd, which adds two exact
 * products to each int32. (maddubs would take bytes, but saturates at int16.) Tiles of up to 2 x 4 rows. */
#include "cpu/dot.h"

#if defined(__AVX2__)
#include <immintrin.h>

enum { TILE_X = 2, TILE_W = 4, LANES = 16 };

/* The four totals of a, b, c, d. */
static inline __m128i totals(__m256i a, __m256i b, __m256i c, __m256i d) {
    __m256i all = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    return _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}

/* One tile; n_x and n_w are constants at each call, so that the loops over them vanish. */
static inline __attribute__((always_inline)) void
tile(const uint8_t *x, size_t n_x, const int8_t *w, size_t n_w, size_t k, int32_t *out, size_t out_stride) {
    __m256i sums[TILE_X][TILE_W], row[TILE_X];
    for (size_t i = 0; i < TILE_X; i++)
        for (size_t j = 0; j < TILE_W; j++) sums[i][j] = _mm256_setzero_si256();
    size_t t = 0;
    for (; t + LANES <= k; t += LANES) {
        for (size_t i = 0; i < n_x; i++)
            row[i] = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(x + i * k + t)));
        for (size_t j = 0; j < n_w; j++) {
            __m256i v = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(w + j * k + t)));
            for (size_t i = 0; i < n_x; i++)
                sums[i][j] = _mm256_add_epi32(sums[i][j], _mm256_madd_epi16(row[i], v));
        }
    }
    for (size_t i = 0; i < n_x; i++) {
        int32_t total[TILE_W];
        _mm_storeu_si128((__m128i *)(void *)total, totals(sums[i][0], sums[i][1], sums[i][2], sums[i][3]));
        for (size_t j = 0; j < n_w; j++) {
            for (size_t rest = t; rest < k; rest++) total[j] += x[i * k + rest] * w[j * k + rest];
            out[i * out_stride + j] = total[j];
        }
    }
}

void sw_dot_u8s8_avx2(const uint8_t *x, size_t n_x, const int8_t *w, size_t n_w, size_t k, int32_t *out,
                      size_t out_stride) {
    for (size_t j = 0; j < n_w;) {
        const size_t width = n_w - j >= TILE_W ? TILE_W : 1;
        for (size_t i = 0; i < n_x;) {
            const size_t height = n_x - i >= TILE_X ? TILE_X : 1;
            const uint8_t *xi = x + i * k;
            const int8_t *wj = w + j * k;
            int32_t *to = out + i * out_stride + j;
            if (width == TILE_W) {
                if (height == TILE_X)
                    tile(xi, TILE_X, wj, TILE_W, k, to, out_stride);
                else
                    tile(xi, 1, wj, TILE_W, k, to, out_stride);
            } else {
                if (height == TILE_X)
                    tile(xi, TILE_X, wj, 1, k, to, out_stride);
                else
                    tile(xi, 1, wj, 1, k, to, out_stride);
            }
            i += height;
        }
        j += width;
    }
}
#endif
