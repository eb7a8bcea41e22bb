/* plan.c: greedy placement by size: the largest block first, each into the smallest gap that is left between
 * the blocks that live at the same time, or behind them (Pisarchyk and Lee, "Efficient Memory Management for
 * Deep Neural Net Inference", 2020, section 5.2). Quadratic in the blocks, of which a graph has a few
 * thousand. */
#include "cpu/plan.h"

#include <stdlib.h>

#include "base/bytes.h"

static int by_size(const void *a, const void *b) {
    const sw_plan_block *x = *(sw_plan_block *const *)a, *y = *(sw_plan_block *const *)b;
    if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? 1 : -1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1; /* the same plan with every qsort */
    return x < y ? -1 : x > y;
}

/* Where `size` bytes fit best, given the placed blocks in the order of their offsets. */
static uint64_t best_offset(const sw_plan_block *block, uint64_t size, sw_plan_block *const *placed,
                            size_t n_placed) {
    uint64_t end = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
    for (size_t i = 0; i < n_placed; i++) {
        const sw_plan_block *other = placed[i];
        if (other->last < block->first || other->first > block->last) continue;
        if (other->offset > end) {
            uint64_t gap = other->offset - end;
            if (gap >= size && gap < best_gap) best = end, best_gap = gap;
        }
        uint64_t other_end = other->offset + other->size_bytes;
        if (other_end > end) end = (other_end + SW_PLAN_ALIGNMENT - 1) & ~(uint64_t)(SW_PLAN_ALIGNMENT - 1);
    }
    return best != UINT64_MAX ? best : end;
}

sw_code sw_plan(sw_plan_block *blocks, size_t count, sw_arena *arena, uint64_t *out_size_bytes,
                sw_error *err) {
    *out_size_bytes = 0;
    uint64_t sum = 0, padded;
    for (size_t i = 0; i < count; i++)
        if (!sw_align_u64(blocks[i].size_bytes, SW_PLAN_ALIGNMENT, &padded) || !sw_add_u64(sum, padded, &sum))
            return SW_FAIL(err, SW_NO_MEMORY, "the tensors' sizes add up to more than 2^64 bytes");

    sw_plan_block **order = sw_arena_array(arena, count, sizeof *order);
    sw_plan_block **placed = sw_arena_array(arena, count, sizeof *placed);
    if (order == NULL || placed == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < count; i++) order[i] = &blocks[i];
    if (count > 1) qsort(order, count, sizeof(*order), by_size);

    for (size_t n = 0; n < count; n++) {
        sw_plan_block *block = order[n];
        block->offset = best_offset(block, block->size_bytes, placed, n);
        uint64_t end = block->offset + block->size_bytes; /* at most `sum`, which fits */
        if (end > *out_size_bytes) *out_size_bytes = end;
        size_t at = n;
        for (; at > 0 && placed[at - 1]->offset > block->offset; at--) placed[at] = placed[at - 1];
        placed[at] = block;
    }
    return SW_OK;
}
