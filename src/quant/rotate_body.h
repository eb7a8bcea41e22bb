/* rotate_body.h: the loops of rotate_loops.h, included once by each variant's file, whose compiler flags say
 * what a vector of 16 floats is made of. */
#include <stdint.h>
#include <string.h>

enum { LANES = 16, ROWS = 4 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

#define LOAD(v, from) memcpy(&(v), from, sizeof(lanes))
#define STORE(to, v)  memcpy(to, &(v), sizeof(lanes))

static void butterflies(float *x, size_t n, size_t half) {
    for (size_t at = 0; at < n; at += 2 * half)
        for (size_t i = at; i < at + half; i++) {
            float a = x[i], b = x[i + half];
            x[i] = a + b, x[i + half] = a - b;
        }
}

static inline void butterflies_of_lanes(float *x, size_t n, size_t half) {
    for (size_t at = 0; at < n; at += 2 * half)
        for (size_t i = at; i < at + half; i += LANES) {
            lanes a, b, sum, difference;
            LOAD(a, x + i), LOAD(b, x + i + half);
            sum = a + b, difference = a - b;
            STORE(x + i, sum), STORE(x + i + half, difference);
        }
}

typedef int32_t mask __attribute__((vector_size(LANES * sizeof(int32_t))));
#define MINUS INT32_MIN /* the sign bit of a float */

/* A step inside of a vector: each lane's partner, plus or minus the lane itself. */
#define STEP(v, signs, ...)                                                                                  \
    ((lanes)__builtin_shufflevector(v, v, __VA_ARGS__) + (lanes)((mask)(v) ^ (mask)signs))

static inline void walsh_of_lanes(float *x) {
    static const mask by1 = {0, MINUS, 0, MINUS, 0, MINUS, 0, MINUS, 0, MINUS, 0, MINUS, 0, MINUS, 0, MINUS},
                      by2 = {0, 0, MINUS, MINUS, 0, 0, MINUS, MINUS, 0, 0, MINUS, MINUS, 0, 0, MINUS, MINUS},
                      by4 = {0, 0, 0, 0, MINUS, MINUS, MINUS, MINUS, 0, 0, 0, 0, MINUS, MINUS, MINUS, MINUS},
                      by8 = {0, 0, 0, 0, 0, 0, 0, 0, MINUS, MINUS, MINUS, MINUS, MINUS, MINUS, MINUS, MINUS};
    lanes v;
    LOAD(v, x);
    v = STEP(v, by1, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    v = STEP(v, by2, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    v = STEP(v, by4, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    v = STEP(v, by8, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    STORE(x, v);
}

static void walsh(float *x, size_t count, size_t run) {
    size_t n = count * run, half = run;
    if (run == 1 && n % LANES == 0) {
        for (size_t at = 0; at < n; at += LANES) walsh_of_lanes(x + at);
        half = LANES;
    }
    for (; half < n; half *= 2) {
        if (half % LANES == 0)
            butterflies_of_lanes(x, n, half);
        else
            butterflies(x, n, half);
    }
}

/* Four rows of the result, 16 columns: x is read once for all four. */
static inline void four_rows(size_t block, size_t run, const float *dense, const float *x, float *out) {
    lanes sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0}, v;
    for (size_t i = 0; i < block; i++) {
        LOAD(v, x + i * run);
        const float *b = dense + i * block;
        sum0 += v * b[0], sum1 += v * b[1], sum2 += v * b[2], sum3 += v * b[3];
    }
    STORE(out, sum0), STORE(out + run, sum1), STORE(out + 2 * run, sum2), STORE(out + 3 * run, sum3);
}

static void dense_rows(size_t block, size_t run, const float *dense, const float *x, float *out) {
    size_t whole_rows = block / ROWS * ROWS, whole = run / LANES * LANES;
    for (size_t j = 0; j < whole_rows; j += ROWS)
        for (size_t k = 0; k < whole; k += LANES) four_rows(block, run, dense + j, x + k, out + j * run + k);
    for (size_t j = 0; j < block; j++) { /* what is left of either */
        size_t begin = j < whole_rows ? whole : 0;
        if (begin < run) memset(out + j * run + begin, 0, (run - begin) * sizeof *out);
        for (size_t i = 0; i < block && begin < run; i++)
            for (size_t k = begin; k < run; k++) out[j * run + k] += x[i * run + k] * dense[i * block + j];
    }
}
