/* load_tokenizer.h: the tokenizer that a checkpoint carries. */
#ifndef SW_RUNTIME_LOAD_TOKENIZER_H
#define SW_RUNTIME_LOAD_TOKENIZER_H

#include "model/gguf.h"
#include "text/tokenizer.h"

/* From the keys tokenizer.ggml.* and tokenizer.chat_template. Tokens, merges, model and pre must be there;
 * ids, flags and the template may be missing. Errors: those of sw_gguf_get_* and sw_tokenizer_create. */
sw_code sw_tokenizer_from_gguf(sw_tokenizer **out, const sw_gguf *gguf, sw_error *err) SW_MUST_CHECK;

#endif
