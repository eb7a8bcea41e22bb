/* float_exp.c: Softmax over the last axis, with the row's maximum taken off first, and Sigmoid as 1 / (1 +
 * e^-x) or e^x / (1 + e^x): no exponential of more than 0. */
#include "cpu/f32_isa.h"
#include "cpu/float.h"

enum { LANES = 16 }; /* partial sums: a fixed order that vectorizes */

static bool shapes(const sw_op_call *call) {
    return sw_same_shape(call->in[0], call->out);
}

static float greatest(size_t n, const float *x, float beta) {
    float lane[LANES], max;
    size_t i = 0;
    for (size_t l = 0; l < LANES; l++) lane[l] = beta * x[l < n ? l : 0];
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++) {
            float v = beta * x[i + l];
            lane[l] = v > lane[l] ? v : lane[l];
        }
    max = lane[0];
    for (size_t l = 1; l < LANES; l++) max = lane[l] > max ? lane[l] : max;
    for (; i < n; i++) max = beta * x[i] > max ? beta * x[i] : max;
    return max;
}

static float sum_of(size_t n, const float *x) {
    float lane[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] += x[i + l];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) lane[l] += lane[l + half];
    for (; i < n; i++) sum += x[i];
    return lane[0] + sum;
}

static void softmax_rows(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    const sw_f32_isa *isa = sw_f32_best();
    size_t n = sw_last_dim(call->in[0]);
    float beta = call->op->params.softmax.beta;
    for (size_t row = begin; row < end; row++) {
        const float *x = (const float *)call->in_data[0] + row * n;
        float *y = (float *)call->out_data + row * n;
        float max = greatest(n, x, beta);
        isa->exp(n, beta, max, x, y);
        float scale = 1 / sum_of(n, y); /* the sum is at least 1: the maximum's own */
        for (size_t i = 0; i < n; i++) y[i] *= scale;
    }
}

static void softmax(const sw_op_call *call) {
    sw_op_call copy = *call; /* the pool's context isn't const */
    sw_pool_for(call->pool, sw_rows_count(call->in[0]), sw_row_grain(sw_last_dim(call->in[0])), softmax_rows,
                &copy);
}

const sw_float_op sw_float_softmax = {.shapes = shapes, .run = softmax};

static void sigmoid_range(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    const float *x = call->in_data[0];
    float *y = call->out_data;
    for (size_t i = begin; i < end; i++) y[i] = x[i] < 0 ? x[i] : -x[i];
    sw_f32_best()->exp(end - begin, 1, 0, y + begin, y + begin);
    for (size_t i = begin; i < end; i++) y[i] = (x[i] < 0 ? y[i] : 1) / (1 + y[i]);
}

static void sigmoid(const sw_op_call *call) {
    sw_op_call copy = *call; /* the pool's context isn't const */
    sw_pool_for(call->pool, (size_t)sw_tensor_elements(call->out), 8192, sigmoid_range, &copy);
}

const sw_float_op sw_float_sigmoid = {.shapes = shapes, .run = sigmoid};
