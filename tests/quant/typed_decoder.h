/* typed_decoder.h: a decoder of two layers with a prefill and a decode graph, and ranges that the test makes
 * up: what a recipe makes of the graphs, without a calibration. */
#ifndef TESTS_QUANT_TYPED_DECODER_H
#define TESTS_QUANT_TYPED_DECODER_H

#include "graph/verify.h"
#include "quant/observe.h"
#include "tiny_model.h"

enum { TYPED_AR = 4, TYPED_CONTEXT = 16 };

typedef struct typed_decoder {
    tiny_model model;
    sw_decoder decoder;
} typed_decoder;

/* Every range is [-3, 5]. Rows of 32 and 64: blocks divide them. */
static inline sw_code typed_decoder_create(typed_decoder *t, const sw_recipe *recipe, sw_attention_form form,
                                           sw_error *err) {
    sw_hparams h = tiny_hparams();
    const sw_graph_options graphs[] = {{"prefill_forward", TYPED_AR, form, SW_HEAD_LAST},
                                       {"kv_forward", 1, form, SW_HEAD_LAST}};
    h.ffn = 64;
    memset(t, 0, sizeof *t);
    tiny_model_create(&t->model, &h);
    SW_TRY(sw_decoder_build(&t->decoder, &t->model.model, TYPED_CONTEXT, graphs, 2, err));
    sw_ranges *ranges = sw_ranges_create();
    if (ranges == NULL) abort();
    for (uint32_t g = 0; g < 2; g++)
        for (uint32_t i = 0; i < t->decoder.graphs[g]->n_tensors; i++) {
            const sw_tensor *x = t->decoder.graphs[g]->tensors[i];
            if (x->kind != SW_TENSOR_CONSTANT)
                SW_TRY(sw_ranges_merge(ranges, x->range, (sw_range){-3, 5, 1}, err));
        }
    sw_code code = sw_quantize_types(&t->decoder, recipe, ranges, err);
    sw_ranges_free(ranges);
    return code == SW_OK ? sw_decoder_verify(&t->decoder, err) : code;
}

static inline void typed_decoder_free(typed_decoder *t) {
    sw_decoder_free(&t->decoder);
    tiny_model_free(&t->model);
}

/* The i-th shipped recipe's name, as the sentence about an unknown one lists them; NULL behind the last. */
static inline const char *shipped_recipe(unsigned i) {
    static char names[SW_ERROR_MESSAGE_BYTES];
    sw_recipe r;
    sw_error err;
    if (sw_recipe_find(&r, "?", 0, &err) == SW_OK) abort();
    char *at = strstr(err.message, "there are ");
    if (at == NULL) abort();
    snprintf(names, sizeof names, "%s", at + strlen("there are "));
    for (at = strtok(names, ", "); at != NULL && i > 0; i--) at = strtok(NULL, ", ");
    return at;
}

#endif
