/* A decoder in shards: its graphs hold the ops of the uncut ones and no other, what is handed over has one
 * encoding, and a session over them gives the uncut decoder's logits bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/tiny_setup.h"
#include "graph/json.h"
#include "runtime/session.h"

enum { LAYERS = 5, N_IDS = 40, VOCAB = 96, CONTEXT = 48, PREFILL = 16 };

static tiny_setup tiny;

static int set_up(void **state) {
    (void)state;
    sw_hparams h = tiny_hparams();
    h.n_layers = LAYERS;
    tiny_setup_create(&tiny, &h);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tiny_setup_free(&tiny);
    return 0;
}

static void build(sw_decoder *d, uint32_t n_shards, const char *recipe_name) {
    const sw_graph_options kinds[] = {{"prefill_forward", PREFILL, SW_ATTENTION_GROUPED, SW_HEAD_LAST},
                                      {"kv_forward", 1, SW_ATTENTION_PER_KV_HEAD, SW_HEAD_LAST}};
    sw_recipe recipe;
    OK(sw_decoder_build_shards(d, &tiny.model.model, CONTEXT, kinds, 2, n_shards, &err));
    if (recipe_name != NULL) OK(sw_recipe_find(&recipe, recipe_name, recipe_name[0] == 'f' ? 16 : 8, &err));
    tiny_quantize(&tiny, d, recipe_name != NULL ? &recipe : NULL, NULL);
}

/* Logits behind a prompt of two chunks, and behind each of a few tokens after it. */
enum { STEPS = 6 };
static void run(const sw_decoder *d, float logits[STEPS][VOCAB]) {
    sw_session *s;
    OK(sw_session_create(&s, d, tiny.cpu, &err));
    OK(sw_session_feed(s, tiny.ids, 25, logits[0], NULL, &err));
    for (uint32_t i = 1; i < STEPS; i++) OK(sw_session_feed(s, tiny.ids + 24 + i, 1, logits[i], NULL, &err));
    sw_session_destroy(s);
}

static void logits_are_those_of_one_shard(void **state) {
    (void)state;
    static const char *const recipes[] = {NULL, "8a8w", "16a8w", "16a4w", "f16", "f16a8w"};
    static float want[STEPS][VOCAB], got[STEPS][VOCAB];
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        sw_decoder whole, cut;
        build(&whole, 1, recipes[r]);
        run(&whole, want);
        for (uint32_t n = 2; n <= LAYERS; n++) {
            build(&cut, n, recipes[r]);
            assert_int_equal(cut.n_graphs, 2 * n);
            run(&cut, got);
            if (memcmp(want, got, sizeof want) != 0)
                fail_msg("%s: %u shards give other logits than one", recipes[r] ? recipes[r] : "f32", n);
            sw_decoder_free(&cut);
        }
        sw_decoder_free(&whole);
    }
}

/* So there is no Convert at a cut. */
static void ops_are_those_of_one_shard(void **state) {
    (void)state;
    static const char *const recipes[] = {"8a8w", "16a8w", "f16a8w"};
    for (size_t r = 0; r < 3; r++) {
        sw_decoder whole, cut;
        build(&whole, 1, recipes[r]);
        for (uint32_t n = 2; n <= LAYERS; n++) {
            build(&cut, n, recipes[r]);
            for (uint32_t kind = 0; kind < 2; kind++)
                for (unsigned op = 0; op < SW_OP_COUNT; op++) {
                    uint32_t sum = 0;
                    for (uint32_t i = 0; i < n; i++)
                        sum += sw_graph_count_ops(sw_decoder_graph(&cut, i, kind), (sw_op_type)op);
                    assert_int_equal(sum, sw_graph_count_ops(whole.graphs[kind], (sw_op_type)op));
                }
            sw_decoder_free(&cut);
        }
        sw_decoder_free(&whole);
    }
}

static sw_tensor *tensor(const sw_graph *graph, const char *name) {
    uint32_t i = sw_graph_find(graph, name);
    assert_int_not_equal(i, UINT32_MAX);
    return graph->tensors[i];
}

/* 5 layers in 3 shards: 0-1, 2-3, 4. */
static void what_is_handed_over_is_checked(void **state) {
    (void)state;
    sw_decoder d;
    build(&d, 3, "16a8w");
    sw_tensor *out = tensor(sw_decoder_graph(&d, 0, 1), "layer_1.residual"),
              *in = tensor(sw_decoder_graph(&d, 1, 1), "layer_1.residual");
    assert_int_equal(out->kind, SW_TENSOR_OUTPUT);
    assert_int_equal(in->kind, SW_TENSOR_INPUT);
    assert_memory_equal(&in->encoding, &out->encoding, sizeof in->encoding);
    assert_int_equal(sw_graph_find(sw_decoder_graph(&d, 1, 0), "hidden_in"), UINT32_MAX);
    assert_int_equal(sw_graph_find(sw_decoder_graph(&d, 1, 0), "logits"), UINT32_MAX);
    assert_int_equal(sw_graph_find(sw_decoder_graph(&d, 1, 0), "last"), UINT32_MAX);
    tensor(sw_decoder_graph(&d, 2, 0), "last");

    in->encoding.offset++;
    assert_int_equal(sw_decoder_verify(&d, &err), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "kv_forward: `layer_1.residual` leaves shard 0 as u16"));
    assert_non_null(strstr(err.message, "but shard 1 reads it as"));
    in->encoding.offset--;
    in->dims[1] = 16;
    assert_int_equal(sw_decoder_verify(&d, &err), SW_BAD_DATA);
    in->dims[1] = out->dims[1];
    OK(sw_decoder_verify(&d, &err));
    d.n_shards = 2; /* the same graphs, counted otherwise */
    assert_int_equal(sw_decoder_verify(&d, &err), SW_BAD_DATA);
    d.n_shards = 3;
    sw_decoder_free(&d);
}

static void shards_come_back_from_json(void **state) {
    (void)state;
    sw_decoder d, again;
    char *text = NULL;
    size_t size;
    build(&d, 3, "16a8w");
    FILE *stream = open_memstream(&text, &size);
    OK(sw_decoder_write_json(&d, stream, &err));
    fclose(stream);
    OK(sw_decoder_read_json(&again, "g.json", text, size, NULL, &err));
    assert_int_equal(again.n_shards, 3);
    assert_int_equal(again.n_graphs, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(again.graphs[i]->shard, i / 2);
        assert_int_equal(again.graphs[i]->begin_layer, d.graphs[i]->begin_layer);
        assert_int_equal(again.graphs[i]->end_layer, d.graphs[i]->end_layer);
        assert_int_equal(again.graphs[i]->n_ops, d.graphs[i]->n_ops);
    }
    OK(sw_decoder_verify(&again, &err));
    sw_decoder_free(&again);
    static const char *const bad[][2] = {
        {"\"shards\": 6", "$.shards: is 6, wanted 1 to 5"},
        {"\"shards\": 0", "$.shards: is 0, wanted 1 to 5"},
        {"\"shards\": 4", "$.graphs: has 6 graphs, which is no multiple of the 4 shards"},
        {"\"shards\": 2", "$.graphs[2]: two graphs are named `prefill_forward`"},
        {"\"shards\": 1", "$.graphs: has 6 elements, wanted 1 to 4"},
    };
    char *at = strstr(text, "\"shards\": 3");
    assert_non_null(at);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(at, bad[i][0], strlen(bad[i][0]));
        if (sw_decoder_read_json(&again, "g.json", text, size, NULL, &err) == SW_OK) {
            if (sw_decoder_verify(&again, &err) == SW_OK) fail_msg("%s is taken", bad[i][0]);
            sw_decoder_free(&again);
        }
        if (strstr(err.message, bad[i][1]) == NULL) fail_msg("%s: %s", bad[i][0], err.message);
    }
    free(text);
    sw_decoder_free(&d);
}

static void numbers_of_shards_have_limits(void **state) {
    (void)state;
    const sw_graph_options kind = {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST};
    sw_decoder d;
    static const uint32_t wrong[] = {0, LAYERS + 1, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(sw_decoder_build_shards(&d, &tiny.model.model, CONTEXT, &kind, 1, wrong[i], &err),
                         SW_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "shards, wanted 1 to 5: the model has 5 layers"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_one_shard), cmocka_unit_test(ops_are_those_of_one_shard),
        cmocka_unit_test(what_is_handed_over_is_checked), cmocka_unit_test(shards_come_back_from_json),
        cmocka_unit_test(numbers_of_shards_have_limits)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
