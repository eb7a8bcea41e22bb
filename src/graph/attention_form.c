/* attention_form.c: which form of attention a graph gets where the user doesn't say. The bound is measured
 * with the spill figures of Qualcomm's compiler (docs/graph-forms.md). */
#include "graph/decoder.h"

enum {
    MOST_SCORE_BYTES = 1 << 17
}; /* of the scores that are alive at once, at 16 bits, for each MB of VTCM */

uint32_t sw_attention_heads_at_once(const sw_hparams *hparams, sw_attention_form form) {
    switch (form) {
    case SW_ATTENTION_PER_KV_HEAD:
        return hparams->n_heads / hparams->n_kv_heads;
    case SW_ATTENTION_PER_HEAD:
        return 1;
    default:
        return hparams->n_heads;
    }
}

bool sw_attention_form_fits(const sw_hparams *hparams, sw_attention_form form) {
    return hparams->n_heads / sw_attention_heads_at_once(hparams, form) <= SW_MAX_INPUTS;
}

sw_attention_form sw_attention_form_auto(const sw_hparams *hparams, uint32_t ar_len, uint32_t context_len,
                                         uint32_t vtcm_mb) {
    sw_attention_form best = SW_ATTENTION_GROUPED;
    for (unsigned i = 0; i < SW_ATTENTION_FORM_COUNT; i++) { /* from whole to the smallest pieces */
        const sw_attention_form form = (sw_attention_form)i;
        if (!sw_attention_form_fits(hparams, form)) break;
        best = form;
        uint64_t scores = (uint64_t)sw_attention_heads_at_once(hparams, form) * ar_len * context_len * 2;
        if (scores <= (uint64_t)MOST_SCORE_BYTES * vtcm_mb) break;
    }
    return best;
}
