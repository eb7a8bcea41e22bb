/* Rounding by the moments of the inputs: against GPTQ as its paper has it, with an inverse and plain loops,
 * and by what the layer's output loses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/f16.h"
#include "quant/gptq.h"
#include "quant/panels.h"
#include "quant/quant.h"

enum { MOST_COLS = 192, MOST_ROWS = 40, MOST_INPUTS = 400 };

static uint64_t seed = 5;

static float uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(seed >> 33) / 2147483648.0 - 0.5);
}

/* Weights, and inputs whose columns depend on each other and differ in size. */
typedef struct layer {
    size_t rows, cols, n_inputs;
    float w[MOST_ROWS * MOST_COLS], x[MOST_INPUTS * MOST_COLS];
} layer;

static layer *make_layer(size_t rows, size_t cols, size_t n_inputs) {
    layer *l = malloc(sizeof *l);
    assert_non_null(l);
    l->rows = rows, l->cols = cols, l->n_inputs = n_inputs;
    for (size_t i = 0; i < rows * cols; i++) l->w[i] = 0.1f * (uniform() + uniform() + uniform());
    for (size_t t = 0; t < n_inputs; t++)
        for (size_t c = 0; c < cols; c++)
            l->x[t * cols + c] =
                (c > 0 ? 0.7f * l->x[t * cols + c - 1] : 0) + uniform() * (c % 5 == 0 ? 4 : 1);
    return l;
}

typedef struct rounded {
    int8_t q[MOST_ROWS * MOST_COLS];
    float channel[MOST_ROWS];
    uint16_t blocks[MOST_ROWS * MOST_COLS / 16];
    uint8_t steps[MOST_ROWS * MOST_COLS / 16];
} rounded;

static sw_row_scales scales_from(rounded *r, sw_weight_form form, size_t row, size_t cols) {
    size_t at = form.block != 0 ? row * (cols / form.block) : 0;
    return (sw_row_scales){form.scales != SW_SCALES_FLOAT_BLOCK ? r->channel + row : NULL,
                           form.scales == SW_SCALES_FLOAT_BLOCK ? r->blocks + at : NULL,
                           form.scales == SW_SCALES_BLOCKWISE ? r->steps + at : NULL};
}

static float scale_of(const rounded *r, sw_weight_form form, size_t row, size_t c, size_t cols) {
    if (form.scales == SW_SCALES_ROW) return r->channel[row];
    size_t at = row * (cols / form.block) + c / form.block;
    return form.scales == SW_SCALES_FLOAT_BLOCK ? sw_f16_to_f32(r->blocks[at])
                                                : r->channel[row] * (float)r->steps[at];
}

/* sum over inputs of ((w - q) x)^2 */
static double output_error(const layer *l, const rounded *r, sw_weight_form form) {
    double sum = 0;
    for (size_t row = 0; row < l->rows; row++)
        for (size_t t = 0; t < l->n_inputs; t++) {
            double y = 0;
            for (size_t c = 0; c < l->cols; c++)
                y += ((double)l->w[row * l->cols + c] -
                      (double)scale_of(r, form, row, c, l->cols) * r->q[row * l->cols + c]) *
                     (double)l->x[t * l->cols + c];
            sum += y * y;
        }
    return sum;
}

static void round_layer(const layer *l, const sw_factor *factor, sw_weight_form form, rounded *out) {
    void *scratch = malloc(sw_gptq_scratch_bytes(factor));
    memset(out, 0, sizeof *out);
    for (size_t row = 0; row < l->rows; row += SW_GPTQ_ROWS) {
        size_t n = l->rows - row < SW_GPTQ_ROWS ? l->rows - row : SW_GPTQ_ROWS;
        assert_true(sw_gptq_rows(form, factor, l->w + row * l->cols, n, out->q + row * l->cols,
                                 scales_from(out, form, row, l->cols), scratch));
    }
    free(scratch);
    for (size_t i = 0; i < l->rows * l->cols; i++)
        assert_in_range(out->q[i] + 128, form.four_bit ? 120 : 1, form.four_bit ? 135 : 255);
}

static void factor_layer(const layer *l, sw_weight_form form, sw_factor *factor) {
    sw_moments m;
    assert_int_equal(sw_moments_init(&m, l->cols, NULL), SW_OK);
    assert_int_equal(sw_moments_add(&m, l->x, l->x, l->n_inputs, NULL, NULL), SW_OK);
    assert_int_equal(sw_factor_init(factor, &m, form.block != 0 ? form.block : 1, NULL, NULL), SW_OK);
    sw_moments_free(&m);
}

/* The damped H of the factor, inverted by Gauss-Jordan; H itself is summed here. */
static void inverse_of(const layer *l, const sw_factor *factor, double *inverse) {
    size_t n = l->cols;
    double *h = calloc(n * n, sizeof *h);
    for (size_t t = 0; t < l->n_inputs; t++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) h[i * n + j] += (double)l->x[t * n + i] * (double)l->x[t * n + j];
    for (size_t c = 0; c < n; c++) h[factor->order[c] * n + factor->order[c]] = (double)factor->diagonal[c];
    for (size_t i = 0; i < n * n; i++) inverse[i] = i % (n + 1) == 0;
    for (size_t p = 0; p < n; p++) {
        double pivot = h[p * n + p];
        for (size_t j = 0; j < n; j++) h[p * n + j] /= pivot, inverse[p * n + j] /= pivot;
        for (size_t i = 0; i < n; i++) {
            double f = h[i * n + p];
            for (size_t j = 0; j < n && i != p; j++)
                h[i * n + j] -= f * h[p * n + j], inverse[i * n + j] -= f * inverse[p * n + j];
        }
    }
    free(h);
}

/* The paper's algorithm for one row whose scales are known: round a column, spread its error over those that
 * are left, take the column out of the inverse. */
static void textbook(const layer *l, const sw_factor *factor, size_t row, const rounded *r,
                     sw_weight_form form, int8_t *q) {
    size_t n = l->cols;
    double *inverse = malloc(n * n * sizeof *inverse), w[MOST_COLS];
    inverse_of(l, factor, inverse);
    for (size_t c = 0; c < n; c++) w[c] = (double)l->w[row * n + c];
    for (size_t step = 0; step < n; step++) {
        size_t c = factor->order[step];
        double scale = (double)scale_of(r, form, row, c, n), low = form.four_bit ? -8 : -127,
               high = form.four_bit ? 7 : 127;
        double v = scale != 0 ? fmin(fmax(rint(w[c] / scale), low), high) : 0;
        double error = (w[c] - scale * v) / inverse[c * n + c];
        q[c] = (int8_t)v;
        for (size_t k = step; k < n; k++) {
            size_t j = factor->order[k];
            w[j] -= error * inverse[c * n + j];
        }
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n && i != c; j++)
                if (j != c)
                    inverse[i * n + j] -= inverse[i * n + c] * inverse[c * n + j] / inverse[c * n + c];
    }
    free(inverse);
}

static const sw_weight_form forms[] = {{SW_SCALES_ROW, true, 0},          {SW_SCALES_ROW, false, 0},
                                       {SW_SCALES_FLOAT_BLOCK, true, 32}, {SW_SCALES_FLOAT_BLOCK, false, 32},
                                       {SW_SCALES_BLOCKWISE, true, 16},   {SW_SCALES_BLOCKWISE, true, 32},
                                       {SW_SCALES_BLOCKWISE, true, 64}};
enum { N_FORMS = sizeof forms / sizeof *forms };

static void integers_are_the_papers(void **state) {
    (void)state;
    layer *l = make_layer(5, 128, 300);
    rounded out;
    for (size_t f = 0; f < N_FORMS; f++) {
        sw_factor factor;
        factor_layer(l, forms[f], &factor);
        round_layer(l, &factor, forms[f], &out);
        for (size_t row = 0; row < l->rows; row++) {
            int8_t q[MOST_COLS];
            textbook(l, &factor, row, &out, forms[f], q);
            for (size_t c = 0; c < l->cols; c++)
                if (q[c] != out.q[row * l->cols + c])
                    fail_msg("form %zu, row %zu, column %zu: %d, wanted %d", f, row, c,
                             out.q[row * l->cols + c], q[c]);
        }
        sw_factor_free(&factor);
    }
    free(l);
}

static void nearest_layer(const layer *l, sw_weight_form form, rounded *out) {
    float scratch[MOST_COLS];
    memset(out, 0, sizeof *out);
    for (size_t row = 0; row < l->rows; row++)
        assert_true(sw_quantize_matrix_row(form, l->w + row * l->cols, l->cols, out->q + row * l->cols,
                                           scales_from(out, form, row, l->cols), scratch));
}

static void the_output_loses_less_than_by_nearest(void **state) {
    (void)state;
    layer *l = make_layer(MOST_ROWS, MOST_COLS, MOST_INPUTS);
    rounded out;
    for (size_t f = 0; f < N_FORMS; f++) {
        sw_factor factor;
        factor_layer(l, forms[f], &factor);
        round_layer(l, &factor, forms[f], &out);
        double rounded_error = output_error(l, &out, forms[f]);
        nearest_layer(l, forms[f], &out);
        double nearest_error = output_error(l, &out, forms[f]);
        print_message("form %zu: %.3f of nearest's error\n", f, rounded_error / nearest_error);
        assert_true(rounded_error < 0.6 * nearest_error);
        sw_factor_free(&factor);
    }
    free(l);
}

/* Fewer inputs than columns, columns that are always 0, inputs that are all 0; few rows and columns. */
static void poor_inputs_are_enough(void **state) {
    (void)state;
    static const size_t shapes[][3] = {{17, 96, 10}, {1, 96, 50}, {3, 1, 20}, {2, 5, 3}, {16, 33, 1}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int dead = 0; dead < 3; dead++) {
            layer *l = make_layer(shapes[s][0], shapes[s][1], shapes[s][2]);
            for (size_t i = 0; i < l->n_inputs * l->cols; i++)
                if (dead == 2 || (dead == 1 && i % l->cols % 3 == 0)) l->x[i] = 0;
            sw_weight_form form = {SW_SCALES_ROW, true, 0};
            sw_factor factor;
            rounded out, nearest;
            factor_layer(l, form, &factor);
            round_layer(l, &factor, form, &out);
            nearest_layer(l, form, &nearest);
            if (l->rows * l->cols > 1000) /* a few weights may be unlucky */
                assert_true(output_error(l, &out, form) <= output_error(l, &nearest, form));
            for (size_t i = 0; i < l->rows * l->cols; i++) /* nothing runs away where nothing is known */
                assert_true(fabsf(l->w[i] - out.channel[i / l->cols] * out.q[i]) < 0.6f);
            sw_factor_free(&factor);
            free(l);
        }
}

static void values_that_are_no_numbers_are_refused(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    sw_moments m;
    sw_error err;
    assert_int_equal(sw_moments_init(&m, 3, &err), SW_OK);
    for (size_t b = 0; b < 3; b++) {
        const float good[6] = {1, 2, 3, 4, 5, 6}, x[6] = {1, 2, 3, 4, bad[b], 6};
        assert_int_equal(sw_moments_add(&m, x, good, 2, NULL, &err), SW_BAD_DATA);
        assert_non_null(strstr(err.message, "row 1, column 1"));
        assert_int_equal(sw_moments_add(&m, good, x, 2, NULL, &err), SW_BAD_DATA);
    }
    assert_true(sw_moments_get(&m, 0, 0) == 0);
    const float huge[3] = {3e38f, 3e38f, 3e38f};
    sw_factor factor;
    assert_int_equal(sw_moments_add(&m, huge, huge, 1, NULL, &err), SW_OK);
    assert_int_equal(sw_factor_init(&factor, &m, 1, NULL, &err), SW_BAD_DATA);
    sw_moments_free(&m);
}

/* A model's layer before rounding got y; this one gets x. What is rounded for is W y, not W x. */
static void it_makes_up_for_errors_before_the_layer(void **state) {
    (void)state;
    layer *l = make_layer(MOST_ROWS, 96, MOST_INPUTS);
    float *y = malloc(sizeof l->x);
    assert_non_null(y);
    for (size_t t = 0; t < l->n_inputs; t++)
        for (size_t c = 0; c < l->cols; c++) { /* what was lost is a function of what is left */
            float before = l->x[t * l->cols + (c + l->cols - 1) % l->cols];
            y[t * l->cols + c] = l->x[t * l->cols + c] + 0.2f * before;
        }
    const sw_weight_form form = {SW_SCALES_ROW, false, 0};
    double errors[2];
    for (int with = 0; with < 2; with++) {
        sw_moments m;
        sw_factor factor;
        rounded out;
        assert_int_equal(sw_moments_init(&m, l->cols, NULL), SW_OK);
        assert_int_equal(sw_moments_add(&m, l->x, with ? y : l->x, l->n_inputs, NULL, NULL), SW_OK);
        assert_int_equal(sw_factor_init(&factor, &m, 1, NULL, NULL), SW_OK);
        round_layer(l, &factor, form, &out);
        errors[with] = 0;
        for (size_t row = 0; row < l->rows; row++)
            for (size_t t = 0; t < l->n_inputs; t++) {
                double d = 0;
                for (size_t c = 0; c < l->cols; c++)
                    d += (double)l->w[row * l->cols + c] * (double)y[t * l->cols + c] -
                         (double)out.channel[row] * out.q[row * l->cols + c] * (double)l->x[t * l->cols + c];
                errors[with] += d * d;
            }
        sw_moments_free(&m);
        sw_factor_free(&factor);
    }
    print_message("with the model's inputs: %.3f of the error\n", errors[1] / errors[0]);
    assert_true(errors[1] < 0.6 * errors[0]);
    free(y);
    free(l);
}

/* A whole constant: one thread, two threads, and every variant of the loops. */
static void threads_and_variants_give_the_same(void **state) {
    (void)state;
    layer *l = make_layer(MOST_ROWS, MOST_COLS, MOST_INPUTS);
    static const char *const isas[] = {NULL, "avx2", "scalar"};
    static int8_t want[MOST_ROWS * MOST_COLS], got[MOST_ROWS * MOST_COLS];
    for (size_t f = 0; f < N_FORMS; f++)
        for (unsigned run = 0; run < 4; run++) {
            sw_pool *pool = NULL;
            sw_decoder decoder = {.n_graphs = 0};
            sw_weight view = {.file_name = "w",
                              .data = (const uint8_t *)l->w,
                              .rows = (uint32_t)l->rows,
                              .cols = (uint32_t)l->cols,
                              .row_bytes = l->cols * sizeof(float),
                              .storage = SW_STORE_F32};
            sw_tensor t = {
                .name = "w", .kind = SW_TENSOR_CONSTANT, .dtype = SW_S8, .rank = 2, .weight = &view};
            t.dims[0] = view.rows, t.dims[1] = view.cols, t.form = forms[f];
            if (run == 1) assert_int_equal(sw_pool_create(&pool, 2, NULL), SW_OK);
            if (run > 1) setenv("SPILLWAY_ISA", isas[run - 1], 1);
            sw_moments m;
            sw_factor factor;
            assert_int_equal(sw_moments_init(&m, l->cols, NULL), SW_OK);
            assert_int_equal(sw_moments_add(&m, l->x, l->x, l->n_inputs, pool, NULL), SW_OK);
            assert_int_equal(
                sw_factor_init(&factor, &m, forms[f].block != 0 ? forms[f].block : 1, pool, NULL), SW_OK);
            assert_int_equal(
                sw_round_constant(&decoder, &t, &factor, run == 0 ? want : got, pool, NULL, NULL), SW_OK);
            if (run > 0) assert_memory_equal(want, got, sizeof want);
            unsetenv("SPILLWAY_ISA");
            sw_factor_free(&factor);
            sw_moments_free(&m);
            sw_arena_free(&decoder.arena);
            sw_pool_destroy(pool);
        }
    free(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(integers_are_the_papers),
                                       cmocka_unit_test(the_output_loses_less_than_by_nearest),
                                       cmocka_unit_test(poor_inputs_are_enough),
                                       cmocka_unit_test(values_that_are_no_numbers_are_refused),
                                       cmocka_unit_test(it_makes_up_for_errors_before_the_layer),
                                       cmocka_unit_test(threads_and_variants_give_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
