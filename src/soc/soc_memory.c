/* soc_memory.c: the table of memory.inc. */
#include "soc/soc_memory.h"

#include <string.h>

#define SLICE    SW_SLICE_LISTED
#define NO_SLICE SW_SLICE_NONE
#define UNKNOWN  SW_SLICE_UNKNOWN

static const sw_soc_memory rows[] = {
#define SW_SOC_MEMORY(soc, slc_kb, compute, slice_kb, priority, gbps)                                        \
    {soc, slc_kb, compute, slice_kb, priority, gbps},
#include "soc/memory.inc"
#undef SW_SOC_MEMORY
};

sw_soc_memory sw_soc_memory_of(const sw_soc *soc) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].soc, soc->name) == 0) return rows[i];
    return (sw_soc_memory){.soc = soc->name};
}
