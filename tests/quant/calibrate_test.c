/* Calibration on a device that the test makes up: it writes known values, so that the ranges are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/decoder.h"
#include "quant/observe.h"
#include "tiny_model.h"

/* Output of op i: -(i + 1) first, i + 2 last, 0 between, all times the number of the call. Scores: what the
 * mask hides is 1000; of the rest, column 0 is -50 and others are their row's number. So row 0, which sees
 * column 0 alone, has the least maximum, -50, and the greatest score is n - 1. */
typedef struct fake {
    sw_device device;
    unsigned loaded, unloaded, calls;
    const char *spoiled; /* the output that gets a NaN, or NULL */
    bool fails;
    sw_hparams hparams;
    const float *embedding;
    const int32_t *ids; /* of the window in hand, to check the inputs */
} fake;

struct sw_program {
    fake *owner;
    const sw_graph *graph;
};

static sw_code fake_load(sw_device *device, const sw_graph *graph, sw_program **out, sw_error *err) {
    (void)err;
    *out = malloc(sizeof **out);
    **out = (sw_program){(fake *)device, graph};
    ((fake *)device)->loaded++;
    return SW_OK;
}

static void fake_unload(sw_program *program) {
    program->owner->unloaded++;
    free(program);
}

static void check_inputs(const sw_program *p, const sw_graph *graph, void *const *values) {
    uint32_t n = graph->ar_len, hidden = p->owner->hparams.hidden;
    const float *x = values[sw_graph_find(graph, "hidden_in")], *mask = values[sw_graph_find(graph, "mask")];
    const float *c = values[sw_graph_find(graph, "cos")];
    for (uint32_t r = 0; r < n; r++) {
        assert_memory_equal(x + r * hidden, p->owner->embedding + (uint32_t)p->owner->ids[r] * hidden,
                            hidden * sizeof(float));
        assert_float_equal(c[r * p->owner->hparams.head_dim / 2], cos(r), 1e-6); /* frequency 1 */
        for (uint32_t k = 0; k < n; k++) assert_true(mask[r * n + k] == (k <= r ? 0 : SW_MASK_BLOCKED));
    }
}

static void write_output(const sw_program *p, const sw_graph *graph, uint32_t index, void *const *values) {
    const sw_op *op = &graph->ops[index];
    const sw_tensor *t = graph->tensors[op->outputs[0]];
    uint32_t n = graph->ar_len;
    size_t count = (size_t)sw_tensor_elements(t);
    float *out = values[op->outputs[0]], *in = values[op->inputs[0]];
    const float *mask = values[sw_graph_find(graph, "mask")];
    if (op->type == SW_OP_ADD && strstr(t->name, "masked")) {
        for (size_t i = 0; i < count; i++) out[i] = in[i] + mask[i % ((size_t)n * n)];
    } else if (strstr(t->name, "scores")) {
        for (size_t i = 0; i < count; i++) {
            uint32_t column = (uint32_t)(i % n), row = (uint32_t)(i / n % n);
            out[i] = column > row ? 1000.0f : column == 0 ? -50.0f : (float)row;
        }
    } else {
        memset(out, 0, count * sizeof *out);
        out[0] = -(float)((index + 1) * p->owner->calls);
        out[count - 1] = (float)((index + 2) * p->owner->calls);
    }
    if (p->owner->spoiled && strcmp(t->name, p->owner->spoiled) == 0) out[count / 2] = NAN;
}

static sw_code fake_execute(sw_program *p, const sw_binding *inputs, const sw_binding *outputs,
                            sw_observer *observer, void *context, sw_error *err) {
    const sw_graph *graph = p->graph;
    (void)outputs;
    p->owner->calls++;
    if (p->owner->fails) return SW_FAIL(err, SW_LIBRARY, "the device is on fire");
    void **values = calloc(graph->n_tensors, sizeof *values);
    for (uint32_t i = 0; i < graph->n_tensors; i++)
        if (graph->tensors[i]->kind == SW_TENSOR_NATIVE || graph->tensors[i]->kind == SW_TENSOR_OUTPUT)
            values[i] = calloc(1, (size_t)sw_tensor_bytes(graph->tensors[i]));
    for (uint32_t i = 0; i < graph->n_inputs; i++) values[graph->inputs[i]] = inputs[i].data;
    check_inputs(p, graph, values);
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        write_output(p, graph, i, values);
        observer(context, graph, &graph->ops[i], (const void *const *)values);
    }
    for (uint32_t i = 0; i < graph->n_tensors; i++)
        if (graph->tensors[i]->kind != SW_TENSOR_INPUT) free(values[i]);
    free(values);
    return SW_OK;
}

static const sw_device_ops fake_ops = {
    .name = "fake", .load = fake_load, .execute = fake_execute, .unload = fake_unload};

static fake make_fake(const tiny_model *model) {
    return (fake){.device.ops = &fake_ops, .hparams = model->model.hparams, .embedding = model->values};
}

static uint32_t op_named(const sw_model *model, uint32_t n, const char *name) {
    const sw_graph_options options = {"calibration", n, SW_ATTENTION_GROUPED, SW_HEAD_ALL};
    sw_decoder decoder;
    uint32_t index = UINT32_MAX;
    assert_int_equal(sw_decoder_build(&decoder, model, n, &options, 1, NULL), SW_OK);
    for (uint32_t i = 0; i < decoder.graphs[0]->n_ops; i++)
        if (strcmp(decoder.graphs[0]->ops[i].name, name) == 0) index = i;
    assert_int_not_equal(index, UINT32_MAX);
    sw_decoder_free(&decoder);
    return index;
}

static const int32_t text[] = {5, 0, 95, 17, 5, 33, 60, 2};

static void ranges_are_what_the_device_showed(void **state) {
    (void)state;
    tiny_model model;
    sw_hparams hparams = tiny_hparams();
    sw_error err = {0};
    sw_ranges *ranges;
    tiny_model_create(&model, &hparams);
    fake device = make_fake(&model);
    device.ids = text;
    const sw_window windows[] = {{text, 4}, {text, 4}, {text, 6}};
    sw_code code = sw_calibrate(&ranges, &model.model, NULL, NULL, &device.device, windows, 3, &err);
    if (code != SW_OK) print_error("%s\n", err.message);
    assert_int_equal(code, SW_OK);
    assert_int_equal(device.calls, 3);
    assert_int_equal(device.loaded, 2); /* one graph a window length */
    assert_int_equal(device.unloaded, 2);

    /* Three calls: the third is the widest. */
    const char *plain[] = {"layer_0.q", "layer_1.k_new", "layer_1.context_rows", "logits"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        uint32_t index = op_named(&model.model, 6, plain[i]);
        const sw_range *r = sw_ranges_find(ranges, plain[i]);
        assert_non_null(r);
        assert_true(r->min == -3.0f * (float)(index + 1));
        assert_true(r->max == 3.0f * (float)(index + 2));
    }
    /* Scores: neither the blocked 1000s nor the mask's -10000 are there. */
    const sw_range *scores = sw_ranges_find(ranges, "layer_1.masked_scores");
    assert_non_null(scores);
    assert_true(scores->min == -50 && scores->max == 5 && scores->least_row_max == -50);
    const char *never[] = {"layer_1.scores", "mask", "cos", "layer_0.probabilities", "layer_0.gate_sigmoid"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) assert_null(sw_ranges_find(ranges, never[i]));

    float min = INFINITY, max = -INFINITY; /* of the whole table: any token can come in */
    for (uint32_t i = 0; i < hparams.vocab * hparams.hidden; i++)
        min = fminf(min, model.values[i]), max = fmaxf(max, model.values[i]);
    const sw_range *hidden = sw_ranges_find(ranges, "hidden_in");
    assert_true(hidden->min == min && hidden->max == max);
    sw_ranges_free(ranges);
    tiny_model_free(&model);
}

/* Over windows 1, 2, 3 times as wide: m1 = 1, m2 = m1 + (2 - m1) / 4, m3 = m2 + (3 - m2) / 4 = 1.6875. */
static void methods_by_rules(void **state) {
    (void)state;
    tiny_model model;
    sw_hparams hparams = tiny_hparams();
    sw_error err = {0};
    sw_ranges *ranges;
    sw_recipe recipe;
    tiny_model_create(&model, &hparams);
    fake device = make_fake(&model);
    device.ids = text;
    const sw_window windows[] = {{text, 6}, {text, 6}, {text, 6}};
    const sw_activation_rule rules[] = {
        {"layer_*.up", SW_OP_COUNT, SW_DTYPE_COUNT, NULL, {SW_METHOD_MINMAX, 0}},
        {"layer_1.*", SW_OP_ADD, SW_DTYPE_COUNT, NULL, {SW_METHOD_PERCENTILE, 75}},
        {"layer_0.gate", SW_OP_COUNT, SW_U16, NULL, {SW_METHOD_DEFAULT, 0}},
    };
    assert_int_equal(sw_recipe_find(&recipe, "8a8w", 0, &err), SW_OK);
    recipe.method = (sw_range_method){SW_METHOD_MOVING_AVERAGE, 0.25};
    recipe.activation_rules = rules, recipe.n_activation_rules = 3;
    assert_true(sw_recipe_has_methods(&recipe));
    sw_code code = sw_calibrate(&ranges, &model.model, NULL, &recipe, &device.device, windows, 3, &err);
    if (code != SW_OK) fail_msg("%s", err.message);
    static const struct {
        const char *name;
        float times;
    } wanted[] = {{"layer_0.q", 1.6875f},        {"layer_1.k_new", 1.6875f}, {"layer_0.gate", 1.6875f},
                  {"layer_0.residual", 1.6875f}, {"layer_1.up", 3},          {"layer_1.residual", 0}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        float index = (float)op_named(&model.model, 6, wanted[i].name);
        const sw_range *r = sw_ranges_find(ranges, wanted[i].name);
        assert_non_null(r);
        /* All but two values of a tensor are 0: so is the 75th percentile. */
        assert_true(r->min == -wanted[i].times * (index + 1) && r->max == wanted[i].times * (index + 2));
    }
    sw_ranges_free(ranges);
    tiny_model_free(&model);
}

static void faults_are_told(void **state) {
    (void)state;
    tiny_model model;
    sw_hparams hparams = tiny_hparams();
    tiny_model_create(&model, &hparams);
    const int32_t wild[] = {3, 96}, negative[] = {-1};
    static const struct {
        sw_code code;
        const char *says, *spoiled;
        bool fails;
    } want[] = {
        {SW_INVALID_ARGUMENT, "no text", NULL, false},
        {SW_INVALID_ARGUMENT, "window 1: it has no tokens", NULL, false},
        {SW_INVALID_ARGUMENT, "window 0: token 1: id 96", NULL, false},
        {SW_INVALID_ARGUMENT, "id -1", NULL, false},
        {SW_BAD_DATA, "layer_1.up", "layer_1.up", false},
        {SW_LIBRARY, "window 0: the device is on fire", NULL, true},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const sw_window windows[][2] = {
            {{NULL, 0}}, {{text, 3}, {text, 0}}, {{wild, 2}}, {{negative, 1}}, {{text, 3}}, {{text, 3}},
        };
        const size_t counts[] = {0, 2, 1, 1, 1, 1};
        fake device = make_fake(&model);
        device.ids = text;
        device.spoiled = want[i].spoiled;
        device.fails = want[i].fails;
        sw_error err = {0};
        sw_ranges *ranges;
        assert_int_equal(
            sw_calibrate(&ranges, &model.model, NULL, NULL, &device.device, windows[i], counts[i], &err),
            want[i].code);
        assert_non_null(strstr(err.message, want[i].says));
        assert_null(ranges);
        assert_int_equal(device.loaded, device.unloaded);
    }
    tiny_model_free(&model);
}

static void minimum_and_maximum_of_floats(void **state) {
    (void)state;
    float values[37], min, max;
    for (int i = 0; i < 37; i++) values[i] = (float)(i * 7 % 37 - 18) * 0.125f;
    assert_true(sw_range_of_values(values, 37, &min, &max));
    assert_true(min == -2.25f && max == 2.25f);
    assert_true(sw_range_of_values(values + 5, 1, &min, &max));
    assert_true(min == values[5] && max == values[5]);
    const float zeros[2] = {0.0f, -0.0f};
    assert_true(sw_range_of_values(zeros, 2, &min, &max));
    assert_true(min == 0 && max == 0);
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 4; i++) {
        values[20] = bad[i];
        assert_false(sw_range_of_values(values, 37, &min, &max));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_what_the_device_showed),
        cmocka_unit_test(methods_by_rules),
        cmocka_unit_test(faults_are_told),
        cmocka_unit_test(minimum_and_maximum_of_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
