/* llama.c: a GGUF file of architecture `llama` as a model: hyperparameters from its keys, views of its
 * tensors. Meaning of the keys: ggml's docs/gguf.md. Nothing that could change the computation is passed over
 * in silence: a key `llama.*` or a tensor that isn't read here is refused by name.
 *
 * GGUF stores q and k of this architecture for RoPE on neighbours: pair i of a head at its rows 2i and 2i
 * + 1. The views turn that into halves order (dequant.c). */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/gguf.h"
#include "model/limits.h"

#define SUPPORTED_ARCHITECTURES "llama"

enum { KEY_BYTES = 80 };

/* Keys of the architecture that are read below, or say nothing about the computation. */
static const char *const known_keys[] = {
    "block_count",          "context_length",         "embedding_length",
    "feed_forward_length",  "attention.head_count",   "attention.head_count_kv",
    "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
    "rope.freq_base",       "rope.dimension_count",   "rope.scaling.type",
    "vocab_size",           "tensor_data_layout",
};

/* Shapes of weights: what a dimension is, in the words of the keys. */
typedef enum dim { DIM_ONE, DIM_HIDDEN, DIM_Q, DIM_KV, DIM_FFN, DIM_VOCAB } dim;

static const char *const dim_texts[] = {"1",
                                        "embedding_length",
                                        "head_count * key_length",
                                        "head_count_kv * key_length",
                                        "feed_forward_length",
                                        "vocabulary"};

static const struct {
    dim rows, cols;
} shapes[SW_WEIGHT_COUNT] = {
    [SW_W_EMBEDDING] = {DIM_VOCAB, DIM_HIDDEN},
    [SW_W_ATTENTION_NORM] = {DIM_ONE, DIM_HIDDEN},
    [SW_W_Q] = {DIM_Q, DIM_HIDDEN},
    [SW_W_K] = {DIM_KV, DIM_HIDDEN},
    [SW_W_V] = {DIM_KV, DIM_HIDDEN},
    [SW_W_O] = {DIM_HIDDEN, DIM_Q},
    [SW_W_FFN_NORM] = {DIM_ONE, DIM_HIDDEN},
    [SW_W_GATE] = {DIM_FFN, DIM_HIDDEN},
    [SW_W_UP] = {DIM_FFN, DIM_HIDDEN},
    [SW_W_DOWN] = {DIM_HIDDEN, DIM_FFN},
    [SW_W_FINAL_NORM] = {DIM_ONE, DIM_HIDDEN},
    [SW_W_HEAD] = {DIM_VOCAB, DIM_HIDDEN},
};

static const struct {
    const char *ir_name, *gguf_name;
    bool per_layer;
} weight_names[SW_WEIGHT_COUNT] = {
#define WEIGHT_NAMES(id, ir_name, gguf_name, per_layer) [id] = {ir_name, gguf_name, per_layer},
    SW_WEIGHTS(WEIGHT_NAMES)
#undef WEIGHT_NAMES
};

typedef struct loader {
    sw_model *model;
    const sw_gguf *gguf;
    const char *path;
    bool shapes_only; /* no weight is read */
    sw_error *err;
} loader;

SW_PRINTF(3, 4)
static sw_code load_fail(const loader *l, sw_code code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    sw_vfail(l->err, code, format, args);
    va_end(args);
    sw_error_prefix(l->err, "%s", l->path);
    return code;
}

/* A string that may be shown: UTF-8 without control characters, at most capacity - 1 bytes. */
static sw_code read_text(const loader *l, const char *key, char *out, size_t capacity) {
    sw_span text;
    SW_TRY(sw_gguf_get_string(l->gguf, key, &text, l->err));
    size_t bad;
    if (!sw_utf8_valid(text.data, text.size, &bad))
        return load_fail(l, SW_BAD_DATA, "key `%s` is not valid UTF-8 at its byte %zu", key, bad);
    for (size_t i = 0; i < text.size; i++)
        if ((uint8_t)text.data[i] < 0x20 || text.data[i] == 0x7f)
            return load_fail(l, SW_BAD_DATA, "key `%s` has control character 0x%02x at its byte %zu", key,
                             (uint8_t)text.data[i], i);
    size_t n = text.size < capacity ? text.size : capacity - 1;
    while (n < text.size && n > 0 && ((uint8_t)text.data[n] & 0xc0) == 0x80) n--; /* whole characters */
    memcpy(out, text.data, n);
    out[n] = '\0';
    return SW_OK;
}

/* llama.<name> within its bounds; *out stays where the key is missing and not required. */
static sw_code read_u32(const loader *l, const char *name, bool required, uint32_t least, uint32_t most,
                        uint32_t *out) {
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "llama.%s", name);
    if (!sw_gguf_has(l->gguf, key)) {
        if (!required) return SW_OK;
        return load_fail(l, SW_BAD_DATA, "has no key `%s`, wanted an integer from %" PRIu32 " to %" PRIu32,
                         key, least, most);
    }
    if (sw_gguf_is_array(l->gguf, key, NULL))
        return load_fail(l, SW_UNSUPPORTED,
                         "key `%s` is an array (a value for each layer); layers of different shapes are not "
                         "supported, wanted one integer",
                         key);
    uint64_t value;
    SW_TRY(sw_gguf_get_u64(l->gguf, key, &value, l->err));
    if (value < least || value > most)
        return load_fail(l, SW_BAD_DATA, "key `%s` is %" PRIu64 ", wanted %" PRIu32 " to %" PRIu32, key,
                         value, least, most);
    *out = (uint32_t)value;
    return SW_OK;
}

static sw_code read_positive_f32(const loader *l, const char *name, bool required, float *out) {
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "llama.%s", name);
    if (!sw_gguf_has(l->gguf, key)) {
        if (!required) return SW_OK;
        return load_fail(l, SW_BAD_DATA, "has no key `%s`, wanted a finite number over 0", key);
    }
    SW_TRY(sw_gguf_get_f32(l->gguf, key, out, l->err));
    if (!isfinite(*out) || *out <= 0)
        return load_fail(l, SW_BAD_DATA, "key `%s` is %g, wanted a finite number over 0", key, (double)*out);
    return SW_OK;
}

static sw_code check_kind(const loader *l) {
    sw_hparams *h = &l->model->hparams;
    if (!sw_gguf_has(l->gguf, "general.architecture"))
        return load_fail(l, SW_BAD_DATA, "has no key `general.architecture`");
    SW_TRY(read_text(l, "general.architecture", h->architecture, sizeof h->architecture));
    if (strcmp(h->architecture, "llama") != 0)
        return load_fail(l, SW_UNSUPPORTED,
                         "architecture `%s` is not supported, supported: " SUPPORTED_ARCHITECTURES,
                         h->architecture);
    if (sw_gguf_has(l->gguf, "general.name")) SW_TRY(read_text(l, "general.name", h->name, sizeof h->name));
    if (sw_gguf_has(l->gguf, "general.type")) {
        char type[32];
        SW_TRY(read_text(l, "general.type", type, sizeof type));
        if (strcmp(type, "model") != 0)
            return load_fail(l, SW_UNSUPPORTED, "key `general.type` is `%s`, wanted `model`", type);
    }
    uint64_t number;
    if (sw_gguf_has(l->gguf, "general.quantization_version")) {
        SW_TRY(sw_gguf_get_u64(l->gguf, "general.quantization_version", &number, l->err));
        if (number != 2)
            return load_fail(l, SW_UNSUPPORTED,
                             "key `general.quantization_version` is %" PRIu64 ", this build reads 2", number);
    }
    if (sw_gguf_has(l->gguf, "split.count")) {
        SW_TRY(sw_gguf_get_u64(l->gguf, "split.count", &number, l->err));
        if (number > 1)
            return load_fail(l, SW_UNSUPPORTED,
                             "is one of %" PRIu64
                             " parts (key `split.count`), wanted the whole model in one file",
                             number);
    }
    return SW_OK;
}

static sw_code check_keys(const loader *l) {
    static const char prefix[] = "llama.", scaling[] = "rope.scaling.";
    bool unscaled = false;
    if (sw_gguf_has(l->gguf, "llama.rope.scaling.type")) {
        char type[32];
        SW_TRY(read_text(l, "llama.rope.scaling.type", type, sizeof type));
        if (strcmp(type, "none") != 0)
            return load_fail(
                l, SW_UNSUPPORTED,
                "RoPE scaling `%s` (key `llama.rope.scaling.type`) is not supported, wanted `none`", type);
        unscaled = true;
    }
    for (size_t i = 0; i < sw_gguf_n_keys(l->gguf); i++) {
        sw_span key = sw_gguf_key_name(l->gguf, i);
        if (key.size < sizeof prefix - 1 || memcmp(key.data, prefix, sizeof prefix - 1) != 0) continue;
        sw_span name = {key.data + sizeof prefix - 1, key.size - (sizeof prefix - 1)};
        bool known = false;
        for (size_t k = 0; !known && k < sizeof known_keys / sizeof *known_keys; k++)
            known = name.size == strlen(known_keys[k]) && memcmp(name.data, known_keys[k], name.size) == 0;
        /* With type `none` the other keys of scaling have no effect. */
        bool scales = name.size >= sizeof scaling - 1 && memcmp(name.data, scaling, sizeof scaling - 1) == 0;
        if (known || (scales && unscaled)) continue;
        int shown = key.size < KEY_BYTES ? (int)key.size : KEY_BYTES;
        if (scales)
            return load_fail(l, SW_UNSUPPORTED, "RoPE scaling (key `%.*s`) is not supported", shown,
                             key.data);
        return load_fail(l, SW_UNSUPPORTED,
                         "key `%.*s` is not one that this build knows, and might change the computation",
                         shown, key.data);
    }
    return SW_OK;
}

static sw_code read_heads(const loader *l) {
    sw_hparams *h = &l->model->hparams;
    SW_TRY(read_u32(l, "attention.head_count", true, 1, SW_MODEL_MAX_HEADS, &h->n_heads));
    h->n_kv_heads = h->n_heads;
    SW_TRY(read_u32(l, "attention.head_count_kv", false, 1, h->n_heads, &h->n_kv_heads));
    if (h->n_heads % h->n_kv_heads != 0)
        return load_fail(l, SW_BAD_DATA,
                         "key `llama.attention.head_count_kv` is %" PRIu32
                         ", wanted a divisor of `llama.attention.head_count`, which is %" PRIu32,
                         h->n_kv_heads, h->n_heads);
    const char *source = "llama.attention.key_length";
    uint32_t d = 0;
    SW_TRY(read_u32(l, "attention.key_length", false, 2, SW_MODEL_MAX_HEAD_DIM, &d));
    if (d == 0) {
        if (h->hidden % h->n_heads != 0)
            return load_fail(l, SW_BAD_DATA,
                             "key `llama.attention.head_count` is %" PRIu32
                             ", wanted a divisor of `llama.embedding_length`, which is %" PRIu32,
                             h->n_heads, h->hidden);
        source = "llama.embedding_length / llama.attention.head_count";
        d = h->hidden / h->n_heads;
    }
    if (d % 2 != 0 || d > SW_MODEL_MAX_HEAD_DIM)
        return load_fail(l, SW_BAD_DATA,
                         "heads have %" PRIu32 " values (%s), wanted an even number from 2 to %d", d, source,
                         SW_MODEL_MAX_HEAD_DIM);
    h->head_dim = d;
    static const char *const equals[] = {"attention.value_length", "rope.dimension_count"};
    for (size_t i = 0; i < sizeof equals / sizeof *equals; i++) {
        uint32_t value = d;
        SW_TRY(read_u32(l, equals[i], false, 0, UINT32_MAX, &value));
        if (value != d)
            return load_fail(l, SW_UNSUPPORTED,
                             "key `llama.%s` is %" PRIu32 ", wanted the head's size %" PRIu32, equals[i],
                             value, d);
    }
    return SW_OK;
}

static sw_code read_hparams(const loader *l) {
    sw_hparams *h = &l->model->hparams;
    SW_TRY(check_kind(l));
    SW_TRY(check_keys(l));
    SW_TRY(read_u32(l, "block_count", true, 1, SW_MODEL_MAX_LAYERS, &h->n_layers));
    SW_TRY(read_u32(l, "context_length", true, 1, SW_MODEL_MAX_CONTEXT, &h->context_max));
    SW_TRY(read_u32(l, "embedding_length", true, 1, SW_MODEL_MAX_WIDTH, &h->hidden));
    SW_TRY(read_u32(l, "feed_forward_length", true, 1, SW_MODEL_MAX_FFN, &h->ffn));
    SW_TRY(read_heads(l));
    SW_TRY(read_positive_f32(l, "attention.layer_norm_rms_epsilon", true, &h->rms_epsilon));
    h->rope_theta = 10000.0f;
    return read_positive_f32(l, "rope.freq_base", false, &h->rope_theta);
}

/* The vocabulary is the embedding's rows; what else counts tokens must agree. */
static sw_code read_vocab(const loader *l) {
    sw_hparams *h = &l->model->hparams;
    const char *name = weight_names[SW_W_EMBEDDING].gguf_name;
    sw_weight w;
    if (sw_gguf_tensor(l->gguf, name, &w, NULL) != SW_OK)
        return load_fail(l, SW_BAD_DATA, "has no tensor `%s`", name);
    if (w.rows > SW_MODEL_MAX_VOCAB)
        return load_fail(l, SW_BAD_DATA, "tensor `%s` has %" PRIu32 " rows, wanted 1 to %d", name, w.rows,
                         SW_MODEL_MAX_VOCAB);
    h->vocab = w.rows;
    uint64_t n_tokens;
    if (sw_gguf_is_array(l->gguf, "tokenizer.ggml.tokens", &n_tokens) && n_tokens != h->vocab)
        return load_fail(l, SW_BAD_DATA,
                         "key `tokenizer.ggml.tokens` has %" PRIu64 " tokens, tensor `%s` has %" PRIu32
                         " rows",
                         n_tokens, name, h->vocab);
    uint32_t vocab_size = h->vocab;
    SW_TRY(read_u32(l, "vocab_size", false, 0, UINT32_MAX, &vocab_size));
    if (vocab_size != h->vocab)
        return load_fail(l, SW_BAD_DATA,
                         "key `llama.vocab_size` is %" PRIu32 ", tensor `%s` has %" PRIu32 " rows",
                         vocab_size, name, h->vocab);
    return SW_OK;
}

static uint32_t dim_value(const sw_hparams *h, dim d) {
    switch (d) {
    case DIM_HIDDEN:
        return h->hidden;
    case DIM_Q:
        return h->n_heads * h->head_dim; /* <= 2^20 */
    case DIM_KV:
        return h->n_kv_heads * h->head_dim;
    case DIM_FFN:
        return h->ffn;
    case DIM_VOCAB:
        return h->vocab;
    case DIM_ONE:
        break;
    }
    return 1;
}

static void gguf_name(sw_weight_id id, uint32_t layer, char *out, size_t size) {
    if (weight_names[id].per_layer)
        snprintf(out, size, "blk.%" PRIu32 ".%s", layer, weight_names[id].gguf_name);
    else
        snprintf(out, size, "%s", weight_names[id].gguf_name);
}

static sw_code load_weight(const loader *l, sw_weight_id id, uint32_t layer) {
    sw_model *m = l->model;
    sw_weight *w = &m->weights[layer * SW_WEIGHT_COUNT + id];
    char name[KEY_BYTES];
    gguf_name(id, layer, name, sizeof name);
    if (sw_gguf_tensor(l->gguf, name, w, NULL) != SW_OK) {
        if (id != SW_W_HEAD)
            return load_fail(l, SW_BAD_DATA,
                             "has no tensor `%s` (key `llama.block_count` says %" PRIu32 " layers)", name,
                             m->hparams.n_layers);
        *w = m->weights[SW_W_EMBEDDING];
        m->hparams.tied_embeddings = true;
        return SW_OK;
    }
    uint32_t rows = dim_value(&m->hparams, shapes[id].rows), cols = dim_value(&m->hparams, shapes[id].cols);
    if (w->rows != rows || w->cols != cols)
        return load_fail(l, SW_BAD_DATA,
                         "tensor `%s` is [%" PRIu32 ", %" PRIu32
                         "] (rows, columns), wanted [%s, %s] = [%" PRIu32 ", %" PRIu32 "]",
                         name, w->rows, w->cols, dim_texts[shapes[id].rows], dim_texts[shapes[id].cols], rows,
                         cols);
    if (id == SW_W_Q || id == SW_W_K) w->interleaved_head_dim = m->hparams.head_dim;
    if (l->shapes_only) return SW_OK;
    sw_code code = sw_weight_check_values(w, l->err);
    if (code != SW_OK) return sw_error_prefix(l->err, "%s", l->path), code;
    /* Else the scan alone would leave the whole file resident. */
    sw_weight_drop_pages(w);
    return SW_OK;
}

/* True where the name is one that load_weight looks for. */
static bool is_wanted(const char *name, uint32_t n_layers) {
    uint32_t layer = 0;
    if (sscanf(name, "blk.%9" SCNu32, &layer) == 1 && layer >= n_layers) return false;
    for (unsigned id = 0; id < SW_WEIGHT_COUNT; id++) {
        char wanted[KEY_BYTES];
        gguf_name((sw_weight_id)id, layer, wanted, sizeof wanted);
        if (strcmp(name, wanted) == 0) return true;
    }
    return false;
}

static sw_code check_tensors(const loader *l) {
    for (size_t i = 0; i < sw_gguf_n_tensors(l->gguf); i++) {
        const char *name = sw_gguf_tensor_at(l->gguf, i)->file_name;
        if (is_wanted(name, l->model->hparams.n_layers)) continue;
        if (strcmp(name, "rope_freqs.weight") == 0)
            return load_fail(l, SW_UNSUPPORTED, "RoPE scaling by tensor `%s` is not supported", name);
        return load_fail(l, SW_UNSUPPORTED,
                         "tensor `%s` has no place in a llama decoder of %" PRIu32
                         " layers as this build knows it",
                         name, l->model->hparams.n_layers);
    }
    return SW_OK;
}

static sw_code load_weights(const loader *l) {
    sw_model *m = l->model;
    m->weights = sw_arena_array(&m->arena, (size_t)m->hparams.n_layers * SW_WEIGHT_COUNT, sizeof *m->weights);
    if (m->weights == NULL) return load_fail(l, SW_NO_MEMORY, "out of memory");
    for (uint32_t layer = 0; layer < m->hparams.n_layers; layer++)
        for (unsigned id = 0; id < SW_WEIGHT_COUNT; id++)
            if (layer == 0 || weight_names[id].per_layer) SW_TRY(load_weight(l, (sw_weight_id)id, layer));
    return SW_OK;
}

static sw_code open_gguf(sw_model *model, sw_gguf *gguf, bool shapes_only, sw_error *err) {
    *model = (sw_model){.gguf = gguf};
    loader l = {
        .model = model, .gguf = gguf, .path = sw_gguf_path(gguf), .shapes_only = shapes_only, .err = err};
    sw_code code = read_hparams(&l);
    if (code == SW_OK) code = read_vocab(&l);
    if (code == SW_OK) code = check_tensors(&l);
    if (code == SW_OK) code = load_weights(&l);
    if (code != SW_OK) sw_model_close(model);
    return code;
}

sw_code sw_model_open_gguf(sw_model *model, sw_gguf *gguf, sw_error *err) {
    return open_gguf(model, gguf, false, err);
}

sw_code sw_model_open(sw_model *model, const char *path, sw_error *err) {
    *model = (sw_model){0};
    sw_gguf *gguf;
    SW_TRY(sw_gguf_open(&gguf, path, err));
    return open_gguf(model, gguf, false, err);
}

sw_code sw_model_open_shapes(sw_model *model, const char *path, sw_error *err) {
    *model = (sw_model){0};
    sw_gguf *gguf;
    SW_TRY(sw_gguf_open(&gguf, path, err));
    return open_gguf(model, gguf, true, err);
}

sw_code sw_model_of_shapes(sw_model *model, const sw_hparams *hparams, sw_error *err) {
    *model = (sw_model){.hparams = *hparams};
    size_t n = (size_t)hparams->n_layers * SW_WEIGHT_COUNT;
    model->weights = sw_arena_array(&model->arena, n, sizeof *model->weights);
    if (model->weights == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++) {
        unsigned id = (unsigned)(i % SW_WEIGHT_COUNT);
        model->weights[i] = (sw_weight){.file_name = weight_names[id].ir_name,
                                        .rows = dim_value(hparams, shapes[id].rows),
                                        .cols = dim_value(hparams, shapes[id].cols),
                                        .storage = SW_STORE_F32};
    }
    return SW_OK;
}

void sw_model_close(sw_model *model) {
    sw_gguf_close(model->gguf);
    sw_arena_free(&model->arena);
    *model = (sw_model){0};
}

const sw_weight *sw_model_weight(const sw_model *model, sw_weight_id id, uint32_t layer) {
    if (id == SW_W_HEAD && model->hparams.tied_embeddings) id = SW_W_EMBEDDING;
    return &model->weights[(weight_names[id].per_layer ? layer : 0) * SW_WEIGHT_COUNT + id];
}

void sw_weight_ir_name(sw_weight_id id, uint32_t layer, char *out, size_t size) {
    if (weight_names[id].per_layer)
        snprintf(out, size, "layer_%" PRIu32 ".%s", layer, weight_names[id].ir_name);
    else
        snprintf(out, size, "%s", weight_names[id].ir_name);
}
