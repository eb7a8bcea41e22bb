/* int_avx512.c: the integer inner loops by VNNI: dpbusd adds four products of u8 and s8 to each int32,
 * without saturation. A u16 row of x is two rows of bytes, high and low; then S = sum of high + floor(sum of
 * low / 256).
 *
 * x's form: [high or all: pad64(k)][low: pad64(k)]. */
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)

#include <immintrin.h>
#include <string.h>

#include "cpu/int_isa.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 64 };

INLINE size_t plane_bytes(size_t k) {
    return sw_int_x_bytes(k) / 2;
}

static void load_x(size_t k, bool wide, const void *x, void *out) {
    uint8_t *to = out;
    const size_t plane = plane_bytes(k);
    if (!wide) {
        memcpy(to, x, k);
        memset(to + k, 0, plane - k);
        return;
    }
    for (size_t t = 0; t < plane; t += 32) {
        const size_t left = t < k ? k - t : 0;
        const __mmask32 mask = left >= 32 ? 0xffffffffu : (1u << left) - 1;
        const __m512i v = _mm512_maskz_loadu_epi16(mask, (const uint16_t *)x + t);
        _mm256_store_si256((__m256i *)(void *)(to + t), _mm512_cvtepi16_epi8(_mm512_srli_epi16(v, 8)));
        _mm256_store_si256((__m256i *)(void *)(to + plane + t), _mm512_cvtepi16_epi8(v));
    }
}

/* The four totals of a, b, c, d. */
INLINE __m128i totals(__m512i a, __m512i b, __m512i c, __m512i d) {
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/* n_w rows of w, n_x rows of x of `planes` planes; all three are constants at each call. One row of w after
 * the other, so that memory is read in its order. */
INLINE void dot_tile(const size_t n_x, const size_t planes, const size_t n_w, const uint8_t *x,
                     const int8_t *w, size_t w_stride, const bool flip, size_t k, int32_t *out,
                     size_t out_stride) {
    __m512i sums[3 * 2][4];
    const __m512i flips = _mm512_set1_epi8((char)0x80);
    const size_t plane = plane_bytes(k), step = (3 - planes) * plane; /* a u8 row has an empty plane */
    UNROLL for (size_t p = 0; p < 6; p++) {
        UNROLL for (size_t j = 0; j < 4; j++) sums[p][j] = _mm512_setzero_si512();
    }
    UNROLL for (size_t j = 0; j < n_w; j++) {
        const int8_t *row = w + j * w_stride;
        __m512i sum[3 * 2];
        UNROLL for (size_t p = 0; p < n_x * planes; p++) sum[p] = _mm512_setzero_si512();
        size_t t = 0;
        for (; t + LANES <= k; t += LANES) {
            __m512i q = _mm512_loadu_si512(row + t);
            if (flip) q = _mm512_xor_si512(q, flips);
            UNROLL for (size_t p = 0; p < n_x * planes; p++) sum[p] =
                _mm512_dpbusd_epi32(sum[p], _mm512_load_si512(x + p * step + t), q);
        }
        if (t < k) {
            __m512i q = _mm512_maskz_loadu_epi8((__mmask64)-1 >> (LANES - (k - t)), row + t);
            if (flip) q = _mm512_xor_si512(q, flips); /* what is past the end meets zeros of x */
            UNROLL for (size_t p = 0; p < n_x * planes; p++) sum[p] =
                _mm512_dpbusd_epi32(sum[p], _mm512_load_si512(x + p * step + t), q);
        }
        UNROLL for (size_t p = 0; p < n_x * planes; p++) sums[p][j] = sum[p];
    }
    UNROLL for (size_t i = 0; i < n_x; i++) {
        __m128i total[2];
        UNROLL for (size_t p = 0; p < planes; p++) {
            const __m512i *s = sums[i * planes + p];
            total[p] = totals(s[0], s[1], s[2], s[3]);
        }
        __m128i s = total[0];
        if (planes == 2) s = _mm_add_epi32(s, _mm_srai_epi32(total[1], 8));
        _mm_mask_storeu_epi32(out + i * out_stride, (__mmask8)((1u << n_w) - 1), s);
    }
}

INLINE void dot_rows(const size_t n_x, const size_t planes, const uint8_t *x, size_t n_w, const int8_t *w,
                     size_t w_stride, const bool flip, size_t k, int32_t *out, size_t out_stride) {
    size_t j = 0;
    for (; j + 4 <= n_w; j += 4)
        dot_tile(n_x, planes, 4, x, w + j * w_stride, w_stride, flip, k, out + j, out_stride);
    for (; j < n_w; j++)
        dot_tile(n_x, planes, 1, x, w + j * w_stride, w_stride, flip, k, out + j, out_stride);
}

INLINE void dot_any(const bool flip, size_t n_x, const uint8_t *x, bool wide, size_t n_w, size_t k,
                    const int8_t *w, size_t w_stride, int32_t *out, size_t out_stride) {
    const size_t bytes = sw_int_x_bytes(k);
    while (n_x > 0) {
        const size_t n = n_x >= 3 ? 3 : 1;
        if (n == 3 && wide)
            dot_rows(3, 2, x, n_w, w, w_stride, flip, k, out, out_stride);
        else if (n == 3)
            dot_rows(3, 1, x, n_w, w, w_stride, flip, k, out, out_stride);
        else if (wide)
            dot_rows(1, 2, x, n_w, w, w_stride, flip, k, out, out_stride);
        else
            dot_rows(1, 1, x, n_w, w, w_stride, flip, k, out, out_stride);
        n_x -= n, x += n * bytes, out += n * out_stride;
    }
}

static void dot(size_t n_x, const void *x, bool wide, size_t n_w, size_t k, const int8_t *w, size_t w_stride,
                uint8_t flip, const int32_t *w_sums, int32_t *out, size_t out_stride) {
    (void)w_sums;
    if (flip != 0)
        dot_any(true, n_x, x, wide, n_w, k, w, w_stride, out, out_stride);
    else
        dot_any(false, n_x, x, wide, n_w, k, w, w_stride, out, out_stride);
}

static void row_sums(size_t n, size_t k, const int8_t *w, size_t w_stride, uint8_t flip, int32_t *out) {
    const __m512i one = _mm512_set1_epi8(1), flips = _mm512_set1_epi8((char)flip);
    size_t j = 0;
    for (; k % LANES == 0 && j + 4 <= n; j += 4, w += 4 * w_stride) {
        __m512i sums[4];
        UNROLL for (size_t i = 0; i < 4; i++) sums[i] = _mm512_setzero_si512();
        for (size_t t = 0; t < k; t += LANES)
            UNROLL for (size_t i = 0; i < 4; i++) sums[i] = _mm512_dpbusd_epi32(
                sums[i], one, _mm512_xor_si512(_mm512_loadu_si512(w + i * w_stride + t), flips));
        _mm_storeu_si128((__m128i *)(void *)(out + j), totals(sums[0], sums[1], sums[2], sums[3]));
    }
    for (; j < n; j++, w += w_stride) {
        __m512i sum = _mm512_setzero_si512();
        size_t t = 0;
        for (; t + LANES <= k; t += LANES)
            sum = _mm512_dpbusd_epi32(sum, one, _mm512_xor_si512(_mm512_loadu_si512(w + t), flips));
        if (t < k) {
            const __mmask64 mask = (__mmask64)-1 >> (LANES - (k - t));
            const __m512i v = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, w + t), flips);
            sum = _mm512_dpbusd_epi32(sum, _mm512_maskz_mov_epi8(mask, one), v);
        }
        out[j] = _mm512_reduce_add_epi32(sum);
    }
}

/* Bound by memory: AVX2's will do. */
static void pack_rows(size_t n, size_t k, const int8_t *w, size_t w_stride, uint8_t flip, int8_t *panel) {
    sw_int_avx2.pack_rows(n, k, w, w_stride, flip, panel);
}

static void pack_columns(size_t n, size_t k, const uint8_t *w, size_t w_stride, uint8_t flip, int8_t *panel) {
    sw_int_avx2.pack_columns(n, k, w, w_stride, flip, panel);
}

INLINE __m512i quad(const uint8_t *x) {
    int32_t four;
    memcpy(&four, x, 4);
    return _mm512_set1_epi32(four);
}

/* n_p planes of x, `step` bytes apart. n_p is a constant at each call; sums as they are, so that nothing but
 * the loop competes for registers. */
INLINE void tile_planes(const size_t n_p, const uint8_t *x, size_t step, size_t k, const int8_t *panel,
                        int32_t *out) {
    __m512i sums[SW_INT_ROWS][2];
    UNROLL for (size_t p = 0; p < n_p; p++) sums[p][0] = sums[p][1] = _mm512_setzero_si512();
    for (size_t t = 0; t < k; t += 4, panel += 4 * SW_INT_COLS) {
        const __m512i w0 = _mm512_load_si512(panel), w1 = _mm512_load_si512(panel + 64);
        UNROLL for (size_t p = 0; p < n_p; p++) {
            const __m512i v = quad(x + p * step + t);
            sums[p][0] = _mm512_dpbusd_epi32(sums[p][0], v, w0);
            sums[p][1] = _mm512_dpbusd_epi32(sums[p][1], v, w1);
        }
    }
    UNROLL for (size_t p = 0; p < n_p; p++) {
        _mm512_storeu_si512(out + p * SW_INT_COLS, sums[p][0]);
        _mm512_storeu_si512(out + p * SW_INT_COLS + 16, sums[p][1]);
    }
}

static void tile(size_t rows, const void *x, bool wide, size_t k, const int8_t *panel, const int32_t *w_sums,
                 int32_t *out) {
    (void)w_sums;
    int32_t planes[SW_INT_ROWS * SW_INT_COLS], *to = wide ? planes : out;
    const size_t step = (wide ? 1 : 2) * plane_bytes(k); /* a u8 row has an empty plane */
#define CASE(n)                                                                                              \
    case n:                                                                                                  \
        tile_planes(n, x, step, k, panel, to);                                                               \
        break;
    switch (wide ? 2 * rows : rows) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
        CASE(7)
        CASE(8)
        CASE(9)
        CASE(10)
        CASE(11)
        CASE(12)
    }
    for (size_t i = 0; wide && i < rows * SW_INT_COLS; i += 16) {
        const int32_t *high = planes + i / SW_INT_COLS * 2 * SW_INT_COLS + i % SW_INT_COLS;
        _mm512_storeu_si512(out + i,
                            _mm512_add_epi32(_mm512_loadu_si512(high),
                                             _mm512_srai_epi32(_mm512_loadu_si512(high + SW_INT_COLS), 8)));
    }
}

/* `terms` terms of a panel of nibbles and of n_p planes of x, added to sums. */
INLINE void nibble_terms(const size_t n_p, const uint8_t *x, size_t step, size_t terms,
                         const uint8_t *nibbles, __m512i sums[2][2]) {
    const __m512i low = _mm512_set1_epi8(15), eight = _mm512_set1_epi8(8);
    for (size_t t = 0; t < terms; t += 8, nibbles += 4 * SW_INT_COLS) UNROLL for (size_t h = 0; h < 2; h++) {
            const __m512i both = _mm512_load_si512(nibbles + 64 * h);
            const __m512i a = _mm512_sub_epi8(_mm512_and_si512(both, low), eight);
            const __m512i b = _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(both, 4), low), eight);
            UNROLL for (size_t p = 0; p < n_p; p++) {
                sums[p][h] = _mm512_dpbusd_epi32(sums[p][h], quad(x + p * step + t), a);
                sums[p][h] = _mm512_dpbusd_epi32(sums[p][h], quad(x + p * step + t + 4), b);
            }
        }
}

INLINE void nibble_planes(const size_t n_p, const uint8_t *x, size_t k, size_t block, const uint8_t *nibbles,
                          int32_t *out) {
    const size_t step = plane_bytes(k);
    __m512i sums[2][2];
    UNROLL for (size_t p = 0; p < n_p; p++) sums[p][0] = sums[p][1] = _mm512_setzero_si512();
    if (block == 0) nibble_terms(n_p, x, step, k, nibbles, sums);
    for (size_t t = 0; block > 0 && t < k; t += block) {
        const uint8_t *steps = nibbles + sw_nibble_steps_at(t / block, block);
        __m512i part[2][2];
        UNROLL for (size_t p = 0; p < n_p; p++) part[p][0] = part[p][1] = _mm512_setzero_si512();
        nibble_terms(n_p, x + t, step, block, nibbles + sw_nibbles_at(t, block), part);
        UNROLL for (size_t h = 0; h < 2; h++) {
            const __m512i factor =
                _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(steps + 16 * h)));
            UNROLL for (size_t p = 0; p < n_p; p++) sums[p][h] =
                _mm512_add_epi32(sums[p][h], _mm512_mullo_epi32(part[p][h], factor));
        }
    }
    UNROLL for (size_t h = 0; h < 2; h++) {
        __m512i s = sums[0][h];
        if (n_p == 2) s = _mm512_add_epi32(s, _mm512_srai_epi32(sums[1][h], 8));
        _mm512_storeu_si512(out + 16 * h, s);
    }
}

static void tile_nibbles(const void *x, bool wide, size_t k, size_t block, const uint8_t *nibbles,
                         int32_t *out) {
    if (wide)
        nibble_planes(2, x, k, block, nibbles, out);
    else
        nibble_planes(1, x, k, block, nibbles, out);
}

static void unpack_nibbles(size_t k, size_t block, const uint8_t *nibbles, int8_t *panel) {
    sw_int_avx2.unpack_nibbles(k, block, nibbles, panel);
}

INLINE __m256i round_half(__m256i sums, __m256 half, __m256 step, __m512d offset, __m512d max) {
    __m512d v =
        _mm512_mul_pd(_mm512_add_pd(_mm512_cvtepi32_pd(sums), _mm512_cvtps_pd(half)), _mm512_cvtps_pd(step));
    v = _mm512_sub_pd(_mm512_add_pd(v, _mm512_set1_pd(0.5)), offset);
    return _mm512_cvttpd_epi32(_mm512_min_pd(_mm512_max_pd(v, _mm512_setzero_pd()), max));
}

static void requantize(size_t n, const int32_t *sums, sw_int_scaling s, bool wide, int32_t offset, void *y) {
    const __m512d off = _mm512_set1_pd(offset), max = _mm512_set1_pd(wide ? UINT16_MAX : UINT8_MAX);
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 mask = (__mmask16)(n - i >= 16 ? 0xffffu : (1u << (n - i)) - 1);
        __m512i sum = _mm512_add_epi32(_mm512_maskz_loadu_epi32(mask, sums + i),
                                       _mm512_maskz_loadu_epi32(mask, s.share + i));
        sum = _mm512_srav_epi32(sum, _mm512_maskz_loadu_epi32(mask, s.shift + i));
        const __m512 half = _mm512_maskz_loadu_ps(mask, s.half + i),
                     step = _mm512_maskz_loadu_ps(mask, s.step + i);
        const __m256i low = round_half(_mm512_castsi512_si256(sum), _mm512_castps512_ps256(half),
                                       _mm512_castps512_ps256(step), off, max);
        const __m256i high = round_half(_mm512_extracti64x4_epi64(sum, 1), _mm512_extractf32x8_ps(half, 1),
                                        _mm512_extractf32x8_ps(step, 1), off, max);
        const __m512i q = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
        if (wide)
            _mm256_mask_storeu_epi16((uint16_t *)y + i, mask, _mm512_cvtepi32_epi16(q));
        else
            _mm_mask_storeu_epi8((uint8_t *)y + i, mask, _mm512_cvtepi32_epi8(q));
    }
}

const sw_int_isa sw_int_avx512 = {.needs = SW_ISA_AVX512,
                                  .load_x = load_x,
                                  .row_sums = row_sums,
                                  .dot = dot,
                                  .pack_rows = pack_rows,
                                  .pack_columns = pack_columns,
                                  .tile = tile,
                                  .tile_nibbles = tile_nibbles,
                                  .unpack_nibbles = unpack_nibbles,
                                  .requantize = requantize};

#else
typedef int sw_no_avx512_integers_here; /* ISO C wants a declaration */
#endif
