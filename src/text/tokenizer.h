/* tokenizer.h: text to token ids and back, by byte-level BPE (the GPT-2 family: SmolLM2, Llama 3, Qwen2).
 *
 *   text --[special tokens, literally]--> pieces --[split pattern]--> words --[merges]--> ids
 *
 * A tokenizer never changes once made: threads may share it. */
#ifndef SW_TEXT_TOKENIZER_H
#define SW_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/bytes.h"

/* Kinds of tokens, with GGUF's numbers (tokenizer.ggml.token_type). */
typedef enum sw_token_type {
    SW_TOKEN_NORMAL = 1,       /* text in the byte-level alphabet, reached by merges */
    SW_TOKEN_UNKNOWN = 2,      /* as control */
    SW_TOKEN_CONTROL = 3,      /* literal text, matched only where special tokens are parsed; not shown */
    SW_TOKEN_USER_DEFINED = 4, /* literal text, always matched; shown */
    SW_TOKEN_UNUSED = 5,       /* never matched */
    SW_TOKEN_BYTE = 6          /* as normal */
} sw_token_type;

enum { SW_CHAT_TEMPLATE_BYTES_MAX = 1 << 20 };

/* What a tokenizer is made of; each reader of a file format fills one. */
typedef struct sw_tokenizer_desc {
    const char *source;              /* the file's name, for messages; NULL for none */
    sw_span model;                   /* GGUF's tokenizer.ggml.model: "gpt2" */
    sw_span pre;                     /* GGUF's tokenizer.ggml.pre: one of sw_pretokenizer_names() */
    const sw_span *tokens;           /* [n_tokens] UTF-8; distinct, not empty */
    const int32_t *token_types;      /* [n_tokens] sw_token_type; NULL: all are normal */
    size_t n_tokens;                 /* 1 .. 2^31 - 1 */
    const sw_span *merges;           /* [n_merges] "left right" in the byte-level alphabet, best first */
    size_t n_merges;                 /* not 0 */
    int64_t bos, eos, eot, unk, pad; /* ids, -1: none */
    const int64_t *ends;             /* [n_ends] more ids that end a text (generation_config's list) */
    size_t n_ends;
    bool add_bos;          /* the model wants bos before the first token */
    sw_span chat_template; /* Jinja text, UTF-8, at most SW_CHAT_TEMPLATE_BYTES_MAX; empty: none */
} sw_tokenizer_desc;

/* An id list that grows. {0} is empty; the owner frees it. */
typedef struct sw_ids {
    int32_t *data;
    size_t count, capacity;
} sw_ids;

/* Appends; SW_NO_MEMORY leaves the list as it was. */
sw_code sw_ids_append(sw_ids *ids, const int32_t *data, size_t count, sw_error *err) SW_MUST_CHECK;
void sw_ids_free(sw_ids *ids);

typedef struct sw_tokenizer sw_tokenizer;

/* Copies all of desc: its spans may go afterwards.
 * Errors: SW_UNSUPPORTED (model or pre-tokenizer by its name, with the list of the supported ones),
 * SW_BAD_DATA (token, merge or id by its number, and what is wrong with it), SW_NO_MEMORY. */
sw_code sw_tokenizer_create(sw_tokenizer **out, const sw_tokenizer_desc *desc, sw_error *err) SW_MUST_CHECK;
void sw_tokenizer_destroy(sw_tokenizer *t); /* NULL is allowed */

/* The description, owned by the tokenizer. Its pointers live as long as the tokenizer. */
const sw_tokenizer_desc *sw_tokenizer_description(const sw_tokenizer *t);

typedef enum sw_encode_flags {
    SW_ENCODE_PLAIN = 0,
    SW_ENCODE_SPECIAL = 1, /* "<|im_end|>" in the text is that token; else it is plain text */
    SW_ENCODE_START = 2    /* the text begins a session: bos goes first where the model wants it, once */
} sw_encode_flags;

/* Appends the ids of text to *out. Any bytes are text: those that aren't UTF-8 become their byte tokens. A
 * byte that the vocabulary has no token for (SmolLM2 lacks 21) is left out, as the models' own tokenizers do,
 * and one warning is logged. SW_ENCODE_START adds no second bos where the text itself begins with it. On
 * failure (SW_NO_MEMORY, SW_UNSUPPORTED: one word of 4 GiB) *out is as before. */
sw_code sw_tokenizer_encode(const sw_tokenizer *t, sw_span text, unsigned flags, sw_ids *out,
                            sw_error *err) SW_MUST_CHECK;

/* The bytes that a token stands for, maybe not whole characters (stream.h puts them together); owned by the
 * tokenizer. Control tokens are empty unless show_special. SW_INVALID_ARGUMENT: no such id. */
sw_code sw_tokenizer_decode(const sw_tokenizer *t, int64_t id, bool show_special, sw_span *out,
                            sw_error *err) SW_MUST_CHECK;

/* The bytes of many tokens, in the arena, with a zero byte behind them. */
sw_code sw_tokenizer_decode_all(const sw_tokenizer *t, const int32_t *ids, size_t count, bool show_special,
                                sw_arena *arena, sw_span *out, sw_error *err) SW_MUST_CHECK;

/* The id whose token has just this text (as in the description), or -1. */
int32_t sw_tokenizer_find(const sw_tokenizer *t, sw_span text);

/* True where this token ends a text: eos, eot, desc's ends, and control tokens known to end a turn
 * (<|im_end|>, <|endoftext|>, <|eot_id|>, ...). False for ids that don't exist. */
bool sw_tokenizer_is_end(const sw_tokenizer *t, int64_t id);

/* "gpt-2, smollm, ..." for messages. */
const char *sw_pretokenizer_names(void);

/* A bundle's tokenizer: tokenizer.json and tokenizer_config.json in Hugging Face's shape, in the folder.
 * Loading takes what save writes, merges as "a b" or ["a", "b"]; anything else is named and refused. */
sw_code sw_tokenizer_save(const sw_tokenizer *t, const char *folder, sw_error *err) SW_MUST_CHECK;
sw_code sw_tokenizer_load(sw_tokenizer **out, const char *folder, sw_error *err) SW_MUST_CHECK;

/* The same two files wherever they are; a failed write shows in the stream's state. */
void sw_tokenizer_write_json(const sw_tokenizer *t, FILE *stream);
void sw_tokenizer_write_config(const sw_tokenizer *t, FILE *stream);
sw_code sw_tokenizer_load_files(sw_tokenizer **out, const char *tokenizer_path, const char *config_path,
                                sw_error *err) SW_MUST_CHECK;

/* A span of a C string. */
static inline sw_span sw_span_of(const char *text) {
    size_t size = 0;
    while (text[size] != '\0') size++;
    return (sw_span){text, size};
}

#endif
