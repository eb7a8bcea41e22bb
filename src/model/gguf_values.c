/* gguf_values.c: what is in an open GGUF file, by name: a binary search in the names that the parser sorted.
 * The parser has checked every place and size; here types and ranges are checked. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf_file.h"

static const char *const type_texts[] = {
#define TYPE_TEXT(name, number, text, bytes) [number] = text,
    SW_GGUF_TYPES(TYPE_TEXT)
#undef TYPE_TEXT
};

void sw_gguf_type_text(sw_gguf_type type, sw_gguf_type element, char out[SW_GGUF_TYPE_TEXT_BYTES]) {
    snprintf(out, SW_GGUF_TYPE_TEXT_BYTES, "%s%s", type == SW_GGUF_ARRAY ? "array of " : "",
             type_texts[type == SW_GGUF_ARRAY ? element : type]);
}

size_t sw_gguf_shown_bytes(sw_span span) {
    enum { MOST = 96 };
    if (span.size <= MOST) return span.size;
    size_t n = MOST;
    while (n > 0 && ((uint8_t)span.data[n] & 0xc0) == 0x80) n--;
    return n;
}

static int compare_spans(sw_span a, sw_span b) {
    int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

const sw_gguf_name *sw_gguf_search(const sw_gguf_name *const *sorted, size_t n, sw_span name) {
    for (size_t low = 0, high = n; low < high;) {
        size_t middle = low + (high - low) / 2;
        int order = compare_spans(sorted[middle]->text, name);
        if (order == 0) return sorted[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const sw_gguf_key *sw_gguf_find_key(const sw_gguf *gguf, const char *key) {
    return (const sw_gguf_key *)sw_gguf_search(gguf->keys_by_name, gguf->n_keys, (sw_span){key, strlen(key)});
}

const char *sw_gguf_path(const sw_gguf *gguf) {
    return gguf->path;
}

bool sw_gguf_has(const sw_gguf *gguf, const char *key) {
    return sw_gguf_find_key(gguf, key) != NULL;
}

bool sw_gguf_is_array(const sw_gguf *gguf, const char *key, uint64_t *count) {
    const sw_gguf_key *k = sw_gguf_find_key(gguf, key);
    if (k == NULL || k->type != SW_GGUF_ARRAY) return false;
    if (count != NULL) *count = k->count;
    return true;
}

static sw_code find(const sw_gguf *gguf, const char *key, const sw_gguf_key **out, sw_error *err) {
    *out = sw_gguf_find_key(gguf, key);
    if (*out == NULL) return SW_FAIL(err, SW_NOT_FOUND, "%s: has no key `%s`", gguf->path, key);
    return SW_OK;
}

static sw_code wrong_type(const sw_gguf *gguf, const sw_gguf_key *k, const char *wanted, sw_error *err) {
    char found[SW_GGUF_TYPE_TEXT_BYTES];
    sw_gguf_type_text(k->type, k->element, found);
    return SW_FAIL(err, SW_BAD_DATA, "%s: byte %" PRIu64 ": key `%.*s` is of type %s, wanted %s", gguf->path,
                   k->name.at, SW_GGUF_SHOWN(k->name.text), found, wanted);
}

static sw_cursor value_of(const sw_gguf *gguf, const sw_gguf_key *k) {
    return (sw_cursor){.data = gguf->data, .size = gguf->size, .pos = k->value_at};
}

/* The parser saw that the value is there: the reads below can't fail. */
static uint64_t take_bytes(sw_cursor *c, unsigned bytes) {
    uint64_t value = 0;
    const uint8_t *at = sw_cursor_take(c, bytes);
    for (unsigned i = 0; at != NULL && i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static sw_span take_string(sw_cursor *c) {
    uint64_t size = take_bytes(c, 8);
    return (sw_span){(const char *)sw_cursor_take(c, size), (size_t)size};
}

sw_code sw_gguf_get_u64(const sw_gguf *gguf, const char *key, uint64_t *out, sw_error *err) {
    const sw_gguf_key *k;
    SW_TRY(find(gguf, key, &k, err));
    unsigned bytes = 0;
    bool is_signed = false;
    switch (k->type) {
    case SW_GGUF_I8:
        is_signed = true; /* fall through */
    case SW_GGUF_U8:
        bytes = 1;
        break;
    case SW_GGUF_I16:
        is_signed = true; /* fall through */
    case SW_GGUF_U16:
        bytes = 2;
        break;
    case SW_GGUF_I32:
        is_signed = true; /* fall through */
    case SW_GGUF_U32:
        bytes = 4;
        break;
    case SW_GGUF_I64:
        is_signed = true; /* fall through */
    case SW_GGUF_U64:
        bytes = 8;
        break;
    default:
        return wrong_type(gguf, k, "an integer", err);
    }
    sw_cursor c = value_of(gguf, k);
    uint64_t value = take_bytes(&c, bytes);
    if (is_signed && value >> (8 * bytes - 1) != 0) {
        int64_t negative = (int64_t)(bytes == 8 ? value : value | UINT64_MAX << (8 * bytes));
        return SW_FAIL(err, SW_BAD_DATA, "%s: byte %" PRIu64 ": key `%s` is %" PRId64 ", wanted 0 or more",
                       gguf->path, k->value_at, key, negative);
    }
    *out = value;
    return SW_OK;
}

sw_code sw_gguf_get_f32(const sw_gguf *gguf, const char *key, float *out, sw_error *err) {
    const sw_gguf_key *k;
    SW_TRY(find(gguf, key, &k, err));
    if (k->type != SW_GGUF_F32) return wrong_type(gguf, k, "f32", err);
    sw_cursor c = value_of(gguf, k);
    uint32_t bits = (uint32_t)take_bytes(&c, 4);
    memcpy(out, &bits, sizeof *out);
    return SW_OK;
}

sw_code sw_gguf_get_bool(const sw_gguf *gguf, const char *key, bool *out, sw_error *err) {
    const sw_gguf_key *k;
    SW_TRY(find(gguf, key, &k, err));
    if (k->type != SW_GGUF_BOOL) return wrong_type(gguf, k, "bool", err);
    uint8_t value = gguf->data[k->value_at];
    if (value > 1)
        return SW_FAIL(err, SW_BAD_DATA, "%s: byte %" PRIu64 ": key `%s` is a bool of %u, wanted 0 or 1",
                       gguf->path, k->value_at, key, value);
    *out = value == 1;
    return SW_OK;
}

sw_code sw_gguf_get_string(const sw_gguf *gguf, const char *key, sw_span *out, sw_error *err) {
    const sw_gguf_key *k;
    SW_TRY(find(gguf, key, &k, err));
    if (k->type != SW_GGUF_STRING) return wrong_type(gguf, k, "string", err);
    sw_cursor c = value_of(gguf, k);
    *out = take_string(&c);
    return SW_OK;
}

static sw_code find_array(const sw_gguf *gguf, const char *key, sw_gguf_type element, size_t element_bytes,
                          sw_arena *arena, const sw_gguf_key **k, void **out, sw_error *err) {
    SW_TRY(find(gguf, key, k, err));
    char wanted[SW_GGUF_TYPE_TEXT_BYTES];
    sw_gguf_type_text(SW_GGUF_ARRAY, element, wanted);
    if ((*k)->type != SW_GGUF_ARRAY || (*k)->element != element) return wrong_type(gguf, *k, wanted, err);
    *out = sw_arena_array(arena, (size_t)(*k)->count, element_bytes); /* the file holds count elements */
    if (*out == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for key `%s`", gguf->path, key);
    return SW_OK;
}

sw_code sw_gguf_get_strings(const sw_gguf *gguf, const char *key, sw_arena *arena, sw_span **out,
                            size_t *count, sw_error *err) {
    const sw_gguf_key *k;
    void *memory;
    SW_TRY(find_array(gguf, key, SW_GGUF_STRING, sizeof **out, arena, &k, &memory, err));
    *out = memory;
    *count = (size_t)k->count;
    sw_cursor c = value_of(gguf, k);
    for (size_t i = 0; i < *count; i++) (*out)[i] = take_string(&c);
    return SW_OK;
}

sw_code sw_gguf_get_i32s(const sw_gguf *gguf, const char *key, sw_arena *arena, int32_t **out, size_t *count,
                         sw_error *err) {
    const sw_gguf_key *k;
    void *memory;
    SW_TRY(find_array(gguf, key, SW_GGUF_I32, sizeof **out, arena, &k, &memory, err));
    *out = memory;
    *count = (size_t)k->count;
    sw_cursor c = value_of(gguf, k);
    for (size_t i = 0; i < *count; i++) (*out)[i] = (int32_t)(uint32_t)take_bytes(&c, 4);
    return SW_OK;
}

sw_code sw_gguf_tensor(const sw_gguf *gguf, const char *name, sw_weight *out, sw_error *err) {
    const sw_gguf_name *found =
        sw_gguf_search(gguf->tensors_by_name, gguf->n_tensors, (sw_span){name, strlen(name)});
    if (found == NULL) return SW_FAIL(err, SW_NOT_FOUND, "%s: has no tensor `%s`", gguf->path, name);
    *out = ((const sw_gguf_tensor_entry *)found)->weight;
    return SW_OK;
}

size_t sw_gguf_n_keys(const sw_gguf *gguf) {
    return gguf->n_keys;
}

sw_span sw_gguf_key_name(const sw_gguf *gguf, size_t index) {
    return gguf->keys[index].name.text;
}

size_t sw_gguf_n_tensors(const sw_gguf *gguf) {
    return gguf->n_tensors;
}

const sw_weight *sw_gguf_tensor_at(const sw_gguf *gguf, size_t index) {
    return &gguf->tensors[index].weight;
}
