/* tokenizer.c: making a tokenizer from its description, and all that goes from ids to text. Everything is
 * worked out once, here: the description is copied, checked, and turned into tables; afterwards nothing
 * changes. */
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "text/byte_alphabet.h"
#include "text/tokenizer_parts.h"

sw_code sw_ids_append(sw_ids *ids, const int32_t *data, size_t count, sw_error *err) {
    if (count == 0) return SW_OK;
    size_t need, bytes;
    bool fits = !__builtin_add_overflow(ids->count, count, &need);
    if (fits && need > ids->capacity) {
        size_t capacity = ids->capacity < 64 ? 64 : ids->capacity;
        while (capacity < need && capacity <= SIZE_MAX / 2) capacity *= 2;
        fits = !__builtin_mul_overflow(capacity, sizeof *ids->data, &bytes);
        int32_t *bigger = fits ? realloc(ids->data, bytes) : NULL;
        fits = bigger != NULL;
        if (fits) {
            ids->data = bigger;
            ids->capacity = capacity;
        }
    }
    if (!fits) return SW_FAIL(err, SW_NO_MEMORY, "no memory for %zu more token ids", count);
    memcpy(ids->data + ids->count, data, count * sizeof *data);
    ids->count = need;
    return SW_OK;
}

void sw_ids_free(sw_ids *ids) {
    free(ids->data);
    *ids = (sw_ids){0};
}

static sw_code no_memory(sw_error *err) {
    return SW_FAIL(err, SW_NO_MEMORY, "no memory for the tokenizer");
}

/* Copies a span list as one block of bytes: spans are small, arena blocks are not. */
static sw_code copy_spans(sw_arena *arena, const sw_span *spans, size_t count, const sw_span **out,
                          sw_error *err) {
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        if (__builtin_add_overflow(total, spans[i].size, &total)) return no_memory(err);
    sw_span *list = sw_arena_array(arena, count, sizeof *list);
    char *bytes = sw_arena_alloc(arena, total);
    if (list == NULL || bytes == NULL) return no_memory(err);
    for (size_t i = 0; i < count; i++) {
        if (spans[i].size > 0) memcpy(bytes, spans[i].data, spans[i].size);
        list[i] = (sw_span){bytes, spans[i].size};
        bytes += spans[i].size;
    }
    *out = list;
    return SW_OK;
}

static sw_code copy_bytes(sw_arena *arena, const void *data, size_t count, size_t size, const void **out,
                          sw_error *err) {
    void *copy = sw_arena_array(arena, count, size);
    if (copy == NULL) return no_memory(err);
    if (count > 0) memcpy(copy, data, count * size);
    *out = copy;
    return SW_OK;
}

static sw_code copy_description(sw_tokenizer *t, const sw_tokenizer_desc *from, sw_error *err) {
    sw_tokenizer_desc *to = &t->desc;
    *to = *from;
    const sw_span texts[] = {from->model, from->pre, from->chat_template};
    const sw_span *copies = NULL;
    SW_TRY(copy_spans(&t->arena, texts, 3, &copies, err));
    to->model = copies[0];
    to->pre = copies[1];
    to->chat_template = copies[2];
    if (from->source != NULL && (to->source = sw_arena_strdup(&t->arena, from->source)) == NULL)
        return no_memory(err);
    SW_TRY(copy_spans(&t->arena, from->tokens, from->n_tokens, &to->tokens, err));
    SW_TRY(copy_spans(&t->arena, from->merges, from->n_merges, &to->merges, err));
    const void *copy = NULL;
    if (from->token_types != NULL)
        SW_TRY(copy_bytes(&t->arena, from->token_types, from->n_tokens, sizeof(int32_t), &copy, err));
    to->token_types = copy;
    SW_TRY(copy_bytes(&t->arena, from->ends, from->n_ends, sizeof *from->ends, &copy, err));
    to->ends = copy;
    return SW_OK;
}

static sw_code check_tokens(const sw_tokenizer_desc *desc, sw_error *err) {
    if (desc->n_tokens == 0) return SW_FAIL(err, SW_BAD_DATA, "the vocabulary has no token");
    if (desc->n_tokens > INT32_MAX)
        return SW_FAIL(err, SW_BAD_DATA, "%zu tokens, the limit is %d", desc->n_tokens, INT32_MAX);
    for (size_t i = 0; i < desc->n_tokens; i++) {
        sw_span text = desc->tokens[i];
        size_t bad;
        if (text.size == 0) return SW_FAIL(err, SW_BAD_DATA, "token %zu has no text", i);
        if (memchr(text.data, '\0', text.size) != NULL)
            return SW_FAIL(err, SW_BAD_DATA, "token %zu has a zero byte in its text", i);
        if (!sw_utf8_valid(text.data, text.size, &bad))
            return SW_FAIL(err, SW_BAD_DATA, "token %zu is not UTF-8 at byte %zu", i, bad);
        int32_t type = desc->token_types != NULL ? desc->token_types[i] : SW_TOKEN_NORMAL;
        if (type < SW_TOKEN_NORMAL || type > SW_TOKEN_BYTE)
            return SW_FAIL(err, SW_BAD_DATA, "token %zu has type %d, known are %d to %d", i, type,
                           SW_TOKEN_NORMAL, SW_TOKEN_BYTE);
    }
    return SW_OK;
}

static sw_code check_id(const sw_tokenizer_desc *desc, const char *name, int64_t id, bool may_miss,
                        sw_error *err) {
    if (id >= (may_miss ? -1 : 0) && id < (int64_t)desc->n_tokens) return SW_OK;
    return SW_FAIL(err, SW_BAD_DATA, "the %s token has id %lld, the vocabulary has 0 to %zu", name,
                   (long long)id, desc->n_tokens - 1);
}

static sw_code check_ids(const sw_tokenizer_desc *desc, sw_error *err) {
    SW_TRY(check_id(desc, "bos", desc->bos, true, err));
    SW_TRY(check_id(desc, "eos", desc->eos, true, err));
    SW_TRY(check_id(desc, "eot", desc->eot, true, err));
    SW_TRY(check_id(desc, "unknown", desc->unk, true, err));
    SW_TRY(check_id(desc, "padding", desc->pad, true, err));
    for (size_t i = 0; i < desc->n_ends; i++) SW_TRY(check_id(desc, "end", desc->ends[i], false, err));
    if (desc->add_bos && desc->bos < 0)
        return SW_FAIL(err, SW_BAD_DATA, "a bos token is to be added, but none is named");
    return SW_OK;
}

static sw_code check_template(sw_span text, sw_error *err) {
    size_t bad;
    if (text.size > SW_CHAT_TEMPLATE_BYTES_MAX)
        return SW_FAIL(err, SW_BAD_DATA, "the chat template has %zu bytes, the limit is %d", text.size,
                       SW_CHAT_TEMPLATE_BYTES_MAX);
    if (text.size > 0 && memchr(text.data, '\0', text.size) != NULL)
        return SW_FAIL(err, SW_BAD_DATA, "the chat template has a zero byte");
    if (!sw_utf8_valid(text.data, text.size, &bad))
        return SW_FAIL(err, SW_BAD_DATA, "the chat template is not UTF-8 at byte %zu", bad);
    return SW_OK;
}

/* The bytes of each token: of the byte-level alphabet where it is text that merges can reach, else as it is.
 */
static sw_code decode_tokens(sw_tokenizer *t, sw_error *err) {
    const sw_tokenizer_desc *desc = &t->desc;
    size_t total = 0;
    for (size_t i = 0; i < desc->n_tokens; i++) total += desc->tokens[i].size; /* copied, so it fits */
    char *bytes = sw_arena_alloc(&t->arena, total);
    t->decoded = sw_arena_array(&t->arena, desc->n_tokens, sizeof *t->decoded);
    if (bytes == NULL || t->decoded == NULL) return no_memory(err);
    for (size_t i = 0; i < desc->n_tokens; i++) {
        int32_t type = desc->token_types != NULL ? desc->token_types[i] : SW_TOKEN_NORMAL;
        bool literal = type != SW_TOKEN_NORMAL && type != SW_TOKEN_BYTE;
        size_t size;
        if (literal || !sw_chars_to_bytes(desc->tokens[i], bytes, &size)) {
            t->decoded[i] = desc->tokens[i];
            continue;
        }
        t->decoded[i] = (sw_span){bytes, size};
        bytes += size;
    }
    return SW_OK;
}

/* Models name one end of a text, or none, but were trained to stop at others too: those of this list that the
 * vocabulary has as control tokens. Source: the models' published generation configs. */
static const char *const known_ends[] = {
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>",
    "<|end|>",    "<end_of_turn>", "<eos>",      "</s>",
};

static sw_code mark_ends(sw_tokenizer *t, sw_error *err) {
    const sw_tokenizer_desc *desc = &t->desc;
    t->is_end = sw_arena_array(&t->arena, desc->n_tokens, 1);
    if (t->is_end == NULL) return no_memory(err);
    if (desc->eos >= 0) t->is_end[desc->eos] = 1;
    if (desc->eot >= 0) t->is_end[desc->eot] = 1;
    for (size_t i = 0; i < desc->n_ends; i++) t->is_end[desc->ends[i]] = 1;
    for (size_t i = 0; i < sizeof known_ends / sizeof *known_ends; i++) {
        int32_t id = sw_token_map_find(&t->map, sw_span_of(known_ends[i]));
        if (id >= 0 && desc->token_types != NULL && desc->token_types[id] == SW_TOKEN_CONTROL)
            t->is_end[id] = 1;
    }
    return SW_OK;
}

static sw_code build(sw_tokenizer *t, const sw_tokenizer_desc *from, sw_error *err) {
    if (from->model.size != 4 || memcmp(from->model.data, "gpt2", 4) != 0)
        return SW_FAIL(err, SW_UNSUPPORTED, "tokenizer model \"%.*s\" is not supported, supported: gpt2",
                       (int)(from->model.size < 60 ? from->model.size : 60), from->model.data);
    t->rule = sw_pretokenizer_rule_find(from->pre);
    if (t->rule == NULL)
        return SW_FAIL(err, SW_UNSUPPORTED, "pre-tokenizer \"%.*s\" is not supported, supported: %s",
                       (int)(from->pre.size < 60 ? from->pre.size : 60), from->pre.data,
                       sw_pretokenizer_names());
    SW_TRY(check_tokens(from, err));
    SW_TRY(check_ids(from, err));
    SW_TRY(check_template(from->chat_template, err));
    SW_TRY(copy_description(t, from, err));
    const sw_tokenizer_desc *desc = &t->desc;
    SW_TRY(sw_token_map_init(&t->map, desc->tokens, desc->n_tokens, &t->arena, err));
    SW_TRY(sw_specials_init(&t->specials, desc->tokens, desc->token_types, desc->n_tokens, &t->arena, err));
    SW_TRY(sw_bpe_init(&t->bpe, &t->map, desc->merges, desc->n_merges, &t->arena, err));
    SW_TRY(sw_pretokenizer_create(&t->pre, t->rule, err));
    SW_TRY(decode_tokens(t, err));
    return mark_ends(t, err);
}

sw_code sw_tokenizer_create(sw_tokenizer **out, const sw_tokenizer_desc *desc, sw_error *err) {
    *out = NULL;
    sw_tokenizer *t = calloc(1, sizeof *t);
    if (t == NULL) return no_memory(err);
    sw_code code = build(t, desc, err);
    if (code != SW_OK) {
        if (desc->source != NULL) (void)sw_error_prefix(err, "%s", desc->source);
        sw_tokenizer_destroy(t);
        return code;
    }
    *out = t;
    return SW_OK;
}

void sw_tokenizer_destroy(sw_tokenizer *t) {
    if (t == NULL) return;
    sw_pretokenizer_destroy(t->pre);
    sw_arena_free(&t->arena);
    free(t);
}

const sw_tokenizer_desc *sw_tokenizer_description(const sw_tokenizer *t) {
    return &t->desc;
}

int32_t sw_tokenizer_find(const sw_tokenizer *t, sw_span text) {
    return sw_token_map_find(&t->map, text);
}

bool sw_tokenizer_is_end(const sw_tokenizer *t, int64_t id) {
    return id >= 0 && id < (int64_t)t->desc.n_tokens && t->is_end[id] != 0;
}

sw_code sw_tokenizer_decode(const sw_tokenizer *t, int64_t id, bool show_special, sw_span *out,
                            sw_error *err) {
    if (id < 0 || id >= (int64_t)t->desc.n_tokens)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "token id %lld, the vocabulary has 0 to %zu", (long long)id,
                       t->desc.n_tokens - 1);
    int32_t type = t->desc.token_types != NULL ? t->desc.token_types[id] : SW_TOKEN_NORMAL;
    *out = t->decoded[id];
    if (!show_special && (type == SW_TOKEN_CONTROL || type == SW_TOKEN_UNKNOWN)) out->size = 0;
    return SW_OK;
}

sw_code sw_tokenizer_decode_all(const sw_tokenizer *t, const int32_t *ids, size_t count, bool show_special,
                                sw_arena *arena, sw_span *out, sw_error *err) {
    sw_span part;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        SW_TRY(sw_tokenizer_decode(t, ids[i], show_special, &part, err));
        if (__builtin_add_overflow(total, part.size, &total)) return no_memory(err);
    }
    char *text = total < SIZE_MAX ? sw_arena_alloc(arena, total + 1) : NULL;
    if (text == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory for a text of %zu bytes", total);
    *out = (sw_span){text, total};
    for (size_t i = 0; i < count; i++) {
        SW_TRY(sw_tokenizer_decode(t, ids[i], show_special, &part, err));
        memcpy(text, part.data, part.size);
        text += part.size;
    }
    return SW_OK;
}
