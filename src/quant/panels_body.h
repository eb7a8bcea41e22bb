/* panels_body.h: the loops of panels.h, included once by each variant's file. That file has vector_f32 and
 * vector_f64, as wide as its registers, and fma_f32 and fma_f64 (a * b + c, rounded once); its compiler flags
 * make vectors of the other loops. */
#include <string.h>

/* Eight sums of a vector each stay in registers for all k. */
#define EACH_ROW(X)   X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define LOAD(r)       memcpy(&acc##r, c + r * SW_PANEL + at, sizeof acc##r);
#define ACCUMULATE(r) acc##r = FMA(a[k * SW_PANEL + r], right, acc##r);
#define STORE(r)      memcpy(c + r * SW_PANEL + at, &acc##r, sizeof acc##r);
#define DEFINE_TILE(name, type, vector_type)                                                                 \
    static void name(size_t n, const type *a, const type *b, type *c) {                                      \
        typedef vector_type vector;                                                                          \
        for (size_t at = 0; at < SW_PANEL; at += sizeof(vector) / sizeof(type)) {                            \
            vector acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, right;                                    \
            EACH_ROW(LOAD)                                                                                   \
            for (size_t k = 0; k < n; k++) {                                                                 \
                memcpy(&right, b + k * SW_PANEL + at, sizeof right);                                         \
                EACH_ROW(ACCUMULATE)                                                                         \
            }                                                                                                \
            EACH_ROW(STORE)                                                                                  \
        }                                                                                                    \
    }
#define FMA fma_f32
DEFINE_TILE(tile, float, vector_f32)
#undef FMA
#define FMA fma_f64
DEFINE_TILE(tile_f64, double, vector_f64)
#undef FMA

/* Nearest, ties to even, of |x| < 2^22. */
static inline float nearest(float x) {
    const float magic = 12582912.0f;
    return (x + magic) - magic;
}

static void round_block(const sw_block *block, const float scale[SW_PANEL], float *q, float cost[SW_PANEL]) {
    float target[SW_MOST_BLOCK][SW_PANEL], inverse[SW_PANEL], difference[SW_PANEL], sum[SW_PANEL] = {0};
    const size_t size = block->size;
    const float low = block->low, high = block->high;
    memcpy(target, block->x, size * sizeof target[0]);
    for (size_t l = 0; l < SW_PANEL; l++) inverse[l] = scale[l] != 0 ? 1 / scale[l] : 0;
    for (size_t c = 0; c < size; c++) {
        const float weight = block->weight[c], *x = block->x + c * SW_PANEL, *u = block->u + c * size;
        float *out = q + c * SW_PANEL;
        for (size_t l = 0; l < SW_PANEL; l++) {
            float v = target[c][l] * inverse[l];
            v = v < low ? low : v;
            v = v > high ? high : v;
            v = nearest(v);
            out[l] = v;
            float value = scale[l] * v, error = target[c][l] - value;
            sum[l] += weight * error * error;
            difference[l] = x[l] - value;
        }
        for (size_t k = c + 1; k < size; k++)
            for (size_t l = 0; l < SW_PANEL; l++) target[k][l] += u[k] * difference[l];
    }
    memcpy(cost, sum, sizeof sum);
}
