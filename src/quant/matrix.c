/* matrix.c: a row of weights to integers of 8 or 4 bits.
 *
 * 8 bits with a scale a row: greatest magnitude / 127, so that -128 stays unused. Else a scale s is searched
 * for that leaves the least sum of (x - s q)^2: candidates put the greatest magnitude at 7 to 14 (of 4 bits;
 * the range ends at -8 and 7, so beyond that values are cut off), each gives integers, these give the best
 * scale by least squares, sum x q / sum q^2, and with it an error of sum x^2 - (sum x q)^2 / sum q^2. A float
 * block's scale may have either sign, so that the longer end of -8..7 can be at the greatest value's side.
 *
 * Blockwise: the blocks' scales c * step, step 1..16, for the row scale c out of a few below the largest
 * block's that leaves the least error. */
#include "quant/matrix.h"

#include <math.h>

#include "base/f16.h"
#include "quant/value_loops.h"

enum { LANES = 8, CANDIDATES = 15, PIECE = 64 };

/* A row of zeros, or of what is as good as zero, needs some scale: > 0, and normal in products with others.
 */
static const float least_scale = 1e-8f;

/* Of a quotient of magnitude 127 at most to a tie: a product by the inverse is nearer to it than a sixth. */
static const float least_distance = 1e-4f;

typedef struct bounds {
    float low, high;
} bounds;

static bounds bounds_of(sw_weight_form form) {
    return form.four_bit ? (bounds){-8, 7} : (bounds){-127, 127};
}

/* Nearest, ties to even: adding 1.5 * 2^23 leaves no room for a fraction. |x| < 2^22. */
static inline float nearest(float x) {
    const float magic = 12582912.0f;
    return (x + magic) - magic;
}

static inline float integer_of(float x, float inverse, bounds b) {
    float v = x * inverse;
    v = v < b.low ? b.low : v;
    v = v > b.high ? b.high : v;
    return nearest(v);
}

static float greatest_magnitude(const float *x, size_t n) {
    float min, max;
    if (n == 0) return 0;
    sw_values_best()->range(x, n, &min, &max);
    return fmaxf(fabsf(min), fabsf(max));
}

/* sum h x q and sum h q^2 of the integers that the scale gives, h = 1 where there are no weights. Lanes, so
 * that the compiler may use vectors. */
typedef struct sums {
    double xq, qq;
} sums;

static sums sums_of(const float *x, const float *weights, size_t n, float scale, bounds b) {
    const float inverse = 1 / scale;
    float xq[LANES] = {0}, qq[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++) {
            float q = integer_of(x[i + l], inverse, b);
            float hq = weights != NULL ? weights[i + l] * q : q;
            xq[l] += x[i + l] * hq, qq[l] += q * hq;
        }
    sums s = {0, 0};
    for (; i < n; i++) {
        float q = integer_of(x[i], inverse, b);
        float hq = weights != NULL ? weights[i] * q : q;
        s.xq += (double)(x[i] * hq), s.qq += (double)(q * hq);
    }
    for (size_t l = 0; l < LANES; l++) s.xq += (double)xq[l], s.qq += (double)qq[l];
    return s;
}

/* The scale of least error; 0 for zeros. Negative ones are tried only with either_sign. */
static float search_scale(const float *x, const float *weights, size_t n, bounds b, bool either_sign) {
    float greatest = greatest_magnitude(x, n), best = 0;
    double best_gain = -1;
    if (!(greatest >= least_scale)) return 0;
    for (int sign = 1; sign >= (either_sign ? -1 : 1); sign -= 2)
        for (int c = 0; c < CANDIDATES; c++) {
            float at = b.high * (1 + (float)c / (CANDIDATES - 1)); /* 7 to 14 of 4 bits */
            sums s = sums_of(x, weights, n, (float)sign * greatest / at, b);
            if (!(s.qq > 0) || s.xq * s.xq / s.qq <= best_gain) continue;
            best_gain = s.xq * s.xq / s.qq;
            best = (float)(s.xq / s.qq);
        }
    return best;
}

static void store_integers(const float *x, size_t n, float scale, bounds b, int8_t *q) {
    const float inverse = scale != 0 ? 1 / scale : 0;
    for (size_t i = 0; i < n; i++) q[i] = (int8_t)integer_of(x[i], inverse, b);
}

static float scale_of_8(const float *row, size_t cols) {
    float scale = greatest_magnitude(row, cols) / 127;
    return scale >= least_scale ? scale : least_scale;
}

/* Ties away from zero. A quotient of floats that isn't a tie is no nearer to one than 2^-26. */
static void exactly_8(const float *x, size_t n, float scale, int8_t *q) {
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i] / (double)scale;
        v = v > 127 ? 127 : v < -127 ? -127 : v;
        q[i] = (int8_t)(int32_t)(v < 0 ? v - 0.5 : v + 0.5);
    }
}

/* By a product of floats, and exactly only where one came next to a tie. */
static void rows_of_8(const float *row, size_t cols, int8_t *q, float *row_scale) {
    const sw_value_loops *loops = sw_values_best();
    float scale = scale_of_8(row, cols);
    *row_scale = scale;
    for (size_t i = 0; i < cols; i += PIECE) {
        const size_t n = cols - i < PIECE ? cols - i : PIECE;
        if (loops->nearest_of_8(row + i, n, 1 / scale, q + i) < least_distance)
            exactly_8(row + i, n, scale, q + i);
    }
}

static bool float_blocks(sw_weight_form form, const float *row, size_t cols, int8_t *q,
                         uint16_t *block_scales) {
    bool fits = true;
    for (size_t i = 0; i < cols; i += form.block) {
        float scale = form.four_bit ? search_scale(row + i, NULL, form.block, bounds_of(form), true)
                                    : greatest_magnitude(row + i, form.block) / 127;
        uint16_t half = sw_f32_to_f16(scale);
        fits = fits && (half & 0x7c00) != 0x7c00;
        block_scales[i / form.block] = half;
        store_integers(row + i, form.block, sw_f16_to_f32(half), bounds_of(form), q + i);
    }
    return fits;
}

/* Error less sum x^2 of a block with the scale; the step that has the least. */
static double best_step(const float *x, const float *weights, size_t n, float row_scale, float wanted,
                        bounds b, uint8_t *out) {
    double best = INFINITY;
    float below = floorf(wanted / row_scale);
    for (float step = below; step <= below + 1; step++) {
        float clamped = step < 1 ? 1 : step > 16 ? 16 : step, scale = row_scale * clamped;
        sums s = sums_of(x, weights, n, scale, b);
        double error = (double)scale * ((double)scale * s.qq - 2 * s.xq);
        if (error >= best) continue;
        best = error;
        *out = (uint8_t)clamped;
    }
    return best;
}

/* The row scale; wanted [cols / block] gets the blocks' own. */
static float blockwise_scale(sw_weight_form form, const float *row, const float *weights, size_t cols,
                             float *wanted) {
    const bounds b = bounds_of(form);
    const size_t n = form.block;
    float largest = 0;
    for (size_t i = 0; i < cols; i += n) {
        wanted[i / n] = search_scale(row + i, weights != NULL ? weights + i : NULL, n, b, false);
        largest = fmaxf(largest, wanted[i / n]);
    }
    float best_scale = fmaxf(largest / 16, least_scale);
    double best = INFINITY;
    for (int c = 0; c < 4 && largest > 0; c++) {
        float scale = fmaxf(largest / (16 + 2 * (float)c), least_scale);
        double error = 0;
        for (size_t i = 0; i < cols; i += n) {
            uint8_t step;
            error +=
                best_step(row + i, weights != NULL ? weights + i : NULL, n, scale, wanted[i / n], b, &step);
        }
        if (error < best) best = error, best_scale = scale;
    }
    return best_scale;
}

static void blockwise(sw_weight_form form, const float *row, size_t cols, int8_t *q, float *row_scale,
                      uint8_t *steps, float *wanted) {
    const bounds b = bounds_of(form);
    const size_t n = form.block;
    *row_scale = blockwise_scale(form, row, NULL, cols, wanted);
    for (size_t i = 0; i < cols; i += n) {
        uint8_t *step = &steps[i / n];
        *step = 1;
        best_step(row + i, NULL, n, *row_scale, wanted[i / n], b, step);
        store_integers(row + i, n, *row_scale * (float)*step, b, q + i);
    }
}

float sw_matrix_row_scale(sw_weight_form form, const float *row, const float *weights, size_t cols,
                          float *scratch) {
    if (form.scales == SW_SCALES_BLOCKWISE) return blockwise_scale(form, row, weights, cols, scratch);
    if (!form.four_bit) return scale_of_8(row, cols);
    return fmaxf(search_scale(row, weights, cols, bounds_of(form), false), least_scale);
}

bool sw_quantize_matrix_row(sw_weight_form form, const float *row, size_t cols, int8_t *q,
                            sw_row_scales scales, float *scratch) {
    if (form.scales == SW_SCALES_FLOAT_BLOCK) return float_blocks(form, row, cols, q, scales.block);
    if (form.scales == SW_SCALES_BLOCKWISE) {
        blockwise(form, row, cols, q, scales.channel, scales.block_steps, scratch);
    } else if (!form.four_bit) {
        rows_of_8(row, cols, q, scales.channel);
    } else {
        *scales.channel = sw_matrix_row_scale(form, row, NULL, cols, scratch);
        store_integers(row, cols, *scales.channel, bounds_of(form), q);
    }
    return true;
}
