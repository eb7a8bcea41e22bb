/* session.c: fills a graph's border, executes it, keeps what it hands out. */
#include "runtime/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/border.h"

/* A loaded graph and its border. Buffers live in the session's arena. */
typedef struct loaded {
    const sw_graph *graph;
    sw_program *program;
    sw_binding *inputs, *outputs;                  /* in the graph's order */
    uint32_t hidden, cos, sin, mask, last, logits; /* tensor indices; last may be UINT32_MAX */
    void *hidden_data, *cos_data, *sin_data, *mask_data, *logits_data;
    int32_t last_row;
    void **fresh; /* [2 * n_layers] new K and V of layer i at 2 i and 2 i + 1 */
} loaded;

struct sw_session {
    sw_arena arena;
    const sw_decoder *decoder;
    sw_device *device;
    loaded graphs[SW_MAX_GRAPHS];
    uint32_t n_graphs;
    uint8_t *cache;      /* [layer][K, V][kv_head][C][head_dim] */
    size_t row_bytes;    /* head_dim values of the KV type */
    size_t head_bytes;   /* C rows */
    size_t tensor_bytes; /* kv_heads heads: one K or V of one layer */
    uint32_t filled;
    uint32_t *positions; /* [C] */
    sw_observer *observer;
    void *observer_context;
};

uint32_t sw_session_filled(const sw_session *session) {
    return session->filled;
}
void sw_session_reset(sw_session *session) {
    session->filled = 0;
}

void sw_session_observe(sw_session *session, sw_observer *observer, void *context) {
    session->observer = observer;
    session->observer_context = context;
}

/* Layer and letter of "layer_<i>.<letter>_<what>"; false for other names. */
static bool parse_kv_name(const char *name, const char *what, uint32_t n_layers, uint32_t *slot) {
    if (strncmp(name, "layer_", 6) != 0) return false;
    char *end;
    unsigned long layer = strtoul(name + 6, &end, 10);
    if (layer >= n_layers || end[0] != '.' || (end[1] != 'k' && end[1] != 'v') || end[2] != '_') return false;
    if (strcmp(end + 3, what) != 0) return false;
    *slot = 2 * (uint32_t)layer + (end[1] == 'v');
    return true;
}

static void *border_buffer(sw_session *s, loaded *g, const char *name, uint32_t *index) {
    *index = sw_graph_find(g->graph, name);
    return *index != UINT32_MAX
               ? sw_arena_alloc(&s->arena, (size_t)sw_tensor_bytes(g->graph->tensors[*index]))
               : NULL;
}

/* Gives each border tensor its buffer. */
static sw_code bind(sw_session *s, loaded *g, sw_error *err) {
    const sw_graph *graph = g->graph;
    uint32_t n_layers = s->decoder->hparams.n_layers, slot;
    g->inputs = sw_arena_array(&s->arena, graph->n_inputs, sizeof *g->inputs);
    g->outputs = sw_arena_array(&s->arena, graph->n_outputs, sizeof *g->outputs);
    g->fresh = sw_arena_array(&s->arena, 2 * (size_t)n_layers, sizeof *g->fresh);
    g->hidden_data = border_buffer(s, g, "hidden_in", &g->hidden);
    g->cos_data = border_buffer(s, g, "cos", &g->cos);
    g->sin_data = border_buffer(s, g, "sin", &g->sin);
    g->mask_data = border_buffer(s, g, "mask", &g->mask);
    g->logits_data = border_buffer(s, g, "logits", &g->logits);
    g->last = sw_graph_find(graph, "last");
    if (g->inputs == NULL || g->outputs == NULL || g->fresh == NULL || g->hidden_data == NULL ||
        g->cos_data == NULL || g->sin_data == NULL || g->mask_data == NULL || g->logits_data == NULL)
        return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for its inputs and outputs", graph->name);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        uint32_t index = graph->inputs[i];
        sw_binding *b = &g->inputs[i];
        if (index == g->hidden)
            b->data = g->hidden_data;
        else if (index == g->cos)
            b->data = g->cos_data;
        else if (index == g->sin)
            b->data = g->sin_data;
        else if (index == g->mask)
            b->data = g->mask_data;
        else if (index == g->last)
            b->data = &g->last_row;
        else if (parse_kv_name(graph->tensors[index]->name, "cache", n_layers, &slot))
            *b = (sw_binding){s->cache + slot * s->tensor_bytes, s->head_bytes};
        else
            return SW_FAIL(err, SW_BAD_DATA, "%s: unknown input `%s`", graph->name,
                           graph->tensors[index]->name);
    }
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        uint32_t index = graph->outputs[i];
        const sw_tensor *t = graph->tensors[index];
        sw_binding *b = &g->outputs[i];
        if (index == g->logits) {
            b->data = g->logits_data;
        } else if (parse_kv_name(t->name, "new", n_layers, &slot)) {
            b->data = g->fresh[slot] = sw_arena_alloc(&s->arena, (size_t)sw_tensor_bytes(t));
            if (b->data == NULL)
                return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for `%s`", graph->name, t->name);
        } else {
            return SW_FAIL(err, SW_BAD_DATA, "%s: unknown output `%s`", graph->name, t->name);
        }
    }
    return SW_OK;
}

sw_code sw_session_create(sw_session **out, const sw_decoder *decoder, sw_device *device, sw_error *err) {
    *out = NULL;
    const sw_hparams *h = &decoder->hparams;
    sw_session *s = calloc(1, sizeof *s);
    if (s == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    s->decoder = decoder, s->device = device;
    uint32_t k = sw_graph_find(decoder->graphs[0], "layer_0.k_new");
    sw_dtype kv = k != UINT32_MAX ? decoder->graphs[0]->tensors[k]->dtype : SW_F32;
    s->row_bytes = h->head_dim * sw_dtype_bytes(kv);
    s->head_bytes = s->row_bytes * decoder->context_len;
    s->tensor_bytes = s->head_bytes * h->n_kv_heads;
    s->cache = sw_arena_array(&s->arena, 2 * (size_t)h->n_layers, s->tensor_bytes);
    s->positions = sw_arena_array(&s->arena, decoder->context_len, sizeof *s->positions);
    sw_code code = SW_OK;
    if (s->cache == NULL || s->positions == NULL)
        code = SW_FAIL(err, SW_NO_MEMORY, "no memory for a KV cache of %u positions: %zu bytes",
                       decoder->context_len, 2 * h->n_layers * s->tensor_bytes);
    for (uint32_t i = 0; i < decoder->n_graphs && code == SW_OK; i++) {
        loaded *g = &s->graphs[i];
        g->graph = decoder->graphs[i];
        code = bind(s, g, err);
        if (code == SW_OK) code = device->ops->load(device, g->graph, &g->program, err);
        if (code == SW_OK) s->n_graphs++;
    }
    if (code != SW_OK) {
        sw_session_destroy(s);
        return code;
    }
    *out = s;
    return SW_OK;
}

void sw_session_destroy(sw_session *session) {
    if (session == NULL) return;
    for (uint32_t i = 0; i < session->n_graphs; i++) session->device->ops->unload(session->graphs[i].program);
    sw_arena_free(&session->arena);
    free(session);
}

/* The graph for a run of n_left tokens, or NULL where none fits behind the filled positions. */
static loaded *choose(sw_session *s, size_t n_left) {
    loaded *best = NULL;
    for (uint32_t i = 0; i < s->n_graphs; i++) {
        loaded *g = &s->graphs[i];
        if (s->filled + g->graph->ar_len > s->decoder->context_len) continue;
        bool better = best == NULL || (n_left > 1 ? g->graph->ar_len > best->graph->ar_len
                                                  : g->graph->ar_len < best->graph->ar_len);
        if (better) best = g;
    }
    return best;
}

static sw_code run(sw_session *s, loaded *g, const int32_t *ids, uint32_t n_ids, sw_error *err) {
    const sw_graph *graph = g->graph;
    sw_tensor **t = graph->tensors;
    SW_TRY(sw_border_fill_hidden(t[g->hidden], s->decoder->embedding, ids, n_ids, g->hidden_data, err));
    for (uint32_t i = 0; i < n_ids; i++) s->positions[i] = s->filled + i;
    sw_border_fill_rotary(t[g->cos], t[g->sin], s->decoder->hparams.rope_theta, s->positions, n_ids,
                          g->cos_data, g->sin_data);
    sw_border_fill_mask(t[g->mask], s->filled, g->mask_data);
    g->last_row = (int32_t)n_ids - 1;
    SW_TRY(s->device->ops->execute(g->program, g->inputs, g->outputs, s->observer, s->observer_context, err));

    const sw_hparams *h = &s->decoder->hparams;
    size_t fresh_head = graph->ar_len * s->row_bytes;
    for (uint32_t slot = 0; slot < 2 * h->n_layers; slot++) {
        for (uint32_t head = 0; head < h->n_kv_heads; head++) {
            uint8_t *to = s->cache + slot * s->tensor_bytes + head * s->head_bytes + s->filled * s->row_bytes;
            memcpy(to, (const uint8_t *)g->fresh[slot] + head * fresh_head, n_ids * s->row_bytes);
        }
    }
    s->filled += n_ids;
    return SW_OK;
}

static sw_code check_ids(const sw_session *s, const int32_t *ids, size_t n_ids, sw_error *err) {
    uint32_t room = s->decoder->context_len - s->filled, vocab = s->decoder->hparams.vocab;
    if (n_ids == 0) return SW_FAIL(err, SW_INVALID_ARGUMENT, "no tokens to feed");
    if (n_ids > room)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "%zu tokens don't fit: the context has %u positions, %u are filled", n_ids,
                       s->decoder->context_len, s->filled);
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= vocab)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "token %zu has id %d, wanted 0 to %u", i, ids[i],
                           vocab - 1);
    return SW_OK;
}

/* Rows [begin, begin + count) of a graph's logits as floats. */
static void read_logits(const sw_session *s, const loaded *g, size_t begin, size_t count, float *logits) {
    const sw_tensor *out = g->graph->tensors[g->logits];
    size_t vocab = s->decoder->hparams.vocab;
    const uint8_t *data = g->logits_data;
    sw_dequantize_row(out, data + begin * vocab * sw_dtype_bytes(out->dtype), count * vocab, logits);
}

sw_code sw_session_feed(sw_session *s, const int32_t *ids, size_t n_ids, float *logits, const char *label,
                        sw_error *err) {
    SW_TRY(check_ids(s, ids, n_ids, err));
    sw_progress progress;
    if (label != NULL) sw_progress_start(&progress, label, n_ids);
    sw_code code = SW_OK;
    for (size_t done = 0; done < n_ids && code == SW_OK;) {
        loaded *g = choose(s, n_ids - done);
        if (g == NULL) {
            code =
                SW_FAIL(err, SW_INVALID_ARGUMENT,
                        "no graph fits behind %u filled positions of %u: the smallest AR length is too large",
                        s->filled, s->decoder->context_len);
            break;
        }
        uint32_t n = n_ids - done < g->graph->ar_len ? (uint32_t)(n_ids - done) : g->graph->ar_len;
        code = run(s, g, ids + done, n, err);
        done += n;
        if (label != NULL) sw_progress_update(&progress, done);
        if (code != SW_OK || done < n_ids) continue;
        bool one_row = sw_tensor_elements(g->graph->tensors[g->logits]) == s->decoder->hparams.vocab;
        read_logits(s, g, one_row ? 0 : n - 1u, 1, logits);
    }
    if (label != NULL) sw_progress_end(&progress);
    return code;
}

sw_code sw_session_feed_all(sw_session *s, const int32_t *ids, size_t n_ids, float *logits, sw_error *err) {
    SW_TRY(check_ids(s, ids, n_ids, err));
    loaded *g = choose(s, n_ids);
    if (g == NULL || g->graph->ar_len < n_ids ||
        sw_tensor_elements(g->graph->tensors[g->logits]) !=
            (uint64_t)g->graph->ar_len * s->decoder->hparams.vocab)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "no graph gives the logits of all of %zu tokens at once",
                       n_ids);
    SW_TRY(run(s, g, ids, (uint32_t)n_ids, err));
    read_logits(s, g, 0, n_ids, logits);
    return SW_OK;
}
