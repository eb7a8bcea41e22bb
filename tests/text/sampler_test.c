/* sampler_test.c: exact choices where they can be known, frequencies against the definition elsewhere. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/sampler.h"

static sw_error err;

static sw_sampler create(float temperature, int64_t top_k, float top_p, uint64_t seed) {
    const sw_sampler_params params = {temperature, top_k, top_p, seed};
    sw_sampler s;
    assert_int_equal(sw_sampler_init(&s, &params, &err), SW_OK);
    return s;
}

static int32_t next(sw_sampler *s, const float *logits, const int32_t *ids, size_t n) {
    int32_t id = -1;
    if (sw_sampler_next(s, logits, ids, n, 7, &id, &err) != SW_OK) fail_msg("%s", err.message);
    return id;
}

static int32_t choose(float temperature, int64_t top_k, float top_p, const float *logits, size_t n) {
    sw_sampler s = create(temperature, top_k, top_p, 1);
    int32_t id = next(&s, logits, NULL, n);
    sw_sampler_deinit(&s);
    return id;
}

static void greedy_takes_the_largest_and_the_lowest_id(void **state) {
    (void)state;
    const float logits[] = {-1, 3, 2, 3, -INFINITY};
    const int32_t ids[] = {50, 40, 30, 20, 10};
    assert_int_equal(choose(0, 0, 1, logits, 5), 1);
    assert_int_equal(choose(-0.0f, 0, 1, logits, 5), 1);
    sw_sampler s = create(0, 0, 1, 1);
    assert_int_equal(next(&s, logits, ids, 5), 20);
    const float equal[] = {1, 1, 1}, lowest[] = {-INFINITY, -3e38f, -INFINITY};
    assert_int_equal(next(&s, equal, NULL, 3), 0);
    assert_int_equal(next(&s, lowest, NULL, 3), 1);
    sw_sampler_deinit(&s);
}

static void narrow_choices_are_greedy(void **state) {
    (void)state;
    const float logits[] = {1, 5, 4.9f, -3e38f, 3e38f, 2.9e38f, -INFINITY};
    const float tiny[] = {1e-45f, 1e-38f, 1e-20f};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(choose(tiny[i], 0, 1, logits, 7), 4);
        assert_int_equal(choose(tiny[i], 3, 0.9f, logits, 7), 4);
        assert_int_equal(choose(tiny[i], 0, 1, logits, 3), 1);
    }
    assert_int_equal(choose(1, 1, 1, logits, 3), 1);      /* top-k 1 */
    assert_int_equal(choose(1, 0, 1e-30f, logits, 3), 1); /* top-p keeps at least one */
    const float equal[] = {0, 1, 1, 1, 1, 1};
    assert_int_equal(choose(1, 1, 1, equal, 6), 1); /* on a tie the lowest id is kept */
    assert_int_equal(choose(1, 0, 1e-30f, equal, 6), 1);
    const float one[] = {-INFINITY, -INFINITY, -2};
    for (int i = 0; i < 3; i++) assert_int_equal(choose(3e38f, i, 1, one, 3), 2); /* -inf is never drawn */
}

/* Draws often and compares frequencies with wanted probabilities: 5 standard deviations. */
static void check_frequencies(float temperature, int64_t top_k, float top_p, const float *logits,
                              const double *wanted, size_t n) {
    enum { DRAWS = 40000 };
    sw_sampler s = create(temperature, top_k, top_p, 42);
    unsigned counts[8] = {0};
    for (int i = 0; i < DRAWS; i++) counts[next(&s, logits, NULL, n)]++;
    for (size_t i = 0; i < n; i++) {
        double deviation = 5 * sqrt(wanted[i] * (1 - wanted[i]) / DRAWS), found = (double)counts[i] / DRAWS;
        if (fabs(found - wanted[i]) > deviation) fail_msg("token %zu: %f, wanted %f", i, found, wanted[i]);
    }
    sw_sampler_deinit(&s);
}

static void draws_by_the_definition(void **state) {
    (void)state;
    /* Logits ln 1, ln 4, ln 2, ln 3, and one forbidden: probabilities 1, 4, 2, 3 of 10. */
    const float logits[] = {0, 1.3862943611f, 0.6931471806f, 1.0986122887f, -INFINITY};
    check_frequencies(1, 0, 1, logits, (const double[]){.1, .4, .2, .3, 0}, 5);
    check_frequencies(1, 3, 1, logits, (const double[]){0, 4. / 9, 2. / 9, 3. / 9, 0}, 5);
    check_frequencies(1, 100, 1, logits, (const double[]){.1, .4, .2, .3, 0}, 5);
    check_frequencies(1, 0, 0.5f, logits, (const double[]){0, 4. / 7, 0, 3. / 7, 0}, 5); /* .4 < .5 <= .7 */
    check_frequencies(1, 0, 0.95f, logits, (const double[]){.1, .4, .2, .3, 0}, 5);
    check_frequencies(1, 3, 0.7f, logits, (const double[]){0, 4. / 7, 0, 3. / 7, 0}, 5); /* 4/9 < .7 <= 7/9 */
    check_frequencies(0.5f, 0, 1, logits, (const double[]){1. / 30, 16. / 30, 4. / 30, 9. / 30, 0}, 5);
    check_frequencies(3e38f, 0, 1, logits, (const double[]){.25, .25, .25, .25, 0}, 5); /* all but flat */
}

/* SplitMix64's published first values for seed 1234567: 6457827717110365317, 3203168211198807973, ...
 * (Rosetta Code, "Pseudo-random numbers/Splitmix64"). With n equal logits the choice is floor(n * u). */
static void random_numbers_are_splitmix64(void **state) {
    (void)state;
    static const uint64_t published[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                         4593380528125082431u, 16408922859458223821u};
    static float equal[1024];
    sw_sampler s = create(1, 0, 1, 1234567);
    for (int i = 0; i < 5; i++) assert_int_equal(next(&s, equal, NULL, 1024), published[i] >> 54);
    sw_sampler_deinit(&s);
}

static void a_seed_gives_the_same_tokens(void **state) {
    (void)state;
    static float logits[49152];
    for (size_t i = 0; i < 49152; i++) logits[i] = (float)(i * 7919 % 49152) / 4096.0f;
    int32_t first[8];
    for (int run = 0; run < 2; run++) {
        sw_sampler s = create(0.8f, 0, 0.9f, 99);
        for (int i = 0; i < 8; i++) {
            int32_t id = next(&s, logits, NULL, 49152);
            if (run == 0) first[i] = id;
            assert_int_equal(id, first[i]);
        }
        sw_sampler_deinit(&s);
    }
    sw_sampler other = create(0.8f, 0, 0.9f, 100);
    int same = 0;
    for (int i = 0; i < 8; i++) same += next(&other, logits, NULL, 49152) == first[i];
    assert_true(same < 8);
    sw_sampler_deinit(&other);
}

static void refuses_wrong_parameters(void **state) {
    (void)state;
    const struct {
        sw_sampler_params params;
        const char *part;
    } cases[] = {
        {{-1, 0, 1, 0}, "temperature is -1, wanted a finite number >= 0"},
        {{NAN, 0, 1, 0}, "temperature is nan"},
        {{INFINITY, 0, 1, 0}, "temperature is inf"},
        {{1, -1, 1, 0}, "top_k is -1, wanted >= 0"},
        {{1, 0, 0, 0}, "top_p is 0, wanted > 0 and <= 1"},
        {{1, 0, 1.5f, 0}, "top_p is 1.5"},
        {{1, 0, NAN, 0}, "top_p is nan"},
        {{1, 0, -0.5f, 0}, "top_p is -0.5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_sampler s;
        assert_int_equal(sw_sampler_init(&s, &cases[i].params, &err), SW_INVALID_ARGUMENT);
        if (strstr(err.message, cases[i].part) == NULL) fail_msg("%s", err.message);
    }
}

static void refuses_broken_logits_and_names_the_step(void **state) {
    (void)state;
    const float nan_logit[] = {1, NAN, 2}, inf_logit[] = {1, 2, INFINITY}, none[] = {-INFINITY, -INFINITY};
    const int32_t ids[] = {10, 20, 30};
    const float temperatures[] = {0, 1};
    for (int i = 0; i < 2; i++) {
        sw_sampler s = create(temperatures[i], 0, 1, 0);
        int32_t id;
        assert_int_equal(sw_sampler_next(&s, nan_logit, NULL, 3, 12, &id, &err), SW_BAD_DATA);
        assert_string_equal(err.message, "step 12: the logit of token 1 is NaN");
        assert_int_equal(sw_sampler_next(&s, inf_logit, ids, 3, 12, &id, &err), SW_BAD_DATA);
        assert_string_equal(err.message, "step 12: the logit of token 30 is +inf");
        assert_int_equal(sw_sampler_next(&s, none, NULL, 2, 3, &id, &err), SW_BAD_DATA);
        assert_string_equal(err.message, "step 3: all 2 logits are -inf");
        assert_int_equal(sw_sampler_next(&s, none, NULL, 0, 3, &id, &err), SW_INVALID_ARGUMENT);
        sw_sampler_deinit(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_largest_and_the_lowest_id),
        cmocka_unit_test(narrow_choices_are_greedy),
        cmocka_unit_test(draws_by_the_definition),
        cmocka_unit_test(random_numbers_are_splitmix64),
        cmocka_unit_test(a_seed_gives_the_same_tokens),
        cmocka_unit_test(refuses_wrong_parameters),
        cmocka_unit_test(refuses_broken_logits_and_names_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
