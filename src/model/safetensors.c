/* safetensors.c: reads the header of a safetensors file. The format, as its specification and reference
 * reader (github.com/huggingface/safetensors) have it:
 *
 *   1. u64, little-endian: bytes of the header, N <= 100,000,000
 *   2. N bytes of JSON in UTF-8: an object, possibly padded with spaces
 *        "__metadata__": an object of text, optional
 *        any other key: a tensor {"dtype": "F32", "shape": [2,3], "data_offsets": [begin, end]}, with
 *        offsets from the first byte after the header; other fields are ignored
 *   3. the data: row-major, little-endian, without holes or overlaps, to the end of the file
 *
 * The header may have any length, so that data stand at any alignment. */
#include "model/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

typedef struct st_dtype_info {
    const char *name;
    unsigned bits;
} st_dtype_info;

static const st_dtype_info dtypes[SW_ST_DTYPE_COUNT] = {
#define SW_ST_DTYPE_ROW(id, name, bits) [id] = {name, bits},
    SW_ST_DTYPES(SW_ST_DTYPE_ROW)
#undef SW_ST_DTYPE_ROW
};

const char *sw_st_dtype_name(sw_st_dtype type) {
    return dtypes[type].name;
}

unsigned sw_st_dtype_bits(sw_st_dtype type) {
    return dtypes[type].bits;
}

static sw_code read_dtype(const sw_json *tensor, sw_st_dtype *out, sw_error *err) {
    sw_json at;
    const char *name;
    SW_TRY(sw_json_get(tensor, "dtype", &at, err));
    SW_TRY(sw_json_text(&at, false, 32, &name, err));
    for (unsigned i = 0; i < SW_ST_DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) != 0) continue;
        *out = (sw_st_dtype)i;
        return SW_OK;
    }
    return sw_json_fail(&at, err,
                        "unknown type `%s`; known: BOOL, U8, I8, U16, I16, F16, BF16, U32, I32, F32, "
                        "U64, I64, F64, C64, F4, F6 and F8 types",
                        name);
}

/* data_offsets, within the data's size. Comes before the type: an unknown one must not hide a bad offset. */
static sw_code read_offsets(const sw_json *tensor, uint64_t data_bytes, uint64_t *begin, uint64_t *end,
                            sw_error *err) {
    sw_json at, element;
    SW_TRY(sw_json_get(tensor, "data_offsets", &at, err));
    if (!json_is_array(at.value) || json_array_size(at.value) != 2 ||
        !json_is_integer(json_array_get(at.value, 0)) || !json_is_integer(json_array_get(at.value, 1)))
        return sw_json_fail(&at, err, "wanted two integers, [begin, end]");
    element = sw_json_element(&at, 0);
    SW_TRY(sw_json_u64(&element, 0, INT64_MAX, begin, err));
    element = sw_json_element(&at, 1);
    SW_TRY(sw_json_u64(&element, 0, INT64_MAX, end, err));
    if (*begin > *end)
        return sw_json_fail(&at, err, "begins at %llu and ends before, at %llu", (unsigned long long)*begin,
                            (unsigned long long)*end);
    if (*end > data_bytes)
        return sw_json_fail(&at, err, "ends at %llu, but the file has %llu bytes of data",
                            (unsigned long long)*end, (unsigned long long)data_bytes);
    return SW_OK;
}

static sw_code read_shape(const sw_json *tensor, sw_st_tensor *t, sw_error *err) {
    sw_json at;
    size_t rank;
    SW_TRY(sw_json_get(tensor, "shape", &at, err));
    SW_TRY(sw_json_array(&at, 0, SW_ST_MAX_RANK, &rank, err));
    t->rank = (uint32_t)rank;
    for (uint32_t i = 0; i < t->rank; i++) {
        sw_json element = sw_json_element(&at, i);
        SW_TRY(sw_json_u64(&element, 0, INT64_MAX, &t->dims[i], err));
    }
    return SW_OK;
}

/* Bytes that the type and shape need; false where the count wraps. */
static bool needed_bytes(const sw_st_tensor *t, uint64_t *out) {
    uint64_t bits = dtypes[t->dtype].bits;
    for (uint32_t i = 0; i < t->rank; i++)
        if (!sw_mul_u64(bits, t->dims[i], &bits)) return false;
    *out = bits / 8;
    return bits % 8 == 0;
}

static sw_code read_tensor(const sw_json *at, const uint8_t *data, uint64_t data_bytes, sw_arena *arena,
                           sw_st_tensor *t, sw_error *err) {
    uint64_t begin, end, need;
    SW_TRY(sw_json_object(at, err));
    SW_TRY(read_offsets(at, data_bytes, &begin, &end, err));
    SW_TRY(read_dtype(at, &t->dtype, err));
    SW_TRY(read_shape(at, t, err));
    char shape[SW_ST_MAX_RANK * 21 + 3] = "[";
    size_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, i > 0 ? ",%llu" : "%llu",
                              (unsigned long long)t->dims[i]);
    snprintf(shape + n, sizeof shape - n, "]");
    if (!needed_bytes(t, &need))
        return sw_json_fail(at, err, "%s %s is not a whole number of bytes below 2^61", dtypes[t->dtype].name,
                            shape);
    if (need != end - begin)
        return sw_json_fail(at, err, "has %llu bytes, but %s %s needs %llu",
                            (unsigned long long)(end - begin), dtypes[t->dtype].name, shape,
                            (unsigned long long)need);
    t->name = sw_arena_strdup(arena, at->key);
    if (t->name == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", at->file);
    t->bytes = need;
    t->data = data + begin;
    return SW_OK;
}

static sw_code check_metadata(const sw_json *at, sw_error *err) {
    SW_TRY(sw_json_object(at, err));
    json_t *object = (json_t *)(uintptr_t)at->value;
    for (void *i = json_object_iter(object); i != NULL; i = json_object_iter_next(object, i)) {
        sw_json value = sw_json_find(at, json_object_iter_key(i));
        if (!json_is_string(value.value)) return sw_json_fail(&value, err, "metadata must be text");
    }
    return SW_OK;
}

static sw_code check_name(const sw_json *at, sw_error *err) {
    const char *name = at->key;
    size_t length = strlen(name);
    if (length == 0) return sw_json_fail(at, err, "a tensor's name is empty");
    if (length > SW_ST_MAX_NAME_BYTES)
        return sw_json_fail(at->parent, err, "a tensor's name has %zu bytes, the limit is %d", length,
                            SW_ST_MAX_NAME_BYTES);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return sw_json_fail(at, err, "a tensor's name has the control character 0x%02x at byte %zu",
                                (unsigned)name[i], i);
    return SW_OK;
}

static int by_place(const void *a, const void *b) {
    const sw_st_tensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const sw_st_tensor *)a)->name, ((const sw_st_tensor *)b)->name);
}

/* Item 3: each tensor begins where the one before ends. */
static sw_code check_places(sw_safetensors *f, const uint8_t *data, uint64_t data_bytes, sw_error *err) {
    uint64_t at = 0;
    qsort(f->tensors, f->n_tensors, sizeof *f->tensors, by_place);
    for (size_t i = 0; i < f->n_tensors; i++) {
        const sw_st_tensor *t = &f->tensors[i];
        uint64_t begin = (uint64_t)(t->data - data);
        if (begin != at)
            return SW_FAIL(err, SW_BAD_DATA, "%s: `%s` begins at byte %llu of the data, wanted %llu: %s",
                           f->map.path, t->name, (unsigned long long)begin, (unsigned long long)at,
                           begin < at ? "tensors overlap" : "there is a hole");
        at += t->bytes;
    }
    if (at != data_bytes)
        return SW_FAIL(err, SW_BAD_DATA, "%s: has %llu more bytes than its tensors", f->map.path,
                       (unsigned long long)(data_bytes - at));
    return SW_OK;
}

static sw_code read_header(sw_safetensors *f, const sw_json *document, uint64_t header_bytes, sw_error *err) {
    SW_TRY(sw_json_object(document, err));
    const uint8_t *data = f->map.data + 8 + header_bytes;
    uint64_t data_bytes = f->map.size - 8 - header_bytes;
    json_t *object = (json_t *)(uintptr_t)document->value;
    f->tensors = sw_arena_array(&f->arena, json_object_size(object), sizeof *f->tensors);
    if (f->tensors == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", f->map.path);
    for (void *i = json_object_iter(object); i != NULL; i = json_object_iter_next(object, i)) {
        sw_json at = sw_json_find(document, json_object_iter_key(i));
        if (strcmp(at.key, "__metadata__") == 0) {
            SW_TRY(check_metadata(&at, err));
            continue;
        }
        SW_TRY(check_name(&at, err));
        SW_TRY(read_tensor(&at, data, data_bytes, &f->arena, &f->tensors[f->n_tensors], err));
        f->n_tensors++;
    }
    SW_TRY(check_places(f, data, data_bytes, err));
    qsort(f->tensors, f->n_tensors, sizeof *f->tensors, by_name);
    return SW_OK;
}

static sw_code open_mapped(sw_safetensors *f, sw_error *err) {
    const char *path = f->map.path;
    sw_cursor c = {.data = f->map.data, .size = f->map.size};
    uint64_t header_bytes;
    if (!sw_cursor_u64(&c, &header_bytes))
        return SW_FAIL(err, SW_BAD_DATA, "%s: has %llu bytes, too short for the 8-byte header length", path,
                       (unsigned long long)f->map.size);
    if (header_bytes == 0) return SW_FAIL(err, SW_BAD_DATA, "%s: the header is empty", path);
    if (header_bytes > SW_ST_MAX_HEADER_BYTES || header_bytes > sw_cursor_left(&c))
        return SW_FAIL(
            err, SW_BAD_DATA,
            "%s: the header claims %llu bytes; the file has %llu after the length, the limit is %d", path,
            (unsigned long long)header_bytes, (unsigned long long)sw_cursor_left(&c), SW_ST_MAX_HEADER_BYTES);
    const uint8_t *header = sw_cursor_take(&c, header_bytes);
    sw_json document;
    SW_TRY(sw_json_parse(&document, path, (const char *)header, (size_t)header_bytes, err));
    sw_code code = read_header(f, &document, header_bytes, err);
    sw_json_free(&document);
    return code;
}

sw_code sw_safetensors_open(sw_safetensors *out, const char *path, sw_error *err) {
    *out = (sw_safetensors){0};
    SW_TRY(sw_file_map_open(&out->map, path, err));
    sw_code code = open_mapped(out, err);
    if (code != SW_OK) sw_safetensors_close(out);
    return code;
}

void sw_safetensors_close(sw_safetensors *file) {
    sw_arena_free(&file->arena);
    sw_file_map_close(&file->map);
    *file = (sw_safetensors){0};
}

const sw_st_tensor *sw_safetensors_find(const sw_safetensors *file, const char *name) {
    sw_st_tensor key = {.name = name};
    if (file->n_tensors == 0) return NULL;
    return bsearch(&key, file->tensors, file->n_tensors, sizeof key, by_name);
}

sw_code sw_safetensors_weight(const sw_safetensors *file, const char *name, sw_weight *out, sw_error *err) {
    const sw_st_tensor *t = sw_safetensors_find(file, name);
    if (t == NULL) return SW_FAIL(err, SW_NOT_FOUND, "%s: has no tensor `%s`", file->map.path, name);
    sw_storage storage = SW_STORE_F32;
    switch (t->dtype) {
    case SW_ST_F32:
        break;
    case SW_ST_F16:
        storage = SW_STORE_F16;
        break;
    case SW_ST_BF16:
        storage = SW_STORE_BF16;
        break;
    default:
        return SW_FAIL(err, SW_UNSUPPORTED,
                       "%s: `%s` is %s, which is not supported as a weight; supported: F32, F16, BF16",
                       file->map.path, t->name, dtypes[t->dtype].name);
    }
    if (t->rank < 1 || t->rank > 2)
        return SW_FAIL(err, SW_BAD_DATA, "%s: `%s` has %u dimensions, wanted 1 or 2", file->map.path, t->name,
                       t->rank);
    uint64_t rows = t->rank == 2 ? t->dims[0] : 1, cols = t->dims[t->rank - 1];
    if (rows < 1 || rows > UINT32_MAX || cols < 1 || cols > UINT32_MAX)
        return SW_FAIL(err, SW_BAD_DATA, "%s: `%s` is [%llu,%llu], wanted dimensions of 1 to 2^32 - 1",
                       file->map.path, t->name, (unsigned long long)rows, (unsigned long long)cols);
    *out = (sw_weight){.file_name = t->name,
                       .data = t->data,
                       .row_bytes = cols * (dtypes[t->dtype].bits / 8),
                       .rows = (uint32_t)rows,
                       .cols = (uint32_t)cols,
                       .storage = storage,
                       .mapped = true};
    return SW_OK;
}
