/* dot.h: the inner loop of the integer matrix products, one variant an instruction set. */
#ifndef SW_CPU_DOT_H
#define SW_CPU_DOT_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu_features.h"

/* 255 * 128 * 65536 < 2^31: a sum of this many terms fits int32 in any order. */
enum { SW_DOT_MAX_TERMS = 65536 };

/* out[i * out_stride + j] = sum over t < k of x[i][t] * w[j][t], exact.
 *
 *   x    [n_x, k]  uint8, dense
 *   w    [n_w, k]  int8, dense
 *   out  [n_x, n_w]
 *
 * k <= SW_DOT_MAX_TERMS. No alignment is needed, nothing is read past the ends. */
typedef void sw_dot_u8s8(const uint8_t *x, size_t n_x, const int8_t *w, size_t n_w, size_t k, int32_t *out,
                         size_t out_stride);

typedef struct sw_dot_variant {
    sw_isa needs;
    sw_dot_u8s8 *dot;
} sw_dot_variant;

/* Best first; the last is scalar. */
extern const sw_dot_variant sw_dot_variants[];
extern const size_t sw_dot_variant_count;

/* The first variant this processor can run. */
sw_dot_u8s8 *sw_dot_choose(void);

sw_dot_u8s8 sw_dot_u8s8_scalar;
#if defined(__x86_64__)
sw_dot_u8s8 sw_dot_u8s8_avx2, sw_dot_u8s8_avx512;
#endif

#endif
