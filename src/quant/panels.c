/* panels.c: the loops of panels.h for any processor, and the choice. */
#include "quant/panels.h"

#include <math.h>

typedef struct vector_f32 {
    float v[4];
} vector_f32;
typedef struct vector_f64 {
    double v[2];
} vector_f64;

static inline vector_f32 fma_f32(float a, vector_f32 b, vector_f32 c) {
    for (int i = 0; i < 4; i++) c.v[i] = fmaf(a, b.v[i], c.v[i]);
    return c;
}

static inline vector_f64 fma_f64(double a, vector_f64 b, vector_f64 c) {
    for (int i = 0; i < 2; i++) c.v[i] = fma(a, b.v[i], c.v[i]);
    return c;
}

#include "quant/panels_body.h"

const sw_panels_isa sw_panels_scalar = {SW_ISA_SCALAR, tile, tile_f64, round_block};

const sw_panels_isa *sw_panels_best(void) {
#if defined(__x86_64__)
    if (sw_cpu_has(sw_panels_avx512.needs)) return &sw_panels_avx512;
    if (sw_cpu_has(sw_panels_avx2.needs)) return &sw_panels_avx2;
#endif
    return &sw_panels_scalar;
}
