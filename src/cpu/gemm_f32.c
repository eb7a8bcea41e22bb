/* gemm_f32.c: the inner loops in plain C: the reference of the others, and what runs where there is no other.
 * fmaf is an instruction on every 64-bit ARM, and compilers vectorize over the columns there. */
#include <math.h>

#include "base/f16.h"
#include "cpu/exp_f32.h"
#include "cpu/f32_isa.h"

static void tile(size_t rows, size_t k, const float *x, size_t x_stride, const float *panel, float *y,
                 size_t y_stride, bool add) {
    for (size_t r = 0; r < rows; r++) {
        float sum[SW_TILE_COLS];
        for (size_t c = 0; c < SW_TILE_COLS; c++) sum[c] = add ? y[r * y_stride + c] : 0.0f;
        for (size_t i = 0; i < k; i++) {
            float value = x[r * x_stride + i];
            for (size_t c = 0; c < SW_TILE_COLS; c++)
                sum[c] = fmaf(value, panel[i * SW_TILE_COLS + c], sum[c]);
        }
        for (size_t c = 0; c < SW_TILE_COLS; c++) y[r * y_stride + c] = sum[c];
    }
}

static void pack(size_t k, const float *const columns[SW_PACK_COLS], float *panel) {
    for (size_t i = 0; i < k; i++)
        for (size_t c = 0; c < SW_PACK_COLS; c++) panel[i * SW_TILE_COLS + c] = columns[c][i];
}

static float dot(size_t k, const float *a, const float *b) {
    float lane[SW_DOT_LANES] = {0};
    size_t i = 0;
    for (; i + SW_DOT_LANES <= k; i += SW_DOT_LANES)
        for (size_t l = 0; l < SW_DOT_LANES; l++) lane[l] = fmaf(a[i + l], b[i + l], lane[l]);
    for (size_t l = 0; i + l < k; l++) lane[l] = fmaf(a[i + l], b[i + l], lane[l]);
    for (size_t half = SW_DOT_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

static void from_f16(size_t n, const uint16_t *in, float *out) {
    for (size_t i = 0; i < n; i++) out[i] = sw_f16_to_f32(in[i]);
}

static void to_f16(size_t n, const float *in, uint16_t *out) {
    for (size_t i = 0; i < n; i++) out[i] = sw_f32_to_f16(in[i]);
}

static void exp_f32(size_t n, float scale, float shift, const float *in, float *out) {
    sw_exp_f32_loop(n, scale, shift, in, out);
}

const sw_f32_isa sw_f32_scalar = {SW_ISA_SCALAR, tile, pack, dot, from_f16, to_f16, exp_f32};
