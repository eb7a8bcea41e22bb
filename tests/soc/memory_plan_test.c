/* The plan's sums on graphs that were made by hand, and the limit to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "soc/memory_plan.h"
#include "tiny_model.h"

static sw_error err;

static uint32_t add(sw_graph *g, sw_tensor *t, sw_tensor_kind kind, uint32_t elements) {
    *t = (sw_tensor){.name = "t", .range = "t", .kind = kind, .dtype = SW_U8, .rank = 1, .dims = {elements}};
    uint32_t i = sw_graph_add_tensor(g, t);
    assert_int_not_equal(i, UINT32_MAX);
    return i;
}

static void op(sw_graph *g, sw_op_type type, const char *name, uint32_t a, uint32_t b, uint32_t out) {
    sw_op o = {.type = type,
               .name = name,
               .n_inputs = b != UINT32_MAX ? 2 : 1,
               .n_outputs = 1,
               .inputs = {a, b != UINT32_MAX ? b : 0},
               .outputs = {out}};
    assert_true(sw_graph_add_op(g, &o));
}

/* x (not counted) -> a 100 -> b 40, c 60 = reshape of a, d 10 = b + c, e 5 = d: alive after each op: 100;
 * 140; 140 (c is a); 150; then a and b are gone: 10 + 5. */
static void peak_by_hand(void **state) {
    (void)state;
    sw_arena arena = SW_ARENA_EMPTY;
    sw_graph *g = sw_graph_create(&arena, "graph", 1, 1);
    sw_tensor t[6];
    uint32_t x = add(g, &t[0], SW_TENSOR_INPUT, 1000), a = add(g, &t[1], SW_TENSOR_NATIVE, 100),
             b = add(g, &t[2], SW_TENSOR_NATIVE, 40), c = add(g, &t[3], SW_TENSOR_NATIVE, 100),
             d = add(g, &t[4], SW_TENSOR_NATIVE, 10), e = add(g, &t[5], SW_TENSOR_OUTPUT, 5);
    op(g, SW_OP_SIGMOID, "a", x, UINT32_MAX, a);
    op(g, SW_OP_SIGMOID, "b", a, UINT32_MAX, b);
    op(g, SW_OP_RESHAPE, "c", a, UINT32_MAX, c);
    op(g, SW_OP_ADD, "d", b, c, d);
    op(g, SW_OP_SIGMOID, "e", d, UINT32_MAX, e);
    uint64_t bytes;
    const char *where;
    assert_int_equal(sw_activation_peak(g, &bytes, &where, &err), SW_OK);
    assert_int_equal(bytes, 150);
    assert_string_equal(where, "d");
    sw_arena_free(&arena);
}

/* Types alone, as a recipe 8a8w gives them. */
static void give_types(sw_decoder *d) {
    for (uint32_t i = 0; i < d->n_constants; i++)
        d->constants[i]->dtype = d->constants[i]->role == SW_ROLE_WEIGHT ? SW_S8 : SW_U8;
    for (uint32_t g = 0; g < d->n_graphs; g++)
        for (uint32_t i = 0; i < d->graphs[g]->n_tensors; i++) {
            sw_tensor *t = d->graphs[g]->tensors[i];
            if (t->kind != SW_TENSOR_CONSTANT && t->role != SW_ROLE_INDEX) t->dtype = SW_U8;
        }
}

static const sw_graph_options kinds[] = {{"prefill_forward", 4, SW_ATTENTION_GROUPED, SW_HEAD_LAST},
                                         {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST},
                                         {"third", 2, SW_ATTENTION_PER_KV_HEAD, SW_HEAD_LAST}};

/* However many graphs there are, the KV cache and shared weights are there once; without sharing, weights are
 * there for each. */
static void shared_things_count_once(void **state) {
    (void)state;
    const sw_hparams h = tiny_hparams();
    const sw_soc *soc = sw_soc_find("SM8750");
    tiny_model tiny;
    tiny_model_create(&tiny, &h);
    uint64_t weights = 0;
    for (uint32_t n = 1; n <= 3; n++)
        for (int sharing = 0; sharing < 2; sharing++) {
            static sw_memory_plan plan;
            sw_decoder d;
            assert_int_equal(sw_decoder_build(&d, &tiny.model, 16, kinds, n, &err), SW_OK);
            give_types(&d);
            assert_int_equal(sw_memory_plan_make(&plan, &d, soc, sharing != 0, 3, 0, &err), SW_OK);
            if (n == 1) weights = plan.shards[0].weight_bytes;
            assert_int_equal(plan.shards[0].weight_bytes, sharing != 0 ? weights : n * weights);
            assert_int_equal(plan.kv_cache_bytes, 2 * h.n_layers * h.n_kv_heads * 16 * h.head_dim);
            assert_int_equal(plan.kv_bytes_if_a_graph_had_its_own, n * plan.kv_cache_bytes);
            assert_int_equal(plan.context_bytes, plan.largest_context_bytes);
            assert_true(plan.context_bytes > plan.shards[0].weight_bytes);
            sw_decoder_free(&d);
        }
    tiny_model_free(&tiny);
}

/* Level 1 doesn't share the integers of q and k, whose product is rotated: each further graph adds them. */
static void level_1_shares_less(void **state) {
    (void)state;
    const sw_hparams h = tiny_hparams();
    const sw_soc *soc = sw_soc_find("SM8750");
    const uint64_t rotated = (uint64_t)h.n_layers * h.hidden * (h.n_heads + h.n_kv_heads) * h.head_dim;
    tiny_model tiny;
    tiny_model_create(&tiny, &h);
    for (uint32_t n = 1; n <= 3; n++) {
        static sw_memory_plan plans[2];
        sw_decoder d;
        assert_int_equal(sw_decoder_build(&d, &tiny.model, 16, kinds, n, &err), SW_OK);
        give_types(&d);
        for (uint32_t i = 0; i < 2; i++)
            assert_int_equal(sw_memory_plan_make(&plans[i], &d, soc, true, i == 0 ? 1 : 2, 0, &err), SW_OK);
        assert_int_equal(plans[0].shards[0].weight_bytes,
                         plans[1].shards[0].weight_bytes + (n - 1) * rotated);
        assert_int_equal(plans[0].graphs[n - 1].weight_bytes, plans[1].graphs[n - 1].weight_bytes);
        sw_decoder_free(&d);
    }
    tiny_model_free(&tiny);
}

/* A head in pieces is counted as the whole one. */
static void a_head_in_pieces_is_no_more(void **state) {
    (void)state;
    sw_hparams h = tiny_hparams();
    h.vocab = 352;
    const sw_soc *soc = sw_soc_find("SM8750");
    tiny_model tiny;
    tiny_model_create(&tiny, &h);
    uint64_t weights = 0, write = 0;
    for (uint32_t pieces = 1; pieces <= 3; pieces++) {
        static sw_memory_plan plan;
        const sw_graph_options cut[] = {{"prefill_forward", 4, SW_ATTENTION_GROUPED, SW_HEAD_CUT(pieces)},
                                        {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_CUT(pieces)}};
        sw_decoder d;
        assert_int_equal(sw_decoder_build(&d, &tiny.model, 16, cut, 2, &err), SW_OK);
        give_types(&d);
        assert_int_equal(sw_memory_plan_make(&plan, &d, soc, true, 3, 0, &err), SW_OK);
        if (pieces == 1) weights = plan.shards[0].weight_bytes, write = plan.graphs[1].other_out_bytes;
        assert_int_equal(plan.shards[0].weight_bytes, weights);
        assert_int_equal(plan.graphs[1].other_out_bytes, write);
        assert_int_equal(plan.graphs[1].head_pieces, pieces);
        assert_int_equal(plan.shards[0].largest_weight_bytes, h.vocab * (h.hidden + 8));
        assert_string_equal(plan.shards[0].largest_weight, "embedding");
        sw_decoder_free(&d);
    }
    tiny_model_free(&tiny);
}

/* Shards have the model's weights between them, and the hidden state that they pass counts once. */
static void shards_are_parts(void **state) {
    (void)state;
    sw_hparams h = tiny_hparams();
    h.n_layers = 5;
    const sw_soc *soc = sw_soc_find("SM8750");
    tiny_model tiny;
    tiny_model_create(&tiny, &h);
    uint64_t weights = 0, io = 0;
    for (uint32_t n = 1; n <= 5; n++) {
        static sw_memory_plan plan;
        sw_decoder d;
        uint64_t sum = 0;
        assert_int_equal(sw_decoder_build_shards(&d, &tiny.model, 16, kinds, 2, n, &err), SW_OK);
        give_types(&d);
        assert_int_equal(sw_memory_plan_make(&plan, &d, soc, true, 3, 0, &err), SW_OK);
        for (uint32_t s = 0; s < n; s++) sum += plan.shards[s].weight_bytes;
        if (n == 1) weights = sum, io = plan.other_io_bytes;
        assert_int_equal(sum, weights);
        /* mask, cos and sin go to every shard; a hidden state of 4 + 1 rows to all but the first */
        uint64_t each = 5 * 16 + 2 * 5 * (h.head_dim / 2) + 5 * h.hidden;
        assert_int_equal(plan.other_io_bytes, io + (n - 1) * each);
        assert_int_equal(plan.shards[n - 1].layers.end, 5);
        sw_decoder_free(&d);
    }
    tiny_model_free(&tiny);
}

static void the_limit_to_the_byte(void **state) {
    (void)state;
    static sw_memory_plan plan;
    plan.largest_context_bytes = SW_CONTEXT_LIMIT_BYTES - 1;
    assert_true(sw_memory_plan_fits(&plan, 0));
    plan.largest_context_bytes = SW_CONTEXT_LIMIT_BYTES;
    assert_true(sw_memory_plan_fits(&plan, 0));
    plan.largest_context_bytes = SW_CONTEXT_LIMIT_BYTES + 1ull;
    assert_false(sw_memory_plan_fits(&plan, 0));
    /* A bound on the weights of each. */
    plan.largest_context_bytes = 1000;
    plan.n_shards = 3;
    for (uint32_t i = 0; i < 3; i++) plan.shards[i].weight_bytes = 500 + i;
    assert_true(sw_memory_plan_fits(&plan, 0));
    assert_true(sw_memory_plan_fits(&plan, 503));
    assert_true(sw_memory_plan_fits(&plan, 502));
    assert_false(sw_memory_plan_fits(&plan, 501));
    plan.largest_context_bytes = SW_CONTEXT_LIMIT_BYTES + 1ull; /* both count */
    assert_false(sw_memory_plan_fits(&plan, 502));
}

/* [32, 64]: 4 bits are half the bytes, blocks of 32 are two a row. */
static void stored_forms(void **state) {
    (void)state;
    sw_tensor t = {.role = SW_ROLE_WEIGHT, .dtype = SW_S8, .rank = 2, .dims = {32, 64}};
    assert_int_equal(sw_constant_stored_bytes(&t, SW_U16).shared, 2048 + 32 * 16);
    assert_int_equal(sw_constant_stored_bytes(&t, SW_U8).shared, 2048 + 32 * 8);
    t.form = (sw_weight_form){SW_SCALES_ROW, true, 0};
    assert_int_equal(sw_constant_stored_bytes(&t, SW_U16).shared, 1024 + 32 * 16);
    t.form = (sw_weight_form){SW_SCALES_BLOCKWISE, true, 32};
    assert_int_equal(sw_constant_stored_bytes(&t, SW_U16).shared, 1024 + 64);
    assert_int_equal(sw_constant_stored_bytes(&t, SW_U16).per_graph, 32 * 16);
    t.form = (sw_weight_form){SW_SCALES_FLOAT_BLOCK, false, 32};
    assert_int_equal(sw_constant_stored_bytes(&t, SW_F16).shared, 2048 + 64 * 2);
    t.dtype = SW_F16;
    assert_int_equal(sw_constant_stored_bytes(&t, SW_F16).shared, 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peak_by_hand),        cmocka_unit_test(shared_things_count_once),
        cmocka_unit_test(level_1_shares_less), cmocka_unit_test(a_head_in_pieces_is_no_more),
        cmocka_unit_test(shards_are_parts),    cmocka_unit_test(the_limit_to_the_byte),
        cmocka_unit_test(stored_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
