/* histogram.h: how often values of each size occur, in bounded memory, and the range that an encoding should
 * have for them. */
#ifndef SW_QUANT_HISTOGRAM_H
#define SW_QUANT_HISTOGRAM_H

#include <stdint.h>

#include "graph/ir.h"

/* Bins by a float's own bits: sign, exponent, the mantissa's first 6 bits. So a bin is 1.6 % wide at most,
 * whatever the size, nothing depends on the order of the values, and histograms add up. Magnitudes below
 * 2^-20 count as 0, above 2^20 into the last bin. */
enum {
    SW_HISTOGRAM_OCTAVES = 40,
    SW_HISTOGRAM_LEAST = -20, /* the first octave begins at 2^-20 */
    SW_HISTOGRAM_PARTS = 64,  /* of an octave */
    SW_HISTOGRAM_SIDE = SW_HISTOGRAM_OCTAVES * SW_HISTOGRAM_PARTS
};

/* 40 KB. Zeros: none counted yet. */
typedef struct sw_histogram {
    uint64_t negative[SW_HISTOGRAM_SIDE], zero, positive[SW_HISTOGRAM_SIDE]; /* the least magnitude first */
} sw_histogram;

/* Finite values. */
void sw_histogram_add(sw_histogram *h, const float *values, size_t n);

/* The value that the share of all values, 0 to 1, lies at or below; linear inside of a bin. 0 for an empty
 * one. */
double sw_histogram_quantile(const sw_histogram *h, double share);

/* Narrows [*min, *max], which holds all values, to the ends with the least mean squared error of values that
 * go through the encoding of that range and type: sw_encoding_of_range, or sw_encoding_symmetric of the
 * larger end. Each end in steps of a 16th of an octave, in turn, until neither moves. */
void sw_histogram_least_error(const sw_histogram *h, sw_dtype type, bool symmetric, double *min, double *max);

/* That error, summed over all values. */
double sw_histogram_error(const sw_histogram *h, sw_dtype type, bool symmetric, double min, double max);

#endif
