/* The loops over rows of values: each variant against plain arithmetic, and bit by bit against the others. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "quant/value_loops.h"

enum { MOST = 131 };

static const sw_value_loops *variants[3] = {&sw_values_scalar};
static size_t n_variants = 1;

static void find_variants(void) {
#if defined(__x86_64__)
    if (sw_cpu_has(SW_ISA_AVX2)) variants[n_variants++] = &sw_values_avx2;
    if (sw_cpu_has(SW_ISA_AVX512)) variants[n_variants++] = &sw_values_avx512;
#endif
}

static uint32_t seed = 1;

static float next(void) { /* -1 to 1 */
    seed = seed * 1664525u + 1013904223u;
    return (float)(int32_t)seed / 2147483648.0f;
}

static void least_and_greatest(void **state) {
    (void)state;
    float x[MOST];
    for (size_t v = 0; v < n_variants; v++)
        for (size_t n = 1; n <= MOST; n++) {
            float min, max, least = INFINITY, greatest = -INFINITY;
            for (size_t i = 0; i < n; i++) {
                x[i] = 100 * next() + (n % 3 == 0 ? 200.0f : n % 3 == 1 ? -200.0f : 0.0f);
                least = fminf(least, x[i]), greatest = fmaxf(greatest, x[i]);
            }
            variants[v]->range(x, n, &min, &max);
            assert_true(min == least && max == greatest);
            const float odd[] = {INFINITY, -INFINITY, NAN, -NAN}; /* one of these anywhere shows */
            x[n / 2] = odd[n % 4];
            variants[v]->range(x, n, &min, &max);
            assert_false(isfinite(min) && isfinite(max));
            assert_true(n % 4 != 0 || max == INFINITY);
            assert_true(n % 4 != 1 || min == -INFINITY);
        }
}

static void nearest_integers_and_ties(void **state) {
    (void)state;
    float x[MOST];
    int8_t q[MOST];
    for (size_t v = 0; v < n_variants; v++)
        for (size_t n = 1; n <= MOST; n++) {
            const float inverse = n % 2 == 0 ? 1.0f : 0.37f * (float)n;
            float wanted = 0.5f;
            for (size_t i = 0; i < n; i++) x[i] = 127.4f / inverse * next();
            if (n % 4 == 0) x[n / 3] = -12.5f; /* a tie, to even */
            if (n % 4 == 2) x[n / 3] = 900;    /* cut off */
            const float got = variants[v]->nearest_of_8(x, n, inverse, q);
            for (size_t i = 0; i < n; i++) {
                const float product = x[i] * inverse, integer = nearbyintf(product);
                assert_int_equal(q[i], (int)fmaxf(-127, fminf(127, integer)));
                wanted = fminf(wanted, 0.5f - fabsf(product - integer));
            }
            assert_true(got == wanted);
            assert_true(n % 4 != 0 || got == 0);
        }
}

static void costs_are_sums_of_squares(void **state) {
    (void)state;
    float x[MOST], y[MOST];
    for (size_t n = 0; n <= MOST; n++) {
        double signal = 0, noise = 0, first[2] = {0};
        for (size_t i = 0; i < n; i++) {
            x[i] = next(), y[i] = x[i] + next() / 128;
            signal += (double)x[i] * (double)x[i];
            noise += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        }
        for (size_t v = 0; v < n_variants; v++) {
            double got[2];
            variants[v]->cost(x, y, n, &got[0], &got[1]);
            assert_true(fabs(got[0] - signal) <= 1e-13 * signal);
            assert_true(fabs(got[1] - noise) <= 1e-13 * noise);
            if (v == 0) memcpy(first, got, sizeof first);
            assert_memory_equal(got, first, sizeof first);
        }
    }
}

int main(void) {
    find_variants();
    const struct CMUnitTest tests[] = {cmocka_unit_test(least_and_greatest),
                                       cmocka_unit_test(nearest_integers_and_ties),
                                       cmocka_unit_test(costs_are_sums_of_squares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
