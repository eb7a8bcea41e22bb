/* soc_memory.h: DRAM bandwidth and system-level cache (SLC, the driver's LLCC) of SoCs. */
#ifndef SW_SOC_SOC_MEMORY_H
#define SW_SOC_SOC_MEMORY_H

#include "soc/soc.h"

typedef enum sw_compute_slice {
    SW_SLICE_UNKNOWN, /* no slice table of this SoC is public */
    SW_SLICE_NONE,    /* the table has no slice for the compute DSP */
    SW_SLICE_LISTED,
} sw_compute_slice;

typedef struct sw_soc_memory {
    const char *soc;
    uint32_t slc_kb; /* the whole cache; 0: unknown */
    sw_compute_slice compute;
    uint32_t slice_kb;       /* the most that the compute slice may hold; every other user may take of it */
    uint32_t slice_priority; /* a higher number wins a line */
    double dram_peak_gbps;   /* 10^9 bytes a second; 0: unknown */
} sw_soc_memory;

/* What is known of a SoC; all zero and SW_SLICE_UNKNOWN where nothing is. */
sw_soc_memory sw_soc_memory_of(const sw_soc *soc);

#endif
