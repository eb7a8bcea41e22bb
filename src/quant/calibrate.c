/* calibrate.c: runs the float decoder over windows of text and watches every value.
 *
 * A window goes through in one call, as a graph whose AR length and context are the window's length: no
 * cache, all rows' logits. What it sees counts for the graphs with a cache, as ranges belong to names
 * (groups.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/border.h"
#include "quant/observe.h"
#include "quant/quant.h"

typedef struct calibration {
    sw_device *device;
    sw_observation observation;
    /* For windows of `n_tokens`; rebuilt where the next one has another length. */
    uint32_t n_tokens;
    sw_decoder decoder;
    sw_groups groups;
    sw_program *program;
    sw_binding *inputs, *outputs; /* data owned */
} calibration;

static void free_bindings(sw_binding *bindings, uint32_t n) {
    for (uint32_t i = 0; bindings && i < n; i++) free(bindings[i].data);
    free(bindings);
}

static void tear_down(calibration *c) {
    if (c->program) c->device->ops->unload(c->program);
    if (c->n_tokens) {
        free_bindings(c->inputs, c->decoder.graphs[0]->n_inputs);
        free_bindings(c->outputs, c->decoder.graphs[0]->n_outputs);
        sw_groups_free(&c->groups);
        sw_decoder_free(&c->decoder);
    }
    c->program = NULL;
    c->inputs = c->outputs = NULL;
    c->n_tokens = 0;
}

static sw_code allocate_bindings(const sw_graph *graph, const uint32_t *tensors, uint32_t n, sw_binding **out,
                                 sw_error *err) {
    sw_binding *bindings = *out = calloc(n + 1u, sizeof *bindings);
    for (uint32_t i = 0; bindings && i < n; i++) {
        const sw_tensor *t = graph->tensors[tensors[i]];
        bindings[i].data = calloc(1, (size_t)sw_tensor_bytes(t));
        if (!bindings[i].data)
            return SW_FAIL(err, SW_NO_MEMORY,
                           "calibration: no memory for %s, %llu bytes; use shorter windows", t->name,
                           (unsigned long long)sw_tensor_bytes(t));
    }
    return bindings ? SW_OK : SW_FAIL(err, SW_NO_MEMORY, "calibration: out of memory");
}

static sw_code set_up(calibration *c, const sw_model *model, uint32_t n_tokens, sw_error *err) {
    tear_down(c);
    const sw_graph_options options = {"calibration", n_tokens, SW_ATTENTION_GROUPED, SW_HEAD_ALL};
    SW_TRY(sw_decoder_build(&c->decoder, model, n_tokens, &options, 1, err));
    c->n_tokens = n_tokens;
    const sw_graph *graph = c->decoder.graphs[0];
    SW_TRY(sw_groups_init(&c->groups, c->decoder.graphs, 1, err));
    SW_TRY(allocate_bindings(graph, graph->inputs, graph->n_inputs, &c->inputs, err));
    SW_TRY(allocate_bindings(graph, graph->outputs, graph->n_outputs, &c->outputs, err));
    return c->device->ops->load(c->device, graph, &c->program, err);
}

static sw_code fill_inputs(calibration *c, const int32_t *ids, sw_error *err) {
    const sw_graph *graph = c->decoder.graphs[0];
    const sw_tensor *t[4] = {NULL};
    void *data[4] = {NULL};
    static const char *const names[4] = {"hidden_in", "cos", "sin", "mask"};
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        for (unsigned k = 0; k < 4; k++)
            if (strcmp(graph->tensors[graph->inputs[i]]->name, names[k]) == 0)
                t[k] = graph->tensors[graph->inputs[i]], data[k] = c->inputs[i].data;
    if (graph->n_inputs != 4 || !t[0] || !t[1] || !t[2] || !t[3])
        return SW_FAIL(err, SW_INTERNAL,
                       "calibration: the graph's inputs aren't hidden_in, cos, sin and mask");

    uint32_t *positions = calloc(c->n_tokens, sizeof *positions);
    if (!positions) return SW_FAIL(err, SW_NO_MEMORY, "calibration: out of memory");
    for (uint32_t i = 0; i < c->n_tokens; i++) positions[i] = i;
    sw_border_fill_rotary(t[1], t[2], c->decoder.hparams.rope_theta, positions, c->n_tokens, data[1],
                          data[2]);
    free(positions);
    sw_border_fill_mask(t[3], 0, data[3]);
    return sw_border_fill_hidden(t[0], c->decoder.embedding, ids, c->n_tokens, data[0], err);
}

/* hidden_in's range is that of the whole table: any token can come, and the text shows few of them. */
static sw_code observe_embedding(calibration *c, const sw_model *model, sw_error *err) {
    const sw_weight *table = sw_model_weight(model, SW_W_EMBEDDING, 0);
    float *row = malloc((table->cols + (size_t)1) * sizeof *row);
    if (!row) return SW_FAIL(err, SW_NO_MEMORY, "calibration: out of memory");
    sw_range all = SW_RANGE_EMPTY;
    sw_code code = SW_OK;
    for (uint32_t r = 0; r < table->rows && code == SW_OK; r++) {
        float min, max;
        sw_weight_row(table, r, row);
        if (!sw_range_of_values(row, table->cols, &min, &max))
            code = SW_FAIL(err, SW_BAD_DATA, "%s: row %u has a value that is infinite or no number",
                           table->file_name, r);
        all.min = fminf(all.min, min);
        all.max = fmaxf(all.max, max);
    }
    free(row);
    return code == SW_OK ? sw_ranges_merge(c->observation.ranges, "hidden_in", all, err) : code;
}

static sw_code run_window(calibration *c, const sw_model *model, const sw_window *window, sw_error *err) {
    if (window->n_tokens == 0) return SW_FAIL(err, SW_INVALID_ARGUMENT, "it has no tokens");
    if (window->n_tokens != c->n_tokens) SW_TRY(set_up(c, model, window->n_tokens, err));
    SW_TRY(fill_inputs(c, window->ids, err));
    c->observation.groups = &c->groups;
    SW_TRY(c->device->ops->execute(c->program, c->inputs, c->outputs, sw_observe_op, &c->observation, err));
    if (c->observation.error.code != SW_OK && err) *err = c->observation.error;
    return c->observation.error.code;
}

sw_code sw_calibrate(sw_ranges **out, const sw_model *model, sw_device *device, const sw_window *windows,
                     size_t n_windows, sw_error *err) {
    *out = NULL;
    if (n_windows == 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "calibration has no text; it needs at least one window of tokens");
    calibration c = {.device = device, .observation.ranges = sw_ranges_create()};
    if (!c.observation.ranges) return SW_FAIL(err, SW_NO_MEMORY, "calibration: out of memory");
    sw_progress progress;
    sw_progress_start(&progress, "calibrating", n_windows);
    sw_code code = observe_embedding(&c, model, err);
    for (size_t i = 0; i < n_windows && code == SW_OK; i++) {
        code = run_window(&c, model, &windows[i], err);
        if (code != SW_OK && err) sw_error_prefix(err, "calibration window %zu", i);
        sw_progress_update(&progress, i + 1);
    }
    sw_progress_end(&progress);
    tear_down(&c);
    if (code == SW_OK)
        *out = c.observation.ranges;
    else
        sw_ranges_free(c.observation.ranges);
    return code;
}
