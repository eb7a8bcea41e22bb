/* int_neon.h: the integer inner loops for 64-bit Arm, in three variants from one text, each compiled for its
 * instructions (int_neon*.c define NEON_ISA, NEON_NEEDS and NEON_FORM, one of these):
 *
 *   NEON_PLAIN    smull and sadalp: products of 16 bits, added in pairs. Any processor.
 *   NEON_DOTPROD  sdot: four products of s8 a lane.
 *   NEON_I8MM     usdot: four products of u8 and s8 a lane.
 *
 * x's form: rows of bytes, u16 as two of them, [high or all: pad64(k)][low: pad64(k)]. usdot takes them as
 * they are; for the other two they are stored as q - 128, and 128 * sum of w is added to each sum at the end.
 * Sums of 32 bits: |x| <= 255, |w| <= 128, 65535 terms. */
#include <arm_neon.h>
#include <string.h>

#include "cpu/int_isa.h"

#define NEON_PLAIN   0
#define NEON_DOTPROD 1
#define NEON_I8MM    2

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

#define CENTRED (NEON_FORM != NEON_I8MM) /* x is stored as q - 128 */

INLINE size_t plane_bytes(size_t k) {
    return sw_int_x_bytes(k) / 2;
}

static void load_x(size_t k, bool wide, const void *x, void *out) {
    const uint8_t flip = CENTRED ? 0x80 : 0;
    const size_t plane = plane_bytes(k);
    uint8_t *high = out, *low = high + plane;
    for (size_t t = 0; t < k; t++) {
        const unsigned q = wide ? ((const uint16_t *)x)[t] : ((const uint8_t *)x)[t];
        high[t] = (uint8_t)((wide ? q >> 8 : q) ^ flip);
        low[t] = (uint8_t)((q & 255) ^ flip);
    }
    memset(high + k, 0, plane - k); /* w's zeros or this one's: nothing comes of what is past k */
    memset(low + k, 0, plane - k);
}

/* Four sums of four products each, added to acc. */
INLINE int32x4_t dot4(int32x4_t acc, uint8x16_t x, int8x16_t w) {
#if NEON_FORM == NEON_I8MM
    return vusdotq_s32(acc, x, w);
#elif NEON_FORM == NEON_DOTPROD
    return vdotq_s32(acc, vreinterpretq_s8_u8(x), w);
#else
    const int8x16_t s = vreinterpretq_s8_u8(x);
    const int16x8_t a = vmull_s8(vget_low_s8(s), vget_low_s8(w)), b = vmull_high_s8(s, w);
    return vaddq_s32(acc, vpaddq_s32(vpaddlq_s16(a), vpaddlq_s16(b)));
#endif
}

INLINE int32_t finish(int32_t high, int32_t low, bool wide, int32_t w_sum) {
    const int32_t share = CENTRED ? 128 * w_sum : 0;
    return wide ? high + share + ((low + share) >> 8) : high + share;
}

/* 64 values of w from term t on; zeros past k. */
INLINE void load_bytes(const int8_t *w, size_t t, size_t k, int8x16_t flips, int8x16_t out[4]) {
    int8_t rest[64];
    const int8_t *from = w + t;
    if (t + 64 > k) {
        memset(rest, 0, sizeof rest);
        memcpy(rest, from, k - t);
        from = rest;
    }
    UNROLL for (size_t i = 0; i < 4; i++) out[i] = veorq_s8(vld1q_s8(from + 16 * i), flips);
}

/* One row of w, `planes` planes of one row of x. Past k x is 0. */
INLINE void dot_row(const size_t planes, const uint8_t *x, const int8_t *w, uint8_t flip, size_t k,
                    int32_t w_sum, int32_t *out) {
    int32x4_t sums[2][2];
    const int8x16_t flips = vdupq_n_s8((int8_t)flip);
    UNROLL for (size_t p = 0; p < planes; p++) sums[p][0] = sums[p][1] = vdupq_n_s32(0);
    for (size_t t = 0; t < k; t += 64) {
        int8x16_t v[4];
        load_bytes(w, t, k, flips, v);
        UNROLL for (size_t p = 0; p < planes; p++) {
            UNROLL for (size_t i = 0; i < 4; i++) sums[p][i % 2] =
                dot4(sums[p][i % 2], vld1q_u8(x + p * plane_bytes(k) + t + 16 * i), v[i]);
        }
    }
    const int32_t high = vaddvq_s32(vaddq_s32(sums[0][0], sums[0][1]));
    const int32_t low = planes == 2 ? vaddvq_s32(vaddq_s32(sums[1][0], sums[1][1])) : 0;
    *out = finish(high, low, planes == 2, w_sum);
}

static void dot(size_t n_x, const void *x, bool wide, size_t n_w, size_t k, const int8_t *w, size_t w_stride,
                uint8_t flip, const int32_t *w_sums, int32_t *out, size_t out_stride) {
    for (size_t i = 0; i < n_x; i++, out += out_stride)
        for (size_t j = 0; j < n_w; j++) {
            const uint8_t *xi = (const uint8_t *)x + i * sw_int_x_bytes(k);
            if (wide)
                dot_row(2, xi, w + j * w_stride, flip, k, w_sums[j], out + j);
            else
                dot_row(1, xi, w + j * w_stride, flip, k, w_sums[j], out + j);
        }
}

static void row_sums(size_t n, size_t k, const int8_t *w, size_t w_stride, uint8_t flip, int32_t *out) {
    const int8x16_t flips = vdupq_n_s8((int8_t)flip);
    for (size_t j = 0; j < n; j++, w += w_stride) {
        int32x4_t sum = vdupq_n_s32(0);
        size_t t = 0;
        for (; t + 16 <= k; t += 16) sum = vpadalq_s16(sum, vpaddlq_s8(veorq_s8(vld1q_s8(w + t), flips)));
        out[j] = vaddvq_s32(sum);
        for (; t < k; t++) out[j] += (int8_t)((uint8_t)w[t] ^ flip);
    }
}

/* Four rows of w, four terms of four bytes: a transposed matrix of 32-bit pieces. */
INLINE void pack_4x4(const int8_t *w, size_t w_stride, uint8_t flip, int8_t *panel) {
    const int32x4_t flips = vreinterpretq_s32_u8(vdupq_n_u8(flip));
    int32x4_t r[4];
    UNROLL for (size_t i = 0; i < 4; i++) r[i] =
        veorq_s32(vreinterpretq_s32_s8(vld1q_s8(w + i * w_stride)), flips);
    const int64x2_t a = vreinterpretq_s64_s32(vtrn1q_s32(r[0], r[1])),
                    b = vreinterpretq_s64_s32(vtrn2q_s32(r[0], r[1])),
                    c = vreinterpretq_s64_s32(vtrn1q_s32(r[2], r[3])),
                    d = vreinterpretq_s64_s32(vtrn2q_s32(r[2], r[3]));
    vst1q_s8(panel, vreinterpretq_s8_s64(vtrn1q_s64(a, c)));
    vst1q_s8(panel + 4 * SW_INT_COLS, vreinterpretq_s8_s64(vtrn1q_s64(b, d)));
    vst1q_s8(panel + 8 * SW_INT_COLS, vreinterpretq_s8_s64(vtrn2q_s64(a, c)));
    vst1q_s8(panel + 12 * SW_INT_COLS, vreinterpretq_s8_s64(vtrn2q_s64(b, d)));
}

static void pack_rows(size_t n, size_t k, const int8_t *w, size_t w_stride, uint8_t flip, int8_t *panel) {
    size_t t = 0;
    for (; n == SW_INT_COLS && t + 16 <= k; t += 16)
        for (size_t c = 0; c < SW_INT_COLS; c += 4)
            pack_4x4(w + c * w_stride + t, w_stride, flip, panel + t * SW_INT_COLS + 4 * c);
    if (t < k) sw_int_scalar.pack_rows(n, k - t, w + t, w_stride, flip, panel + t * SW_INT_COLS);
}

static void pack_columns(size_t n, size_t k, const uint8_t *w, size_t w_stride, uint8_t flip, int8_t *panel) {
    const uint8x16_t flips = vdupq_n_u8(flip);
    size_t t = 0;
    for (; n == SW_INT_COLS && t + 4 <= k; t += 4)
        for (size_t c = 0; c < SW_INT_COLS; c += 16) {
            uint8x16x4_t r; /* stored with the four rows' bytes in turn */
            UNROLL for (size_t i = 0; i < 4; i++) r.val[i] =
                veorq_u8(vld1q_u8(w + (t + i) * w_stride + c), flips);
            vst4q_u8((uint8_t *)panel + t * SW_INT_COLS + 4 * c, r);
        }
    if (t < k)
        sw_int_scalar.pack_columns(n, k - t, w + t * w_stride, w_stride, flip, panel + t * SW_INT_COLS);
}

static void panel_sums(size_t k, const int8_t *panel, int32_t *out) {
    for (size_t c = 0; c < SW_INT_COLS; c += 4) {
        int32x4_t sum = vdupq_n_s32(0);
        for (size_t t = 0; t < k; t += 4)
            sum = vaddq_s32(sum, vpaddlq_s16(vpaddlq_s8(vld1q_s8(panel + t * SW_INT_COLS + 4 * c))));
        vst1q_s32(out + c, sum);
    }
}

/* n_p planes of x, `step` bytes apart, and 16 of the panel's columns; n_p <= 4 is a constant at each call. */
INLINE void tile_planes(const size_t n_p, const uint8_t *x, size_t step, size_t k, const int8_t *panel,
                        int32_t *out) {
    int32x4_t sums[4][4];
    UNROLL for (size_t p = 0; p < n_p; p++) {
        UNROLL for (size_t c = 0; c < 4; c++) sums[p][c] = vdupq_n_s32(0);
    }
    for (size_t t = 0; t < k; t += 4, panel += 4 * SW_INT_COLS) {
        UNROLL for (size_t c = 0; c < 4; c++) {
            const int8x16_t w = vld1q_s8(panel + 16 * c);
            UNROLL for (size_t p = 0; p < n_p; p++) {
                uint32_t four;
                memcpy(&four, x + p * step + t, 4);
                sums[p][c] = dot4(sums[p][c], vreinterpretq_u8_u32(vdupq_n_u32(four)), w);
            }
        }
    }
    UNROLL for (size_t p = 0; p < n_p; p++) {
        UNROLL for (size_t c = 0; c < 4; c++) vst1q_s32(out + p * SW_INT_COLS + 4 * c, sums[p][c]);
    }
}

static void tile(size_t rows, const void *x, bool wide, size_t k, const int8_t *panel, const int32_t *w_sums,
                 int32_t *out) {
    int32_t sums[SW_INT_ROWS * SW_INT_COLS];
    const size_t step = (wide ? 1 : 2) * plane_bytes(k), planes = wide ? 2 * rows : rows;
    for (size_t c = 0; c < SW_INT_COLS; c += 16)
        for (size_t p = 0; p < planes;) {
            const uint8_t *from = (const uint8_t *)x + p * step;
            int32_t *to = sums + p * SW_INT_COLS + c;
            const size_t n = planes - p >= 4 ? 4 : planes - p >= 2 ? 2 : 1;
            if (n == 4)
                tile_planes(4, from, step, k, panel + 4 * c, to);
            else if (n == 2)
                tile_planes(2, from, step, k, panel + 4 * c, to);
            else
                tile_planes(1, from, step, k, panel + 4 * c, to);
            p += n;
        }
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < SW_INT_COLS; c++) {
            const int32_t *high = sums + (wide ? 2 : 1) * r * SW_INT_COLS + c;
            out[r * SW_INT_COLS + c] = finish(high[0], wide ? high[SW_INT_COLS] : 0, wide, w_sums[c]);
        }
}

static void unpack_nibbles(size_t k, size_t block, const uint8_t *nibbles, int8_t *panel) {
    sw_int_scalar.unpack_nibbles(k, block, nibbles, panel);
}

INLINE int32x2_t round_pair(int32x2_t sums, float32x2_t half, float32x2_t step, float64x2_t offset,
                            float64x2_t max) {
    float64x2_t v =
        vmulq_f64(vaddq_f64(vcvtq_f64_s64(vmovl_s32(sums)), vcvt_f64_f32(half)), vcvt_f64_f32(step));
    v = vsubq_f64(vaddq_f64(v, vdupq_n_f64(0.5)), offset);
    v = vminq_f64(vmaxnmq_f64(v, vdupq_n_f64(0)), max); /* of a NaN 0 */
    return vmovn_s64(vcvtq_s64_f64(v));
}

static void requantize(size_t n, const int32_t *sums, sw_int_scaling s, bool wide, int32_t offset, void *y) {
    const float64x2_t off = vdupq_n_f64(offset), max = vdupq_n_f64(wide ? UINT16_MAX : UINT8_MAX);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        int32x4_t sum = vaddq_s32(vld1q_s32(sums + i), vld1q_s32(s.share + i));
        sum = vshlq_s32(sum, vnegq_s32(vld1q_s32(s.shift + i)));
        const float32x4_t half = vld1q_f32(s.half + i), step = vld1q_f32(s.step + i);
        const int32x2_t a = round_pair(vget_low_s32(sum), vget_low_f32(half), vget_low_f32(step), off, max);
        const int32x2_t b =
            round_pair(vget_high_s32(sum), vget_high_f32(half), vget_high_f32(step), off, max);
        const uint16x4_t q = vmovn_u32(vreinterpretq_u32_s32(vcombine_s32(a, b)));
        if (wide) {
            vst1_u16((uint16_t *)y + i, q);
        } else {
            const uint8x8_t bytes = vmovn_u16(vcombine_u16(q, q));
            const uint32_t four = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
            memcpy((uint8_t *)y + i, &four, 4);
        }
    }
    const sw_int_scaling rest = {s.step + i, s.half + i, s.shift + i, s.share + i};
    if (i < n) sw_int_scalar.requantize(n - i, sums + i, rest, wide, offset, (char *)y + i * (wide ? 2 : 1));
}

const sw_int_isa NEON_ISA = {.needs = NEON_NEEDS,
                             .load_x = load_x,
                             .row_sums = row_sums,
                             .dot = dot,
                             .pack_rows = pack_rows,
                             .pack_columns = pack_columns,
                             .panel_sums = CENTRED ? panel_sums : NULL,
                             .tile = tile,
                             .unpack_nibbles = unpack_nibbles,
                             .requantize = requantize};
