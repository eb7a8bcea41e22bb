/* int_avx2.c: the integer inner loops by widening to int16 and madd, which adds two exact products to each
 * int32. (maddubs would take bytes, but saturates at int16.)
 *
 * x's form: 16-bit values, u16 as q - 32768, whose share 32768 * sum of w is added back: so a u16 x costs no
 * more than a u8 one. A lane takes one product pair a step, at most 32768 * 128 * 2 each: 255 steps fit
 * int32; longer sums are cut into blocks and added in 64 bits. */
#if defined(__AVX2__)

#include <immintrin.h>
#include <string.h>

#include "cpu/int_isa.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

/* The sums stay in the registers where they are: gcc 12 renames them each round, runs out of registers, and
 * the tile loop takes 1.8 times as long. */
#define KEEP(a, b) __asm__("" : "+x"(a), "+x"(b))

enum {
    DOT_BLOCK = 255 * 16 / 64 * 64, /* terms: 16 a step */
    TILE_BLOCK = 255 * 4,           /* 4 a step */
    TILE_ROWS = 4,
};

INLINE __m256i load256(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}
INLINE __m128i load128(const void *p) {
    return _mm_loadu_si128((const __m128i *)p);
}

static void load_x(size_t k, bool wide, const void *x, void *out) {
    uint16_t *to = out;
    size_t t = 0;
    if (wide) {
        const __m256i top = _mm256_set1_epi16((short)0x8000);
        for (; t + 16 <= k; t += 16)
            _mm256_store_si256((__m256i *)(void *)(to + t),
                               _mm256_xor_si256(load256((const uint16_t *)x + t), top));
        for (; t < k; t++) to[t] = ((const uint16_t *)x)[t] ^ 0x8000;
    } else {
        for (; t + 16 <= k; t += 16)
            _mm256_store_si256((__m256i *)(void *)(to + t),
                               _mm256_cvtepu8_epi16(load128((const uint8_t *)x + t)));
        for (; t < k; t++) to[t] = ((const uint8_t *)x)[t];
    }
    memset(to + k, 0, sw_int_x_bytes(k) - 2 * k); /* past the end no q is meant */
}

INLINE int32_t total(__m256i v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

/* The total of lanes whose sum may not fit int32. */
INLINE int64_t wide_total(__m256i v) {
    __m256i s = _mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(v)),
                                 _mm256_cvtepi32_epi64(_mm256_extracti128_si256(v, 1)));
    __m128i t = _mm_add_epi64(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    return _mm_cvtsi128_si64(t) + _mm_extract_epi64(t, 1);
}

INLINE int32_t finish(int64_t sum, bool wide, int32_t w_sum) {
    return (int32_t)(wide ? (sum + 32768 * (int64_t)w_sum) >> 8 : sum);
}

/* 64 terms of a row of w from t on as four vectors of int16; zeros past k. */
INLINE void load_bytes(const int8_t *w, size_t t, size_t k, __m128i flips, __m256i out[4]) {
    uint8_t rest[64];
    const int8_t *from = w + t;
    if (t + 64 > k) {
        memset(rest, 0, sizeof rest);
        memcpy(rest, from, k - t);
        from = (const int8_t *)rest;
    }
    UNROLL for (size_t i = 0; i < 4; i++) /* a flip of what is past the end meets zeros of x */
        out[i] = _mm256_cvtepi8_epi16(_mm_xor_si128(load128(from + 16 * i), flips));
}

/* n_x rows of x and one row of w; n_x is a constant at each call. */
INLINE void dot_row(const size_t n_x, const uint8_t *x, bool wide, const int8_t *w, uint8_t flip, size_t k,
                    int32_t w_sum, int32_t *out, size_t out_stride) {
    const size_t stride = sw_int_x_bytes(k);
    const __m128i flips = _mm_set1_epi8((char)flip);
    int64_t totals[3] = {0};
    for (size_t begin = 0; begin < k; begin += DOT_BLOCK) {
        const size_t end = k - begin < DOT_BLOCK ? k : begin + DOT_BLOCK;
        __m256i sums[3][2];
        UNROLL for (size_t i = 0; i < n_x; i++) sums[i][0] = sums[i][1] = _mm256_setzero_si256();
        for (size_t t = begin; t < end; t += 64) {
            __m256i v[4];
            load_bytes(w, t, k, flips, v);
            UNROLL for (size_t i = 0; i < n_x; i++) {
                const uint8_t *xi = x + i * stride + 2 * t;
                UNROLL for (size_t p = 0; p < 4; p++) sums[i][p % 2] = _mm256_add_epi32(
                    sums[i][p % 2],
                    _mm256_madd_epi16(_mm256_load_si256((const __m256i *)(const void *)(xi + 32 * p)), v[p]));
            }
        }
        UNROLL for (size_t i = 0; i < n_x; i++) totals[i] += wide_total(sums[i][0]) + wide_total(sums[i][1]);
    }
    UNROLL for (size_t i = 0; i < n_x; i++) out[i * out_stride] = finish(totals[i], wide, w_sum);
}

static void dot(size_t n_x, const void *x, bool wide, size_t n_w, size_t k, const int8_t *w, size_t w_stride,
                uint8_t flip, const int32_t *w_sums, int32_t *out, size_t out_stride) {
    for (size_t i = 0; i < n_x;) {
        const size_t n = n_x - i >= 3 ? 3 : 1;
        const uint8_t *xi = (const uint8_t *)x + i * sw_int_x_bytes(k);
        int32_t *to = out + i * out_stride;
        for (size_t j = 0; j < n_w; j++) {
            const int8_t *row = w + j * w_stride;
            if (n == 3)
                dot_row(3, xi, wide, row, flip, k, w_sums[j], to + j, out_stride);
            else
                dot_row(1, xi, wide, row, flip, k, w_sums[j], to + j, out_stride);
        }
        i += n;
    }
}

static void row_sums(size_t n, size_t k, const int8_t *w, size_t w_stride, uint8_t flip, int32_t *out) {
    const __m128i flips = _mm_set1_epi8((char)flip);
    const __m256i ones = _mm256_set1_epi16(1);
    for (size_t j = 0; j < n; j++, w += w_stride) {
        __m256i sum = _mm256_setzero_si256();
        size_t t = 0;
        for (; t + 16 <= k; t += 16) {
            const __m256i v = _mm256_cvtepi8_epi16(_mm_xor_si128(load128(w + t), flips));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(v, ones));
        }
        out[j] = total(sum);
        for (; t < k; t++) out[j] += (int8_t)((uint8_t)w[t] ^ flip);
    }
}

/* Eight rows of w, eight terms of four bytes: a transposed matrix of 32-bit pieces. */
INLINE void pack_8x8(const int8_t *w, size_t w_stride, __m256i flips, int8_t *panel) {
    __m256i r[8], s[8];
    UNROLL for (size_t i = 0; i < 8; i++) r[i] = _mm256_xor_si256(load256(w + i * w_stride), flips);
    UNROLL for (size_t i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    UNROLL for (size_t i = 0; i < 8; i += 4) {
        r[i] = _mm256_unpacklo_epi64(s[i], s[i + 2]);
        r[i + 1] = _mm256_unpackhi_epi64(s[i], s[i + 2]);
        r[i + 2] = _mm256_unpacklo_epi64(s[i + 1], s[i + 3]);
        r[i + 3] = _mm256_unpackhi_epi64(s[i + 1], s[i + 3]);
    }
    UNROLL for (size_t i = 0; i < 4; i++) {
        int8_t *to = panel + i * 4 * SW_INT_COLS;
        _mm256_store_si256((__m256i *)(void *)to, _mm256_permute2x128_si256(r[i], r[i + 4], 0x20));
        _mm256_store_si256((__m256i *)(void *)(to + 16 * SW_INT_COLS),
                           _mm256_permute2x128_si256(r[i], r[i + 4], 0x31));
    }
}

static void pack_rows(size_t n, size_t k, const int8_t *w, size_t w_stride, uint8_t flip, int8_t *panel) {
    const __m256i flips = _mm256_set1_epi8((char)flip);
    size_t t = 0;
    if (w_stride == k) /* in memory's order once; below eight rows are read side by side */
        for (size_t i = 0; i < n * k; i += 64) _mm_prefetch((const char *)w + i, _MM_HINT_T0);
    for (; n == SW_INT_COLS && t + 32 <= k; t += 32)
        UNROLL for (size_t c = 0; c < SW_INT_COLS; c += 8)
            pack_8x8(w + c * w_stride + t, w_stride, flips, panel + t * SW_INT_COLS + 4 * c);
    if (t < k) sw_int_scalar.pack_rows(n, k - t, w + t, w_stride, flip, panel + t * SW_INT_COLS);
}

/* Four rows of w, 16 columns. */
INLINE void pack_4x16(const uint8_t *w, size_t w_stride, __m128i flips, int8_t *panel) {
    __m128i r[4];
    UNROLL for (size_t i = 0; i < 4; i++) r[i] = _mm_xor_si128(load128(w + i * w_stride), flips);
    const __m128i a = _mm_unpacklo_epi8(r[0], r[1]), b = _mm_unpackhi_epi8(r[0], r[1]);
    const __m128i c = _mm_unpacklo_epi8(r[2], r[3]), d = _mm_unpackhi_epi8(r[2], r[3]);
    __m128i *to = (__m128i *)(void *)panel;
    _mm_store_si128(to, _mm_unpacklo_epi16(a, c));
    _mm_store_si128(to + 1, _mm_unpackhi_epi16(a, c));
    _mm_store_si128(to + 2, _mm_unpacklo_epi16(b, d));
    _mm_store_si128(to + 3, _mm_unpackhi_epi16(b, d));
}

static void pack_columns(size_t n, size_t k, const uint8_t *w, size_t w_stride, uint8_t flip, int8_t *panel) {
    const __m128i flips = _mm_set1_epi8((char)flip);
    size_t t = 0;
    for (; n == SW_INT_COLS && t + 4 <= k; t += 4)
        UNROLL for (size_t c = 0; c < SW_INT_COLS; c += 16)
            pack_4x16(w + t * w_stride + c, w_stride, flips, panel + t * SW_INT_COLS + 4 * c);
    if (t < k)
        sw_int_scalar.pack_columns(n, k - t, w + t * w_stride, w_stride, flip, panel + t * SW_INT_COLS);
}

static void panel_sums(size_t k, const int8_t *panel, int32_t *out) {
    const __m256i ones8 = _mm256_set1_epi8(1), ones16 = _mm256_set1_epi16(1);
    for (size_t c = 0; c < SW_INT_COLS; c += 8) {
        __m256i sum = _mm256_setzero_si256();
        for (size_t t = 0; t < k; t += 4) /* 1 * two values of s8 fit int16 */
            sum = _mm256_add_epi32(
                sum, _mm256_madd_epi16(_mm256_maddubs_epi16(ones8, load256(panel + t * SW_INT_COLS + 4 * c)),
                                       ones16));
        _mm256_storeu_si256((__m256i *)(void *)(out + c), sum);
    }
}

/* Sums of 8 columns are two vectors of two lanes a column, [4 columns][2]. Adds them to the totals of 64
 * bits: even lanes shifted up and down again. */
INLINE void add_wide(const __m256i sums[2], __m256i totals[2]) {
    UNROLL for (size_t h = 0; h < 2; h++) {
        const __m256i odd = _mm256_shuffle_epi32(_mm256_srai_epi32(sums[h], 31), 0xf5);
        const __m256i odd64 = _mm256_blend_epi32(_mm256_srli_epi64(sums[h], 32), odd, 0xaa);
        const __m256i sign = _mm256_shuffle_epi32(_mm256_srai_epi32(sums[h], 31), 0xa0);
        const __m256i even64 = _mm256_blend_epi32(sums[h], sign, 0xaa);
        totals[h] = _mm256_add_epi64(totals[h], _mm256_add_epi64(odd64, even64));
    }
}

/* The 8 columns' results. */
INLINE void finish_columns(const __m256i totals[2], bool wide, const int32_t *w_sums, int32_t *out) {
    int64_t sums[8];
    _mm256_storeu_si256((__m256i *)(void *)sums, totals[0]);
    _mm256_storeu_si256((__m256i *)(void *)(sums + 4), totals[1]);
    for (size_t i = 0; i < 8; i++) out[i] = finish(sums[i], wide, w_sums[i]);
}

INLINE __m256i quad(const uint8_t *x) {
    int64_t four;
    memcpy(&four, x, 8);
    return _mm256_set1_epi64x(four);
}

/* `rows` rows and `cols` times 8 of the panel's columns. */
INLINE void tile_columns(const size_t rows, const size_t cols, const uint8_t *x, size_t x_stride,
                         size_t quads, const int8_t *panel, __m256i sums[TILE_ROWS][2]) {
    UNROLL for (size_t i = 0; i < rows * cols; i++) sums[i][0] = sums[i][1] = _mm256_setzero_si256();
    for (size_t g = 0; g < quads; g++, x += 8, panel += 4 * SW_INT_COLS)
        UNROLL for (size_t c = 0; c < cols; c++) {
            const __m256i w0 = _mm256_cvtepi8_epi16(load128(panel + 32 * c)),
                          w1 = _mm256_cvtepi8_epi16(load128(panel + 32 * c + 16));
            UNROLL for (size_t r = 0; r < rows; r++) {
                const __m256i v = quad(x + r * x_stride);
                __m256i *sum = sums[r * cols + c];
                sum[0] = _mm256_add_epi32(sum[0], _mm256_madd_epi16(v, w0));
                sum[1] = _mm256_add_epi32(sum[1], _mm256_madd_epi16(v, w1));
                KEEP(sum[0], sum[1]);
            }
        }
}

/* Rows, and 8 columns as the unit of columns, are constants at each call; one row takes all columns at once,
 * so that the panel is read in memory's order. */
INLINE void tile_rows(const size_t rows, const size_t cols, const uint8_t *x, bool wide, size_t k,
                      const int8_t *panel, const int32_t *w_sums, int32_t *out) {
    const size_t stride = sw_int_x_bytes(k);
    for (size_t c = 0; c < SW_INT_COLS; c += 8 * cols) {
        __m256i totals[TILE_ROWS][2];
        UNROLL for (size_t i = 0; i < rows * cols; i++) totals[i][0] = totals[i][1] = _mm256_setzero_si256();
        for (size_t begin = 0; begin < k; begin += TILE_BLOCK) {
            const size_t n = k - begin < TILE_BLOCK ? k - begin : TILE_BLOCK;
            __m256i sums[TILE_ROWS][2];
            tile_columns(rows, cols, x + 2 * begin, stride, (n + 3) / 4, panel + begin * SW_INT_COLS + 4 * c,
                         sums);
            UNROLL for (size_t i = 0; i < rows * cols; i++) add_wide(sums[i], totals[i]);
        }
        UNROLL for (size_t i = 0; i < rows * cols; i++) {
            const size_t column = c + i % cols * 8;
            finish_columns(totals[i], wide, w_sums + column, out + i / cols * SW_INT_COLS + column);
        }
    }
}

static void tile(size_t rows, const void *x, bool wide, size_t k, const int8_t *panel, const int32_t *w_sums,
                 int32_t *out) {
    const uint8_t *xr = x;
    while (rows > 0) {
        const size_t n = rows >= 4 ? 4 : rows;
        if (n == 4)
            tile_rows(4, 1, xr, wide, k, panel, w_sums, out);
        else if (n == 3)
            tile_rows(3, 1, xr, wide, k, panel, w_sums, out);
        else if (n == 2)
            tile_rows(2, 2, xr, wide, k, panel, w_sums, out);
        else
            tile_rows(1, 4, xr, wide, k, panel, w_sums, out);
        rows -= n, xr += n * sw_int_x_bytes(k), out += n * SW_INT_COLS;
    }
}

/* 8 columns of nibbles as s8: terms 0 to 3 and 4 to 7 of each. */
INLINE void split_nibbles(const uint8_t *nibbles, __m256i out[2]) {
    const __m256i both = load256(nibbles), low = _mm256_set1_epi8(15), eight = _mm256_set1_epi8(8);
    out[0] = _mm256_sub_epi8(_mm256_and_si256(both, low), eight);
    out[1] = _mm256_sub_epi8(_mm256_and_si256(_mm256_srli_epi16(both, 4), low), eight);
}

/* Four terms of x of 16 bits, as load_x has them, in each 4 bytes: their low bytes, or their high ones back
 * without the flip of the top bit. */
INLINE __m256i low_bytes(__m256i four) {
    return _mm256_shuffle_epi8(four, _mm256_set1_epi32(0x06040200));
}
INLINE __m256i high_bytes(__m256i four) {
    return _mm256_xor_si256(_mm256_shuffle_epi8(four, _mm256_set1_epi32(0x07050301)),
                            _mm256_set1_epi8((char)0x80));
}

/* `terms` <= 32 terms of 16 columns and n_p planes of x. Here maddubs can do: eight sums of two products of a
 * u8 and -8..7 stay within int16, 255 * 8 * 2 * 8 = 32640. */
INLINE void nibble_terms(const size_t n_p, const uint8_t *x, size_t terms, const uint8_t *nibbles,
                         __m256i out[2][2]) {
    __m256i sums[2][2];
    UNROLL for (size_t p = 0; p < n_p; p++) sums[p][0] = sums[p][1] = _mm256_setzero_si256();
    for (size_t t = 0; t < terms; t += 8, x += 16, nibbles += 4 * SW_INT_COLS) {
        __m256i planes[2][2];
        UNROLL for (size_t q = 0; q < 2; q++) {
            const __m256i four = quad(x + 8 * q);
            planes[n_p - 1][q] = low_bytes(four);
            if (n_p == 2) planes[0][q] = high_bytes(four);
        }
        UNROLL for (size_t h = 0; h < 2; h++) {
            __m256i w[2];
            split_nibbles(nibbles + 32 * h, w);
            UNROLL for (size_t p = 0; p < n_p; p++) sums[p][h] =
                _mm256_add_epi16(sums[p][h], _mm256_add_epi16(_mm256_maddubs_epi16(planes[p][0], w[0]),
                                                              _mm256_maddubs_epi16(planes[p][1], w[1])));
        }
    }
    UNROLL for (size_t p = 0; p < n_p; p++) {
        UNROLL for (size_t h = 0; h < 2; h++) out[p][h] = _mm256_madd_epi16(sums[p][h], _mm256_set1_epi16(1));
    }
}

INLINE void nibble_planes(const size_t n_p, const uint8_t *x, size_t k, size_t block, const uint8_t *nibbles,
                          int32_t *out) {
    /* As long as int16 sums can be, within a block. */
    const size_t run = block % 32 == 0 ? 32 : block % 16 == 0 ? 16 : 8;
    for (size_t c = 0; c < SW_INT_COLS; c += 16) {
        __m256i sums[2][2];
        UNROLL for (size_t p = 0; p < n_p; p++) sums[p][0] = sums[p][1] = _mm256_setzero_si256();
        for (size_t t = 0; t < k; t += run) {
            __m256i part[2][2];
            nibble_terms(n_p, x + 2 * t, k - t < run ? k - t : run, nibbles + sw_nibbles_at(t, block) + 4 * c,
                         part);
            const uint8_t *steps = block > 0 ? nibbles + sw_nibble_steps_at(t / block, block) + c : NULL;
            UNROLL for (size_t h = 0; h < 2; h++) {
                if (block > 0) {
                    const __m256i factor =
                        _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(steps + 8 * h)));
                    UNROLL for (size_t p = 0; p < n_p; p++) part[p][h] =
                        _mm256_mullo_epi32(part[p][h], factor);
                }
                UNROLL for (size_t p = 0; p < n_p; p++) sums[p][h] = _mm256_add_epi32(sums[p][h], part[p][h]);
            }
        }
        UNROLL for (size_t h = 0; h < 2; h++) {
            __m256i s = sums[0][h];
            if (n_p == 2) s = _mm256_add_epi32(s, _mm256_srai_epi32(sums[1][h], 8));
            _mm256_storeu_si256((__m256i *)(void *)(out + c + 8 * h), s);
        }
    }
}

static void tile_nibbles(const void *x, bool wide, size_t k, size_t block, const uint8_t *nibbles,
                         int32_t *out) {
    if (wide)
        nibble_planes(2, x, k, block, nibbles, out);
    else
        nibble_planes(1, x, k, block, nibbles, out);
}

/* 32 values of s8 times 8 steps of 32 bits, one for four values. */
INLINE __m256i multiply_values(__m256i values, __m256i of8) {
    const __m256i words = _mm256_or_si256(of8, _mm256_slli_epi32(of8, 16));
    const __m256i low = _mm256_unpacklo_epi32(words, words), high = _mm256_unpackhi_epi32(words, words);
    /* unpacked by lanes of 128 bits, as the values are, and packed in the same order */
    const __m256i sign = _mm256_cmpgt_epi8(_mm256_setzero_si256(), values);
    const __m256i a = _mm256_mullo_epi16(_mm256_unpacklo_epi8(values, sign), low);
    const __m256i b = _mm256_mullo_epi16(_mm256_unpackhi_epi8(values, sign), high);
    return _mm256_packs_epi16(a, b);
}

static void unpack_nibbles(size_t k, size_t block, const uint8_t *nibbles, int8_t *panel) {
    for (size_t t = 0; t < k; t += 8, panel += 8 * SW_INT_COLS) {
        const uint8_t *from = nibbles + sw_nibbles_at(t, block);
        const uint8_t *steps = block > 0 ? nibbles + sw_nibble_steps_at(t / block, block) : NULL;
        UNROLL for (size_t c = 0; c < SW_INT_COLS; c += 8) {
            __m256i w[2];
            split_nibbles(from + 4 * c, w);
            if (block > 0) {
                const __m256i of8 =
                    _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(steps + c)));
                w[0] = multiply_values(w[0], of8), w[1] = multiply_values(w[1], of8);
            }
            _mm256_store_si256((__m256i *)(void *)(panel + 4 * c), w[0]);
            if (t + 4 < k) _mm256_store_si256((__m256i *)(void *)(panel + 4 * (SW_INT_COLS + c)), w[1]);
        }
    }
}

INLINE __m128i round_half(__m128i sums, __m128 half, __m128 step, __m256d offset, __m256d max) {
    __m256d v =
        _mm256_mul_pd(_mm256_add_pd(_mm256_cvtepi32_pd(sums), _mm256_cvtps_pd(half)), _mm256_cvtps_pd(step));
    v = _mm256_sub_pd(_mm256_add_pd(v, _mm256_set1_pd(0.5)), offset);
    return _mm256_cvttpd_epi32(_mm256_min_pd(_mm256_max_pd(v, _mm256_setzero_pd()), max));
}

static void requantize(size_t n, const int32_t *sums, sw_int_scaling s, bool wide, int32_t offset, void *y) {
    const __m256d off = _mm256_set1_pd(offset), max = _mm256_set1_pd(wide ? UINT16_MAX : UINT8_MAX);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i sum = _mm256_add_epi32(load256(sums + i), load256(s.share + i));
        sum = _mm256_srav_epi32(sum, load256(s.shift + i));
        const __m256 half = _mm256_loadu_ps(s.half + i), step = _mm256_loadu_ps(s.step + i);
        const __m128i low = round_half(_mm256_castsi256_si128(sum), _mm256_castps256_ps128(half),
                                       _mm256_castps256_ps128(step), off, max);
        const __m128i high = round_half(_mm256_extracti128_si256(sum, 1), _mm256_extractf128_ps(half, 1),
                                        _mm256_extractf128_ps(step, 1), off, max);
        const __m128i q = _mm_packus_epi32(low, high);
        if (wide)
            _mm_storeu_si128((__m128i *)(void *)((uint16_t *)y + i), q);
        else
            _mm_storel_epi64((__m128i *)(void *)((uint8_t *)y + i), _mm_packus_epi16(q, q));
    }
    const sw_int_scaling rest = {s.step + i, s.half + i, s.shift + i, s.share + i};
    if (i < n) sw_int_scalar.requantize(n - i, sums + i, rest, wide, offset, (char *)y + i * (wide ? 2 : 1));
}

const sw_int_isa sw_int_avx2 = {.needs = SW_ISA_AVX2,
                                .load_x = load_x,
                                .row_sums = row_sums,
                                .dot = dot,
                                .pack_rows = pack_rows,
                                .pack_columns = pack_columns,
                                .panel_sums = panel_sums,
                                .tile = tile,
                                .tile_nibbles = tile_nibbles,
                                .unpack_nibbles = unpack_nibbles,
                                .requantize = requantize};

#else
typedef int sw_no_avx2_integers_here; /* ISO C wants a declaration */
#endif
