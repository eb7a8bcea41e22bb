/* pack.c: short windows next to each other, so that weights are read and packed for a product once for all of
 * them. */
#include "quant/pack.h"

#include <string.h>

#include "quant/window.h"

sw_code sw_packs_make(sw_packs *out, const sw_sink *sink, const sw_window *windows, size_t n_windows,
                      uint32_t most_each, uint32_t most_together, sw_arena *arena, sw_error *err) {
    *out = (sw_packs){0};
    int32_t *ids = sw_arena_array(arena, n_windows * most_each, sizeof *ids);
    uint32_t *begins = sw_arena_array(arena, n_windows * most_each, sizeof *begins);
    out->windows = sw_arena_array(arena, n_windows, sizeof *out->windows);
    out->begins = sw_arena_array(arena, n_windows, sizeof *out->begins);
    if (ids == NULL || begins == NULL || out->windows == NULL || out->begins == NULL)
        return SW_FAIL(err, SW_NO_MEMORY, "no memory for %zu windows of calibration", n_windows);
    for (size_t i = 0; i < n_windows; i++) {
        const sw_window w = sw_window_behind(sink, windows[i]);
        const uint32_t n = w.n_tokens < most_each ? w.n_tokens : most_each;
        sw_window *pack = out->n > 0 ? &out->windows[out->n - 1] : NULL;
        if (pack == NULL || pack->n_tokens + n > most_together) {
            out->windows[out->n] = (sw_window){ids + out->n_tokens, 0};
            out->begins[out->n] = begins + out->n_tokens;
            pack = &out->windows[out->n++];
        }
        memcpy(ids + out->n_tokens, w.ids, n * sizeof *ids);
        for (uint32_t t = 0; t < n; t++) begins[out->n_tokens + t] = pack->n_tokens;
        pack->n_tokens += n, out->n_tokens += n;
    }
    return SW_OK;
}
