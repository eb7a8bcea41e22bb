/* tiny_decoder.h: a quantized decoder of a few kilobytes, made without the quantizer: 8-bit activations and
 * KV, rows of s8 weights with a scale each. The encodings mean nothing but obey the rules of
 * sw_decoder_verify. */
#ifndef TESTS_TINY_DECODER_H
#define TESTS_TINY_DECODER_H

#include "graph/verify.h"
#include "tiny_model.h"

typedef struct tiny_decoder {
    tiny_model model;
    sw_decoder decoder;
} tiny_decoder;

enum { TINY_CONTEXT = 8, TINY_PREFILL = 4 };

/* One encoding a range, of every kind of mantissa; what ops move between ranges must agree, so most share
 * one. */
static inline sw_encoding tiny_encoding(const sw_tensor *t) {
    static const char *const free_names[] = {"ffn",           "gate",   ".up",  "residual", "attention_in",
                                             "attention_out", "logits", "norm", NULL};
    uint64_t state = 1;
    for (const char *p = t->range; *p != '\0'; p++)
        state = (state ^ (uint8_t)*p) * 1099511628211u; /* FNV-1a */
    for (size_t i = 0; free_names[i] != NULL; i++)
        if (strstr(t->range, free_names[i]) != NULL)
            return (sw_encoding){tiny_random(&state) / 64 + 0.017f, -(int32_t)(state >> 57)};
    return (sw_encoding){0.0078431377f, -128};
}

static inline void tiny_quantize_constant(sw_decoder *d, sw_tensor *t, uint64_t *state) {
    t->dtype = t->role == SW_ROLE_WEIGHT ? SW_S8 : SW_U8;
    uint8_t *data = sw_arena_alloc(&d->arena, (size_t)sw_tensor_elements(t));
    for (uint64_t i = 0; i < sw_tensor_elements(t); i++) {
        tiny_random(state);
        data[i] = (uint8_t)(*state >> 40);
    }
    t->data = data;
    if (t->role != SW_ROLE_WEIGHT) {
        t->encoding = (sw_encoding){1.0f / 255, 0};
        return;
    }
    float *scales = sw_arena_array(&d->arena, t->dims[0], sizeof *scales);
    for (uint32_t i = 0; i < t->dims[0]; i++) scales[i] = tiny_random(state) / 128 + 0.01f;
    t->channel_scales = scales;
}

/* Of that many layers, in that many shards. */
static inline void tiny_decoder_create_shards(tiny_decoder *t, uint32_t n_layers, uint32_t n_shards) {
    sw_hparams h = tiny_hparams();
    h.n_layers = n_layers;
    sw_graph_options options[2] = {{.name = "prefill_forward", .ar_len = TINY_PREFILL},
                                   {.name = "kv_forward", .ar_len = 1}};
    sw_error err = {0};
    uint64_t state = 11;
    tiny_model_create(&t->model, &h);
    if (sw_decoder_build_shards(&t->decoder, &t->model.model, TINY_CONTEXT, options, 2, n_shards, &err) !=
        SW_OK)
        abort();
    sw_decoder *d = &t->decoder;
    for (uint32_t i = 0; i < d->n_constants; i++) tiny_quantize_constant(d, d->constants[i], &state);
    for (uint32_t g = 0; g < d->n_graphs; g++) {
        for (uint32_t i = 0; i < d->graphs[g]->n_tensors; i++) {
            sw_tensor *x = d->graphs[g]->tensors[i];
            if (x->kind == SW_TENSOR_CONSTANT || x->role == SW_ROLE_INDEX) continue;
            x->dtype = SW_U8;
            x->encoding = tiny_encoding(x);
        }
    }
    /* The row that `last` picks has the encoding of what it is picked from. */
    for (uint32_t g = 0; g < d->n_graphs; g++)
        for (uint32_t i = 0; i < d->graphs[g]->n_ops; i++) {
            sw_op *op = &d->graphs[g]->ops[i];
            if (op->type == SW_OP_GATHER)
                d->graphs[g]->tensors[op->outputs[0]]->encoding =
                    d->graphs[g]->tensors[op->inputs[0]]->encoding;
        }
    if (sw_decoder_verify(d, &err) != SW_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
}

static inline void tiny_decoder_create(tiny_decoder *t) {
    tiny_decoder_create_shards(t, tiny_hparams().n_layers, 1);
}

static inline void tiny_decoder_free(tiny_decoder *t) {
    sw_decoder_free(&t->decoder);
    tiny_model_free(&t->model);
}

#endif
