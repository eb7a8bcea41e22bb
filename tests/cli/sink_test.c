/* The first token outside of the graphs: a session with a sink gives what a plain run over [token, text...]
 * gives behind it, in f32; prompts with and without the token, resets, and what calibration sees. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/cpu.h"
#include "device/border.h"
#include "graph/verify.h"
#include "quant/observe.h"
#include "quant/sink.h"
#include "runtime/session.h"
#include "tiny_model.h"

enum { VOCAB = 96, N = 12, CONTEXT = 20, MOST_SINK = 3 };

static tiny_model tiny;
static sw_device *cpu;
static sw_arena arena;
static int32_t ids[MOST_SINK + N]; /* the sink's, then the text's */
static sw_error err;

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static int set_up(void **state) {
    (void)state;
    sw_hparams h = tiny_hparams();
    tiny_model_create(&tiny, &h);
    for (uint32_t i = 0; i < MOST_SINK + N; i++) ids[i] = (int32_t)((i * 37 + 11) % VOCAB);
    OK(sw_cpu_device_create(&cpu, NULL, &err));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    sw_arena_free(&arena);
    cpu->ops->destroy(cpu);
    tiny_model_free(&tiny);
    return 0;
}

/* Graphs of those AR lengths, the second 0 for none; n_sink ids as a sink. */
static void build(sw_decoder *d, uint32_t context, uint32_t first, uint32_t second, sw_head_form head,
                  uint32_t n_sink) {
    const sw_graph_options options[2] = {{"first", first, SW_ATTENTION_GROUPED, head},
                                         {"second", second, SW_ATTENTION_PER_KV_HEAD, head}};
    OK(sw_decoder_build(d, &tiny.model, context, options, second > 0 ? 2 : 1, &err));
    if (n_sink == 0) return;
    sw_sink sink;
    OK(sw_sink_compute(&sink, &tiny.model, cpu, ids, n_sink, &arena, &err));
    OK(sw_sink_attach(d, &sink, &err));
    OK(sw_decoder_verify(d, &err));
}

/* Logits of every row of one plain run. */
static float *run_plain(const int32_t *from, uint32_t n) {
    static float logits[(MOST_SINK + N) * VOCAB];
    sw_decoder d;
    sw_session *s;
    build(&d, n, n, 0, SW_HEAD_ALL, 0);
    OK(sw_session_create(&s, &d, cpu, &err));
    OK(sw_session_feed_all(s, from, n, logits, &err));
    sw_session_destroy(s);
    sw_decoder_free(&d);
    return logits;
}

static void check(const float *got, const float *wanted, size_t rows, const char *what) {
    for (size_t i = 0; i < rows * VOCAB; i++)
        if (!(fabsf(got[i] - wanted[i]) <= 2e-5f))
            fail_msg("%s: logit %zu of row %zu is %g, wanted %g", what, i % VOCAB, i / VOCAB, (double)got[i],
                     (double)wanted[i]);
}

static void all_rows_equal_the_plain_run(void **state) {
    (void)state;
    float logits[N * VOCAB];
    for (uint32_t n_sink = 1; n_sink <= MOST_SINK; n_sink++) {
        sw_decoder d;
        sw_session *s;
        build(&d, n_sink + N, N, 0, SW_HEAD_ALL, n_sink);
        OK(sw_session_create(&s, &d, cpu, &err));
        assert_int_equal(sw_session_filled(s), n_sink);
        OK(sw_session_feed_all(s, ids + n_sink, N, logits, &err));
        check(logits, run_plain(ids, n_sink + N) + n_sink * VOCAB, N, "feed_all");
        sw_session_destroy(s);
        sw_decoder_free(&d);
    }
}

/* In chunks of 5 and single tokens: with the token, without it, after a reset, again and again. */
static void prompts_with_and_without_the_token(void **state) {
    (void)state;
    float logits[VOCAB], wanted[VOCAB], again[2 * VOCAB];
    memcpy(wanted, run_plain(ids, 1 + N) + N * VOCAB, sizeof wanted);
    const int32_t twice[2] = {ids[0], ids[0]};
    memcpy(again, run_plain(twice, 2), sizeof again);
    sw_decoder d;
    sw_session *s;
    build(&d, CONTEXT, 5, 1, SW_HEAD_LAST, 1);
    OK(sw_session_create(&s, &d, cpu, &err));
    for (int round = 0; round < 2; round++) {
        assert_true(sw_session_is_fresh(s));
        assert_int_equal(sw_session_known(s, ids, 1 + N), 1);
        OK(sw_session_feed(s, ids, 1 + N, logits, NULL, &err));
        assert_int_equal(sw_session_filled(s), 1 + N);
        check(logits, wanted, 1, "with the token");
        assert_false(sw_session_is_fresh(s));
        assert_int_equal(sw_session_known(s, ids, 1 + N), 0); /* a turn that begins with it again */

        sw_session_reset(s);
        assert_int_equal(sw_session_filled(s), 1);
        assert_int_equal(sw_session_known(s, ids + 1, N), 0);
        OK(sw_session_feed(s, ids + 1, N, logits, NULL, &err));
        assert_int_equal(sw_session_filled(s), 1 + N);
        check(logits, wanted, 1, "without the token");

        /* The token alone: its logits are wanted, so it goes behind itself. */
        sw_session_reset(s);
        OK(sw_session_feed(s, ids, 1, logits, NULL, &err));
        assert_int_equal(sw_session_filled(s), 2);
        check(logits, again + VOCAB, 1, "the token alone");
        sw_session_reset(s);
    }
    /* A context that the text fills to the last position, and one token more. */
    int32_t full[CONTEXT + 1];
    for (int i = 0; i <= CONTEXT; i++) full[i] = ids[i % N];
    OK(sw_session_feed(s, full, CONTEXT, logits, NULL, &err));
    assert_int_equal(sw_session_filled(s), CONTEXT);
    sw_session_reset(s);
    assert_int_equal(sw_session_feed(s, full, CONTEXT + 1, logits, NULL, &err), SW_INVALID_ARGUMENT);
    assert_int_equal(sw_session_filled(s), 1);
    sw_session_destroy(s);
    sw_decoder_free(&d);
}

/* What stands at position 0 is in no range: the ranges of a run behind the sink are those of the plain run's
 * other rows, except that K and V hold the sink's own. */
static void calibration_runs_behind_it(void **state) {
    (void)state;
    sw_sink sink;
    sw_ranges *with, *repeated, *plain;
    OK(sw_sink_compute(&sink, &tiny.model, cpu, ids, 1, &arena, &err));
    const sw_window behind = {ids + 1, N}, whole = {ids, 1 + N};
    OK(sw_calibrate(&with, &tiny.model, &sink, NULL, cpu, &behind, 1, &err));
    OK(sw_calibrate(&repeated, &tiny.model, &sink, NULL, cpu, &whole, 1,
                    &err)); /* the token isn't run again */
    OK(sw_calibrate(&plain, &tiny.model, NULL, NULL, cpu, &whole, 1, &err));
    unsigned narrower = 0;
    static const char *const names[] = {"layer_0.residual", "layer_1.ffn_product", "layer_1.k_new",
                                        "layer_1.v_new",    "layer_1.gate",        "logits"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const sw_range *a = sw_ranges_find(with, names[i]), *b = sw_ranges_find(repeated, names[i]),
                       *c = sw_ranges_find(plain, names[i]);
        assert_true(a != NULL && b != NULL && c != NULL);
        assert_true(a->min == b->min && a->max == b->max);
        assert_true(a->min > c->min - 1e-4f && a->max < c->max + 1e-4f);
        narrower += a->min > c->min + 1e-3f || a->max < c->max - 1e-3f;
        if (strstr(names[i], "_new") != NULL)
            assert_true(fabsf(a->min - c->min) < 1e-4f && fabsf(a->max - c->max) < 1e-4f);
    }
    assert_true(narrower > 0);
    sw_ranges_free(with), sw_ranges_free(repeated), sw_ranges_free(plain);
}

/* Quantized, the cache's first row is the float one rounded in K's and V's encodings. */
static void rounded_into_the_cache(void **state) {
    (void)state;
    sw_sink sink;
    sw_ranges *ranges;
    sw_recipe recipe;
    sw_decoder d;
    const sw_graph_options options = {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST};
    const sw_window window = {ids + 1, N};
    OK(sw_recipe_find(&recipe, "8a8w", 0, &err));
    OK(sw_sink_compute(&sink, &tiny.model, cpu, ids, 1, &arena, &err));
    OK(sw_calibrate(&ranges, &tiny.model, &sink, NULL, cpu, &window, 1, &err));
    OK(sw_decoder_build(&d, &tiny.model, CONTEXT, &options, 1, &err));
    OK(sw_quantize_types(&d, &recipe, ranges, &err));
    OK(sw_sink_attach(&d, &sink, &err));
    const sw_hparams *h = &tiny.model.hparams;
    size_t row = (size_t)h->n_kv_heads * h->head_dim;
    for (uint32_t slot = 0; slot < 2 * h->n_layers; slot++) {
        char name[SW_NAME_BYTES];
        sw_layer_name(name, slot / 2, slot % 2 ? "v_cache" : "k_cache");
        sw_encoding e = d.graphs[0]->tensors[sw_graph_find(d.graphs[0], name)]->encoding;
        for (size_t i = slot * row; i < (slot + 1) * row; i++) {
            float exact = ((const float *)sink.kv)[i];
            float got = e.scale * (float)(((const uint8_t *)d.sink.kv)[i] + e.offset);
            assert_true(fabsf(got - exact) <= 0.5001f * e.scale); /* the range holds it */
        }
    }
    sw_decoder_free(&d);
    sw_ranges_free(ranges);
}

static void a_wrong_sink_is_refused(void **state) {
    (void)state;
    sw_decoder d;
    sw_sink sink;
    int32_t wrong = VOCAB;
    assert_int_equal(sw_sink_compute(&sink, &tiny.model, cpu, &wrong, 1, &arena, &err), SW_INVALID_ARGUMENT);
    build(&d, 4, 3, 0, SW_HEAD_LAST, 1);
    d.sink.n_tokens = 2; /* AR 3 doesn't fit behind it */
    assert_int_equal(sw_decoder_verify(&d, &err), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "at most 1"));
    d.sink.n_tokens = 1, d.sink.ids = &wrong;
    assert_int_equal(sw_decoder_verify(&d, &err), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "96"));
    sw_decoder_free(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_rows_equal_the_plain_run), cmocka_unit_test(prompts_with_and_without_the_token),
        cmocka_unit_test(calibration_runs_behind_it),   cmocka_unit_test(rounded_into_the_cache),
        cmocka_unit_test(a_wrong_sink_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
