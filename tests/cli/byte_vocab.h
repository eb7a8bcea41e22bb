/* byte_vocab.h: a byte-level vocabulary of three special tokens, all 256 bytes and some merges, so that any
 * text has ids and any ids have text. */
#ifndef TESTS_CLI_BYTE_VOCAB_H
#define TESTS_CLI_BYTE_VOCAB_H

#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

#define BYTE_VOCAB_TEMPLATE                                                                                  \
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"                   \
    "{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + "       \
    "'\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"            \
    "{{ '<|im_start|>assistant\n' }}{% endif %}"

/* "\xc4\xa0" is the alphabet's space. */
static const char *const byte_vocab_merges[] = {"h e", "l l", "\xc4\xa0 t", "i n", "he ll"};
static const char *const byte_vocab_merged[] = {"he", "ll", "\xc4\xa0t", "in", "hell"};
static const char *const byte_vocab_special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

enum {
    BYTE_VOCAB_START = 1,
    BYTE_VOCAB_END = 2,
    BYTE_VOCAB_FIRST = 3,
    N_MERGES = 5,
    N_VOCAB = 3 + 256 + N_MERGES
};

typedef struct byte_vocab {
    char text[256][SW_BYTE_CHAR_MAX];
    sw_span tokens[N_VOCAB], merges[N_MERGES];
    int32_t types[N_VOCAB];
    sw_tokenizer_desc desc; /* points into this struct */
} byte_vocab;

static inline void byte_vocab_fill(byte_vocab *v) {
    size_t n = 0;
    for (; n < BYTE_VOCAB_FIRST; n++)
        v->tokens[n] = sw_span_of(byte_vocab_special[n]), v->types[n] = SW_TOKEN_CONTROL;
    for (unsigned byte = 0; byte < 256; byte++, n++)
        v->tokens[n] = (sw_span){v->text[byte], sw_byte_to_char((uint8_t)byte, v->text[byte])},
        v->types[n] = SW_TOKEN_NORMAL;
    for (unsigned i = 0; i < N_MERGES; i++, n++) {
        v->merges[i] = sw_span_of(byte_vocab_merges[i]);
        v->tokens[n] = sw_span_of(byte_vocab_merged[i]), v->types[n] = SW_TOKEN_NORMAL;
    }
    v->desc = (sw_tokenizer_desc){.source = "byte vocabulary",
                                  .model = sw_span_of("gpt2"),
                                  .pre = sw_span_of("smollm"),
                                  .tokens = v->tokens,
                                  .token_types = v->types,
                                  .n_tokens = N_VOCAB,
                                  .merges = v->merges,
                                  .n_merges = N_MERGES,
                                  .bos = BYTE_VOCAB_START,
                                  .eos = BYTE_VOCAB_END,
                                  .eot = -1,
                                  .unk = -1,
                                  .pad = -1,
                                  .chat_template = sw_span_of(BYTE_VOCAB_TEMPLATE)};
}

#endif
