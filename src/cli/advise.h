/* advise.h: the SLC advisor on compiled graphs. */
#ifndef SW_CLI_ADVISE_H
#define SW_CLI_ADVISE_H

#include <jansson.h>

#include "bundle/manifest.h"
#include "soc/slc_advisor.h"

/* Advice for each graph of a manifest, from the figures that it holds and the shapes of its decoder.
 * advice [m->n_graphs]; dram_gbps 0: the table's. Errors: SW_INVALID_ARGUMENT (an unknown SoC), SW_NO_MEMORY.
 */
sw_code sw_advise(const sw_manifest *m, const sw_decoder *decoder, double dram_gbps, sw_slc_advice *advice,
                  sw_error *err) SW_MUST_CHECK;

/* The same with all that the model assumes; advice [m->n_graphs]. A new object, or NULL without memory. */
json_t *sw_advice_json(const sw_manifest *m, const sw_slc_advice *advice);

/* "kv_forward: SLC advice: off, spill and fill are ..." Returns out. */
enum { SW_ADVICE_LINE_BYTES = SW_SLC_REASON_BYTES + 160 };
const char *sw_advice_line(const sw_manifest *m, const sw_manifest_graph *g, char out[SW_ADVICE_LINE_BYTES]);

#endif
