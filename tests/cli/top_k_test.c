/* A head that hands out its N best logits against one that hands out all: the same values for the same
 * tokens, none of the best missing, and the same tokens drawn wherever N candidates suffice. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/tiny_setup.h"
#include "graph/json.h"
#include "runtime/session.h"
#include "text/sampler.h"

enum { CONTEXT = 48, N_IDS = 40, VOCAB = 96, N = 12 };

static tiny_setup tiny;

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

static void build(sw_decoder *d, const char *recipe_name, sw_head_form head) {
    const sw_graph_options kinds[] = {{"prefill_forward", 8, SW_ATTENTION_PER_KV_HEAD, head},
                                      {"kv_forward", 1, SW_ATTENTION_GROUPED, head}};
    sw_recipe recipe;
    OK(sw_decoder_build(d, &tiny.model.model, CONTEXT, kinds, 2, &err));
    if (recipe_name != NULL) OK(sw_recipe_find(&recipe, recipe_name, 0, &err));
    tiny_quantize(&tiny, d, recipe_name != NULL ? &recipe : NULL, NULL);
}

/* The same values; whatever is greater than the least candidate is one. */
static void check_candidates(const float *all, const float *best) {
    float least = INFINITY;
    uint32_t n = 0;
    for (int i = 0; i < VOCAB; i++) {
        if (best[i] == -INFINITY) continue;
        assert_true(best[i] == all[i]);
        least = fminf(least, best[i]);
        n++;
    }
    assert_int_equal(n, N);
    for (int i = 0; i < VOCAB; i++) assert_true(all[i] <= least || best[i] == all[i]);
}

static int32_t draw(const float *logits, sw_sampler_params params) {
    sw_sampler sampler;
    int32_t id;
    OK(sw_sampler_init(&sampler, &params, &err));
    OK(sw_sampler_next(&sampler, logits, NULL, VOCAB, 0, &id, &err));
    sw_sampler_deinit(&sampler);
    return id;
}

/* Greedy, and drawn from N candidates or fewer. */
static void check_draws(const float *all, const float *best) {
    assert_int_equal(draw(all, (sw_sampler_params){.top_p = 1}), draw(best, (sw_sampler_params){.top_p = 1}));
    for (int64_t k = 1; k <= N; k += N - 1)
        for (uint64_t seed = 0; seed < 20; seed++)
            for (int p = 0; p < 2; p++) {
                const sw_sampler_params params = {
                    .temperature = 0.8f, .top_k = k, .top_p = p == 0 ? 1 : 0.7f, .seed = seed};
                assert_int_equal(draw(all, params), draw(best, params));
            }
}

static void candidates_are_the_best_of_all(void **state) {
    (void)state;
    static const char *const recipes[] = {NULL, "16a8w", "8a8w", "f16"};
    for (size_t r = 0; r < 4; r++) {
        sw_decoder decoders[2];
        sw_session *sessions[2];
        float logits[2][VOCAB];
        for (int i = 0; i < 2; i++) {
            build(&decoders[i], recipes[r], i == 0 ? SW_HEAD_LAST : SW_HEAD_TOP_K(N));
            assert_int_equal(sw_decoder_candidates(&decoders[i]), i == 0 ? 0 : N);
            OK(sw_session_create(&sessions[i], &decoders[i], tiny.cpu, &err));
        }
        for (uint32_t at = 0, n = 19; at < N_IDS; at += n, n = 1) {
            for (int i = 0; i < 2; i++)
                OK(sw_session_feed(sessions[i], tiny.ids + at, n, logits[i], NULL, &err));
            check_candidates(logits[0], logits[1]);
            check_draws(logits[0], logits[1]);
        }
        for (int i = 0; i < 2; i++) {
            sw_session_destroy(sessions[i]);
            sw_decoder_free(&decoders[i]);
        }
    }
}

/* As text and back. */
static void a_dump_keeps_them(void **state) {
    (void)state;
    sw_decoder d, again;
    char *text = NULL;
    size_t size = 0;
    build(&d, "16a8w", SW_HEAD_TOP_K(N));
    FILE *stream = open_memstream(&text, &size);
    OK(sw_decoder_write_json(&d, stream, &err));
    fclose(stream);
    OK(sw_decoder_read_json(&again, "graph.json", text, size, NULL, &err));
    assert_int_equal(sw_decoder_candidates(&again), N);
    assert_int_equal(sw_graph_count_ops(again.graphs[1], SW_OP_TOP_K), 1);
    free(text);
    sw_decoder_free(&again);
    sw_decoder_free(&d);
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    const char *const names[] = {"tokens", "tokens", "TopK", "TopK"};
    for (int i = 0; i < 4; i++) {
        sw_decoder d;
        build(&d, "16a8w", SW_HEAD_TOP_K(N));
        sw_graph *g = d.graphs[1];
        sw_tensor *logits = g->tensors[sw_graph_find(g, "logits")],
                  *tokens = g->tensors[sw_graph_find(g, "tokens")];
        if (i == 0) logits->dims[0] = tokens->dims[0] = N, logits->dims[1] = tokens->dims[1] = 1;
        if (i == 1) tokens->kind = SW_TENSOR_NATIVE;
        if (i == 2) tokens->dims[1] = N - 1;
        if (i == 3) tokens->dtype = SW_U16, tokens->encoding = logits->encoding;
        assert_int_equal(sw_decoder_verify(&d, &err), SW_BAD_DATA);
        if (i > 0 && strstr(err.message, names[i]) == NULL) fail_msg("case %d: %s", i, err.message);
        sw_decoder_free(&d);
    }
    sw_decoder d;
    sw_graph_options kind = {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_TOP_K(VOCAB + 1)};
    assert_int_equal(sw_decoder_build(&d, &tiny.model.model, CONTEXT, &kind, 1, &err), SW_INVALID_ARGUMENT);
    kind.head = (sw_head_form){.all_rows = true, .top_k = 1};
    assert_int_equal(sw_decoder_build(&d, &tiny.model.model, CONTEXT, &kind, 1, &err), SW_INVALID_ARGUMENT);
}

static void texts(void **state) {
    (void)state;
    uint32_t k;
    char text[SW_TOP_K_BYTES];
    static const char *const bad[] = {"",        "topk",     "topk:", "topk:0", "topk:-1",        "topk:+1",
                                      "topk:1x", "topk: 40", "ALL",   "40",     "topk:4294967296"};
    assert_true(sw_top_k_from_text("all", &k) && k == 0);
    assert_true(sw_top_k_from_text("topk:40", &k) && k == 40);
    assert_string_equal(sw_top_k_text(40, text), "topk:40");
    assert_string_equal(sw_top_k_text(0, text), "all");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (sw_top_k_from_text(bad[i], &k)) fail_msg("`%s` is taken", bad[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates_are_the_best_of_all),
        cmocka_unit_test(a_dump_keeps_them),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
