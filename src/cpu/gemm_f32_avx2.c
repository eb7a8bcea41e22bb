/* gemm_f32_avx2.c: the inner loops with AVX2, FMA and F16C.
 *
 * Tile: 6 rows x 16 columns in 12 of the 16 registers, with 2 for the panel's row and 1 or 2 for x's values:
 * 12 fused multiply-adds for 2 + 6 loads, which is what keeps two FMA units of latency 4 busy (BLIS's shape
 * for Haswell: Van Zee and van de Geijn, "BLIS: A Framework for Rapidly Instantiating BLAS Functionality",
 * 2015). A panel is 32 columns wide for the sake of AVX-512; here it is walked twice, half a cache line pair
 * a step. */
#if defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>

#include "base/f16.h"
#include "cpu/exp_f32.h"
#include "cpu/f32_isa.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* n_rows is a constant at every call, so that the sums stay in registers. */
static inline __attribute__((always_inline)) void tile_rows(const size_t n_rows, size_t k, const float *x,
                                                            size_t x_stride, const float *panel, float *y,
                                                            size_t y_stride, bool add) {
    for (size_t c = 0; c < SW_TILE_COLS; c += 16) {
        __m256 sum[6][2];
        UNROLL for (size_t r = 0; r < n_rows; r++) {
            sum[r][0] = add ? _mm256_loadu_ps(y + r * y_stride + c) : _mm256_setzero_ps();
            sum[r][1] = add ? _mm256_loadu_ps(y + r * y_stride + c + 8) : _mm256_setzero_ps();
        }
        for (size_t i = 0; i < k; i++) {
            __m256 b0 = _mm256_load_ps(panel + i * SW_TILE_COLS + c);
            __m256 b1 = _mm256_load_ps(panel + i * SW_TILE_COLS + c + 8);
            UNROLL for (size_t r = 0; r < n_rows; r++) {
                __m256 a = _mm256_broadcast_ss(x + r * x_stride + i);
                sum[r][0] = _mm256_fmadd_ps(a, b0, sum[r][0]);
                sum[r][1] = _mm256_fmadd_ps(a, b1, sum[r][1]);
            }
        }
        UNROLL for (size_t r = 0; r < n_rows; r++) {
            _mm256_storeu_ps(y + r * y_stride + c, sum[r][0]);
            _mm256_storeu_ps(y + r * y_stride + c + 8, sum[r][1]);
        }
    }
}

static void tile(size_t rows, size_t k, const float *x, size_t x_stride, const float *panel, float *y,
                 size_t y_stride, bool add) {
    while (rows > 0) {
        size_t n = rows >= 6 ? 6 : rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
        if (n == 6)
            tile_rows(6, k, x, x_stride, panel, y, y_stride, add);
        else if (n == 4)
            tile_rows(4, k, x, x_stride, panel, y, y_stride, add);
        else if (n == 2)
            tile_rows(2, k, x, x_stride, panel, y, y_stride, add);
        else
            tile_rows(1, k, x, x_stride, panel, y, y_stride, add);
        rows -= n, x += n * x_stride, y += n * y_stride;
    }
}

/* 8 x 8 transpositions in registers. */
static void pack(size_t k, const float *const columns[SW_PACK_COLS], float *panel) {
    size_t i = 0;
    for (; i + 8 <= k; i += 8) {
        __m256 r[8], s[8];
        UNROLL for (size_t c = 0; c < 8; c++) r[c] = _mm256_loadu_ps(columns[c] + i);
        UNROLL for (size_t c = 0; c < 8; c += 4) {
            __m256 ab_lo = _mm256_unpacklo_ps(r[c], r[c + 1]), ab_hi = _mm256_unpackhi_ps(r[c], r[c + 1]);
            __m256 cd_lo = _mm256_unpacklo_ps(r[c + 2], r[c + 3]),
                   cd_hi = _mm256_unpackhi_ps(r[c + 2], r[c + 3]);
            s[c] = _mm256_shuffle_ps(ab_lo, cd_lo, 0x44), s[c + 1] = _mm256_shuffle_ps(ab_lo, cd_lo, 0xee);
            s[c + 2] = _mm256_shuffle_ps(ab_hi, cd_hi, 0x44),
                  s[c + 3] = _mm256_shuffle_ps(ab_hi, cd_hi, 0xee);
        }
        float *out = panel + i * SW_TILE_COLS;
        UNROLL for (size_t c = 0; c < 4; c++) {
            _mm256_store_ps(out + c * SW_TILE_COLS, _mm256_permute2f128_ps(s[c], s[c + 4], 0x20));
            _mm256_store_ps(out + (c + 4) * SW_TILE_COLS, _mm256_permute2f128_ps(s[c], s[c + 4], 0x31));
        }
    }
    for (; i < k; i++)
        for (size_t c = 0; c < SW_PACK_COLS; c++) panel[i * SW_TILE_COLS + c] = columns[c][i];
}

static float dot(size_t k, const float *a, const float *b) {
    __m256 lane[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    size_t i = 0;
    for (; i + SW_DOT_LANES <= k; i += SW_DOT_LANES)
        UNROLL for (size_t l = 0; l < 4; l++) lane[l] =
            _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 8 * l), _mm256_loadu_ps(b + i + 8 * l), lane[l]);
    for (size_t l = 0; i < k; l++, i += 8) {
        size_t n = k - i < 8 ? k - i : 8;
        __m256i mask =
            _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        lane[l] = _mm256_fmadd_ps(_mm256_maskload_ps(a + i, mask), _mm256_maskload_ps(b + i, mask), lane[l]);
    }
    __m256 sum8 = _mm256_add_ps(_mm256_add_ps(lane[0], lane[2]), _mm256_add_ps(lane[1], lane[3]));
    __m128 sum4 = _mm_add_ps(_mm256_castps256_ps128(sum8), _mm256_extractf128_ps(sum8, 1));
    __m128 sum2 = _mm_add_ps(sum4, _mm_movehl_ps(sum4, sum4));
    return _mm_cvtss_f32(_mm_add_ss(sum2, _mm_movehdup_ps(sum2)));
}

static void from_f16(size_t n, const uint16_t *in, float *out) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(in + i))));
    for (; i < n; i++) out[i] = sw_f16_to_f32(in[i]);
}

static void to_f16(size_t n, const float *in, uint16_t *out) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++) out[i] = sw_f32_to_f16(in[i]);
}

static void exp_f32(size_t n, float scale, float shift, const float *in, float *out) {
    sw_exp_f32_loop(n, scale, shift, in, out);
}

const sw_f32_isa sw_f32_avx2 = {SW_ISA_AVX2, tile, pack, dot, from_f16, to_f16, exp_f32};

#else
typedef int sw_no_avx2_here; /* ISO C wants a declaration */
#endif
