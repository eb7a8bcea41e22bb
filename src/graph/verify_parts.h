/* verify_parts.h: parts of sw_graph_verify. Internal to src/graph. */
#ifndef SW_GRAPH_VERIFY_PARTS_H
#define SW_GRAPH_VERIFY_PARTS_H

#include "graph/ir.h"

/* Rank, dimensions, encoding or form and scales of a tensor. Errors: SW_BAD_DATA. */
sw_code sw_verify_tensor(const sw_graph *graph, const sw_tensor *t, sw_error *err) SW_MUST_CHECK;

/* The types of an op's inputs and output, and the form of its weights, against the one table. Indices and
 * arity are checked. Errors: SW_BAD_DATA with what is there and what is allowed. */
sw_code sw_verify_op_types(const sw_graph *graph, const sw_op *op, sw_error *err) SW_MUST_CHECK;

#endif
