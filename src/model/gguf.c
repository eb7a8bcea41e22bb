/* gguf.c: the parser of GGUF v2 and v3. Format (ggml's docs/gguf.md), all numbers little-endian:
 *
 *   1. header: `GGUF`, version u32, tensor count u64, key count u64
 *   2. key count times: name string, type u32, value
 *        string: length u64, bytes (no zero at the end); array: element type u32, count u64, elements
 *   3. tensor count times: name string, n_dims u32, dims u64 [n_dims] (row length first), type u32, offset
 * u64
 *   4. zero bytes up to a multiple of the alignment: key general.alignment (u32), 32 without it
 *   5. tensor data, each at its offset from here, which is a multiple of the alignment; padding to the same
 *
 * One pass with a cursor that knows the file's end. Tables grow as entries are really read, so that a claimed
 * count costs nothing; every size is compared with the file before it is used. Bounds of our own: alignment
 * 8..65536, names of tensors 64 bytes, of keys 65535, dimensions and rows 2^31-1, no arrays of arrays, no
 * control characters in names, no tensors that overlap. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "model/file_kind.h"
#include "model/gguf_file.h"

enum {
    HEADER_BYTES = 24,
    MIN_KEY_BYTES = 8 + 1 + 4 + 1,
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8,
    DEFAULT_ALIGNMENT = 32,
    MIN_ALIGNMENT = 8,
    MAX_ALIGNMENT = 65536,
    MAX_KEY_NAME = 65535,
    MAX_TENSOR_NAME = 64,
    MAX_DIMS = 4,
};

/* Keys with one legal type, whoever reads them: checked for every file. */
static const struct {
    const char *key;
    sw_gguf_type type, element;
} typed_keys[] = {
    {"general.architecture", SW_GGUF_STRING, SW_GGUF_STRING},
    {"general.alignment", SW_GGUF_U32, SW_GGUF_U32},
    {"tokenizer.ggml.tokens", SW_GGUF_ARRAY, SW_GGUF_STRING},
    {"tokenizer.ggml.merges", SW_GGUF_ARRAY, SW_GGUF_STRING},
    {"tokenizer.ggml.scores", SW_GGUF_ARRAY, SW_GGUF_F32},
    {"tokenizer.ggml.token_type", SW_GGUF_ARRAY, SW_GGUF_I32},
};

static const unsigned type_bytes[SW_GGUF_TYPE_COUNT] = {
#define TYPE_BYTES(name, number, text, bytes) [number] = bytes,
    SW_GGUF_TYPES(TYPE_BYTES)
#undef TYPE_BYTES
};

typedef struct parser {
    sw_gguf *gguf;
    sw_cursor c;
    sw_error *err;
    /* What is being read, for messages: "key" or "tensor", its number, its name once known. */
    const char *kind;
    uint64_t index;
    sw_span name;
} parser;

/* "FILE: byte AT: KIND N `NAME`: what". */
SW_PRINTF(4, 5)
static sw_code fail(const parser *p, sw_code code, uint64_t at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    sw_vfail(p->err, code, format, args);
    va_end(args);
    if (p->name.size == 0)
        sw_error_prefix(p->err, "%s: byte %" PRIu64 ": %s %" PRIu64, p->gguf->path, at, p->kind, p->index);
    else
        sw_error_prefix(p->err, "%s: byte %" PRIu64 ": %s %" PRIu64 " `%.*s`", p->gguf->path, at, p->kind,
                        p->index, SW_GGUF_SHOWN(p->name));
    return code;
}

static sw_code cut_off(const parser *p) {
    return fail(p, SW_BAD_DATA, p->c.pos, "is cut off, the file ends at byte %" PRIu64, p->c.size);
}

static sw_code take_u32(parser *p, uint32_t *out) {
    return sw_cursor_u32(&p->c, out) ? SW_OK : cut_off(p);
}

static sw_code take_u64(parser *p, uint64_t *out) {
    return sw_cursor_u64(&p->c, out) ? SW_OK : cut_off(p);
}

static sw_code take_string(parser *p, sw_span *out) {
    uint64_t at = p->c.pos, size;
    SW_TRY(take_u64(p, &size));
    const uint8_t *data = sw_cursor_take(&p->c, size);
    if (data == NULL)
        return fail(p, SW_BAD_DATA, at,
                    "string length %" PRIu64 " is beyond the end of the file (%" PRIu64 ")", size, p->c.size);
    *out = (sw_span){(const char *)data, (size_t)size};
    return SW_OK;
}

/* Reads and checks a name and makes it the parser's subject. */
static sw_code take_name(parser *p, uint64_t most, sw_gguf_name *out) {
    p->name = (sw_span){0};
    out->at = p->c.pos;
    uint64_t size;
    SW_TRY(take_u64(p, &size));
    p->c.pos = out->at;
    if (size == 0 || (size > most && size <= sw_cursor_left(&p->c)))
        return fail(p, SW_BAD_DATA, out->at, "name of %" PRIu64 " bytes, wanted 1 to %" PRIu64, size, most);
    SW_TRY(take_string(p, &out->text));
    uint64_t data_at = out->at + 8;
    size_t bad;
    if (!sw_utf8_valid(out->text.data, out->text.size, &bad))
        return fail(p, SW_BAD_DATA, data_at + bad, "name is not valid UTF-8 at its byte %zu", bad);
    for (size_t i = 0; i < out->text.size; i++) {
        uint8_t ch = (uint8_t)out->text.data[i];
        if (ch == 0) return fail(p, SW_BAD_DATA, data_at + i, "name has a zero byte at its byte %zu", i);
        if (ch < 0x20 || ch == 0x7f)
            return fail(p, SW_BAD_DATA, data_at + i, "name has control character 0x%02x at its byte %zu", ch,
                        i);
    }
    p->name = out->text;
    return SW_OK;
}

/* Room for entry n of an array that doubles; true where there is. */
static bool grow(void **array, size_t n, size_t entry_bytes) {
    if ((n & (n - 1)) != 0 && n != 0) return true; /* capacity is the next power of two */
    size_t capacity = n == 0 ? 1 : 2 * n;
    void *moved = capacity <= SIZE_MAX / entry_bytes ? realloc(*array, capacity * entry_bytes) : NULL;
    if (moved == NULL) return false;
    *array = moved;
    return true;
}

static int compare_names(const void *a, const void *b) {
    const sw_gguf_name *x = *(const sw_gguf_name *const *)a, *y = *(const sw_gguf_name *const *)b;
    size_t least = x->text.size < y->text.size ? x->text.size : y->text.size;
    int order = memcmp(x->text.data, y->text.data, least);
    if (order != 0) return order;
    if (x->text.size != y->text.size) return x->text.size < y->text.size ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Sorted pointers to n entries; refuses a name that is there twice. */
static sw_code sort_names(parser *p, const void *entries, size_t n, size_t entry_bytes,
                          const sw_gguf_name ***out) {
    const sw_gguf_name **sorted = calloc(n > 0 ? n : 1, sizeof *sorted);
    if (sorted == NULL) return SW_FAIL(p->err, SW_NO_MEMORY, "%s: out of memory", p->gguf->path);
    *out = sorted;
    for (size_t i = 0; i < n; i++)
        sorted[i] = (const sw_gguf_name *)(const void *)((const char *)entries + i * entry_bytes);
    qsort(sorted, n, sizeof *sorted, compare_names);
    for (size_t i = 1; i < n; i++) {
        const sw_gguf_name *first = sorted[i - 1], *second = sorted[i];
        if (first->text.size == second->text.size &&
            memcmp(first->text.data, second->text.data, first->text.size) == 0)
            return SW_FAIL(p->err, SW_BAD_DATA,
                           "%s: byte %" PRIu64 ": duplicate %s `%.*s`, already at byte %" PRIu64,
                           p->gguf->path, second->at, p->kind, SW_GGUF_SHOWN(second->text), first->at);
    }
    return SW_OK;
}

static sw_code parse_header(parser *p, uint64_t *n_tensors, uint64_t *n_keys) {
    const uint8_t *d = p->c.data;
    uint64_t size = p->c.size;
    const char *path = p->gguf->path;
    if (size == 0) return SW_FAIL(p->err, SW_BAD_DATA, "%s: is empty, wanted a GGUF file", path);
    size_t n_magic = size < 4 ? (size_t)size : 4;
    if (n_magic < 4 || memcmp(d, "GGUF", 4) != 0) {
        char magic[3 * 4 + 1] = "";
        for (size_t i = 0; i < n_magic; i++) snprintf(magic + 3 * i, 4, "%02x ", d[i]);
        magic[3 * n_magic - 1] = '\0';
        const char *kind = sw_file_kind(d, size);
        return SW_FAIL(p->err, SW_BAD_DATA, "%s: not a GGUF file: %s%s%smagic `%s`, wanted `GGUF`", path,
                       kind != NULL ? "looks like " : "", kind != NULL ? kind : "", kind != NULL ? ", " : "",
                       magic);
    }
    if (size < HEADER_BYTES)
        return SW_FAIL(p->err, SW_BAD_DATA, "%s: has %" PRIu64 " bytes, a GGUF header alone has %d", path,
                       size, HEADER_BYTES);
    p->c.pos = 4;
    uint32_t version;
    SW_TRY(take_u32(p, &version));
    if ((version & 0xffffu) == 0 && version != 0)
        return SW_FAIL(
            p->err, SW_UNSUPPORTED,
            "%s: byte 4: version %02x %02x %02x %02x is stored in big-endian byte order, this build "
            "reads little-endian files",
            path, d[4], d[5], d[6], d[7]);
    if (version != 2 && version != 3)
        return SW_FAIL(p->err, SW_UNSUPPORTED,
                       "%s: byte 4: GGUF version %" PRIu32 ", this build reads 2 and 3", path, version);
    SW_TRY(take_u64(p, n_tensors));
    SW_TRY(take_u64(p, n_keys));
    uint64_t left = sw_cursor_left(&p->c);
    if (*n_tensors > left / MIN_TENSOR_BYTES)
        return SW_FAIL(p->err, SW_BAD_DATA,
                       "%s: byte 8: tensor count %" PRIu64 " can't fit in the %" PRIu64 " bytes left", path,
                       *n_tensors, left);
    if (*n_keys > left / MIN_KEY_BYTES)
        return SW_FAIL(p->err, SW_BAD_DATA,
                       "%s: byte 16: key count %" PRIu64 " can't fit in the %" PRIu64 " bytes left", path,
                       *n_keys, left);
    return SW_OK;
}

/* Steps over count values of a type that is known. */
static sw_code skip_values(parser *p, sw_gguf_type type, uint64_t count, uint64_t count_at) {
    uint64_t least = type == SW_GGUF_STRING ? 8 : type_bytes[type], left = sw_cursor_left(&p->c);
    if (count > left / least)
        return fail(p, SW_BAD_DATA, count_at,
                    "%" PRIu64 " values of at least %" PRIu64 " bytes can't fit in the %" PRIu64
                    " bytes left",
                    count, least, left);
    if (type != SW_GGUF_STRING) {
        p->c.pos += count * least;
        return SW_OK;
    }
    sw_span text;
    for (uint64_t i = 0; i < count; i++) SW_TRY(take_string(p, &text));
    return SW_OK;
}

static sw_code take_type(parser *p, const char *what, sw_gguf_type *out) {
    uint64_t at = p->c.pos;
    uint32_t type;
    SW_TRY(take_u32(p, &type));
    if (type >= SW_GGUF_TYPE_COUNT)
        return fail(p, SW_BAD_DATA, at, "%s type %" PRIu32 ", known: 0 to %d", what, type,
                    SW_GGUF_TYPE_COUNT - 1);
    *out = (sw_gguf_type)type;
    return SW_OK;
}

static sw_code parse_key(parser *p, sw_gguf_key *key) {
    SW_TRY(take_name(p, MAX_KEY_NAME, &key->name));
    uint64_t type_at = p->c.pos, count_at = 0;
    SW_TRY(take_type(p, "value", &key->type));
    key->element = key->type;
    key->count = 1;
    if (key->type == SW_GGUF_ARRAY) {
        SW_TRY(take_type(p, "array element", &key->element));
        if (key->element == SW_GGUF_ARRAY)
            return fail(p, SW_UNSUPPORTED, type_at + 4,
                        "is an array of arrays, wanted an array of plain values");
        count_at = p->c.pos;
        SW_TRY(take_u64(p, &key->count));
    }
    for (size_t i = 0; i < sizeof typed_keys / sizeof *typed_keys; i++) {
        size_t n = strlen(typed_keys[i].key);
        if (key->name.text.size != n || memcmp(key->name.text.data, typed_keys[i].key, n) != 0) continue;
        if (key->type == typed_keys[i].type && key->element == typed_keys[i].element) break;
        char found[SW_GGUF_TYPE_TEXT_BYTES], wanted[SW_GGUF_TYPE_TEXT_BYTES];
        sw_gguf_type_text(key->type, key->element, found);
        sw_gguf_type_text(typed_keys[i].type, typed_keys[i].element, wanted);
        return fail(p, SW_BAD_DATA, type_at, "is of type %s, wanted %s", found, wanted);
    }
    key->value_at = p->c.pos;
    if (key->type == SW_GGUF_ARRAY) return skip_values(p, key->element, key->count, count_at);
    if (key->type == SW_GGUF_STRING) {
        sw_span text;
        return take_string(p, &text);
    }
    return sw_cursor_take(&p->c, type_bytes[key->type]) != NULL ? SW_OK : cut_off(p);
}

static sw_code parse_keys(parser *p, uint64_t count) {
    sw_gguf *g = p->gguf;
    p->kind = "key";
    for (p->index = 0; p->index < count; p->index++) {
        sw_gguf_key key;
        SW_TRY(parse_key(p, &key));
        void *array = g->keys;
        if (!grow(&array, g->n_keys, sizeof key))
            return SW_FAIL(p->err, SW_NO_MEMORY, "%s: out of memory", g->path);
        g->keys = array;
        g->keys[g->n_keys++] = key;
    }
    return sort_names(p, g->keys, g->n_keys, sizeof *g->keys, &g->keys_by_name);
}

static sw_code find_alignment(const parser *p, uint64_t *out) {
    const sw_gguf *g = p->gguf;
    *out = DEFAULT_ALIGNMENT;
    const sw_gguf_key *key = sw_gguf_find_key(g, "general.alignment");
    if (key == NULL) return SW_OK;
    SW_TRY(sw_gguf_get_u64(g, "general.alignment", out, p->err));
    if (*out >= MIN_ALIGNMENT && *out <= MAX_ALIGNMENT && (*out & (*out - 1)) == 0) return SW_OK;
    return SW_FAIL(p->err, SW_BAD_DATA,
                   "%s: byte %" PRIu64 ": key `general.alignment` is %" PRIu64
                   ", wanted a power of two from %d to %d",
                   g->path, key->value_at, *out, MIN_ALIGNMENT, MAX_ALIGNMENT);
}

static sw_code storage_of_type(const parser *p, uint64_t at, uint32_t type, sw_storage *out) {
    if (sw_storage_from_gguf(type, out)) return SW_OK;
    bool removed;
    const char *name = sw_gguf_other_type(type, &removed);
    if (name == NULL)
        return fail(p, SW_BAD_DATA, at, "type %" PRIu32 " is unknown, supported: %s", type,
                    sw_storage_list());
    return fail(p, SW_UNSUPPORTED, at, "type %" PRIu32 " (%s) %s, supported: %s", type, name,
                removed ? "was removed from the format" : "is not supported", sw_storage_list());
}

static sw_code parse_tensor(parser *p, sw_gguf_tensor_entry *t) {
    SW_TRY(take_name(p, MAX_TENSOR_NAME, &t->name));
    uint64_t at = p->c.pos;
    uint32_t n_dims, type;
    SW_TRY(take_u32(p, &n_dims));
    if (n_dims < 1 || n_dims > MAX_DIMS)
        return fail(p, SW_BAD_DATA, at, "n_dims %" PRIu32 ", wanted 1 to %d", n_dims, MAX_DIMS);
    uint64_t rows = 1;
    for (uint32_t i = 0; i < n_dims; i++) {
        at = p->c.pos;
        SW_TRY(take_u64(p, &t->dims[i]));
        if (t->dims[i] < 1 || t->dims[i] > INT32_MAX)
            return fail(p, SW_BAD_DATA, at, "dimension %" PRIu32 " is %" PRIu64 ", wanted 1 to %d", i,
                        t->dims[i], INT32_MAX);
        if (i > 0) rows *= t->dims[i]; /* both below 2^31 */
        if (rows > INT32_MAX)
            return fail(p, SW_BAD_DATA, at,
                        "has %" PRIu64 " rows up to dimension %" PRIu32 ", the limit is %d", rows, i,
                        INT32_MAX);
    }
    at = p->c.pos;
    SW_TRY(take_u32(p, &type));
    sw_weight *w = &t->weight;
    SW_TRY(storage_of_type(p, at, type, &w->storage));
    SW_TRY(take_u64(p, &t->offset));
    const sw_storage_info *info = &sw_storage_infos[w->storage];
    if (t->dims[0] % info->block_values != 0)
        return fail(p, SW_BAD_DATA, t->name.at, "a row of %" PRIu64 " is no multiple of %s's %" PRIu32,
                    t->dims[0], info->name, info->block_values);
    w->cols = (uint32_t)t->dims[0];
    w->rows = (uint32_t)rows;
    w->row_bytes = t->dims[0] / info->block_values * info->block_bytes;
    if (!sw_mul_u64(w->row_bytes, rows, &t->size_bytes))
        return fail(p, SW_BAD_DATA, t->name.at, "%" PRIu64 " rows of %" PRIu64 " bytes are over 2^64 bytes",
                    rows, w->row_bytes);
    w->file_name = sw_arena_strndup(&p->gguf->arena, t->name.text.data, t->name.text.size);
    if (w->file_name == NULL) return SW_FAIL(p->err, SW_NO_MEMORY, "%s: out of memory", p->gguf->path);
    return SW_OK;
}

static sw_code parse_tensors(parser *p, uint64_t count) {
    sw_gguf *g = p->gguf;
    p->kind = "tensor";
    for (p->index = 0; p->index < count; p->index++) {
        sw_gguf_tensor_entry tensor = {0};
        SW_TRY(parse_tensor(p, &tensor));
        void *array = g->tensors;
        if (!grow(&array, g->n_tensors, sizeof tensor))
            return SW_FAIL(p->err, SW_NO_MEMORY, "%s: out of memory", g->path);
        g->tensors = array;
        g->tensors[g->n_tensors++] = tensor;
    }
    return sort_names(p, g->tensors, g->n_tensors, sizeof *g->tensors, &g->tensors_by_name);
}

static int compare_offsets(const void *a, const void *b) {
    const sw_gguf_tensor_entry *x = *(const sw_gguf_tensor_entry *const *)a;
    const sw_gguf_tensor_entry *y = *(const sw_gguf_tensor_entry *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? -1 : 1;
    return (x->name.at > y->name.at) - (x->name.at < y->name.at);
}

/* Tensors that share bytes: an offset is wrong. So what all tensors hold is never more than the file. */
static sw_code check_overlaps(const parser *p) {
    const sw_gguf *g = p->gguf;
    const sw_gguf_tensor_entry **sorted = calloc(g->n_tensors > 0 ? g->n_tensors : 1, sizeof *sorted);
    if (sorted == NULL) return SW_FAIL(p->err, SW_NO_MEMORY, "%s: out of memory", g->path);
    for (size_t i = 0; i < g->n_tensors; i++) sorted[i] = &g->tensors[i];
    qsort(sorted, g->n_tensors, sizeof *sorted, compare_offsets);
    sw_code code = SW_OK;
    for (size_t i = 1; code == SW_OK && i < g->n_tensors; i++) {
        const sw_gguf_tensor_entry *a = sorted[i - 1], *b = sorted[i];
        if (b->offset >= a->offset + a->size_bytes) continue;
        code = SW_FAIL(p->err, SW_BAD_DATA,
                       "%s: byte %" PRIu64 ": tensor `%s` at offset %" PRIu64
                       " overlaps `%s`, which has %" PRIu64 " bytes from offset %" PRIu64,
                       g->path, b->name.at, b->weight.file_name, b->offset, a->weight.file_name,
                       a->size_bytes, a->offset);
    }
    free(sorted);
    return code;
}

/* Step 5: places of the data, all inside the file. */
static sw_code place_tensors(parser *p, uint64_t alignment) {
    sw_gguf *g = p->gguf;
    uint64_t data_at, data_end;
    if (!sw_align_u64(p->c.pos, alignment, &data_at)) return cut_off(p);
    data_end = g->n_tensors > 0 ? data_at : p->c.pos;
    for (size_t i = 0; i < g->n_tensors; i++) {
        sw_gguf_tensor_entry *t = &g->tensors[i];
        p->index = i;
        p->name = t->name.text;
        if (t->offset % alignment != 0)
            return fail(p, SW_BAD_DATA, t->name.at,
                        "offset %" PRIu64 " is no multiple of the alignment %" PRIu64, t->offset, alignment);
        uint64_t begin, end;
        if (!sw_add_u64(data_at, t->offset, &begin) || !sw_add_u64(begin, t->size_bytes, &end) ||
            end > g->size)
            return fail(p, SW_BAD_DATA, t->name.at,
                        "%" PRIu64 " bytes of data at offset %" PRIu64 " from byte %" PRIu64
                        " are beyond the end of the file (%" PRIu64 ")",
                        t->size_bytes, t->offset, data_at, g->size);
        t->weight.data = g->data + begin;
        t->weight.mapped = g->map.path != NULL; /* else memory of the caller's */
        if (end > data_end) data_end = end;
    }
    SW_TRY(check_overlaps(p));
    if (sw_align_u64(data_end, alignment, &data_end) && g->size > data_end)
        sw_log(SW_LOG_WARN, "%s: %" PRIu64 " extra bytes behind the last tensor are ignored", g->path,
               g->size - data_end);
    return SW_OK;
}

static sw_code parse(sw_gguf *g, sw_error *err) {
    parser p = {.gguf = g, .c = {.data = g->data, .size = g->size}, .err = err, .kind = "header"};
    uint64_t n_tensors, n_keys, alignment;
    SW_TRY(parse_header(&p, &n_tensors, &n_keys));
    SW_TRY(parse_keys(&p, n_keys));
    SW_TRY(find_alignment(&p, &alignment));
    SW_TRY(parse_tensors(&p, n_tensors));
    return place_tensors(&p, alignment);
}

static sw_code open_parsed(sw_gguf **out, sw_gguf *g, sw_error *err) {
    sw_code code = parse(g, err);
    if (code == SW_OK)
        *out = g;
    else
        sw_gguf_close(g);
    return code;
}

sw_code sw_gguf_open_memory(sw_gguf **out, const void *data, size_t size, const char *name, sw_error *err) {
    *out = NULL;
    sw_gguf *g = calloc(1, sizeof *g);
    if (g == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", name);
    g->data = data, g->size = size, g->path = name;
    return open_parsed(out, g, err);
}

sw_code sw_gguf_open(sw_gguf **out, const char *path, sw_error *err) {
    *out = NULL;
    sw_gguf *g = calloc(1, sizeof *g);
    if (g == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", path);
    sw_code code = sw_file_map_open(&g->map, path, err);
    if (code != SW_OK) {
        free(g);
        return code;
    }
    g->data = g->map.data, g->size = g->map.size, g->path = g->map.path;
    return open_parsed(out, g, err);
}

void sw_gguf_close(sw_gguf *gguf) {
    if (gguf == NULL) return;
    free(gguf->keys), free(gguf->tensors);
    free(gguf->keys_by_name), free(gguf->tensors_by_name);
    sw_arena_free(&gguf->arena);
    if (gguf->map.path != NULL) sw_file_map_close(&gguf->map);
    free(gguf);
}
