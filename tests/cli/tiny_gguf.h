/* tiny_gguf.h: a llama model of two layers with random weights and the byte vocabulary, as a GGUF file that
 * every command takes. */
#ifndef TESTS_CLI_TINY_GGUF_H
#define TESTS_CLI_TINY_GGUF_H

#include <math.h>
#include <stdio.h>

#include "cli/byte_vocab.h"
#include "model/gguf_recipes.h"

enum { TINY_HIDDEN = 64, TINY_FFN = 96, TINY_HEAD = 32, TINY_LAYERS = 2 }; /* two heads on one KV head */

static inline void tiny_put_key(bytes *b, const char *name, uint32_t type, uint64_t *n_keys) {
    put_string(b, name);
    put_le(b, type, 4);
    (*n_keys)++;
}
static inline void tiny_put_number(bytes *b, const char *name, uint64_t value, uint64_t *n_keys) {
    tiny_put_key(b, name, 4, n_keys);
    put_le(b, value, 4);
}
static inline void tiny_put_real(bytes *b, const char *name, float value, uint64_t *n_keys) {
    tiny_put_key(b, name, 6, n_keys);
    put(b, &value, 4);
}
static inline void tiny_put_text(bytes *b, const char *name, const char *text, uint64_t *n_keys) {
    tiny_put_key(b, name, 8, n_keys);
    put_string(b, text);
}
static inline void tiny_put_spans(bytes *b, const char *name, const sw_span *spans, size_t n,
                                  uint64_t *n_keys) {
    tiny_put_key(b, name, 9, n_keys);
    put_le(b, 8, 4);
    put_le(b, n, 8);
    for (size_t i = 0; i < n; i++) put_string_n(b, spans[i].data, spans[i].size);
}

static inline uint64_t tiny_put_keys(bytes *b) {
    uint64_t n = 0;
    byte_vocab v;
    byte_vocab_fill(&v);
    tiny_put_text(b, "general.architecture", "llama", &n);
    tiny_put_text(b, "general.name", "Tiny", &n);
    tiny_put_number(b, "llama.block_count", TINY_LAYERS, &n);
    tiny_put_number(b, "llama.context_length", 256, &n);
    tiny_put_number(b, "llama.embedding_length", TINY_HIDDEN, &n);
    tiny_put_number(b, "llama.feed_forward_length", TINY_FFN, &n);
    tiny_put_number(b, "llama.attention.head_count", TINY_HIDDEN / TINY_HEAD, &n);
    tiny_put_number(b, "llama.attention.head_count_kv", 1, &n);
    tiny_put_real(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f, &n);
    tiny_put_real(b, "llama.rope.freq_base", 10000, &n);
    tiny_put_number(b, "llama.rope.dimension_count", TINY_HEAD, &n);
    tiny_put_text(b, "tokenizer.ggml.model", "gpt2", &n);
    tiny_put_text(b, "tokenizer.ggml.pre", "smollm", &n);
    tiny_put_spans(b, "tokenizer.ggml.tokens", v.tokens, N_VOCAB, &n);
    tiny_put_spans(b, "tokenizer.ggml.merges", v.merges, N_MERGES, &n);
    tiny_put_key(b, "tokenizer.ggml.token_type", 9, &n);
    put_le(b, 5, 4);
    put_le(b, N_VOCAB, 8);
    for (size_t i = 0; i < N_VOCAB; i++) put_le(b, (uint32_t)v.types[i], 4);
    tiny_put_number(b, "tokenizer.ggml.bos_token_id", BYTE_VOCAB_START, &n);
    tiny_put_number(b, "tokenizer.ggml.eos_token_id", BYTE_VOCAB_END, &n);
    tiny_put_text(b, "tokenizer.chat_template", BYTE_VOCAB_TEMPLATE, &n);
    return n;
}

typedef struct tiny_shape {
    char name[64];
    uint32_t cols, rows;
} tiny_shape;

static inline size_t tiny_shapes(tiny_shape out[32]) {
    static const tiny_shape layer[] = {{"attn_norm", TINY_HIDDEN, 1},
                                       {"attn_q", TINY_HIDDEN, TINY_HIDDEN},
                                       {"attn_k", TINY_HIDDEN, TINY_HEAD},
                                       {"attn_v", TINY_HIDDEN, TINY_HEAD},
                                       {"attn_output", TINY_HIDDEN, TINY_HIDDEN},
                                       {"ffn_norm", TINY_HIDDEN, 1},
                                       {"ffn_gate", TINY_HIDDEN, TINY_FFN},
                                       {"ffn_up", TINY_HIDDEN, TINY_FFN},
                                       {"ffn_down", TINY_FFN, TINY_HIDDEN}};
    size_t n = 0;
    out[n++] = (tiny_shape){"token_embd.weight", TINY_HIDDEN, N_VOCAB};
    out[n++] = (tiny_shape){"output_norm.weight", TINY_HIDDEN, 1};
    for (int l = 0; l < TINY_LAYERS; l++)
        for (size_t i = 0; i < sizeof layer / sizeof *layer; i++, n++) {
            out[n] = layer[i];
            snprintf(out[n].name, sizeof out[n].name, "blk.%d.%.40s.weight", l, layer[i].name);
        }
    return n;
}

/* All of the file; the caller frees b->data. */
static inline void tiny_gguf_build(bytes *b) {
    bytes keys = {0};
    tiny_shape shapes[32];
    size_t n = tiny_shapes(shapes);
    uint64_t n_keys = tiny_put_keys(&keys), offset = 0, state = 7;
    put_header(b, n, n_keys);
    put(b, keys.data, keys.size);
    free(keys.data);
    for (size_t i = 0; i < n; i++) {
        put_tensor_info(b, shapes[i].name, strlen(shapes[i].name), shapes[i].cols, shapes[i].rows, 0, offset);
        offset += (uint64_t)shapes[i].cols * shapes[i].rows * 4; /* a multiple of 32 */
    }
    put_zeros(b, (32 - b->size % 32) % 32);
    for (size_t i = 0; i < n; i++) {
        float scale = shapes[i].rows == 1 ? 0.2f : 1.7f / sqrtf((float)shapes[i].cols);
        for (size_t k = 0; k < (size_t)shapes[i].cols * shapes[i].rows; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            float value = ((float)(state >> 40) / (float)(1u << 23) - 1) * scale + (shapes[i].rows == 1);
            put(b, &value, 4);
        }
    }
}

#endif
