/* tokenizer_parts.h: what a tokenizer is made of, for the files of this folder. */
#ifndef SW_TEXT_TOKENIZER_PARTS_H
#define SW_TEXT_TOKENIZER_PARTS_H

#include "text/bpe.h"
#include "text/pretokenize.h"
#include "text/special.h"

struct sw_tokenizer {
    sw_arena arena;
    sw_tokenizer_desc desc; /* copied into the arena */
    sw_token_map map;
    sw_specials specials;
    sw_bpe bpe;
    const sw_pretokenizer_rule *rule;
    sw_pretokenizer *pre;
    sw_span *decoded; /* [n_tokens] what each token stands for */
    uint8_t *is_end;  /* [n_tokens] */
};

#endif
