/* panels_avx512.c: the loops of panels.h for AVX-512. */
#include "quant/panels.h"

#if defined(__x86_64__)
#include <immintrin.h>

typedef __m512 vector_f32;
typedef __m512d vector_f64;

static inline vector_f32 fma_f32(float a, vector_f32 b, vector_f32 c) {
    return _mm512_fmadd_ps(_mm512_set1_ps(a), b, c);
}

static inline vector_f64 fma_f64(double a, vector_f64 b, vector_f64 c) {
    return _mm512_fmadd_pd(_mm512_set1_pd(a), b, c);
}

#include "quant/panels_body.h"

const sw_panels_isa sw_panels_avx512 = {SW_ISA_AVX512, tile, tile_f64, round_block};
#endif
