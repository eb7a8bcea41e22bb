/* verify.h: the rules that every graph obeys before it is lowered, executed or stored. */
#ifndef SW_GRAPH_VERIFY_H
#define SW_GRAPH_VERIFY_H

#include "graph/decoder.h"

/* One graph: names unique; every tensor produced once and before its use; arity, ranks and shapes of each op;
 * types by the one table of verify.c; encodings finite, scale > 0; movement ops keep their encoding; no
 * Convert between equal types. Errors: SW_BAD_DATA with graph, op, tensors, what is there and what is
 * allowed. */
sw_code sw_graph_verify(const sw_graph *graph, sw_error *err) SW_MUST_CHECK;

/* All graphs, and what they must agree in: the border's shapes against the hyperparameters, and one type and
 * encoding for each K and V in every graph, as new entry and as cache, so that what one writes another can
 * read; and one for what a shard hands to the next. */
sw_code sw_decoder_verify(const sw_decoder *decoder, sw_error *err) SW_MUST_CHECK;

/* Number of ops of a type. */
uint32_t sw_graph_count_ops(const sw_graph *graph, sw_op_type type);

#endif
