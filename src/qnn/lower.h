/* lower.h: from the IR to QNN's structs, one op to one op. */
#ifndef SW_QNN_LOWER_H
#define SW_QNN_LOWER_H

#include "graph/ir.h"
#include "qnn/context.h"

/* A graph of a context with all its ops. */
typedef struct sw_qnn_lowered {
    sw_qnn_graph graph;
    Qnn_Tensor_t *tensors; /* one for each of the IR's, same index; in the arena that was given */
} sw_qnn_lowered;

/* Makes the graph in the context and adds every tensor and op, each op after the library has said that it can
 * do it; not yet finalized. Constants need data; QNN copies it, so data may go after this call. `arena` holds
 * the result; names and dims are the IR's, borrowed.
 * Errors: SW_UNSUPPORTED (what the HTP can't do: op, types, the library's reason), SW_INVALID_ARGUMENT (a
 * constant without data), those of sw_qnn_graph_create, SW_NO_MEMORY. */
sw_code sw_qnn_lower(sw_qnn_context *context, const sw_graph *graph, const sw_qnn_graph_options *options,
                     sw_arena *arena, sw_qnn_lowered *out, sw_error *err) SW_MUST_CHECK;

/* Asks the library whether it can do one op, without a graph. SW_OK or SW_UNSUPPORTED with the reason. */
sw_code sw_qnn_validate_op(sw_qnn *qnn, const sw_graph *graph, const sw_op *op, sw_error *err) SW_MUST_CHECK;

/* One tensor's struct, without data; arena: for the scales of a channel-wise encoding. */
sw_code sw_qnn_lower_tensor(const sw_tensor *t, sw_arena *arena, Qnn_Tensor_t *out,
                            sw_error *err) SW_MUST_CHECK;

/* Blockwise weights [channels, in] go to the HTP as [in, channels], and MatMul's transpose_in1 turns to
 * false: the one form that its validation takes. */
bool sw_qnn_is_turned(const sw_tensor *t);

/* An op's parameters. Tensor parameters are static tensors with data, named "<op>.<parameter>". */
enum { SW_QNN_MAX_PARAMS = 2 };
typedef struct sw_qnn_params {
    Qnn_Param_t list[SW_QNN_MAX_PARAMS];
    uint32_t count;
    char names[SW_QNN_MAX_PARAMS][128];
    uint32_t dims[2];
    uint32_t values[SW_MAX_RANK * 3]; /* data of the one tensor parameter that an op has */
} sw_qnn_params;

void sw_qnn_lower_params(const sw_graph *graph, const sw_op *op, sw_qnn_params *out);

#endif
