/* packed_weights.h: the s8 matrix of a FullyConnected in the order in which the inner loops read it, once for
 * all graphs that have it.
 *
 *   [tile: 32 channels][tile]...   a tile: a panel of bytes, or for 4-bit weights of nibbles (cpu/int_isa.h)
 *
 * So a thread that takes tile after tile reads memory in its order, whatever the number of rows of x. */
#ifndef SW_CPU_PACKED_WEIGHTS_H
#define SW_CPU_PACKED_WEIGHTS_H

#include "cpu/kernels.h"

typedef struct sw_packed_weights {
    size_t in, out, n_tiles, tile_bytes;
    bool nibbles;         /* what tiles are panels of */
    size_t block;         /* of nibbles with steps; else 0 */
    const int32_t *sums;  /* [n_tiles * SW_INT_COLS] of each channel's weights, times their steps */
    const uint8_t *tiles; /* aligned to 64 bytes */
} sw_packed_weights;

/* call->in[1] must have its data. 4-bit weights become nibbles; blockwise ones with blocks that panels can't
 * be cut at become bytes, times their steps. The pages of a file that `data` lies in are given back. Errors:
 * SW_NO_MEMORY. */
sw_code sw_packed_weights_get(sw_packed_weights *out, const sw_op_call *call, sw_error *err) SW_MUST_CHECK;

/* Tile `t` as bytes: in place, or unpacked to `panel` (sw_int_panel_bytes, aligned to 64). */
const int8_t *sw_packed_panel(const sw_packed_weights *w, size_t t, int8_t *panel);

#endif
