/* matrix.h: rows of a matrix to few integers: scales by a search for the least squared error. */
#ifndef SW_QUANT_MATRIX_H
#define SW_QUANT_MATRIX_H

#include "graph/ir.h"

/* Where the scales of a row go: what its form has; the others are NULL. */
typedef struct sw_row_scales {
    float *channel;       /* 1, > 0 */
    uint16_t *block;      /* [cols / block], f16 */
    uint8_t *block_steps; /* [cols / block], 1..16 */
} sw_row_scales;

/* row [cols], finite values, to q [cols] in the form's range, and their scales. scratch [cols]. False where a
 * scale is beyond f16. */
bool sw_quantize_matrix_row(sw_weight_form form, const float *row, size_t cols, int8_t *q,
                            sw_row_scales scales, float *scratch);

/* The channel scale of a row in a form that has one, where column i's squared error counts weights[i] times
 * (NULL: once). scratch [cols]. */
float sw_matrix_row_scale(sw_weight_form form, const float *row, const float *weights, size_t cols,
                          float *scratch);

#endif
