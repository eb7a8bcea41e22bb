/* plan.h: the memory plan of what the options ask for. */
#ifndef SW_CLI_PLAN_H
#define SW_CLI_PLAN_H

#include <stdio.h>

#include "cli/compile_memory.h"
#include "cli/target.h"
#include "soc/memory_plan.h"

/* A plan and the graphs that it is of. Too large for the stack: allocate it. */
typedef struct sw_planned {
    const char *model; /* as given, for messages */
    sw_decoder decoder;
    sw_memory_plan plan;
    sw_compile_memory compile; /* what compiling it takes */
    uint64_t parameters;
    uint32_t least_shards;      /* whose contexts fit the limit and the bound; 0: none of 1 to the most */
    uint64_t most_weight_bytes; /* the bound on a context's weights; 0: none */
} sw_planned;

/* Builds the graphs of a model's shapes, gives them types and plans them; and finds the least number of
 * shards that fits, which is the number planned for where the options name none (num_sharding 0). forms of
 * the target are chosen. Free with sw_planned_free after success. Errors: those of the builder, and of a
 * recipe that the HTP can't do. */
sw_code sw_planned_make(sw_planned *out, const sw_options *options, sw_target *target, const sw_model *model,
                        sw_error *err) SW_MUST_CHECK;
void sw_planned_free(sw_planned *planned);

/* SW_INVALID_ARGUMENT where a context exceeds what can be loaded or the bound on its weights, with the shards
 * that would fit, or the tensor that fits none. */
sw_code sw_planned_check(const sw_planned *planned, sw_error *err) SW_MUST_CHECK;

void sw_planned_print(const sw_planned *planned, const sw_target *target, FILE *stream);
sw_code sw_planned_print_json(const sw_planned *planned, const sw_target *target, FILE *stream,
                              sw_error *err) SW_MUST_CHECK;

#endif
