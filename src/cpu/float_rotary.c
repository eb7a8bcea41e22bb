/* float_rotary.c: RotaryEmbedding in halves order: element i of a head is turned against element i + d / 2 by
 * the angle of its position and i (Su et al., "RoFormer", 2021). */
#include "cpu/float.h"

static bool shapes(const sw_op_call *call) {
    const sw_tensor *x = call->in[0], *cosine = call->in[1];
    return x->rank == 4 && x->dims[0] == 1 && sw_same_shape(x, call->out) && cosine->rank == 3 &&
           sw_same_shape(cosine, call->in[2]) && cosine->dims[0] == 1 && cosine->dims[1] == x->dims[2] &&
           x->dims[3] % 2 == 0 && cosine->dims[2] == x->dims[3] / 2;
}

/* Rows are (head, position). */
static void run_rows(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    size_t n = call->in[0]->dims[2], d = call->in[0]->dims[3], half = d / 2;
    for (size_t row = begin; row < end; row++) {
        const float *x = (const float *)call->in_data[0] + row * d;
        const float *c = (const float *)call->in_data[1] + row % n * half;
        const float *s = (const float *)call->in_data[2] + row % n * half;
        float *y = (float *)call->out_data + row * d;
        for (size_t i = 0; i < half; i++) {
            y[i] = x[i] * c[i] - x[i + half] * s[i];
            y[i + half] = x[i + half] * c[i] + x[i] * s[i];
        }
    }
}

static void run(const sw_op_call *call) {
    sw_op_call copy = *call; /* the pool's context isn't const */
    sw_pool_for(call->pool, sw_rows_count(call->in[0]), sw_row_grain(sw_last_dim(call->in[0])), run_rows,
                &copy);
}

const sw_float_op sw_float_rotary = {.shapes = shapes, .run = run};
