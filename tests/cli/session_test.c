/* Sessions: whatever the AR lengths, the form of attention, the padding and the order of calls, the logits
 * are those of one run over all tokens, and the KV cache holds what the graphs gave out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/spy_device.h"
#include "cli/tiny_setup.h"
#include "runtime/session.h"

enum { LONGEST = 64, VOCAB = 96 };

static tiny_setup tiny;
static spy_device spy;

static int set_up(void **state) {
    (void)state;
    sw_hparams h = tiny_hparams();
    tiny_setup_create(&tiny, &h);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tiny_setup_free(&tiny);
    return 0;
}

/* Graphs of these AR lengths (0: none); recipe NULL: f32. */
static void build(sw_decoder *d, uint32_t context, const uint32_t ar[3], sw_attention_form form,
                  sw_head_form head, const sw_recipe *recipe) {
    static const char *const names[] = {"prefill_forward", "kv_forward", "middle_forward"};
    sw_graph_options options[3];
    uint32_t n = 0;
    for (; n < 3 && ar[n] != 0; n++) options[n] = (sw_graph_options){names[n], ar[n], form, head};
    OK(sw_decoder_build(d, &tiny.model.model, context, options, n, &err));
    tiny_quantize(&tiny, d, recipe, NULL);
}

/* One run over tiny.ids[0..n): logits of every row. */
static void run_whole(uint32_t n, const sw_recipe *recipe, float *wanted) {
    sw_decoder d;
    sw_session *s;
    build(&d, n, (uint32_t[3]){n}, SW_ATTENTION_GROUPED, SW_HEAD_ALL, recipe);
    OK(sw_session_create(&s, &d, tiny.cpu, &err));
    OK(sw_session_feed_all(s, tiny.ids, n, wanted, &err));
    sw_session_destroy(s);
    sw_decoder_free(&d);
}

static float worst_difference(const float *a, const float *b) {
    float worst = 0;
    for (size_t i = 0; i < VOCAB; i++) worst = fmaxf(worst, fabsf(a[i] - b[i]));
    return worst;
}

static void check_logits(const float *got, const float *wanted, float bound, const char *what, uint32_t a,
                         uint32_t b) {
    float worst = worst_difference(got, wanted);
    if (!(worst <= bound)) fail_msg("%s, AR %u, %u tokens: logits differ by %g", what, a, b, (double)worst);
}

static void feed(sw_session *s, const int32_t *from, uint32_t n, float *logits) {
    spy.left = n;
    OK(sw_session_feed(s, from, n, logits, NULL, &err));
}

/* A text of n tokens at once, for the n around the chunk's edges up to a full context. */
static void check_ar_length(uint32_t context, uint32_t ar, sw_attention_form form, const sw_recipe *recipe,
                            const float *wanted, float bound, const char *what) {
    sw_decoder d;
    sw_session *s;
    float logits[VOCAB];
    const uint32_t counts[] = {1, 2, ar - 1, ar, ar + 1, 2 * ar + 1, context - 1, context};
    build(&d, context, ar > 1 ? (uint32_t[3]){ar, 1} : (uint32_t[3]){1}, form, SW_HEAD_LAST, recipe);
    spy_create(&spy, tiny.cpu);
    OK(sw_session_create(&s, &d, &spy.base, &err));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        uint32_t n = counts[i];
        if (n == 0 || n > context) continue;
        sw_session_reset(s);
        spy.filled = 0;
        feed(s, tiny.ids, n, logits);
        assert_int_equal(sw_session_filled(s), n);
        check_logits(logits, wanted + (n - 1) * VOCAB, bound, what, ar, n);
    }
    assert_false(spy.differs);
    sw_session_destroy(s);
    sw_decoder_free(&d);
}

static const uint32_t ar_lengths[] = {1, 2, 3, 7, 8, 15, 16};

static void check_all(const char *recipe_name, unsigned kv_bits, float bound) {
    static float wanted[24 * VOCAB];
    sw_recipe recipe, *r = recipe_name != NULL ? &recipe : NULL;
    if (r != NULL) OK(sw_recipe_find(r, recipe_name, kv_bits, &err));
    for (uint32_t context = 16; context <= 24; context += 8) {
        run_whole(context, r, wanted);
        for (size_t i = 0; i < sizeof ar_lengths / sizeof *ar_lengths; i++)
            for (unsigned form = 0; form < SW_ATTENTION_FORM_COUNT; form++)
                check_ar_length(context, ar_lengths[i], (sw_attention_form)form, r, wanted, bound,
                                r != NULL ? recipe_name : "f32");
    }
}

static void every_ar_length_gives_the_same_f32(void **state) {
    (void)state;
    check_all(NULL, 0, 1e-4f);
}

/* The same ops on the same rows: the same integers. */
static void every_ar_length_gives_the_same_16a8w(void **state) {
    (void)state;
    check_all("16a8w", 8, 0);
}

static void every_ar_length_gives_the_same_16a8w_kv16(void **state) {
    (void)state;
    check_all("16a8w", 16, 0);
}

static void every_ar_length_gives_the_same_8a8w(void **state) {
    (void)state;
    check_all("8a8w", 8, 0);
}

static void every_ar_length_gives_the_same_f16(void **state) {
    (void)state;
    check_all("f16", 0, 0.02f); /* logits of about 4: a few steps of f16 */
}

/* 8 -> 1 -> 8 -> 1 -> 8, with a padded chunk on the way; K and V of every position stay as they were
 * written, at each width of the cache. */
static void switching_keeps_the_cache(void **state) {
    (void)state;
    static const struct {
        const char *recipe;
        unsigned kv_bits;
        float bound;
    } forms[] = {{NULL, 0, 1e-4f}, {"8a8w", 8, 0}, {"16a8w", 8, 0}, {"16a8w", 16, 0}, {"f16", 16, 0.02f}};
    static const uint32_t runs[] = {8, 1, 1, 8, 5, 1, 8, 1};
    static float wanted[LONGEST * VOCAB];
    float logits[VOCAB];
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        sw_recipe recipe, *r = forms[f].recipe != NULL ? &recipe : NULL;
        if (r != NULL) OK(sw_recipe_find(r, forms[f].recipe, forms[f].kv_bits, &err));
        run_whole(40, r, wanted);
        sw_decoder d;
        sw_session *s;
        build(&d, 40, (uint32_t[3]){8, 1}, SW_ATTENTION_GROUPED, SW_HEAD_LAST, r);
        spy_create(&spy, tiny.cpu);
        OK(sw_session_create(&s, &d, &spy.base, &err));
        uint32_t at = 0;
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
            feed(s, tiny.ids + at, runs[i], logits);
            at += runs[i];
            check_logits(logits, wanted + (at - 1) * VOCAB, forms[f].bound,
                         r != NULL ? forms[f].recipe : "f32", 8, at);
            assert_int_equal(spy.called[i], runs[i] > 1 ? 8 : 1);
        }
        assert_int_equal(spy.n_calls, sizeof runs / sizeof *runs);
        assert_false(spy.differs);
        /* Rows: 2 layers, K and V, 2 heads, each position filled before each call. */
        uint32_t rows = 0;
        for (size_t i = 0, filled = 0; i < sizeof runs / sizeof *runs; filled += runs[i++])
            rows += 8 * (uint32_t)filled;
        assert_int_equal(spy.n_compared, rows);
        sw_session_destroy(s);
        sw_decoder_free(&d);
    }
}

/* K and V that pieces wrote are those of one run over all tokens: no position is off by one. */
static void cache_rows_equal_one_run(void **state) {
    (void)state;
    static spy_device whole;
    sw_decoder one, d;
    sw_session *s;
    float logits[VOCAB];
    sw_recipe recipe;
    OK(sw_recipe_find(&recipe, "16a8w", 8, &err));
    build(&one, 24, (uint32_t[3]){24}, SW_ATTENTION_GROUPED, SW_HEAD_LAST, &recipe);
    spy_create(&whole, tiny.cpu);
    OK(sw_session_create(&s, &one, &whole.base, &err));
    whole.left = 24;
    OK(sw_session_feed(s, tiny.ids, 24, logits, NULL, &err));
    sw_session_destroy(s);
    build(&d, 24, (uint32_t[3]){7, 1}, SW_ATTENTION_PER_KV_HEAD, SW_HEAD_LAST, &recipe);
    spy_create(&spy, tiny.cpu);
    OK(sw_session_create(&s, &d, &spy.base, &err));
    feed(s, tiny.ids, 10, logits);
    feed(s, tiny.ids + 10, 1, logits);
    feed(s, tiny.ids + 11, 13, logits);
    assert_int_equal(spy.filled, 24);
    for (unsigned slot = 0; slot < 4; slot++)
        for (unsigned h = 0; h < 2; h++)
            for (unsigned p = 0; p < 24; p++)
                assert_memory_equal(spy.rows[slot][h][p], whole.rows[slot][h][p], 8);
    sw_session_destroy(s);
    sw_decoder_free(&d);
    sw_decoder_free(&one);
}

/* A chunk needs AR-length free positions; where they are missing, single tokens go on to the end. */
static void nearly_full_goes_token_by_token(void **state) {
    (void)state;
    static float wanted[16 * VOCAB];
    static const uint32_t calls[] = {8, 8, 1, 1, 1};
    float logits[VOCAB];
    sw_decoder d;
    sw_session *s;
    run_whole(16, NULL, wanted);
    build(&d, 16, (uint32_t[3]){8, 1}, SW_ATTENTION_GROUPED, SW_HEAD_LAST, NULL);
    spy_create(&spy, tiny.cpu);
    OK(sw_session_create(&s, &d, &spy.base, &err));
    feed(s, tiny.ids, 13, logits);
    check_logits(logits, wanted + 12 * VOCAB, 1e-4f, "f32", 8, 13);
    feed(s, tiny.ids + 13, 3, logits); /* 13 + 8 > 16 */
    check_logits(logits, wanted + 15 * VOCAB, 1e-4f, "f32", 1, 16);
    assert_int_equal(spy.n_calls, 5);
    for (unsigned i = 0; i < 5; i++) assert_int_equal(spy.called[i], calls[i]);

    /* Full: refused with the numbers, and nothing is fed. */
    assert_int_equal(sw_session_feed(s, tiny.ids, 1, logits, NULL, &err), SW_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "16"));
    assert_int_equal(sw_session_filled(s), 16);
    assert_int_equal(spy.n_calls, 5);
    sw_session_reset(s);
    spy.filled = 0;
    assert_int_equal(sw_session_feed(s, tiny.ids, 17, logits, NULL, &err), SW_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "17"));
    assert_non_null(strstr(err.message, "16"));
    assert_int_equal(sw_session_filled(s), 0);
    assert_int_equal(spy.n_calls, 5);

    /* After a reset the old cache has no part in the logits. */
    feed(s, tiny.ids + 3, 1, logits);
    float again[VOCAB];
    sw_session *fresh;
    OK(sw_session_create(&fresh, &d, tiny.cpu, &err));
    OK(sw_session_feed(fresh, tiny.ids + 3, 1, again, NULL, &err));
    assert_memory_equal(logits, again, sizeof logits);
    sw_session_destroy(fresh);
    sw_session_destroy(s);
    sw_decoder_free(&d);
}

/* Logits of ids in a session, and of two single tokens behind them. */
static void three_logits(sw_session *s, const int32_t *ids, uint32_t n, float out[3][VOCAB]) {
    OK(sw_session_feed(s, ids, n, out[0], NULL, &err));
    for (uint32_t i = 1; i < 3; i++) OK(sw_session_feed(s, ids + n + i, 1, out[i], NULL, &err));
}

/* A mask that blocks too little, as one of 8 bits can for scores that calibration hasn't seen: rows of
 * padding and of the cache's empty positions are seen a little, and are to be the same whatever was there
 * before, and whether or not the device may leave rows out. */
static void a_weak_mask_shows_nothing_of_the_past(void **state) {
    (void)state;
    static const char *const recipes[] = {"8a8w", "16a8w"};
    static float first[3][VOCAB], again[3][VOCAB], all_rows[3][VOCAB];
    for (size_t r = 0; r < 2; r++)
        for (uint32_t n = 1; n <= 20; n++)
            for (unsigned strength = 0; strength < 3; strength++) {
                sw_decoder d;
                sw_session *s;
                sw_recipe recipe;
                OK(sw_recipe_find(&recipe, recipes[r], 8, &err));
                build(&d, 32, (uint32_t[3]){8, 1}, SW_ATTENTION_GROUPED, SW_HEAD_LAST, &recipe);
                for (uint32_t g = 0; g < d.n_graphs; g++)
                    d.graphs[g]->tensors[sw_graph_find(d.graphs[g], "mask")]->encoding.scale *=
                        (const float[]){1, 0.05f, 0.01f}[strength];
                OK(sw_session_create(&s, &d, tiny.cpu, &err));
                three_logits(s, tiny.ids, n, first);
                sw_session_reset(s);
                three_logits(s, tiny.ids + 30, 23, again);
                sw_session_reset(s);
                three_logits(s, tiny.ids, n, again);
                sw_session_destroy(s);
                if (memcmp(first, again, sizeof first) != 0)
                    fail_msg("%s, %u tokens, mask %u: not the same again", recipes[r], n, strength);

                spy_create(&spy, tiny.cpu);
                sw_device_ops ops = *spy.base.ops;
                ops.limit_tokens = NULL;
                spy.base.ops = &ops;
                OK(sw_session_create(&s, &d, &spy.base, &err));
                three_logits(s, tiny.ids, n, all_rows);
                sw_session_destroy(s);
                if (memcmp(first, all_rows, sizeof first) != 0)
                    fail_msg("%s, %u tokens, mask %u: not those of all rows", recipes[r], n, strength);
                sw_decoder_free(&d);
            }
}

/* Three turns of 1 to 3 chunks, a reply of single tokens behind each: 27 chats, each as one run. */
static void three_turns_equal_one_run(void **state) {
    (void)state;
    static const uint32_t turn_tokens[3] = {5, 13,
                                            16}; /* 1 chunk, 2, and 2 whole ones: 3 with the rest below */
    static const uint32_t replies[3] = {2, 1, 3};
    static float wanted[LONGEST * VOCAB];
    float logits[VOCAB];
    sw_decoder d;
    sw_session *s;
    sw_recipe recipe;
    OK(sw_recipe_find(&recipe, "16a8w", 8, &err));
    run_whole(LONGEST, &recipe, wanted);
    build(&d, LONGEST, (uint32_t[3]){8, 1}, SW_ATTENTION_GROUPED, SW_HEAD_LAST, &recipe);
    spy_create(&spy, tiny.cpu);
    OK(sw_session_create(&s, &d, &spy.base, &err));
    for (unsigned chat = 0; chat < 27; chat++) {
        unsigned lengths[3] = {chat % 3, chat / 3 % 3, chat / 9};
        uint32_t at = 0;
        sw_session_reset(s);
        spy.filled = 0;
        for (unsigned turn = 0; turn < 3; turn++) {
            uint32_t n = turn_tokens[lengths[turn]] + (lengths[turn] == 2); /* 17: 8 + 8 + 1 */
            feed(s, tiny.ids + at, n, logits);
            at += n;
            check_logits(logits, wanted + (at - 1) * VOCAB, 0, "prompt", 8, at);
            for (unsigned i = 0; i < replies[turn]; i++) {
                feed(s, tiny.ids + at, 1, logits);
                at++;
                check_logits(logits, wanted + (at - 1) * VOCAB, 0, "reply", 1, at);
            }
        }
    }
    assert_false(spy.differs);
    sw_session_destroy(s);
    sw_decoder_free(&d);
}

/* Of three graphs the largest that fits takes a run, the smallest single tokens. */
static void three_graphs(void **state) {
    (void)state;
    static float wanted[24 * VOCAB];
    static const uint32_t calls[] = {16, 4, 1, 1};
    float logits[VOCAB];
    sw_decoder d;
    sw_session *s;
    run_whole(24, NULL, wanted);
    build(&d, 24, (uint32_t[3]){16, 1, 4}, SW_ATTENTION_GROUPED, SW_HEAD_LAST, NULL);
    spy_create(&spy, tiny.cpu);
    OK(sw_session_create(&s, &d, &spy.base, &err));
    feed(s, tiny.ids, 20, logits); /* 16, then 4 of 24 - 16 = 8 */
    check_logits(logits, wanted + 19 * VOCAB, 1e-4f, "f32", 16, 20);
    feed(s, tiny.ids + 20, 1, logits);
    feed(s, tiny.ids + 21, 1, logits);
    check_logits(logits, wanted + 21 * VOCAB, 1e-4f, "f32", 1, 22);
    assert_int_equal(spy.n_calls, 4);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(spy.called[i], calls[i]);
    sw_session_destroy(s);
    sw_decoder_free(&d);
}

static void wrong_ids_feed_nothing(void **state) {
    (void)state;
    float logits[2 * VOCAB];
    sw_decoder d;
    sw_session *s;
    build(&d, 16, (uint32_t[3]){8, 1}, SW_ATTENTION_GROUPED, SW_HEAD_LAST, NULL);
    OK(sw_session_create(&s, &d, tiny.cpu, &err));
    static const int32_t wrong[][2] = {{0, -1}, {0, VOCAB}, {INT32_MIN, 0}, {INT32_MAX, 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(sw_session_feed(s, wrong[i], 2, logits, NULL, &err), SW_INVALID_ARGUMENT);
        char number[16];
        snprintf(number, sizeof number, "%d", wrong[i][wrong[i][0] == 0]);
        if (strstr(err.message, number) == NULL) fail_msg("`%s` doesn't name %s", err.message, number);
    }
    assert_int_equal(sw_session_feed(s, tiny.ids, 0, logits, NULL, &err), SW_INVALID_ARGUMENT);
    assert_int_equal(sw_session_feed(s, tiny.ids, SIZE_MAX, logits, NULL, &err), SW_INVALID_ARGUMENT);
    assert_int_equal(sw_session_feed_all(s, tiny.ids, 2, logits, &err),
                     SW_INVALID_ARGUMENT); /* its head is LAST */
    assert_int_equal(sw_session_filled(s), 0);
    sw_session_destroy(s);
    sw_decoder_free(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_ar_length_gives_the_same_f32),
        cmocka_unit_test(every_ar_length_gives_the_same_16a8w),
        cmocka_unit_test(every_ar_length_gives_the_same_16a8w_kv16),
        cmocka_unit_test(every_ar_length_gives_the_same_8a8w),
        cmocka_unit_test(every_ar_length_gives_the_same_f16),
        cmocka_unit_test(switching_keeps_the_cache),
        cmocka_unit_test(cache_rows_equal_one_run),
        cmocka_unit_test(nearly_full_goes_token_by_token),
        cmocka_unit_test(a_weak_mask_shows_nothing_of_the_past),
        cmocka_unit_test(three_turns_equal_one_run),
        cmocka_unit_test(three_graphs),
        cmocka_unit_test(wrong_ids_feed_nothing),
    };
    return cmocka_run_group_tests_name("session", tests, set_up, tear_down);
}
