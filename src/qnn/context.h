/* context.h: from a loaded library to finalized graphs: session (logger, backend, device of one SoC),
 * context, graph. One thread at a time calls the library. */
#ifndef SW_QNN_CONTEXT_H
#define SW_QNN_CONTEXT_H

#include "graph/ir.h"
#include "qnn/load.h"
#include "qnn/log.h"
#include "soc/soc.h"

/* A compiler for one SoC. The library is borrowed until close. */
typedef struct sw_qnn {
    const sw_qnn_library *library;
    const sw_soc *soc;
    Qnn_Handle_t log, backend, device;
} sw_qnn;

/* Errors: SW_LIBRARY. After one, nothing is left open. */
sw_code sw_qnn_open(sw_qnn *qnn, const sw_qnn_library *library, const sw_soc *soc,
                    sw_error *err) SW_MUST_CHECK;
void sw_qnn_close(sw_qnn *qnn); /* no-op on a zeroed or closed one; contexts first */

/* Graphs that are loaded together. weight_sharing: equal constants are stored once; such a binary can't be
 * loaded on a PC, only on a phone (the graphs do run in the process that made them). */
typedef struct sw_qnn_context {
    sw_qnn *qnn; /* borrowed */
    bool weight_sharing;
    Qnn_Handle_t handle;
} sw_qnn_context;

/* Errors: SW_UNSUPPORTED (weight sharing before V73), SW_LIBRARY. */
sw_code sw_qnn_context_create(sw_qnn_context *context, sw_qnn *qnn, bool weight_sharing,
                              sw_error *err) SW_MUST_CHECK;
void sw_qnn_context_free(sw_qnn_context *context); /* with its graphs; no-op on a zeroed or freed one */

typedef struct sw_qnn_graph_options {
    bool slc_allocator; /* "system-level cache allocator": optimization type 7 */
    uint32_t vtcm_mb;   /* 0: the SoC's; more than that is refused */
    uint32_t opt_level; /* 1 to 3 */
} sw_qnn_graph_options;

/* What was seen of a graph while it was made. */
typedef struct sw_qnn_graph {
    const char *name; /* borrowed */
    Qnn_Handle_t handle;
    uint32_t vtcm_mb;   /* that it was made for */
    const sw_graph *ir; /* borrowed; NULL: not known */
    int slc_allocate;   /* what the compiler itself says it has taken, 0 or 1; -1: it said nothing */
    bool slc_idle;      /* asked for, but the graph has no copies through DDR that the cache could hold */
    sw_qnn_ddr ddr;
    double finalize_seconds;
} sw_qnn_graph;

/* Errors: SW_INVALID_ARGUMENT (VTCM over the SoC's, level), SW_LIBRARY; SW_LIBRARY too where the compiler
 * says that it took another SLC setting than asked for. */
sw_code sw_qnn_graph_create(sw_qnn_context *context, const char *name, const sw_qnn_graph_options *options,
                            sw_qnn_graph *out, sw_error *err) SW_MUST_CHECK;

/* Compiles the graph; seconds to minutes, with a bar on a terminal. Errors: SW_LIBRARY; SW_UNSUPPORTED for an
 * op that doesn't fit into VTCM, with its layer and what it wants. */
sw_code sw_qnn_graph_finalize(sw_qnn_context *context, sw_qnn_graph *graph, sw_error *err) SW_MUST_CHECK;

/* The context with all its graphs, finalized before, as one binary: the room that it needs, then the binary
 * into data[capacity]. Errors: SW_LIBRARY. */
sw_code sw_qnn_context_binary_size(sw_qnn_context *context, uint64_t *capacity, sw_error *err) SW_MUST_CHECK;
sw_code sw_qnn_context_binary(sw_qnn_context *context, uint8_t *data, uint64_t capacity, uint64_t *size,
                              sw_error *err) SW_MUST_CHECK;

#endif
