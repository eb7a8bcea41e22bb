/* rotate_loops.h: the inner loops of rotations, one variant an instruction set. Products are rounded before
 * they are added, in one order: every variant gives the same bits. */
#ifndef SW_QUANT_ROTATE_LOOPS_H
#define SW_QUANT_ROTATE_LOOPS_H

#include <stddef.h>

#include "base/cpu_features.h"

typedef struct sw_rotate_loops {
    sw_isa needs;

    /* x [count, run]: unnormalized Walsh-Hadamard over count, a power of two. */
    void (*walsh)(float *x, size_t count, size_t run);

    /* out [block, run], row j the sum over i of x [block, run]'s row i times dense [block, block] at (i, j).
     */
    void (*dense)(size_t block, size_t run, const float *dense, const float *x, float *out);
} sw_rotate_loops;

extern const sw_rotate_loops sw_rotate_scalar;
#if defined(__x86_64__)
extern const sw_rotate_loops sw_rotate_avx2, sw_rotate_avx512;
#endif

/* The best variant that this processor can run. */
const sw_rotate_loops *sw_rotate_best(void);

#endif
