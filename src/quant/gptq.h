/* gptq.h: rounds rows of a matrix so that the layer's output changes least. */
#ifndef SW_QUANT_GPTQ_H
#define SW_QUANT_GPTQ_H

#include "quant/hessian.h"
#include "quant/matrix.h"

enum { SW_GPTQ_ROWS = 16 }; /* rows of a call at most: they share the work on the factor */

/* Bytes of scratch that sw_gptq_rows needs for rows of a factor's n. */
size_t sw_gptq_scratch_bytes(const sw_factor *factor);

/* rows [n_rows, n], finite values, to q [n_rows, n] in the form's range and their scales, one behind the
 * other: channel [n_rows], the others [n_rows][n / block]. n is the factor's, a multiple of the form's block.
 * What a row becomes doesn't depend on the rows beside it. False where a scale is beyond f16. */
bool sw_gptq_rows(sw_weight_form form, const sw_factor *factor, const float *rows, size_t n_rows, int8_t *q,
                  sw_row_scales scales, void *scratch);

#endif
