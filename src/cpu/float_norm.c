/* float_norm.c: RmsNorm: y = x / sqrt(mean(x^2) + epsilon) * gamma, over the last axis. The squares are
 * summed in double: exact products, and a sum whose error is far below a float's. */
#include <math.h>

#include "cpu/float.h"
#include "cpu/gemm.h"

static bool shapes(const sw_op_call *call) {
    const sw_tensor *gamma = call->in[1];
    return sw_same_shape(call->in[0], call->out) && gamma->rank == 1 &&
           gamma->dims[0] == sw_last_dim(call->in[0]) && gamma->kind == SW_TENSOR_CONSTANT;
}

/* prepared: gamma as floats, whatever it is stored as; it is a vector. */
static sw_code prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    const sw_tensor *gamma = call->in[1];
    if (gamma->data == NULL && (gamma->weight->rows != 1 || gamma->weight->cols != gamma->dims[0]))
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s is [%u], its view %s is [%u, %u]", gamma->name,
                       gamma->dims[0], gamma->weight->file_name, gamma->weight->rows, gamma->weight->cols);
    float *values = sw_arena_array(arena, gamma->dims[0], sizeof *values);
    if (values == NULL)
        return SW_FAIL(err, SW_NO_MEMORY, "no memory for %u floats of %s", gamma->dims[0], gamma->name);
    sw_rows rows = sw_rows_of(gamma, gamma->data);
    const float *row = sw_rows_get(&rows, sw_f32_best(), 0, values);
    for (uint32_t i = 0; row != values && i < gamma->dims[0]; i++) values[i] = row[i];
    call->prepared = values;
    return SW_OK;
}

static double sum_of_squares(size_t n, const float *x) {
    enum { LANES = 8 }; /* a fixed order that vectorizes */
    double lane[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] += (double)x[i + l] * x[i + l];
    for (size_t l = 0; l < LANES; l++) sum += lane[l];
    for (; i < n; i++) sum += (double)x[i] * x[i];
    return sum;
}

static void run_rows(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    size_t n = sw_last_dim(call->in[0]);
    const float *gamma = call->prepared, *x = (const float *)call->in_data[0] + begin * n;
    float *y = (float *)call->out_data + begin * n;
    for (size_t row = begin; row < end; row++, x += n, y += n) {
        double mean = sum_of_squares(n, x) / (double)n;
        double scale = 1 / sqrt(mean + (double)call->op->params.rms_norm.epsilon);
        for (size_t i = 0; i < n; i++) y[i] = (float)(scale * x[i] * gamma[i]);
    }
}

static void run(const sw_op_call *call) {
    sw_op_call copy = *call; /* the pool's context isn't const */
    sw_pool_for(call->pool, sw_rows_count(call->in[0]), sw_row_grain(sw_last_dim(call->in[0])), run_rows,
                &copy);
}

const sw_float_op sw_float_rms_norm = {.n_activations = 1, .shapes = shapes, .prepare = prepare, .run = run};
