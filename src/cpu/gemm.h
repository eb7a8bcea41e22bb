/* gemm.h: matrix products of floats.
 *
 * Method: 32 columns of the right matrix at a time are packed into a panel [k][32] of the worker's scratch,
 * from whatever form they have; the panel then meets all rows of the left matrix, 12 at a time. A stored
 * weight is so turned into float once a call, and no float copy of a model is ever made. */
#ifndef SW_CPU_GEMM_H
#define SW_CPU_GEMM_H

#include "base/threads.h"
#include "cpu/f32_isa.h"
#include "graph/ir.h"

/* A matrix [n, cols] whose rows can be had as float, however they are stored. One of f32, f16, s8, view is
 * set. */
typedef struct sw_rows {
    size_t cols;
    const float *f32;
    const uint16_t *f16;
    const sw_tensor *s8; /* with data and scales */
    const sw_weight *view;
    bool round_to_f16; /* of a view: the values are those of an f16 tensor */
} sw_rows;

/* The rows of an f32, f16 or s8 tensor [n, cols]; data NULL means the constant's view. */
sw_rows sw_rows_of(const sw_tensor *t, const void *data);

/* Row `row`: in place, or written to buffer [cols]. */
const float *sw_rows_get(const sw_rows *rows, const sw_f32_isa *isa, size_t row, float *buffer);

/* y[batch] = x[batch] . b[batch], or x[batch] . rows[batch]^T where b is NULL.
 *
 *   x     [batches, rows, k]
 *   b     [batches, k, cols]
 *   w     [batches * cols, k]
 *   y     [batches, rows, cols]; overlaps no input
 *
 * Each element is one chain of fma in the order of k, whatever the variant and the number of threads; but
 * with `w` and fewer than SW_GEMM_FEW_ROWS rows in all it is isa->dot's sum. */
enum { SW_GEMM_FEW_ROWS = 4 };

typedef struct sw_gemm {
    size_t batches, rows, cols, k;
    const float *x, *b;
    sw_rows w;
    float *y;
} sw_gemm;

/* Bytes of scratch of sw_gemm_run with this many threads; the scratch is aligned to 64. */
size_t sw_gemm_scratch_bytes(size_t k, size_t threads);

void sw_gemm_run(const sw_gemm *gemm, const sw_f32_isa *isa, void *scratch, sw_pool *pool);

#endif
