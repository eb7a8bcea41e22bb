/* encoding.h: encodings from ranges. */
#ifndef SW_QUANT_ENCODING_H
#define SW_QUANT_ENCODING_H

#include "graph/ir.h"

/* Affine over [min, max] widened to hold 0, which gets an integer of its own: scale = (max - min) / (2^bits -
 * 1), zero point = round(-min / scale). Either end may so lie up to half a step outside. A range narrower
 * than 1e-6 (of zeros, mostly) is taken as that wide. min, max finite. */
sw_encoding sw_encoding_of_range(double min, double max, sw_dtype type);

/* [-bound, bound] with the zero point in the middle, offset -2^(bits-1): for K and V, since the HTP
 * multiplies by a second input of MatMul exactly only where it fits the signed type of its width
 * (docs/numerics.md). */
sw_encoding sw_encoding_symmetric(double bound, sw_dtype type);

/* [0, 1): scale 1 / 2^bits, as QNN's Softmax and Sigmoid want it. */
sw_encoding sw_encoding_of_unit(sw_dtype type);

/* 2^bits - 1 */
double sw_encoding_steps(sw_dtype type);

#endif
