/* top_k.h: QNN's TopK over the last axis, for every type. Internal to src/cpu. */
#ifndef SW_CPU_TOP_K_H
#define SW_CPU_TOP_K_H

#include "cpu/kernels.h"

bool sw_top_k_matches(const sw_op_call *call);
size_t sw_top_k_scratch_bytes(const sw_op_call *call); /* a heap of k entries */
void sw_top_k_run(const sw_op_call *call);

#endif
