/* float_binary.c: ElementWiseAdd and ElementWiseMultiply with numpy's broadcast: shapes are compared from the
 * right, and a dimension that is 1 or missing is repeated. */
#include "cpu/float.h"

static uint32_t dim_from_right(const sw_tensor *t, uint32_t i) {
    return i < t->rank ? t->dims[t->rank - 1 - i] : 1;
}

static bool shapes(const sw_op_call *call) {
    const sw_tensor *a = call->in[0], *b = call->in[1], *y = call->out;
    if (y->rank != (a->rank > b->rank ? a->rank : b->rank)) return false;
    for (uint32_t i = 0; i < y->rank; i++) {
        uint32_t da = dim_from_right(a, i), db = dim_from_right(b, i);
        if ((da != db && da != 1 && db != 1) || dim_from_right(y, i) != (da == 1 ? db : da)) return false;
    }
    return true;
}

/* The output as [outer dims][inner]: neighbours merged where both inputs go on alike. Strides in elements, 0
 * where an input is repeated. */
typedef struct broadcast {
    size_t rank, dims[SW_MAX_RANK], a[SW_MAX_RANK], b[SW_MAX_RANK]; /* innermost first */
    const float *in0, *in1;
    float *out;
} broadcast;

static broadcast plan(const sw_op_call *call) {
    broadcast p = {.rank = 0, .in0 = call->in_data[0], .in1 = call->in_data[1], .out = call->out_data};
    size_t next_a = 1, next_b = 1;
    for (uint32_t i = 0; i < call->out->rank; i++) {
        size_t n = dim_from_right(call->out, i);
        size_t na = dim_from_right(call->in[0], i), nb = dim_from_right(call->in[1], i);
        if (n == 1) continue;
        size_t a = na == 1 ? 0 : next_a, b = nb == 1 ? 0 : next_b;
        next_a *= na, next_b *= nb;
        size_t last = p.rank - 1;
        if (p.rank > 0 && a == p.a[last] * p.dims[last] && b == p.b[last] * p.dims[last]) {
            p.dims[last] *= n;
            continue;
        }
        p.dims[p.rank] = n, p.a[p.rank] = a, p.b[p.rank] = b;
        p.rank++;
    }
    if (p.rank == 0) p.rank = 1, p.dims[0] = 1;
    return p;
}

/* Calls the loop on each piece of output elements [begin, end) that lies in one inner run. */
#define BROADCAST_RANGE(name, operation)                                                                     \
    static void name(void *context, size_t begin, size_t end) {                                              \
        const broadcast *p = context;                                                                        \
        for (size_t at = begin; at < end;) {                                                                 \
            size_t column = at % p->dims[0], outer = at / p->dims[0];                                        \
            size_t n = p->dims[0] - column < end - at ? p->dims[0] - column : end - at;                      \
            const float *a = p->in0 + column * p->a[0], *b = p->in1 + column * p->b[0];                      \
            for (size_t i = 1; i < p->rank; i++) {                                                           \
                a += outer % p->dims[i] * p->a[i];                                                           \
                b += outer % p->dims[i] * p->b[i];                                                           \
                outer /= p->dims[i];                                                                         \
            }                                                                                                \
            float *y = p->out + at;                                                                          \
            if (p->a[0] == 1 && p->b[0] == 1)                                                                \
                for (size_t i = 0; i < n; i++) y[i] = a[i] operation b[i];                                   \
            else                                                                                             \
                for (size_t i = 0; i < n; i++) y[i] = a[i * p->a[0]] operation b[i * p->b[0]];               \
            at += n;                                                                                         \
        }                                                                                                    \
    }

BROADCAST_RANGE(add_range, +)
BROADCAST_RANGE(multiply_range, *)

static void run(const sw_op_call *call, sw_pool_body *body) {
    broadcast p = plan(call);
    sw_pool_for(call->pool, (size_t)sw_tensor_elements(call->out), 32768, body, &p);
}

static void add(const sw_op_call *call) {
    run(call, add_range);
}

static void multiply(const sw_op_call *call) {
    run(call, multiply_range);
}

const sw_float_op sw_float_add = {.shapes = shapes, .run = add};
const sw_float_op sw_float_multiply = {.shapes = shapes, .run = multiply};
