/* float_matmul.c: FullyConnected and MatMul, both by gemm.h. */
#include "cpu/float.h"
#include "cpu/gemm.h"

static bool fully_connected_shapes(const sw_op_call *call) {
    const sw_tensor *x = call->in[0], *w = call->in[1], *y = call->out;
    return w->rank == 2 && sw_last_dim(x) == w->dims[1] && sw_last_dim(y) == w->dims[0] &&
           sw_rows_count(x) == sw_rows_count(y);
}

static sw_code fully_connected_prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    (void)arena;
    const sw_tensor *w = call->in[1];
    if (w->kind != SW_TENSOR_CONSTANT || w->data != NULL) return SW_OK;
    if (w->weight->rows != w->dims[0] || w->weight->cols != w->dims[1])
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s is [%u, %u], its view %s is [%u, %u]", w->name,
                       w->dims[0], w->dims[1], w->weight->file_name, w->weight->rows, w->weight->cols);
    return SW_OK;
}

static size_t fully_connected_scratch(const sw_op_call *call) {
    return sw_gemm_scratch_bytes(call->in[1]->dims[1], sw_pool_threads(call->pool));
}

static void fully_connected(const sw_op_call *call) {
    sw_gemm gemm = {.batches = 1,
                    .rows = sw_rows_count(call->in[0]),
                    .cols = call->in[1]->dims[0],
                    .k = call->in[1]->dims[1],
                    .x = call->in_data[0],
                    .w = sw_rows_of(call->in[1], call->in_data[1]),
                    .y = call->out_data};
    sw_gemm_run(&gemm, sw_f32_best(), call->scratch, call->pool);
}

const sw_float_op sw_float_fully_connected = {.n_activations = 1,
                                              .shapes = fully_connected_shapes,
                                              .prepare = fully_connected_prepare,
                                              .scratch_bytes = fully_connected_scratch,
                                              .run = fully_connected};

static bool matmul_shapes(const sw_op_call *call) {
    const sw_tensor *a = call->in[0], *b = call->in[1], *y = call->out;
    if (a->rank != 4 || b->rank != 4 || y->rank != 4) return false;
    bool transposed = call->op->params.matmul.transpose_in1;
    for (uint32_t i = 0; i < 2; i++)
        if (a->dims[i] != b->dims[i] || a->dims[i] != y->dims[i]) return false;
    return a->dims[2] == y->dims[2] && a->dims[3] == b->dims[transposed ? 3 : 2] &&
           y->dims[3] == b->dims[transposed ? 2 : 3];
}

static size_t matmul_scratch(const sw_op_call *call) {
    return sw_gemm_scratch_bytes(call->in[0]->dims[3], sw_pool_threads(call->pool));
}

static void matmul(const sw_op_call *call) {
    const sw_tensor *a = call->in[0];
    sw_gemm gemm = {.batches = (size_t)a->dims[0] * a->dims[1],
                    .rows = a->dims[2],
                    .cols = call->out->dims[3],
                    .k = a->dims[3],
                    .x = call->in_data[0],
                    .y = call->out_data};
    if (call->op->params.matmul.transpose_in1)
        gemm.w = (sw_rows){.cols = gemm.k, .f32 = call->in_data[1]};
    else
        gemm.b = call->in_data[1];
    sw_gemm_run(&gemm, sw_f32_best(), call->scratch, call->pool);
}

const sw_float_op sw_float_matmul = {.shapes = matmul_shapes, .scratch_bytes = matmul_scratch, .run = matmul};
