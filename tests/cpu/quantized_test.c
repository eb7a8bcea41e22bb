/* The quantized kernels but for the matrix products, against long doubles of the same real numbers. */
#include "quantized_ops.h"

static long double real(const values *v, size_t i) {
    return ((long double)get(v, i) + v->t.encoding.offset) * v->t.encoding.scale;
}

/* Output i differs from the exact `steps` (real value over the scale), saturated, by low to high steps. */
static void expect_between(const values *y, size_t i, long double steps, double low, double high,
                           const char *what) {
    long double most = sw_dtype_max(y->t.dtype), exact = steps - y->t.encoding.offset;
    exact = exact < 0 ? 0 : exact > most ? most : exact;
    long double d = get(y, i) - exact;
    if (d < low - 1e-6L || d > high + 1e-6L)
        fail_msg("%s[%zu]: %d, exact %.6Lf, wanted a difference of %g to %g", what, i, get(y, i), exact, low,
                 high);
}

static int32_t middle(sw_dtype type) {
    return type == SW_U8 ? -128 : -32768;
}
static float fine(sw_dtype type) {
    return type == SW_U8 ? 1.0f : 1.0f / 256;
} /* the same range in more steps */

/* Cut, not rounded; u8 results are first rounded to half precision, whose step is 1/8 from 128 on; u16 ones
 * are of 22 bits before. */
static void rms_norm_truncates(void **state) {
    (void)state;
    for (sw_dtype type = SW_U8; type <= SW_U16; type += SW_U16 - SW_U8)
        for (uint32_t c = 1; c <= 577; c += 576 / 4) {
            values in[2] = {MAKE(type, 0.03f * fine(type), middle(type) + 7, 3, c),
                            MAKE(type, 0.01f * fine(type), middle(type) / 2, c)};
            values y = MAKE(type, 0.02f * fine(type), middle(type), 3, c);
            fill(&in[0], 0, sw_dtype_max(type));
            fill(&in[1], 0, sw_dtype_max(type));
            for (size_t i = 0; i < c; i++) set(&in[0], i, -in[0].t.encoding.offset); /* a row of zeros */
            sw_op op = {.type = SW_OP_RMS_NORM, .name = "norm", .n_inputs = 2, .n_outputs = 1};
            op.params.rms_norm.epsilon = 1e-5f;
            run_op(&op, in, 2, &y, NULL);
            for (size_t r = 0; r < 3; r++) {
                long double squares = 0;
                for (size_t i = 0; i < c; i++) squares += real(&in[0], r * c + i) * real(&in[0], r * c + i);
                long double root = sqrtl(squares / c + (long double)op.params.rms_norm.epsilon);
                for (size_t i = 0; i < c; i++)
                    expect_between(
                        &y, r * c + i, real(&in[0], r * c + i) / root * real(&in[1], i) / y.t.encoding.scale,
                        type == SW_U8 ? -1 : -1 - 1.0 / 64, type == SW_U8 ? 1.0 / 16 : 1.0 / 64, "RmsNorm");
            }
            release(&in[0]), release(&in[1]), release(&y);
        }
}

static void softmax_rows_are_probabilities(void **state) {
    (void)state;
    static const uint32_t lengths[] = {1, 31, 128, 577};
    for (sw_dtype type = SW_U8; type <= SW_U16; type += SW_U16 - SW_U8)
        for (size_t l = 0; l < 4; l++) {
            const uint32_t c = lengths[l];
            values x = MAKE(type, 0.2f * fine(type), middle(type), 1, 2, 3, c);
            values y = MAKE(type, type == SW_U8 ? 1.0f / 256 : 1.0f / 65536, 0, 1, 2, 3, c);
            fill(&x, 0, sw_dtype_max(type));
            for (size_t i = 0; i < c; i++) set(&x, i, i == 0 ? sw_dtype_max(type) : 0); /* one takes it all */
            sw_op op = {.type = SW_OP_SOFTMAX, .name = "softmax", .n_inputs = 1, .n_outputs = 1};
            op.params.softmax.beta = 0.25f;
            run_op(&op, &x, 1, &y, NULL);
            for (size_t r = 0; r < 6; r++) {
                long double sum = 0;
                for (size_t i = 0; i < c; i++) sum += expl(0.25L * real(&x, r * c + i));
                for (size_t i = 0; i < c; i++) {
                    long double steps = expl(0.25L * real(&x, r * c + i)) / sum / y.t.encoding.scale;
                    /* The exponent's multiplier is cut: u16 to 2^-22, times distances below 2^16; u8 by up to
                     * 1/128, times 6 octaves that aren't 0. */
                    double lsb = type == SW_U8 ? 0.5 + (double)steps / 20 : 3 + (double)steps / 90;
                    expect_between(&y, r * c + i, steps, -lsb, lsb, "Softmax");
                }
            }
            release(&x), release(&y);
        }
}

static void sigmoid_of_every_value(void **state) {
    (void)state;
    for (sw_dtype type = SW_U8; type <= SW_U16; type += SW_U16 - SW_U8) {
        uint32_t n = (uint32_t)sw_dtype_max(type) + 1;
        values x = MAKE(type, 0.07f * fine(type), middle(type) + 5, n);
        values y = MAKE(type, type == SW_U8 ? 1.0f / 256 : 1.0f / 65536, 0, n);
        for (uint32_t i = 0; i < n; i++) set(&x, i, (int32_t)i);
        sw_op op = {.type = SW_OP_SIGMOID, .name = "sigmoid", .n_inputs = 1, .n_outputs = 1};
        run_op(&op, &x, 1, &y, NULL);
        for (size_t i = 0; i < n; i++) {
            double lsb = type == SW_U8 ? 0.5 : 5; /* u16: 15 bits of a cubic, of an input that is cut */
            expect_between(&y, i, 1 / (1 + expl(-real(&x, i))) / y.t.encoding.scale, -lsb, lsb, "Sigmoid");
        }
        release(&x), release(&y);
    }
}

static void binary(sw_op_type type, values *a, values *b, values *y, double low, double high) {
    fill(a, 0, sw_dtype_max(a->t.dtype));
    fill(b, 0, sw_dtype_max(b->t.dtype));
    sw_op op = {.type = type, .name = "binary", .n_inputs = 2, .n_outputs = 1};
    values in[2] = {*a, *b};
    run_op(&op, in, 2, y, NULL);
    uint32_t rank = y->t.rank;
    for (size_t i = 0; i < count(y); i++) {
        size_t at[2] = {0, 0}, step[2] = {1, 1}, rest = i;
        for (uint32_t d = 0; d < rank; d++) { /* from the last dimension on */
            size_t index = rest % y->t.dims[rank - 1 - d];
            rest /= y->t.dims[rank - 1 - d];
            for (int k = 0; k < 2; k++) {
                const sw_tensor *t = &in[k].t;
                uint32_t size = d < t->rank ? t->dims[t->rank - 1 - d] : 1;
                at[k] += (size > 1 ? index : 0) * step[k];
                step[k] *= size;
            }
        }
        long double ra = real(a, at[0]), rb = real(b, at[1]);
        expect_between(y, i, (type == SW_OP_ADD ? ra + rb : ra * rb) / y->t.encoding.scale, low, high,
                       sw_op_get_info(type)->name);
    }
    release(a), release(b), release(y);
}

static void add_and_multiply_broadcast(void **state) {
    (void)state;
    for (sw_dtype type = SW_U8; type <= SW_U16; type += SW_U16 - SW_U8)
        for (int multiply = 0; multiply < 2; multiply++) {
            static const uint32_t shapes[][3][4] = {{{1, 3, 5, 7}, {1, 3, 5, 7}, {1, 3, 5, 7}},
                                                    {{1, 3, 4, 33}, {1, 1, 4, 33}, {1, 3, 4, 33}},
                                                    {{1, 2, 4, 1}, {1, 2, 1, 9}, {1, 2, 4, 9}},
                                                    {{1, 1, 1, 1}, {2, 3, 2, 31}, {2, 3, 2, 31}}};
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                float f = fine(type);
                values a = make(type, 0.02f * f, middle(type), 4, shapes[s][0]);
                values b = make(type, 0.03f * f, middle(type) + 11, 4, shapes[s][1]);
                values y = make(type, (multiply ? 0.05f : 0.04f) * f, middle(type) - 3, 4, shapes[s][2]);
                /* Add of u16 has multipliers of 15 bits: 65535 / 2^15 / 2 for each input more. Of u8, 13
                 * bits: 255 / 2^13 / 2 for each, and 1/64 for the offsets' share. Multiply of u16: a constant
                 * of up to 1/16 and a multiplier of 18 bits; of u8: 2^14 / 2^21, and 15 bits. */
                double lsb = multiply ? (type == SW_U8 ? 0.52 : 0.7) : type == SW_U8 ? 0.55 : 0.5 + 2;
                binary(multiply ? SW_OP_MULTIPLY : SW_OP_ADD, &a, &b, &y, -lsb, lsb);
            }
            values a = MAKE(type, 0.02f, -5, 3, 7), b = MAKE(type, 0.03f, -9, 7), y = MAKE(type, 1, 0, 3, 7);
            binary(multiply ? SW_OP_MULTIPLY : SW_OP_ADD, &a, &b, &y, -2.5, 2.5); /* b of lower rank */
        }
}

/* Powers of two: each result is exact, ties go up. */
static void add_of_equal_steps_is_exact(void **state) {
    (void)state;
    for (sw_dtype type = SW_U8; type <= SW_U16; type += SW_U16 - SW_U8) {
        values in[2] = {MAKE(type, 0.5f, -100, 4), MAKE(type, 0.25f, -50, 4)}, y = MAKE(type, 0.5f, -60, 4);
        static const int32_t a[] = {100, 101, 0, 200}, b[] = {51, 49, 0, 255}, want[] = {61, 61, 0, 263};
        for (size_t i = 0; i < 4; i++) set(&in[0], i, a[i]), set(&in[1], i, b[i]);
        sw_op op = {.type = SW_OP_ADD, .name = "add", .n_inputs = 2, .n_outputs = 1};
        run_op(&op, in, 2, &y, NULL);
        for (size_t i = 0; i < 4; i++)
            assert_int_equal(get(&y, i), want[i] > sw_dtype_max(type) ? sw_dtype_max(type) : want[i]);
        release(&in[0]), release(&in[1]), release(&y);
    }
}

static void rotary_turns_pairs(void **state) {
    (void)state;
    for (sw_dtype type = SW_U8; type <= SW_U16; type += SW_U16 - SW_U8) {
        enum { HEADS = 3, N = 5, D = 6, HALF = D / 2 };
        values in[3] = {MAKE(type, 0.05f * fine(type), middle(type) + 3, 1, HEADS, N, D),
                        MAKE(type, 1.0f / 127 * fine(type), middle(type), 1, N, HALF),
                        MAKE(type, 1.0f / 127 * fine(type), middle(type), 1, N, HALF)};
        values y = MAKE(type, 0.06f * fine(type), middle(type), 1, HEADS, N, D);
        for (int i = 0; i < 3; i++) fill(&in[i], 0, sw_dtype_max(type));
        sw_op op = {.type = SW_OP_ROTARY_EMBEDDING, .name = "rope", .n_inputs = 3, .n_outputs = 1};
        run_op(&op, in, 3, &y, NULL);
        for (size_t h = 0; h < HEADS; h++)
            for (size_t n = 0; n < N; n++)
                for (size_t i = 0; i < HALF; i++) {
                    size_t at = (h * N + n) * D + i;
                    long double a = real(&in[0], at), b = real(&in[0], at + HALF);
                    long double c = real(&in[1], n * HALF + i), s = real(&in[2], n * HALF + i);
                    long double step = y.t.encoding.scale;
                    double lsb = type == SW_U8 ? 0.5 : 0.75; /* u16: eighths of a step, cut twice */
                    expect_between(&y, at, (a * c - b * s) / step, -lsb, lsb, "RotaryEmbedding");
                    expect_between(&y, at + HALF, (b * c + a * s) / step, -lsb, lsb, "RotaryEmbedding");
                }
        for (int i = 0; i < 3; i++) release(&in[i]);
        release(&y);
    }
}

static void converts_between_widths(void **state) {
    (void)state;
    static const sw_dtype types[][2] = {{SW_U8, SW_U16}, {SW_U16, SW_U8}, {SW_U16, SW_U16}};
    static const double lsb[] = {-1.6, -0.52, -0.5};
    for (size_t t = 0; t < 3; t++) {
        uint32_t n = (uint32_t)sw_dtype_max(types[t][0]) + 1;
        values x = MAKE(types[t][0], 0.017f * fine(types[t][0]), middle(types[t][0]) + 9, n);
        values y = MAKE(types[t][1], 0.013f * fine(types[t][1]), middle(types[t][1]), n);
        for (uint32_t i = 0; i < n; i++) set(&x, i, (int32_t)i);
        sw_op op = {.type = SW_OP_CONVERT, .name = "convert", .n_inputs = 1, .n_outputs = 1};
        run_op(&op, &x, 1, &y, NULL);
        for (size_t i = 0; i < n; i++)
            /* u8 to u16: a multiplier of 15 bits, at most 197 here, times at most 137. u16 to u8: of 14 bits,
             * and a constant rounded up by less than 1/64. */
            expect_between(&y, i, real(&x, i) / y.t.encoding.scale, lsb[t], -lsb[t], "Convert");
        release(&x), release(&y);
    }
}

/* Real numbers in: ties go away from zero, and no float breaks it. */
static void quantizes_and_dequantizes(void **state) {
    (void)state;
    static const float in[] = {0, 0.25f, -0.25f, 0.75f, -0.75f, 1e30f, -1e30f, INFINITY, -INFINITY, NAN};
    static const int32_t want[] = {100, 101, 99, 102, 98, 255, 0, 255, 0, 0};
    const uint32_t n = sizeof in / sizeof *in;
    values x = MAKE(SW_F32, 1, 0, n), y = MAKE(SW_U8, 0.5f, -100, n), back = MAKE(SW_F32, 1, 0, n);
    memcpy(x.data, in, sizeof in);
    sw_op op = {.type = SW_OP_CONVERT, .name = "convert", .n_inputs = 1, .n_outputs = 1};
    run_op(&op, &x, 1, &y, NULL);
    for (size_t i = 0; i < n; i++) assert_int_equal(get(&y, i), want[i]);
    run_op(&op, &y, 1, &back, NULL);
    for (size_t i = 0; i < n; i++)
        assert_true(((const float *)back.data)[i] == 0.5f * (float)(want[i] - 100));
    release(&x), release(&y), release(&back);
}

/* The result doesn't depend on the number of threads. */
static void threads_change_nothing(void **state) {
    (void)state;
    sw_pool *pool;
    assert_int_equal(sw_pool_create(&pool, 3, NULL), SW_OK);
    values x = MAKE(SW_U16, 0.001f, -32000, 1, 9, 31, 577), y[2];
    fill(&x, 0, 65535);
    static const sw_op_type types[] = {SW_OP_SOFTMAX, SW_OP_SIGMOID};
    for (size_t t = 0; t < 2; t++) {
        sw_op op = {.type = types[t], .name = "op", .n_inputs = 1, .n_outputs = 1};
        if (types[t] == SW_OP_SOFTMAX) op.params.softmax.beta = 1;
        for (int i = 0; i < 2; i++) {
            y[i] = MAKE(SW_U16, 1.0f / 65536, 0, 1, 9, 31, 577);
            run_op(&op, &x, 1, &y[i], i == 0 ? NULL : pool);
        }
        assert_memory_equal(y[0].data, y[1].data, sw_tensor_bytes(&y[0].t));
        release(&y[0]), release(&y[1]);
    }
    release(&x);
    sw_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rms_norm_truncates),          cmocka_unit_test(softmax_rows_are_probabilities),
        cmocka_unit_test(sigmoid_of_every_value),      cmocka_unit_test(add_and_multiply_broadcast),
        cmocka_unit_test(add_of_equal_steps_is_exact), cmocka_unit_test(rotary_turns_pairs),
        cmocka_unit_test(converts_between_widths),     cmocka_unit_test(quantizes_and_dequantizes),
        cmocka_unit_test(threads_change_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
