/* hf_config.h: a Hugging Face config.json as hyperparameters. */
#ifndef SW_MODEL_HF_CONFIG_H
#define SW_MODEL_HF_CONFIG_H

#include "model/model.h"

/* Reads the shapes that a config.json promises, of model types whose decoder the builder knows. A key that
 * would change the computation is refused by name, one that isn't known is warned of. What changes no shape
 * (RoPE scaling) is warned of too: it says nothing against a plan. Errors: SW_NOT_FOUND, SW_IO, SW_BAD_DATA,
 * SW_UNSUPPORTED, with file, key, what was found and what would be right. */
sw_code sw_hf_config_read(sw_hparams *out, const char *path, sw_error *err) SW_MUST_CHECK;

/* The same from its text; file is for messages. */
sw_code sw_hf_config_parse(sw_hparams *out, const char *file, const char *text, size_t size,
                           sw_error *err) SW_MUST_CHECK;

#endif
