/* panels_avx2.c: the loops of panels.h for AVX2. */
#include "quant/panels.h"

#if defined(__x86_64__)
#include <immintrin.h>

typedef __m256 vector_f32;
typedef __m256d vector_f64;

static inline vector_f32 fma_f32(float a, vector_f32 b, vector_f32 c) {
    return _mm256_fmadd_ps(_mm256_set1_ps(a), b, c);
}

static inline vector_f64 fma_f64(double a, vector_f64 b, vector_f64 c) {
    return _mm256_fmadd_pd(_mm256_set1_pd(a), b, c);
}

#include "quant/panels_body.h"

const sw_panels_isa sw_panels_avx2 = {SW_ISA_AVX2, tile, tile_f64, round_block};
#endif
