/* Rows to few integers: exact where the row is on a grid of the form, in range always, and near the best that
 * a fine scan over scales finds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/f16.h"
#include "quant/matrix.h"

enum { COLS = 192, BLOCKS = COLS / 16 };

static uint64_t seed = 3;

static uint32_t next(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

/* Irwin-Hall: the sum of twelve, of variance 1. */
static float normal(void) {
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += next() / 2147483648.0;
    return (float)sum;
}

typedef struct quantized {
    int8_t q[COLS];
    float row_scale, values[COLS];
    uint16_t block_scales[BLOCKS];
    uint8_t block_steps[BLOCKS];
    double error; /* sum of squared differences */
} quantized;

static void run(sw_weight_form form, const float *row, quantized *out) {
    float scratch[COLS];
    sw_tensor t = {.dtype = SW_S8, .rank = 2, .dims = {1, COLS}, .form = form, .data = out->q};
    memset(out, 0, sizeof *out);
    sw_row_scales scales = {.channel = NULL};
    if (form.scales != SW_SCALES_FLOAT_BLOCK)
        scales.channel = &out->row_scale, t.channel_scales = &out->row_scale;
    if (form.scales == SW_SCALES_FLOAT_BLOCK)
        scales.block = out->block_scales, t.block_scales = out->block_scales;
    if (form.scales == SW_SCALES_BLOCKWISE)
        scales.block_steps = out->block_steps, t.block_steps = out->block_steps;
    assert_true(sw_quantize_matrix_row(form, row, COLS, out->q, scales, scratch));
    for (size_t i = 0; i < COLS; i++)
        if (form.four_bit) assert_in_range(out->q[i] + 8, 0, 15);
    for (size_t b = 0; form.scales == SW_SCALES_BLOCKWISE && b < COLS / form.block; b++)
        assert_in_range(out->block_steps[b], 1, 16);
    if (form.scales != SW_SCALES_FLOAT_BLOCK) assert_true(out->row_scale > 0 && isfinite(out->row_scale));
    sw_weight_matrix_row(&t, 0, out->values);
    for (size_t i = 0; i < COLS; i++) {
        double difference = (double)row[i] - (double)out->values[i];
        out->error += difference * difference;
    }
}

static const sw_weight_form forms[] = {
    {SW_SCALES_ROW, false, 0},         {SW_SCALES_ROW, true, 0},          {SW_SCALES_FLOAT_BLOCK, true, 16},
    {SW_SCALES_FLOAT_BLOCK, true, 32}, {SW_SCALES_FLOAT_BLOCK, true, 64}, {SW_SCALES_FLOAT_BLOCK, false, 32},
    {SW_SCALES_BLOCKWISE, true, 16},   {SW_SCALES_BLOCKWISE, true, 32},   {SW_SCALES_BLOCKWISE, true, 64}};
enum { N_FORMS = sizeof forms / sizeof *forms };

/* The 16 values of 4 bits times a power of two, both ends used, come back as they are. */
static void a_row_on_the_grid_is_exact(void **state) {
    (void)state;
    float row[COLS];
    quantized out;
    for (size_t f = 0; f < N_FORMS; f++) {
        if (!forms[f].four_bit) continue;
        for (int i = 0; i < COLS; i++) row[i] = 0.03125f * (float)((i * 7) % 16 - 8);
        run(forms[f], row, &out);
        if (out.error > 1e-12) fail_msg("form %zu: error %g", f, out.error);
        if (forms[f].scales != SW_SCALES_FLOAT_BLOCK) continue;
        for (int i = 0; i < COLS; i++) row[i] = -row[i]; /* 8 needs a negative scale */
        run(forms[f], row, &out);
        if (out.error > 1e-12) fail_msg("form %zu, turned: error %g", f, out.error);
    }
}

static void zeros_and_small_values(void **state) {
    (void)state;
    static const float all[] = {0, 1e-30f, 1e-9f, -1e-9f};
    for (size_t f = 0; f < N_FORMS; f++)
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            float row[COLS];
            quantized out;
            for (int i = 0; i < COLS; i++) row[i] = all[k];
            run(forms[f], row, &out);
            for (int i = 0; i < COLS; i++) assert_true(fabsf(out.values[i]) <= 2e-8f);
        }
}

/* Least error of integers low..high over 4000 scales up to the greatest magnitude / 4. */
static double best_of_scan(const float *x, size_t n, bool negative) {
    float greatest = 0;
    double best = INFINITY;
    for (size_t i = 0; i < n; i++) greatest = fmaxf(greatest, fabsf(x[i]));
    for (int k = 1; k <= 4000; k++)
        for (int sign = 1; sign >= (negative ? -1 : 1); sign -= 2) {
            double scale = sign * (double)greatest / 4 * k / 4000, error = 0;
            for (size_t i = 0; i < n; i++) {
                double q = fmin(fmax(round((double)x[i] / scale), -8), 7);
                error += ((double)x[i] - scale * q) * ((double)x[i] - scale * q);
            }
            best = fmin(best, error);
        }
    return best;
}

static void the_search_is_near_the_best(void **state) {
    (void)state;
    double row_ratio = 0, block_ratio = 0, steps_ratio = 0;
    enum { TRIALS = 6 };
    for (int trial = 0; trial < TRIALS; trial++) {
        float row[COLS];
        quantized out;
        double best = 0;
        for (int i = 0; i < COLS; i++) row[i] = normal() * 0.07f * (i / 32 % 2 == 0 ? 1 : 0.3f);
        run(forms[1], row, &out);
        row_ratio += out.error / best_of_scan(row, COLS, false) / TRIALS;
        for (int b = 0; b < COLS / 32; b++) best += best_of_scan(row + 32 * b, 32, true);
        run(forms[3], row, &out);
        block_ratio += out.error / best / TRIALS;
        run(forms[7], row, &out);
        steps_ratio += out.error / best / TRIALS;
    }
    print_message("error to the best of a scan: row %.3f, float_block %.3f, blockwise %.3f\n", row_ratio,
                  block_ratio, steps_ratio);
    assert_true(row_ratio < 1.03);
    assert_true(block_ratio < 1.05);
    assert_true(steps_ratio < 1.25); /* steps of a row's scale, and no sign */
}

/* 8 bits with a scale a row: greatest magnitude at 127. */
static void eight_bits_reach_127(void **state) {
    (void)state;
    float row[COLS] = {0};
    quantized out;
    row[5] = -2, row[9] = 1;
    run(forms[0], row, &out);
    assert_int_equal(out.q[5], -127);
    assert_int_equal(out.q[9], 64); /* 63.5, away from 0 */
    assert_true(out.row_scale == 2.0f / 127);
    run(forms[5], row, &out);
    assert_int_equal(out.q[5], -127);
    assert_int_equal(out.block_scales[0], sw_f32_to_f16(2.0f / 127));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_on_the_grid_is_exact), cmocka_unit_test(zeros_and_small_values),
        cmocka_unit_test(the_search_is_near_the_best), cmocka_unit_test(eight_bits_reach_127)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
