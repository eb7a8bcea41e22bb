/* quantized_norm.c: RmsNorm of u8 and u16: x * r * gamma, cut, with r = 1 / sqrt(mean(x^2) + epsilon) of a
 * row.
 *
 * u16: HTP's arithmetic, to the bit. The sum of squares is exact; its mean, r and r * gamma are qf32
 * (cpu/qf32.h) in the order given here, found by comparing with the emulator (docs/numerics.md, "RmsNorm").
 * u8: r in double, results rounded to half precision, which lifts those just below an integer. */
#include <math.h>

#include "base/f16.h"
#include "cpu/qf32.h"
#include "cpu/quantized.h"

/* gamma over the output's scale, g = m * unit, and what it takes to make the step of g * r that of its
 * factors. Signs are in unit: m >= 0. */
typedef struct column {
    double m, unit;
} column;

bool sw_quantized_rms_norm_matches(const sw_op_call *call) {
    const sw_tensor *x = call->in[0], *gamma = call->in[1], *y = call->out;
    return sw_is_unsigned_quantized(x) && sw_is_unsigned_quantized(gamma) && y->dtype == x->dtype &&
           sw_same_elements(y, x) && gamma->rank == 1 && gamma->dims[0] == sw_last_dim(x);
}

size_t sw_quantized_rms_norm_scratch(const sw_op_call *call) {
    return call->out->dtype == SW_U16 ? sw_last_dim(call->in[0]) * sizeof(column) : 0;
}

static int64_t sum_of_squares(const sw_op_call *call, size_t row, size_t c) {
    const sw_tensor *x = call->in[0];
    int64_t sum = 0;
    for (size_t i = 0; i < c; i++) {
        const int64_t v = sw_load_unsigned(call->in_data[0], x->dtype, row * c + i) + x->encoding.offset;
        sum += v * v;
    }
    return sum;
}

/* A part of 32 bits over n: its two halves, each over n. */
static sw_qf32 part_of_mean(uint32_t sum, float by_n) {
    const float high = (float)(sum >> 16), low = (float)(sum & 0xffff);
    return sw_qf32_add(sw_qf32_multiply(sw_qf32_operand(high), sw_qf32_operand(65536 * by_n)),
                       sw_qf32_multiply(sw_qf32_operand(low), sw_qf32_operand(by_n)));
}

/* 1 / sqrt(sum / n + epsilon), all in units of the input's step: Newton's iteration, y (1.5 - x y^2 / 2). */
static float reciprocal_root(int64_t sum, float by_n, float epsilon) {
    const sw_qf32 high = part_of_mean((uint32_t)(sum >> 32), by_n), low = part_of_mean((uint32_t)sum, by_n);
    const sw_qf32 mean = sw_qf32_add(sw_qf32_multiply(high, sw_qf32_operand(0x1p32f)), low);
    const float x = sw_qf32_to_float(sw_qf32_add(mean, sw_qf32_operand(epsilon)));
    const float half = sw_qf32_product(x, 0.5f);
    union {
        float f;
        int32_t bits;
    } y = {.f = x};
    y.bits = 0x5f375a86 - (y.bits >> 1);
    for (int i = 0; i < 3; i++) {
        const float p = sw_qf32_product(sw_qf32_product(half, y.f), y.f);
        y.f = sw_qf32_product(y.f, sw_qf32_to_float(sw_qf32_round(1.5 - (double)p, 0, 0)));
    }
    return y.f;
}

static void make_columns(const sw_op_call *call, column *columns) {
    const sw_tensor *gamma = call->in[1];
    for (size_t i = 0; i < gamma->dims[0]; i++) {
        const int32_t q = sw_load_unsigned(call->in_data[1], gamma->dtype, i) + gamma->encoding.offset;
        const float g = (float)q * gamma->encoding.scale / call->out->encoding.scale;
        int e;
        const double m = frexp(fabs((double)g), &e);
        columns[i] = (column){ldexp(m, 23), ldexp(q < 0 ? -1 : 1, q == 0 ? -200 : e - 23)};
    }
}

/* floor(x * qf32(g * r)). The product with x, a qf32 too, stays between the same integers, but for zeros:
 * those with a minus sign (x = 0 and gamma < 0, or x < 0 and gamma = 0) fall to -1. */
static void rms_norm_rows_u16(const sw_op_call *call, size_t begin, size_t end) {
    const sw_tensor *x = call->in[0];
    const column *columns = call->scratch;
    const size_t c = sw_last_dim(x);
    const float scale = x->encoding.scale;
    const float epsilon = call->op->params.rms_norm.epsilon / (scale * scale), by_n = 1 / (float)c;
    const int32_t ox = x->encoding.offset, oy = call->out->encoding.offset;
    for (size_t row = begin; row < end; row++) {
        int e;
        const float r = reciprocal_root(sum_of_squares(call, row, c), by_n, epsilon);
        const double m = frexp((double)r, &e), unit = ldexp(1, e);
        const uint16_t *q = (const uint16_t *)call->in_data[0] + row * c;
        uint16_t *out = (uint16_t *)call->out_data + row * c;
        for (size_t i = 0; i < c; i++) {
            const double product = columns[i].m * m; /* below 2^23, and not below 2^22 where g * r carries */
            const int32_t step = (int32_t)product;
            const double at = product - step;
            const double middle = product >= 0x1p22 ? 0.5 : at <= 0.375 ? 0.25 : at <= 0.625 ? 0.5 : 0.75;
            const int32_t v = q[i] + ox;
            double y = (v == 0 ? 0x1p-60 : v) * ((step + middle) * (columns[i].unit * unit));
            y = y < -65536 ? -65536 : y > 131072 ? 131072 : y;
            int32_t floored = (int32_t)y;
            floored -= y < floored;
            floored -= oy;
            out[i] = (uint16_t)(floored < 0 ? 0 : floored > UINT16_MAX ? UINT16_MAX : floored);
        }
    }
}

static void rms_norm_rows_u8(const sw_op_call *call, size_t begin, size_t end) {
    const sw_tensor *x = call->in[0], *gamma = call->in[1], *y = call->out;
    const size_t c = sw_last_dim(x);
    const double scale = x->encoding.scale;
    const uint8_t *in = call->in_data[0];
    uint8_t *out = call->out_data;
    for (size_t r = begin; r < end; r++) {
        const double mean = (double)sum_of_squares(call, r, c) * scale * scale / (double)c;
        const double root = sqrt(mean + (double)call->op->params.rms_norm.epsilon);
        const double multiplier = scale * gamma->encoding.scale / y->encoding.scale / root;
        for (size_t i = 0; i < c; i++) {
            const int32_t v = in[r * c + i] + x->encoding.offset;
            const int32_t g = sw_load_unsigned(call->in_data[1], gamma->dtype, i) + gamma->encoding.offset;
            double q = (double)(v * g) * multiplier - y->encoding.offset;
            if (q < UINT8_MAX) q = sw_f16_to_f32(sw_f32_to_f16((float)q));
            out[r * c + i] = (uint8_t)sw_floor_saturated(q, UINT8_MAX);
        }
    }
}

static void rms_norm_rows(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    if (call->out->dtype == SW_U16)
        rms_norm_rows_u16(call, begin, end);
    else
        rms_norm_rows_u8(call, begin, end);
}

void sw_quantized_rms_norm_run(const sw_op_call *call) {
    sw_op_call copy = *call;
    if (call->out->dtype == SW_U16) make_columns(call, call->scratch);
    sw_pool_for(call->pool, (size_t)sw_tensor_elements(call->in[0]) / sw_last_dim(call->in[0]), 1,
                rms_norm_rows, &copy);
}
