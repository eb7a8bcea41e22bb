/* safetensors.h: a reader of safetensors files: mapped, every name, type, shape and offset checked against
 * the file's size when opened. Format: the numbered list in safetensors.c. */
#ifndef SW_MODEL_SAFETENSORS_H
#define SW_MODEL_SAFETENSORS_H

#include "model/model.h"

/* Types: enumerator, name in the file, bits. All that the format knows, so that a legal file opens. */
#define SW_ST_DTYPES(X)                                                                                      \
    X(SW_ST_BOOL, "BOOL", 8)                                                                                 \
    X(SW_ST_F4, "F4", 4)                                                                                     \
    X(SW_ST_F6_E2M3, "F6_E2M3", 6)                                                                           \
    X(SW_ST_F6_E3M2, "F6_E3M2", 6)                                                                           \
    X(SW_ST_U8, "U8", 8)                                                                                     \
    X(SW_ST_I8, "I8", 8)                                                                                     \
    X(SW_ST_F8_E5M2, "F8_E5M2", 8)                                                                           \
    X(SW_ST_F8_E4M3, "F8_E4M3", 8)                                                                           \
    X(SW_ST_F8_E8M0, "F8_E8M0", 8)                                                                           \
    X(SW_ST_I16, "I16", 16)                                                                                  \
    X(SW_ST_U16, "U16", 16)                                                                                  \
    X(SW_ST_F16, "F16", 16)                                                                                  \
    X(SW_ST_BF16, "BF16", 16)                                                                                \
    X(SW_ST_I32, "I32", 32)                                                                                  \
    X(SW_ST_U32, "U32", 32)                                                                                  \
    X(SW_ST_F32, "F32", 32)                                                                                  \
    X(SW_ST_C64, "C64", 64)                                                                                  \
    X(SW_ST_F64, "F64", 64)                                                                                  \
    X(SW_ST_I64, "I64", 64)                                                                                  \
    X(SW_ST_U64, "U64", 64)

typedef enum sw_st_dtype {
#define SW_ST_DTYPE_ENUM(id, name, bits) id,
    SW_ST_DTYPES(SW_ST_DTYPE_ENUM)
#undef SW_ST_DTYPE_ENUM
        SW_ST_DTYPE_COUNT
} sw_st_dtype;

const char *sw_st_dtype_name(sw_st_dtype type);
unsigned sw_st_dtype_bits(sw_st_dtype type);

enum { SW_ST_MAX_RANK = 8, SW_ST_MAX_HEADER_BYTES = 100000000, SW_ST_MAX_NAME_BYTES = 1024 };

typedef struct sw_st_tensor {
    const char *name; /* no control characters; may hold '/' or "..": never a path */
    sw_st_dtype dtype;
    uint32_t rank; /* 0: one value */
    uint64_t dims[SW_ST_MAX_RANK];
    const uint8_t *data; /* in the map; at any alignment */
    uint64_t bytes;
} sw_st_tensor;

typedef struct sw_safetensors {
    sw_file_map map;
    sw_arena arena;
    sw_st_tensor *tensors; /* sorted by name */
    size_t n_tensors;
} sw_safetensors;

/* Errors: SW_NOT_FOUND, SW_IO, SW_BAD_DATA (file, tensor, what was found and wanted), SW_NO_MEMORY. On
 * failure *out is empty. */
sw_code sw_safetensors_open(sw_safetensors *out, const char *path, sw_error *err) SW_MUST_CHECK;
void sw_safetensors_close(sw_safetensors *file); /* an empty one is allowed */

/* The tensor of that name, or NULL. */
const sw_st_tensor *sw_safetensors_find(const sw_safetensors *file, const char *name);

/* A weight of a float checkpoint: F32, F16 or BF16, [rows, cols] or [cols]. *out borrows the map.
 * Errors: SW_NOT_FOUND, SW_UNSUPPORTED (another type: the supported ones are listed), SW_BAD_DATA (rank). */
sw_code sw_safetensors_weight(const sw_safetensors *file, const char *name, sw_weight *out,
                              sw_error *err) SW_MUST_CHECK;

#endif
