/* sink.h: the first tokens of every context, computed once (PrefixQuant, arXiv 2410.05265). */
#ifndef SW_QUANT_SINK_H
#define SW_QUANT_SINK_H

#include "quant/quant.h"

/* K and V of ids[n_ids] as a context's first tokens, by the float model, in the arena: f32. n_ids > 0.
 * Errors: SW_INVALID_ARGUMENT (an id out of range), SW_BAD_DATA (a value that isn't finite), the device's. */
sw_code sw_sink_compute(sw_sink *out, const sw_model *model, sw_device *device, const int32_t *ids,
                        uint32_t n_ids, sw_arena *arena, sw_error *err) SW_MUST_CHECK;

/* Gives the decoder that sink: f32 values rounded into the type and encodings of its K and V, in its arena.
 * A sink of no tokens, or NULL, changes nothing. Errors: SW_NO_MEMORY. */
sw_code sw_sink_attach(sw_decoder *decoder, const sw_sink *sink, sw_error *err) SW_MUST_CHECK;

#endif
