/* safetensors_write.c: data first, header last, in room that was left for it. */
#include "bundle/safetensors_write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_ALIGNMENT = 64 };

uint64_t sw_safetensors_header_room(const char *name) {
    /* {"dtype":"F8_E4M3","shape":[..8 dims of 10 digits],"data_offsets":[two of 20 digits]}; a name's byte
     * may be escaped to 6. */
    return 6 * (uint64_t)strlen(name) + 256;
}

sw_code sw_safetensors_writer_open(sw_safetensors_writer *w, const char *path, uint64_t header_room,
                                   sw_error *err) {
    *w = (sw_safetensors_writer){.header_bytes = header_room + 64}; /* 64: __metadata__ and braces */
    w->header_bytes = (w->header_bytes + 8 + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT - 8;
    SW_TRY(sw_file_writer_open(&w->file, path, err));
    w->file.later = true;
    w->header = json_pack("{s:{s:s}}", "__metadata__", "format", "spillway");
    sw_code code = w->header != NULL ? SW_OK : SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", path);
    if (code == SW_OK && fseeko(w->file.stream, (off_t)(8 + w->header_bytes), SEEK_SET) != 0)
        code = SW_FAIL(err, SW_IO, "%s: can't seek: %s", path, strerror(errno));
    if (code != SW_OK) sw_safetensors_writer_discard(w);
    return code;
}

sw_code sw_safetensors_writer_put(sw_safetensors_writer *w, const char *name, sw_st_dtype dtype,
                                  uint32_t rank, const uint32_t *dims, const void *data, sw_error *err) {
    if (json_object_get(w->header, name) != NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: `%s` is written twice", w->file.path, name);
    uint64_t bytes = sw_st_dtype_bits(dtype) / 8, end;
    json_t *shape = json_array();
    for (uint32_t i = 0; i < rank; i++) {
        json_array_append_new(shape, json_integer(dims[i]));
        if (!sw_mul_u64(bytes, dims[i], &bytes)) bytes = UINT64_MAX;
    }
    if (!sw_add_u64(w->data_bytes, bytes, &end) || end > INT64_MAX) {
        json_decref(shape);
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: `%s` is too large", w->file.path, name);
    }
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", sw_st_dtype_name(dtype), "shape", shape,
                              "data_offsets", (json_int_t)w->data_bytes, (json_int_t)end);
    if (entry == NULL || json_object_set_new(w->header, name, entry) != 0)
        return SW_FAIL(err, SW_NO_MEMORY, "%s: `%s`: out of memory, or its name is not UTF-8", w->file.path,
                       name);
    w->data_bytes = end;
    return sw_file_writer_write(&w->file, data, (size_t)bytes, err);
}

/* The length, the header, and spaces up to the data. */
static sw_code write_header(sw_safetensors_writer *w, sw_error *err) {
    const char *path = w->file.path;
    char *text = json_dumps(w->header, JSON_COMPACT);
    if (text == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", path);
    size_t size = strlen(text);
    sw_code code = SW_OK;
    uint8_t length[8];
    for (unsigned i = 0; i < 8; i++) length[i] = (uint8_t)(w->header_bytes >> (8 * i));
    if (size > w->header_bytes)
        code = SW_FAIL(err, SW_INTERNAL, "%s: the header has %zu bytes, room was left for %llu", path, size,
                       (unsigned long long)w->header_bytes);
    else if (fseeko(w->file.stream, 0, SEEK_SET) != 0)
        code = SW_FAIL(err, SW_IO, "%s: can't seek: %s", path, strerror(errno));
    if (code == SW_OK) code = sw_file_writer_write(&w->file, length, sizeof length, err);
    if (code == SW_OK) code = sw_file_writer_write(&w->file, text, size, err);
    for (uint64_t i = size; code == SW_OK && i < w->header_bytes; i++)
        code = sw_file_writer_write(&w->file, " ", 1, err);
    free(text);
    return code;
}

sw_code sw_safetensors_writer_commit(sw_safetensors_writer *w, sw_error *err) {
    sw_code code = write_header(w, err);
    if (code == SW_OK) code = sw_file_writer_commit(&w->file, err);
    sw_safetensors_writer_discard(w);
    return code;
}

void sw_safetensors_writer_discard(sw_safetensors_writer *w) {
    sw_file_writer_discard(&w->file);
    json_decref(w->header);
    *w = (sw_safetensors_writer){0};
}
