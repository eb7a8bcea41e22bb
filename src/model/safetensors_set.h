/* safetensors_set.h: the weights of a Hugging Face checkpoint folder: model.safetensors alone, or the shards
 * that model.safetensors.index.json lists. */
#ifndef SW_MODEL_SAFETENSORS_SET_H
#define SW_MODEL_SAFETENSORS_SET_H

#include "model/safetensors.h"

enum { SW_ST_MAX_SHARDS = 1024, SW_ST_INDEX_MAX_BYTES = 64 << 20 };

typedef struct sw_safetensors_set {
    sw_arena arena;
    const char **names; /* [n_files] file names in the folder */
    sw_safetensors *files;
    size_t n_files;
} sw_safetensors_set;

/* Opens all shards and compares them with the index: every tensor stands in the one shard that the index
 * says, and in no other. Shards are named by file names: no path leads out of the folder. A wrong total_size
 * is only warned of, since readers in use ignore it. Errors: SW_NOT_FOUND, SW_IO, SW_BAD_DATA (index or
 * shard, tensor, found and wanted), SW_NO_MEMORY. On failure *out is empty. */
sw_code sw_safetensors_set_open(sw_safetensors_set *out, const char *folder, sw_error *err) SW_MUST_CHECK;
void sw_safetensors_set_close(sw_safetensors_set *set); /* an empty one is allowed */

/* As sw_safetensors_weight, from whichever file has it. */
sw_code sw_safetensors_set_weight(const sw_safetensors_set *set, const char *name, sw_weight *out,
                                  sw_error *err) SW_MUST_CHECK;

#endif
