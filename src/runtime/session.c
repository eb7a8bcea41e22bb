/* session.c: fills a graph's border, executes it, keeps what it hands out.
 *
 * All buffers lie in one block, the device's own where it has such memory. A graph reads its cache input as a
 * dense tensor in the session's cache; how far apart heads lie there depends on the graph's AR length, so the
 * filled rows are moved when the kind of graph changes: once from a prompt to its reply. */
#include "runtime/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/border.h"

/* A loaded graph: one shard of a kind. */
typedef struct loaded {
    const sw_graph *graph;
    sw_program *program;
    sw_binding *inputs, *outputs; /* in the graph's order */
} loaded;

/* The graphs of one AR length, and their border. What goes to several shards has one buffer, and so has what
 * one shard hands to the next. */
typedef struct kind {
    loaded *shards; /* [n_shards] */
    uint32_t ar_len;
    const sw_tensor *hidden, *cos, *sin, *mask; /* the first shard's */
    sw_candidates head; /* the last shard's: `logits`, and `tokens` where it has them */
    void *hidden_data, *cos_data, *sin_data, *mask_data, *logits_data, *tokens_data;
    int32_t *last_row; /* where a graph has `last` */
    void **handed;     /* [n_shards]: what comes into each; the first is hidden_data */
    void **fresh;      /* [2 * n_layers] new K and V of layer i at 2 i and 2 i + 1 */
} kind;

struct sw_session {
    sw_arena arena;
    const sw_decoder *decoder;
    sw_device *device;
    kind kinds[SW_MAX_KINDS];
    uint32_t n_kinds;
    uint8_t *block;       /* of all buffers; NULL while they are counted */
    size_t used;          /* of it, bytes */
    bool block_is_device; /* whose it is: the device's or the heap's */
    uint8_t *cache;       /* [layer][K, V], each tensor_bytes: [kv_head][cache_rows][head_dim] */
    size_t row_bytes;     /* head_dim values of the KV type */
    size_t tensor_bytes;  /* room for kv_heads heads of C rows: one K or V of one layer */
    uint32_t cache_rows;  /* of a head: cache positions of the graph that ran last */
    uint32_t filled;
    bool fresh;          /* nothing fed yet: the cache holds the sink alone, or nothing */
    uint32_t *positions; /* [C] */
    float *best;         /* a head's candidates: as many as the most that a kind hands out */
    sw_observer *observer;
    void *observer_context;
};

uint32_t sw_session_filled(const sw_session *session) {
    return session->filled;
}

/* Rows [begin, end) of all heads become 0, as in a new session: a mask of 8 bits can let a little of the rows
 * behind the filled ones through, which is to be the same whatever was fed before. */
static void clear_rows(sw_session *s, uint32_t begin, uint32_t end) {
    const sw_hparams *h = &s->decoder->hparams;
    for (uint32_t slot = 0; slot < 2 * h->n_layers && begin < end; slot++)
        for (uint32_t head = 0; head < h->n_kv_heads; head++)
            memset(s->cache + slot * s->tensor_bytes + ((size_t)head * s->cache_rows + begin) * s->row_bytes,
                   0, (end - begin) * s->row_bytes);
}

/* The sink's rows stay in the cache: what is fed goes behind them. */
void sw_session_reset(sw_session *session) {
    const uint32_t kept = session->decoder->sink.n_tokens;
    clear_rows(session, kept, session->filled);
    session->filled = kept;
    session->fresh = true;
}

bool sw_session_is_fresh(const sw_session *session) {
    return session->fresh;
}

size_t sw_session_known(const sw_session *session, const int32_t *ids, size_t n_ids) {
    const sw_sink *sink = &session->decoder->sink;
    size_t n = 0;
    if (!session->fresh) return 0;
    while (n < sink->n_tokens && n + 1 < n_ids && ids[n] == sink->ids[n]) n++;
    return n;
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

/* The next bytes of the block; NULL while its size is only counted. */
static void *take(sw_session *s, uint64_t bytes) {
    size_t at = s->used;
    s->used += ((size_t)bytes + SW_BUFFER_ALIGNMENT - 1) / SW_BUFFER_ALIGNMENT * SW_BUFFER_ALIGNMENT;
    return s->block != NULL ? s->block + at : NULL;
}

/* A buffer for the graph's tensor of that name; false where it has none. */
static bool border_buffer(sw_session *s, const sw_graph *graph, const char *name, const sw_tensor **out,
                          void **data) {
    uint32_t index = sw_graph_find(graph, name);
    if (index == UINT32_MAX) return false;
    *out = graph->tensors[index];
    *data = take(s, sw_tensor_bytes(*out));
    return true;
}

static sw_code make_buffers(sw_session *s, kind *k, sw_error *err) {
    uint32_t n_shards = s->decoder->n_shards;
    const sw_graph *first = k->shards[0].graph, *last = k->shards[n_shards - 1].graph;
    const sw_tensor *t;
    char name[SW_NAME_BYTES];
    k->head = sw_graph_candidates(last);
    k->last_row = take(s, sizeof *k->last_row);
    bool ok = border_buffer(s, first, "hidden_in", &k->hidden, &k->hidden_data) &&
              border_buffer(s, first, "cos", &k->cos, &k->cos_data) &&
              border_buffer(s, first, "sin", &k->sin, &k->sin_data) &&
              border_buffer(s, first, "mask", &k->mask, &k->mask_data) &&
              border_buffer(s, last, "logits", &t, &k->logits_data) &&
              (k->head.n == 0 || border_buffer(s, last, "tokens", &t, &k->tokens_data));
    k->handed[0] = k->hidden_data;
    for (uint32_t i = 1; ok && i < n_shards; i++) {
        const sw_graph *graph = k->shards[i].graph;
        ok = border_buffer(s, graph, sw_graph_first_input(graph, name), &t, &k->handed[i]);
    }
    return ok ? SW_OK : SW_FAIL(err, SW_BAD_DATA, "%s: an input or output is missing", first->name);
}

static sw_code bind_input(sw_session *s, kind *k, const sw_graph *graph, const sw_tensor *t, sw_binding *b,
                          sw_error *err) {
    uint32_t slot;
    char hidden[SW_NAME_BYTES];
    if (strcmp(t->name, sw_graph_first_input(graph, hidden)) == 0)
        b->data = k->handed[graph->shard];
    else if (strcmp(t->name, "cos") == 0)
        b->data = k->cos_data;
    else if (strcmp(t->name, "sin") == 0)
        b->data = k->sin_data;
    else if (strcmp(t->name, "mask") == 0)
        b->data = k->mask_data;
    else if (strcmp(t->name, "last") == 0)
        b->data = k->last_row;
    else if (parse_kv_name(t->name, "cache", s->decoder->hparams.n_layers, &slot))
        b->data = s->cache != NULL ? s->cache + slot * s->tensor_bytes : NULL;
    else
        return SW_FAIL(err, SW_BAD_DATA, "%s: unknown input `%s`", graph->name, t->name);
    return SW_OK;
}

static sw_code bind_output(sw_session *s, kind *k, const sw_graph *graph, const sw_tensor *t, sw_binding *b,
                           sw_error *err) {
    uint32_t slot, n_layers = s->decoder->hparams.n_layers;
    char last[SW_NAME_BYTES];
    if (strcmp(t->name, sw_graph_last_output(graph, n_layers, last)) == 0) {
        b->data = graph->end_layer == n_layers ? k->logits_data : k->handed[graph->shard + 1];
    } else if (t == k->head.tokens) {
        b->data = k->tokens_data;
    } else if (parse_kv_name(t->name, "new", n_layers, &slot)) {
        b->data = k->fresh[slot] = take(s, sw_tensor_bytes(t));
    } else {
        return SW_FAIL(err, SW_BAD_DATA, "%s: unknown output `%s`", graph->name, t->name);
    }
    return SW_OK;
}

/* Gives each border tensor of a graph its buffer. */
static sw_code bind(sw_session *s, kind *k, loaded *g, sw_error *err) {
    const sw_graph *graph = g->graph;
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        SW_TRY(bind_input(s, k, graph, graph->tensors[graph->inputs[i]], &g->inputs[i], err));
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        SW_TRY(bind_output(s, k, graph, graph->tensors[graph->outputs[i]], &g->outputs[i], err));
    return SW_OK;
}

static sw_code make_kind(sw_session *s, uint32_t index, sw_error *err) {
    kind *k = &s->kinds[index];
    uint32_t n_shards = s->decoder->n_shards;
    k->shards = sw_arena_array(&s->arena, n_shards, sizeof *k->shards);
    k->handed = sw_arena_array(&s->arena, n_shards, sizeof *k->handed);
    k->fresh = sw_arena_array(&s->arena, 2 * (size_t)s->decoder->hparams.n_layers, sizeof *k->fresh);
    if (k->shards == NULL || k->handed == NULL || k->fresh == NULL)
        return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    s->n_kinds++;
    for (uint32_t i = 0; i < n_shards; i++) {
        loaded *g = &k->shards[i];
        g->graph = sw_decoder_graph(s->decoder, i, index);
        g->inputs = sw_arena_array(&s->arena, g->graph->n_inputs, sizeof *g->inputs);
        g->outputs = sw_arena_array(&s->arena, g->graph->n_outputs, sizeof *g->outputs);
        if (g->inputs == NULL || g->outputs == NULL)
            return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", g->graph->name);
    }
    k->ar_len = k->shards[0].graph->ar_len;
    return SW_OK;
}

/* Deals out the block; with block NULL, counts what it has to hold. */
static sw_code lay_out(sw_session *s, sw_error *err) {
    s->used = 0;
    s->cache = take(s, 2 * (uint64_t)s->decoder->hparams.n_layers * s->tensor_bytes);
    for (uint32_t i = 0; i < s->n_kinds; i++) {
        SW_TRY(make_buffers(s, &s->kinds[i], err));
        for (uint32_t k = 0; k < s->decoder->n_shards; k++)
            SW_TRY(bind(s, &s->kinds[i], &s->kinds[i].shards[k], err));
    }
    return SW_OK;
}

static sw_code make_block(sw_session *s, sw_error *err) {
    SW_TRY(lay_out(s, err));
    if (s->device->ops->allocate != NULL) s->block = s->device->ops->allocate(s->device, s->used);
    s->block_is_device = s->block != NULL;
    if (s->block == NULL) s->block = aligned_alloc(SW_BUFFER_ALIGNMENT, s->used);
    if (s->block == NULL)
        return SW_FAIL(err, SW_NO_MEMORY,
                       "no memory for %u positions of KV cache, inputs and outputs: %zu bytes",
                       s->decoder->context_len, s->used);
    if (!s->block_is_device) memset(s->block, 0, s->used);
    return lay_out(s, err);
}

static sw_code load(sw_session *s, sw_error *err) {
    for (uint32_t i = 0; i < sw_decoder_kinds(s->decoder); i++) SW_TRY(make_kind(s, i, err));
    SW_TRY(make_block(s, err));
    uint32_t most = 0;
    for (uint32_t i = 0; i < s->n_kinds; i++)
        if (s->kinds[i].head.n > most) most = s->kinds[i].head.n;
    s->best = sw_arena_array(&s->arena, most, sizeof *s->best);
    if (s->best == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < s->n_kinds; i++)
        for (uint32_t k = 0; k < s->decoder->n_shards; k++) {
            loaded *g = &s->kinds[i].shards[k];
            SW_TRY(s->device->ops->load(s->device, g->graph, &g->program, err));
        }
    return SW_OK;
}

static void place_sink(sw_session *s) {
    const sw_sink *sink = &s->decoder->sink;
    const uint8_t *rows = sink->kv;
    size_t bytes = sink->n_tokens * s->row_bytes, head_bytes = s->decoder->context_len * s->row_bytes;
    s->cache_rows = s->decoder->context_len;
    for (size_t head = 0;
         bytes > 0 && head < 2 * (size_t)s->decoder->hparams.n_layers * s->decoder->hparams.n_kv_heads;
         head++)
        memcpy(s->cache + head * head_bytes, rows + head * bytes, bytes);
}

sw_code sw_session_create(sw_session **out, const sw_decoder *decoder, sw_device *device, sw_error *err) {
    *out = NULL;
    const sw_hparams *h = &decoder->hparams;
    sw_session *s = calloc(1, sizeof *s);
    if (s == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    s->decoder = decoder, s->device = device;
    s->row_bytes = h->head_dim * sw_dtype_bytes(sw_decoder_kv_type(decoder));
    s->tensor_bytes = s->row_bytes * decoder->context_len * h->n_kv_heads;
    s->positions = sw_arena_array(&s->arena, decoder->context_len, sizeof *s->positions);
    sw_code code = s->positions != NULL ? load(s, err) : SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    if (code != SW_OK) {
        sw_session_destroy(s);
        return code;
    }
    place_sink(s);
    sw_session_reset(s);
    *out = s;
    return SW_OK;
}

void sw_session_destroy(sw_session *session) {
    if (session == NULL) return;
    for (uint32_t i = 0; i < session->n_kinds; i++)
        for (uint32_t k = 0; k < session->decoder->n_shards; k++) {
            sw_program *program = session->kinds[i].shards[k].program;
            if (program != NULL) session->device->ops->unload(program);
        }
    if (session->block_is_device)
        session->device->ops->release(session->device, session->block, session->used);
    else
        free(session->block);
    sw_arena_free(&session->arena);
    free(session);
}

/* The graphs for a run of n_left tokens, or NULL where none fit behind the filled positions. */
static kind *choose(sw_session *s, size_t n_left) {
    kind *best = NULL;
    for (uint32_t i = 0; i < s->n_kinds; i++) {
        kind *k = &s->kinds[i];
        if (s->filled + k->ar_len > s->decoder->context_len) continue;
        bool better = best == NULL || (n_left > 1 ? k->ar_len > best->ar_len : k->ar_len < best->ar_len);
        if (better) best = k;
    }
    return best;
}

/* Moves bytes; where they were and aren't any more is 0. */
static void move_away(uint8_t *to, uint8_t *from, size_t bytes) {
    const size_t way = (size_t)(to < from ? from - to : to - from), left = way < bytes ? way : bytes;
    memmove(to, from, bytes);
    memset(to < from ? from + bytes - left : from, 0, left);
}

/* Moves the cache's filled rows to where heads of that many rows want them, head by head, in the order in
 * which none is overwritten before it is moved. All behind them stays 0. */
static void set_cache_rows(sw_session *s, uint32_t rows) {
    const sw_hparams *h = &s->decoder->hparams;
    if (rows == s->cache_rows || rows == 0) return; /* 0: that graph reads no cache */
    for (uint32_t slot = 0; slot < 2 * h->n_layers; slot++)
        for (uint32_t i = 1; i < h->n_kv_heads; i++) {
            uint32_t head = rows < s->cache_rows ? i : h->n_kv_heads - i;
            uint8_t *tensor = s->cache + slot * s->tensor_bytes;
            move_away(tensor + head * rows * s->row_bytes, tensor + head * s->cache_rows * s->row_bytes,
                      s->filled * s->row_bytes);
        }
    s->cache_rows = rows;
}

static sw_code run(sw_session *s, kind *k, const int32_t *ids, uint32_t n_ids, sw_error *err) {
    const sw_hparams *h = &s->decoder->hparams;
    SW_TRY(sw_border_fill_hidden(k->hidden, s->decoder->embedding, ids, n_ids, k->hidden_data, err));
    for (uint32_t i = 0; i < n_ids; i++) s->positions[i] = s->filled + i;
    sw_border_fill_rotary(k->cos, k->sin, h->rope_theta, s->positions, n_ids, k->cos_data, k->sin_data);
    sw_border_fill_mask(k->mask, s->filled, k->mask_data);
    *k->last_row = (int32_t)n_ids - 1;
    set_cache_rows(s, s->decoder->context_len - k->ar_len);
    const bool whole =
        s->decoder->n_shards == 1; /* else one shard's undefined rows would be another's input */
    for (uint32_t i = 0; i < s->decoder->n_shards; i++) {
        loaded *g = &k->shards[i];
        if (whole && s->device->ops->limit_tokens != NULL) s->device->ops->limit_tokens(g->program, n_ids);
        SW_TRY(s->device->ops->execute(g->program, g->inputs, g->outputs, s->observer, s->observer_context,
                                       err));
    }
    /* The new rows may not have room behind a head's: then heads move as far apart as they ever do. */
    if (s->filled + n_ids > s->cache_rows) set_cache_rows(s, s->decoder->context_len);
    size_t fresh_head = k->ar_len * s->row_bytes;
    for (uint32_t slot = 0; slot < 2 * h->n_layers; slot++) {
        for (uint32_t head = 0; head < h->n_kv_heads; head++) {
            uint8_t *to =
                s->cache + slot * s->tensor_bytes + ((size_t)head * s->cache_rows + s->filled) * s->row_bytes;
            memcpy(to, (const uint8_t *)k->fresh[slot] + head * fresh_head, n_ids * s->row_bytes);
        }
    }
    s->filled += n_ids;
    s->fresh = false;
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

/* The candidates that a head hands out, and -inf for all other tokens. */
static sw_code read_candidates(const sw_session *s, const kind *k, float *logits, sw_error *err) {
    const uint32_t n = k->head.n, vocab = s->decoder->hparams.vocab;
    const int32_t *tokens = k->tokens_data;
    for (uint32_t i = 0; i < vocab; i++) logits[i] = -INFINITY;
    sw_dequantize_row(k->head.logits, k->logits_data, n, s->best);
    for (uint32_t i = 0; i < n; i++) {
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= vocab)
            return SW_FAIL(err, SW_BAD_DATA, "%s: candidate %u is token %d, wanted 0 to %u",
                           k->shards[0].graph->name, i, tokens[i], vocab - 1);
        logits[tokens[i]] = s->best[i];
    }
    return SW_OK;
}

/* Rows [begin, begin + count) of a kind's logits as floats. */
static void read_logits(const sw_session *s, const kind *k, size_t begin, size_t count, float *logits) {
    const sw_tensor *out = k->head.logits;
    size_t vocab = s->decoder->hparams.vocab;
    const uint8_t *data = k->logits_data;
    sw_dequantize_row(out, data + begin * vocab * sw_dtype_bytes(out->dtype), count * vocab, logits);
}

sw_code sw_session_feed(sw_session *s, const int32_t *ids, size_t n_ids, float *logits, const char *label,
                        sw_error *err) {
    size_t known = sw_session_known(s, ids, n_ids);
    ids += known, n_ids -= known;
    SW_TRY(check_ids(s, ids, n_ids, err));
    sw_progress progress;
    if (label != NULL) sw_progress_start(&progress, label, n_ids);
    sw_code code = SW_OK;
    for (size_t done = 0; done < n_ids && code == SW_OK;) {
        kind *k = choose(s, n_ids - done);
        if (k == NULL) {
            code =
                SW_FAIL(err, SW_INVALID_ARGUMENT,
                        "no graph fits behind %u filled positions of %u: the smallest AR length is too large",
                        s->filled, s->decoder->context_len);
            break;
        }
        uint32_t n = n_ids - done < k->ar_len ? (uint32_t)(n_ids - done) : k->ar_len;
        code = run(s, k, ids + done, n, err);
        done += n;
        if (label != NULL) sw_progress_update(&progress, done);
        if (code != SW_OK || done < n_ids) continue;
        bool one_row = sw_tensor_elements(k->head.logits) == s->decoder->hparams.vocab;
        if (k->head.n > 0)
            code = read_candidates(s, k, logits, err);
        else
            read_logits(s, k, one_row ? 0 : n - 1u, 1, logits);
    }
    if (label != NULL) sw_progress_end(&progress);
    return code;
}

sw_code sw_session_feed_all(sw_session *s, const int32_t *ids, size_t n_ids, float *logits, sw_error *err) {
    SW_TRY(check_ids(s, ids, n_ids, err));
    kind *k = choose(s, n_ids);
    if (k == NULL || k->ar_len < n_ids ||
        sw_tensor_elements(k->head.logits) != (uint64_t)k->ar_len * s->decoder->hparams.vocab)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "no graph gives the logits of all of %zu tokens at once",
                       n_ids);
    SW_TRY(run(s, k, ids, (uint32_t)n_ids, err));
    read_logits(s, k, 0, n_ids, logits);
    return SW_OK;
}
