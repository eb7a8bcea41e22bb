/* tune.h: compile --tune: forms of the graphs, by the traffic that Qualcomm's compiler tells of each. */
#ifndef SW_CLI_TUNE_H
#define SW_CLI_TUNE_H

#include "cli/target.h"

/* Compiles every kind of graph at every optimization level and in every form of attention that the options
 * leave open, alone, as `spillway traffic` does and from its cache; prints what it tried on stderr, and puts
 * what moves the fewest bytes a token into the target:
 *
 *   bytes of a call    read + write, as the compiler tells them; spill is part of write and fill of read
 *   bytes a token      of a level: the sum over the kinds of (bytes of a call) / AR length, each in its best
 *                      form: a token that is read and one that is answered, so decode weighs AR times more
 *
 * layers: how many of the model's are compiled, with the head, where it is cut into shards (no process of the
 * HTP, and maybe no compiler, has room for all); 0: all. All graphs get one level: graphs of different levels
 * hardly share weights (docs/graph-forms.md). Of equals, the default is taken. What can't be compiled is
 * passed over. target->tuning, in the arena, is a JSON object of what was tried: {"layers", "levels":
 * [{"opt_level", "bytes_a_token" (null: some graph doesn't compile), "chosen"}], "tried": [{"graph",
 * "opt_level", "attention", "spill_fill_bytes", "spill", "fill", "write", "read" (null: doesn't compile),
 * "chosen"}]}. Errors: SW_INVALID_ARGUMENT (a SoC by number), SW_LIBRARY where there is no level at which
 * every graph compiles. */
sw_code sw_tune(sw_target *target, const sw_options *options, uint32_t layers, sw_arena *arena,
                sw_error *err) SW_MUST_CHECK;

#endif
