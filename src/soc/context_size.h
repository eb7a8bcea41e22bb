/* context_size.h: what a context binary needs, and what may be loaded: the numbers, once.
 *
 * Measured with Qualcomm's library 2.51, SM8750, O3; docs/memory.md has the runs. A binary holds the integers
 * of its constants, their encodings, and for each graph the compiled ops. Where graphs share weights, constants
 * stand once, but for a few kinds that the compiler keeps a graph. */
#ifndef SW_SOC_CONTEXT_SIZE_H
#define SW_SOC_CONTEXT_SIZE_H

#include "graph/ir.h"

/* What one process domain of the DSP can map: 4 GiB of addresses, of which about 3.75 are to be had (ExecuTorch's
 * Qualcomm LLM page; loads that fail with "no available PD" estimate 4,025,634,048 bytes). */
#define SW_CONTEXT_LIMIT_BYTES 4026531840u

/* The largest single buffers whose mapping users report to fail, 290 to 820 MB (public issues of ExecuTorch and
 * ONNX Runtime); the cause isn't known. */
#define SW_LARGE_WEIGHT_BYTES 290000000u

/* A compiled op, and what weights add to the ops that stream them. */
#define SW_OP_BYTES            660u
#define SW_OP_BYTES_OF_WEIGHTS 0.0043

/* An output channel's encoding: beside 16-bit or float activations two values more than beside 8-bit ones. */
enum { SW_CHANNEL_BYTES_16 = 16, SW_CHANNEL_BYTES_8 = 8 };

/* A constant as a context binary stores it, encodings included; activation: the type beside it. */
uint64_t sw_constant_stored_bytes(const sw_tensor *t, sw_dtype activation);

/* Of these, what each graph has a copy of although graphs share weights. */
uint64_t sw_constant_unshared_bytes(const sw_tensor *t, sw_dtype activation);

#endif
