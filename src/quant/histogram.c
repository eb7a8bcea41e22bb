/* histogram.c: counts in bins of the values' own floating-point form, as in HdrHistogram; the search for the
 * clipping with the least squared error is that of PyTorch's HistogramObserver and AIMET's "enhanced" scheme,
 * one end of the range after the other. */
#include "quant/histogram.h"

#include <math.h>
#include <string.h>

#include "quant/encoding.h"

enum { MANTISSA_SHIFT = 23 - 6, BIAS = 127, ROUNDS = 4, CANDIDATES = 64 };

/* Bin of a magnitude's bits; -1 for zero. */
static inline int32_t bin_of(uint32_t magnitude) {
    int32_t bin = (int32_t)(magnitude >> MANTISSA_SHIFT) - (BIAS + SW_HISTOGRAM_LEAST) * SW_HISTOGRAM_PARTS;
    if (bin < 0) return -1;
    return bin < SW_HISTOGRAM_SIDE ? bin : SW_HISTOGRAM_SIDE - 1;
}

void sw_histogram_add(sw_histogram *h, const float *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        int32_t bin = bin_of(bits & 0x7fffffffu);
        if (bin < 0)
            h->zero++;
        else if (bits >> 31)
            h->negative[bin]++;
        else
            h->positive[bin]++;
    }
}

/* Where a bin begins; it ends where the next one begins. */
static double edge(int32_t bin) {
    return ldexp(1 + (double)(bin % SW_HISTOGRAM_PARTS) / SW_HISTOGRAM_PARTS,
                 bin / SW_HISTOGRAM_PARTS + SW_HISTOGRAM_LEAST);
}

static double total(const sw_histogram *h) {
    double sum = (double)h->zero;
    for (int32_t i = 0; i < SW_HISTOGRAM_SIDE; i++) sum += (double)h->negative[i] + (double)h->positive[i];
    return sum;
}

double sw_histogram_quantile(const sw_histogram *h, double share) {
    double left = share * total(h);
    for (int32_t i = SW_HISTOGRAM_SIDE - 1; i >= 0; i--) { /* the most negative first */
        double n = (double)h->negative[i];
        if (n > 0 && left <= n) return -(edge(i + 1) + (edge(i) - edge(i + 1)) * left / n);
        left -= n;
    }
    if (h->zero > 0 && left <= (double)h->zero) return 0;
    left -= (double)h->zero;
    double last = 0;
    for (int32_t i = 0; i < SW_HISTOGRAM_SIDE; i++) {
        double n = (double)h->positive[i];
        if (n > 0 && left <= n) return edge(i) + (edge(i + 1) - edge(i)) * left / n;
        if (n > 0) last = edge(i + 1);
        left -= n;
    }
    return last; /* rounding of the sums above */
}

/* Of one value of the bin, by its middle where steps are wider than the bin, else by the mean over a step. */
static double bin_error(sw_encoding e, double lowest, double greatest, double sign, int32_t bin) {
    double scale = (double)e.scale, width = edge(bin + 1) - edge(bin);
    double x = sign * (edge(bin) + width / 2);
    if (x < lowest || x > greatest) {
        double d = x < lowest ? lowest - x : x - greatest;
        return d * d;
    }
    if (width >= scale) return scale * scale / 12;
    double d = x - scale * round(x / scale);
    return d * d;
}

double sw_histogram_error(const sw_histogram *h, sw_dtype type, bool symmetric, double min, double max) {
    sw_encoding e =
        symmetric ? sw_encoding_symmetric(fmax(-min, max), type) : sw_encoding_of_range(min, max, type);
    double lowest = (double)e.scale * (sw_dtype_min(type) + e.offset),
           greatest = (double)e.scale * (sw_dtype_max(type) + e.offset), sum = 0;
    for (int32_t i = 0; i < SW_HISTOGRAM_SIDE; i++) {
        if (h->negative[i] > 0) sum += (double)h->negative[i] * bin_error(e, lowest, greatest, -1, i);
        if (h->positive[i] > 0) sum += (double)h->positive[i] * bin_error(e, lowest, greatest, 1, i);
    }
    return sum;
}

/* Tries 1, 2^(-1/16), ... times the widest for *end, which is *min or *max. */
static void search_end(const sw_histogram *h, sw_dtype type, double widest, double *end, const double *min,
                       const double *max, double *least) {
    double best = *end;
    for (int i = 0; i < CANDIDATES; i++) {
        *end = widest * exp2(-(double)i / 16);
        double error = sw_histogram_error(h, type, false, *min, *max);
        if (error < *least) *least = error, best = *end;
    }
    *end = best;
}

void sw_histogram_least_error(const sw_histogram *h, sw_dtype type, bool symmetric, double *min,
                              double *max) {
    double lowest = fmin(*min, 0), greatest = fmax(*max, 0);
    *min = lowest, *max = greatest;
    double least = sw_histogram_error(h, type, symmetric, *min, *max);
    if (symmetric) {
        double bound = fmax(-lowest, greatest);
        *max = bound, *min = -bound;
        for (int i = 0; i < CANDIDATES; i++) {
            double b = bound * exp2(-(double)i / 16), error = sw_histogram_error(h, type, true, -b, b);
            if (error < least) least = error, *max = b, *min = -b;
        }
        return;
    }
    for (int round = 0; round < ROUNDS; round++) {
        double before = least;
        search_end(h, type, greatest, max, min, max, &least);
        search_end(h, type, lowest, min, min, max, &least);
        if (least == before) break;
    }
}
