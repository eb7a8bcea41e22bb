/* f32_isa.h: the inner loops of the float kernels, one variant an instruction set.
 *
 * Every variant gives the same bits: the order of each sum is part of the contract below, and every product
 * is added by a fused multiply-add. A calibration is then the same on every machine. */
#ifndef SW_CPU_F32_ISA_H
#define SW_CPU_F32_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu_features.h"

enum {
    SW_TILE_ROWS = 12, /* most rows of a tile */
    SW_TILE_COLS = 32, /* columns of a tile, and of a panel */
    SW_PACK_COLS = 8,  /* columns packed at once */
    SW_DOT_LANES = 32  /* partial sums of a dot product */
};

typedef struct sw_f32_isa {
    sw_isa needs;

    /* y[rows, 32] = (add ? y : 0) + x[rows, k] . panel[k, 32]; rows <= 12, panel aligned to 64 bytes.
     * Each element is one chain of fma in the order of k. x_stride and y_stride: floats between rows. */
    void (*tile)(size_t rows, size_t k, const float *x, size_t x_stride, const float *panel, float *y,
                 size_t y_stride, bool add);

    /* Eight columns of a panel: panel[i * 32 + c] = columns[c][i], i < k. */
    void (*pack)(size_t k, const float *const columns[SW_PACK_COLS], float *panel);

    /* Sum of a[i] * b[i]: lane i % 32 is one chain of fma; then lanes l and l + 16, l + 8, .. l + 1 are
     * added. */
    float (*dot)(size_t k, const float *a, const float *b);

    /* Half to float and back, rounding to nearest even; a NaN stays a NaN. */
    void (*from_f16)(size_t n, const uint16_t *in, float *out);
    void (*to_f16)(size_t n, const float *in, uint16_t *out);

    /* out[i] = e^(scale * in[i] - shift), of arguments <= 0, by exp_f32.h; in and out may be the same. */
    void (*exp)(size_t n, float scale, float shift, const float *in, float *out);
} sw_f32_isa;

extern const sw_f32_isa sw_f32_scalar;
#if defined(__x86_64__)
extern const sw_f32_isa sw_f32_avx2, sw_f32_avx512;
#endif

/* Best first; the last is scalar. */
extern const sw_f32_isa *const sw_f32_variants[];
extern const size_t sw_f32_variant_count;

/* The first variant that this processor can run; read once a process. */
const sw_f32_isa *sw_f32_best(void);

#endif
