/* read_json.c: graph.json back into a decoder. Names become indices through one jansson object a list, used
 * as a hash table; numbers are checked where they are read, so that nothing is sized by an unchecked one.
 * What the ops mean is checked afterwards, by sw_decoder_verify. */
#include <math.h>
#include <string.h>

#include "graph/json.h"

typedef struct reader {
    sw_decoder *decoder;
    bool *per_channel; /* [n_constants] */
    json_t *constants; /* name -> index of a constant */
    sw_error *err;
} reader;

static sw_code no_memory(reader *r, const sw_json *at) {
    return SW_FAIL(r->err, SW_NO_MEMORY, "%s: out of memory", at->file);
}

static sw_code get_text(const sw_json *parent, const char *key, const char **out, sw_error *err) {
    sw_json at;
    SW_TRY(sw_json_get(parent, key, &at, err));
    return sw_json_text(&at, false, SW_NAME_BYTES - 1, out, err);
}

static sw_code get_u32(const sw_json *parent, const char *key, uint32_t least, uint32_t most, uint32_t *out,
                       sw_error *err) {
    sw_json at;
    SW_TRY(sw_json_get(parent, key, &at, err));
    return sw_json_u32(&at, least, most, out, err);
}

static sw_code get_f32(const sw_json *parent, const char *key, float *out, sw_error *err) {
    sw_json at;
    double value;
    SW_TRY(sw_json_get(parent, key, &at, err));
    SW_TRY(sw_json_f64(&at, &value, err));
    if (fabs(value) >= 0x1.ffffffp127) /* what rounds beyond the largest float; its own 9 digits don't */
        return sw_json_fail(&at, err, "%g is too large for a float", value);
    *out = (float)value;
    return SW_OK;
}

static sw_code get_fixed_text(const sw_json *parent, const char *key, char *out, size_t capacity,
                              sw_error *err) {
    sw_json at;
    const char *text;
    SW_TRY(sw_json_get(parent, key, &at, err));
    SW_TRY(sw_json_text(&at, true, capacity - 1, &text, err));
    memcpy(out, text, strlen(text) + 1);
    return SW_OK;
}

sw_code sw_hparams_from_json(sw_hparams *h, const sw_json *at, sw_error *err) {
    static const char *const keys[] = {
        "architecture", "name",     "n_layers",    "hidden",      "ffn",        "vocab",           "n_heads",
        "n_kv_heads",   "head_dim", "context_max", "rms_epsilon", "rope_theta", "tied_embeddings", NULL};
    sw_json tied;
    *h = (sw_hparams){0};
    SW_TRY(sw_json_only_keys(at, keys, err));
    SW_TRY(get_fixed_text(at, "architecture", h->architecture, sizeof h->architecture, err));
    SW_TRY(get_fixed_text(at, "name", h->name, sizeof h->name, err));
    SW_TRY(get_u32(at, "n_layers", 1, 1024, &h->n_layers, err));
    SW_TRY(get_u32(at, "hidden", 1, 1 << 20, &h->hidden, err));
    SW_TRY(get_u32(at, "ffn", 1, 1 << 24, &h->ffn, err));
    SW_TRY(get_u32(at, "vocab", 1, 1 << 24, &h->vocab, err));
    SW_TRY(get_u32(at, "n_heads", 1, 4096, &h->n_heads, err));
    SW_TRY(get_u32(at, "n_kv_heads", 1, 4096, &h->n_kv_heads, err));
    SW_TRY(get_u32(at, "head_dim", 2, 4096, &h->head_dim, err));
    SW_TRY(get_u32(at, "context_max", 0, UINT32_MAX, &h->context_max, err));
    SW_TRY(get_f32(at, "rms_epsilon", &h->rms_epsilon, err));
    SW_TRY(get_f32(at, "rope_theta", &h->rope_theta, err));
    SW_TRY(sw_json_get(at, "tied_embeddings", &tied, err));
    SW_TRY(sw_json_bool(&tied, &h->tied_embeddings, err));
    if (h->n_heads % h->n_kv_heads != 0)
        return sw_json_fail(at, err, "n_heads %u is no multiple of n_kv_heads %u", h->n_heads, h->n_kv_heads);
    if (h->head_dim % 2 != 0) return sw_json_fail(at, err, "head_dim %u is odd", h->head_dim);
    if (!(h->rms_epsilon > 0) || !(h->rope_theta > 0))
        return sw_json_fail(at, err, "rms_epsilon is %g and rope_theta %g, wanted both above 0",
                            (double)h->rms_epsilon, (double)h->rope_theta);
    return SW_OK;
}

static sw_code read_dims(reader *r, const sw_json *parent, sw_tensor *t) {
    sw_json at;
    size_t rank;
    uint64_t elements = 1; /* below 2^32 before each step */
    SW_TRY(sw_json_get(parent, "dims", &at, r->err));
    SW_TRY(sw_json_array(&at, 1, SW_MAX_RANK, &rank, r->err));
    t->rank = (uint32_t)rank;
    for (uint32_t i = 0; i < t->rank; i++) {
        sw_json element = sw_json_element(&at, i);
        SW_TRY(sw_json_u32(&element, 1, UINT32_MAX, &t->dims[i], r->err));
        elements *= t->dims[i];
        if (elements > UINT32_MAX) return sw_json_fail(&at, r->err, "a tensor has at most 2^32 - 1 elements");
    }
    return SW_OK;
}

static sw_code read_encoding(reader *r, const sw_json *parent, sw_tensor *t) {
    static const char *const keys[] = {"scale", "offset", NULL};
    sw_json at, offset;
    int64_t value;
    SW_TRY(sw_json_get(parent, "encoding", &at, r->err));
    SW_TRY(sw_json_only_keys(&at, keys, r->err));
    SW_TRY(get_f32(&at, "scale", &t->encoding.scale, r->err));
    SW_TRY(sw_json_get(&at, "offset", &offset, r->err));
    SW_TRY(sw_json_i64(&offset, INT32_MIN, INT32_MAX, &value, r->err));
    t->encoding.offset = (int32_t)value;
    return SW_OK;
}

/* One of a list of names, by its reader. */
#define READ_ENUM(r, parent, key, from_name, out)                                                            \
    do {                                                                                                     \
        const char *enum_name_;                                                                              \
        sw_json enum_at_ = sw_json_find((parent), (key));                                                    \
        SW_TRY(get_text((parent), (key), &enum_name_, (r)->err));                                            \
        if (!from_name(enum_name_, (out)))                                                                   \
            return sw_json_fail(&enum_at_, (r)->err, "unknown " key " `%s`", enum_name_);                    \
    } while (0)

/* "bits": 4, "scales": "float_block", "block": 32; without them 8 bits and a scale a row. */
static sw_code read_form(reader *r, const sw_json *at, sw_tensor *t, bool per_channel) {
    sw_json bits = sw_json_find(at, "bits"), scales = sw_json_find(at, "scales"),
            block = sw_json_find(at, "block");
    uint32_t value;
    if (bits.value != NULL) SW_TRY(sw_json_u32(&bits, 4, 4, &value, r->err));
    t->form.four_bit = bits.value != NULL;
    if (scales.value != NULL) READ_ENUM(r, at, "scales", sw_scales_from_name, &t->form.scales);
    bool blocks = t->form.scales != SW_SCALES_ROW;
    if (blocks) SW_TRY(get_u32(at, "block", 16, 64, &t->form.block, r->err));
    if (!blocks && block.value != NULL) return sw_json_fail(&block, r->err, "only scales of blocks have one");
    if ((blocks || t->form.four_bit) && (t->dtype != SW_S8 || t->rank != 2))
        return sw_json_fail(at, r->err, "is %s of rank %u, but its bits or scales are those of s8 matrices",
                            sw_dtype_name(t->dtype), t->rank);
    if (blocks && t->dims[1] % t->form.block != 0)
        return sw_json_fail(&block, r->err, "%u doesn't divide the row's %u", t->form.block, t->dims[1]);
    if (blocks && per_channel != (t->form.scales == SW_SCALES_BLOCKWISE))
        return sw_json_fail(at, r->err, "scales `%s` %s", sw_scales_name(t->form.scales),
                            per_channel ? "come without `per_channel`" : "need `per_channel`");
    return SW_OK;
}

static sw_code read_tensor(reader *r, const sw_json *at, bool constant, sw_tensor **out, bool *per_channel) {
    static const char *const keys[] = {"name",        "role", "dtype",  "dims",  "range", "encoding",
                                       "per_channel", "bits", "scales", "block", NULL};
    static const char *const native_keys[] = {"name", "kind",  "role",     "dtype",
                                              "dims", "range", "encoding", NULL};
    const char *name;
    SW_TRY(sw_json_only_keys(at, constant ? keys : native_keys, r->err));
    sw_arena *arena = &r->decoder->arena;
    sw_tensor *t = sw_arena_alloc(arena, sizeof *t);
    if (t == NULL) return no_memory(r, at);
    SW_TRY(get_text(at, "name", &name, r->err));
    if ((t->name = sw_arena_strdup(arena, name)) == NULL) return no_memory(r, at);
    t->range = t->name;
    if (sw_json_find(at, "range").value != NULL) {
        SW_TRY(get_text(at, "range", &name, r->err));
        if ((t->range = sw_arena_strdup(arena, name)) == NULL) return no_memory(r, at);
    }
    t->kind = SW_TENSOR_CONSTANT;
    if (!constant) READ_ENUM(r, at, "kind", sw_tensor_kind_from_name, &t->kind);
    if (!constant && t->kind == SW_TENSOR_CONSTANT)
        return sw_json_fail(at, r->err, "a constant stands in `constants`; here only its name");
    READ_ENUM(r, at, "role", sw_role_from_name, &t->role);
    READ_ENUM(r, at, "dtype", sw_dtype_from_name, &t->dtype);
    SW_TRY(read_dims(r, at, t));

    sw_json scales = sw_json_find(at, "per_channel");
    if (scales.value != NULL) SW_TRY(sw_json_bool(&scales, per_channel, r->err));
    if (constant) SW_TRY(read_form(r, at, t, *per_channel));
    bool wanted = sw_dtype_quantized(t->dtype) && t->form.scales != SW_SCALES_FLOAT_BLOCK &&
                  (per_channel == NULL || !*per_channel);
    if (!wanted && sw_json_find(at, "encoding").value != NULL)
        return sw_json_fail(at, r->err, "has an encoding, but %s",
                            sw_dtype_quantized(t->dtype) ? "also a scale a row or block"
                                                         : "its type has none");
    if (wanted) SW_TRY(read_encoding(r, at, t));
    if (per_channel != NULL && *per_channel && !sw_dtype_quantized(t->dtype))
        return sw_json_fail(at, r->err, "has a scale a row, but %s has none", sw_dtype_name(t->dtype));
    *out = t;
    return SW_OK;
}

/* Adds name -> index; a name that is there already is refused. */
static sw_code add_name(reader *r, const sw_json *at, json_t *table, const char *name, uint32_t index) {
    json_t *there = json_object_get(table, name);
    if (there != NULL)
        return sw_json_fail(at, r->err, "`%s` is there already, as element %lld", name,
                            (long long)json_integer_value(there));
    return json_object_set_new(table, name, json_integer(index)) == 0 ? SW_OK : no_memory(r, at);
}

static sw_code read_constants(reader *r, const sw_json *document) {
    sw_decoder *d = r->decoder;
    sw_json at;
    size_t count;
    SW_TRY(sw_json_get(document, "constants", &at, r->err));
    SW_TRY(sw_json_array(&at, 1, UINT32_MAX - 1, &count, r->err));
    d->constants = sw_arena_array(&d->arena, count, sizeof *d->constants);
    r->per_channel = sw_arena_array(&d->arena, count, sizeof *r->per_channel);
    if (d->constants == NULL || r->per_channel == NULL) return no_memory(r, &at);
    for (uint32_t i = 0; i < count; i++) {
        sw_json element = sw_json_element(&at, i);
        SW_TRY(read_tensor(r, &element, true, &d->constants[i], &r->per_channel[i]));
        SW_TRY(add_name(r, &element, r->constants, d->constants[i]->name, i));
        d->n_constants++;
    }
    const char *name;
    SW_TRY(get_text(document, "embedding", &name, r->err));
    json_t *index = json_object_get(r->constants, name);
    sw_json embedding = sw_json_find(document, "embedding");
    if (index == NULL) return sw_json_fail(&embedding, r->err, "`%s` is no constant", name);
    d->embedding = d->constants[json_integer_value(index)];
    return SW_OK;
}

static sw_code read_tensors(reader *r, const sw_json *parent, sw_graph *graph, json_t *table) {
    sw_json at;
    size_t count;
    SW_TRY(sw_json_get(parent, "tensors", &at, r->err));
    SW_TRY(sw_json_array(&at, 1, UINT32_MAX - 1, &count, r->err));
    for (uint32_t i = 0; i < count; i++) {
        sw_json element = sw_json_element(&at, i);
        sw_tensor *t = NULL;
        if (json_is_string(element.value)) {
            const char *name;
            SW_TRY(sw_json_text(&element, false, SW_NAME_BYTES - 1, &name, r->err));
            json_t *index = json_object_get(r->constants, name);
            if (index == NULL) return sw_json_fail(&element, r->err, "`%s` is no constant", name);
            t = r->decoder->constants[json_integer_value(index)];
        } else {
            SW_TRY(read_tensor(r, &element, false, &t, NULL));
            if (json_object_get(r->constants, t->name) != NULL)
                return sw_json_fail(&element, r->err, "`%s` is the name of a constant", t->name);
        }
        SW_TRY(add_name(r, &element, table, t->name, i));
        if (sw_graph_add_tensor(graph, t) == UINT32_MAX) return no_memory(r, &at);
    }
    return SW_OK;
}

static sw_code read_operands(reader *r, const sw_json *op_at, const char *key, const json_t *table,
                             uint32_t least, uint32_t most, uint32_t *out, uint32_t *out_count) {
    sw_json at;
    size_t count;
    SW_TRY(sw_json_get(op_at, key, &at, r->err));
    SW_TRY(sw_json_array(&at, least, most, &count, r->err));
    for (uint32_t i = 0; i < count; i++) {
        sw_json element = sw_json_element(&at, i);
        const char *name;
        SW_TRY(sw_json_text(&element, false, SW_NAME_BYTES - 1, &name, r->err));
        json_t *index = json_object_get(table, name);
        if (index == NULL) return sw_json_fail(&element, r->err, "the graph has no tensor `%s`", name);
        out[i] = (uint32_t)json_integer_value(index);
    }
    *out_count = (uint32_t)count;
    return SW_OK;
}

/* Exactly rank numbers up to most. */
static sw_code read_ranked(reader *r, const sw_json *params, const char *key, uint32_t rank, uint32_t most,
                           uint32_t *out) {
    sw_json at;
    size_t count;
    SW_TRY(sw_json_get(params, key, &at, r->err));
    SW_TRY(sw_json_array(&at, rank, rank, &count, r->err));
    for (uint32_t i = 0; i < rank; i++) {
        sw_json element = sw_json_element(&at, i);
        SW_TRY(sw_json_u32(&element, 0, most, &out[i], r->err));
    }
    return SW_OK;
}

static sw_code read_params(reader *r, const sw_json *op_at, sw_op *op, uint32_t rank) {
    static const char *const keys[SW_OP_COUNT][3] = {
        [SW_OP_RMS_NORM] = {"epsilon"}, [SW_OP_MATMUL] = {"transpose_in1"},
        [SW_OP_SOFTMAX] = {"beta"},     [SW_OP_TRANSPOSE] = {"perm"},
        [SW_OP_CONCAT] = {"axis"},      [SW_OP_STRIDED_SLICE] = {"begin", "end"}};
    sw_json at = sw_json_find(op_at, "params"), value;
    if (keys[op->type][0] == NULL) {
        if (at.value == NULL) return SW_OK;
        return sw_json_fail(&at, r->err, "%s has no parameters", sw_op_get_info(op->type)->name);
    }
    SW_TRY(sw_json_get(op_at, "params", &at, r->err));
    SW_TRY(sw_json_only_keys(&at, keys[op->type], r->err));
    switch (op->type) {
    case SW_OP_RMS_NORM:
        return get_f32(&at, "epsilon", &op->params.rms_norm.epsilon, r->err);
    case SW_OP_MATMUL:
        SW_TRY(sw_json_get(&at, "transpose_in1", &value, r->err));
        return sw_json_bool(&value, &op->params.matmul.transpose_in1, r->err);
    case SW_OP_SOFTMAX:
        return get_f32(&at, "beta", &op->params.softmax.beta, r->err);
    case SW_OP_TRANSPOSE:
        return read_ranked(r, &at, "perm", rank, rank - 1, op->params.transpose.perm);
    case SW_OP_CONCAT:
        return get_u32(&at, "axis", 0, rank - 1, &op->params.concat.axis, r->err);
    case SW_OP_STRIDED_SLICE:
        SW_TRY(read_ranked(r, &at, "begin", rank, UINT32_MAX, op->params.strided_slice.begin));
        return read_ranked(r, &at, "end", rank, UINT32_MAX, op->params.strided_slice.end);
    default:
        return SW_OK;
    }
}

/* [begin, end) of FullyConnected's or MatMul's constant; verify compares it with that. */
static sw_code read_channels(reader *r, const sw_json *op_at, sw_op *op) {
    sw_json at = sw_json_find(op_at, "channels");
    uint32_t range[2];
    if (at.value == NULL) return SW_OK;
    if (op->type != SW_OP_FULLY_CONNECTED && op->type != SW_OP_MATMUL)
        return sw_json_fail(&at, r->err, "%s takes no channels of a constant",
                            sw_op_get_info(op->type)->name);
    SW_TRY(read_ranked(r, op_at, "channels", 2, UINT32_MAX, range));
    if (range[0] >= range[1])
        return sw_json_fail(&at, r->err, "is [%u, %u], wanted the second greater than the first", range[0],
                            range[1]);
    op->channels.begin = range[0], op->channels.end = range[1];
    return SW_OK;
}

static sw_code read_op(reader *r, const sw_json *at, sw_graph *graph, const json_t *table) {
    static const char *const keys[] = {"type", "name", "inputs", "outputs", "params", "channels", NULL};
    sw_op op = {0};
    const char *name;
    SW_TRY(sw_json_only_keys(at, keys, r->err));
    READ_ENUM(r, at, "type", sw_op_from_name, &op.type);
    const sw_op_info *info = sw_op_get_info(op.type);
    SW_TRY(get_text(at, "name", &name, r->err));
    if ((op.name = sw_arena_strdup(graph->arena, name)) == NULL) return no_memory(r, at);
    SW_TRY(read_operands(r, at, "inputs", table, info->least_inputs, info->most_inputs, op.inputs,
                         &op.n_inputs));
    SW_TRY(
        read_operands(r, at, "outputs", table, info->n_outputs, info->n_outputs, op.outputs, &op.n_outputs));
    SW_TRY(read_params(r, at, &op, graph->tensors[op.inputs[0]]->rank));
    SW_TRY(read_channels(r, at, &op));
    return sw_graph_add_op(graph, &op) ? SW_OK : no_memory(r, at);
}

static sw_code read_graph(reader *r, const sw_json *at, uint32_t n_kinds, json_t *table) {
    static const char *const keys[] = {"name", "ar_len", "tensors", "ops", NULL};
    sw_decoder *d = r->decoder;
    const char *name;
    uint32_t ar_len;
    SW_TRY(sw_json_only_keys(at, keys, r->err));
    SW_TRY(get_text(at, "name", &name, r->err));
    uint32_t kind = d->n_graphs % n_kinds, shard = d->n_graphs / n_kinds;
    for (uint32_t i = d->n_graphs - kind; i < d->n_graphs; i++)
        if (strcmp(d->graphs[i]->name, name) == 0)
            return sw_json_fail(at, r->err, "two graphs are named `%s`", name);
    if (shard > 0 && strcmp(d->graphs[kind]->name, name) != 0)
        return sw_json_fail(at, r->err, "is named `%s`, in the first shard `%s`", name,
                            d->graphs[kind]->name);
    SW_TRY(get_u32(at, "ar_len", 1, d->context_len, &ar_len, r->err));
    sw_graph *graph = sw_graph_create(&d->arena, name, ar_len, d->context_len);
    if (graph == NULL) return no_memory(r, at);
    const sw_layer_run run = sw_shard_layers(d->hparams.n_layers, d->n_shards, shard);
    graph->shard = shard, graph->begin_layer = run.begin, graph->end_layer = run.end;
    SW_TRY(read_tensors(r, at, graph, table));
    sw_json ops;
    size_t count;
    SW_TRY(sw_json_get(at, "ops", &ops, r->err));
    SW_TRY(sw_json_array(&ops, 1, UINT32_MAX - 1, &count, r->err));
    for (size_t i = 0; i < count; i++) {
        sw_json element = sw_json_element(&ops, i);
        SW_TRY(read_op(r, &element, graph, table));
    }
    if (!sw_graph_seal(graph)) return no_memory(r, at);
    d->graphs[d->n_graphs++] = graph;
    return SW_OK;
}

/* Every shard's graphs, one shard after another; each has as many. */
static sw_code read_graphs(reader *r, const sw_json *document) {
    sw_decoder *d = r->decoder;
    sw_json at;
    size_t count;
    uint32_t layers = d->hparams.n_layers;
    SW_TRY(get_u32(document, "shards", 1, layers < SW_MAX_SHARDS ? layers : SW_MAX_SHARDS, &d->n_shards,
                   r->err));
    SW_TRY(sw_json_get(document, "graphs", &at, r->err));
    SW_TRY(sw_json_array(&at, d->n_shards, (size_t)d->n_shards * SW_MAX_KINDS, &count, r->err));
    if (count % d->n_shards != 0)
        return sw_json_fail(&at, r->err, "has %zu graphs, which is no multiple of the %u shards", count,
                            d->n_shards);
    for (size_t i = 0; i < count; i++) {
        sw_json element = sw_json_element(&at, i);
        json_t *table = json_object();
        sw_code code =
            table != NULL ? read_graph(r, &element, (uint32_t)count / d->n_shards, table) : no_memory(r, &at);
        json_decref(table);
        SW_TRY(code);
    }
    return SW_OK;
}

static sw_code read_document(reader *r, sw_json *document) {
    static const char *const keys[] = {"format",    "version",   "hparams", "context_len", "shards",
                                       "embedding", "constants", "graphs",  NULL};
    sw_decoder *d = r->decoder;
    sw_json at;
    const char *format;
    int64_t version;
    SW_TRY(get_text(document, "format", &format, r->err));
    at = sw_json_find(document, "format");
    if (strcmp(format, "spillway-graph") != 0)
        return sw_json_fail(&at, r->err, "is `%s`, wanted `spillway-graph`", format);
    SW_TRY(sw_json_get(document, "version", &at, r->err));
    SW_TRY(sw_json_i64(&at, INT64_MIN, INT64_MAX, &version, r->err));
    if (version != SW_GRAPH_JSON_VERSION)
        return SW_FAIL(r->err, SW_UNSUPPORTED,
                       "%s: $.version: is %lld, this build reads %d: compile the model again", document->file,
                       (long long)version, SW_GRAPH_JSON_VERSION);
    document->other_keys = SW_JSON_OTHER_VERSION;
    SW_TRY(sw_json_only_keys(document, keys, r->err));
    SW_TRY(sw_json_get(document, "hparams", &at, r->err));
    SW_TRY(sw_hparams_from_json(&d->hparams, &at, r->err));
    SW_TRY(get_u32(document, "context_len", 1, 1 << 20, &d->context_len, r->err));
    SW_TRY(read_constants(r, document));
    return read_graphs(r, document);
}

sw_code sw_decoder_read_json(sw_decoder *decoder, const char *file, const char *text, size_t size,
                             bool **per_channel, sw_error *err) {
    sw_json document;
    *decoder = (sw_decoder){0};
    SW_TRY(sw_json_parse(&document, file, text, size, err));
    reader r = {.decoder = decoder, .constants = json_object(), .err = err};
    sw_code code = r.constants != NULL ? read_document(&r, &document) : no_memory(&r, &document);
    json_decref(r.constants);
    sw_json_free(&document);
    if (code == SW_OK && per_channel != NULL) *per_channel = r.per_channel;
    if (code != SW_OK) sw_decoder_free(decoder);
    return code;
}
