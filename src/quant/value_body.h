/* value_body.h: the loops of value_loops.h, included once by each variant's file, whose compiler flags say
 * what vectors are made of. */
#include <math.h>
#include <string.h>

#include "base/f16.h"
#include "quant/vectors.h"

/* A float's bits as an integer of the same order: negative floats, whose magnitude bits grow downwards, get
 * those turned over. Its own inverse. Compilers make vectors of minima of integers, not of floats. */
static inline int32_t ordered(int32_t bits) {
    return bits ^ (int32_t)((uint32_t)(bits >> 31) & 0x7fffffffu);
}

static void range(const float *x, size_t n, float *min, float *max) {
    int32_t least = INT32_MAX, greatest = INT32_MIN;
    for (size_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        const int32_t key = ordered(bits);
        least = key < least ? key : least;
        greatest = key > greatest ? key : greatest;
    }
    least = ordered(least);
    greatest = ordered(greatest);
    memcpy(min, &least, sizeof *min);
    memcpy(max, &greatest, sizeof *max);
}

static float nearest_of_8(const float *x, size_t n, float inverse, int8_t *q) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it leaves an integer in the low bits */
    int32_t least = INT32_MAX;
    for (size_t i = 0; i < n; i++) {
        const float v = x[i] * inverse, shifted = v + magic;
        const float distance = 0.5f - fabsf(v - (shifted - magic)); /* >= 0, so its bits are in order */
        const int32_t key = (int32_t)sw_f32_to_bits(distance);
        const int32_t integer = (int32_t)(sw_f32_to_bits(shifted) - sw_f32_to_bits(magic));
        least = key < least ? key : least;
        q[i] = (int8_t)(integer > 127 ? 127 : integer < -127 ? -127 : integer);
    }
    return n > 0 ? sw_bits_to_f32((uint32_t)least) : 0.5f;
}

/* Eight sums, whatever a vector has: the same bits. */
enum { SUMS = 8, LANES = SW_VECTOR_BYTES / sizeof(double), VECTORS = SUMS / LANES };
typedef float lanes_f32 __attribute__((vector_size(LANES * sizeof(float))));
typedef double lanes_f64 __attribute__((vector_size(LANES * sizeof(double))));

static double total(const lanes_f64 sums[VECTORS]) {
    double sum = 0;
    for (int l = 0; l < SUMS; l++) sum += sums[l / LANES][l % LANES];
    return sum;
}

static void cost(const float *x, const float *y, size_t n, double *signal, double *noise) {
    lanes_f64 signals[VECTORS] = {{0}}, noises[VECTORS] = {{0}};
    size_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (size_t k = 0; k < VECTORS; k++) {
            lanes_f32 a, b;
            memcpy(&a, x + i + k * LANES, sizeof a), memcpy(&b, y + i + k * LANES, sizeof b);
            const lanes_f64 value = __builtin_convertvector(a, lanes_f64),
                            error = value - __builtin_convertvector(b, lanes_f64);
            signals[k] += value * value, noises[k] += error * error;
        }
    *signal = total(signals), *noise = total(noises);
    for (; i < n; i++) {
        const double value = (double)x[i], error = value - (double)y[i];
        *signal += value * value, *noise += error * error;
    }
}
