/* float.c: the table of float kernels, and f16: inputs to f32 in the scratch, the op on f32, the result
 * rounded to nearest even. That is at least as exact as an f16 kernel could be. s8 weights become f32 row by
 * row. */
#include "cpu/float.h"

#include "cpu/f32_isa.h"

static const sw_float_op *const float_ops[SW_OP_COUNT] = {
    [SW_OP_FULLY_CONNECTED] = &sw_float_fully_connected,
    [SW_OP_MATMUL] = &sw_float_matmul,
    [SW_OP_RMS_NORM] = &sw_float_rms_norm,
    [SW_OP_ROTARY_EMBEDDING] = &sw_float_rotary,
    [SW_OP_SOFTMAX] = &sw_float_softmax,
    [SW_OP_SIGMOID] = &sw_float_sigmoid,
    [SW_OP_ADD] = &sw_float_add,
    [SW_OP_MULTIPLY] = &sw_float_multiply,
};

static bool all_are(const sw_op_call *call, sw_dtype type) {
    for (uint32_t i = 0; i < call->op->n_inputs; i++)
        if (call->in[i]->dtype != type) return false;
    return call->out->dtype == type;
}

static bool matches_f32(const sw_op_call *call) {
    return all_are(call, SW_F32) && float_ops[call->op->type]->shapes(call);
}

static bool matches_f16(const sw_op_call *call) {
    return all_are(call, SW_F16) && float_ops[call->op->type]->shapes(call);
}

/* f16 activations, integer weights. */
static bool matches_f16_s8(const sw_op_call *call) {
    const sw_tensor *w = call->in[1];
    return call->in[0]->dtype == SW_F16 && call->out->dtype == SW_F16 && w->dtype == SW_S8 &&
           w->kind == SW_TENSOR_CONSTANT && float_ops[call->op->type]->shapes(call);
}

static sw_code prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    const sw_float_op *f = float_ops[call->op->type];
    return f->prepare != NULL ? f->prepare(call, arena, err) : SW_OK;
}

static size_t scratch_f32(const sw_op_call *call) {
    const sw_float_op *f = float_ops[call->op->type];
    return f->scratch_bytes != NULL ? f->scratch_bytes(call) : 0;
}

static void run_f32(const sw_op_call *call) {
    float_ops[call->op->type]->run(call);
}

/* The scratch of an f16 op: [in 0][in 1]..[out][the f32 kernel's own], each aligned to 64. */
static size_t f32_block_bytes(const sw_tensor *t) {
    return sw_align64((size_t)sw_tensor_elements(t) * sizeof(float));
}

static uint32_t n_activations(const sw_op_call *call) {
    uint32_t n = float_ops[call->op->type]->n_activations;
    return n > 0 ? n : call->op->n_inputs;
}

static size_t scratch_f16(const sw_op_call *call) {
    size_t bytes = f32_block_bytes(call->out) + scratch_f32(call);
    for (uint32_t i = 0; i < n_activations(call); i++) bytes += f32_block_bytes(call->in[i]);
    return bytes;
}

typedef struct conversion {
    const void *in;
    void *out;
    const sw_f32_isa *isa;
} conversion;

static void from_f16(void *context, size_t begin, size_t end) {
    conversion *c = context;
    c->isa->from_f16(end - begin, (const uint16_t *)c->in + begin, (float *)c->out + begin);
}

static void to_f16(void *context, size_t begin, size_t end) {
    conversion *c = context;
    c->isa->to_f16(end - begin, (const float *)c->in + begin, (uint16_t *)c->out + begin);
}

static void convert(const sw_op_call *call, sw_pool_body *body, const sw_tensor *t, const void *in,
                    void *out) {
    conversion c = {in, out, sw_f32_best()};
    sw_pool_for(call->pool, (size_t)sw_tensor_elements(t), 65536, body, &c);
}

static void run_f16(const sw_op_call *call) {
    sw_op_call f32 = *call;
    char *scratch = call->scratch;
    for (uint32_t i = 0; i < n_activations(call); i++) {
        convert(call, from_f16, call->in[i], call->in_data[i], scratch);
        f32.in_data[i] = scratch;
        scratch += f32_block_bytes(call->in[i]);
    }
    f32.out_data = scratch;
    f32.scratch = scratch + f32_block_bytes(call->out);
    run_f32(&f32);
    convert(call, to_f16, call->out, f32.out_data, call->out_data);
}

static bool widens(const sw_op_call *call) {
    return call->in[0]->dtype == SW_F16 && call->out->dtype == SW_F32 &&
           sw_same_shape(call->in[0], call->out);
}

static bool narrows(const sw_op_call *call) {
    return call->in[0]->dtype == SW_F32 && call->out->dtype == SW_F16 &&
           sw_same_shape(call->in[0], call->out);
}

static void widen(const sw_op_call *call) {
    convert(call, from_f16, call->out, call->in_data[0], call->out_data);
}

static void narrow(const sw_op_call *call) {
    convert(call, to_f16, call->out, call->in_data[0], call->out_data);
}

#define F32(type, label)                                                                                     \
    { label " f32", type, matches_f32, prepare, scratch_f32, run_f32 }
#define F16(type, label)                                                                                     \
    { label " f16", type, matches_f16, prepare, scratch_f16, run_f16 }

const sw_kernel sw_kernels_float[] = {
    F32(SW_OP_FULLY_CONNECTED, "FullyConnected"),
    F16(SW_OP_FULLY_CONNECTED, "FullyConnected"),
    {"FullyConnected f16 s8", SW_OP_FULLY_CONNECTED, matches_f16_s8, prepare, scratch_f16, run_f16},
    F32(SW_OP_MATMUL, "MatMul"),
    F16(SW_OP_MATMUL, "MatMul"),
    F32(SW_OP_RMS_NORM, "RmsNorm"),
    F16(SW_OP_RMS_NORM, "RmsNorm"),
    F32(SW_OP_ROTARY_EMBEDDING, "RotaryEmbedding"),
    F16(SW_OP_ROTARY_EMBEDDING, "RotaryEmbedding"),
    F32(SW_OP_SOFTMAX, "Softmax"),
    F16(SW_OP_SOFTMAX, "Softmax"),
    F32(SW_OP_SIGMOID, "Sigmoid"),
    F16(SW_OP_SIGMOID, "Sigmoid"),
    F32(SW_OP_ADD, "ElementWiseAdd"),
    F16(SW_OP_ADD, "ElementWiseAdd"),
    F32(SW_OP_MULTIPLY, "ElementWiseMultiply"),
    F16(SW_OP_MULTIPLY, "ElementWiseMultiply"),
    {.name = "Convert f16 f32", .op = SW_OP_CONVERT, .matches = widens, .run = widen},
    {.name = "Convert f32 f16", .op = SW_OP_CONVERT, .matches = narrows, .run = narrow},
};
const size_t sw_kernels_float_count = sizeof sw_kernels_float / sizeof *sw_kernels_float;
