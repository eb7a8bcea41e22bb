/* float_test.c: the float kernels, each in a graph of one op, against the formula in double; f32 within a few
 * units of the last place, f16 within one of the result rounded once. */
#include "small_graph.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/f16.h"

enum { MAX_ELEMENTS = 1 << 16 };

/* A tensor of the test: its values as doubles are exactly those the kernel reads. */
typedef struct values {
    uint32_t index;
    size_t n;
    sw_dtype type;
    double exact[MAX_ELEMENTS];
    uint16_t f16[MAX_ELEMENTS];
    float f32[MAX_ELEMENTS];
} values;

static values in[3], out;
static small_graph graph;
static sw_pool *pool;

static void add_values(values *v, sw_tensor_kind kind, sw_dtype type, size_t rank, const uint32_t *dims,
                       float scale) {
    v->index = add_tensor(&graph, kind, type, rank, dims);
    v->type = type;
    v->n = 1;
    for (size_t i = 0; i < rank; i++) v->n *= dims[i];
    assert_true(v->n <= MAX_ELEMENTS);
    fill_floats(v->f32, v->n, v->index + 1);
    for (size_t i = 0; i < v->n; i++) {
        v->f32[i] *= scale;
        v->f16[i] = sw_f32_to_f16(v->f32[i]);
        v->exact[i] = type == SW_F16 ? (double)sw_f16_to_f32(v->f16[i]) : (double)v->f32[i];
    }
    if (kind == SW_TENSOR_CONSTANT)
        graph.graph->tensors[v->index]->data = type == SW_F16 ? (void *)v->f16 : v->f32;
}

static void *data_of(values *v) {
    return v->type == SW_F16 ? (void *)v->f16 : (void *)v->f32;
}

/* Runs the one-op graph; inputs in the order in which they were added. */
static void run(size_t n_inputs) {
    sw_binding inputs[3] = {{data_of(&in[0])}, {0}, {0}};
    for (size_t i = 1; i < n_inputs; i++) inputs[i] = (sw_binding){data_of(&in[i])};
    assert_runs(&graph, pool, inputs, &(sw_binding){.data = data_of(&out)});
}

/* Halves in order, so that neighbours differ by 1. */
static int order_of(uint16_t half) {
    return half & 0x8000 ? -(half & 0x7fff) : half;
}

/* bound: of f32 results, absolute. */
static void check(size_t i, double want, double bound) {
    if (out.type == SW_F16) {
        int distance = order_of(out.f16[i]) - order_of(sw_f32_to_f16((float)want));
        /* Where terms cancel, the f32 sum's own error can be more than a half's last place. */
        if (distance > 1 || distance < -1)
            assert_true(fabs((double)sw_f16_to_f32(out.f16[i]) - want) <= bound);
    } else if (!(fabs((double)out.f32[i] - want) <= bound)) {
        fail_msg("element %zu: %.9g, wanted %.9g within %.3g", i, (double)out.f32[i], want, bound);
    }
}

static const sw_dtype types[] = {SW_F32, SW_F16};
static const uint32_t sizes[] = {1, 31, 33, 577};

static void fully_connected(void **state) {
    (void)state;
    static const uint32_t shapes[][3] = {{1, 577, 33}, {1, 31, 1},    {3, 33, 31},
                                         {5, 577, 40}, {31, 33, 100}, {1, 1, 1}};
    for (size_t t = 0; t < 2; t++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            uint32_t rows = shapes[k][0], depth = shapes[k][1], cols = shapes[k][2];
            small_graph_init(&graph);
            add_values(&in[0], SW_TENSOR_INPUT, types[t], DIMS(rows, depth), 2);
            add_values(&in[1], SW_TENSOR_CONSTANT, types[t], DIMS(cols, depth), 0.5f);
            add_values(&out, SW_TENSOR_OUTPUT, types[t], DIMS(rows, cols), 1);
            add_op(&graph, SW_OP_FULLY_CONNECTED, out.index, INPUTS(in[0].index, in[1].index));
            run(1);
            for (size_t i = 0; i < out.n; i++) {
                double sum = 0, size = 0;
                for (size_t j = 0; j < depth; j++) {
                    double term = in[0].exact[i / cols * depth + j] * in[1].exact[i % cols * depth + j];
                    sum += term, size += fabs(term);
                }
                check(i, sum, FLT_EPSILON * (double)depth * size);
            }
            small_graph_free(&graph);
        }
}

/* Rows stored as Q8_0 (blocks of 32: a half, then int8s), read through the checkpoint's view, for one row of
 * x, for a few and for many; the values must be those of the stored integers. */
static void fully_connected_reads_views(void **state) {
    (void)state;
    enum { DEPTH = 96, COLS = 45, BLOCK = 34 };
    static uint8_t stored[COLS * DEPTH / 32 * BLOCK];
    static double w[COLS * DEPTH];
    uint64_t seed = 5;
    for (size_t b = 0; b < COLS * DEPTH / 32; b++) {
        uint16_t scale = sw_f32_to_f16(0.01f + 0.005f * next_float(&seed));
        memcpy(stored + b * BLOCK, &scale, sizeof scale);
        for (size_t i = 0; i < 32; i++) {
            int8_t q = (int8_t)(next_float(&seed) * 127);
            stored[b * BLOCK + 2 + i] = (uint8_t)q;
            w[b * 32 + i] = (double)sw_f16_to_f32(scale) * q;
        }
    }
    const sw_weight view = {"w", stored, DEPTH / 32 * BLOCK, COLS, DEPTH, SW_STORE_Q8_0, 0, false};
    for (size_t t = 0; t < 2; t++)
        for (uint32_t rows = 1; rows <= 17; rows += 8) {
            small_graph_init(&graph);
            add_values(&in[0], SW_TENSOR_INPUT, types[t], DIMS(rows, DEPTH), 2);
            uint32_t weight = add_tensor(&graph, SW_TENSOR_CONSTANT, types[t], DIMS(COLS, DEPTH));
            graph.graph->tensors[weight]->weight = &view;
            add_values(&out, SW_TENSOR_OUTPUT, types[t], DIMS(rows, COLS), 1);
            add_op(&graph, SW_OP_FULLY_CONNECTED, out.index, INPUTS(in[0].index, weight));
            run(1);
            for (size_t i = 0; i < out.n; i++) {
                double sum = 0, size = 0;
                for (size_t j = 0; j < DEPTH; j++) {
                    double value = w[i % COLS * DEPTH + j];
                    if (types[t] == SW_F16) value = (double)sw_f16_to_f32(sw_f32_to_f16((float)value));
                    double term = in[0].exact[i / COLS * DEPTH + j] * value;
                    sum += term, size += fabs(term);
                }
                check(i, sum, FLT_EPSILON * DEPTH * size);
            }
            small_graph_free(&graph);
        }
}

static void matmul(void **state) {
    (void)state;
    static const uint32_t shapes[][4] = {
        {1, 1, 1, 1}, {3, 1, 64, 31}, {3, 33, 31, 33}, {2, 5, 64, 77}, {1, 31, 577, 31}};
    for (size_t t = 0; t < 4; t++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            uint32_t b = shapes[k][0], m = shapes[k][1], depth = shapes[k][2], n = shapes[k][3];
            bool transposed = t / 2;
            small_graph_init(&graph);
            add_values(&in[0], SW_TENSOR_INPUT, types[t % 2], DIMS(1, b, m, depth), 1);
            const uint32_t dims[2][4] = {{1, b, depth, n}, {1, b, n, depth}};
            add_values(&in[1], SW_TENSOR_INPUT, types[t % 2], 4, dims[transposed], 1);
            add_values(&out, SW_TENSOR_OUTPUT, types[t % 2], DIMS(1, b, m, n), 1);
            add_op(&graph, SW_OP_MATMUL, out.index, INPUTS(in[0].index, in[1].index))
                ->params.matmul.transpose_in1 = transposed;
            run(2);
            for (size_t i = 0; i < out.n; i++) {
                size_t col = i % n, row = i / n % m, batch = i / n / m;
                double sum = 0, size = 0;
                for (size_t j = 0; j < depth; j++) {
                    size_t at = transposed ? (batch * n + col) * depth + j : (batch * depth + j) * n + col;
                    double term = in[0].exact[(batch * m + row) * depth + j] * in[1].exact[at];
                    sum += term, size += fabs(term);
                }
                check(i, sum, FLT_EPSILON * (double)depth * size);
            }
            small_graph_free(&graph);
        }
}

static void rms_norm(void **state) {
    (void)state;
    for (size_t t = 0; t < 2; t++)
        for (size_t k = 0; k < 2 * sizeof sizes / sizeof *sizes; k++) {
            uint32_t c = sizes[k / 2];
            const float epsilon = 1e-5f;
            small_graph_init(&graph);
            add_values(&in[0], SW_TENSOR_INPUT, types[t], DIMS(3, c), k % 2 ? 300 : 0.01f);
            add_values(&in[1], SW_TENSOR_CONSTANT, types[t], DIMS(c), 2);
            add_values(&out, SW_TENSOR_OUTPUT, types[t], DIMS(3, c), 1);
            sw_weight view = {"gamma", (const uint8_t *)in[1].f32, c * sizeof(float), 1, c, SW_STORE_F32, 0,
                              false};
            if (types[t] == SW_F32 && k % 2) { /* the same gamma as a view */
                graph.graph->tensors[in[1].index]->data = NULL;
                graph.graph->tensors[in[1].index]->weight = &view;
            }
            add_op(&graph, SW_OP_RMS_NORM, out.index, INPUTS(in[0].index, in[1].index))
                ->params.rms_norm.epsilon = epsilon;
            run(1);
            for (size_t i = 0; i < out.n; i++) {
                double sum = 0;
                for (size_t j = 0; j < c; j++) sum += pow(in[0].exact[i / c * c + j], 2);
                double want = in[0].exact[i] / sqrt(sum / c + (double)epsilon) * in[1].exact[i % c];
                check(i, want, FLT_EPSILON * fabs(want));
            }
            small_graph_free(&graph);
        }
}

static void rotary_turns_halves(void **state) {
    (void)state;
    static const uint32_t shapes[][3] = {{1, 1, 2}, {3, 5, 64}, {9, 33, 66}, {2, 1, 62}};
    for (size_t t = 0; t < 2; t++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            uint32_t heads = shapes[k][0], n = shapes[k][1], d = shapes[k][2], half = d / 2;
            small_graph_init(&graph);
            add_values(&in[0], SW_TENSOR_INPUT, types[t], DIMS(1, heads, n, d), 3);
            add_values(&in[1], SW_TENSOR_INPUT, types[t], DIMS(1, n, half), 1);
            add_values(&in[2], SW_TENSOR_INPUT, types[t], DIMS(1, n, half), 1);
            add_values(&out, SW_TENSOR_OUTPUT, types[t], DIMS(1, heads, n, d), 1);
            add_op(&graph, SW_OP_ROTARY_EMBEDDING, out.index, INPUTS(in[0].index, in[1].index, in[2].index));
            run(3);
            for (size_t i = 0; i < out.n; i++) {
                size_t e = i % d, angle = i / d % n * half + e % half;
                double other = e < half ? -in[0].exact[i + half] : in[0].exact[i - half];
                double a = in[0].exact[i] * in[1].exact[angle], b = other * in[2].exact[angle];
                check(i, a + b, FLT_EPSILON * (fabs(a) + fabs(b)));
            }
            small_graph_free(&graph);
        }
}

static void softmax(void **state) {
    (void)state;
    for (size_t t = 0; t < 2; t++)
        for (size_t k = 0; k < 3 * sizeof sizes / sizeof *sizes; k++) {
            uint32_t c = sizes[k / 3];
            const float scales[] = {1, 40, 300}, beta = k % 3 == 1 ? 0.125f : 1;
            small_graph_init(&graph);
            add_values(&in[0], SW_TENSOR_INPUT, types[t], DIMS(1, 2, 3, c), scales[k % 3]);
            add_values(&out, SW_TENSOR_OUTPUT, types[t], DIMS(1, 2, 3, c), 1);
            add_op(&graph, SW_OP_SOFTMAX, out.index, INPUTS(in[0].index))->params.softmax.beta = beta;
            run(1);
            for (size_t i = 0; i < out.n; i++) {
                const double *row = in[0].exact + i / c * c;
                double max = -INFINITY, sum = 0;
                for (size_t j = 0; j < c; j++) max = fmax(max, (double)beta * row[j]);
                for (size_t j = 0; j < c; j++) sum += exp((double)beta * row[j] - max);
                double want = exp((double)beta * row[i % c] - max) / sum;
                /* The exponent's rounding at x counts |x| half units: up to 600 here. */
                double relative = FLT_EPSILON * (8 + fabs((double)beta * row[i % c] - max));
                check(i, want, relative * want + 1e-44);
            }
            small_graph_free(&graph);
        }
}

/* A blocked entry of the mask gets exactly nothing. */
static void softmax_of_blocked_is_zero(void **state) {
    (void)state;
    small_graph_init(&graph);
    add_values(&in[0], SW_TENSOR_INPUT, SW_F32, DIMS(4, 33), 10);
    add_values(&out, SW_TENSOR_OUTPUT, SW_F32, DIMS(4, 33), 1);
    for (size_t i = 0; i < in[0].n; i++)
        if (i % 33 > i / 33) in[0].f32[i] += -10000.0f;
    add_op(&graph, SW_OP_SOFTMAX, out.index, INPUTS(in[0].index))->params.softmax.beta = 1;
    run(1);
    for (size_t i = 0; i < out.n; i++) assert_true(i % 33 > i / 33 ? out.f32[i] == 0 : out.f32[i] > 0);
    assert_true(out.f32[0] == 1);
    small_graph_free(&graph);
}

static void sigmoid(void **state) {
    (void)state;
    const float scales[] = {1, 20, 200};
    for (size_t t = 0; t < 2; t++)
        for (size_t k = 0; k < 12; k++) {
            small_graph_init(&graph);
            add_values(&in[0], SW_TENSOR_INPUT, types[t], DIMS(3, sizes[k / 3]), scales[k % 3]);
            add_values(&out, SW_TENSOR_OUTPUT, types[t], DIMS(3, sizes[k / 3]), 1);
            add_op(&graph, SW_OP_SIGMOID, out.index, INPUTS(in[0].index));
            run(1);
            for (size_t i = 0; i < out.n; i++) {
                double want = 1 / (1 + exp(-in[0].exact[i]));
                check(i, want, 2 * FLT_EPSILON * want + 1e-44);
            }
            small_graph_free(&graph);
        }
}

/* Shapes of numpy's broadcast: a, b, result; the operand of each index is found digit by digit. */
static void add_and_multiply_broadcast(void **state) {
    (void)state;
    static const uint32_t shapes[][3][4] = {
        /* leading zeros: a smaller rank */
        {{3, 5, 7, 31}, {3, 5, 7, 31}, {3, 5, 7, 31}},    {{1, 9, 33, 40}, {1, 1, 33, 40}, {1, 9, 33, 40}},
        {{0, 0, 3, 577}, {0, 0, 0, 577}, {0, 0, 3, 577}}, {{0, 0, 0, 1}, {0, 2, 3, 4}, {0, 2, 3, 4}},
        {{0, 0, 31, 1}, {0, 0, 31, 33}, {0, 0, 31, 33}},  {{0, 0, 31, 1}, {0, 0, 1, 33}, {0, 0, 31, 33}},
        {{2, 1, 3, 1}, {1, 5, 1, 4}, {2, 5, 3, 4}},       {{0, 0, 0, 1}, {0, 0, 0, 1}, {0, 0, 0, 1}},
        {{2, 3, 1, 1}, {0, 0, 4, 5}, {2, 3, 4, 5}},
    };
    for (size_t t = 0; t < 4; t++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            size_t skip[3];
            for (size_t j = 0; j < 3; j++)
                for (skip[j] = 0; shapes[k][j][skip[j]] == 0; skip[j]++) {
                }
            small_graph_init(&graph);
            add_values(&in[0], SW_TENSOR_INPUT, types[t % 2], 4 - skip[0], shapes[k][0] + skip[0], 4);
            add_values(&in[1], SW_TENSOR_INPUT, types[t % 2], 4 - skip[1], shapes[k][1] + skip[1], 4);
            add_values(&out, SW_TENSOR_OUTPUT, types[t % 2], 4 - skip[2], shapes[k][2] + skip[2], 1);
            add_op(&graph, t / 2 ? SW_OP_MULTIPLY : SW_OP_ADD, out.index, INPUTS(in[0].index, in[1].index));
            run(2);
            for (size_t i = 0; i < out.n; i++) {
                size_t at[2] = {0, 0}, rest = i, stride[2] = {1, 1};
                for (size_t d = 4; d-- > skip[2];) {
                    size_t digit = rest % shapes[k][2][d];
                    rest /= shapes[k][2][d];
                    for (size_t j = 0; j < 2; j++) {
                        uint32_t dim = shapes[k][j][d];
                        at[j] += dim > 1 ? digit * stride[j] : 0;
                        stride[j] *= dim > 0 ? dim : 1;
                    }
                }
                double a = in[0].exact[at[0]], b = in[1].exact[at[1]], want = t / 2 ? a * b : a + b;
                check(i, want, FLT_EPSILON / 2 * fabs(want));
            }
            small_graph_free(&graph);
        }
}

static void convert(void **state) {
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        small_graph_init(&graph);
        add_values(&in[0], SW_TENSOR_INPUT, types[t], DIMS(3, 577), 1000);
        add_values(&out, SW_TENSOR_OUTPUT, types[1 - t], DIMS(3, 577), 1);
        add_op(&graph, SW_OP_CONVERT, out.index, INPUTS(in[0].index));
        run(1);
        for (size_t i = 0; i < out.n; i++) {
            double got = t == 0 ? (double)sw_f16_to_f32(out.f16[i]) : (double)out.f32[i];
            int exponent;
            frexp(in[0].exact[i], &exponent);
            assert_true(fabs(got - in[0].exact[i]) <= (t == 0 ? ldexp(0.5, exponent - 11) : 0));
        }
        small_graph_free(&graph);
    }
}

static int make_pool(void **state) {
    (void)state;
    sw_error err;
    return sw_pool_create(&pool, 2, &err) == SW_OK ? 0 : -1;
}

static int destroy_pool(void **state) {
    (void)state;
    sw_pool_destroy(pool);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fully_connected),
        cmocka_unit_test(fully_connected_reads_views),
        cmocka_unit_test(matmul),
        cmocka_unit_test(rms_norm),
        cmocka_unit_test(rotary_turns_halves),
        cmocka_unit_test(softmax),
        cmocka_unit_test(softmax_of_blocked_is_zero),
        cmocka_unit_test(sigmoid),
        cmocka_unit_test(add_and_multiply_broadcast),
        cmocka_unit_test(convert),
    };
    return cmocka_run_group_tests(tests, make_pool, destroy_pool);
}
