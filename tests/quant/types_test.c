/* Types and encodings of a tiny decoder with prefill and decode graphs, from ranges that the test makes up.
 * The graph's verifier judges the result: types by op, movement, one encoding for K and V everywhere. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/border.h"
#include "graph/verify.h"
#include "quant/observe.h"
#include "tiny_model.h"

enum { CONTEXT = 16 };

typedef struct fixture {
    tiny_model model;
    sw_decoder decoder;
    sw_ranges *ranges;
    sw_error err;
} fixture;

/* Every range is its own: [-(i + 1), i + 2] for the i-th name; of scores [-30, 10 + i] with the least row
 * maximum -20 - i. Caches aren't seen, as in a calibration without one. */
static void set_up(fixture *f, sw_attention_form form) {
    sw_hparams hparams = tiny_hparams();
    memset(f, 0, sizeof *f);
    tiny_model_create(&f->model, &hparams);
    const sw_graph_options options[] = {{"prefill_forward", 4, form, SW_HEAD_LAST},
                                        {"kv_forward", 1, form, SW_HEAD_LAST}};
    const sw_graph_options calibration = {"calibration", 4, SW_ATTENTION_GROUPED, SW_HEAD_ALL};
    sw_decoder seen;
    assert_int_equal(sw_decoder_build(&f->decoder, &f->model.model, CONTEXT, options, 2, &f->err), SW_OK);
    assert_int_equal(sw_decoder_build(&seen, &f->model.model, 4, &calibration, 1, &f->err), SW_OK);
    f->ranges = sw_ranges_create();
    for (uint32_t i = 0; i < seen.graphs[0]->n_tensors; i++) {
        const sw_tensor *t = seen.graphs[0]->tensors[i];
        bool scores = strstr(t->range, "masked_scores") != NULL;
        if (t->kind == SW_TENSOR_CONSTANT || (strstr(t->range, "scores") && !scores)) continue;
        if (strcmp(t->range, "mask") == 0 || strcmp(t->range, "cos") == 0 || strcmp(t->range, "sin") == 0)
            continue;
        float k = (float)i;
        sw_range r = {-k - 1, k + 2, INFINITY};
        if (scores) r = (sw_range){-30, 10 + k, -20 - k};
        assert_int_equal(sw_ranges_merge(f->ranges, t->range, r, &f->err), SW_OK);
    }
    sw_decoder_free(&seen);
}

static void tear_down(fixture *f) {
    sw_ranges_free(f->ranges);
    sw_decoder_free(&f->decoder);
    tiny_model_free(&f->model);
}

static void assert_near(double have, double want, double slack) {
    if (!(fabs(have - want) <= slack)) print_error("%.9g, wanted %.9g\n", have, want);
    assert_true(fabs(have - want) <= slack);
}

static const sw_tensor *find(const fixture *f, unsigned graph, const char *name) {
    uint32_t i = sw_graph_find(f->decoder.graphs[graph], name);
    assert_int_not_equal(i, UINT32_MAX);
    return f->decoder.graphs[graph]->tensors[i];
}

static void type_with(fixture *f, const char *name, unsigned kv_bits) {
    sw_recipe recipe;
    assert_int_equal(sw_recipe_find(&recipe, name, kv_bits, &f->err), SW_OK);
    sw_code code = sw_quantize_types(&f->decoder, &recipe, f->ranges, &f->err);
    if (code != SW_OK) print_error("%s\n", f->err.message);
    assert_int_equal(code, SW_OK);
    code = sw_decoder_verify(&f->decoder, &f->err);
    if (code != SW_OK) print_error("%s\n", f->err.message);
    assert_int_equal(code, SW_OK);
}

static bool same_encoding(const sw_tensor *a, const sw_tensor *b) {
    return a->dtype == b->dtype && a->encoding.scale == b->encoding.scale &&
           a->encoding.offset == b->encoding.offset;
}

/* Converts stand where widths meet, and nowhere else. */
static void converts_are_counted(void **state) {
    (void)state;
    static const struct {
        const char *recipe;
        unsigned kv_bits, a_layer;
    } cases[] = {{"16a8w", 8, 2}, {"16a8w", 16, 0}, {"8a8w", 8, 0}, {"f16", 0, 0}};
    for (int form = 0; form < SW_ATTENTION_FORM_COUNT; form++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            fixture f;
            set_up(&f, (sw_attention_form)form);
            type_with(&f, cases[i].recipe, cases[i].kv_bits);
            for (unsigned g = 0; g < 2; g++)
                assert_int_equal(sw_graph_count_ops(f.decoder.graphs[g], SW_OP_CONVERT),
                                 cases[i].a_layer * f.decoder.hparams.n_layers);
            sw_quantize_report report;
            sw_quantize_get_report(&f.decoder, &report);
            assert_int_equal(report.n_converts, 2 * cases[i].a_layer * f.decoder.hparams.n_layers);
            tear_down(&f);
        }
}

/* What prefill writes, decode reads; and a cache that calibration never saw has its entries' range. */
static void kv_has_one_encoding(void **state) {
    (void)state;
    static const char *const recipes[] = {"16a8w", "8a8w"};
    for (size_t i = 0; i < 2; i++) {
        fixture f;
        set_up(&f, SW_ATTENTION_GROUPED);
        type_with(&f, recipes[i], 0);
        const char *names[] = {"k_new", "k_cache", "k_all"};
        const sw_tensor *first = find(&f, 0, "layer_1.k_new");
        assert_int_equal(first->dtype, SW_U8);
        for (size_t n = 0; n < 3; n++) {
            char name[SW_NAME_BYTES];
            sw_layer_name(name, 1, names[n]);
            for (unsigned g = 0; g < 2; g++) assert_true(same_encoding(first, find(&f, g, name)));
        }
        assert_false(same_encoding(first, find(&f, 0, "layer_0.k_new")));
        tear_down(&f);
    }
}

/* Every range along a path of movement is the union of what was seen on it, at each width. */
static void moved_values_share_their_range(void **state) {
    (void)state;
    fixture f;
    set_up(&f, SW_ATTENTION_GROUPED);
    const char *path[] = {"layer_0.v", "layer_0.v_rows", "layer_0.v_new"};
    float min = 0, max = 0;
    for (size_t i = 0; i < 3; i++) {
        const sw_range *r = sw_ranges_find(f.ranges, path[i]);
        min = fminf(min, r->min);
        max = fmaxf(max, r->max);
    }
    type_with(&f, "16a8w", 0);
    const sw_tensor *v = find(&f, 0, "layer_0.v"), *v_new = find(&f, 0, "layer_0.v_new");
    /* K and V have 0 in the middle of their integers, at each width. */
    double bound = (double)fmaxf(-min, max);
    assert_true(v->encoding.scale == (float)(bound / 32767) && v->encoding.offset == -32768);
    assert_true(v_new->encoding.scale == (float)(bound / 127) && v_new->encoding.offset == -128);
    assert_true(same_encoding(v, find(&f, 0, "layer_0.v_rows")));
    assert_true(same_encoding(v, find(&f, 1, "layer_0.v_new.u16"))); /* decode's, before its Convert */
    tear_down(&f);
}

static void fixed_encodings(void **state) {
    (void)state;
    fixture f;
    set_up(&f, SW_ATTENTION_GROUPED);
    type_with(&f, "16a8w", 0);
    const char *unit[] = {"layer_0.probabilities", "layer_0.probabilities_groups", "layer_1.gate_sigmoid"};
    for (size_t i = 0; i < 3; i++) {
        assert_true(find(&f, 0, unit[i])->encoding.scale == 1 / 65536.0f);
        assert_int_equal(find(&f, 0, unit[i])->encoding.offset, 0);
    }
    for (unsigned g = 0; g < 2; g++) {
        assert_true(find(&f, g, "cos")->encoding.scale == (float)(2 / 65535.0));
        assert_true(same_encoding(find(&f, g, "cos"), find(&f, g, "sin")));
    }
    tear_down(&f);
}

/* The mask doesn't stretch the scores; it blocks the greatest score of every layer; a seen entry is 0. */
static void masked_scores_keep_their_range(void **state) {
    (void)state;
    static const char *const recipes[] = {"16a8w", "8a8w"};
    for (size_t i = 0; i < 2; i++) {
        fixture f;
        set_up(&f, SW_ATTENTION_GROUPED);
        double deepest = 0;
        type_with(&f, recipes[i], 0);
        int32_t top = i == 0 ? 65535 : 255;
        const sw_tensor *mask = find(&f, 0, "mask");
        assert_true(same_encoding(mask, find(&f, 1, "mask")));
        assert_int_equal(sw_quantize_value(0, mask->dtype, mask->encoding), top);
        for (uint32_t layer = 0; layer < 2; layer++) {
            char name[SW_NAME_BYTES];
            sw_layer_name(name, layer, "masked_scores");
            const sw_range *seen = sw_ranges_find(f.ranges, name);
            const sw_tensor *x = find(&f, 0, name);
            /* beta = 1 / sqrt(8); a probability under half a step lies (bits + 1) ln 2 / beta lower; 8 bits
             * have one more to spare. */
            double m = (i == 0 ? 17 : 10) * 0.69314718056 * sqrt(8);
            double low = (double)seen->least_row_max - m, width = (double)seen->max - low;
            assert_near((double)x->encoding.scale, width / top, 1e-4 * width / top);
            assert_near(x->encoding.offset, -round(-low / width * top), 1.01);
            deepest = fmax(deepest, width);
            sw_layer_name(name, layer, "scores");
            for (unsigned g = 0; g < 2; g++) assert_true(same_encoding(x, find(&f, g, name)));
            /* score + mask, as exact arithmetic has it, ends on the lowest integer. */
            double blocked = (double)sw_dequantize_value(0, mask->encoding);
            assert_int_equal(sw_quantize_value((float)((double)seen->max + blocked), x->dtype, x->encoding),
                             0);
            /* A row that sees nothing has this in every column; Softmax makes 1 / columns of it. */
            float bottom = sw_dequantize_value(0, x->encoding);
            assert_near((double)bottom, low, width / top);
        }
        assert_near(-(double)sw_dequantize_value(0, mask->encoding), deepest, 0.002 * deepest);
        tear_down(&f);
    }
}

static void what_is_missing_is_named(void **state) {
    (void)state;
    fixture f;
    set_up(&f, SW_ATTENTION_GROUPED);
    sw_recipe recipe;
    assert_int_equal(sw_recipe_find(&recipe, "8a8w", 0, &f.err), SW_OK);
    assert_int_equal(sw_quantize_types(&f.decoder, &recipe, NULL, &f.err), SW_INVALID_ARGUMENT);
    sw_ranges *none = sw_ranges_create();
    assert_int_equal(sw_quantize_types(&f.decoder, &recipe, none, &f.err), SW_INVALID_ARGUMENT);
    assert_non_null(strstr(f.err.message, "hidden_in"));
    sw_ranges_free(none);
    tear_down(&f);

    set_up(&f, SW_ATTENTION_GROUPED); /* a decoder that has its types already */
    type_with(&f, "8a8w", 0);
    assert_int_equal(sw_quantize_types(&f.decoder, &recipe, f.ranges, &f.err), SW_INVALID_ARGUMENT);
    tear_down(&f);
}

static void smallest_ratio_is_reported(void **state) {
    (void)state;
    fixture f;
    sw_quantize_report report;
    set_up(&f, SW_ATTENTION_GROUPED);
    type_with(&f, "16a8w", 0);
    double smallest = INFINITY;
    for (uint32_t i = 0; i < f.decoder.n_constants; i++) {
        sw_tensor *t = f.decoder.constants[i];
        void *data = malloc((size_t)sw_tensor_bytes(t));
        assert_int_equal(sw_quantize_constant(&f.decoder, t, data, NULL, NULL, &f.err), SW_OK);
        free(data);
    }
    /* Against a plain search over linear layers and products of attention. */
    for (unsigned g = 0; g < 2; g++)
        for (uint32_t i = 0; i < f.decoder.graphs[g]->n_ops; i++) {
            const sw_op *op = &f.decoder.graphs[g]->ops[i];
            sw_tensor *const *t = f.decoder.graphs[g]->tensors;
            double x = (double)t[op->inputs[0]]->encoding.scale,
                   y = (double)t[op->outputs[0]]->encoding.scale;
            if (op->type == SW_OP_MATMUL)
                smallest = fmin(smallest, y / (x * (double)t[op->inputs[1]]->encoding.scale));
            if (op->type != SW_OP_FULLY_CONNECTED) continue;
            for (uint32_t r = 0; r < t[op->inputs[1]]->dims[0]; r++)
                smallest = fmin(smallest, y / (x * (double)t[op->inputs[1]]->channel_scales[r]));
        }
    sw_quantize_get_report(&f.decoder, &report);
    assert_near(report.smallest_u16_ratio, smallest, 1e-9 * smallest);
    assert_true(report.smallest_u16_ratio_tensor[0] != '\0');
    tear_down(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(converts_are_counted),           cmocka_unit_test(kv_has_one_encoding),
        cmocka_unit_test(moved_values_share_their_range), cmocka_unit_test(fixed_encodings),
        cmocka_unit_test(masked_scores_keep_their_range), cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(smallest_ratio_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
