/* hessian.h: second moments of a linear layer's input, and the factor that rounding needs of them.
 *
 * A row w of a matrix rounded to q changes the layer's output on inputs x_t by sum over t of ((w - q) x_t)^2
 * = (w - q) H (w - q)^T, H = sum x_t x_t^T. With H = R R^T, R upper triangular, that is the squared length of
 * (w - q) R: column by column, what an error in column i does to column c > i is R[i][c].
 *
 * Where the layers before were rounded too, x_t is what the layer now gets and y_t what it got before. Then
 * what counts is sum over t of (w y_t - q x_t)^2: the same but for w, in whose place w + w C H^-1 stands, C =
 * sum (y_t - x_t) x_t^T (asymmetric calibration: GPTAQ, Li et al., arXiv 2504.02692). */
#ifndef SW_QUANT_HESSIAN_H
#define SW_QUANT_HESSIAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/threads.h"

/* Sums in f32, n^2 * 8 bytes: panels of 16 columns (panels.h) over all rows. */
typedef struct sw_moments {
    size_t n, padded; /* rounded up to 16 */
    float *sums;      /* H; panel p is filled down to row 16 * (p + 1) */
    float *cross;     /* [i][j] = sum (y_t - x_t)[i] x_t[j] */
} sw_moments;

sw_code sw_moments_init(sw_moments *m, size_t n, sw_error *err) SW_MUST_CHECK;
void sw_moments_clear(sw_moments *m);
void sw_moments_free(sw_moments *m); /* an empty one is allowed */

/* Adds x [rows, n], the inputs of now, and y [rows, n], those before any rounding; they may be the same. pool
 * may be NULL; the sums don't depend on it.
 * Errors: SW_BAD_DATA (a value that isn't finite; the sums are then as before), SW_NO_MEMORY. */
sw_code sw_moments_add(sw_moments *m, const float *x, const float *y, size_t rows, sw_pool *pool,
                       sw_error *err) SW_MUST_CHECK;

/* H[i][j]. */
float sw_moments_get(const sw_moments *m, size_t i, size_t j);

/* R, each column divided by its diagonal element, as rounding reads it. */
typedef struct sw_factor {
    size_t n, padded;
    size_t *order;   /* [padded]: column c of what follows is the input's order[c] */
    float *u;        /* panels over all rows: R[i][c] / R[c][c] for i < c, else 0 */
    float *ut;       /* its transpose */
    float *cross;    /* the moments' */
    float *weight;   /* [padded]: R[c][c]^2, the cost of a squared error of column c once later ones adapt */
    float *diagonal; /* [padded]: H[c][c], the cost of one alone */
} sw_factor;

/* Factors H with a damped diagonal. The columns with the greatest moments come first, but those of a block
 * stay together: n is a multiple of block (1: none). Takes n^2 * 8 bytes while it runs, and keeps n^2 * 12.
 * Errors: SW_BAD_DATA (sums that aren't finite), SW_NO_MEMORY. */
sw_code sw_factor_init(sw_factor *f, const sw_moments *m, size_t block, sw_pool *pool,
                       sw_error *err) SW_MUST_CHECK;
void sw_factor_free(sw_factor *f); /* an empty one is allowed */

#endif
