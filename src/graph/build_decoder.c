/* build_decoder.c: the float graphs of a Llama-family decoder (pre-norm, grouped-query attention, rotary
 * positions, SwiGLU), for any AR length, in one pass from hidden_in to logits.
 *
 * Queries are grouped by the KV head they share, so that K and V are never repeated: [1, kv_heads, group * n,
 * d] against [1, kv_heads, C, d]. Only the new K and V leave the graph. With n = 1 a Transpose between heads
 * and rows moves nothing and is left out. */
#include "graph/decoder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct builder {
    sw_decoder *decoder;
    sw_tensor **weights; /* [n_layers * SW_WEIGHT_COUNT], constants by sw_weight_id */
    sw_graph *graph;
    const sw_graph_options *options;
    uint32_t layer;   /* names get its prefix; UINT32_MAX outside of layers */
    uint32_t n, C, c; /* AR length, context length, cache length */
    uint32_t cos, sin, mask;
    bool failed; /* out of memory: sticky, looked at once */
} builder;

static const char *make_name(builder *b, const char *name) {
    char text[SW_NAME_BYTES];
    if (b->layer == UINT32_MAX)
        snprintf(text, sizeof text, "%s", name);
    else
        sw_layer_name(text, b->layer, name);
    const char *copy = sw_arena_strdup(&b->decoder->arena, text);
    if (copy == NULL) b->failed = true;
    return copy != NULL ? copy : "";
}

typedef struct shape {
    uint32_t rank, dims[SW_MAX_RANK];
} shape;

#define SHAPE(...) ((shape){sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), {__VA_ARGS__}})

/* A tensor of the graph; range NULL: its own name. */
static uint32_t add_tensor(builder *b, sw_tensor_kind kind, sw_role role, const char *name, const char *range,
                           shape s) {
    sw_tensor *t = sw_arena_alloc(&b->decoder->arena, sizeof *t);
    if (t == NULL) {
        b->failed = true;
        return 0;
    }
    t->name = make_name(b, name);
    t->range = range != NULL ? make_name(b, range) : t->name;
    t->kind = kind, t->role = role;
    t->dtype = role == SW_ROLE_INDEX ? SW_I32 : SW_F32;
    t->rank = s.rank;
    memcpy(t->dims, s.dims, sizeof s.dims);
    uint32_t index = sw_graph_add_tensor(b->graph, t);
    if (index == UINT32_MAX) b->failed = true;
    return index;
}

/* Appends an op with one new native output and returns the output. Named after its output. */
static uint32_t add_op(builder *b, sw_op op, sw_tensor_kind kind, sw_role role, const char *name,
                       const char *range, shape s) {
    op.outputs[0] = add_tensor(b, kind, role, name, range, s);
    op.n_outputs = 1;
    if (b->failed) return 0;
    op.name = b->graph->tensors[op.outputs[0]]->name;
    if (!sw_graph_add_op(b->graph, &op)) b->failed = true;
    return op.outputs[0];
}

static uint32_t activation(builder *b, sw_op op, const char *name, shape s) {
    return add_op(b, op, SW_TENSOR_NATIVE, SW_ROLE_ACTIVATION, name, NULL, s);
}

/* A piece of a value that another form of the graph has whole: shares the whole's range. */
static uint32_t piece(builder *b, sw_op op, const char *name, const char *range, uint32_t number, shape s) {
    char text[SW_NAME_BYTES];
    snprintf(text, sizeof text, "%s.%u", name, number);
    sw_role role =
        strncmp(range, "k_", 2) == 0 || strncmp(range, "v_", 2) == 0 ? SW_ROLE_KV : SW_ROLE_ACTIVATION;
    return add_op(b, op, SW_TENSOR_NATIVE, role, text, range, s);
}

static sw_op unary(sw_op_type type, uint32_t x) {
    return (sw_op){.type = type, .n_inputs = 1, .inputs = {x}};
}

static sw_op binary(sw_op_type type, uint32_t x, uint32_t y) {
    return (sw_op){.type = type, .n_inputs = 2, .inputs = {x, y}};
}

/* Index of a constant in this graph; added at its first use. */
static uint32_t weight(builder *b, sw_weight_id id) {
    uint32_t layer = b->layer == UINT32_MAX ? 0 : b->layer;
    uint32_t index = sw_graph_add_tensor(b->graph, b->weights[layer * SW_WEIGHT_COUNT + id]);
    if (index == UINT32_MAX) b->failed = true;
    return index;
}

static uint32_t rms_norm(builder *b, uint32_t x, sw_weight_id gamma, const char *name, shape s) {
    sw_op op = binary(SW_OP_RMS_NORM, x, weight(b, gamma));
    op.params.rms_norm.epsilon = b->decoder->hparams.rms_epsilon;
    return activation(b, op, name, s);
}

static uint32_t linear(builder *b, uint32_t x, sw_weight_id id, const char *name, shape s) {
    return activation(b, binary(SW_OP_FULLY_CONNECTED, x, weight(b, id)), name, s);
}

static uint32_t matmul(builder *b, uint32_t x, uint32_t y, bool transpose_in1, const char *name,
                       const char *range, shape s) {
    sw_op op = binary(SW_OP_MATMUL, x, y);
    op.params.matmul.transpose_in1 = transpose_in1;
    return add_op(b, op, SW_TENSOR_NATIVE, SW_ROLE_ACTIVATION, name, range, s);
}

/* [1, a, b, d] <-> [1, b, a, d]. */
static sw_op swap_middle(uint32_t x) {
    sw_op op = unary(SW_OP_TRANSPOSE, x);
    memcpy(op.params.transpose.perm, (uint32_t[]){0, 2, 1, 3}, sizeof op.params.transpose.perm);
    return op;
}

/* [n, heads * d] -> [1, heads, n, d]. The last op's output is `name`, of that kind and role. */
static uint32_t split_heads(builder *b, uint32_t x, uint32_t heads, const char *rows_name, const char *name,
                            sw_tensor_kind kind, sw_role role) {
    uint32_t d = b->decoder->hparams.head_dim;
    shape out = SHAPE(1, heads, b->n, d);
    if (b->n == 1) return add_op(b, unary(SW_OP_RESHAPE, x), kind, role, name, NULL, out);
    uint32_t rows = activation(b, unary(SW_OP_RESHAPE, x), rows_name, SHAPE(1, b->n, heads, d));
    return add_op(b, swap_middle(rows), kind, role, name, NULL, out);
}

/* Attention's result [1, heads, n, d], of any shape with n = 1, to [n, heads * d]. */
static uint32_t join_heads(builder *b, uint32_t x) {
    const sw_hparams *h = &b->decoder->hparams;
    if (b->n > 1) x = activation(b, swap_middle(x), "context_rows", SHAPE(1, b->n, h->n_heads, h->head_dim));
    return activation(b, unary(SW_OP_RESHAPE, x), "context", SHAPE(b->n, h->n_heads * h->head_dim));
}

static sw_op rotary(builder *b, uint32_t x) {
    return (sw_op){.type = SW_OP_ROTARY_EMBEDDING, .n_inputs = 3, .inputs = {x, b->cos, b->sin}};
}

static sw_op concat(uint32_t x, uint32_t y, uint32_t axis) {
    sw_op op = binary(SW_OP_CONCAT, x, y);
    op.params.concat.axis = axis;
    return op;
}

/* Heads [begin, end) of x [1, heads, rows, d]. */
static sw_op slice_heads(builder *b, uint32_t x, uint32_t begin, uint32_t end) {
    sw_op op = unary(SW_OP_STRIDED_SLICE, x);
    if (b->failed) return op;
    const sw_tensor *t = b->graph->tensors[x];
    for (uint32_t i = 0; i < t->rank; i++) {
        op.params.strided_slice.begin[i] = i == 1 ? begin : 0;
        op.params.strided_slice.end[i] = i == 1 ? end : t->dims[i];
    }
    return op;
}

/* scores + mask, Softmax: the middle of attention, for all heads or a piece of them. */
static uint32_t probabilities(builder *b, uint32_t scores, const char *masked_name, const char *name,
                              shape s) {
    uint32_t masked = add_op(b, binary(SW_OP_ADD, scores, b->mask), SW_TENSOR_NATIVE, SW_ROLE_ACTIVATION,
                             masked_name, "masked_scores", s);
    sw_op softmax = unary(SW_OP_SOFTMAX, masked);
    softmax.params.softmax.beta = (float)(1.0 / sqrt((double)b->decoder->hparams.head_dim));
    return add_op(b, softmax, SW_TENSOR_NATIVE, SW_ROLE_ACTIVATION, name, "probabilities", s);
}

/* One MatMul over all KV heads. q [1, heads, n, d] -> [n, heads * d]. */
static uint32_t attend_grouped(builder *b, uint32_t q, uint32_t k_cache, uint32_t v_cache, uint32_t k_new,
                               uint32_t v_new) {
    const sw_hparams *h = &b->decoder->hparams;
    uint32_t kv = h->n_kv_heads, d = h->head_dim, group = h->n_heads / kv, n = b->n, C = b->C;
    uint32_t k = k_new, v = v_new;
    if (b->c > 0) {
        shape all = SHAPE(1, kv, C, d);
        k = add_op(b, concat(k_cache, k_new, 2), SW_TENSOR_NATIVE, SW_ROLE_KV, "k_all", NULL, all);
        v = add_op(b, concat(v_cache, v_new, 2), SW_TENSOR_NATIVE, SW_ROLE_KV, "v_all", NULL, all);
    }
    uint32_t grouped = q;
    if (group > 1) grouped = activation(b, unary(SW_OP_RESHAPE, q), "q_groups", SHAPE(1, kv, group * n, d));
    shape groups = SHAPE(1, kv, group * n, C);
    uint32_t p;
    if (n == 1 || group == 1) { /* the mask broadcasts over [kv, group] as it does over heads */
        p = probabilities(b, matmul(b, grouped, k, true, "scores", NULL, groups), "masked_scores",
                          "probabilities", groups);
    } else {
        shape heads = SHAPE(1, h->n_heads, n, C);
        uint32_t s = matmul(b, grouped, k, true, "scores_groups", "scores", groups);
        s = activation(b, unary(SW_OP_RESHAPE, s), "scores", heads);
        p = probabilities(b, s, "masked_scores", "probabilities", heads);
        p = add_op(b, unary(SW_OP_RESHAPE, p), SW_TENSOR_NATIVE, SW_ROLE_ACTIVATION, "probabilities_groups",
                   "probabilities", groups);
    }
    uint32_t x = matmul(b, p, v, false, "context_groups", "context", SHAPE(1, kv, group * n, d));
    if (n > 1 && group > 1)
        x = activation(b, unary(SW_OP_RESHAPE, x), "context_heads", SHAPE(1, h->n_heads, n, d));
    return join_heads(b, x);
}

/* K or V of one KV head: its slice of the cache and of the new entries. */
static uint32_t one_kv_head(builder *b, char letter, uint32_t head, uint32_t cache, uint32_t fresh) {
    uint32_t d = b->decoder->hparams.head_dim;
    char range[8], name[24];
    snprintf(range, sizeof range, "%c_new", letter);
    uint32_t mine = fresh;
    if (b->decoder->hparams.n_kv_heads > 1)
        mine = piece(b, slice_heads(b, fresh, head, head + 1), range, range, head, SHAPE(1, 1, b->n, d));
    if (b->c == 0) return mine;
    snprintf(name, sizeof name, "%c_cache", letter);
    if (b->decoder->hparams.n_kv_heads > 1)
        cache = piece(b, slice_heads(b, cache, head, head + 1), name, range, head, SHAPE(1, 1, b->c, d));
    snprintf(name, sizeof name, "%c_all", letter);
    return piece(b, concat(cache, mine, 2), name, range, head, SHAPE(1, 1, b->C, d));
}

/* One attention for each run of `width` query heads that share a KV head, so that only its scores are alive
 * at once. */
static uint32_t attend_cut(builder *b, uint32_t width, uint32_t q, uint32_t k_cache, uint32_t v_cache,
                           uint32_t k_new, uint32_t v_new) {
    const sw_hparams *h = &b->decoder->hparams;
    uint32_t d = h->head_dim, group = h->n_heads / h->n_kv_heads, n = b->n, C = b->C, k = 0, v = 0;
    sw_op join = {.type = SW_OP_CONCAT, .n_inputs = h->n_heads / width, .params.concat.axis = 1};
    for (uint32_t i = 0; i < join.n_inputs && !b->failed; i++) {
        char name[SW_NAME_BYTES], masked_name[SW_NAME_BYTES];
        uint32_t kv_head = i * width / group, x = q;
        shape heads = SHAPE(1, width, n, C), rows = SHAPE(1, 1, width * n, C);
        if (i * width % group == 0) {
            k = one_kv_head(b, 'k', kv_head, k_cache, k_new);
            v = one_kv_head(b, 'v', kv_head, v_cache, v_new);
        }
        if (join.n_inputs > 1)
            x = piece(b, slice_heads(b, q, i * width, (i + 1) * width), "q_rope", "q_rope", i,
                      SHAPE(1, width, n, d));
        if (width > 1)
            x = piece(b, unary(SW_OP_RESHAPE, x), "q_groups", "q_rope", i, SHAPE(1, 1, width * n, d));
        snprintf(name, sizeof name, "scores_groups.%u", i);
        x = matmul(b, x, k, true, name, "scores", rows);
        if (width > 1) x = piece(b, unary(SW_OP_RESHAPE, x), "scores", "scores", i, heads);
        snprintf(masked_name, sizeof masked_name, "masked_scores.%u", i);
        snprintf(name, sizeof name, "probabilities.%u", i);
        x = probabilities(b, x, masked_name, name, heads);
        if (width > 1)
            x = piece(b, unary(SW_OP_RESHAPE, x), "probabilities_groups", "probabilities", i, rows);
        snprintf(name, sizeof name, "context_groups.%u", i);
        x = matmul(b, x, v, false, name, "context", SHAPE(1, 1, width * n, d));
        if (width > 1)
            x = piece(b, unary(SW_OP_RESHAPE, x), "context_heads", "context", i, SHAPE(1, width, n, d));
        join.inputs[i] = x;
    }
    uint32_t x = join.inputs[0];
    if (join.n_inputs > 1) x = activation(b, join, "context_heads", SHAPE(1, h->n_heads, n, d));
    return join_heads(b, x);
}

static uint32_t attention(builder *b, uint32_t x) {
    const sw_hparams *h = &b->decoder->hparams;
    uint32_t n = b->n, d = h->head_dim, q_width = h->n_heads * d, kv_width = h->n_kv_heads * d;
    uint32_t k_cache = 0, v_cache = 0;
    if (b->c > 0) {
        shape cache = SHAPE(1, h->n_kv_heads, b->c, d);
        k_cache = add_tensor(b, SW_TENSOR_INPUT, SW_ROLE_KV, "k_cache", "k_new", cache);
        v_cache = add_tensor(b, SW_TENSOR_INPUT, SW_ROLE_KV, "v_cache", "v_new", cache);
    }
    uint32_t q = linear(b, x, SW_W_Q, "q", SHAPE(n, q_width));
    uint32_t k = linear(b, x, SW_W_K, "k", SHAPE(n, kv_width));
    uint32_t v = linear(b, x, SW_W_V, "v", SHAPE(n, kv_width));
    q = split_heads(b, q, h->n_heads, "q_rows", "q_heads", SW_TENSOR_NATIVE, SW_ROLE_ACTIVATION);
    k = split_heads(b, k, h->n_kv_heads, "k_rows", "k_heads", SW_TENSOR_NATIVE, SW_ROLE_ACTIVATION);
    v = split_heads(b, v, h->n_kv_heads, "v_rows", "v_new", SW_TENSOR_OUTPUT, SW_ROLE_KV);
    q = activation(b, rotary(b, q), "q_rope", SHAPE(1, h->n_heads, n, d));
    k = add_op(b, rotary(b, k), SW_TENSOR_OUTPUT, SW_ROLE_KV, "k_new", NULL, SHAPE(1, h->n_kv_heads, n, d));
    if (b->failed) return 0;
    uint32_t context =
        b->options->attention == SW_ATTENTION_GROUPED
            ? attend_grouped(b, q, k_cache, v_cache, k, v)
            : attend_cut(b, sw_attention_heads_at_once(h, b->options->attention), q, k_cache, v_cache, k, v);
    return linear(b, context, SW_W_O, "attention_out", SHAPE(n, h->hidden));
}

static uint32_t feed_forward(builder *b, uint32_t x) {
    const sw_hparams *h = &b->decoder->hparams;
    shape wide = SHAPE(b->n, h->ffn);
    uint32_t gate = linear(b, x, SW_W_GATE, "gate", wide);
    uint32_t up = linear(b, x, SW_W_UP, "up", wide);
    uint32_t sigmoid = activation(b, unary(SW_OP_SIGMOID, gate), "gate_sigmoid", wide);
    uint32_t silu = activation(b, binary(SW_OP_MULTIPLY, gate, sigmoid), "gate_silu", wide);
    uint32_t product = activation(b, binary(SW_OP_MULTIPLY, silu, up), "ffn_product", wide);
    return linear(b, product, SW_W_DOWN, "ffn_out", SHAPE(b->n, h->hidden));
}

/* A row of logits -> outputs `logits` and `tokens`, the best of them. */
static void candidates(builder *b, uint32_t row) {
    shape best = SHAPE(1, b->options->head.top_k);
    sw_op op = unary(SW_OP_TOP_K, row);
    op.n_outputs = 2;
    op.outputs[0] = add_tensor(b, SW_TENSOR_OUTPUT, SW_ROLE_ACTIVATION, "logits", NULL, best);
    op.outputs[1] = add_tensor(b, SW_TENSOR_OUTPUT, SW_ROLE_INDEX, "tokens", NULL, best);
    if (b->failed) return;
    op.name = b->graph->tensors[op.outputs[0]]->name;
    if (!sw_graph_add_op(b->graph, &op)) b->failed = true;
}

/* A row's logits in pieces of channels, joined again. x [1, hidden] -> output `logits`. */
static void head_in_pieces(builder *b, uint32_t x) {
    const uint32_t vocab = b->decoder->hparams.vocab, pieces = b->options->head.pieces;
    const uint32_t width = vocab % 32 == 0 ? 32 : 1, w = weight(b, SW_W_HEAD);
    sw_op join = {.type = SW_OP_CONCAT, .n_inputs = pieces};
    for (uint32_t i = 0; i < pieces; i++) {
        sw_op op = binary(SW_OP_FULLY_CONNECTED, x, w);
        op.channels.begin = sw_head_piece_begin(vocab, pieces, i);
        op.channels.end = sw_head_piece_begin(vocab, pieces, i + 1);
        const uint32_t n = op.channels.end - op.channels.begin;
        const uint32_t row = piece(b, op, "logits_row", "logits", i, SHAPE(1, n));
        join.inputs[i] =
            piece(b, unary(SW_OP_RESHAPE, row), "logits_part", "logits", i, SHAPE(n / width, width));
    }
    add_op(b, join, SW_TENSOR_OUTPUT, SW_ROLE_ACTIVATION, "logits", NULL, SHAPE(vocab / width, width));
}

/* The final norm and the head. x [n, hidden] -> output `logits`. */
static void head(builder *b, uint32_t x, uint32_t last) {
    const sw_hparams *h = &b->decoder->hparams;
    const sw_head_form *form = &b->options->head;
    uint32_t rows = form->all_rows ? b->n : form->rows > 0 ? form->rows : 1;
    if (rows == 1 && last != UINT32_MAX && !b->failed) /* a row of x: recipes' rules for x hold for it */
        x = add_op(b, binary(SW_OP_GATHER, x, last), SW_TENSOR_NATIVE, SW_ROLE_ACTIVATION, "last_hidden",
                   b->graph->tensors[x]->range, SHAPE(1, h->hidden));
    x = rms_norm(b, x, SW_W_FINAL_NORM, "final_norm_out", SHAPE(rows == 1 ? 1 : b->n, h->hidden));
    if (rows > 1 && last != UINT32_MAX && !b->failed) /* all rows up to here are looked at */
        x = add_op(b, binary(SW_OP_GATHER, x, last), SW_TENSOR_NATIVE, SW_ROLE_ACTIVATION, "final_norm_rows",
                   b->graph->tensors[x]->range, SHAPE(rows, h->hidden));
    if (form->pieces > 1) {
        head_in_pieces(b, x);
        return;
    }
    sw_op op = binary(SW_OP_FULLY_CONNECTED, x, weight(b, SW_W_HEAD));
    shape logits = SHAPE(rows, h->vocab);
    if (rows == 1) { /* see decoder.h: a single row would leave as a tile of 32 */
        x = add_op(b, op, SW_TENSOR_NATIVE, SW_ROLE_ACTIVATION, "logits_row", "logits", logits);
        if (b->options->head.top_k > 0) {
            candidates(b, x);
            return;
        }
        op = unary(SW_OP_RESHAPE, x);
        logits = h->vocab % 32 == 0 ? SHAPE(32, h->vocab / 32) : SHAPE(h->vocab, 1);
    }
    add_op(b, op, SW_TENSOR_OUTPUT, SW_ROLE_ACTIVATION, "logits", NULL, logits);
}

static sw_code build_graph(builder *b, uint32_t shard, sw_error *err) {
    sw_decoder *decoder = b->decoder;
    const sw_hparams *h = &decoder->hparams;
    const sw_layer_run run = sw_shard_layers(h->n_layers, decoder->n_shards, shard);
    char name[SW_NAME_BYTES];
    b->n = b->options->ar_len, b->C = decoder->context_len, b->c = b->C - b->n;
    b->layer = UINT32_MAX;
    b->graph = sw_graph_create(&decoder->arena, b->options->name, b->n, b->C);
    if (b->graph == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", b->options->name);
    b->graph->shard = shard, b->graph->begin_layer = run.begin, b->graph->end_layer = run.end;
    bool ends = run.end == h->n_layers;
    shape row = SHAPE(b->n, h->hidden), angles = SHAPE(1, b->n, h->head_dim / 2);
    uint32_t x =
        add_tensor(b, SW_TENSOR_INPUT, SW_ROLE_ACTIVATION, sw_graph_first_input(b->graph, name), NULL, row);
    b->cos = add_tensor(b, SW_TENSOR_INPUT, SW_ROLE_ACTIVATION, "cos", NULL, angles);
    b->sin = add_tensor(b, SW_TENSOR_INPUT, SW_ROLE_ACTIVATION, "sin", NULL, angles);
    b->mask = add_tensor(b, SW_TENSOR_INPUT, SW_ROLE_ACTIVATION, "mask", NULL, SHAPE(1, 1, b->n, b->C));
    uint32_t last = UINT32_MAX;
    if (ends && !b->options->head.all_rows && b->n > 1)
        last = add_tensor(b, SW_TENSOR_INPUT, SW_ROLE_INDEX, "last", NULL,
                          SHAPE(b->options->head.rows > 0 ? b->options->head.rows : 1));

    for (uint32_t layer = run.begin; layer < run.end && !b->failed; layer++) {
        b->layer = layer;
        uint32_t a = attention(b, rms_norm(b, x, SW_W_ATTENTION_NORM, "attention_in", row));
        x = activation(b, binary(SW_OP_ADD, x, a), "attention_residual", row);
        uint32_t f = feed_forward(b, rms_norm(b, x, SW_W_FFN_NORM, "ffn_in", row));
        bool leaves = layer + 1 == run.end && !ends;
        x = add_op(b, binary(SW_OP_ADD, x, f), leaves ? SW_TENSOR_OUTPUT : SW_TENSOR_NATIVE,
                   SW_ROLE_ACTIVATION, "residual", NULL, row);
    }

    b->layer = UINT32_MAX;
    if (ends) head(b, x, last);
    if (b->failed || !sw_graph_seal(b->graph))
        return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", b->options->name);
    decoder->graphs[decoder->n_graphs++] = b->graph;
    return SW_OK;
}

/* One sw_tensor for each weight of the model; the head is the embedding where tied. */
static bool make_constants(builder *b, const sw_model *model) {
    sw_decoder *decoder = b->decoder;
    const sw_hparams *h = &decoder->hparams;
    static const bool per_layer[SW_WEIGHT_COUNT] = {
#define SW_PER_LAYER(id, ir_name, gguf_name, layered) [id] = layered,
        SW_WEIGHTS(SW_PER_LAYER)
#undef SW_PER_LAYER
    };
    size_t most = (size_t)h->n_layers * SW_WEIGHT_COUNT;
    b->weights = sw_arena_array(&decoder->arena, most, sizeof *b->weights);
    decoder->constants = sw_arena_array(&decoder->arena, most, sizeof *decoder->constants);
    if (b->weights == NULL || decoder->constants == NULL) return false;
    for (uint32_t layer = 0; layer < h->n_layers; layer++) {
        for (unsigned id = 0; id < SW_WEIGHT_COUNT; id++) {
            sw_tensor **slot = &b->weights[layer * SW_WEIGHT_COUNT + id];
            if (layer > 0 && !per_layer[id]) continue;
            if (id == SW_W_HEAD && h->tied_embeddings) {
                *slot = b->weights[SW_W_EMBEDDING];
                continue;
            }
            const sw_weight *w = sw_model_weight(model, (sw_weight_id)id, layer);
            char name[SW_NAME_BYTES];
            sw_weight_ir_name((sw_weight_id)id, layer, name, sizeof name);
            sw_tensor *t = sw_arena_alloc(&decoder->arena, sizeof *t);
            const char *copy = sw_arena_strdup(&decoder->arena, name);
            if (t == NULL || copy == NULL) return false;
            bool vector = id == SW_W_ATTENTION_NORM || id == SW_W_FFN_NORM || id == SW_W_FINAL_NORM;
            *t = (sw_tensor){
                .name = copy, .range = copy, .kind = SW_TENSOR_CONSTANT, .dtype = SW_F32, .weight = w};
            t->role = vector ? SW_ROLE_GAMMA : SW_ROLE_WEIGHT;
            t->rank = vector ? 1 : 2;
            t->dims[0] = vector ? w->cols : w->rows;
            if (!vector) t->dims[1] = w->cols;
            *slot = t;
            decoder->constants[decoder->n_constants++] = t;
        }
    }
    decoder->embedding = b->weights[SW_W_EMBEDDING];
    return true;
}

static sw_code check_sizes(const sw_model *model, uint32_t context_len, const sw_graph_options *kinds,
                           uint32_t n_kinds, uint32_t n_shards, sw_error *err) {
    uint32_t most = model->hparams.n_layers < SW_MAX_SHARDS ? model->hparams.n_layers : SW_MAX_SHARDS;
    if (n_kinds < 1 || n_kinds > SW_MAX_KINDS)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%u graphs, wanted 1 to %d", n_kinds, SW_MAX_KINDS);
    if (n_shards < 1 || n_shards > most)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%u shards, wanted 1 to %u: the model has %u layers",
                       n_shards, most, model->hparams.n_layers);
    for (uint32_t i = 0; i < n_kinds; i++) {
        if (kinds[i].ar_len < 1 || kinds[i].ar_len > context_len)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: AR length %u, wanted 1 to the context length %u",
                           kinds[i].name, kinds[i].ar_len, context_len);
        if (kinds[i].head.top_k > 0 && (kinds[i].head.all_rows || kinds[i].head.top_k > model->hparams.vocab))
            return SW_FAIL(err, SW_INVALID_ARGUMENT,
                           "%s: the %u best logits, wanted at most %u and of one row", kinds[i].name,
                           kinds[i].head.top_k, model->hparams.vocab);
        const sw_head_form head = kinds[i].head;
        if (head.pieces > 1 && (head.all_rows || head.top_k > 0 || head.pieces > SW_MAX_INPUTS ||
                                head.pieces > model->hparams.vocab / 32))
            return SW_FAIL(err, SW_INVALID_ARGUMENT,
                           "%s: a head in %u pieces, wanted at most %d of 32 logits or more, and all logits "
                           "of one row",
                           kinds[i].name, head.pieces, SW_MAX_INPUTS);
        if (head.rows > 0 && (head.rows < 2 || head.rows > kinds[i].ar_len || head.all_rows ||
                              head.top_k > 0 || head.pieces > 1))
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: logits of %u rows, wanted 2 to the AR length %u",
                           kinds[i].name, head.rows, kinds[i].ar_len);
        if (!sw_attention_form_fits(&model->hparams, kinds[i].attention))
            return SW_FAIL(err, SW_INVALID_ARGUMENT,
                           "%s: attention %s has more pieces than the %d that can be joined", kinds[i].name,
                           sw_attention_form_name(kinds[i].attention), SW_MAX_INPUTS);
    }
    return SW_OK;
}

sw_code sw_decoder_build_shards(sw_decoder *decoder, const sw_model *model, uint32_t context_len,
                                const sw_graph_options *kinds, uint32_t n_kinds, uint32_t n_shards,
                                sw_error *err) {
    *decoder = (sw_decoder){.hparams = model->hparams, .context_len = context_len, .n_shards = n_shards};
    SW_TRY(check_sizes(model, context_len, kinds, n_kinds, n_shards, err));
    builder b = {.decoder = decoder};
    sw_code code = SW_OK;
    if (!make_constants(&b, model))
        code = SW_FAIL(err, SW_NO_MEMORY, "out of memory for the graphs' constants");
    for (uint32_t i = 0; i < n_shards * n_kinds && code == SW_OK; i++) {
        b.options = &kinds[i % n_kinds];
        code = build_graph(&b, i / n_kinds, err);
    }
    if (code != SW_OK) sw_decoder_free(decoder);
    return code;
}

sw_code sw_decoder_build(sw_decoder *decoder, const sw_model *model, uint32_t context_len,
                         const sw_graph_options *graphs, uint32_t n_graphs, sw_error *err) {
    return sw_decoder_build_shards(decoder, model, context_len, graphs, n_graphs, 1, err);
}

sw_dtype sw_decoder_kv_type(const sw_decoder *decoder) {
    uint32_t k = sw_graph_find(decoder->graphs[0], "layer_0.k_new");
    return k != UINT32_MAX ? decoder->graphs[0]->tensors[k]->dtype : SW_F32;
}

uint64_t sw_sink_values(const sw_hparams *h, uint32_t n_tokens) {
    return (uint64_t)h->n_layers * 2 * h->n_kv_heads * n_tokens * h->head_dim;
}

void sw_decoder_free(sw_decoder *decoder) {
    sw_arena_free(&decoder->arena);
    *decoder = (sw_decoder){0};
}
