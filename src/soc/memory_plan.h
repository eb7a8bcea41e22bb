/* memory_plan.h: what a decoder needs of a SoC's memory, from its graphs alone: no weights, no compiler.
 *
 * The decoder has its types, but may have neither data nor encodings. All sizes are bytes. */
#ifndef SW_SOC_MEMORY_PLAN_H
#define SW_SOC_MEMORY_PLAN_H

#include "graph/decoder.h"
#include "soc/context_size.h"
#include "soc/slc_advisor.h"

typedef struct sw_plan_graph {
    const char *name; /* "prefill_forward" */
    uint32_t shard, ar_len, n_ops;
    uint32_t head_pieces; /* in which it computes its logits; 1: whole, or it has none */
    sw_layer_run layers;
    uint64_t weight_bytes; /* of the constants that it reads, as a context binary stores them */
    uint64_t kv_in_bytes;  /* cache inputs */
    uint64_t kv_out_bytes; /* new entries */
    uint64_t other_in_bytes, other_out_bytes;
    uint64_t activation_bytes; /* most that is alive at once of what its ops make; a Reshape makes nothing */
    const char *activation_op; /* where */
    uint64_t dram_bytes;       /* what a call must move at least: weights, inputs, outputs, each once */
} sw_plan_graph;

typedef struct sw_plan_shard {
    sw_layer_run layers;
    uint64_t weight_bytes;  /* of its context: each constant once where graphs share, else once a graph; what
                               a device maps as one buffer */
    uint64_t context_bytes; /* the binary, estimated */
    uint64_t largest_weight_bytes; /* a head in pieces as one */
    const char *largest_weight;
} sw_plan_shard;

typedef struct sw_memory_plan {
    const sw_soc *soc;
    bool weight_sharing;
    uint32_t opt_level;
    uint32_t n_shards, n_kinds;
    sw_plan_shard shards[SW_MAX_SHARDS];
    sw_plan_graph graphs[SW_MAX_GRAPHS]; /* in the decoder's order */
    uint64_t context_bytes;              /* of all shards */
    uint64_t largest_context_bytes;
    uint32_t largest_shard;
    uint64_t kv_cache_bytes; /* of a session: all positions, all layers, once for all graphs */
    uint64_t kv_bytes_if_a_graph_had_its_own;
    uint64_t other_io_bytes;  /* of all graphs; hidden states between shards once */
    uint64_t embedding_bytes; /* the host's table; 0 where it is the head's own constant */
    double dram_gbps;         /* peak; 0: unknown */
    sw_interval prefill_tokens,
        decode_tokens; /* a second, bound by DRAM; all 0 where unknown or no such graph */
} sw_memory_plan;

/* opt_level: the compiler's, 1 to 3. dram_gbps 0: the table's. The plan is large: keep it off small stacks.
 * Texts are the decoder's. Errors: SW_INVALID_ARGUMENT (no types yet), SW_NO_MEMORY. */
sw_code sw_memory_plan_make(sw_memory_plan *out, const sw_decoder *decoder, const sw_soc *soc,
                            bool weight_sharing, uint32_t opt_level, double dram_gbps,
                            sw_error *err) SW_MUST_CHECK;

/* Does every context fit the limit, and the weights of each the bound (0: none)? */
bool sw_memory_plan_fits(const sw_memory_plan *plan, uint64_t most_weight_bytes);

/* Peak of the bytes of a graph's activations alive at once, and the op where it is (NULL without ops). */
sw_code sw_activation_peak(const sw_graph *graph, uint64_t *bytes, const char **op,
                           sw_error *err) SW_MUST_CHECK;

/* Which tensor's bytes each tensor is (its own, or through Reshapes another's), and of those the last op that
 * touches them. root, last [graph->n_tensors]. */
void sw_find_lifetimes(const sw_graph *graph, uint32_t *root, uint32_t *last);

/* The type that weights meet: that of the first activation. */
sw_dtype sw_graph_activation_type(const sw_graph *graph);

#endif
