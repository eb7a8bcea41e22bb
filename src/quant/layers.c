/* layers.c: a stage is the ops up to the next linear layer's input. Its values are kept for all windows, and
 * go into the next stage: every op runs once a window, whatever was rounded in between. */
#include "quant/layers.h"

#include <stdlib.h>
#include <string.h>

#include "device/border.h"
#include "graph/extract.h"
#include "quant/window.h"

enum { NONE = UINT32_MAX };

typedef enum run { MODELS, ROUNDED, N_RUNS } run;

/* Windows of one length have one graph. Op and tensor indices are the same in all of them. */
typedef struct length {
    uint32_t n_tokens;
    sw_decoder decoder;
} length;

typedef struct text_window {
    length *length;
    float **values[2]; /* of both runs, [n_tensors of the graph]: what is alive, owned */
} text_window;

struct sw_layers {
    const sw_model *model;
    sw_device *device;
    sw_pool *pool;
    length *lengths; /* [n_lengths] */
    text_window *windows;
    size_t n_lengths, n_windows;
    uint32_t n_sink;                /* tokens before each window */
    uint32_t next_op, input, block; /* the input whose moments are there, or NONE; the factor's block */
    uint32_t *last_reader;          /* [n_tensors] */
    float **replaced;               /* [n_constants]: owned */
    sw_moments moments;
    sw_factor factor;
};

static const sw_graph *graph_of(const sw_layers *l) {
    return l->lengths[0].decoder.graphs[0];
}

static sw_code no_memory(sw_error *err) {
    return SW_FAIL(err, SW_NO_MEMORY, "no memory to run the layers for rounding");
}

static void drop_values(const sw_layers *l, text_window *w) {
    for (run r = 0; r < N_RUNS; r++) {
        for (uint32_t t = 0; w->values[r] != NULL && t < graph_of(l)->n_tensors; t++) free(w->values[r][t]);
        free(w->values[r]);
    }
}

void sw_layers_destroy(sw_layers *l) {
    if (l == NULL) return;
    for (size_t i = 0; i < l->n_windows; i++) drop_values(l, &l->windows[i]);
    for (uint32_t c = 0; l->replaced != NULL && c < l->lengths[0].decoder.n_constants; c++)
        free(l->replaced[c]);
    for (size_t i = 0; i < l->n_lengths; i++) sw_decoder_free(&l->lengths[i].decoder);
    free(l->replaced);
    free(l->last_reader);
    free(l->windows);
    free(l->lengths);
    sw_moments_free(&l->moments);
    sw_factor_free(&l->factor);
    free(l);
}

static sw_code length_of(sw_layers *l, uint32_t n_tokens, length **out, sw_error *err) {
    for (size_t i = 0; i < l->n_lengths; i++)
        if (l->lengths[i].n_tokens == n_tokens) {
            *out = &l->lengths[i];
            return SW_OK;
        }
    const sw_graph_options options = {"layers", n_tokens, SW_ATTENTION_GROUPED, SW_HEAD_ALL};
    *out = &l->lengths[l->n_lengths];
    SW_TRY(sw_decoder_build(&(*out)->decoder, l->model, n_tokens, &options, 1, err));
    (*out)->n_tokens = n_tokens;
    l->n_lengths++;
    return SW_OK;
}

static sw_code fill_inputs(text_window *w, run r, const int32_t *ids, sw_error *err) {
    const sw_decoder *decoder = &w->length->decoder;
    const sw_graph *graph = decoder->graphs[0];
    uint32_t n = w->length->n_tokens;
    uint32_t *positions = calloc(n, sizeof *positions);
    float **values = w->values[r] = calloc(graph->n_tensors, sizeof *values);
    if (positions == NULL || values == NULL) {
        free(positions);
        return no_memory(err);
    }
    static const char *const names[4] = {"hidden_in", "cos", "sin", "mask"};
    const sw_tensor *t[4];
    float *data[4];
    sw_code code = SW_OK;
    for (unsigned k = 0; k < 4 && code == SW_OK; k++) {
        uint32_t index = sw_graph_find(graph, names[k]);
        t[k] = graph->tensors[index];
        data[k] = values[index] = malloc((size_t)sw_tensor_bytes(t[k]));
        if (data[k] == NULL) code = no_memory(err);
    }
    if (code == SW_OK) {
        for (uint32_t i = 0; i < n; i++) positions[i] = i;
        sw_border_fill_rotary(t[1], t[2], decoder->hparams.rope_theta, positions, n, data[1], data[2]);
        sw_border_fill_mask(t[3], 0, data[3]);
        code = sw_border_fill_hidden(t[0], decoder->embedding, ids, n, data[0], err);
    }
    free(positions);
    return code;
}

static sw_code add_window(sw_layers *l, const sw_sink *sink, sw_window window, sw_error *err) {
    text_window *w = &l->windows[l->n_windows];
    uint32_t n = l->n_sink + window.n_tokens;
    int32_t *ids = malloc(n * sizeof *ids);
    if (ids == NULL) return no_memory(err);
    for (uint32_t i = 0; i < n; i++) ids[i] = i < l->n_sink ? sink->ids[i] : window.ids[i - l->n_sink];
    sw_code code = length_of(l, n, &w->length, err);
    if (code == SW_OK) l->n_windows++;
    for (run r = 0; r < N_RUNS && code == SW_OK; r++) code = fill_inputs(w, r, ids, err);
    free(ids);
    return code;
}

static sw_code add_windows(sw_layers *l, const sw_sink *sink, const sw_window *windows, size_t n_windows,
                           size_t most_tokens, sw_error *err) {
    l->windows = calloc(n_windows + 1, sizeof *l->windows);
    l->lengths = calloc(n_windows + 1, sizeof *l->lengths); /* in place: windows point to them */
    if (l->windows == NULL || l->lengths == NULL) return no_memory(err);
    if (sink != NULL) l->n_sink = sink->n_tokens;
    size_t left = most_tokens;
    for (size_t i = 0; i < n_windows && left > 0; i++) {
        sw_window window = sw_window_behind(sink, windows[i]);
        if (window.n_tokens > left) window.n_tokens = (uint32_t)left;
        left -= window.n_tokens;
        if (window.n_tokens >= 2) SW_TRY(add_window(l, sink, window, err)); /* graphs of 1 have fewer ops */
    }
    if (l->n_windows == 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "rounding has no text: wanted a window of 2 tokens and more");
    return SW_OK;
}

sw_code sw_layers_create(sw_layers **out, const sw_model *model, const sw_sink *sink, sw_device *device,
                         sw_pool *pool, const sw_window *windows, size_t n_windows, size_t most_tokens,
                         sw_error *err) {
    sw_layers *l = *out = calloc(1, sizeof *l);
    if (l == NULL) return no_memory(err);
    l->model = model, l->device = device, l->pool = pool, l->input = NONE;
    sw_code code = add_windows(l, sink, windows, n_windows, most_tokens, err);
    if (code == SW_OK) {
        const sw_graph *graph = graph_of(l);
        l->last_reader = calloc(graph->n_tensors, sizeof *l->last_reader);
        l->replaced = calloc(l->lengths[0].decoder.n_constants, sizeof *l->replaced);
        if (l->last_reader == NULL || l->replaced == NULL) code = no_memory(err);
        for (uint32_t i = 0; code == SW_OK && i < graph->n_ops; i++)
            for (uint32_t k = 0; k < graph->ops[i].n_inputs; k++) l->last_reader[graph->ops[i].inputs[k]] = i;
    }
    if (code != SW_OK) {
        sw_layers_destroy(l);
        *out = NULL;
    }
    return code;
}

/* A stage: ops first to end - 1 of a window's graph, what later ops read of them as outputs. */
static sw_graph *make_stage(const sw_layers *l, sw_arena *arena, const sw_graph *graph, uint32_t first,
                            uint32_t end) {
    sw_graph *stage = sw_graph_extract_ops(arena, graph, first, end - first);
    if (stage == NULL) return NULL;
    for (uint32_t i = first; i < end; i++) {
        uint32_t made = graph->ops[i].outputs[0];
        sw_tensor *t = stage->tensors[sw_graph_find(stage, graph->tensors[made]->name)];
        t->kind = l->last_reader[made] >= end ? SW_TENSOR_OUTPUT : SW_TENSOR_NATIVE;
    }
    return sw_graph_seal(stage) ? stage : NULL;
}

static sw_code run_stage(sw_layers *l, text_window *w, run r, uint32_t end, sw_error *err) {
    const sw_decoder *decoder = &w->length->decoder;
    const sw_graph *graph = decoder->graphs[0];
    float **values = w->values[r];
    for (uint32_t c = 0; c < decoder->n_constants; c++)
        decoder->constants[c]->data = r == ROUNDED ? l->replaced[c] : NULL;
    sw_arena arena = SW_ARENA_EMPTY;
    sw_program *program = NULL;
    sw_graph *stage = make_stage(l, &arena, graph, l->next_op, end);
    sw_binding *inputs = sw_arena_array(&arena, graph->n_tensors, sizeof *inputs);
    sw_binding *outputs = sw_arena_array(&arena, graph->n_tensors, sizeof *outputs);
    sw_code code = stage != NULL && inputs != NULL && outputs != NULL ? SW_OK : no_memory(err);
    for (uint32_t i = 0; code == SW_OK && i < stage->n_inputs; i++)
        inputs[i].data = values[sw_graph_find(graph, stage->tensors[stage->inputs[i]]->name)];
    for (uint32_t i = 0; code == SW_OK && i < stage->n_outputs; i++) {
        const sw_tensor *t = stage->tensors[stage->outputs[i]];
        outputs[i].data = values[sw_graph_find(graph, t->name)] = malloc((size_t)sw_tensor_bytes(t));
        if (outputs[i].data == NULL) code = no_memory(err);
    }
    if (code == SW_OK) code = l->device->ops->load(l->device, stage, &program, err);
    if (code == SW_OK) code = l->device->ops->execute(program, inputs, outputs, NULL, NULL, err);
    if (program != NULL) l->device->ops->unload(program);
    sw_arena_free(&arena);
    for (uint32_t t = 0; t < graph->n_tensors; t++)
        if (values[t] != NULL && l->last_reader[t] < end) {
            free(values[t]);
            values[t] = NULL;
        }
    return code;
}

static void set_constant(sw_layers *l, uint32_t constant, float *values) {
    free(l->replaced[constant]);
    l->replaced[constant] = values;
}

static uint32_t find_constant(const sw_layers *l, const char *name) {
    const sw_decoder *decoder = &l->lengths[0].decoder;
    for (uint32_t c = 0; c < decoder->n_constants; c++)
        if (strcmp(decoder->constants[c]->name, name) == 0) return c;
    return NONE;
}

/* Runs on to that op, which is not run. Replaced matrices that were read by then are given back. */
static sw_code run_to(sw_layers *l, uint32_t end, sw_error *err) {
    for (size_t i = 0; i < l->n_windows && l->next_op < end; i++)
        for (run r = 0; r < N_RUNS; r++) SW_TRY(run_stage(l, &l->windows[i], r, end, err));
    for (uint32_t i = l->next_op; i < end; i++) {
        const sw_op *op = &graph_of(l)->ops[i];
        sw_drop_read_weights(NULL, graph_of(l), op, NULL);
        if (op->type == SW_OP_FULLY_CONNECTED)
            set_constant(l, find_constant(l, graph_of(l)->tensors[op->inputs[1]]->name), NULL);
    }
    l->next_op = end;
    return SW_OK;
}

static sw_code sum_moments(sw_layers *l, uint32_t input, sw_error *err) {
    const sw_tensor *t = graph_of(l)->tensors[input];
    if (l->moments.n != t->dims[t->rank - 1]) {
        sw_moments_free(&l->moments);
        SW_TRY(sw_moments_init(&l->moments, t->dims[t->rank - 1], err));
    }
    sw_moments_clear(&l->moments);
    for (size_t i = 0; i < l->n_windows; i++) {
        const text_window *w = &l->windows[i];
        const size_t skipped = l->n_sink * l->moments.n;
        SW_TRY(sw_moments_add(&l->moments, w->values[ROUNDED][input] + skipped,
                              w->values[MODELS][input] + skipped, w->length->n_tokens - l->n_sink, l->pool,
                              err));
    }
    return SW_OK;
}

sw_code sw_layers_factor(sw_layers *l, const sw_tensor *constant, const sw_factor **out, sw_error *err) {
    const sw_graph *graph = graph_of(l);
    uint32_t at = 0;
    while (at < graph->n_ops && (graph->ops[at].type != SW_OP_FULLY_CONNECTED ||
                                 strcmp(graph->tensors[graph->ops[at].inputs[1]]->name, constant->name) != 0))
        at++;
    if (at == graph->n_ops) return SW_FAIL(err, SW_INTERNAL, "%s: no linear layer reads it", constant->name);
    uint32_t input = graph->ops[at].inputs[0];
    uint32_t block = constant->form.block != 0 ? constant->form.block : 1;
    bool new_input = input != l->input;
    if (new_input) {
        if (at < l->next_op) return SW_FAIL(err, SW_INTERNAL, "%s: its layer was run before", constant->name);
        l->input = NONE;
        sw_code code = run_to(l, at, err);
        if (code == SW_OK) code = sum_moments(l, input, err);
        if (code != SW_OK) return sw_error_prefix(err, "%s", graph->tensors[input]->name);
        l->input = input;
    }
    if (new_input || block != l->block) {
        sw_factor_free(&l->factor);
        l->block = block;
        SW_TRY(sw_factor_init(&l->factor, &l->moments, block, l->pool, err));
    }
    *out = &l->factor;
    return SW_OK;
}

sw_code sw_layers_replace(sw_layers *l, const sw_tensor *t, const void *data, sw_error *err) {
    uint32_t constant = find_constant(l, t->name);
    size_t rows = t->dims[0], cols = t->dims[1];
    float *values = malloc(rows * cols * sizeof *values);
    if (values == NULL || constant == NONE) {
        free(values);
        return no_memory(err);
    }
    sw_tensor with_data = *t;
    with_data.data = data;
    for (size_t r = 0; r < rows; r++) sw_weight_matrix_row(&with_data, r, values + r * cols);
    set_constant(l, constant, values);
    return SW_OK;
}
