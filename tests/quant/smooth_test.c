/* Factors of one pair of layers: the formula, the noise that rounding really makes, and the search. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "quant/smooth.h"
#include "tiny_model.h"

enum { CHANNELS = 48, ROWS = 40, TOKENS = 400 };

static float x[TOKENS * CHANNELS], w[ROWS * CHANNELS], greatest[CHANNELS], power[CHANNELS];
static float scratch[3 * CHANNELS];

/* Channels whose activations differ by `spread` in size. */
static sw_smooth_pair make_pair(float spread) {
    uint64_t state = 3;
    memset(greatest, 0, sizeof greatest);
    memset(power, 0, sizeof power);
    for (int i = 0; i < ROWS * CHANNELS; i++) w[i] = tiny_random(&state);
    for (int t = 0; t < TOKENS; t++)
        for (int j = 0; j < CHANNELS; j++) {
            float v = tiny_random(&state) * powf(spread, (float)j / (CHANNELS - 1));
            x[t * CHANNELS + j] = v;
            greatest[j] = fmaxf(greatest[j], fabsf(v));
            power[j] += v * v / TOKENS;
        }
    return (sw_smooth_pair){.channels = CHANNELS,
                            .greatest = greatest,
                            .power = power,
                            .weights = {w},
                            .rows = {ROWS},
                            .cols = CHANNELS,
                            .n_weights = 1,
                            .activation_steps = 255,
                            .weight_steps = 255};
}

static double rounded(double value, double step) {
    return step * round(value / step);
}

/* Mean over tokens of the squared error of all outputs, with activations and weights rounded. */
static double real_noise(const float *factors, double activation_steps, double weight_steps) {
    double most = 0, sum = 0;
    for (int i = 0; i < TOKENS * CHANNELS; i++)
        most = fmax(most, fabs((double)x[i] / (double)factors[i % CHANNELS]));
    for (int r = 0; r < ROWS; r++) {
        double largest = 0;
        for (int j = 0; j < CHANNELS; j++)
            largest = fmax(largest, fabs((double)w[r * CHANNELS + j] * (double)factors[j]));
        for (int t = 0; t < TOKENS; t++) {
            double error = 0;
            for (int j = 0; j < CHANNELS; j++) {
                double a = (double)x[t * CHANNELS + j] / (double)factors[j],
                       b = (double)w[r * CHANNELS + j] * (double)factors[j];
                error +=
                    a * b - rounded(a, 2 * most / activation_steps) * rounded(b, 2 * largest / weight_steps);
            }
            sum += error * error / TOKENS;
        }
    }
    return sum;
}

static void noise_is_what_rounding_makes(void **state) {
    (void)state;
    static const struct {
        float spread;
        double activation_steps, weight_steps;
    } cases[] = {{1, 255, 255}, {30, 255, 255}, {30, 65535, 255}, {30, 255, 15}, {300, 65535, 15}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        float factors[CHANNELS];
        sw_smooth_pair p = make_pair(cases[c].spread);
        p.activation_steps = cases[c].activation_steps, p.weight_steps = cases[c].weight_steps;
        for (float strength = 0; strength <= 1; strength += 0.5f) {
            sw_smooth_factors(&p, strength, factors, scratch);
            double told = sw_smooth_noise(&p, factors, scratch);
            double real = real_noise(factors, p.activation_steps, p.weight_steps);
            if (!(told > 0.6 * real && told < 1.6 * real))
                fail_msg("case %zu, strength %g: noise %g, told %g", c, (double)strength, real, told);
        }
    }
}

/* greatest^a / w^(1 - a), but for a factor that all share. */
static void strength_is_the_formula(void **state) {
    (void)state;
    sw_smooth_pair p = make_pair(30);
    float factors[CHANNELS];
    double largest[CHANNELS] = {0};
    for (int i = 0; i < ROWS * CHANNELS; i++)
        largest[i % CHANNELS] = fmax(largest[i % CHANNELS], fabs((double)w[i]));
    for (double a = 0; a <= 1; a += 0.25) {
        sw_smooth_factors(&p, (float)a, factors, scratch);
        double first = 0, product = 0;
        for (int j = 0; j < CHANNELS; j++) {
            double ratio = (double)factors[j] / (pow((double)greatest[j], a) / pow(largest[j], 1 - a));
            if (j == 0) first = ratio;
            assert_true(fabs(ratio / first - 1) < 1e-4);
            product += log((double)factors[j]);
        }
        assert_true(fabs(product) < 1e-3);
    }
}

static void search_beats_every_strength(void **state) {
    (void)state;
    for (float spread = 1; spread < 500; spread *= 7) {
        sw_smooth_pair p = make_pair(spread);
        float factors[CHANNELS], one[CHANNELS];
        for (int j = 0; j < CHANNELS; j++) one[j] = 1;
        sw_smooth_factors(&p, SW_SMOOTH_SEARCH, factors, scratch);
        double found = sw_smooth_noise(&p, factors, scratch);
        assert_true(found <= sw_smooth_noise(&p, one, scratch) * (1 + 1e-6));
        if (spread > 20) /* and really */
            assert_true(real_noise(factors, 255, 255) < 0.5 * real_noise(one, 255, 255));
        for (int a = 0; a <= 10; a += 2) {
            sw_smooth_factors(&p, (float)a / 10, one, scratch);
            assert_true(found <= sw_smooth_noise(&p, one, scratch) * (1 + 1e-6));
        }
    }
}

/* Channels that are always 0, columns of zeros, and columns that share a channel. */
static void degenerate_channels(void **state) {
    (void)state;
    sw_smooth_pair p = make_pair(30);
    float factors[CHANNELS];
    greatest[3] = power[3] = 0;
    for (int r = 0; r < ROWS; r++) w[r * CHANNELS + 5] = 0;
    const float strengths[] = {0, 0.5f, 1, SW_SMOOTH_SEARCH};
    uint32_t halves[CHANNELS];
    for (uint32_t c = 0; c < CHANNELS; c++) halves[c] = c % (CHANNELS / 2);
    for (int shared = 0; shared < 2; shared++) {
        if (shared) p.channels = CHANNELS / 2, p.channel_of = halves;
        for (size_t i = 0; i < 4; i++) {
            sw_smooth_factors(&p, strengths[i], factors, scratch);
            for (size_t j = 0; j < p.channels; j++) assert_true(factors[j] > 0 && isfinite(factors[j]));
        }
    }
    memset(greatest, 0, sizeof greatest);
    memset(w, 0, sizeof w);
    for (size_t i = 0; i < 4; i++) {
        sw_smooth_factors(&p, strengths[i], factors, scratch);
        for (size_t j = 0; j < p.channels; j++) assert_true(fabsf(factors[j] - 1) < 1e-6f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_is_what_rounding_makes),
        cmocka_unit_test(strength_is_the_formula),
        cmocka_unit_test(search_beats_every_strength),
        cmocka_unit_test(degenerate_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
