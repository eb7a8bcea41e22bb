/* gguf.h: a reader of GGUF v2 and v3: keys and tensor places, checked against the file's size when read.
 * Format: the numbered list in gguf.c. Nothing is allocated by a claimed size. */
#ifndef SW_MODEL_GGUF_H
#define SW_MODEL_GGUF_H

#include "model/model.h"

/* Types of values, once: name, the file's number, text, bytes of one value (0: varies). */
#define SW_GGUF_TYPES(X)                                                                                     \
    X(SW_GGUF_U8, 0, "u8", 1)                                                                                \
    X(SW_GGUF_I8, 1, "i8", 1)                                                                                \
    X(SW_GGUF_U16, 2, "u16", 2)                                                                              \
    X(SW_GGUF_I16, 3, "i16", 2)                                                                              \
    X(SW_GGUF_U32, 4, "u32", 4)                                                                              \
    X(SW_GGUF_I32, 5, "i32", 4)                                                                              \
    X(SW_GGUF_F32, 6, "f32", 4)                                                                              \
    X(SW_GGUF_BOOL, 7, "bool", 1)                                                                            \
    X(SW_GGUF_STRING, 8, "string", 0)                                                                        \
    X(SW_GGUF_ARRAY, 9, "array", 0)                                                                          \
    X(SW_GGUF_U64, 10, "u64", 8)                                                                             \
    X(SW_GGUF_I64, 11, "i64", 8)                                                                             \
    X(SW_GGUF_F64, 12, "f64", 8)

typedef enum sw_gguf_type {
#define SW_GGUF_TYPE_ENUM(name, number, text, bytes) name = number,
    SW_GGUF_TYPES(SW_GGUF_TYPE_ENUM)
#undef SW_GGUF_TYPE_ENUM
        SW_GGUF_TYPE_COUNT
} sw_gguf_type;

typedef struct sw_gguf sw_gguf;

/* Errors: sw_file_map_open's; SW_BAD_DATA, SW_UNSUPPORTED (versions, types, nested arrays) with file, byte,
 * key or tensor, what was found and what would be right. Bytes behind the last tensor: a warning with their
 * number. */
sw_code sw_gguf_open(sw_gguf **out, const char *path, sw_error *err) SW_MUST_CHECK;
/* The same for bytes that the caller keeps until the close; name stands for the path in messages. */
sw_code sw_gguf_open_memory(sw_gguf **out, const void *data, size_t size, const char *name,
                            sw_error *err) SW_MUST_CHECK;
void sw_gguf_close(sw_gguf *gguf); /* NULL is allowed */
const char *sw_gguf_path(const sw_gguf *gguf);

/* Values of keys. A key that isn't there: SW_NOT_FOUND; of another type: SW_BAD_DATA; both with key and file
 * in the sentence. Unsigned and signed integers of every width are read as u64 where they fit. */
sw_code sw_gguf_get_u64(const sw_gguf *gguf, const char *key, uint64_t *out, sw_error *err) SW_MUST_CHECK;
sw_code sw_gguf_get_f32(const sw_gguf *gguf, const char *key, float *out, sw_error *err) SW_MUST_CHECK;
sw_code sw_gguf_get_bool(const sw_gguf *gguf, const char *key, bool *out, sw_error *err) SW_MUST_CHECK;
sw_code sw_gguf_get_string(const sw_gguf *gguf, const char *key, sw_span *out, sw_error *err) SW_MUST_CHECK;
/* Arrays: spans into the map, in the arena; i32 arrays are copied (the file gives no alignment). */
sw_code sw_gguf_get_strings(const sw_gguf *gguf, const char *key, sw_arena *arena, sw_span **out,
                            size_t *count, sw_error *err) SW_MUST_CHECK;
sw_code sw_gguf_get_i32s(const sw_gguf *gguf, const char *key, sw_arena *arena, int32_t **out, size_t *count,
                         sw_error *err) SW_MUST_CHECK;
bool sw_gguf_has(const sw_gguf *gguf, const char *key);
/* True where the key is there and an array, of *count elements; count may be NULL. */
bool sw_gguf_is_array(const sw_gguf *gguf, const char *key, uint64_t *count);

/* A tensor by its name; *out borrows the map. dims[0] is the row length. SW_NOT_FOUND where there is none. */
sw_code sw_gguf_tensor(const sw_gguf *gguf, const char *name, sw_weight *out, sw_error *err) SW_MUST_CHECK;

/* All of them, in the file's order. Names of keys are valid UTF-8 without control characters, not terminated.
 */
size_t sw_gguf_n_keys(const sw_gguf *gguf);
sw_span sw_gguf_key_name(const sw_gguf *gguf, size_t index);
size_t sw_gguf_n_tensors(const sw_gguf *gguf);
const sw_weight *sw_gguf_tensor_at(const sw_gguf *gguf, size_t index);

#endif
