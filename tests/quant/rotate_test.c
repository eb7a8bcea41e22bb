/* Rotations: orthogonal, even, the same every time; and what they make of a model's weights, against dense
 * products in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "quant/rotate.h"
#include "quant/rotate_loops.h"
#include "quant/rotate_model.h"
#include "tiny_model.h"

static sw_error err;

/* R [n, n], row i the image of channel i: each vector through the width 1 form. */
static float *dense(const sw_rotation *r) {
    size_t n = r->size;
    float *out = calloc(n * n, sizeof *out), *scratch = malloc(n * sizeof *scratch);
    for (size_t i = 0; i < n; i++) {
        out[i * n + i] = 1;
        sw_rotation_apply(r, out + i * n, 1, scratch);
    }
    free(scratch);
    return out;
}

/* All variants of the loops, bit by bit, and both ways through them: one vector, and several side by side. */
static void test_every_variant_gives_the_same_bits(void **state) {
    (void)state;
    const sw_rotate_loops *variants[3] = {&sw_rotate_scalar};
    size_t n_variants = 1;
#if defined(__x86_64__)
    if (sw_cpu_has(SW_ISA_AVX2)) variants[n_variants++] = &sw_rotate_avx2;
    if (sw_cpu_has(SW_ISA_AVX512)) variants[n_variants++] = &sw_rotate_avx512;
#endif
    static const uint32_t sizes[] = {4, 9, 12, 64, 104, 576, 960, 2048};
    enum { MOST = 2048 * 5 };
    static float wanted[MOST], got[MOST], scratch[MOST];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t width = 1; width <= 5; width += 4)
            for (size_t v = 0; v < n_variants; v++) {
                sw_rotation r;
                size_t n = sizes[s] * width;
                assert_int_equal(sw_rotation_init(&r, sizes[s], 7, &err), SW_OK);
                r.loops = variants[v];
                for (size_t i = 0; i < n; i++) got[i] = sinf((float)(i * i % 1013));
                sw_rotation_apply(&r, got, width, scratch);
                if (v == 0) memcpy(wanted, got, n * sizeof *got);
                assert_memory_equal(got, wanted, n * sizeof *got);
                sw_rotation_free(&r);
            }
}

/* Even: Paley or Sylvester give every entry the same magnitude. Odd numbers have no Hadamard matrix. */
static void test_orthogonal(void **state) {
    (void)state;
    static const struct {
        uint32_t size, block;
        bool even;
    } cases[] = {
        {1, 1, true},     {2, 1, true},    {64, 1, true},     {2048, 1, true},  /* Sylvester */
        {12, 12, true},   {960, 60, true}, {20, 20, true},    {1536, 12, true}, /* Paley I: q = 11, 59, 19 */
        {576, 36, true},  {28, 28, true},  {896, 28, true},                     /* Paley II: q = 17, 13 */
        {104, 104, true}, /* 52 has neither; 103 is prime */
        {9, 9, false},    {18, 9, false},  {189, 189, false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        sw_rotation r;
        size_t n = cases[c].size;
        assert_int_equal(sw_rotation_init(&r, cases[c].size, 3, &err), SW_OK);
        assert_int_equal(r.block, cases[c].block);
        float *m = dense(&r);
        for (size_t i = 0; i < n; i++) {
            for (size_t j = i; j<n; j += n> 600 && j > i ? 37 : 1) { /* of large ones a part */
                double dot = 0;
                for (size_t k = 0; k < n; k++) dot += (double)m[i * n + k] * (double)m[j * n + k];
                assert_true(fabs(dot - (i == j)) < 1e-6);
            }
            for (size_t k = 0; k < n && cases[c].even; k++)
                assert_true(fabs(fabs((double)m[i * n + k]) * sqrt((double)n) - 1) < 1e-5);
        }
        free(m);
        sw_rotation_free(&r);
    }
}

static void test_strips_are_columns(void **state) {
    (void)state;
    enum { N = 24, WIDTH = 5 };
    sw_rotation r;
    assert_int_equal(sw_rotation_init(&r, N, 9, &err), SW_OK);
    float strip[N * WIDTH], scratch[N * WIDTH], column[N], copy[N * WIDTH];
    uint64_t seed = 1;
    for (int i = 0; i < N * WIDTH; i++) copy[i] = strip[i] = tiny_random(&seed);
    sw_rotation_apply(&r, strip, WIDTH, scratch);
    for (int k = 0; k < WIDTH; k++) {
        for (int i = 0; i < N; i++) column[i] = copy[i * WIDTH + k];
        sw_rotation_apply(&r, column, 1, scratch);
        for (int i = 0; i < N; i++) assert_float_equal(strip[i * WIDTH + k], column[i], 1e-6);
    }
    sw_rotation_free(&r);
}

static void test_seeds(void **state) {
    (void)state;
    sw_rotation a, b, c;
    assert_int_equal(sw_rotation_init(&a, 576, 1, &err), SW_OK);
    assert_int_equal(sw_rotation_init(&b, 576, 1, &err), SW_OK);
    assert_int_equal(sw_rotation_init(&c, 576, 2, &err), SW_OK);
    assert_memory_equal(a.signs, b.signs, 576 * sizeof(float));
    assert_memory_not_equal(a.signs, c.signs, 576 * sizeof(float));
    sw_rotation_free(&a);
    sw_rotation_free(&b);
    sw_rotation_free(&c);
}

static void test_sizes_without(void **state) {
    (void)state;
    sw_rotation r;
    assert_int_equal(sw_rotation_init(&r, 0, 1, &err), SW_UNSUPPORTED);
    assert_int_equal(sw_rotation_init(&r, 2 * 1025, 1, &err), SW_UNSUPPORTED);
    assert_non_null(strstr(err.message, "2050 channels"));
}

/* Rows of a weight as doubles. */
static double *read_weight(const sw_model *m, sw_weight_id id, uint32_t layer) {
    const sw_weight *w = sw_model_weight(m, id, layer);
    float row[128];
    double *out = malloc((size_t)w->rows * w->cols * sizeof *out);
    for (uint32_t r = 0; r < w->rows; r++) {
        sw_weight_row(w, r, row);
        for (uint32_t c = 0; c < w->cols; c++) out[(size_t)r * w->cols + c] = (double)row[c];
    }
    return out;
}

/* a [rows, cols] times b [cols, n]; frees a. */
static double *times(double *a, const double *b, size_t rows, size_t cols, size_t n) {
    double *out = calloc(rows * n, sizeof *out);
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < cols; k++)
            for (size_t j = 0; j < n; j++) out[i * n + j] += a[i * cols + k] * b[k * n + j];
    free(a);
    return out;
}

static double *transposed(double *a, size_t rows, size_t cols) {
    double *out = malloc(rows * cols * sizeof *out);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) out[j * rows + i] = a[i * cols + j];
    free(a);
    return out;
}

/* The residual's R, found from outside: the embedding is square and E^-1 E' is R; here E is made the
 * identity. */
static double *residual_rotation(const sw_model *rotated) {
    return read_weight(rotated, SW_W_EMBEDDING, 0);
}

static void assert_near(double *a, double *b, size_t n) {
    for (size_t i = 0; i < n; i++) assert_float_equal(a[i], b[i], 2e-6);
    free(a);
    free(b);
}

static void test_model(void **state) {
    (void)state;
    enum { N = 24, D = 8, HEADS = 3, KV = 1, FFN = 20 };
    sw_hparams h = tiny_hparams();
    h.hidden = h.vocab = N, h.n_heads = HEADS, h.n_kv_heads = KV, h.ffn = FFN;
    for (int tied = 0; tied < 2; tied++) {
        tiny_model tiny;
        h.tied_embeddings = tied;
        tiny_model_create(&tiny, &h);
        float *e = (float *)(uintptr_t)tiny.model.weights[SW_W_EMBEDDING].data;
        for (size_t i = 0; i < N * N; i++) e[i] = i % (N + 1) == 0;
        sw_rotated_model rotated;
        assert_int_equal(sw_rotate_model(&rotated, &tiny.model, true, ".", NULL, &err), SW_OK);
        assert_false(rotated.model.hparams.tied_embeddings);
        double *r = residual_rotation(&rotated.model);
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < N; j++) {
                double dot = 0;
                for (size_t k = 0; k < N; k++) dot += r[i * N + k] * r[j * N + k];
                assert_true(fabs(dot - (i == j)) < 1e-6);
            }

        static const struct {
            sw_weight_id id, gamma;
            size_t rows;
        } readers[] = {{SW_W_Q, SW_W_ATTENTION_NORM, HEADS * D},
                       {SW_W_K, SW_W_ATTENTION_NORM, KV * D},
                       {SW_W_GATE, SW_W_FFN_NORM, FFN},
                       {SW_W_UP, SW_W_FFN_NORM, FFN},
                       {SW_W_HEAD, SW_W_FINAL_NORM, N}};
        for (uint32_t layer = 0; layer < h.n_layers; layer++) {
            for (size_t k = 0; k < sizeof readers / sizeof *readers; k++) {
                double *gamma = read_weight(&tiny.model, readers[k].gamma, layer);
                double *w = read_weight(&tiny.model, readers[k].id, layer);
                for (size_t i = 0; i < readers[k].rows * N; i++) w[i] *= gamma[i % N];
                free(gamma);
                assert_near(times(w, r, readers[k].rows, N, N),
                            read_weight(&rotated.model, readers[k].id, layer), readers[k].rows * N);
                double *ones = read_weight(&rotated.model, readers[k].gamma, layer);
                for (size_t i = 0; i < N; i++) assert_true(ones[i] == 1);
                free(ones);
            }
            double *down = transposed(read_weight(&tiny.model, SW_W_DOWN, layer), N, FFN);
            assert_near(times(down, r, FFN, N, N),
                        transposed(read_weight(&rotated.model, SW_W_DOWN, layer), N, FFN), N * FFN);

            /* Whatever the heads' rotation is, o_proj of a v_proj alone (a head that attends to one row) is
             * that of the old ones, between gamma R and R. Head x of queries reads KV head 0. */
            for (int x = 0; x < HEADS; x++) {
                double *old_o = transposed(read_weight(&tiny.model, SW_W_O, layer), N, HEADS * D);
                double *new_o = transposed(read_weight(&rotated.model, SW_W_O, layer), N, HEADS * D);
                double *old_v = read_weight(&tiny.model, SW_W_V, layer);
                double *gamma = read_weight(&tiny.model, SW_W_ATTENTION_NORM, layer);
                for (size_t i = 0; i < D * N; i++) old_v[i] *= gamma[i % N];
                old_v = transposed(times(old_v, r, D, N, N), D, N);
                double *new_v = transposed(read_weight(&rotated.model, SW_W_V, layer), D, N);
                bool differs = false;
                for (size_t i = 0; i < D * N; i++) differs |= fabs(old_v[i] - new_v[i]) > 0.01;
                assert_true(differs);
                double *wanted = times(times(old_v, old_o + x * D * N, N, D, N), r, N, N, N);
                assert_near(wanted, times(new_v, new_o + x * D * N, N, D, N), N * N);
                free(old_o);
                free(new_o);
                free(gamma);
            }
        }
        free(r);
        sw_rotated_model_close(&rotated);
        tiny_model_free(&tiny);
    }
}

static void test_threads_give_the_same(void **state) {
    (void)state;
    tiny_model tiny;
    sw_hparams h = tiny_hparams();
    tiny_model_create(&tiny, &h);
    sw_pool *pool;
    assert_int_equal(sw_pool_create(&pool, 3, &err), SW_OK);
    sw_rotated_model a, b;
    assert_int_equal(sw_rotate_model(&a, &tiny.model, true, ".", NULL, &err), SW_OK);
    assert_int_equal(sw_rotate_model(&b, &tiny.model, true, ".", pool, &err), SW_OK);
    assert_int_equal(a.bytes, b.bytes);
    assert_memory_equal(a.data, b.data, a.bytes);
    sw_rotated_model_close(&a);
    sw_rotated_model_close(&b);
    sw_pool_destroy(pool);
    tiny_model_free(&tiny);
}

static void test_refusals(void **state) {
    (void)state;
    tiny_model tiny;
    sw_hparams h = tiny_hparams();
    tiny_model_create(&tiny, &h);
    sw_rotated_model out;
    assert_int_equal(sw_rotate_model(&out, &tiny.model, true, "no/such/folder", NULL, &err), SW_IO);
    assert_non_null(strstr(err.message, "no/such/folder"));
    assert_null(out.data);
    sw_rotated_model_close(&out);
    tiny.model.hparams.hidden = 4100; /* 4 * 1025 */
    assert_int_equal(sw_rotate_model(&out, &tiny.model, true, ".", NULL, &err), SW_UNSUPPORTED);
    tiny_model_free(&tiny);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_variant_gives_the_same_bits),
        cmocka_unit_test(test_orthogonal),
        cmocka_unit_test(test_strips_are_columns),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_sizes_without),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_threads_give_the_same),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
