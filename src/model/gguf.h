/* gguf.h: a reader of GGUF v2 and v3: keys and tensor places, checked against the file's size when read.
 * Format: the numbered list in gguf.c. Nothing is allocated by a claimed size. */
#ifndef SW_MODEL_GGUF_H
#define SW_MODEL_GGUF_H

#include "model/model.h"

typedef enum sw_gguf_type { /* the file's numbers */
    SW_GGUF_U8 = 0,
    SW_GGUF_I8 = 1,
    SW_GGUF_U16 = 2,
    SW_GGUF_I16 = 3,
    SW_GGUF_U32 = 4,
    SW_GGUF_I32 = 5,
    SW_GGUF_F32 = 6,
    SW_GGUF_BOOL = 7,
    SW_GGUF_STRING = 8,
    SW_GGUF_ARRAY = 9,
    SW_GGUF_U64 = 10,
    SW_GGUF_I64 = 11,
    SW_GGUF_F64 = 12
} sw_gguf_type;

typedef struct sw_gguf sw_gguf;

sw_code sw_gguf_open(sw_gguf **out, const char *path, sw_error *err) SW_MUST_CHECK;
void sw_gguf_close(sw_gguf *gguf); /* NULL is allowed */
const char *sw_gguf_path(const sw_gguf *gguf);

/* Values of keys. A key that isn't there: SW_NOT_FOUND; of another type: SW_BAD_DATA; both with key and file in
 * the sentence. Unsigned and signed integers of every width are read as u64 where they fit. */
sw_code sw_gguf_get_u64(const sw_gguf *gguf, const char *key, uint64_t *out, sw_error *err) SW_MUST_CHECK;
sw_code sw_gguf_get_f32(const sw_gguf *gguf, const char *key, float *out, sw_error *err) SW_MUST_CHECK;
sw_code sw_gguf_get_bool(const sw_gguf *gguf, const char *key, bool *out, sw_error *err) SW_MUST_CHECK;
sw_code sw_gguf_get_string(const sw_gguf *gguf, const char *key, sw_span *out, sw_error *err) SW_MUST_CHECK;
/* Arrays: spans into the map, in the arena; i32 arrays are copied (the file gives no alignment). */
sw_code sw_gguf_get_strings(const sw_gguf *gguf, const char *key, sw_arena *arena, sw_span **out, size_t *count,
                            sw_error *err) SW_MUST_CHECK;
sw_code sw_gguf_get_i32s(const sw_gguf *gguf, const char *key, sw_arena *arena, int32_t **out, size_t *count,
                         sw_error *err) SW_MUST_CHECK;
bool sw_gguf_has(const sw_gguf *gguf, const char *key);

/* A tensor by its name; *out borrows the map. dims[0] is the row length. SW_NOT_FOUND where there is none. */
sw_code sw_gguf_tensor(const sw_gguf *gguf, const char *name, sw_weight *out, sw_error *err) SW_MUST_CHECK;

#endif
