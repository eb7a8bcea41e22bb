/* plan.h: blocks with lifetimes in one buffer: two blocks share bytes only where they never live at once. */
#ifndef SW_CPU_PLAN_H
#define SW_CPU_PLAN_H

#include <stdint.h>

#include "base/arena.h"

enum { SW_PLAN_ALIGNMENT = 64 };

typedef struct sw_plan_block {
    uint64_t size_bytes;
    uint32_t first, last; /* steps in which it is alive, both included; first <= last */
    uint64_t offset;      /* the answer, a multiple of SW_PLAN_ALIGNMENT */
} sw_plan_block;

/* Fills blocks[count].offset and the buffer's size. The arena gives working memory.
 * Errors: SW_NO_MEMORY, also where the sizes wrap. */
sw_code sw_plan(sw_plan_block *blocks, size_t count, sw_arena *arena, uint64_t *out_size_bytes,
                sw_error *err) SW_MUST_CHECK;

#endif
