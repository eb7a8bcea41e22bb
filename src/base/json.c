/* json.c: checked access to a parsed JSON document; the place of a value is a chain of links on the stack. */
#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

/* Appends "$.key[3]..." of a place to out; returns the new length. Long paths lose their end. */
static size_t append_path(const sw_json *at, char *out, size_t capacity) {
    if (at->parent == NULL) return (size_t)snprintf(out, capacity, "$");
    size_t n = append_path(at->parent, out, capacity);
    if (n >= capacity) return n;
    int more = at->key != NULL ? snprintf(out + n, capacity - n, ".%s", at->key)
                               : snprintf(out + n, capacity - n, "[%zu]", at->index);
    return more < 0 ? n : n + (size_t)more;
}

sw_code sw_json_fail(const sw_json *at, sw_error *err, const char *format, ...) {
    char path[256];
    append_path(at, path, sizeof path);
    va_list args;
    va_start(args, format);
    sw_vfail(err, SW_BAD_DATA, format, args);
    va_end(args);
    sw_error_prefix(err, "%s: %s", at->file, path);
    return SW_BAD_DATA;
}

static sw_code fail_of_key(const sw_json *at, sw_error *err, const char *key, bool unknown) {
    const char *more = at->other_keys;
    return sw_json_fail(at, err, unknown ? "unknown key `%.64s`%s%s" : "key `%.64s` is missing%s%s", key,
                        more != NULL ? "; " : "", more != NULL ? more : "");
}

static const char *type_name(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "text";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number with a fraction or exponent";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "null";
    }
    return "an unknown type";
}

/* jansson refuses an integer beyond int64 but names no key. Read again with all integers as reals, such a one
 * is found by its size, in the order of the document. */
static sw_code fail_at_huge(const sw_json *at, sw_error *err) {
    sw_json child = {.parent = at, .file = at->file};
    if (json_is_number(at->value)) {
        double x = json_number_value(at->value);
        if (x < 9223372036854775808.0 && x >= -9223372036854775808.0) return SW_OK;
        return sw_json_fail(at, err, "%.20g is too large, the limit is 2^63 - 1", x);
    }
    for (child.index = 0; child.index < json_array_size(at->value); child.index++) {
        child.value = json_array_get(at->value, child.index);
        SW_TRY(fail_at_huge(&child, err));
    }
    for (void *i = json_object_iter((json_t *)(uintptr_t)at->value); i != NULL;
         i = json_object_iter_next((json_t *)(uintptr_t)at->value, i)) {
        child.key = json_object_iter_key(i), child.value = json_object_iter_value(i);
        SW_TRY(fail_at_huge(&child, err));
    }
    return SW_OK;
}

sw_code sw_json_parse(sw_json *out, const char *file, const char *text, size_t size, sw_error *err) {
    json_error_t e;
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    *out = (sw_json){.file = file};
    json_t *value = json_loadb(text, size, flags, &e);
    if (value != NULL) {
        out->value = value;
        return SW_OK;
    }
    /* jansson names it in some places only; in the others it leaves no words, which all else has */
    if (json_error_code(&e) == json_error_out_of_memory || e.text[0] == '\0')
        return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", file);
    if (json_error_code(&e) == json_error_numeric_overflow) {
        json_error_t ignored;
        sw_json document = {.file = file,
                            .value = json_loadb(text, size, flags | JSON_DECODE_INT_AS_REAL, &ignored)};
        sw_code code = document.value != NULL ? fail_at_huge(&document, err) : SW_OK;
        sw_json_free(&document);
        if (code != SW_OK) return code;
    }
    return SW_FAIL(err, SW_BAD_DATA, "%s: not valid JSON at line %d, column %d: %s", file, e.line, e.column,
                   e.text);
}

void sw_json_free(sw_json *document) {
    json_decref((json_t *)(uintptr_t)document->value);
    document->value = NULL;
}

sw_code sw_json_object(const sw_json *at, sw_error *err) {
    if (json_is_object(at->value)) return SW_OK;
    return sw_json_fail(at, err, "is %s, wanted an object", type_name(at->value));
}

sw_code sw_json_array(const sw_json *at, size_t least, size_t most, size_t *count, sw_error *err) {
    if (!json_is_array(at->value))
        return sw_json_fail(at, err, "is %s, wanted an array", type_name(at->value));
    *count = json_array_size(at->value);
    if (*count >= least && *count <= most) return SW_OK;
    if (least == most) return sw_json_fail(at, err, "has %zu elements, wanted %zu", *count, least);
    return sw_json_fail(at, err, "has %zu elements, wanted %zu to %zu", *count, least, most);
}

sw_code sw_json_only_keys(const sw_json *at, const char *const *known, sw_error *err) {
    SW_TRY(sw_json_object(at, err));
    json_t *object = (json_t *)(uintptr_t)at->value;
    for (void *i = json_object_iter(object); i != NULL; i = json_object_iter_next(object, i)) {
        const char *key = json_object_iter_key(i);
        size_t k = 0;
        while (known[k] != NULL && strcmp(known[k], key) != 0) k++;
        if (known[k] == NULL) return fail_of_key(at, err, key, true);
    }
    return SW_OK;
}

sw_json sw_json_find(const sw_json *at, const char *key) {
    return (sw_json){.value = json_object_get(at->value, key),
                     .parent = at,
                     .key = key,
                     .file = at->file,
                     .other_keys = at->other_keys};
}

sw_code sw_json_get(const sw_json *at, const char *key, sw_json *out, sw_error *err) {
    SW_TRY(sw_json_object(at, err));
    *out = sw_json_find(at, key);
    return out->value != NULL ? SW_OK : fail_of_key(at, err, key, false);
}

sw_json sw_json_element(const sw_json *array, size_t index) {
    return (sw_json){.value = json_array_get(array->value, index),
                     .parent = array,
                     .index = index,
                     .file = array->file,
                     .other_keys = array->other_keys};
}

sw_code sw_json_text(const sw_json *at, bool allow_empty, size_t most, const char **out, sw_error *err) {
    if (!json_is_string(at->value)) return sw_json_fail(at, err, "is %s, wanted text", type_name(at->value));
    const char *text = json_string_value(at->value);
    size_t length = json_string_length(at->value);
    if (length == 0 && !allow_empty) return sw_json_fail(at, err, "is empty");
    if (length > most) return sw_json_fail(at, err, "has %zu bytes, the limit is %zu", length, most);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return sw_json_fail(at, err, "has the control character 0x%02x at byte %zu", (unsigned)text[i],
                                i);
    *out = text;
    return SW_OK;
}

sw_code sw_json_i64(const sw_json *at, int64_t least, int64_t most, int64_t *out, sw_error *err) {
    if (!json_is_integer(at->value))
        return sw_json_fail(at, err, "is %s, wanted an integer", type_name(at->value));
    *out = json_integer_value(at->value);
    if (*out >= least && *out <= most) return SW_OK;
    return sw_json_fail(at, err, "is %lld, wanted %lld to %lld", (long long)*out, (long long)least,
                        (long long)most);
}

sw_code sw_json_u64(const sw_json *at, uint64_t least, uint64_t most, uint64_t *out, sw_error *err) {
    int64_t value;
    SW_TRY(sw_json_i64(at, (int64_t)least, most > INT64_MAX ? INT64_MAX : (int64_t)most, &value, err));
    *out = (uint64_t)value;
    return SW_OK;
}

sw_code sw_json_u32(const sw_json *at, uint32_t least, uint32_t most, uint32_t *out, sw_error *err) {
    int64_t value;
    SW_TRY(sw_json_i64(at, least, most, &value, err));
    *out = (uint32_t)value;
    return SW_OK;
}

sw_code sw_json_f64(const sw_json *at, double *out, sw_error *err) {
    if (!json_is_number(at->value))
        return sw_json_fail(at, err, "is %s, wanted a number", type_name(at->value));
    *out = json_number_value(at->value);
    return SW_OK;
}

sw_code sw_json_bool(const sw_json *at, bool *out, sw_error *err) {
    if (!json_is_boolean(at->value))
        return sw_json_fail(at, err, "is %s, wanted true or false", type_name(at->value));
    *out = json_is_true(at->value);
    return SW_OK;
}

json_t *sw_json_of_bytes(const char *text) {
    json_t *plain = json_string(text);
    if (plain != NULL) return plain;
    char *out = malloc(4 * strlen(text) + 1);
    if (out == NULL) return NULL;
    size_t n = 0;
    while (*text != '\0') {
        size_t size = sw_utf8_size(text);
        if (size > 0)
            memcpy(out + n, text, size);
        else
            snprintf(out + n, 5, "\\x%02x", (unsigned)(unsigned char)*text);
        n += size > 0 ? size : 4;
        text += size > 0 ? size : 1;
    }
    json_t *string = json_stringn(out, n);
    free(out);
    return string;
}
