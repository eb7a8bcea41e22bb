/* hf_config.c: config.json as transformers writes it for the Llama family. Meaning and defaults of the keys:
 * transformers' LlamaConfig and MistralConfig. */
#include "model/hf_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "model/limits.h"

enum { MAX_CONFIG_BYTES = 4 << 20 };

/* Model types whose decoder is the one that the builder makes. */
static const char *const model_types[] = {"llama", "mistral"};

/* Keys that are read below, or that say nothing about a decoder's shapes. */
static const char *const known_keys[] = {"model_type",
                                         "architectures",
                                         "num_hidden_layers",
                                         "hidden_size",
                                         "intermediate_size",
                                         "vocab_size",
                                         "num_attention_heads",
                                         "num_key_value_heads",
                                         "head_dim",
                                         "max_position_embeddings",
                                         "rms_norm_eps",
                                         "rope_theta",
                                         "tie_word_embeddings",
                                         "attention_bias",
                                         "mlp_bias",
                                         "hidden_act",
                                         "rope_scaling",
                                         "sliding_window",
                                         "rope_interleaved",
                                         "partial_rotary_factor",
                                         "name_or_path",
                                         "_name_or_path",
                                         "attention_dropout",
                                         "attn_implementation",
                                         "_attn_implementation",
                                         "bos_token_id",
                                         "eos_token_id",
                                         "pad_token_id",
                                         "unk_token_id",
                                         "initializer_range",
                                         "is_llama_config",
                                         "pretraining_tp",
                                         "torch_dtype",
                                         "dtype",
                                         "transformers.js_config",
                                         "transformers_version",
                                         "use_cache",
                                         "quantization_config",
                                         "auto_map",
                                         "max_length",
                                         "tokenizer_class",
                                         "hidden_dropout_prob",
                                         "resid_pdrop",
                                         "embd_pdrop"};

/* Switches that add something to every layer where they are on. */
static const char *const must_be_off[] = {"attention_bias", "mlp_bias", "rope_interleaved"};

static sw_code get_u32(const sw_json *config, const char *key, uint32_t least, uint32_t most, uint32_t *out,
                       sw_error *err) {
    sw_json at;
    SW_TRY(sw_json_get(config, key, &at, err));
    return sw_json_u32(&at, least, most, out, err);
}

static bool is_given(const sw_json *config, const char *key, sw_json *at) {
    *at = sw_json_find(config, key);
    return at->value != NULL && !json_is_null(at->value);
}

static sw_code get_positive(const sw_json *config, const char *key, float *out, sw_error *err) {
    sw_json at = sw_json_find(config, key);
    double value;
    SW_TRY(sw_json_f64(&at, &value, err));
    *out = (float)value;
    return isfinite(*out) && *out > 0 ? SW_OK
                                      : sw_json_fail(&at, err, "is %g, wanted a number over 0", value);
}

static sw_code read_kind(const sw_json *config, sw_hparams *h, sw_error *err) {
    sw_json at;
    const char *type;
    SW_TRY(sw_json_get(config, "model_type", &at, err));
    SW_TRY(sw_json_text(&at, false, sizeof h->architecture - 1, &type, err));
    bool known = false;
    for (size_t i = 0; i < sizeof model_types / sizeof *model_types; i++)
        known = known || strcmp(type, model_types[i]) == 0;
    if (!known) {
        sw_json_fail(&at, err, "`%s` is not supported, supported: llama, mistral", type);
        if (err != NULL) err->code = SW_UNSUPPORTED;
        return SW_UNSUPPORTED;
    }
    snprintf(h->architecture, sizeof h->architecture, "%s", type);
    if (is_given(config, "_name_or_path", &at)) {
        SW_TRY(sw_json_text(&at, true, 4096, &type, err));
        if (strlen(type) < sizeof h->name) snprintf(h->name, sizeof h->name, "%s", type);
    }
    return SW_OK;
}

static sw_code unsupported(const sw_json *at, sw_error *err, const char *wanted) {
    sw_json_fail(at, err, "changes what every layer computes, wanted %s", wanted);
    if (err != NULL) err->code = SW_UNSUPPORTED;
    return SW_UNSUPPORTED;
}

/* What would make another decoder of it than the builder's. */
static sw_code check_keys(const sw_json *config, sw_error *err) {
    sw_json at;
    for (size_t i = 0; i < sizeof must_be_off / sizeof *must_be_off; i++) {
        bool on = false;
        if (!is_given(config, must_be_off[i], &at)) continue;
        SW_TRY(sw_json_bool(&at, &on, err));
        if (on) return unsupported(&at, err, "false");
    }
    if (is_given(config, "hidden_act", &at)) {
        const char *name;
        SW_TRY(sw_json_text(&at, false, 64, &name, err));
        if (strcmp(name, "silu") != 0) return unsupported(&at, err, "silu");
    }
    if (is_given(config, "partial_rotary_factor", &at)) {
        double factor;
        SW_TRY(sw_json_f64(&at, &factor, err));
        if (factor != 1) return unsupported(&at, err, "1");
    }
    if (is_given(config, "sliding_window", &at)) return unsupported(&at, err, "null");
    static const char *const experts[] = {"num_local_experts", "num_experts", "n_routed_experts"};
    for (size_t i = 0; i < sizeof experts / sizeof *experts; i++)
        if (is_given(config, experts[i], &at)) return unsupported(&at, err, "a dense model without the key");
    static const char *const passed_over[] = {"rope_scaling", "quantization_config"};
    for (size_t i = 0; i < sizeof passed_over / sizeof *passed_over; i++)
        if (is_given(config, passed_over[i], &at))
            sw_log(SW_LOG_WARN, "%s: $.%s changes no shape and is passed over", config->file, passed_over[i]);

    json_t *object = (json_t *)(uintptr_t)config->value;
    for (void *i = json_object_iter(object); i != NULL; i = json_object_iter_next(object, i)) {
        const char *key = json_object_iter_key(i);
        bool known = json_is_null(json_object_iter_value(i));
        for (size_t k = 0; !known && k < sizeof known_keys / sizeof *known_keys; k++)
            known = strcmp(key, known_keys[k]) == 0;
        sw_error text; /* its control characters are taken out there */
        if (!known) {
            sw_fail(&text, SW_OK, "%s: key `%.80s` is not known, and taken to change no shape", config->file,
                    key);
            sw_log(SW_LOG_WARN, "%s", text.message);
        }
    }
    return SW_OK;
}

static sw_code read_heads(const sw_json *config, sw_hparams *h, sw_error *err) {
    sw_json at;
    SW_TRY(get_u32(config, "num_attention_heads", 1, SW_MODEL_MAX_HEADS, &h->n_heads, err));
    h->n_kv_heads = h->n_heads;
    if (is_given(config, "num_key_value_heads", &at)) {
        SW_TRY(sw_json_u32(&at, 1, h->n_heads, &h->n_kv_heads, err));
        if (h->n_heads % h->n_kv_heads != 0)
            return sw_json_fail(&at, err, "is %u, wanted a divisor of num_attention_heads, which is %u",
                                h->n_kv_heads, h->n_heads);
    }
    if (is_given(config, "head_dim", &at)) {
        SW_TRY(sw_json_u32(&at, 2, SW_MODEL_MAX_HEAD_DIM, &h->head_dim, err));
    } else {
        at = sw_json_find(config, "num_attention_heads");
        if (h->hidden % h->n_heads != 0)
            return sw_json_fail(&at, err, "is %u, wanted a divisor of hidden_size, which is %u", h->n_heads,
                                h->hidden);
        h->head_dim = h->hidden / h->n_heads;
    }
    if (h->head_dim % 2 != 0 || h->head_dim > SW_MODEL_MAX_HEAD_DIM)
        return sw_json_fail(&at, err, "gives heads of %u values, wanted an even number from 2 to %d",
                            h->head_dim, SW_MODEL_MAX_HEAD_DIM);
    return SW_OK;
}

static sw_code read_config(const sw_json *config, sw_hparams *h, sw_error *err) {
    sw_json at;
    SW_TRY(sw_json_object(config, err));
    SW_TRY(read_kind(config, h, err));
    SW_TRY(check_keys(config, err));
    SW_TRY(get_u32(config, "num_hidden_layers", 1, SW_MODEL_MAX_LAYERS, &h->n_layers, err));
    SW_TRY(get_u32(config, "hidden_size", 1, SW_MODEL_MAX_WIDTH, &h->hidden, err));
    SW_TRY(get_u32(config, "intermediate_size", 1, SW_MODEL_MAX_FFN, &h->ffn, err));
    SW_TRY(get_u32(config, "vocab_size", 1, SW_MODEL_MAX_VOCAB, &h->vocab, err));
    SW_TRY(get_u32(config, "max_position_embeddings", 1, SW_MODEL_MAX_CONTEXT, &h->context_max, err));
    SW_TRY(read_heads(config, h, err));
    h->rms_epsilon = 1e-6f, h->rope_theta = 10000.0f;
    if (is_given(config, "rms_norm_eps", &at))
        SW_TRY(get_positive(config, "rms_norm_eps", &h->rms_epsilon, err));
    if (is_given(config, "rope_theta", &at)) SW_TRY(get_positive(config, "rope_theta", &h->rope_theta, err));
    if (is_given(config, "tie_word_embeddings", &at)) SW_TRY(sw_json_bool(&at, &h->tied_embeddings, err));
    return SW_OK;
}

sw_code sw_hf_config_parse(sw_hparams *out, const char *file, const char *text, size_t size, sw_error *err) {
    sw_json config = {0};
    *out = (sw_hparams){0};
    sw_code code = sw_json_parse(&config, file, text, size, err);
    if (code == SW_OK) code = read_config(&config, out, err);
    sw_json_free(&config);
    return code;
}

sw_code sw_hf_config_read(sw_hparams *out, const char *path, sw_error *err) {
    sw_arena arena = SW_ARENA_EMPTY;
    char *text;
    size_t size;
    sw_code code = sw_file_read(path, MAX_CONFIG_BYTES, &arena, &text, &size, err);
    if (code == SW_OK) code = sw_hf_config_parse(out, path, text, size, err);
    sw_arena_free(&arena);
    return code;
}
