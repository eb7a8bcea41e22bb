/* pack.h: the beginnings of many documents, several in one run of the float model. */
#ifndef SW_QUANT_PACK_H
#define SW_QUANT_PACK_H

#include "base/arena.h"
#include "quant/quant.h"

/* Windows of several documents, which don't see each other: tokens stand where they would in a window of
 * their own. begins[i][t]: where the document of window i's token t begins. */
typedef struct sw_packs {
    sw_window *windows;
    uint32_t **begins;
    size_t n, n_tokens;
} sw_packs;

/* The first tokens of each window, most_each at most, behind the sink (or NULL), in packs of at most
 * most_together. All lives in the arena. Errors: SW_NO_MEMORY. */
sw_code sw_packs_make(sw_packs *out, const sw_sink *sink, const sw_window *windows, size_t n_windows,
                      uint32_t most_each, uint32_t most_together, sw_arena *arena,
                      sw_error *err) SW_MUST_CHECK;

#endif
