/* Graphs of every AR length and form obey the rules; their ops are counted by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/verify.h"
#include "tiny_model.h"

static sw_error err;

static void build(sw_decoder *decoder, const tiny_model *tiny, uint32_t context, uint32_t ar,
                  sw_attention_form form, sw_head_form head) {
    const sw_graph_options options = {.name = "graph", .ar_len = ar, .attention = form, .head = head};
    sw_code code = sw_decoder_build(decoder, &tiny->model, context, &options, 1, &err);
    if (code != SW_OK) print_error("%s\n", err.message);
    assert_int_equal(code, SW_OK);
    code = sw_decoder_verify(decoder, &err);
    if (code != SW_OK) print_error("%s\n", err.message);
    assert_int_equal(code, SW_OK);
}

static void every_ar_length_and_form_obeys_the_rules(void **state) {
    (void)state;
    for (unsigned shape = 0; shape < 3; shape++) { /* grouped queries, one head a KV head, one KV head */
        sw_hparams h = tiny_hparams();
        if (shape == 1) h.n_kv_heads = h.n_heads;
        if (shape == 2) h.n_kv_heads = 1;
        tiny_model tiny;
        tiny_model_create(&tiny, &h);
        const uint32_t lengths[] = {1, 2, 7, 15, 16};
        for (unsigned i = 0; i < 5; i++)
            for (unsigned form = 0; form < SW_ATTENTION_FORM_COUNT; form++)
                for (unsigned head = 0; head < 4; head++) {
                    const sw_head_form heads[] = {SW_HEAD_LAST, SW_HEAD_ALL, SW_HEAD_TOP_K(1),
                                                  SW_HEAD_TOP_K(h.vocab)};
                    sw_decoder decoder;
                    build(&decoder, &tiny, 16, lengths[i], (sw_attention_form)form, heads[head]);
                    sw_decoder_free(&decoder);
                }
        tiny_model_free(&tiny);
    }
}

static void decode_graph_has_no_op_that_moves_nothing(void **state) {
    (void)state;
    const sw_hparams h = tiny_hparams();
    tiny_model tiny;
    tiny_model_create(&tiny, &h);
    sw_decoder decoder;
    build(&decoder, &tiny, 16, 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST);
    const sw_graph *g = decoder.graphs[0];
    assert_int_equal(sw_graph_count_ops(g, SW_OP_TRANSPOSE), 0);
    assert_int_equal(sw_graph_count_ops(g, SW_OP_CONVERT), 0);
    assert_int_equal(sw_graph_count_ops(g, SW_OP_GATHER), 0);
    assert_int_equal(sw_graph_count_ops(g, SW_OP_FULLY_CONNECTED), 7 * h.n_layers + 1);
    assert_int_equal(sw_graph_count_ops(g, SW_OP_RESHAPE),
                     5 * h.n_layers + 1); /* q, k, v, groups, context; logits */
    assert_int_equal(g->n_ops, 27 * h.n_layers + 3);
    sw_decoder_free(&decoder);
    tiny_model_free(&tiny);
}

static void graphs_share_constants_and_tied_head(void **state) {
    (void)state;
    const sw_hparams h = tiny_hparams();
    tiny_model tiny;
    tiny_model_create(&tiny, &h);
    const sw_graph_options options[] = {{"prefill_forward", 4, SW_ATTENTION_PER_KV_HEAD, SW_HEAD_LAST},
                                        {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST}};
    sw_decoder decoder;
    assert_int_equal(sw_decoder_build(&decoder, &tiny.model, 16, options, 2, &err), SW_OK);
    assert_int_equal(sw_decoder_verify(&decoder, &err), SW_OK);
    assert_int_equal(decoder.n_constants, 9 * h.n_layers + 2); /* + embedding, final norm */
    uint32_t a = sw_graph_find(decoder.graphs[0], "embedding"),
             b = sw_graph_find(decoder.graphs[1], "embedding");
    assert_true(a != UINT32_MAX && b != UINT32_MAX);
    assert_ptr_equal(decoder.graphs[0]->tensors[a], decoder.graphs[1]->tensors[b]);
    assert_ptr_equal(decoder.graphs[0]->tensors[a], decoder.embedding);
    /* A piece's range is one that the grouped form has too, so that one calibration serves both. */
    for (uint32_t i = 0; i < decoder.graphs[0]->n_tensors; i++) {
        const char *range = decoder.graphs[0]->tensors[i]->range;
        bool gathered = strcmp(range, "last") == 0;
        bool prefill_only =
            strstr(range, "_rows") != NULL || strstr(range, "_heads") != NULL; /* tied by movement */
        if (gathered || prefill_only) continue;
        bool found = false;
        for (uint32_t k = 0; k < decoder.graphs[1]->n_tensors; k++)
            found = found || strcmp(decoder.graphs[1]->tensors[k]->range, range) == 0;
        if (!found) print_error("%s\n", range);
        assert_true(found);
    }
    sw_decoder_free(&decoder);
    tiny_model_free(&tiny);
}

static void wrong_sizes_are_named(void **state) {
    (void)state;
    const sw_hparams h = tiny_hparams();
    tiny_model tiny;
    tiny_model_create(&tiny, &h);
    sw_decoder decoder;
    sw_graph_options options = {"g", 17, SW_ATTENTION_GROUPED, SW_HEAD_LAST};
    assert_int_equal(sw_decoder_build(&decoder, &tiny.model, 16, &options, 1, &err), SW_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "AR length 17"));
    options.ar_len = 0;
    assert_int_equal(sw_decoder_build(&decoder, &tiny.model, 16, &options, 1, &err), SW_INVALID_ARGUMENT);
    assert_int_equal(sw_decoder_build(&decoder, &tiny.model, 16, &options, 0, &err), SW_INVALID_ARGUMENT);
    tiny_model_free(&tiny);
}

/* Changes one thing in a good graph and expects the sentence to name it. */
typedef void mutation(sw_graph *g);

static void read_early(sw_graph *g) {
    sw_op first = g->ops[0];
    g->ops[0] = g->ops[1], g->ops[1] = first;
}
static void write_twice(sw_graph *g) {
    g->ops[2].outputs[0] = g->ops[1].outputs[0];
}
static void wrong_type(sw_graph *g) {
    sw_tensor *t = g->tensors[sw_graph_find(g, "layer_1.gate")];
    t->dtype = SW_U8;
    t->encoding = (sw_encoding){1, 0};
}
static void wrong_shape(sw_graph *g) {
    g->tensors[sw_graph_find(g, "layer_1.up")]->dims[1]++;
}
static void no_such_tensor(sw_graph *g) {
    g->ops[3].inputs[0] = 100000;
}
static void same_name(sw_graph *g) {
    g->tensors[3]->name = g->tensors[2]->name;
}
static void zero_dim(sw_graph *g) {
    g->tensors[sw_graph_find(g, "cos")]->dims[1] = 0;
}
static void huge_dims(sw_graph *g) {
    g->tensors[0]->dims[0] = g->tensors[0]->dims[1] = 1u << 31;
}
static void bad_rank(sw_graph *g) {
    g->tensors[0]->rank = 9;
}
static void bad_perm(sw_graph *g) {
    for (uint32_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].type == SW_OP_TRANSPOSE) g->ops[i].params.transpose.perm[3] = 0;
}
static void kv_type(sw_graph *g) {
    sw_tensor *t = g->tensors[sw_graph_find(g, "layer_0.k_cache")];
    t->dtype = SW_U8;
    t->encoding = (sw_encoding){1, 0};
}
static void no_mask(sw_graph *g) {
    g->tensors[sw_graph_find(g, "mask")]->name = "masque";
}

static void broken_graphs_are_refused(void **state) {
    (void)state;
    static const struct {
        mutation *mutate;
        const char *names;
    } cases[] = {{read_early, "before any op"},
                 {write_twice, "a value already"},
                 {wrong_type, "types"},
                 {wrong_shape, "layer_1.up"},
                 {no_such_tensor, "100000"},
                 {same_name, "two tensors"},
                 {zero_dim, "cos"},
                 {huge_dims, "hidden_in"},
                 {bad_rank, "rank 9"},
                 {bad_perm, "Transpose"},
                 {kv_type, "layer_0"},
                 {no_mask, "mask"}};
    const sw_hparams h = tiny_hparams();
    tiny_model tiny;
    tiny_model_create(&tiny, &h);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_decoder decoder;
        build(&decoder, &tiny, 16, 4, SW_ATTENTION_GROUPED, SW_HEAD_LAST);
        cases[i].mutate(decoder.graphs[0]);
        sw_code code = sw_decoder_verify(&decoder, &err);
        if (code != SW_BAD_DATA || strstr(err.message, cases[i].names) == NULL)
            print_error("case %zu: %s\n", i, code == SW_OK ? "accepted" : err.message);
        assert_int_equal(code, SW_BAD_DATA);
        assert_non_null(strstr(err.message, cases[i].names));
        sw_decoder_free(&decoder);
    }
    tiny_model_free(&tiny);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_ar_length_and_form_obeys_the_rules),
        cmocka_unit_test(decode_graph_has_no_op_that_moves_nothing),
        cmocka_unit_test(graphs_share_constants_and_tied_head),
        cmocka_unit_test(wrong_sizes_are_named),
        cmocka_unit_test(broken_graphs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
