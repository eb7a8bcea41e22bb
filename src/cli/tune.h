/* tune.h: compile --tune: forms of the graphs, by the traffic that Qualcomm's compiler tells of each. */
#ifndef SW_CLI_TUNE_H
#define SW_CLI_TUNE_H

#include "cli/target.h"

/* Compiles every kind of graph in every form of attention that --attention leaves open, alone, as `spillway
 * traffic` does and from its cache; prints what it tried on stderr, and puts the form of least DDR traffic
 * (read + write, which have spill and fill in them) into the target: the earlier, simpler one where two are
 * equal. What can't be compiled is passed over. Errors: SW_INVALID_ARGUMENT (a SoC by number), SW_LIBRARY
 * where no form of a graph compiles. */
sw_code sw_tune(sw_target *target, const sw_options *options, sw_error *err) SW_MUST_CHECK;

#endif
