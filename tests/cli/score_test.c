/* Scores against distributions whose numbers can be written down. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/eval.h"
#include "cli/score.h"

static sw_error err;

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static void near(double a, double b, double most) {
    if (!(fabs(a - b) <= most)) fail_msg("%.17g, wanted %.17g, at most %g from it", a, b, most);
}

/* Equal logits: every token has 1 / vocab, whatever the ids, so perplexity is the vocabulary's size and its
 * error 0. */
static void uniform_logits_give_the_vocabulary(void **state) {
    (void)state;
    enum { N = 9, VOCAB = 50 };
    static float logits[N * VOCAB];
    int32_t ids[N];
    for (int i = 0; i < N; i++) ids[i] = i * 5;
    for (int i = 0; i < N * VOCAB; i++) logits[i] = -3.25f;
    sw_score s;
    OK(sw_score_window(logits, NULL, ids, N, sw_score_first(N), VOCAB, NULL, &s, &err));
    assert_int_equal(s.positions, 4); /* 4, 5, 6, 7; 8 has no token behind it */
    near(sw_score_perplexity(&s), 50, 1e-9);
    near(sw_score_perplexity_error(&s), 0, 1e-6);
    assert_int_equal(s.compared, 0);
}

/* Reference (1/2, 1/4, 1/4), other (1/4, 1/4, 1/2): KL = ln 2 / 2 - ln 2 / 4 = ln 2 / 4. */
static void divergence_by_hand(void **state) {
    (void)state;
    const float reference[] = {logf(2), 0, 0, logf(2), 0, 0},
                other[] = {5, 5, 5 + logf(2), 5, 5, 5 + logf(2)};
    const int32_t ids[] = {0, 2};
    sw_score s;
    OK(sw_score_window(other, reference, ids, 2, 0, 3, NULL, &s, &err));
    assert_int_equal(s.positions, 1);
    assert_int_equal(s.compared, 1);
    assert_int_equal(s.same_top, 0);
    near(s.kl, log(2) / 4, 1e-6);
    near(s.nll, log(2), 1e-6);
    double l = log(2);
    near(s.signal, l * l, 1e-6);
    near(s.noise, (5 - l) * (5 - l) + 25 + (5 + l) * (5 + l), 1e-4);
    near(sw_log_probability(other, 3, 2), -log(2), 1e-6);
    near(sw_log_probability(other, 3, 0), -log(4), 1e-6);
}

/* Logits of thousands don't overflow, and -10000 is probability 0, not NaN. */
static void extreme_logits(void **state) {
    (void)state;
    const float a[] = {30000, -10000, 29999, 0, 0, 0};
    const int32_t ids[] = {0, 2};
    sw_score s;
    OK(sw_score_window(a, a, ids, 2, 0, 3, NULL, &s, &err));
    near(s.nll, 1 + log(1 + exp(-1)), 1e-9);
    near(s.kl, 0, 1e-12);
    near(sw_decibels(s.signal, s.noise), 999, 0);
}

static void windows_too_short_have_no_score(void **state) {
    (void)state;
    const float a[2] = {0, 0};
    const int32_t ids[] = {0, 1};
    sw_score s;
    OK(sw_score_window(a, NULL, ids, 1, sw_score_first(1), 2, NULL, &s, &err));
    assert_int_equal(s.positions, 0);
    assert_true(isnan(sw_score_perplexity(&s)));
    OK(sw_score_window(a, NULL, ids, 2, sw_score_first(2), 2, NULL, &s, &err));
    assert_int_equal(s.positions, 0);
}

/* How llama.cpp counts: 255 of 512, 63 of 128. */
static void scored_positions(void **state) {
    (void)state;
    static const uint32_t rows[][2] = {{512, 255}, {128, 63}, {4, 1}, {5, 2}, {7, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t n = rows[i][0];
        float *logits = calloc(n * 2, sizeof *logits);
        int32_t *ids = calloc(n, sizeof *ids);
        sw_score s;
        OK(sw_score_window(logits, NULL, ids, n, sw_score_first(n), 2, NULL, &s, &err));
        assert_int_equal(s.positions, rows[i][1]);
        free(logits), free(ids);
    }
}

static void the_same_sums_on_every_number_of_threads(void **state) {
    (void)state;
    enum { N = 40, VOCAB = 300 };
    static float a[N * VOCAB], b[N * VOCAB];
    int32_t ids[N];
    uint32_t x = 1;
    for (int i = 0; i < N * VOCAB; i++) {
        x = x * 1664525u + 1013904223u, a[i] = (float)(x >> 8) / (1 << 20);
        x = x * 1664525u + 1013904223u, b[i] = a[i] + (float)(x >> 8) / (1 << 23);
    }
    for (int i = 0; i < N; i++) ids[i] = (i * 37) % VOCAB;
    sw_score alone, shared;
    sw_pool *pool;
    OK(sw_score_window(b, a, ids, N, 3, VOCAB, NULL, &alone, &err));
    OK(sw_pool_create(&pool, 3, &err));
    OK(sw_score_window(b, a, ids, N, 3, VOCAB, pool, &shared, &err));
    sw_pool_destroy(pool);
    assert_memory_equal(&alone, &shared, sizeof alone);
    /* And they add up. */
    sw_score sum = {0}, part;
    OK(sw_score_window(b, a, ids, 20, 3, VOCAB, NULL, &part, &err));
    sw_score_add(&sum, &part);
    OK(sw_score_window(b, a, ids, N, 19, VOCAB, NULL, &part, &err));
    sw_score_add(&sum, &part);
    assert_int_equal(sum.positions, alone.positions);
    near(sum.nll, alone.nll, 1e-9);
    near(sum.kl, alone.kl, 1e-9);
    assert_int_equal(sum.same_top, alone.same_top);
}

/* Windows don't overlap; a BOS takes the place of the first id of each, as llama.cpp does it. */
static void windows_of_a_text(void **state) {
    (void)state;
    int32_t data[11], out[4];
    for (int i = 0; i < 11; i++) data[i] = 100 + i;
    const sw_ids text = {data, 11, 11};
    sw_eval_window(&text, 4, 1, -1, out);
    for (int i = 0; i < 4; i++) assert_int_equal(out[i], 104 + i);
    sw_eval_window(&text, 4, 1, 7, out);
    assert_int_equal(out[0], 7);
    assert_int_equal(out[1], 105);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_logits_give_the_vocabulary),
        cmocka_unit_test(divergence_by_hand),
        cmocka_unit_test(extreme_logits),
        cmocka_unit_test(windows_too_short_have_no_score),
        cmocka_unit_test(scored_positions),
        cmocka_unit_test(the_same_sums_on_every_number_of_threads),
        cmocka_unit_test(windows_of_a_text),
    };
    return cmocka_run_group_tests_name("score", tests, NULL, NULL);
}
