/* rotate_body.h: the loops of rotate_loops.h, included once by each variant's file, whose compiler flags say
 * how many floats a vector has. */
#include <stdint.h>
#include <string.h>

#include "quant/vectors.h"

enum {
    LANES = SW_VECTOR_BYTES / sizeof(float),
    ROWS = 4,
    VECTORS = LANES < 16 ? 2 : 1, /* side by side: sums of ROWS rows that the processor can work on at once */
    COLUMNS = LANES * VECTORS
};
typedef float lanes __attribute__((vector_size(SW_VECTOR_BYTES)));
typedef int32_t mask __attribute__((vector_size(SW_VECTOR_BYTES)));

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

/* The steps inside of a vector, the first neighbours 1 apart: each lane's partner, plus or minus the lane
 * itself. */
#define MINUS INT32_MIN /* the sign bit of a float */
static const int32_t signs[4][16] = {
    {0, MINUS, 0, MINUS, 0, MINUS, 0, MINUS, 0, MINUS, 0, MINUS, 0, MINUS, 0, MINUS},
    {0, 0, MINUS, MINUS, 0, 0, MINUS, MINUS, 0, 0, MINUS, MINUS, 0, 0, MINUS, MINUS},
    {0, 0, 0, 0, MINUS, MINUS, MINUS, MINUS, 0, 0, 0, 0, MINUS, MINUS, MINUS, MINUS},
    {0, 0, 0, 0, 0, 0, 0, 0, MINUS, MINUS, MINUS, MINUS, MINUS, MINUS, MINUS, MINUS}};

#define STEP(v, step, ...)                                                                                   \
    do {                                                                                                     \
        mask minus;                                                                                          \
        LOAD(minus, signs[step]);                                                                            \
        v = (lanes)__builtin_shufflevector(v, v, __VA_ARGS__) + (lanes)((mask)(v) ^ minus);                  \
    } while (0)

static inline void walsh_of_lanes(float *x) {
    lanes v;
    LOAD(v, x);
#if SW_VECTOR_BYTES == 64
    STEP(v, 0, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    STEP(v, 1, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    STEP(v, 2, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    STEP(v, 3, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
#elif SW_VECTOR_BYTES == 32
    STEP(v, 0, 1, 0, 3, 2, 5, 4, 7, 6);
    STEP(v, 1, 2, 3, 0, 1, 6, 7, 4, 5);
    STEP(v, 2, 4, 5, 6, 7, 0, 1, 2, 3);
#else
    STEP(v, 0, 1, 0, 3, 2);
    STEP(v, 1, 2, 3, 0, 1);
#endif
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

/* Four rows of the result, COLUMNS columns: x is read once for all four. */
static inline void four_rows(size_t block, size_t run, const float *dense, const float *x, float *out) {
    lanes sums[ROWS][VECTORS] = {{{0}}};
    for (size_t i = 0; i < block; i++)
        for (size_t k = 0; k < VECTORS; k++) {
            lanes v;
            LOAD(v, x + i * run + k * LANES);
            for (size_t r = 0; r < ROWS; r++) sums[r][k] += v * dense[i * block + r];
        }
    for (size_t r = 0; r < ROWS; r++)
        for (size_t k = 0; k < VECTORS; k++) STORE(out + r * run + k * LANES, sums[r][k]);
}

static void dense_rows(size_t block, size_t run, const float *dense, const float *x, float *out) {
    size_t whole_rows = block / ROWS * ROWS, whole = run / COLUMNS * COLUMNS;
    for (size_t j = 0; j < whole_rows; j += ROWS)
        for (size_t k = 0; k < whole; k += COLUMNS)
            four_rows(block, run, dense + j, x + k, out + j * run + k);
    for (size_t j = 0; j < block; j++) { /* what is left of either */
        size_t begin = j < whole_rows ? whole : 0;
        if (begin < run) memset(out + j * run + begin, 0, (run - begin) * sizeof *out);
        for (size_t i = 0; i < block && begin < run; i++)
            for (size_t k = begin; k < run; k++) out[j * run + k] += x[i * run + k] * dense[i * block + j];
    }
}
