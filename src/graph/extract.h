/* extract.h: some ops as a graph of their own, to run them alone on a device. */
#ifndef SW_GRAPH_EXTRACT_H
#define SW_GRAPH_EXTRACT_H

#include "graph/ir.h"

/* A sealed graph in the arena with that op, its constants as they are, its other inputs as graph inputs in
 * the order of the op's (one that stands twice is one input), its output as the graph's. A Multiply of x by
 * Sigmoid(x) comes with the Sigmoid: the HTP computes both as one op. NULL without memory. Tensors keep their
 * names; the op's graph and its constants are borrowed. */
sw_graph *sw_graph_extract_op(sw_arena *arena, const sw_graph *graph, const sw_op *op);

/* The same for ops first to first + count - 1: what none of them makes is an input, the last one's output and
 * the graph's own outputs are outputs. */
sw_graph *sw_graph_extract_ops(sw_arena *arena, const sw_graph *graph, uint32_t first, uint32_t count);

#endif
