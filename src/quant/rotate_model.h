/* rotate_model.h: a model turned into an equal one with smaller outliers: the same logits from other weights.
 */
#ifndef SW_QUANT_ROTATE_MODEL_H
#define SW_QUANT_ROTATE_MODEL_H

#include "base/threads.h"
#include "model/model.h"

typedef struct sw_rotated_model {
    sw_model model; /* views of the scratch file; no gguf; the embedding and the head are two tables */
    void *data;     /* the file, mapped */
    size_t bytes;
    bool rotated; /* false: copied as it is */
} sw_rotated_model;

/* The model with its residual stream rotated, and in each KV head the values; the gammas of norms are folded
 * into what reads them, and 1. Weights are f32 in a file of 4 bytes a parameter, made in scratch_folder
 * without a name, so that it is gone with the process; the kernel may take its pages back at any time. `in`
 * is only read here. pool may be NULL. rotate false: the same file without any change, for
 * what else is to be folded in. Draws progress. Errors: SW_UNSUPPORTED (sizes without a rotation:
 * quant/rotate.h), SW_IO, SW_NO_MEMORY; *out is then empty. */
sw_code sw_rotate_model(sw_rotated_model *out, const sw_model *in, bool rotate, const char *scratch_folder,
                        sw_pool *pool, sw_error *err) SW_MUST_CHECK;
void sw_rotated_model_close(sw_rotated_model *rotated); /* an empty one is allowed */

#endif
