/* ar_lengths.h: one model with prefill graphs of many AR lengths, which must all say the same. */
#ifndef TESTS_CLI_AR_LENGTHS_H
#define TESTS_CLI_AR_LENGTHS_H

#include "cli/quantized_model.h"
#include "graph/verify.h"
#include "runtime/session.h"

/* 31, 32 and 33: around the width of a tile. */
static const uint32_t ar_lengths[] = {1, 2, 8, 16, 31, 32, 33, 64, 128};
enum { N_AR_LENGTHS = sizeof ar_lengths / sizeof *ar_lengths };

static sw_error ar_error;

#define AR_OK(call)                                                                                          \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, ar_error.message);                                    \
    } while (0)

static inline sw_code keep_constant(void *context, sw_tensor *t, const void *data, sw_error *err) {
    (void)err;
    void *copy = sw_arena_alloc(context, (size_t)sw_tensor_bytes(t));
    assert_non_null(copy);
    memcpy(copy, data, (size_t)sw_tensor_bytes(t));
    t->data = copy;
    return SW_OK;
}

/* Graphs of AR ar (where that is more than 1) and 1. recipe NULL: float. constants: a decoder of the same
 * model and recipe whose constants are borrowed, or NULL. */
static inline void build_ar(sw_decoder *d, const sw_model *model, uint32_t context, uint32_t ar,
                            sw_attention_form form, const sw_recipe *recipe, const sw_ranges *ranges,
                            const sw_decoder *constants) {
    const sw_graph_options graphs[] = {{"kv_forward", 1, form, SW_HEAD_LAST},
                                       {"prefill_forward", ar, form, SW_HEAD_LAST}};
    AR_OK(sw_decoder_build(d, model, context, graphs, ar > 1 ? 2 : 1, &ar_error));
    if (recipe == NULL) return;
    AR_OK(sw_quantize_types(d, recipe, ranges, &ar_error));
    if (constants == NULL)
        AR_OK(sw_quantize_constants(d, NULL, NULL, false, keep_constant, &d->arena, &ar_error));
    else
        for (uint32_t i = 0; i < d->n_constants; i++) {
            assert_string_equal(d->constants[i]->name, constants->constants[i]->name);
            *d->constants[i] = *constants->constants[i];
        }
    AR_OK(sw_decoder_verify(d, &ar_error));
}

/* The likeliest tokens behind a prompt; logits [vocab] are those behind the prompt. */
static inline void greedy(const sw_decoder *d, sw_device *device, const int32_t *prompt, uint32_t n_prompt,
                          int32_t *out, uint32_t n_out, float *logits) {
    uint32_t vocab = d->hparams.vocab;
    float *row = malloc(vocab * sizeof *row);
    sw_session *session;
    assert_non_null(row);
    AR_OK(sw_session_create(&session, d, device, &ar_error));
    AR_OK(sw_session_feed(session, prompt, n_prompt, logits, NULL, &ar_error));
    memcpy(row, logits, vocab * sizeof *row);
    for (uint32_t i = 0; i < n_out; i++) {
        out[i] = 0;
        for (uint32_t k = 1; k < vocab; k++)
            if (row[k] > row[out[i]]) out[i] = (int32_t)k;
        if (i + 1 < n_out) AR_OK(sw_session_feed(session, &out[i], 1, row, NULL, &ar_error));
    }
    sw_session_destroy(session);
    free(row);
}

#endif
