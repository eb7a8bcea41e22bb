/* lower.c: a graph's tensors, then its ops in order, each validated before it is added: the library's add
 * takes even an op it doesn't know, and its finalize then fails without a name. */
#include "qnn/lower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/f16.h"
#include "qnn/clock.h"
#include "qnn/error.h"

static const uint32_t qnn_types[SW_DTYPE_COUNT] = {
    [SW_F32] = QNN_DATATYPE_FLOAT_32,        [SW_F16] = QNN_DATATYPE_FLOAT_16,
    [SW_U8] = QNN_DATATYPE_UFIXED_POINT_8,   [SW_S8] = QNN_DATATYPE_SFIXED_POINT_8,
    [SW_U16] = QNN_DATATYPE_UFIXED_POINT_16, [SW_I32] = QNN_DATATYPE_INT_32,
};

static const uint32_t qnn_kinds[SW_TENSOR_KIND_COUNT] = {
    [SW_TENSOR_INPUT] = QNN_TENSOR_APP_WRITE,
    [SW_TENSOR_OUTPUT] = QNN_TENSOR_APP_READ,
    [SW_TENSOR_NATIVE] = QNN_TENSOR_NATIVE,
    [SW_TENSOR_CONSTANT] = QNN_TENSOR_STATIC,
};

static sw_code no_memory(const char *name, sw_error *err) {
    return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory to lower it", name);
}

/* The HTP takes blockwise weights as [in, channels] alone. */
bool sw_qnn_is_turned(const sw_tensor *t) {
    return t->kind == SW_TENSOR_CONSTANT && t->form.scales == SW_SCALES_BLOCKWISE;
}

static bool has_matrix_scales(const sw_tensor *t) {
    return t->channel_scales != NULL || t->block_scales != NULL;
}

/* Scales of an s8 matrix [channels, in]. */
static sw_code encode_matrix(const sw_tensor *t, sw_arena *arena, Qnn_QuantizeParams_t *q, sw_error *err) {
    const uint32_t channels = t->dims[0], bits = t->form.four_bit ? 4 : 8;
    const uint32_t n_blocks = t->form.scales == SW_SCALES_ROW ? 1 : t->dims[1] / t->form.block;
    if (t->form.scales == SW_SCALES_FLOAT_BLOCK) {
        Qnn_FloatScaleOffset_t *scales = sw_arena_array(arena, (size_t)channels * n_blocks, sizeof *scales);
        uint32_t *sizes = sw_arena_array(arena, 2, sizeof *sizes);
        if (scales == NULL || sizes == NULL) return no_memory(t->name, err);
        for (size_t i = 0; i < (size_t)channels * n_blocks; i++)
            scales[i].scale = sw_f16_to_f32(t->block_scales[i]);
        sizes[0] = 1, sizes[1] = t->form.block;
        q->quantizationEncoding = QNN_ENCODING_BW_FLOAT_BLOCK;
        q->u.bwFloatBlock.bitwidth = bits;
        q->u.bwFloatBlock.blockSize = sizes;
        q->u.bwFloatBlock.floatScaleOffset = scales;
        return SW_OK;
    }
    if (t->form.scales == SW_SCALES_ROW && t->form.four_bit) {
        q->quantizationEncoding = QNN_ENCODING_BW_AXIS_SCALE_OFFSET;
        q->u.bwAxis.bitwidth = bits;
        q->u.bwAxis.axis = 0;
        q->u.bwAxis.numElements = channels;
        q->u.bwAxis.scales = t->channel_scales;
        q->u.bwAxis.offsets = NULL;
        return SW_OK;
    }
    Qnn_ScaleOffset_t *scales = sw_arena_array(arena, channels, sizeof *scales);
    if (scales == NULL) return no_memory(t->name, err);
    for (uint32_t i = 0; i < channels; i++) scales[i].scale = t->channel_scales[i];
    if (t->form.scales == SW_SCALES_ROW) {
        q->quantizationEncoding = QNN_ENCODING_AXIS_SCALE_OFFSET;
        q->u.axis.axis = 0;
        q->u.axis.numScaleOffsets = channels;
        q->u.axis.scaleOffset = scales;
        return SW_OK;
    }
    Qnn_BlockwiseExpansion_t *blockwise = sw_arena_alloc(arena, sizeof *blockwise);
    if (blockwise == NULL) return no_memory(t->name, err);
    blockwise->axis = 1; /* of [in, channels], see sw_qnn_lower_tensor */
    blockwise->scaleOffsets = scales;
    blockwise->numBlocksPerAxis = n_blocks;
    blockwise->blockScaleBitwidth = 4;
    blockwise->blocksScale8 = t->block_steps;
    q->quantizationEncoding = QNN_ENCODING_BLOCKWISE_EXPANSION;
    q->u.blockwise = blockwise;
    return SW_OK;
}

sw_code sw_qnn_lower_tensor(const sw_tensor *t, sw_arena *arena, Qnn_Tensor_t *out, sw_error *err) {
    *out = (Qnn_Tensor_t){.version = QNN_TENSOR_V2};
    Qnn_TensorV2_t *v = &out->v2;
    v->name = t->name;
    v->type = qnn_kinds[t->kind];
    v->dataType = qnn_types[t->dtype];
    v->rank = t->rank;
    v->dimensions = (uint32_t *)t->dims; /* the library only reads it */
    v->sparseParams.type = QNN_UNDEFINED;
    Qnn_QuantizeParams_t *q = &v->quantizeParams;
    q->encodingDefinition = q->quantizationEncoding = QNN_UNDEFINED;
    if (!sw_dtype_quantized(t->dtype)) return SW_OK;
    q->encodingDefinition = QNN_DEFINED;
    if (!has_matrix_scales(t)) {
        q->quantizationEncoding = QNN_ENCODING_SCALE_OFFSET;
        q->u.scaleOffset = (Qnn_ScaleOffset_t){t->encoding.scale, t->encoding.offset};
        return SW_OK;
    }
    if (sw_qnn_is_turned(t)) {
        v->dimensions = sw_arena_array(arena, 2, sizeof *v->dimensions);
        if (v->dimensions == NULL) return no_memory(t->name, err);
        v->dimensions[0] = t->dims[1], v->dimensions[1] = t->dims[0];
    }
    return encode_matrix(t, arena, q, err);
}

/* A constant's data for the time of one call; *turned is for free(). */
static sw_code set_data(const sw_tensor *t, Qnn_Tensor_t *out, int8_t **turned, sw_error *err) {
    *turned = NULL;
    if (t->kind != SW_TENSOR_CONSTANT) return SW_OK;
    uint64_t size = sw_tensor_bytes(t);
    if (t->data == NULL || size > UINT32_MAX)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "constant %s: %s", t->name,
                       t->data == NULL ? "it has no data" : "4 GB or more");
    out->v2.clientBuf.data = (void *)t->data; /* the library only reads it */
    out->v2.clientBuf.dataSize = (uint32_t)size;
    if (!sw_qnn_is_turned(t)) return SW_OK;
    const size_t channels = t->dims[0], in = t->dims[1];
    const int8_t *data = t->data;
    int8_t *to = *turned = malloc((size_t)size);
    if (to == NULL) return no_memory(t->name, err);
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < in; i++) to[i * channels + c] = data[c * in + i];
    out->v2.clientBuf.data = to;
    return SW_OK;
}

static void describe(char *out, size_t capacity, const sw_tensor *t) {
    int n = snprintf(out, capacity, "%s %s[", t->name, sw_dtype_name(t->dtype));
    for (uint32_t i = 0; i < t->rank && n > 0 && (size_t)n < capacity; i++)
        n += snprintf(out + n, capacity - (size_t)n, "%s%u", i > 0 ? "," : "", t->dims[i]);
    if (n > 0 && (size_t)n < capacity) snprintf(out + n, capacity - (size_t)n, "]");
}

/* "kv_forward: op layer_0.q (FullyConnected; x u16[1,576], w s8[576,576] -> q u16[1,576])" */
static void describe_op(char *out, size_t capacity, const sw_graph *graph, const sw_op *op) {
    size_t n = (size_t)snprintf(out, capacity, "%s: op %s (%s;", graph->name, op->name,
                                sw_op_get_info(op->type)->name);
    for (uint32_t i = 0; i < op->n_inputs + op->n_outputs && n + 5 < capacity; i++) {
        uint32_t t = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        const char *gap = i == 0 ? " " : i == op->n_inputs ? " -> " : ", ";
        memcpy(out + n, gap, strlen(gap) + 1);
        n += strlen(out + n);
        describe(out + n, capacity - n, graph->tensors[t]);
        n += strlen(out + n);
    }
    if (n + 1 < capacity) memcpy(out + n, ")", 2);
}

/* The op's struct on the caller's, which must live as long as it. */
typedef struct op_call {
    Qnn_Tensor_t inputs[SW_MAX_INPUTS], outputs[SW_MAX_OUTPUTS];
    sw_qnn_params params;
    Qnn_OpConfig_t config;
} op_call;

/* rows: the second input where it is a part of a constant, or NULL. */
static void build_op(op_call *c, const sw_graph *graph, const sw_op *op, const Qnn_Tensor_t *tensors,
                     const Qnn_Tensor_t *rows) {
    for (uint32_t i = 0; i < op->n_inputs; i++) c->inputs[i] = tensors[op->inputs[i]];
    if (rows != NULL) c->inputs[1] = *rows;
    for (uint32_t i = 0; i < op->n_outputs; i++) c->outputs[i] = tensors[op->outputs[i]];
    sw_qnn_lower_params(graph, op, &c->params);
    c->config = (Qnn_OpConfig_t){.version = 1};
    c->config.v1.name = op->name;
    c->config.v1.packageName = QNN_OP_PACKAGE;
    c->config.v1.typeName = sw_op_get_info(op->type)->name;
    c->config.v1.numOfParams = c->params.count;
    c->config.v1.params = c->params.list;
    c->config.v1.numOfInputs = op->n_inputs;
    c->config.v1.inputTensors = c->inputs;
    c->config.v1.numOfOutputs = op->n_outputs;
    c->config.v1.outputTensors = c->outputs;
}

/* SW_UNSUPPORTED: it is the HTP that can't, not the library that failed. */
static sw_code fail_op(sw_error *err, uint64_t e, const char *step, const sw_graph *graph, const sw_op *op) {
    char text[400];
    describe_op(text, sizeof text, graph, op);
    sw_qnn_fail(err, e, "%s: %s", text, step);
    if (err != NULL) err->code = SW_UNSUPPORTED;
    return SW_UNSUPPORTED;
}

/* Makes the tensor in the graph; QNN copies a constant's data. */
static sw_code create_tensor(const sw_qnn_context *context, const sw_graph *graph,
                             const sw_qnn_lowered *lowered, const sw_tensor *t, sw_arena *arena,
                             Qnn_Tensor_t *out, sw_error *err) {
    int8_t *turned;
    char text[200];
    SW_TRY(sw_qnn_lower_tensor(t, arena, out, err));
    SW_TRY(set_data(t, out, &turned, err));
    sw_qnn_log_reset();
    Qnn_ErrorHandle_t e =
        SW_QNN_TIMED(context->qnn->library->htp->core.tensorCreateGraphTensor(lowered->graph.handle, out));
    free(turned);
    out->v2.clientBuf.data = NULL;
    out->v2.clientBuf.dataSize = 0;
    if (e == 0) return SW_OK;
    describe(text, sizeof text, t);
    return sw_qnn_fail(err, e, "%s: making tensor %s", graph->name, text);
}

/* The channels that an op takes of a constant: to QNN a constant of its own, "<op>.<constant>". */
static sw_code take_rows(const sw_graph *graph, const sw_op *op, sw_arena *arena, sw_tensor *out,
                         sw_error *err) {
    const sw_tensor *t = graph->tensors[op->inputs[1]];
    sw_weight view;
    sw_constant_rows(t, op->channels.begin, op->channels.end, out, &view);
    out->weight = NULL;
    out->name = sw_arena_printf(arena, "%s.%s", op->name, t->name);
    return out->name != NULL ? SW_OK : no_memory(op->name, err);
}

static sw_code add_op(const sw_qnn_context *context, const sw_graph *graph, const sw_op *op,
                      const sw_qnn_lowered *lowered, sw_arena *arena, sw_error *err) {
    const QnnCore_t *core = &context->qnn->library->htp->core;
    op_call call;
    Qnn_Tensor_t rows;
    if (op->channels.end != 0) {
        sw_tensor *part = sw_arena_alloc(arena, sizeof *part); /* its dims are borrowed */
        if (part == NULL) return no_memory(op->name, err);
        SW_TRY(take_rows(graph, op, arena, part, err));
        SW_TRY(create_tensor(context, graph, lowered, part, arena, &rows, err));
    }
    build_op(&call, graph, op, lowered->tensors, op->channels.end != 0 ? &rows : NULL);
    sw_qnn_log_reset();
    for (uint32_t i = 0; i < call.params.count; i++) {
        Qnn_Param_t *param = &call.params.list[i];
        if (param->paramType != QNN_PARAM_TENSOR) continue;
        Qnn_ErrorHandle_t e =
            SW_QNN_TIMED(core->tensorCreateGraphTensor(lowered->graph.handle, &param->u.tensor));
        if (e != 0)
            return sw_qnn_fail(err, e, "%s: making parameter %s.%s", graph->name, op->name, param->name);
    }
    Qnn_ErrorHandle_t e = SW_QNN_TIMED(core->backendValidateOpConfig(context->qnn->backend, call.config));
    if (e != 0) return fail_op(err, e, "the HTP can't do it", graph, op);
    e = SW_QNN_TIMED(core->graphAddNode(lowered->graph.handle, call.config));
    return e == 0 ? SW_OK : fail_op(err, e, "the library doesn't take it", graph, op);
}

/* Which tensors are made whole: not a constant of which every reader takes a part. used [n_tensors] */
static void find_used(const sw_graph *graph, bool *used) {
    for (uint32_t i = 0; i < graph->n_tensors; i++) used[i] = graph->tensors[i]->kind != SW_TENSOR_CONSTANT;
    for (uint32_t i = 0; i < graph->n_ops; i++)
        for (uint32_t k = 0; k < graph->ops[i].n_inputs; k++)
            used[graph->ops[i].inputs[k]] |= k != 1 || graph->ops[i].channels.end == 0;
}

sw_code sw_qnn_lower(sw_qnn_context *context, const sw_graph *graph, const sw_qnn_graph_options *options,
                     sw_arena *arena, sw_qnn_lowered *out, sw_error *err) {
    *out = (sw_qnn_lowered){0};
    SW_TRY(sw_qnn_graph_create(context, graph->name, options, &out->graph, err));
    out->graph.ir = graph;
    out->tensors = sw_arena_array(arena, graph->n_tensors, sizeof *out->tensors);
    if (out->tensors == NULL) return no_memory(graph->name, err);
    bool *used = sw_arena_array(arena, graph->n_tensors, sizeof *used);
    if (used == NULL) return no_memory(graph->name, err);
    find_used(graph, used);
    for (uint32_t i = 0; i < graph->n_tensors; i++)
        if (used[i])
            SW_TRY(create_tensor(context, graph, out, graph->tensors[i], arena, &out->tensors[i], err));
    for (uint32_t i = 0; i < graph->n_ops; i++)
        SW_TRY(add_op(context, graph, &graph->ops[i], out, arena, err));
    return SW_OK;
}

sw_code sw_qnn_validate_op(sw_qnn *qnn, const sw_graph *graph, const sw_op *op, sw_error *err) {
    op_call call;
    sw_tensor part;
    Qnn_Tensor_t *tensors = NULL, rows;
    sw_arena arena = SW_ARENA_EMPTY;
    sw_code code = SW_OK;
    tensors = sw_arena_array(&arena, graph->n_tensors, sizeof *tensors);
    if (tensors == NULL) code = no_memory(graph->name, err);
    for (uint32_t i = 0; code == SW_OK && i < op->n_inputs + op->n_outputs; i++) {
        uint32_t t = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        code = sw_qnn_lower_tensor(graph->tensors[t], &arena, &tensors[t], err);
    }
    if (code == SW_OK && op->channels.end != 0) {
        code = take_rows(graph, op, &arena, &part, err);
        if (code == SW_OK) code = sw_qnn_lower_tensor(&part, &arena, &rows, err);
    }
    if (code == SW_OK) {
        build_op(&call, graph, op, tensors, op->channels.end != 0 ? &rows : NULL);
        sw_qnn_log_reset();
        Qnn_ErrorHandle_t e = qnn->library->htp->core.backendValidateOpConfig(qnn->backend, call.config);
        if (e != 0) code = fail_op(err, e, "the HTP can't do it", graph, op);
    }
    sw_arena_free(&arena);
    return code;
}
