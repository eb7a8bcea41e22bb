/* tokenizer_json_read.c: tokenizer.json and tokenizer_config.json as a tokenizer's description. The shape is
 * listed in tokenizer_json.h; what isn't of that shape is named and refused, since a tokenizer that is read
 * almost right gives wrong ids without a word. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_parts.h"

enum { TOKEN_BYTES_MAX = 1 << 16 };
#define FILE_BYTES_MAX ((uint64_t)256 << 20)

static sw_code no_memory(const sw_json *at, sw_error *err) {
    return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for the tokenizer", at->file);
}

/* Any text that JSON can hold, but for zero bytes, which jansson refuses. */
static sw_code get_text(const sw_json *at, size_t most, sw_span *out, sw_error *err) {
    if (!json_is_string(at->value)) return sw_json_fail(at, err, "is not text");
    *out = (sw_span){json_string_value(at->value), json_string_length(at->value)};
    if (out->size == 0) return sw_json_fail(at, err, "is empty");
    if (out->size > most) return sw_json_fail(at, err, "has %zu bytes, the limit is %zu", out->size, most);
    return SW_OK;
}

/* Refuses at.key unless it is missing, null, or just this value. */
static sw_code want_bool(const sw_json *at, const char *key, bool wanted, sw_error *err) {
    sw_json value = sw_json_find(at, key);
    if (value.value == NULL || json_is_null(value.value)) return SW_OK;
    bool found;
    SW_TRY(sw_json_bool(&value, &found, err));
    if (found == wanted) return SW_OK;
    return sw_json_fail(&value, err, "is %s, supported is %s", found ? "true" : "false",
                        wanted ? "true" : "false");
}

static sw_code want_none(const sw_json *at, const char *key, sw_error *err) {
    sw_json value = sw_json_find(at, key);
    if (value.value == NULL || json_is_null(value.value)) return SW_OK;
    if (json_is_string(value.value) && json_string_length(value.value) == 0) return SW_OK;
    return sw_json_fail(&value, err, "is set, supported is null");
}

static sw_code get_type(const sw_json *at, const char **out, sw_error *err) {
    sw_json type;
    SW_TRY(sw_json_get(at, "type", &type, err));
    return sw_json_text(&type, false, 64, out, err);
}

/* vocabulary and added tokens ------------------------------------------------------------------------- */

typedef struct vocabulary {
    sw_span *tokens; /* [n]; size 0: nothing has this id yet */
    int32_t *types;
    size_t n;
} vocabulary;

/* Ids must be 0 .. n - 1, so none is larger than the number of tokens that both lists name. */
static sw_code get_id(const sw_json *at, size_t most, size_t *out, sw_error *err) {
    uint64_t id = 0;
    SW_TRY(sw_json_u64(at, 0, most - 1, &id, err));
    *out = (size_t)id;
    return SW_OK;
}

static sw_code read_vocab(const sw_json *vocab, vocabulary *v, size_t most, sw_error *err) {
    void *entry = json_object_iter((json_t *)vocab->value);
    for (; entry != NULL; entry = json_object_iter_next((json_t *)vocab->value, entry)) {
        const char *text = json_object_iter_key(entry);
        sw_json place = {
            .value = json_object_iter_value(entry), .parent = vocab, .key = text, .file = vocab->file};
        size_t id = 0;
        SW_TRY(get_id(&place, most, &id, err));
        if (v->tokens[id].size > 0)
            return sw_json_fail(&place, err, "is %zu, the id of \"%.60s\"", id, v->tokens[id].data);
        v->tokens[id] = (sw_span){text, strlen(text)};
        v->types[id] = SW_TOKEN_NORMAL;
        if (id >= v->n) v->n = id + 1;
    }
    return SW_OK;
}

static sw_code read_added_token(const sw_json *at, vocabulary *v, size_t most, sw_error *err) {
    sw_json field;
    sw_span content = {"", 0};
    size_t id = 0;
    bool special = false;
    SW_TRY(sw_json_get(at, "content", &field, err));
    SW_TRY(get_text(&field, TOKEN_BYTES_MAX, &content, err));
    SW_TRY(sw_json_get(at, "id", &field, err));
    SW_TRY(get_id(&field, most, &id, err));
    sw_span have = v->tokens[id];
    if (have.size > 0 && (have.size != content.size || memcmp(have.data, content.data, have.size) != 0))
        return sw_json_fail(at, err, "id %zu of \"%.60s\" belongs to \"%.60s\"", id, content.data, have.data);
    SW_TRY(want_bool(at, "single_word", false, err));
    SW_TRY(want_bool(at, "lstrip", false, err));
    SW_TRY(want_bool(at, "rstrip", false, err));
    SW_TRY(sw_json_get(at, "special", &field, err));
    SW_TRY(sw_json_bool(&field, &special, err));
    v->tokens[id] = content;
    v->types[id] = special ? SW_TOKEN_CONTROL : SW_TOKEN_USER_DEFINED;
    if (id >= v->n) v->n = id + 1;
    return SW_OK;
}

static sw_code read_tokens(const sw_json *file, const sw_json *model, sw_arena *arena, sw_tokenizer_desc *d,
                           sw_error *err) {
    sw_json vocab, added;
    size_t n_added = 0;
    SW_TRY(sw_json_get(model, "vocab", &vocab, err));
    SW_TRY(sw_json_object(&vocab, err));
    SW_TRY(sw_json_get(file, "added_tokens", &added, err));
    SW_TRY(sw_json_array(&added, 0, INT32_MAX, &n_added, err));
    size_t most = json_object_size(vocab.value) + n_added;
    if (most == 0 || most > INT32_MAX)
        return sw_json_fail(&vocab, err, "has no token, or more than 2^31 - 1");

    vocabulary v = {.tokens = sw_arena_array(arena, most, sizeof *v.tokens),
                    .types = sw_arena_array(arena, most, sizeof *v.types)};
    if (v.tokens == NULL || v.types == NULL) return no_memory(file, err);
    SW_TRY(read_vocab(&vocab, &v, most, err));
    for (size_t i = 0; i < n_added; i++) {
        sw_json token = sw_json_element(&added, i);
        SW_TRY(read_added_token(&token, &v, most, err));
    }
    for (size_t i = 0; i < v.n; i++)
        if (v.tokens[i].size == 0)
            return sw_json_fail(&vocab, err, "no token has id %zu of 0 to %zu", i, v.n - 1);
    d->tokens = v.tokens;
    d->token_types = v.types;
    d->n_tokens = v.n;
    return SW_OK;
}

/* merges: "a b" or ["a", "b"] ------------------------------------------------------------------------ */

static sw_code read_merge(const sw_json *at, sw_arena *arena, sw_span *out, sw_error *err) {
    if (!json_is_array(at->value)) return get_text(at, TOKEN_BYTES_MAX, out, err);
    size_t count = 0;
    SW_TRY(sw_json_array(at, 2, 2, &count, err));
    sw_json left = sw_json_element(at, 0), right = sw_json_element(at, 1);
    sw_span a = {"", 0}, b = {"", 0};
    SW_TRY(get_text(&left, TOKEN_BYTES_MAX, &a, err));
    SW_TRY(get_text(&right, TOKEN_BYTES_MAX, &b, err));
    char *text = sw_arena_printf(arena, "%s %s", a.data, b.data);
    if (text == NULL) return no_memory(at, err);
    *out = (sw_span){text, a.size + 1 + b.size};
    return SW_OK;
}

static sw_code read_merges(const sw_json *model, sw_arena *arena, sw_tokenizer_desc *d, sw_error *err) {
    sw_json merges;
    SW_TRY(sw_json_get(model, "merges", &merges, err));
    SW_TRY(sw_json_array(&merges, 0, UINT32_MAX - 1, &d->n_merges, err));
    sw_span *list = sw_arena_array(arena, d->n_merges, sizeof *list);
    if (list == NULL) return no_memory(model, err);
    for (size_t i = 0; i < d->n_merges; i++) {
        sw_json merge = sw_json_element(&merges, i);
        SW_TRY(read_merge(&merge, arena, &list[i], err));
    }
    d->merges = list;
    return SW_OK;
}

/* which pre-tokenizer it is -------------------------------------------------------------------------- */

typedef struct pipeline { /* as in sw_pretokenizer_rule */
    bool digits, byte_level, byte_level_regex;
    sw_span split;
} pipeline;

static sw_code read_split(const sw_json *at, pipeline *p, sw_error *err) {
    sw_json pattern, behavior, regex;
    const char *text = "";
    SW_TRY(sw_json_get(at, "pattern", &pattern, err));
    regex = sw_json_find(&pattern, "Regex");
    if (regex.value == NULL)
        return sw_json_fail(&pattern, err, "has no Regex, other patterns are not supported");
    SW_TRY(get_text(&regex, TOKEN_BYTES_MAX, &p->split, err));
    if (sw_regex_check(p->split, err) != SW_OK) return sw_error_prefix(err, "%s: pre_tokenizer", at->file);
    SW_TRY(sw_json_get(at, "behavior", &behavior, err));
    SW_TRY(sw_json_text(&behavior, false, 64, &text, err));
    if (strcmp(text, "Isolated") != 0)
        return sw_json_fail(&behavior, err, "is %s, supported is Isolated", text);
    return want_bool(at, "invert", false, err);
}

static sw_code read_step(const sw_json *at, pipeline *p, sw_error *err) {
    const char *type = "";
    SW_TRY(get_type(at, &type, err));
    if (p->byte_level) return sw_json_fail(at, err, "stands behind ByteLevel, which must be the last");
    if (strcmp(type, "Digits") == 0) {
        if (p->digits || p->split.size > 0) return sw_json_fail(at, err, "Digits must be the first step");
        p->digits = true;
        sw_json individual;
        SW_TRY(sw_json_get(at, "individual_digits", &individual, err));
        return want_bool(at, "individual_digits", true, err);
    }
    if (strcmp(type, "Split") == 0) {
        if (p->split.size > 0) return sw_json_fail(at, err, "is a second Split, supported is one");
        return read_split(at, p, err);
    }
    if (strcmp(type, "ByteLevel") == 0) {
        p->byte_level = p->byte_level_regex = true;
        sw_json use_regex = sw_json_find(at, "use_regex");
        if (use_regex.value != NULL) SW_TRY(sw_json_bool(&use_regex, &p->byte_level_regex, err));
        return want_bool(at, "add_prefix_space", false, err);
    }
    return sw_json_fail(at, err, "type %s is not supported, supported: Sequence, Digits, Split, ByteLevel",
                        type);
}

static sw_code read_pipeline(const sw_json *at, pipeline *p, sw_error *err) {
    const char *type = "";
    SW_TRY(sw_json_object(at, err));
    SW_TRY(get_type(at, &type, err));
    if (strcmp(type, "Sequence") != 0) return read_step(at, p, err);
    sw_json list;
    size_t count = 0;
    SW_TRY(sw_json_get(at, "pretokenizers", &list, err));
    SW_TRY(sw_json_array(&list, 1, 3, &count, err));
    for (size_t i = 0; i < count; i++) {
        sw_json step = sw_json_element(&list, i);
        SW_TRY(sw_json_object(&step, err));
        SW_TRY(read_step(&step, p, err));
    }
    return SW_OK;
}

static bool is_rule(const sw_pretokenizer_rule *r, const pipeline *p) {
    size_t split_size = r->json_split != NULL ? strlen(r->json_split) : 0;
    return p->byte_level && p->digits == r->json_digits && p->byte_level_regex == r->json_byte_level_regex &&
           p->split.size == split_size &&
           (split_size == 0 || memcmp(p->split.data, r->json_split, split_size) == 0);
}

static sw_code read_normalizer(const sw_json *file, const sw_pretokenizer_rule *rule, sw_error *err) {
    sw_json normalizer = sw_json_find(file, "normalizer");
    bool found = normalizer.value != NULL && !json_is_null(normalizer.value);
    const char *type = "none", *wanted = rule->nfc ? "NFC" : "none";
    if (found) {
        SW_TRY(sw_json_object(&normalizer, err));
        SW_TRY(get_type(&normalizer, &type, err));
    }
    if (strcmp(type, wanted) == 0) return SW_OK;
    return sw_json_fail(file, err, "normalizer is %s, with pre-tokenizer %s supported is %s", type,
                        rule->name, wanted);
}

static sw_code read_pre(const sw_json *file, const sw_json *model, const sw_json *config,
                        sw_tokenizer_desc *d, sw_error *err) {
    sw_json pre;
    pipeline p = {0};
    SW_TRY(sw_json_get(file, "pre_tokenizer", &pre, err));
    SW_TRY(read_pipeline(&pre, &p, err));
    const sw_pretokenizer_rule *rule = sw_pretokenizer_rules();
    while (rule->name != NULL && !is_rule(rule, &p)) rule++;
    if (rule->name == NULL)
        return sw_json_fail(&pre, err, "is none of the supported pre-tokenizers: %s",
                            sw_pretokenizer_names());
    d->pre = sw_span_of(rule->name);

    sw_json name = sw_json_find(config, "spillway_pre");
    const char *text = rule->name;
    if (name.value != NULL) SW_TRY(sw_json_text(&name, false, 64, &text, err));
    if (strcmp(text, rule->name) != 0)
        return sw_json_fail(&name, err, "is %s, but %s has that of %s", text, SW_TOKENIZER_JSON, rule->name);
    SW_TRY(read_normalizer(file, rule, err));
    return want_bool(model, "ignore_merges", rule->ignore_merges, err);
}

/* What a post_processor adds is taken from add_bos_token, so one that may add something needs that key. Those
 * that frame two texts (BERT's, RoBERTa's) add a token at the end too. */
static sw_code check_post_processor(const sw_json *file, const sw_json *config, sw_error *err) {
    sw_json post = sw_json_find(file, "post_processor");
    const char *type = "";
    if (post.value == NULL || json_is_null(post.value)) return SW_OK;
    SW_TRY(get_type(&post, &type, err));
    if (strcmp(type, "ByteLevel") != 0 && strcmp(type, "TemplateProcessing") != 0 &&
        strcmp(type, "Sequence") != 0)
        return sw_json_fail(
            &post, err, "type %s is not supported, supported: ByteLevel, TemplateProcessing, Sequence", type);
    if (strcmp(type, "ByteLevel") == 0 || sw_json_find(config, "add_bos_token").value != NULL) return SW_OK;
    return sw_json_fail(config, err, "key `add_bos_token` is missing, and %s has post_processor %s",
                        SW_TOKENIZER_JSON, type);
}

/* the files ------------------------------------------------------------------------------------------- */

static sw_code read_tokenizer(const sw_json *file, const sw_json *config, sw_arena *arena,
                              sw_tokenizer_desc *d, sw_error *err) {
    sw_json model, decoder;
    const char *type = "";
    SW_TRY(sw_json_object(file, err));
    SW_TRY(sw_json_get(file, "model", &model, err));
    SW_TRY(sw_json_object(&model, err));
    SW_TRY(get_type(&model, &type, err));
    if (strcmp(type, "BPE") != 0)
        return sw_json_fail(&model, err, "type %s is not supported, supported: BPE", type);
    d->model = sw_span_of("gpt2");
    SW_TRY(want_none(&model, "continuing_subword_prefix", err));
    SW_TRY(want_none(&model, "end_of_word_suffix", err));
    SW_TRY(want_bool(&model, "byte_fallback", false, err));
    SW_TRY(sw_json_get(file, "decoder", &decoder, err));
    SW_TRY(sw_json_object(&decoder, err));
    SW_TRY(get_type(&decoder, &type, err));
    if (strcmp(type, "ByteLevel") != 0)
        return sw_json_fail(&decoder, err, "type %s is not supported, supported: ByteLevel", type);
    SW_TRY(read_pre(file, &model, config, d, err));
    SW_TRY(check_post_processor(file, config, err));
    SW_TRY(read_tokens(file, &model, arena, d, err));
    return read_merges(&model, arena, d, err);
}

/* A special token's id by its text in the config; -1 where it is missing or null. */
static sw_code find_token(const sw_json *config, const char *key, const sw_tokenizer_desc *d, int64_t *out,
                          sw_error *err) {
    sw_json value = sw_json_find(config, key);
    sw_span text = {"", 0};
    *out = -1;
    if (value.value == NULL || json_is_null(value.value)) return SW_OK;
    SW_TRY(get_text(&value, TOKEN_BYTES_MAX, &text, err));
    for (size_t i = 0; i < d->n_tokens; i++) {
        if (d->tokens[i].size != text.size || memcmp(d->tokens[i].data, text.data, text.size) != 0) continue;
        *out = (int64_t)i;
        return SW_OK;
    }
    return sw_json_fail(&value, err, "\"%.60s\" is not a token", text.data);
}

static sw_code read_config(const sw_json *config, sw_arena *arena, sw_tokenizer_desc *d, sw_error *err) {
    d->eot = -1; /* is among spillway_end_ids */
    SW_TRY(find_token(config, "bos_token", d, &d->bos, err));
    SW_TRY(find_token(config, "eos_token", d, &d->eos, err));
    SW_TRY(find_token(config, "unk_token", d, &d->unk, err));
    SW_TRY(find_token(config, "pad_token", d, &d->pad, err));
    sw_json value = sw_json_find(config, "add_bos_token");
    if (value.value != NULL) SW_TRY(sw_json_bool(&value, &d->add_bos, err));
    value = sw_json_find(config, "chat_template");
    bool none = value.value == NULL || json_is_null(value.value) ||
                (json_is_string(value.value) && json_string_length(value.value) == 0);
    if (!none) SW_TRY(get_text(&value, SW_CHAT_TEMPLATE_BYTES_MAX, &d->chat_template, err));
    value = sw_json_find(config, "spillway_end_ids");
    if (value.value == NULL) return SW_OK;
    SW_TRY(sw_json_array(&value, 0, d->n_tokens, &d->n_ends, err));
    int64_t *ends = sw_arena_array(arena, d->n_ends, sizeof *ends);
    if (ends == NULL) return no_memory(config, err);
    for (size_t i = 0; i < d->n_ends; i++) {
        sw_json id = sw_json_element(&value, i);
        SW_TRY(sw_json_i64(&id, 0, (int64_t)d->n_tokens - 1, &ends[i], err));
    }
    d->ends = ends;
    return SW_OK;
}

/* What a file is that isn't JSON, by its first bytes; NULL: unknown. */
static const char *other_kind(const char *data, size_t size) {
    if (size < 8) return NULL;
    const unsigned char *b = (const unsigned char *)data;
    if (memcmp(data, "GGUF", 4) == 0) return "a GGUF file";
    if (b[0] == 0x0a && b[1] < 0x80 && b[2] == 0x0a)
        return "a SentencePiece model"; /* protobuf: a piece's text */
    if (b[0] != 0 && b[1] == 0 && b[2] == 0 && b[3] == 0) return "a tokenizer of llama2.c"; /* a small u32 */
    size_t n = strspn(data, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=");
    if (n > 0 && n % 4 == 0 && data[n] == ' ' && data[n + 1] >= '0' && data[n + 1] <= '9')
        return "a tiktoken vocabulary"; /* base64 and a rank */
    return NULL;
}

static sw_code open_json(const char *path, sw_arena *arena, sw_json *out, sw_error *err) {
    char *text = NULL;
    size_t size = 0;
    SW_TRY(sw_file_read(path, FILE_BYTES_MAX, arena, &text, &size, err));
    const char *kind = other_kind(text, size);
    if (kind != NULL)
        return SW_FAIL(err, SW_BAD_DATA, "%s: is %s, wanted JSON as Hugging Face writes it", path, kind);
    return sw_json_parse(out, path, text, size, err);
}

sw_code sw_tokenizer_load_files(sw_tokenizer **out, const char *tokenizer_path, const char *config_path,
                                sw_error *err) {
    *out = NULL;
    sw_arena arena = SW_ARENA_EMPTY;
    sw_json tokenizer = {0}, config = {0};
    sw_tokenizer_desc desc = {0};
    sw_code code = open_json(tokenizer_path, &arena, &tokenizer, err);
    if (code == SW_OK) code = open_json(config_path, &arena, &config, err);
    if (code == SW_OK) code = sw_json_object(&config, err);
    if (code == SW_OK) code = read_tokenizer(&tokenizer, &config, &arena, &desc, err);
    if (code == SW_OK) code = read_config(&config, &arena, &desc, err);
    desc.source = tokenizer.file;
    if (code == SW_OK) code = sw_tokenizer_create(out, &desc, err);
    sw_json_free(&tokenizer);
    sw_json_free(&config);
    sw_arena_free(&arena);
    return code;
}

sw_code sw_tokenizer_load(sw_tokenizer **out, const char *folder, sw_error *err) {
    *out = NULL;
    sw_arena arena = SW_ARENA_EMPTY;
    const char *tokenizer = sw_path_join(&arena, folder, SW_TOKENIZER_JSON);
    const char *config = sw_path_join(&arena, folder, SW_TOKENIZER_CONFIG_JSON);
    sw_code code = tokenizer != NULL && config != NULL
                       ? sw_tokenizer_load_files(out, tokenizer, config, err)
                       : SW_FAIL(err, SW_NO_MEMORY, "no memory for the tokenizer's paths");
    sw_arena_free(&arena);
    return code;
}
