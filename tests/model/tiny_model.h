/* tiny_model.h: a llama model of two layers as a GGUF file, built from a list that tests edit: one storage
 * type for each kind of weight, all scales 0 but where a test writes. */
#ifndef SW_TESTS_TINY_MODEL_H
#define SW_TESTS_TINY_MODEL_H

#include <stdio.h>

#include "gguf_recipes.h"

typedef struct tiny_key {
    char name[64];
    uint32_t type; /* GGUF's: 4 u32, 6 f32, 8 string, 9 array of u32 or (tokens) of string */
    uint64_t number;
    float real;
    const char *text;
} tiny_key;

typedef struct tiny_tensor {
    char name[64];
    uint32_t type;
    uint64_t cols, rows;
    size_t at; /* of its data in the file, once built */
} tiny_tensor;

typedef struct tiny_model {
    tiny_key keys[40];
    size_t n_keys;
    tiny_tensor tensors[40];
    size_t n_tensors;
} tiny_model;

static inline tiny_key *tiny_set(tiny_model *m, const char *name, uint32_t type, uint64_t number) {
    size_t i = 0;
    while (i < m->n_keys && strcmp(m->keys[i].name, name) != 0) i++;
    if (i == m->n_keys) m->n_keys++;
    m->keys[i] = (tiny_key){.type = type, .number = number};
    snprintf(m->keys[i].name, sizeof m->keys[i].name, "%s", name);
    return &m->keys[i];
}

static inline void tiny_set_text(tiny_model *m, const char *name, const char *text) {
    tiny_set(m, name, 8, 0)->text = text;
}

static inline void tiny_set_f32(tiny_model *m, const char *name, float value) {
    tiny_set(m, name, 6, 0)->real = value;
}

static inline void tiny_drop_key(tiny_model *m, const char *name) {
    for (size_t i = 0; i < m->n_keys; i++) {
        if (strcmp(m->keys[i].name, name) == 0) {
            m->keys[i] = m->keys[m->n_keys - 1];
            m->n_keys--;
            return;
        }
    }
}

static inline tiny_tensor *tiny_tensor_of(tiny_model *m, const char *name) {
    for (size_t i = 0; i < m->n_tensors; i++)
        if (strcmp(m->tensors[i].name, name) == 0) return &m->tensors[i];
    return NULL;
}

static inline tiny_tensor *tiny_add(tiny_model *m, const char *name, uint32_t type, uint64_t cols,
                                    uint64_t rows) {
    tiny_tensor *t = &m->tensors[m->n_tensors++];
    *t = (tiny_tensor){.type = type, .cols = cols, .rows = rows};
    snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

static inline void tiny_drop_tensor(tiny_model *m, const char *name) {
    tiny_tensor *t = tiny_tensor_of(m, name);
    *t = m->tensors[m->n_tensors - 1];
    m->n_tensors--;
}

/* hidden 64, 2 heads of 32, 1 KV head, ffn 96, 5 tokens, own head. */
static inline void tiny_init(tiny_model *m) {
    *m = (tiny_model){0};
    tiny_set_text(m, "general.architecture", "llama");
    tiny_set_text(m, "general.name", "Tiny");
    tiny_set(m, "llama.block_count", 4, 2);
    tiny_set(m, "llama.context_length", 4, 128);
    tiny_set(m, "llama.embedding_length", 4, 64);
    tiny_set(m, "llama.feed_forward_length", 4, 96);
    tiny_set(m, "llama.attention.head_count", 4, 2);
    tiny_set(m, "llama.attention.head_count_kv", 4, 1);
    tiny_set_f32(m, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    tiny_set_f32(m, "llama.rope.freq_base", 50000.0f);
    tiny_set(m, "llama.rope.dimension_count", 4, 32);
    tiny_set(m, "tokenizer.ggml.tokens", 9, 5);
    tiny_add(m, "token_embd.weight", 8, 64, 5);
    tiny_add(m, "output_norm.weight", 0, 64, 1);
    tiny_add(m, "output.weight", 1, 64, 5);
    for (int layer = 0; layer < 2; layer++) {
        static const struct {
            const char *name;
            uint32_t type;
            uint64_t cols, rows;
        } tensors[] = {{"attn_norm", 0, 64, 1}, {"attn_q", 3, 64, 64},      {"attn_k", 2, 64, 32},
                       {"attn_v", 6, 64, 32},   {"attn_output", 7, 64, 64}, {"ffn_norm", 0, 64, 1},
                       {"ffn_gate", 1, 64, 96}, {"ffn_up", 30, 64, 96},     {"ffn_down", 8, 96, 64}};
        for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, tensors[i].name);
            tiny_add(m, name, tensors[i].type, tensors[i].cols, tensors[i].rows);
        }
    }
}

static inline uint64_t tiny_data_bytes(const tiny_tensor *t) {
    static const struct {
        uint64_t values, bytes;
    } of[31] = {[0] = {1, 4},   [1] = {1, 2},   [2] = {32, 18}, [3] = {32, 20},
                [6] = {32, 22}, [7] = {32, 24}, [8] = {32, 34}, [30] = {1, 2}};
    return t->cols * t->rows / of[t->type].values * of[t->type].bytes;
}

static inline void tiny_build(tiny_model *m, bytes *b) {
    *b = (bytes){0};
    put_header(b, m->n_tensors, m->n_keys);
    for (size_t i = 0; i < m->n_keys; i++) {
        const tiny_key *k = &m->keys[i];
        put_string(b, k->name);
        put_le(b, k->type, 4);
        if (k->type == 8) {
            put_string(b, k->text);
        } else if (k->type == 9) {
            bool tokens = strcmp(k->name, "tokenizer.ggml.tokens") == 0;
            put_le(b, tokens ? 8 : 4, 4);
            put_le(b, k->number, 8);
            for (uint64_t e = 0; e < k->number; e++) put_le(b, 0, tokens ? 8 : 4);
        } else if (k->type == 6) {
            put(b, &k->real, 4);
        } else {
            put_le(b, k->number, 4);
        }
    }
    uint64_t offset = 0;
    for (size_t i = 0; i < m->n_tensors; i++) {
        const tiny_tensor *t = &m->tensors[i];
        put_tensor_info(b, t->name, strlen(t->name), t->cols, t->rows, t->type, offset);
        offset += (tiny_data_bytes(t) + 31) / 32 * 32;
    }
    put_zeros(b, (32 - b->size % 32) % 32);
    for (size_t i = 0; i < m->n_tensors; i++) {
        m->tensors[i].at = b->size;
        put_zeros(b, (size_t)(tiny_data_bytes(&m->tensors[i]) + 31) / 32 * 32);
    }
}

#endif
