/* verify.c: checks a graph's order, names and border, and one shape rule an op. */
#include "graph/verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/verify_parts.h"

typedef struct check {
    const sw_graph *graph;
    const sw_op *op;
    const sw_tensor *in[SW_MAX_INPUTS], *out, *places; /* places: of TopK */
    sw_error *err;
} check;

#define BAD(c, format, ...)                                                                                  \
    SW_FAIL((c)->err, SW_BAD_DATA, "%s: %s `%s`: " format, (c)->graph->name,                                 \
            sw_op_get_info((c)->op->type)->name, (c)->op->name, __VA_ARGS__)

static const char *describe(const sw_tensor *t, char out[160]) {
    int n = snprintf(out, 160, "`%.64s` %s [", t->name, sw_dtype_name(t->dtype));
    for (uint32_t i = 0; i < t->rank && n < 140; i++)
        n += snprintf(out + n, 160 - (size_t)n, i ? ",%u" : "%u", t->dims[i]);
    snprintf(out + n, 160 - (size_t)n, "]");
    return out;
}

static bool same_dims(const sw_tensor *a, const sw_tensor *b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

static bool same_encoding(const sw_tensor *a, const sw_tensor *b) {
    return a->encoding.scale == b->encoding.scale && a->encoding.offset == b->encoding.offset;
}

/* Numpy's broadcast of a and b gives out? */
static bool broadcasts(const sw_tensor *a, const sw_tensor *b, const sw_tensor *out) {
    for (uint32_t i = 0; i < out->rank; i++) { /* from the last dimension on */
        uint32_t da = i < a->rank ? a->dims[a->rank - 1 - i] : 1,
                 db = i < b->rank ? b->dims[b->rank - 1 - i] : 1;
        uint32_t d = out->dims[out->rank - 1 - i];
        if ((da != d && da != 1) || (db != d && db != 1) || (da != d && db != d)) return false;
    }
    return a->rank <= out->rank && b->rank <= out->rank;
}

/* Channels of w [channels, in] that the op takes; 0: it can't. */
static uint32_t channels_taken(const sw_op *op, const sw_tensor *w) {
    const uint32_t begin = op->channels.begin, end = op->channels.end;
    if (end == 0) return begin == 0 ? w->dims[0] : 0;
    const bool interleaved = w->weight != NULL && w->weight->interleaved_head_dim != 0;
    return begin < end && end <= w->dims[0] && !interleaved ? end - begin : 0;
}

/* x [rows, in], w [channels, in] -> y [rows, channels taken] */
static bool linear_fits(const sw_op *op, const sw_tensor *x, const sw_tensor *w, const sw_tensor *y) {
    return x->rank == 2 && w->rank == 2 && y->rank == 2 && x->dims[1] == w->dims[1] &&
           y->dims[0] == x->dims[0] && y->dims[1] == channels_taken(op, w) && w->kind == SW_TENSOR_CONSTANT;
}

static bool matmul_fits(const sw_op *op, const sw_tensor *a, const sw_tensor *b, const sw_tensor *y) {
    const bool transpose_in1 = op->params.matmul.transpose_in1;
    if (b->kind == SW_TENSOR_CONSTANT) return transpose_in1 && linear_fits(op, a, b, y);
    if (op->channels.end != 0 || a->rank != 4 || b->rank != 4 || y->rank != 4) return false;
    uint32_t k = b->dims[transpose_in1 ? 3 : 2], n = b->dims[transpose_in1 ? 2 : 3];
    return a->dims[0] == b->dims[0] && a->dims[1] == b->dims[1] && a->dims[3] == k &&
           y->dims[0] == a->dims[0] && y->dims[1] == a->dims[1] && y->dims[2] == a->dims[2] &&
           y->dims[3] == n;
}

static bool rotary_fits(const sw_tensor *x, const sw_tensor *angles) {
    return x->rank == 4 && angles->rank == 3 && angles->dims[0] == x->dims[0] &&
           angles->dims[1] == x->dims[2] && x->dims[3] % 2 == 0 && angles->dims[2] == x->dims[3] / 2;
}

static bool transpose_fits(const sw_op *op, const sw_tensor *x, const sw_tensor *y) {
    uint32_t seen = 0;
    if (x->rank != y->rank) return false;
    for (uint32_t i = 0; i < x->rank; i++) {
        uint32_t p = op->params.transpose.perm[i];
        if (p >= x->rank || (seen & 1u << p) != 0 || y->dims[i] != x->dims[p]) return false;
        seen |= 1u << p;
    }
    return true;
}

static bool concat_fits(const check *c) {
    uint32_t axis = c->op->params.concat.axis;
    uint64_t sum = 0;
    if (axis >= c->out->rank) return false;
    for (uint32_t i = 0; i < c->op->n_inputs; i++) {
        if (c->in[i]->rank != c->out->rank) return false;
        for (uint32_t d = 0; d < c->out->rank; d++)
            if (d != axis && c->in[i]->dims[d] != c->out->dims[d]) return false;
        sum += c->in[i]->dims[axis];
    }
    return sum == c->out->dims[axis];
}

static bool slice_fits(const sw_op *op, const sw_tensor *x, const sw_tensor *y) {
    if (x->rank != y->rank) return false;
    for (uint32_t i = 0; i < x->rank; i++) {
        uint32_t begin = op->params.strided_slice.begin[i], end = op->params.strided_slice.end[i];
        if (begin >= end || end > x->dims[i] || y->dims[i] != end - begin) return false;
    }
    return true;
}

static bool gather_fits(const sw_tensor *x, const sw_tensor *indices, const sw_tensor *y) {
    return indices->rank == 1 && y->rank == x->rank && y->dims[0] == indices->dims[0] &&
           memcmp(y->dims + 1, x->dims + 1, (x->rank - 1) * sizeof *x->dims) == 0;
}

static bool top_k_fits(const sw_tensor *x, const sw_tensor *y, const sw_tensor *places) {
    return x->rank == y->rank && same_dims(y, places) && y->dims[y->rank - 1] <= x->dims[x->rank - 1] &&
           memcmp(y->dims, x->dims, (x->rank - 1) * sizeof *x->dims) == 0;
}

static sw_code check_shapes(const check *c) {
    const sw_op *op = c->op;
    const sw_tensor *x = c->in[0], *w = op->n_inputs > 1 ? c->in[1] : NULL, *y = c->out;
    bool ok = false;
    switch (op->type) {
    case SW_OP_FULLY_CONNECTED:
        ok = linear_fits(op, x, w, y);
        break;
    case SW_OP_MATMUL:
        ok = matmul_fits(op, x, w, y);
        break;
    case SW_OP_RMS_NORM:
        ok = same_dims(x, y) && w->rank == 1 && w->dims[0] == x->dims[x->rank - 1] &&
             w->kind == SW_TENSOR_CONSTANT && op->params.rms_norm.epsilon > 0 &&
             isfinite(op->params.rms_norm.epsilon);
        break;
    case SW_OP_ROTARY_EMBEDDING:
        ok = same_dims(x, y) && rotary_fits(x, w) && same_dims(w, c->in[2]);
        break;
    case SW_OP_SOFTMAX:
        ok = same_dims(x, y) && op->params.softmax.beta > 0 && isfinite(op->params.softmax.beta);
        break;
    case SW_OP_SIGMOID:
    case SW_OP_CONVERT:
        ok = same_dims(x, y);
        break;
    case SW_OP_ADD:
    case SW_OP_MULTIPLY:
        ok = broadcasts(x, w, y);
        break;
    case SW_OP_TRANSPOSE:
        ok = transpose_fits(op, x, y);
        break;
    case SW_OP_RESHAPE:
        ok = sw_tensor_elements(x) == sw_tensor_elements(y);
        break;
    case SW_OP_CONCAT:
        ok = concat_fits(c);
        break;
    case SW_OP_STRIDED_SLICE:
        ok = slice_fits(op, x, y);
        break;
    case SW_OP_GATHER:
        ok = gather_fits(x, w, y);
        break;
    case SW_OP_TOP_K:
        ok = top_k_fits(x, y, c->places);
        break;
    case SW_OP_COUNT:
        break;
    }
    if (ok) return SW_OK;
    char a[160], b[160], o[160];
    return BAD(c, "shapes or parameters don't fit: %s%s%s -> %s", describe(x, a), w != NULL ? ", " : "",
               w != NULL ? describe(w, b) : "", describe(y, o));
}

static sw_code check_movement(const check *c) {
    if (!sw_op_get_info(c->op->type)->movement || !sw_dtype_quantized(c->out->dtype)) return SW_OK;
    for (uint32_t i = 0; i < c->op->n_inputs; i++) {
        const sw_tensor *x = c->in[i];
        if (x->role == SW_ROLE_INDEX || same_encoding(x, c->out)) continue;
        return BAD(c, "moves `%s` (scale %.9g, offset %d) to `%s` (scale %.9g, offset %d), but can't rescale",
                   x->name, (double)x->encoding.scale, x->encoding.offset, c->out->name,
                   (double)c->out->encoding.scale, c->out->encoding.offset);
    }
    return SW_OK;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static sw_code check_names(const sw_graph *graph, const char **names, sw_error *err) {
    for (uint32_t i = 0; i < graph->n_tensors; i++) names[i] = graph->tensors[i]->name;
    qsort(names, graph->n_tensors, sizeof *names, compare_names);
    for (uint32_t i = 1; i < graph->n_tensors; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return SW_FAIL(err, SW_BAD_DATA, "%s: two tensors are named `%s`", graph->name, names[i]);
    return SW_OK;
}

/* made[t]: tensor t has its value before the op in hand. */
static sw_code check_ops(const sw_graph *graph, bool *made, sw_error *err) {
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        sw_tensor_kind kind = graph->tensors[i]->kind;
        made[i] = kind == SW_TENSOR_INPUT || kind == SW_TENSOR_CONSTANT;
    }
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const sw_op *op = &graph->ops[i];
        const sw_op_info *info = sw_op_get_info(op->type);
        check c = {.graph = graph, .op = op, .err = err};
        if (op->n_inputs < info->least_inputs || op->n_inputs > info->most_inputs ||
            op->n_outputs != info->n_outputs)
            return BAD(&c, "%u inputs and %u outputs, wanted %u to %u and %u", op->n_inputs, op->n_outputs,
                       info->least_inputs, info->most_inputs, info->n_outputs);
        for (uint32_t k = 0; k < op->n_inputs; k++) {
            if (op->inputs[k] >= graph->n_tensors)
                return BAD(&c, "input %u is tensor %u of %u", k, op->inputs[k], graph->n_tensors);
            c.in[k] = graph->tensors[op->inputs[k]];
            if (!made[op->inputs[k]])
                return BAD(&c, "reads `%s` before any op has written it", c.in[k]->name);
        }
        for (uint32_t k = 0; k < op->n_outputs; k++) {
            uint32_t out = op->outputs[k];
            if (out >= graph->n_tensors)
                return BAD(&c, "its output is tensor %u of %u", out, graph->n_tensors);
            if (made[out])
                return BAD(&c, "writes `%s`, which has a value already", graph->tensors[out]->name);
            made[out] = true;
        }
        c.out = graph->tensors[op->outputs[0]];
        c.places = op->n_outputs > 1 ? graph->tensors[op->outputs[1]] : NULL;
        SW_TRY(sw_verify_op_types(graph, op, err));
        SW_TRY(check_shapes(&c));
        SW_TRY(check_movement(&c));
    }
    for (uint32_t i = 0; i < graph->n_tensors; i++)
        if (!made[i])
            return SW_FAIL(err, SW_BAD_DATA, "%s: no op writes `%s`", graph->name, graph->tensors[i]->name);
    return SW_OK;
}

sw_code sw_graph_verify(const sw_graph *graph, sw_error *err) {
    for (uint32_t i = 0; i < graph->n_tensors; i++) SW_TRY(sw_verify_tensor(graph, graph->tensors[i], err));
    const char **names = calloc(graph->n_tensors + 1u, sizeof *names);
    bool *made = calloc(graph->n_tensors + 1u, sizeof *made);
    sw_code code = SW_OK;
    if (names == NULL || made == NULL) code = SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", graph->name);
    if (code == SW_OK) code = check_names(graph, names, err);
    if (code == SW_OK) code = check_ops(graph, made, err);
    free(names);
    free(made);
    return code;
}

/* A border tensor of that shape; rank 0 in `want` for any. */
static sw_code check_border(const sw_graph *graph, const char *name, sw_tensor_kind kind,
                            const uint32_t *want, uint32_t rank, const sw_tensor **out, sw_error *err) {
    uint32_t index = sw_graph_find(graph, name);
    if (index == UINT32_MAX || graph->tensors[index]->kind != kind)
        return SW_FAIL(err, SW_BAD_DATA, "%s: has no %s `%s`", graph->name, sw_tensor_kind_name(kind), name);
    const sw_tensor *t = graph->tensors[index];
    if (t->rank != rank || memcmp(t->dims, want, rank * sizeof *want) != 0) {
        char have[160];
        sw_tensor wanted = {.name = name, .dtype = t->dtype, .rank = rank};
        memcpy(wanted.dims, want, rank * sizeof *want);
        char should[160];
        return SW_FAIL(err, SW_BAD_DATA, "%s: %s, wanted %s", graph->name, describe(t, have),
                       describe(&wanted, should));
    }
    if (out != NULL) *out = t;
    return SW_OK;
}

static sw_code check_kv(const sw_decoder *decoder, const sw_graph *graph, uint32_t layer, const char *name,
                        const sw_tensor **first, sw_error *err) {
    const sw_hparams *h = &decoder->hparams;
    uint32_t n = graph->ar_len, c = graph->context_len - n;
    char text[SW_NAME_BYTES], suffixed[16];
    const sw_tensor *t[2] = {NULL, NULL};
    snprintf(suffixed, sizeof suffixed, "%s_new", name);
    sw_layer_name(text, layer, suffixed);
    SW_TRY(check_border(graph, text, SW_TENSOR_OUTPUT, (uint32_t[]){1, h->n_kv_heads, n, h->head_dim}, 4,
                        &t[0], err));
    if (c > 0) {
        snprintf(suffixed, sizeof suffixed, "%s_cache", name);
        sw_layer_name(text, layer, suffixed);
        SW_TRY(check_border(graph, text, SW_TENSOR_INPUT, (uint32_t[]){1, h->n_kv_heads, c, h->head_dim}, 4,
                            &t[1], err));
    }
    for (unsigned i = 0; i < 2 && t[i] != NULL; i++) {
        if (*first == NULL) *first = t[i];
        if (t[i]->dtype != (*first)->dtype ||
            (sw_dtype_quantized(t[i]->dtype) && !same_encoding(t[i], *first)))
            return SW_FAIL(
                err, SW_BAD_DATA,
                "%s: `%s` is %s (scale %.9g, offset %d), elsewhere %s (scale %.9g, offset %d): the graphs "
                "couldn't read each other's KV cache",
                graph->name, t[i]->name, sw_dtype_name(t[i]->dtype), (double)t[i]->encoding.scale,
                t[i]->encoding.offset, sw_dtype_name((*first)->dtype), (double)(*first)->encoding.scale,
                (*first)->encoding.offset);
    }
    return SW_OK;
}

/* One row in any shape, all rows, or candidates [1, N]. */
static sw_code check_logits(const sw_graph *graph, uint32_t vocab, sw_error *err) {
    sw_candidates c = sw_graph_candidates(graph);
    const sw_tensor *t = c.logits;
    char have[160];
    if (t == NULL || t->kind != SW_TENSOR_OUTPUT)
        return SW_FAIL(err, SW_BAD_DATA, "%s: has no output `logits`", graph->name);
    if (c.tokens != NULL) {
        const uint32_t n = t->dims[t->rank - 1];
        if (t->rank == 2 && t->dims[0] == 1 && n <= vocab && same_dims(t, c.tokens) &&
            c.tokens->kind == SW_TENSOR_OUTPUT && c.tokens->dtype == SW_I32)
            return SW_OK;
        return SW_FAIL(err, SW_BAD_DATA, "%s: %s beside `tokens`, wanted both [1,N] with N up to %u",
                       graph->name, describe(t, have), vocab);
    }
    bool one_row = sw_tensor_elements(t) == vocab;
    if (one_row || (t->rank == 2 && t->dims[0] == graph->ar_len && t->dims[1] == vocab)) return SW_OK;
    return SW_FAIL(err, SW_BAD_DATA, "%s: %s, wanted %u logits or [%u,%u]", graph->name, describe(t, have),
                   vocab, graph->ar_len, vocab);
}

/* What the graph gets, against what the same kind of graph hands out in the shard before. */
static sw_code check_hand_over(const sw_decoder *decoder, uint32_t g, sw_error *err) {
    const sw_hparams *h = &decoder->hparams;
    const sw_graph *graph = decoder->graphs[g];
    const sw_tensor *in, *out;
    const uint32_t rows[2] = {graph->ar_len, h->hidden};
    char name[SW_NAME_BYTES];
    SW_TRY(check_border(graph, sw_graph_first_input(graph, name), SW_TENSOR_INPUT, rows, 2, &in, err));
    if (graph->shard > 0) {
        const sw_graph *before = decoder->graphs[g - sw_decoder_kinds(decoder)];
        SW_TRY(check_border(before, name, SW_TENSOR_OUTPUT, rows, 2, &out, err));
        if (in->dtype != out->dtype || (sw_dtype_quantized(in->dtype) && !same_encoding(in, out)))
            return SW_FAIL(err, SW_BAD_DATA,
                           "%s: `%s` leaves shard %u as %s (scale %.9g, offset %d), but shard %u reads it as "
                           "%s (scale %.9g, offset %d)",
                           graph->name, name, before->shard, sw_dtype_name(out->dtype),
                           (double)out->encoding.scale, out->encoding.offset, graph->shard,
                           sw_dtype_name(in->dtype), (double)in->encoding.scale, in->encoding.offset);
    }
    return graph->end_layer == h->n_layers ? check_logits(graph, h->vocab, err) : SW_OK;
}

static sw_code check_cut(const sw_decoder *decoder, sw_error *err) {
    uint32_t kinds = sw_decoder_kinds(decoder);
    if (kinds < 1 || kinds > SW_MAX_KINDS || decoder->n_shards > decoder->hparams.n_layers)
        return SW_FAIL(err, SW_BAD_DATA, "the decoder has %u graphs in %u shards of %u layers",
                       decoder->n_graphs, decoder->n_shards, decoder->hparams.n_layers);
    for (uint32_t g = 0; g < decoder->n_graphs; g++) {
        const sw_graph *graph = decoder->graphs[g], *first = decoder->graphs[g % kinds];
        const sw_layer_run run = sw_shard_layers(decoder->hparams.n_layers, decoder->n_shards, g / kinds);
        if (graph->shard != g / kinds || graph->begin_layer != run.begin || graph->end_layer != run.end)
            return SW_FAIL(err, SW_BAD_DATA, "%s: is shard %u with layers %u to %u, wanted %u with %u to %u",
                           graph->name, graph->shard, graph->begin_layer, graph->end_layer, g / kinds,
                           run.begin, run.end);
        if (graph->ar_len != first->ar_len || strcmp(graph->name, first->name) != 0)
            return SW_FAIL(err, SW_BAD_DATA, "%s: shard %u has AR length %u, the first shard %s with %u",
                           graph->name, graph->shard, graph->ar_len, first->name, first->ar_len);
    }
    return SW_OK;
}

/* A token must still fit behind it, in the graph of the least AR length. */
static sw_code check_sink(const sw_decoder *decoder, sw_error *err) {
    const sw_sink *sink = &decoder->sink;
    if (sink->n_tokens == 0) return SW_OK;
    uint32_t least = decoder->graphs[0]->ar_len;
    for (uint32_t g = 1; g < decoder->n_graphs; g++)
        if (decoder->graphs[g]->ar_len < least) least = decoder->graphs[g]->ar_len;
    if (sink->n_tokens > decoder->context_len - least)
        return SW_FAIL(err, SW_BAD_DATA,
                       "a sink of %u tokens, wanted at most %u: the context has %u positions, and a graph of "
                       "AR length %u must fit behind it",
                       sink->n_tokens, decoder->context_len - least, decoder->context_len, least);
    if (sink->ids == NULL || sink->kv == NULL) return SW_FAIL(err, SW_BAD_DATA, "the sink has no values");
    for (uint32_t i = 0; i < sink->n_tokens; i++)
        if (sink->ids[i] < 0 || (uint32_t)sink->ids[i] >= decoder->hparams.vocab)
            return SW_FAIL(err, SW_BAD_DATA, "the sink's token %u has id %d, wanted 0 to %u", i, sink->ids[i],
                           decoder->hparams.vocab - 1);
    return SW_OK;
}

sw_code sw_decoder_verify(const sw_decoder *decoder, sw_error *err) {
    const sw_hparams *h = &decoder->hparams;
    const sw_tensor *kv[2] = {NULL, NULL}; /* of the layer in hand */
    SW_TRY(check_cut(decoder, err));
    for (uint32_t g = 0; g < decoder->n_graphs; g++) {
        const sw_graph *graph = decoder->graphs[g];
        uint32_t n = graph->ar_len;
        if (n < 1 || graph->context_len != decoder->context_len || n > graph->context_len)
            return SW_FAIL(err, SW_BAD_DATA, "%s: AR length %u, context length %u; wanted 1 to %u and %u",
                           graph->name, n, graph->context_len, decoder->context_len, decoder->context_len);
        SW_TRY(sw_graph_verify(graph, err));
        uint32_t angles[3] = {1, n, h->head_dim / 2};
        SW_TRY(check_border(graph, "cos", SW_TENSOR_INPUT, angles, 3, NULL, err));
        SW_TRY(check_border(graph, "sin", SW_TENSOR_INPUT, angles, 3, NULL, err));
        SW_TRY(check_border(graph, "mask", SW_TENSOR_INPUT, (uint32_t[]){1, 1, n, graph->context_len}, 4,
                            NULL, err));
        SW_TRY(check_hand_over(decoder, g, err));
    }
    for (uint32_t layer = 0; layer < h->n_layers; layer++) {
        kv[0] = kv[1] = NULL;
        for (uint32_t g = 0; g < decoder->n_graphs; g++) {
            const sw_graph *graph = decoder->graphs[g];
            if (layer < graph->begin_layer || layer >= graph->end_layer) continue;
            SW_TRY(check_kv(decoder, graph, layer, "k", &kv[0], err));
            SW_TRY(check_kv(decoder, graph, layer, "v", &kv[1], err));
        }
    }
    const sw_tensor *e = decoder->embedding;
    if (e == NULL || e->rank != 2 || e->dims[0] != h->vocab || e->dims[1] != h->hidden)
        return SW_FAIL(err, SW_BAD_DATA, "the embedding isn't [%u,%u]", h->vocab, h->hidden);
    return check_sink(decoder, err);
}

uint32_t sw_graph_count_ops(const sw_graph *graph, sw_op_type type) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->n_ops; i++) n += graph->ops[i].type == type;
    return n;
}
