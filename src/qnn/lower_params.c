/* lower_params.c: each op's parameters, by QNN's op definitions and by what library 2.51 was seen to want. */
#include <stdio.h>
#include <string.h>

#include "qnn/lower.h"

static Qnn_Scalar_t *add_scalar(sw_qnn_params *p, const char *name, uint32_t type) {
    Qnn_Param_t *param = &p->list[p->count++];
    *param = (Qnn_Param_t){.paramType = QNN_PARAM_SCALAR, .name = name};
    param->u.scalar.dataType = type;
    return &param->u.scalar;
}

static void add_bool(sw_qnn_params *p, const char *name, bool value) {
    add_scalar(p, name, QNN_DATATYPE_BOOL_8)->value.bool8Value = value;
}

/* rank 1: [columns]; 2: [rows, columns]. The values are in p->values. */
static void add_tensor(sw_qnn_params *p, const sw_op *op, const char *name, uint32_t type, uint32_t rank,
                       uint32_t rows, uint32_t columns) {
    char *full_name = p->names[p->count];
    snprintf(full_name, sizeof p->names[0], "%s.%s", op->name, name);
    p->dims[0] = rank == 1 ? columns : rows;
    p->dims[1] = columns;
    Qnn_Param_t *param = &p->list[p->count++];
    *param = (Qnn_Param_t){.paramType = QNN_PARAM_TENSOR, .name = name};
    Qnn_Tensor_t *t = &param->u.tensor;
    *t = (Qnn_Tensor_t){.version = QNN_TENSOR_V2};
    t->v2.name = full_name;
    t->v2.type = QNN_TENSOR_STATIC;
    t->v2.dataType = type;
    t->v2.quantizeParams.encodingDefinition = QNN_UNDEFINED;
    t->v2.quantizeParams.quantizationEncoding = QNN_UNDEFINED;
    t->v2.rank = rank;
    t->v2.dimensions = p->dims;
    t->v2.clientBuf.data = p->values;
    t->v2.clientBuf.dataSize = (uint32_t)sizeof(uint32_t) * rows * columns;
    t->v2.sparseParams.type = QNN_UNDEFINED;
}

void sw_qnn_lower_params(const sw_graph *graph, const sw_op *op, sw_qnn_params *out) {
    const sw_tensor *in0 = graph->tensors[op->inputs[0]];
    uint32_t rank = in0->rank;
    memset(out, 0, sizeof *out);
    switch (op->type) {
    case SW_OP_MATMUL: /* both always: without them the validator of 2.51 crashes on channel-wise in1 */
        add_bool(out, "transpose_in0", false);
        add_bool(out, "transpose_in1",
                 op->params.matmul.transpose_in1 && !sw_qnn_is_turned(graph->tensors[op->inputs[1]]));
        break;
    case SW_OP_RMS_NORM: /* only the last axis is to be had */
        add_scalar(out, "epsilon", QNN_DATATYPE_FLOAT_32)->value.floatValue = op->params.rms_norm.epsilon;
        out->values[0] = rank - 1;
        add_tensor(out, op, "axes", QNN_DATATYPE_UINT_32, 1, 1, 1);
        break;
    case SW_OP_ROTARY_EMBEDDING: /* interleaved 0: pairs (i, i + d/2) */
        add_bool(out, "interleaved", false);
        add_scalar(out, "rotary_embedding_dim", QNN_DATATYPE_UINT_32)->value.uint32Value =
            in0->dims[rank - 1];
        break;
    case SW_OP_SOFTMAX:
        add_scalar(out, "axis", QNN_DATATYPE_UINT_32)->value.uint32Value = rank - 1;
        add_scalar(out, "beta", QNN_DATATYPE_FLOAT_32)->value.floatValue = op->params.softmax.beta;
        break;
    case SW_OP_TRANSPOSE:
        memcpy(out->values, op->params.transpose.perm, rank * sizeof *out->values);
        add_tensor(out, op, "perm", QNN_DATATYPE_UINT_32, 1, 1, rank);
        break;
    case SW_OP_CONCAT:
        add_scalar(out, "axis", QNN_DATATYPE_UINT_32)->value.uint32Value = op->params.concat.axis;
        break;
    case SW_OP_STRIDED_SLICE:
        for (uint32_t i = 0; i < rank; i++) {
            out->values[3 * i] = op->params.strided_slice.begin[i];
            out->values[3 * i + 1] = op->params.strided_slice.end[i];
            out->values[3 * i + 2] = 1;
        }
        add_tensor(out, op, "ranges", QNN_DATATYPE_INT_32, 2, rank, 3);
        break;
    case SW_OP_GATHER:
        add_scalar(out, "axis", QNN_DATATYPE_INT_32)->value.int32Value = 0;
        break;
    case SW_OP_TOP_K:
        add_scalar(out, "k", QNN_DATATYPE_UINT_32)->value.uint32Value =
            graph->tensors[op->outputs[0]]->dims[rank - 1];
        break;
    case SW_OP_FULLY_CONNECTED: /* the others have none, or their defaults are what is meant */
    case SW_OP_SIGMOID:
    case SW_OP_ADD:
    case SW_OP_MULTIPLY:
    case SW_OP_RESHAPE:
    case SW_OP_CONVERT:
    case SW_OP_COUNT:
        break;
    }
}
