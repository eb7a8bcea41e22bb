/* context_size.h: how large a context binary gets, and what may be loaded: the numbers, once.
 *
 * Measured with Qualcomm's library 2.51 for SM8750 at O3, and O1 where it differs (docs/memory.md has the
 * runs). A binary holds the integers of its constants, their encodings, and the compiled ops of each graph.
 * Where graphs share weights, constants stand once, but for a few kinds that the compiler keeps for each
 * graph. */
#ifndef SW_SOC_CONTEXT_SIZE_H
#define SW_SOC_CONTEXT_SIZE_H

#include "graph/ir.h"

/* What one process domain of the DSP can map: 4 GiB of addresses, of which about 3.75 are to be had (the page
 * on LLMs of ExecuTorch's Qualcomm backend; a load that failed with "no available PD" asked for
 * 4,025,634,048). */
#define SW_CONTEXT_LIMIT_BYTES 4026531840u

/* From here on users report weight buffers that can't be mapped (290 to 820 MB; public issues of ExecuTorch
 * and ONNX Runtime). The cause isn't known; more shards make the buffers smaller, but for the head. */
#define SW_LARGE_WEIGHT_BYTES 290000000u

/* Activations that are alive at once beyond this share of the VTCM: every graph measured spilled there, and
 * but one none below (docs/memory.md). The rest of the VTCM holds weights on their way. */
#define SW_VTCM_SHARE_OF_ACTIVATIONS 0.4

/* The compiled form of an op, and what streaming its weights adds to it. */
#define SW_COMPILED_OP_BYTES      660.0
#define SW_COMPILED_WEIGHTS_SHARE 0.0043

/* The encoding of an output channel. */
enum {
    SW_CHANNEL_BYTES_WIDE = 16,
    SW_CHANNEL_BYTES_U8 = 8
}; /* beside 16-bit or float, and 8-bit activations */

typedef struct sw_stored_bytes {
    uint64_t shared;    /* once a context */
    uint64_t per_graph; /* once a graph, whether graphs share weights or not */
} sw_stored_bytes;

/* A constant as a context binary stores it, with its encoding. activation: the type of what it meets. */
sw_stored_bytes sw_constant_stored_bytes(const sw_tensor *t, sw_dtype activation);

/* At level 1 the integers of a matrix with row scales whose product is rotated aren't shared; encodings are.
 * (Measured to the byte on widths of 512; of 576 a tenth less.) */
void sw_keep_integers_apart(const sw_tensor *t, sw_stored_bytes *bytes);

/* The compiled ops of a graph with that many ops over that many bytes of constants. */
uint64_t sw_compiled_ops_bytes(uint32_t n_ops, uint64_t constant_bytes);

#endif
