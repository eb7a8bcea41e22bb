/* fuse.h: what of a loaded graph can be done in fewer steps, without changing an integer. */
#ifndef SW_CPU_FUSE_H
#define SW_CPU_FUSE_H

#include "cpu/program.h"

/* Fills program->run, from program->steps: attention becomes one step, a Sigmoid that only x * Sigmoid(x)
 * reads is left out, a Reshape hands on its input, FullyConnecteds of one input are one call. Prolongs
 * last_use of what is then read later. made_by [n_tensors]: the op that makes a tensor, UINT32_MAX for
 * others. Errors: SW_NO_MEMORY. */
sw_code sw_fuse(sw_program *program, const uint32_t *made_by, sw_error *err) SW_MUST_CHECK;

#endif
