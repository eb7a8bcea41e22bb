/* window.c: builds the graph, fills its border, executes it. */
#include "quant/window.h"

#include <stdlib.h>
#include <string.h>

#include "device/border.h"

enum { LOGITS_EVERY = 4, MANY_TOKENS = 64 }; /* the head is a fifth of a small model's work */

/* The sink's rows of a cache input, dense as the graph reads them; NULL where the tensor is none. */
static void *sink_rows(const sw_float_window *w, const sw_tensor *t) {
    const sw_hparams *h = &w->decoder.hparams;
    size_t values = (size_t)(sw_sink_values(h, w->sink != NULL ? w->sink->n_tokens : 0) / (2 * h->n_layers));
    char name[SW_NAME_BYTES];
    for (uint32_t slot = 0; values > 0 && slot < 2 * h->n_layers; slot++) {
        sw_layer_name(name, slot / 2, slot % 2 == 0 ? "k_cache" : "v_cache");
        if (strcmp(name, t->name) == 0) return (float *)(uintptr_t)w->sink->kv + slot * values;
    }
    return NULL;
}

static void free_bindings(const sw_float_window *w, const uint32_t *tensors, sw_binding *bindings,
                          uint32_t n) {
    for (uint32_t i = 0; bindings && i < n; i++)
        if (bindings[i].data != sink_rows(w, w->decoder.graphs[0]->tensors[tensors[i]]))
            free(bindings[i].data);
    free(bindings);
}

void sw_float_window_free(sw_float_window *w) {
    if (w->program) w->device->ops->unload(w->program);
    if (w->n_tokens) {
        const sw_graph *graph = w->decoder.graphs[0];
        free_bindings(w, graph->inputs, w->inputs, graph->n_inputs);
        free_bindings(w, graph->outputs, w->outputs, graph->n_outputs);
        sw_groups_free(&w->groups);
        sw_decoder_free(&w->decoder);
    }
    w->program = NULL;
    w->inputs = w->outputs = NULL;
    w->n_tokens = 0;
}

static sw_code allocate_bindings(const sw_float_window *w, const uint32_t *tensors, uint32_t n,
                                 sw_binding **out, sw_error *err) {
    sw_binding *bindings = *out = calloc(n + 1u, sizeof *bindings);
    for (uint32_t i = 0; bindings && i < n; i++) {
        const sw_tensor *t = w->decoder.graphs[0]->tensors[tensors[i]];
        bindings[i].data = sink_rows(w, t);
        if (!bindings[i].data) bindings[i].data = calloc(1, (size_t)sw_tensor_bytes(t));
        if (!bindings[i].data)
            return SW_FAIL(err, SW_NO_MEMORY,
                           "calibration: no memory for %s, %llu bytes; use shorter windows", t->name,
                           (unsigned long long)sw_tensor_bytes(t));
    }
    return bindings ? SW_OK : SW_FAIL(err, SW_NO_MEMORY, "calibration: out of memory");
}

static sw_code set_up(sw_float_window *w, uint32_t n_tokens, sw_error *err) {
    sw_float_window_free(w);
    const sw_graph_options options = {"calibration", n_tokens, SW_ATTENTION_GROUPED,
                                      n_tokens < MANY_TOKENS ? SW_HEAD_ALL
                                                             : SW_HEAD_ROWS(n_tokens / LOGITS_EVERY)};
    uint32_t before = w->sink != NULL ? w->sink->n_tokens : 0;
    SW_TRY(sw_decoder_build(&w->decoder, w->model, before + n_tokens, &options, 1, err));
    w->n_tokens = n_tokens;
    const sw_graph *graph = w->decoder.graphs[0];
    SW_TRY(sw_groups_init(&w->groups, w->decoder.graphs, 1, err));
    SW_TRY(allocate_bindings(w, graph->inputs, graph->n_inputs, &w->inputs, err));
    SW_TRY(allocate_bindings(w, graph->outputs, graph->n_outputs, &w->outputs, err));
    return w->device->ops->load(w->device, graph, &w->program, err);
}

static sw_code fill_inputs(sw_float_window *w, const int32_t *ids, sw_error *err) {
    const sw_graph *graph = w->decoder.graphs[0];
    uint32_t before = w->sink != NULL ? w->sink->n_tokens : 0;
    const sw_tensor *t[5] = {NULL};
    void *data[5] = {NULL};
    static const char *const names[5] = {"hidden_in", "cos", "sin", "mask", "last"};
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        for (unsigned k = 0; k < 5; k++)
            if (strcmp(graph->tensors[graph->inputs[i]]->name, names[k]) == 0)
                t[k] = graph->tensors[graph->inputs[i]], data[k] = w->inputs[i].data;
    if (!t[0] || !t[1] || !t[2] || !t[3])
        return SW_FAIL(err, SW_INTERNAL, "calibration: the graph lacks one of hidden_in, cos, sin and mask");

    for (uint32_t i = 0; t[4] != NULL && i < t[4]->dims[0]; i++)
        ((int32_t *)data[4])[i] = (int32_t)(i * LOGITS_EVERY + LOGITS_EVERY - 1);
    uint32_t *positions = calloc(w->n_tokens, sizeof *positions);
    if (!positions) return SW_FAIL(err, SW_NO_MEMORY, "calibration: out of memory");
    for (uint32_t i = 0; i < w->n_tokens; i++)
        positions[i] = before + i - (w->begins != NULL ? w->begins[i] : 0);
    sw_border_fill_rotary(t[1], t[2], w->decoder.hparams.rope_theta, positions, w->n_tokens, data[1],
                          data[2]);
    free(positions);
    sw_border_fill_mask(t[3], before, data[3]);
    const uint32_t columns = before + w->n_tokens;
    for (uint32_t i = 0; w->begins != NULL && i < w->n_tokens; i++)
        for (uint32_t c = before; c < before + w->begins[i]; c++) /* documents before this one */
            ((float *)data[3])[i * columns + c] = SW_MASK_BLOCKED;
    return sw_border_fill_hidden(t[0], w->decoder.embedding, ids, w->n_tokens, data[0], err);
}

void sw_drop_read_weights(void *context, const sw_graph *graph, const sw_op *op, const void *const *values) {
    (void)context, (void)values;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        const sw_tensor *t = graph->tensors[op->inputs[i]];
        if (t->kind == SW_TENSOR_CONSTANT && t->weight != NULL) sw_weight_drop_pages(t->weight);
    }
}

typedef struct observers {
    sw_observer *observer; /* or NULL */
    void *context;
} observers;

static void observe_and_drop(void *context, const sw_graph *graph, const sw_op *op,
                             const void *const *values) {
    const observers *o = context;
    if (o->observer != NULL) o->observer(o->context, graph, op, values);
    sw_drop_read_weights(NULL, graph, op, values);
}

sw_code sw_float_window_run(sw_float_window *w, const sw_window *window, sw_observer *observer, void *context,
                            sw_error *err) {
    if (window->n_tokens == 0) return SW_FAIL(err, SW_INVALID_ARGUMENT, "it has no tokens");
    if (window->n_tokens != w->n_tokens) SW_TRY(set_up(w, window->n_tokens, err));
    SW_TRY(fill_inputs(w, window->ids, err));
    observers both = {observer, context};
    return w->device->ops->execute(w->program, w->inputs, w->outputs, observe_and_drop, &both, err);
}

sw_window sw_window_behind(const sw_sink *sink, sw_window window) {
    uint32_t n = 0;
    while (sink != NULL && n < sink->n_tokens && n + 1 < window.n_tokens && window.ids[n] == sink->ids[n])
        n++;
    return (sw_window){window.ids + n, window.n_tokens - n};
}
