/* spill_fill.h: what a load says of its spill-fill buffer. */
#ifndef SW_SOC_SPILL_FILL_H
#define SW_SOC_SPILL_FILL_H

#include <stdint.h>

enum { SW_SPILL_FILL_LINE_BYTES = 200 };

/* "spill-fill buffer: 1,835,008 B for 4 contexts, largest: shard 1 prefill_forward". largest_graph: the label
 * of the graph that needs the most; with bytes 0 no graph needs any. Returns out. */
const char *sw_spill_fill_line(uint64_t bytes, uint32_t n_contexts, const char *largest_graph,
                               char out[SW_SPILL_FILL_LINE_BYTES]);

#endif
