/* value_loops.h: loops over a row of values, one variant an instruction set, all with the same bits. */
#ifndef SW_QUANT_VALUE_LOOPS_H
#define SW_QUANT_VALUE_LOOPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu_features.h"

typedef struct sw_value_loops {
    sw_isa needs;

    /* Least and greatest of x [n], n > 0. An infinity or NaN counts as beyond all finite values of its sign,
     * so that the two are finite where all values are. */
    void (*range)(const float *x, size_t n, float *min, float *max);

    /* q [n] = x * inverse to the nearest, at most 127 in magnitude; |x * inverse| < 2^21. Returns how near a
     * product came to the middle between two integers, 0 to 0.5. */
    float (*nearest_of_8)(const float *x, size_t n, float inverse, int8_t *q);

    /* Sum of x^2, and of (x - y)^2. */
    void (*cost)(const float *x, const float *y, size_t n, double *signal, double *noise);
} sw_value_loops;

extern const sw_value_loops sw_values_scalar;
#if defined(__x86_64__)
extern const sw_value_loops sw_values_avx2, sw_values_avx512;
#endif

/* The best variant that this processor can run. */
const sw_value_loops *sw_values_best(void);

#endif
