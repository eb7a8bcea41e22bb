/* compile_memory.h: how much memory a compile takes, and how much there is: the measured factors, once. */
#ifndef SW_CLI_COMPILE_MEMORY_H
#define SW_CLI_COMPILE_MEMORY_H

#include "quant/quant.h"
#include "soc/memory_plan.h"

/* Upper ends of what was measured (docs/memory.md). */
#define SW_COMPILE_OWN_BYTES            268435456u /* this program, whatever the model */
#define SW_COMPILE_OWN_WEIGHT           1u         /* for each weight */
#define SW_COMPILE_GPTQ_SQUARE          28u        /* for each pair of a layer's widest input, with gptq */
#define SW_COMPILE_COMPILER_BYTES       419430400u /* Qualcomm's compiler, whatever the shard */
#define SW_COMPILE_COMPILER_WEIGHT_BYTE 8u         /* for each byte of the shard's integers or f16 */
#define SW_COMPILE_ROTATED_WEIGHT       4u         /* addresses: rotated weights are a mapped file of f32 */

typedef struct sw_compile_memory {
    uint64_t own_bytes;     /* this process before the compiler starts */
    uint64_t shard_bytes;   /* the compiler with the largest shard, in a process of its own */
    uint64_t needed_bytes;  /* of both at once, one shard at a time */
    uint64_t address_bytes; /* what a process maps with that */
} sw_compile_memory;

/* The decoder has its types; rotates: its weights are to be rotated first. */
sw_compile_memory sw_compile_memory_of(const sw_decoder *decoder, const sw_memory_plan *plan,
                                       const sw_recipe *recipe, bool rotates);

/* SW_NO_MEMORY where this process may not have as much: by its limits (ulimit) or its control group's. Where
 * the machine has less to spare, a warning. */
sw_code sw_compile_memory_check(const sw_compile_memory *memory, sw_error *err) SW_MUST_CHECK;

/* Says behind an error's sentence how much the compile needs, where the error is or may be of too little
 * memory. Returns the code, SW_NO_MEMORY where it is one. */
sw_code sw_compile_memory_explain(const sw_compile_memory *memory, sw_code code, sw_error *err);

/* What the machine has to spare, bytes; UINT64_MAX where it doesn't say. */
uint64_t sw_memory_available(void);

#endif
