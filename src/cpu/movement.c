/* movement.c: the ops that only move data: Transpose, Reshape, Concat, StridedSlice, Gather, and TopK
 * (top_k.c). One code for every type, since an element's bits don't change. */
#include <string.h>

#include "cpu/copy.h"
#include "cpu/top_k.h"

static bool same_type(const sw_op_call *call) {
    for (uint32_t i = 0; i < call->op->n_inputs; i++)
        if (call->in[i]->dtype != call->out->dtype) return false;
    return true;
}

/* A copy of t's whole block, strides of the input set. */
static sw_copy copy_of(const sw_op_call *call, uint32_t input) {
    const sw_tensor *t = call->in[input];
    sw_copy copy = {.element_bytes = sw_dtype_bytes(t->dtype), .rank = t->rank};
    for (uint32_t i = 0; i < t->rank; i++) copy.dims[i] = t->dims[i];
    sw_byte_strides(t, copy.in_strides);
    return copy;
}

static bool transpose_matches(const sw_op_call *call) {
    const sw_tensor *in = call->in[0], *out = call->out;
    bool seen[SW_MAX_RANK] = {false};
    if (!same_type(call) || in->rank != out->rank) return false;
    for (uint32_t i = 0; i < in->rank; i++) {
        uint32_t from = call->op->params.transpose.perm[i];
        if (from >= in->rank || seen[from] || out->dims[i] != in->dims[from]) return false;
        seen[from] = true;
    }
    return true;
}

static void transpose(const sw_op_call *call) {
    sw_copy in = copy_of(call, 0), copy = in;
    for (uint32_t i = 0; i < in.rank; i++) {
        uint32_t from = call->op->params.transpose.perm[i];
        copy.dims[i] = in.dims[from];
        copy.in_strides[i] = in.in_strides[from];
    }
    sw_byte_strides(call->out, copy.out_strides);
    sw_copy_run(&copy, call->in_data[0], call->out_data);
}

static bool reshape_matches(const sw_op_call *call) {
    return same_type(call) && sw_tensor_elements(call->in[0]) == sw_tensor_elements(call->out);
}

static void reshape(const sw_op_call *call) {
    memcpy(call->out_data, call->in_data[0], (size_t)sw_tensor_bytes(call->out));
}

static bool concat_matches(const sw_op_call *call) {
    uint32_t axis = call->op->params.concat.axis;
    uint64_t along = 0;
    if (!same_type(call) || axis >= call->out->rank) return false;
    for (uint32_t i = 0; i < call->op->n_inputs; i++) {
        if (call->in[i]->rank != call->out->rank) return false;
        for (uint32_t d = 0; d < call->out->rank; d++)
            if (d != axis && call->in[i]->dims[d] != call->out->dims[d]) return false;
        along += call->in[i]->dims[axis];
    }
    return along == call->out->dims[axis];
}

static void concat(const sw_op_call *call) {
    uint32_t axis = call->op->params.concat.axis;
    char *out = call->out_data;
    for (uint32_t i = 0; i < call->op->n_inputs; i++) {
        sw_copy copy = copy_of(call, i);
        sw_byte_strides(call->out, copy.out_strides);
        sw_copy_run(&copy, call->in_data[i], out);
        out += copy.dims[axis] * copy.out_strides[axis];
    }
}

static bool slice_matches(const sw_op_call *call) {
    const sw_tensor *in = call->in[0];
    if (!same_type(call) || in->rank != call->out->rank) return false;
    for (uint32_t i = 0; i < in->rank; i++) {
        uint32_t begin = call->op->params.strided_slice.begin[i], end = call->op->params.strided_slice.end[i];
        if (begin >= end || end > in->dims[i] || call->out->dims[i] != end - begin) return false;
    }
    return true;
}

static void slice(const sw_op_call *call) {
    sw_copy copy = copy_of(call, 0);
    const char *in = call->in_data[0];
    for (uint32_t i = 0; i < copy.rank; i++) {
        in += call->op->params.strided_slice.begin[i] * copy.in_strides[i];
        copy.dims[i] = call->out->dims[i];
    }
    sw_byte_strides(call->out, copy.out_strides);
    sw_copy_run(&copy, in, call->out_data);
}

static bool gather_matches(const sw_op_call *call) {
    const sw_tensor *in = call->in[0], *index = call->in[1], *out = call->out;
    if (in->dtype != out->dtype || index->dtype != SW_I32 || index->rank != 1 || in->rank != out->rank)
        return false;
    for (uint32_t i = 1; i < in->rank; i++)
        if (in->dims[i] != out->dims[i]) return false;
    return out->dims[0] == index->dims[0];
}

/* The device has checked that the indices are in range. */
static void gather(const sw_op_call *call) {
    sw_copy copy = copy_of(call, 0);
    sw_byte_strides(call->out, copy.out_strides);
    copy.dims[0] = 1;
    const int32_t *index = call->in_data[1];
    for (size_t i = 0; i < call->in[1]->dims[0]; i++)
        sw_copy_run(&copy, (const char *)call->in_data[0] + (size_t)index[i] * copy.in_strides[0],
                    (char *)call->out_data + i * copy.out_strides[0]);
}

const sw_kernel sw_kernels_movement[] = {
    {.name = "Transpose any", .op = SW_OP_TRANSPOSE, .matches = transpose_matches, .run = transpose},
    {.name = "Reshape any", .op = SW_OP_RESHAPE, .matches = reshape_matches, .run = reshape},
    {.name = "Concat any", .op = SW_OP_CONCAT, .matches = concat_matches, .run = concat},
    {.name = "StridedSlice any", .op = SW_OP_STRIDED_SLICE, .matches = slice_matches, .run = slice},
    {.name = "Gather any", .op = SW_OP_GATHER, .matches = gather_matches, .run = gather},
    {.name = "TopK any",
     .op = SW_OP_TOP_K,
     .matches = sw_top_k_matches,
     .scratch_bytes = sw_top_k_scratch_bytes,
     .run = sw_top_k_run},
};
const size_t sw_kernels_movement_count = sizeof sw_kernels_movement / sizeof *sw_kernels_movement;
