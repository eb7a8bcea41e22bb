/* panels.h: the inner loops of rounding, one variant an instruction set.
 *
 * A panel is 16 columns of a matrix, row behind row: panel[k * 16 + c]. All loops run over the 16 columns of
 * a panel at once. Each element of a product is one chain of fma in the order of k; elsewhere products are
 * rounded before they are added. So every variant gives the same bits. */
#ifndef SW_QUANT_PANELS_H
#define SW_QUANT_PANELS_H

#include <stddef.h>

#include "base/cpu_features.h"

enum {
    SW_PANEL = 16,     /* columns of a panel */
    SW_TILE = 8,       /* rows of a tile of products */
    SW_MOST_BLOCK = 64 /* weights of a row that are rounded at a time */
};

/* A block of columns of 16 rows, to be rounded with one scale a row. */
typedef struct sw_block {
    size_t size;         /* columns: 16, 32 or 64 */
    const float *x;      /* [size][16]: the weights, with the errors of the columns before them made up for */
    const float *u;      /* [size][size]: u[i][c], i < c: what an error of column i asks of column c */
    const float *weight; /* [size]: cost of a squared error in that column once the ones behind it adapt */
    float low, high;     /* least and greatest integer */
} sw_block;

typedef struct sw_panels_isa {
    sw_isa needs;

    /* c[8][16] += sum over k of a[k * 16 + row] * b[k * 16 + column]. */
    void (*tile)(size_t n, const float *a, const float *b, float *c);
    void (*tile_f64)(size_t n, const double *a, const double *b, double *c);

    /* Rounds the block with these scales (0: to zeros), column by column, each error handed on to the columns
     * behind it: q [size][16], the sum of weighted squared errors to cost [16]. */
    void (*round_block)(const sw_block *block, const float scale[SW_PANEL], float *q, float cost[SW_PANEL]);
} sw_panels_isa;

extern const sw_panels_isa sw_panels_scalar;
#if defined(__x86_64__)
extern const sw_panels_isa sw_panels_avx2, sw_panels_avx512;
#endif

/* The best variant that this processor can run. */
const sw_panels_isa *sw_panels_best(void);

#endif
