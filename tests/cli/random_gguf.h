/* random_gguf.h: a llama model of any shape with random Q8_0 weights, as a GGUF file: for what depends on
 * shapes alone. The vocabulary is the byte vocabulary, filled up with words that no text contains. */
#ifndef TESTS_CLI_RANDOM_GGUF_H
#define TESTS_CLI_RANDOM_GGUF_H

#include "base/f16.h"
#include "cli/tiny_gguf.h"
#include "model/model.h"

static inline void random_put_vocabulary(bytes *b, uint32_t vocab, uint64_t *n) {
    byte_vocab v;
    byte_vocab_fill(&v);
    tiny_put_text(b, "tokenizer.ggml.model", "gpt2", n);
    tiny_put_text(b, "tokenizer.ggml.pre", "smollm", n);
    tiny_put_key(b, "tokenizer.ggml.tokens", 9, n);
    put_le(b, 8, 4);
    put_le(b, vocab, 8);
    for (uint32_t i = 0; i < vocab; i++) {
        char word[32];
        snprintf(word, sizeof word, "\t\t\tfiller %u", i);
        if (i < N_VOCAB)
            put_string_n(b, v.tokens[i].data, v.tokens[i].size);
        else
            put_string(b, word);
    }
    tiny_put_spans(b, "tokenizer.ggml.merges", v.merges, N_MERGES, n);
    tiny_put_key(b, "tokenizer.ggml.token_type", 9, n);
    put_le(b, 5, 4);
    put_le(b, vocab, 8);
    for (uint32_t i = 0; i < vocab; i++) put_le(b, i < N_VOCAB ? (uint32_t)v.types[i] : SW_TOKEN_CONTROL, 4);
    tiny_put_number(b, "tokenizer.ggml.bos_token_id", BYTE_VOCAB_START, n);
    tiny_put_number(b, "tokenizer.ggml.eos_token_id", BYTE_VOCAB_END, n);
}

static inline uint64_t random_put_keys(bytes *b, const sw_hparams *h) {
    uint64_t n = 0;
    tiny_put_text(b, "general.architecture", "llama", &n);
    tiny_put_text(b, "general.name", "Random", &n);
    tiny_put_number(b, "llama.block_count", h->n_layers, &n);
    tiny_put_number(b, "llama.context_length", h->context_max, &n);
    tiny_put_number(b, "llama.embedding_length", h->hidden, &n);
    tiny_put_number(b, "llama.feed_forward_length", h->ffn, &n);
    tiny_put_number(b, "llama.attention.head_count", h->n_heads, &n);
    tiny_put_number(b, "llama.attention.head_count_kv", h->n_kv_heads, &n);
    tiny_put_number(b, "llama.attention.key_length", h->head_dim, &n);
    tiny_put_number(b, "llama.attention.value_length", h->head_dim, &n);
    tiny_put_real(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f, &n);
    tiny_put_real(b, "llama.rope.freq_base", 10000, &n);
    random_put_vocabulary(b, h->vocab, &n);
    return n;
}

static inline uint64_t random_bytes_of(uint32_t cols, uint32_t rows) {
    return rows == 1 ? (uint64_t)cols * 4 : (uint64_t)cols / 32 * 34 * rows; /* F32 and Q8_0 */
}

/* Rows of Q8_0 blocks whose values spread over +-1.7 / sqrt(cols); norms around 1. */
static inline void random_put_values(FILE *f, uint32_t cols, uint32_t rows, uint64_t *state) {
    uint16_t scale = sw_f32_to_f16(1.7f / sqrtf((float)cols) / 127);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < cols; c += rows == 1 ? 1 : 32) {
            int8_t block[32];
            if (rows == 1) {
                *state = *state * 6364136223846793005u + 1442695040888963407u;
                float value = 0.8f + 0.4f * (float)(*state >> 40) / (float)(1u << 24);
                fwrite(&value, 4, 1, f);
                continue;
            }
            for (int i = 0; i < 32; i += 4) {
                *state = *state * 6364136223846793005u + 1442695040888963407u;
                uint32_t four = (uint32_t)(*state >> 32);
                memcpy(block + i, &four, 4);
            }
            fwrite(&scale, 2, 1, f);
            fwrite(block, 1, 32, f);
        }
}

/* The file; cols of every matrix must be multiples of 32. Tied: no head of its own. */
static inline void random_gguf_write(const char *path, const sw_hparams *h) {
    const uint32_t q = h->n_heads * h->head_dim, kv = h->n_kv_heads * h->head_dim;
    const tiny_shape layer[] = {
        {"attn_norm", h->hidden, 1},     {"attn_q", h->hidden, q},      {"attn_k", h->hidden, kv},
        {"attn_v", h->hidden, kv},       {"attn_output", q, h->hidden}, {"ffn_norm", h->hidden, 1},
        {"ffn_gate", h->hidden, h->ffn}, {"ffn_up", h->hidden, h->ffn}, {"ffn_down", h->ffn, h->hidden}};
    const tiny_shape whole[] = {{"token_embd.weight", h->hidden, h->vocab},
                                {"output_norm.weight", h->hidden, 1},
                                {"output.weight", h->hidden, h->vocab}};
    enum { PER_LAYER = sizeof layer / sizeof *layer };
    size_t n_whole = h->tied_embeddings ? 2 : 3, n = n_whole + PER_LAYER * (size_t)h->n_layers;
    bytes keys = {0}, b = {0};
    uint64_t n_keys = random_put_keys(&keys, h), offset = 0, state = 7;
    put_header(&b, n, n_keys);
    put(&b, keys.data, keys.size);
    free(keys.data);
    for (size_t i = 0; i < n; i++) {
        tiny_shape s = i < n_whole ? whole[i] : layer[(i - n_whole) % PER_LAYER];
        char name[128];
        if (i < n_whole)
            snprintf(name, sizeof name, "%s", s.name);
        else
            snprintf(name, sizeof name, "blk.%zu.%s.weight", (i - n_whole) / PER_LAYER, s.name);
        put_tensor_info(&b, name, strlen(name), s.cols, s.rows, s.rows == 1 ? 0 : 8, offset);
        offset += (random_bytes_of(s.cols, s.rows) + 31) / 32 * 32;
    }
    put_zeros(&b, (32 - b.size % 32) % 32);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(b.data, 1, b.size, f) != b.size) abort();
    free(b.data);
    for (size_t i = 0; i < n; i++) {
        tiny_shape s = i < n_whole ? whole[i] : layer[(i - n_whole) % PER_LAYER];
        static const char zeros[32];
        random_put_values(f, s.cols, s.rows, &state);
        fwrite(zeros, 1, (32 - random_bytes_of(s.cols, s.rows) % 32) % 32, f);
    }
    if (fclose(f) != 0) abort();
}

#endif
