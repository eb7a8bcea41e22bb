/* Histograms against the values themselves: quantiles of known distributions, and the range with the least
 * squared error against a brute-force scan over both ends. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "quant/encoding.h"
#include "quant/histogram.h"

enum { N = 20000 };

static float values[N];
static sw_histogram h;

static double uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 11) + 0.5) / 9007199254740992.0; /* (0, 1) */
}

/* Laplace with another scale below 0 than above; some zeros; a few far outliers. */
static void fill(double below, double above, unsigned outliers) {
    uint64_t state = 42;
    for (int i = 0; i < N; i++) {
        double x = -log(uniform(&state));
        values[i] = uniform(&state) < 0.5 ? (float)(-x * below) : (float)(x * above);
        if (i % 50 == 0) values[i] = 0;
    }
    for (unsigned i = 0; i < outliers; i++) values[i * 997 % N] = (float)(40 * above);
    h = (sw_histogram){0};
    sw_histogram_add(&h, values, N);
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Exact to a bin's width, 1 / 64. */
static void quantiles(void **state) {
    (void)state;
    for (int i = 0; i < 10000; i++) values[i] = (float)(i + 1); /* the p-th percentile is 100 p */
    h = (sw_histogram){0};
    sw_histogram_add(&h, values, 10000);
    static const double percents[] = {0.1, 1, 10, 50, 90, 99, 99.9, 99.99, 100};
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        double wanted = 100 * percents[i], got = sw_histogram_quantile(&h, percents[i] / 100);
        assert_true(fabs(got / wanted - 1) < 1.0 / 64);
    }

    fill(1, 3, 0);
    qsort(values, N, sizeof *values, ascending);
    for (int i = 10; i < N - 10; i += 123) {
        double got = sw_histogram_quantile(&h, (i + 1.0) / N), wanted = (double)values[i];
        assert_true(fabs(got - wanted) <= fabs(wanted) / 64 + 1e-6);
    }

    h = (sw_histogram){0};
    assert_true(sw_histogram_quantile(&h, 0.5) == 0);
    static const float few[] = {0, 0, 0, 0, 0, 0, 0, 0, -1, 1};
    sw_histogram_add(&h, few, 10);
    assert_true(sw_histogram_quantile(&h, 0.5) == 0);
    assert_true(fabs(sw_histogram_quantile(&h, 1) - 1) <= 1.0 / 64);
    assert_true(fabs(sw_histogram_quantile(&h, 0.05) + 1) <= 1.0 / 64);
    static const float extremes[] = {1e-30f, -1e-30f, 3e38f, -3e38f}; /* beyond the octaves: no harm */
    sw_histogram_add(&h, extremes, 4);
    assert_true(isfinite(sw_histogram_quantile(&h, 1)));
}

/* The error of the values themselves, each rounded. */
static double exact_error(sw_dtype type, bool symmetric, double min, double max) {
    sw_encoding e =
        symmetric ? sw_encoding_symmetric(fmax(-min, max), type) : sw_encoding_of_range(min, max, type);
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double q = round((double)values[i] / (double)e.scale) - e.offset;
        q = fmin(fmax(q, sw_dtype_min(type)), sw_dtype_max(type));
        double d = (double)values[i] - (double)e.scale * (q + e.offset);
        sum += d * d;
    }
    return sum;
}

static void ends(double *min, double *max) {
    *min = *max = 0;
    for (int i = 0; i < N; i++) *min = fmin(*min, (double)values[i]), *max = fmax(*max, (double)values[i]);
}

static void least_error(void **state) {
    (void)state;
    static const struct {
        double below, above;
        unsigned outliers;
    } cases[] = {{1, 1, 0}, {0.1, 3, 0}, {1, 1, 1}, {0.02, 1, 3}, {1, 0.05, 20}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double min, max, lowest, greatest, best = INFINITY;
        fill(cases[c].below, cases[c].above, cases[c].outliers);
        ends(&lowest, &greatest);
        for (int a = 0; a < 40; a++) /* a fine scan of both ends, down to a 30th */
            for (int b = 0; b < 40; b++)
                best =
                    fmin(best, exact_error(SW_U8, false, lowest * exp2(-a / 8.0), greatest * exp2(-b / 8.0)));
        min = lowest, max = greatest;
        sw_histogram_least_error(&h, SW_U8, false, &min, &max);
        double found = exact_error(SW_U8, false, min, max),
               whole = exact_error(SW_U8, false, lowest, greatest);
        if (!(found <= 1.02 * best)) fail_msg("case %zu: error %g, best %g", c, found, best);
        assert_true(found < whole);
        assert_true(min >= lowest && max <= greatest);
        double told = sw_histogram_error(&h, SW_U8, false, min, max);
        assert_true(fabs(told / found - 1) < 0.05);

        best = INFINITY;
        double bound = fmax(-lowest, greatest);
        for (int a = 0; a < 100; a++)
            best = fmin(best, exact_error(SW_U8, true, -bound * exp2(-a / 20.0), bound * exp2(-a / 20.0)));
        min = lowest, max = greatest;
        sw_histogram_least_error(&h, SW_U8, true, &min, &max);
        assert_true(min == -max);
        assert_true(exact_error(SW_U8, true, min, max) <= 1.02 * best);
    }
}

/* 16 bits have steps enough: nothing is cut off that matters. */
static void wide_types_keep_the_range(void **state) {
    (void)state;
    double min, max, lowest, greatest;
    fill(1, 1, 0);
    ends(&lowest, &greatest);
    min = lowest, max = greatest;
    sw_histogram_least_error(&h, SW_U16, false, &min, &max);
    assert_true(max > 0.7 * greatest && min < 0.7 * lowest);
    double zero_min = 0, zero_max = 0;
    sw_histogram_least_error(&(sw_histogram){0}, SW_U8, false, &zero_min, &zero_max);
    assert_true(zero_min == 0 && zero_max == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles),
        cmocka_unit_test(least_error),
        cmocka_unit_test(wide_types_keep_the_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
