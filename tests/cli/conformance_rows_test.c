/* Every combination of op, types and form of weights that a shipped recipe makes, prefill and decode, both
 * forms of attention, has a row in the tables of cli/conformance_cases.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/conformance_cases.h"
#include "quant/typed_decoder.h"

static sw_error err;

static bool same_form(sw_weight_form a, sw_weight_form b) {
    return a.scales == b.scales && a.four_bit == b.four_bit && a.block == b.block;
}

static bool has_row(const sw_graph *g, const sw_op *op) {
    const sw_tensor *in[3] = {NULL}, *out = g->tensors[op->outputs[0]];
    for (uint32_t i = 0; i < op->n_inputs && i < 3; i++) in[i] = g->tensors[op->inputs[i]];
    const bool product = op->type == SW_OP_FULLY_CONNECTED || op->type == SW_OP_MATMUL;
    if (product && in[1]->dtype == SW_S8)
        for (size_t i = 0; i < sizeof form_cases / sizeof *form_cases; i++) {
            const form_case *c = &form_cases[i];
            /* What weight_forms_slow_test makes of a form. */
            const sw_op_type type =
                c->form.scales == SW_SCALES_BLOCKWISE ? SW_OP_MATMUL : SW_OP_FULLY_CONNECTED;
            if (type == op->type && c->activation == in[0]->dtype && c->activation == out->dtype &&
                same_form(c->form, in[1]->form))
                return true;
        }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const conformance_case *c = &cases[i];
        bool same = c->op == op->type && c->out.dtype == out->dtype;
        for (uint32_t k = 0; k < 3 && same; k++) {
            const bool there = c->in[k].dims[0] > 0;
            if (op->type == SW_OP_CONCAT && k == 2) break; /* however many there are */
            same = there == (in[k] != NULL);
            if (there && same) same = c->in[k].dtype == in[k]->dtype;
            if (there && same && in[k]->dtype == SW_S8)
                same = same_form(in[k]->form, (sw_weight_form){SW_SCALES_ROW, false, 0});
        }
        if (same) return true;
    }
    return false;
}

static unsigned check_graph(const sw_graph *g, const char *recipe) {
    unsigned missing = 0;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const sw_op *op = &g->ops[i];
        if (has_row(g, op)) continue;
        missing++;
        print_error("%s, %s: no row for %s of", recipe, g->name, sw_op_get_info(op->type)->name);
        for (uint32_t k = 0; k < op->n_inputs; k++) {
            const sw_tensor *t = g->tensors[op->inputs[k]];
            char form[SW_WEIGHT_FORM_BYTES];
            print_error(" %s%s%s", sw_dtype_name(t->dtype), t->dtype == SW_S8 ? " " : "",
                        t->dtype == SW_S8 ? sw_weight_form_text(t->form, form) : "");
        }
        print_error(" to %s\n", sw_dtype_name(g->tensors[op->outputs[0]]->dtype));
    }
    return missing;
}

static void no_combination_lacks_a_row(void **state) {
    (void)state;
    unsigned missing = 0, graphs = 0;
    for (unsigned i = 0; shipped_recipe(i) != NULL; i++)
        for (unsigned kv_bits = 0; kv_bits <= 16; kv_bits += 16)
            for (unsigned form = 0; form < SW_ATTENTION_FORM_COUNT; form++) {
                char name[64];
                sw_recipe r;
                typed_decoder t;
                snprintf(name, sizeof name, "%s", shipped_recipe(i));
                if (sw_recipe_find(&r, name, kv_bits, &err) != SW_OK) continue; /* it has no such cache */
                if (typed_decoder_create(&t, &r, (sw_attention_form)form, &err) != SW_OK)
                    fail_msg("%s: %s", name, err.message);
                for (unsigned g = 0; g < 2; g++, graphs++) missing += check_graph(t.decoder.graphs[g], name);
                typed_decoder_free(&t);
            }
    assert_true(graphs >= 8 * 2 * SW_ATTENTION_FORM_COUNT);
    assert_int_equal(missing, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_combination_lacks_a_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
