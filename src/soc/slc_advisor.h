/* slc_advisor.h: will the system-level cache allocator help a graph? From the compiler's DDR figures and what
 * is public of the SoC, by an analytic model whose every assumption stands in slc_model.inc. Nothing of it is
 * measured on a device. */
#ifndef SW_SOC_SLC_ADVISOR_H
#define SW_SOC_SLC_ADVISOR_H

#include <stdbool.h>

#include "soc/soc_memory.h"

typedef struct sw_slc_assumption {
    const char *name;
    double value, low, high;
    const char *unit, *what, *source;
} sw_slc_assumption;

typedef enum sw_slc_assumption_id {
#define SW_SLC_ASSUMPTION(name, value, low, high, unit, what, source) SW_SLC_##name,
#include "soc/slc_model.inc"
#undef SW_SLC_ASSUMPTION
    SW_SLC_ASSUMPTION_COUNT
} sw_slc_assumption_id;

extern const sw_slc_assumption sw_slc_assumptions[SW_SLC_ASSUMPTION_COUNT];

/* What is known of a graph; bytes a call. */
typedef struct sw_slc_graph {
    bool traffic_known;                /* the next four, from the compiler's DDR summary: */
    uint64_t read, write, fill, spill; /* read has fill in it, write has spill */
    uint64_t spill_fill_bytes;         /* the spill-fill buffer's size */
    uint64_t weight_bytes, kv_bytes;   /* of these, what is read for weights and for the KV cache */
    uint32_t n_tokens;                 /* of a call: the AR length */
} sw_slc_graph;

/* low <= likely <= high. */
typedef struct sw_interval {
    double low, likely, high;
} sw_interval;

typedef enum sw_slc_verdict {
    SW_SLC_OFF,
    SW_SLC_ON,
    SW_SLC_MEASURE,       /* the model can't decide: measure on the device */
    SW_SLC_NOT_AVAILABLE, /* this SoC has no slice for the HTP */
    SW_SLC_VERDICT_COUNT
} sw_slc_verdict;

const char *sw_slc_verdict_name(sw_slc_verdict verdict); /* "off", "on", "measure", "not available" */
bool sw_slc_verdict_from_name(const char *name, sw_slc_verdict *out);

enum { SW_SLC_REASON_BYTES = 240 };

typedef struct sw_slc_advice {
    sw_slc_verdict verdict;
    char reason[SW_SLC_REASON_BYTES]; /* one sentence */
    sw_interval hit_rate;             /* of fills; between a cyclic LRU and the best replacement */
    sw_interval saved_bytes;          /* DDR bytes a call */
    double saved_share;               /* likely, of read + write */
    bool bandwidth_known;
    sw_interval tokens_off, tokens_on; /* a second, bound by DRAM alone; only where bandwidth_known */
    sw_interval energy_off, energy_on; /* J a token, of DRAM and cache alone */
    sw_interval energy_saved;          /* J a token; below 0: it costs more */
} sw_slc_advice;

/* dram_gbps: 0: the table's. Needs no device, allocates nothing. */
void sw_slc_advise(const sw_soc *soc, const sw_slc_graph *graph, double dram_gbps, sw_slc_advice *out);

/* The hit rate alone: of fills from a buffer in a cache of that capacity. */
sw_interval sw_slc_hit_rate(uint64_t buffer_bytes, double capacity_bytes);

#endif
