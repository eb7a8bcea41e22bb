/* gguf_file.h: a GGUF file after the parser (gguf.c), as the getters (gguf_values.c) see it. */
#ifndef SW_MODEL_GGUF_FILE_H
#define SW_MODEL_GGUF_FILE_H

#include "model/gguf.h"

/* A name in the file; first member of keys and tensors, so that one sort and one search serve both. */
typedef struct sw_gguf_name {
    sw_span text;
    uint64_t at; /* byte of its length field */
} sw_gguf_name;

typedef struct sw_gguf_key {
    sw_gguf_name name;
    uint64_t value_at, count;   /* byte of the (first) value; elements, 1 where it is no array */
    sw_gguf_type type, element; /* element = type where it is no array */
} sw_gguf_key;

typedef struct sw_gguf_tensor_entry {
    sw_gguf_name name;
    uint64_t dims[4], offset, size_bytes; /* offset: from the data section */
    sw_weight weight;
} sw_gguf_tensor_entry;

struct sw_gguf {
    sw_file_map map; /* of a file; else path NULL */
    const uint8_t *data;
    uint64_t size;
    const char *path;
    sw_arena arena;    /* names of tensors */
    sw_gguf_key *keys; /* file order; malloc */
    sw_gguf_tensor_entry *tensors;
    size_t n_keys, n_tensors;
    const sw_gguf_name **keys_by_name, **tensors_by_name; /* sorted; malloc */
};

/* NULL where there is none. */
const sw_gguf_name *sw_gguf_search(const sw_gguf_name *const *sorted, size_t n, sw_span name);
const sw_gguf_key *sw_gguf_find_key(const sw_gguf *gguf, const char *key);

/* "u32", "array of string" into a caller's text. */
enum { SW_GGUF_TYPE_TEXT_BYTES = 32 };
void sw_gguf_type_text(sw_gguf_type type, sw_gguf_type element, char out[SW_GGUF_TYPE_TEXT_BYTES]);

/* The storage of GGUF's tensor type; false for types that aren't read. */
bool sw_storage_from_gguf(uint32_t type, sw_storage *out);
/* Name of a type that is not read; NULL for an unknown one. */
const char *sw_gguf_other_type(uint32_t type, bool *removed);
/* "F32, F16, ...": what is read. */
const char *sw_storage_list(void);

/* Arguments for "%.*s": as much of a span as fits a sentence, cut between characters. */
#define SW_GGUF_SHOWN(span) (int)sw_gguf_shown_bytes(span), (span).data
size_t sw_gguf_shown_bytes(sw_span span);

#endif
