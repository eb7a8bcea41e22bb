/* quantized_norm.c: RmsNorm, Softmax and RotaryEmbedding of u8 and u16: exact integers inside, one double at
 * the end. */
#include <math.h>

#include "base/f16.h"
#include "cpu/quantized.h"

/* e^x = 2^n * e^r, |r| <= ln 2 / 2, the series of e^r to the double's end. */
double sw_exp_of_negative(double x) {
    if (!(x > -700)) return 0;
    double n = (double)(int)(x * 1.4426950408889634 - 0.5);
    double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    double sum = 1;
    for (int i = 16; i > 0; i--) sum = 1 + sum * r / i;
    return ldexp(sum, (int)n); /* exact: a change of the exponent */
}

bool sw_quantized_rms_norm_matches(const sw_op_call *call) {
    const sw_tensor *x = call->in[0], *gamma = call->in[1], *y = call->out;
    return sw_is_unsigned_quantized(x) && sw_is_unsigned_quantized(gamma) && y->dtype == x->dtype &&
           sw_same_elements(y, x) && gamma->rank == 1 && gamma->dims[0] == sw_last_dim(x);
}

/* HTP truncates: u8 results are rounded to half precision first, which lifts those just below an integer. */
static void rms_norm_rows(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    const sw_tensor *x = call->in[0], *gamma = call->in[1], *y = call->out;
    const size_t c = sw_last_dim(x);
    const int32_t max = sw_dtype_max(y->dtype);
    const double scale = x->encoding.scale;
    for (size_t r = begin; r < end; r++) {
        int64_t squares = 0;
        for (size_t i = 0; i < c; i++) {
            int64_t v = (int64_t)sw_load_unsigned(call->in_data[0], x->dtype, r * c + i) + x->encoding.offset;
            squares += v * v;
        }
        double mean = (double)squares * scale * scale / (double)c;
        double root = sqrt(mean + (double)call->op->params.rms_norm.epsilon);
        double multiplier = scale * gamma->encoding.scale / y->encoding.scale / root;
        for (size_t i = 0; i < c; i++) {
            int64_t v = (int64_t)sw_load_unsigned(call->in_data[0], x->dtype, r * c + i) + x->encoding.offset;
            int64_t g = (int64_t)sw_load_unsigned(call->in_data[1], gamma->dtype, i) + gamma->encoding.offset;
            double q = (double)(v * g) * multiplier - y->encoding.offset;
            if (y->dtype == SW_U8 && q < max) q = sw_f16_to_f32(sw_f32_to_f16((float)q));
            sw_store_unsigned(call->out_data, y->dtype, r * c + i, sw_floor_saturated(q, max));
        }
    }
}

void sw_quantized_rms_norm_run(const sw_op_call *call) {
    sw_op_call copy = *call;
    sw_pool_for(call->pool, (size_t)sw_tensor_elements(call->in[0]) / sw_last_dim(call->in[0]), 1,
                rms_norm_rows, &copy);
}

bool sw_quantized_softmax_matches(const sw_op_call *call) {
    return sw_is_unsigned_quantized(call->in[0]) && call->out->dtype == call->in[0]->dtype &&
           sw_same_elements(call->out, call->in[0]);
}

/* u8: e^-(d * step) for each distance d to the row's greatest value. */
sw_code sw_quantized_softmax_prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    if (call->in[0]->dtype != SW_U8) return SW_OK;
    double *table = sw_arena_array(arena, 256, sizeof *table);
    if (table == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    double step = (double)call->in[0]->encoding.scale * call->op->params.softmax.beta;
    for (int d = 0; d < 256; d++) table[d] = sw_exp_of_negative(-d * step);
    call->prepared = table;
    return SW_OK;
}

/* HTP's u16 probabilities of a half and more have 15 bits. */
static int32_t even_above_half(int32_t q) {
    return q >= 32768 ? q & ~1 : q;
}

static void softmax_rows(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    const sw_tensor *x = call->in[0], *y = call->out;
    const size_t c = sw_last_dim(x);
    const double step = (double)x->encoding.scale * call->op->params.softmax.beta;
    const double *table = call->prepared;
    const sw_dtype type = y->dtype;
    const int32_t max = sw_dtype_max(type);
    for (size_t r = begin; r < end; r++) {
        int32_t top = 0;
        for (size_t i = 0; i < c; i++) {
            int32_t q = sw_load_unsigned(call->in_data[0], x->dtype, r * c + i);
            if (q > top) top = q;
        }
        double sum = 0;
        for (size_t i = 0; i < c; i++) {
            int32_t d = top - sw_load_unsigned(call->in_data[0], x->dtype, r * c + i);
            sum += table != NULL ? table[d] : sw_exp_of_negative(-d * step);
        }
        /* u16 falls just short of the exact value: 65534 of 65536 where one takes all, 8191 of 8192 for one
         * of 8. */
        double multiplier = (type == SW_U16 ? 1 - 0x1p-17 : 1) / (sum * y->encoding.scale);
        for (size_t i = 0; i < c; i++) {
            int32_t d = top - sw_load_unsigned(call->in_data[0], x->dtype, r * c + i);
            double e = table != NULL ? table[d] : sw_exp_of_negative(-d * step);
            int32_t q = type == SW_U16
                            ? even_above_half(sw_floor_saturated(e * multiplier - y->encoding.offset, max))
                            : sw_half_up_saturated(e * multiplier, y->encoding.offset, max);
            sw_store_unsigned(call->out_data, type, r * c + i, q);
        }
    }
}

void sw_quantized_softmax_run(const sw_op_call *call) {
    sw_op_call copy = *call;
    sw_pool_for(call->pool, (size_t)sw_tensor_elements(call->in[0]) / sw_last_dim(call->in[0]), 1,
                softmax_rows, &copy);
}

bool sw_quantized_rotary_matches(const sw_op_call *call) {
    const sw_tensor *x = call->in[0], *cosine = call->in[1], *sine = call->in[2];
    return sw_is_unsigned_quantized(x) && sw_is_unsigned_quantized(cosine) &&
           sw_is_unsigned_quantized(sine) && call->out->dtype == x->dtype && x->rank == 4 &&
           sw_same_elements(call->out, x) && x->dims[3] % 2 == 0 && x->dims[0] == 1 &&
           sw_tensor_elements(cosine) == (uint64_t)x->dims[2] * (x->dims[3] / 2) &&
           sw_same_elements(sine, cosine);
}

/* Rows are (head, position); row r has position r % n. */
static void rotary_rows(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    const sw_tensor *x = call->in[0], *cosine = call->in[1], *sine = call->in[2], *y = call->out;
    const size_t n = x->dims[2], half = x->dims[3] / 2;
    const double by_cos = (double)x->encoding.scale * cosine->encoding.scale / y->encoding.scale;
    const double by_sin = (double)x->encoding.scale * sine->encoding.scale / y->encoding.scale;
    const int32_t max = sw_dtype_max(y->dtype);
    for (size_t r = begin; r < end; r++)
        for (size_t i = 0; i < half; i++) {
            size_t at = r * 2 * half + i, angle = r % n * half + i;
            double a = sw_load_unsigned(call->in_data[0], x->dtype, at) + (double)x->encoding.offset;
            double b = sw_load_unsigned(call->in_data[0], x->dtype, at + half) + (double)x->encoding.offset;
            double c =
                (sw_load_unsigned(call->in_data[1], cosine->dtype, angle) + (double)cosine->encoding.offset) *
                by_cos;
            double s =
                (sw_load_unsigned(call->in_data[2], sine->dtype, angle) + (double)sine->encoding.offset) *
                by_sin;
            sw_store_unsigned(call->out_data, y->dtype, at,
                              sw_half_up_saturated(a * c - b * s, y->encoding.offset, max));
            sw_store_unsigned(call->out_data, y->dtype, at + half,
                              sw_half_up_saturated(b * c + a * s, y->encoding.offset, max));
        }
}

void sw_quantized_rotary_run(const sw_op_call *call) {
    const sw_tensor *x = call->in[0];
    sw_op_call copy = *call;
    sw_pool_for(call->pool, (size_t)x->dims[0] * x->dims[1] * x->dims[2], 1, rotary_rows, &copy);
}
