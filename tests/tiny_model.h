/* tiny_model.h: a model of a few kilobytes with F32 weights in memory, for tests of graphs and what is behind
 * them. */
#ifndef TESTS_TINY_MODEL_H
#define TESTS_TINY_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

typedef struct tiny_model {
    sw_model model;
    float *values; /* all weights, one behind the other */
} tiny_model;

/* A linear congruential generator (Knuth's MMIX constants), so that every run has the same numbers. */
static inline float tiny_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(*state >> 40) / (float)(1u << 24) * 2.0f - 1.0f; /* [-1, 1) */
}

/* Weights of about 1 / sqrt(columns), so that activations neither die nor explode. */
static inline void tiny_model_create(tiny_model *t, const sw_hparams *hparams) {
    memset(t, 0, sizeof *t);
    const sw_hparams *h = hparams;
    t->model.hparams = *h;
    uint32_t q = h->n_heads * h->head_dim, kv = h->n_kv_heads * h->head_dim;
    const uint32_t shapes[SW_WEIGHT_COUNT][2] = {
        [SW_W_EMBEDDING] = {h->vocab, h->hidden},
        [SW_W_ATTENTION_NORM] = {1, h->hidden},
        [SW_W_Q] = {q, h->hidden},
        [SW_W_K] = {kv, h->hidden},
        [SW_W_V] = {kv, h->hidden},
        [SW_W_O] = {h->hidden, q},
        [SW_W_FFN_NORM] = {1, h->hidden},
        [SW_W_GATE] = {h->ffn, h->hidden},
        [SW_W_UP] = {h->ffn, h->hidden},
        [SW_W_DOWN] = {h->hidden, h->ffn},
        [SW_W_FINAL_NORM] = {1, h->hidden},
        [SW_W_HEAD] = {h->vocab, h->hidden},
    };
    size_t total = 0;
    for (uint32_t i = 0; i < h->n_layers * SW_WEIGHT_COUNT; i++)
        total += (size_t)shapes[i % SW_WEIGHT_COUNT][0] * shapes[i % SW_WEIGHT_COUNT][1];
    t->values = malloc(total * sizeof *t->values);
    t->model.weights = calloc((size_t)h->n_layers * SW_WEIGHT_COUNT, sizeof *t->model.weights);
    if (t->values == NULL || t->model.weights == NULL) abort();
    uint64_t state = 7;
    float *at = t->values;
    for (uint32_t i = 0; i < h->n_layers * SW_WEIGHT_COUNT; i++) {
        uint32_t rows = shapes[i % SW_WEIGHT_COUNT][0], cols = shapes[i % SW_WEIGHT_COUNT][1];
        t->model.weights[i] = (sw_weight){.file_name = "tiny",
                                          .data = (const uint8_t *)at,
                                          .row_bytes = cols * sizeof(float),
                                          .rows = rows,
                                          .cols = cols,
                                          .storage = SW_STORE_F32};
        float scale = rows == 1 ? 0.2f : 1.7f / __builtin_sqrtf((float)cols);
        for (size_t k = 0; k < (size_t)rows * cols; k++)
            *at++ = tiny_random(&state) * scale + (rows == 1 ? 1.0f : 0.0f);
    }
}

static inline void tiny_model_free(tiny_model *t) {
    free(t->values);
    free(t->model.weights);
}

/* Two layers, four query heads on two KV heads. */
static inline sw_hparams tiny_hparams(void) {
    return (sw_hparams){.architecture = "llama",
                        .name = "tiny",
                        .n_layers = 2,
                        .hidden = 32,
                        .ffn = 48,
                        .vocab = 96,
                        .n_heads = 4,
                        .n_kv_heads = 2,
                        .head_dim = 8,
                        .context_max = 64,
                        .rms_epsilon = 1e-5f,
                        .rope_theta = 10000.0f,
                        .tied_embeddings = true};
}

#endif
