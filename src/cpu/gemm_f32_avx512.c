/* gemm_f32_avx512.c: the inner loops with AVX-512.
 *
 * Tile: 12 rows x 32 columns in 24 of the 32 registers: 24 fused multiply-adds for 2 + 12 loads. Packing and
 * the conversions are bound by memory, so that AVX2's will do. */
#if defined(__AVX512F__)

#include <immintrin.h>

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
    __m512 sum[SW_TILE_ROWS][2];
    UNROLL for (size_t r = 0; r < n_rows; r++) {
        sum[r][0] = add ? _mm512_loadu_ps(y + r * y_stride) : _mm512_setzero_ps();
        sum[r][1] = add ? _mm512_loadu_ps(y + r * y_stride + 16) : _mm512_setzero_ps();
    }
    for (size_t i = 0; i < k; i++) {
        __m512 b0 = _mm512_load_ps(panel + i * SW_TILE_COLS),
               b1 = _mm512_load_ps(panel + i * SW_TILE_COLS + 16);
        UNROLL for (size_t r = 0; r < n_rows; r++) {
            __m512 a = _mm512_set1_ps(x[r * x_stride + i]);
            sum[r][0] = _mm512_fmadd_ps(a, b0, sum[r][0]);
            sum[r][1] = _mm512_fmadd_ps(a, b1, sum[r][1]);
        }
    }
    UNROLL for (size_t r = 0; r < n_rows; r++) {
        _mm512_storeu_ps(y + r * y_stride, sum[r][0]);
        _mm512_storeu_ps(y + r * y_stride + 16, sum[r][1]);
    }
}

static void tile(size_t rows, size_t k, const float *x, size_t x_stride, const float *panel, float *y,
                 size_t y_stride, bool add) {
    while (rows > 0) {
        size_t n = rows >= 12 ? 12 : rows >= 6 ? 6 : rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
        if (n == 12)
            tile_rows(12, k, x, x_stride, panel, y, y_stride, add);
        else if (n == 6)
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

static void pack(size_t k, const float *const columns[SW_PACK_COLS], float *panel) {
    sw_f32_avx2.pack(k, columns, panel);
}

static float dot(size_t k, const float *a, const float *b) {
    __m512 lo = _mm512_setzero_ps(), hi = _mm512_setzero_ps();
    size_t i = 0;
    for (; i + SW_DOT_LANES <= k; i += SW_DOT_LANES) {
        lo = _mm512_fmadd_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i), lo);
        hi = _mm512_fmadd_ps(_mm512_loadu_ps(a + i + 16), _mm512_loadu_ps(b + i + 16), hi);
    }
    if (i < k) {
        uint32_t mask = (1u << (k - i)) - 1;
        __mmask16 m_lo = (__mmask16)mask, m_hi = (__mmask16)(mask >> 16);
        lo = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m_lo, a + i), _mm512_maskz_loadu_ps(m_lo, b + i), lo);
        if (m_hi != 0)
            hi = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m_hi, a + i + 16),
                                 _mm512_maskz_loadu_ps(m_hi, b + i + 16), hi);
    }
    __m512 sum16 = _mm512_add_ps(lo, hi);
    __m256 sum8 = _mm256_add_ps(_mm512_castps512_ps256(sum16), _mm512_extractf32x8_ps(sum16, 1));
    __m128 sum4 = _mm_add_ps(_mm256_castps256_ps128(sum8), _mm256_extractf128_ps(sum8, 1));
    __m128 sum2 = _mm_add_ps(sum4, _mm_movehl_ps(sum4, sum4));
    return _mm_cvtss_f32(_mm_add_ss(sum2, _mm_movehdup_ps(sum2)));
}

static void from_f16(size_t n, const uint16_t *in, float *out) {
    sw_f32_avx2.from_f16(n, in, out);
}

static void to_f16(size_t n, const float *in, uint16_t *out) {
    sw_f32_avx2.to_f16(n, in, out);
}

static void exp_f32(size_t n, float scale, float shift, const float *in, float *out) {
    sw_exp_f32_loop(n, scale, shift, in, out);
}

const sw_f32_isa sw_f32_avx512 = {SW_ISA_AVX512, tile, pack, dot, from_f16, to_f16, exp_f32};

#else
typedef int sw_no_avx512_here; /* ISO C wants a declaration */
#endif
