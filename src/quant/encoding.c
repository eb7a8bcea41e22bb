/* encoding.c: asymmetric min-max encodings (Jacob et al., arXiv 1712.05877, section 2.1), in QNN's sign. */
#include "quant/encoding.h"

#include <math.h>

double sw_encoding_steps(sw_dtype type) {
    return (double)sw_dtype_max(type) - (double)sw_dtype_min(type);
}

sw_encoding sw_encoding_of_range(double min, double max, sw_dtype type) {
    const double narrowest = 1e-6; /* scales stay normal floats, and so do products of two */
    double steps = sw_encoding_steps(type);
    min = fmin(min, 0);
    max = fmax(max, 0);
    if (max - min < narrowest) max = min + narrowest;
    float scale = (float)((max - min) / steps);
    double zero_point = fmin(round(-min / (double)scale), steps);
    return (sw_encoding){scale, -(int32_t)(sw_dtype_min(type) + zero_point)};
}

sw_encoding sw_encoding_symmetric(double bound, sw_dtype type) {
    double middle = (sw_encoding_steps(type) + 1) / 2;
    return (sw_encoding){(float)(fmax(bound, 1e-6) / (middle - 1)), -(int32_t)(sw_dtype_min(type) + middle)};
}

sw_encoding sw_encoding_of_unit(sw_dtype type) {
    return (sw_encoding){(float)(1 / (sw_encoding_steps(type) + 1)), -sw_dtype_min(type)};
}
