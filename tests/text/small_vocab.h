/* small_vocab.h: a tokenizer of a few tokens, for tests: "ab a 12<|end|>" is 3 2 0 2 4 5 6 (smollm). */
#ifndef TESTS_SMALL_VOCAB_H
#define TESTS_SMALL_VOCAB_H

#include "text/tokenizer.h"

#define SMALL_TOKENS 8

typedef struct small_vocab {
    sw_span tokens[SMALL_TOKENS];
    int32_t types[SMALL_TOKENS];
    sw_span merges[1];
    sw_tokenizer_desc desc; /* points into this struct: don't copy it */
} small_vocab;

static inline void small_vocab_fill(small_vocab *v) {
    static const char *const texts[SMALL_TOKENS] = {"a", "b", "\xc4\xa0", "ab",
                                                    "1", "2", "<|end|>",  "<tool>"};
    for (size_t i = 0; i < SMALL_TOKENS; i++) {
        v->tokens[i] = sw_span_of(texts[i]);
        v->types[i] = SW_TOKEN_NORMAL;
    }
    v->types[6] = SW_TOKEN_CONTROL;
    v->types[7] = SW_TOKEN_USER_DEFINED;
    v->merges[0] = sw_span_of("a b");
    v->desc = (sw_tokenizer_desc){.model = sw_span_of("gpt2"),
                                  .pre = sw_span_of("smollm"),
                                  .tokens = v->tokens,
                                  .token_types = v->types,
                                  .n_tokens = SMALL_TOKENS,
                                  .merges = v->merges,
                                  .n_merges = 1,
                                  .bos = -1,
                                  .eos = -1,
                                  .eot = -1,
                                  .unk = -1,
                                  .pad = -1};
}

#endif
