/* attention_form.c: which form of attention a graph gets where the user doesn't say. The bound is measured
 * with the spill figures of Qualcomm's compiler (docs/graph-forms.md). */
#include "graph/decoder.h"

enum { MOST_SCORE_BYTES = 1 << 20 }; /* of all heads, at 16 bits */

sw_attention_form sw_attention_form_auto(const sw_hparams *hparams, uint32_t ar_len, uint32_t context_len) {
    uint64_t scores = (uint64_t)hparams->n_heads * ar_len * context_len * 2;
    return scores > MOST_SCORE_BYTES && hparams->n_kv_heads <= SW_MAX_INPUTS ? SW_ATTENTION_PER_KV_HEAD
                                                                             : SW_ATTENTION_GROUPED;
}
