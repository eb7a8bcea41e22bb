/* head_form.c: into how many pieces a row of logits is cut.
 *
 * The HTP computes rows in tiles of 32, so that one row of logits takes 32 rows of VTCM, 64 bytes a token of
 * the vocabulary. What Qualcomm's compiler does with such a tile was measured (docs/graph-forms.md): up to
 * half of the VTCM only the row leaves; above, the tile leaves as a whole; from about 15/16 on it is spilled,
 * too; and what is larger than the VTCM the compiler cuts itself. Pieces of at most half of the VTCM move no
 * more than the row, for all vocabularies. A TopK in the graph reads the tile where it lies: nothing leaves,
 * whatever its size. */
#include "graph/decoder.h"

enum { TILE_ROWS = 32, LOGIT_BYTES = 2, CHANNELS_A_TILE = 32 };

uint32_t sw_head_piece_begin(uint32_t vocab, uint32_t pieces, uint32_t piece) {
    if (piece == pieces) return vocab;
    return (uint32_t)((uint64_t)(vocab / CHANNELS_A_TILE) * piece / pieces) * CHANNELS_A_TILE;
}

uint32_t sw_graph_head_pieces(const sw_graph *graph) {
    uint32_t pieces = 0;
    for (uint32_t i = 0; i < graph->n_ops; i++) pieces += graph->ops[i].channels.end != 0;
    return pieces > 0 ? pieces : 1;
}

sw_head_form sw_head_form_auto(uint32_t vocab, uint32_t top_k, uint32_t vtcm_mb) {
    const uint64_t tile = (uint64_t)TILE_ROWS * LOGIT_BYTES * vocab, most = (uint64_t)vtcm_mb << 19;
    uint64_t pieces = top_k > 0 || most == 0 ? 1 : (tile + most - 1) / most;
    if (pieces > SW_MAX_INPUTS) pieces = SW_MAX_INPUTS; /* as many as can be joined */
    return (sw_head_form){.top_k = top_k, .pieces = (uint32_t)pieces};
}
