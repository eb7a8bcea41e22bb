/* Neighbours of different types never get as far as Qualcomm's compiler: in every shipped recipe's graphs,
 * every tensor in turn gets every other type, and the verifier names the op and the tensor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "quant/typed_decoder.h"

static sw_error err;

/* The sentence begins with the graph and has the tensor in backquotes. */
static bool names(const sw_graph *g, const sw_tensor *t) {
    char text[SW_NAME_BYTES + 4];
    snprintf(text, sizeof text, "`%s`", t->name);
    return strstr(err.message, text) != NULL && strncmp(err.message, g->name, strlen(g->name)) == 0;
}

/* f16 activations go with weights of either type. */
static bool legal(const sw_recipe *r, const sw_tensor *t, sw_dtype type) {
    return t->role == SW_ROLE_WEIGHT && r->activation == SW_F16 && (type == SW_F16 || type == SW_S8);
}

static void try_types(const sw_decoder *d, const sw_graph *g, sw_tensor *t, const sw_recipe *recipe) {
    const sw_tensor before = *t;
    for (unsigned type = 0; type < SW_DTYPE_COUNT; type++) {
        if ((sw_dtype)type == before.dtype || legal(recipe, t, (sw_dtype)type)) continue;
        t->dtype = (sw_dtype)type;
        if (sw_dtype_quantized(t->dtype)) t->encoding = (sw_encoding){0.01f, 0};
        sw_code code = sw_decoder_verify(d, &err);
        if (code != SW_BAD_DATA)
            fail_msg("%s: %s: `%s` as %s instead of %s passes", recipe->name, g->name, t->name,
                     sw_dtype_name(t->dtype), sw_dtype_name(before.dtype));
        /* A constant is in all graphs, and its data's encoding is looked at before any op. */
        if (t->kind != SW_TENSOR_CONSTANT && !names(g, t))
            fail_msg("%s: `%s` as %s: %s", recipe->name, t->name, sw_dtype_name(t->dtype), err.message);
        if (t->kind == SW_TENSOR_CONSTANT && strstr(err.message, t->name) == NULL)
            fail_msg("%s: `%s` as %s: %s", recipe->name, t->name, sw_dtype_name(t->dtype), err.message);
        *t = before;
    }
}

static void other_types_are_refused(void **state) {
    (void)state;
    for (unsigned i = 0; shipped_recipe(i) != NULL; i++)
        for (unsigned kv_bits = 0; kv_bits <= 16; kv_bits += 16) {
            char name[64];
            typed_decoder t;
            sw_recipe r;
            snprintf(name, sizeof name, "%s", shipped_recipe(i));
            if (sw_recipe_find(&r, name, kv_bits, &err) != SW_OK) continue;
            if (typed_decoder_create(&t, &r, SW_ATTENTION_GROUPED, &err) != SW_OK)
                fail_msg("%s: %s", name, err.message);
            for (unsigned g = 0; g < 2; g++)
                for (uint32_t k = 0; k < t.decoder.graphs[g]->n_tensors; k++)
                    try_types(&t.decoder, t.decoder.graphs[g], t.decoder.graphs[g]->tensors[k], &r);
            assert_int_equal(sw_decoder_verify(&t.decoder, &err), SW_OK);
            typed_decoder_free(&t);
        }
}

/* A K or V that the other graph reads with another scale or offset, or at another width: both are named. */
static void graphs_with_other_kv_encodings_are_refused(void **state) {
    (void)state;
    static const char *const names_of[] = {"layer_1.k_new", "layer_0.v_new", "layer_1.k_cache",
                                           "layer_0.v_cache"};
    for (unsigned kv_bits = 8; kv_bits <= 16; kv_bits += 8)
        for (unsigned g = 0; g < 2; g++)
            for (unsigned n = 0; n < 4; n++)
                for (int what = 0; what < 2; what++) {
                    typed_decoder t;
                    sw_recipe r;
                    assert_int_equal(sw_recipe_find(&r, "16a8w", kv_bits, &err), SW_OK);
                    assert_int_equal(typed_decoder_create(&t, &r, SW_ATTENTION_GROUPED, &err), SW_OK);
                    sw_graph *graph = t.decoder.graphs[g];
                    sw_encoding before = graph->tensors[sw_graph_find(graph, names_of[n])]->encoding;
                    sw_encoding other = before;
                    if (what == 0)
                        other.scale *= 1 + 1e-6f; /* the smallest step that a float can show */
                    else
                        other.offset += 1;
                    /* All that movement ties to it in this graph, so that only the two graphs disagree. */
                    for (uint32_t k = 0; k < graph->n_tensors; k++) {
                        sw_tensor *x = graph->tensors[k];
                        bool same = strncmp(x->name, names_of[n], 9) == 0 &&
                                    x->encoding.scale == before.scale && x->encoding.offset == before.offset;
                        if (same) x->encoding = other;
                    }
                    assert_int_equal(sw_decoder_verify(&t.decoder, &err), SW_BAD_DATA);
                    char want[2][64];
                    for (int k = 0; k < 2; k++)
                        snprintf(want[k], sizeof want[k], "(scale %.9g, offset %d)",
                                 (double)(k == 0 ? before : other).scale, (k == 0 ? before : other).offset);
                    if (strstr(err.message, want[0]) == NULL || strstr(err.message, want[1]) == NULL ||
                        strstr(err.message, "couldn't read each other's KV cache") == NULL)
                        fail_msg("%s, graph %u: %s", names_of[n], g, err.message);
                    typed_decoder_free(&t);
                }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(other_types_are_refused),
                                       cmocka_unit_test(graphs_with_other_kv_encodings_are_refused)};
    return cmocka_run_group_tests_name("mixed types", tests, NULL, NULL);
}
