/* Each op of the IR on the emulator against its definition in double precision (f16), or exact (movement,
 * Convert); parameters as QNN wants them. Bounds: f16 has 11 bits, so one rounding is 2^-11 relative; sums of
 * the HTP are wider, its tables for exp and 1/sqrt about 1e-3. */
#include "htp_test.h"

#include <math.h>

#include "base/f16.h"

static sw_qnn_library library;
static sw_device *device;
static sw_arena arena;

enum { MAX_VALUES = 2048 };
typedef struct values {
    uint32_t rank, dims[4], count;
    double v[MAX_VALUES]; /* exact f16 values */
} values;

/* Uniform in [-amplitude, amplitude). */
static values random_values(uint64_t seed, double amplitude, uint32_t rank, const uint32_t *dims) {
    values out = {.rank = rank, .count = 1};
    for (uint32_t i = 0; i < rank; i++) out.count *= out.dims[i] = dims[i];
    assert_true(out.count <= MAX_VALUES);
    for (uint32_t i = 0; i < out.count; i++)
        out.v[i] = (double)sw_f16_to_f32(
            sw_f32_to_f16((float)(amplitude * (test_next(&seed) / 1073741824.0 - 1.0))));
    return out;
}

static const char *const names[] = {"a", "b", "c"};

/* Runs one op of f16 tensors; constant: bit i says that input i is one. */
static void run_op(sw_op op, const values *in, uint32_t n_in, unsigned constant, values *out) {
    static uint16_t data[3][MAX_VALUES], result[MAX_VALUES];
    sw_graph *g = sw_graph_create(&arena, "one_op", 1, 1);
    sw_binding bindings[3];
    uint32_t bound = 0;
    for (uint32_t i = 0; i < n_in; i++) {
        for (uint32_t k = 0; k < in[i].count; k++) data[i][k] = sw_f32_to_f16((float)in[i].v[k]);
        bool fixed = constant >> i & 1;
        sw_tensor *t = test_tensor(g, names[i], fixed ? SW_TENSOR_CONSTANT : SW_TENSOR_INPUT, SW_F16,
                                   in[i].rank, in[i].dims, 0, 0);
        if (fixed)
            t->data = data[i];
        else
            bindings[bound++] = (sw_binding){.data = data[i]};
    }
    test_tensor(g, "y", SW_TENSOR_OUTPUT, SW_F16, out->rank, out->dims, 0, 0);
    test_op(g, op, "op", names, n_in, "y");
    assert_true(sw_graph_seal(g));
    CHECK_OK(device->ops->supports(device, g, &g->ops[0], &test_error));
    sw_program *program;
    CHECK_OK(device->ops->load(device, g, &program, &test_error));
    memset(result, 0xff, sizeof result); /* NaN: every value must be written */
    CHECK_OK(device->ops->execute(program, bindings, &(sw_binding){.data = result}, NULL, NULL, &test_error));
    device->ops->unload(program);
    out->count = 1;
    for (uint32_t i = 0; i < out->rank; i++) out->count *= out->dims[i];
    for (uint32_t i = 0; i < out->count; i++) out->v[i] = (double)sw_f16_to_f32(result[i]);
}

static void check_close(const values *got, const double *want, double relative, double absolute) {
    for (uint32_t i = 0; i < got->count; i++)
        if (!(fabs(got->v[i] - want[i]) <= relative * fabs(want[i]) + absolute))
            fail_msg("[%u] is %.6f, wanted %.6f", i, got->v[i], want[i]);
}

static double want[MAX_VALUES];

static void products_sum_over_the_right_axes(void **state) {
    (void)state;
    enum { M = 3, K = 48, N = 20, B = 2 };
    values in[2] = {random_values(1, 1, DIMS(M, K)), random_values(2, 1, DIMS(N, K))};
    values out = {.rank = 2, .dims = {M, N}};
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            want[m * N + n] = 0;
            for (int k = 0; k < K; k++) want[m * N + n] += in[0].v[m * K + k] * in[1].v[n * K + k];
        }
    run_op((sw_op){.type = SW_OP_FULLY_CONNECTED}, in, 2, 2, &out);
    check_close(&out, want, 1e-3, 4e-3);

    for (int transposed = 0; transposed < 2; transposed++) {
        in[0] = random_values(3, 1, DIMS(1, B, M, K));
        in[1] = transposed ? random_values(4, 1, DIMS(1, B, N, K)) : random_values(4, 1, DIMS(1, B, K, N));
        out = (values){.rank = 4, .dims = {1, B, M, N}};
        for (int i = 0; i < B * M * N; i++) {
            int b = i / (M * N), m = i / N % M, n = i % N;
            want[i] = 0;
            for (int k = 0; k < K; k++)
                want[i] += in[0].v[(b * M + m) * K + k] *
                           in[1].v[transposed ? (b * N + n) * K + k : (b * K + k) * N + n];
        }
        sw_op op = {.type = SW_OP_MATMUL};
        op.params.matmul.transpose_in1 = transposed;
        run_op(op, in, 2, 0, &out);
        check_close(&out, want, 1e-3, 4e-3);
    }
}

static void norms_and_softmax_run_over_the_last_axis(void **state) {
    (void)state;
    enum { ROWS = 4, C = 64 };
    values in[2] = {random_values(5, 3, DIMS(ROWS, C)), random_values(6, 2, DIMS(C))};
    values out = {.rank = 2, .dims = {ROWS, C}};
    const double epsilon = 0.25; /* large enough to be seen */
    for (int r = 0; r < ROWS; r++) {
        double square = 0;
        for (int c = 0; c < C; c++) square += in[0].v[r * C + c] * in[0].v[r * C + c];
        for (int c = 0; c < C; c++)
            want[r * C + c] = in[0].v[r * C + c] / sqrt(square / C + epsilon) * in[1].v[c];
    }
    sw_op norm = {.type = SW_OP_RMS_NORM};
    norm.params.rms_norm.epsilon = (float)epsilon;
    run_op(norm, in, 2, 2, &out);
    check_close(&out, want, 3e-3, 2e-3);

    in[0] = random_values(7, 4, DIMS(1, 2, 2, C));
    out = (values){.rank = 4, .dims = {1, 2, 2, C}};
    for (int r = 0; r < 4; r++) {
        double sum = 0;
        for (int c = 0; c < C; c++) sum += exp(0.125 * in[0].v[r * C + c]);
        for (int c = 0; c < C; c++) want[r * C + c] = exp(0.125 * in[0].v[r * C + c]) / sum;
    }
    sw_op softmax = {.type = SW_OP_SOFTMAX};
    softmax.params.softmax.beta = 0.125f;
    run_op(softmax, in, 1, 0, &out);
    check_close(&out, want, 5e-3, 1e-4);
}

static void elementwise_ops_broadcast(void **state) {
    (void)state;
    enum { H = 2, N = 3, C = 32 };
    values in[2] = {random_values(8, 2, DIMS(1, H, N, C)), random_values(9, 2, DIMS(1, 1, N, C))};
    values out = {.rank = 4, .dims = {1, H, N, C}};
    for (int i = 0; i < H * N * C; i++) want[i] = in[0].v[i] + in[1].v[i % (N * C)];
    run_op((sw_op){.type = SW_OP_ADD}, in, 2, 0, &out);
    check_close(&out, want, 1e-3, 1e-3);
    for (int i = 0; i < H * N * C; i++) want[i] = in[0].v[i] * in[1].v[i % (N * C)];
    run_op((sw_op){.type = SW_OP_MULTIPLY}, in, 2, 0, &out);
    check_close(&out, want, 1e-3, 1e-3);
    in[0] = random_values(10, 6, DIMS(4, C));
    out = (values){.rank = 2, .dims = {4, C}};
    for (int i = 0; i < 4 * C; i++) want[i] = 1 / (1 + exp(-in[0].v[i]));
    run_op((sw_op){.type = SW_OP_SIGMOID}, in, 1, 0, &out);
    check_close(&out, want, 3e-3, 1e-3);
}

static void rotary_pairs_are_halves(void **state) {
    (void)state;
    enum { HEADS = 2, N = 3, D = 16 };
    values in[3] = {random_values(11, 2, DIMS(1, HEADS, N, D)), random_values(12, 1, DIMS(1, N, D / 2)),
                    random_values(13, 1, DIMS(1, N, D / 2))};
    values out = {.rank = 4, .dims = {1, HEADS, N, D}};
    for (int h = 0; h < HEADS; h++)
        for (int n = 0; n < N; n++)
            for (int i = 0; i < D / 2; i++) {
                int a = (h * N + n) * D + i, b = a + D / 2;
                double c = in[1].v[n * D / 2 + i], s = in[2].v[n * D / 2 + i];
                want[a] = in[0].v[a] * c - in[0].v[b] * s;
                want[b] = in[0].v[b] * c + in[0].v[a] * s;
            }
    run_op((sw_op){.type = SW_OP_ROTARY_EMBEDDING}, in, 3, 0, &out);
    check_close(&out, want, 2e-3, 3e-3);
}

/* x [1,4,2,8] -> transpose [1,2,4,8] -> reshape [8,8] -> rows 2..6, columns 1..7 -> two of it side by side ->
 * two rows by index; then u16. Every value can be followed. */
static void movement_is_exact(void **state) {
    (void)state;
    sw_graph *g = sw_graph_create(&arena, "movement", 1, 1);
    sw_dtype t = SW_U8;
    test_tensor(g, "x", SW_TENSOR_INPUT, t, DIMS(1, 4, 2, 8), 0.5f, -3);
    test_tensor(g, "rows", SW_TENSOR_INPUT, SW_I32, DIMS(2), 0, 0);
    test_tensor(g, "t", SW_TENSOR_NATIVE, t, DIMS(1, 2, 4, 8), 0.5f, -3);
    test_tensor(g, "r", SW_TENSOR_NATIVE, t, DIMS(8, 8), 0.5f, -3);
    test_tensor(g, "s", SW_TENSOR_NATIVE, t, DIMS(5, 6), 0.5f, -3);
    test_tensor(g, "c", SW_TENSOR_NATIVE, t, DIMS(5, 12), 0.5f, -3);
    test_tensor(g, "g", SW_TENSOR_NATIVE, t, DIMS(2, 12), 0.5f, -3);
    test_tensor(g, "y", SW_TENSOR_OUTPUT, SW_U16, DIMS(2, 12), 0.5f / 256, -3 * 256);
    test_op(g, (sw_op){.type = SW_OP_TRANSPOSE, .params.transpose.perm = {0, 2, 1, 3}}, "transpose",
            (const char *[]){"x"}, 1, "t");
    test_op(g, (sw_op){.type = SW_OP_RESHAPE}, "reshape", (const char *[]){"t"}, 1, "r");
    test_op(g, (sw_op){.type = SW_OP_STRIDED_SLICE, .params.strided_slice = {.begin = {2, 1}, .end = {7, 7}}},
            "slice", (const char *[]){"r"}, 1, "s");
    test_op(g, (sw_op){.type = SW_OP_CONCAT, .params.concat.axis = 1}, "concat", (const char *[]){"s", "s"},
            2, "c");
    test_op(g, (sw_op){.type = SW_OP_GATHER}, "gather", (const char *[]){"c", "rows"}, 2, "g");
    test_op(g, (sw_op){.type = SW_OP_CONVERT}, "convert", (const char *[]){"g"}, 1, "y");
    assert_true(sw_graph_seal(g));
    sw_program *program;
    CHECK_OK(device->ops->load(device, g, &program, &test_error));
    uint8_t x[4 * 16];
    for (int i = 0; i < 4 * 16; i++) x[i] = (uint8_t)(i * 7);
    int32_t rows[2] = {4, 1};
    uint16_t y[2 * 12];
    sw_binding inputs[] = {{x}, {rows}};
    CHECK_OK(device->ops->execute(program, inputs, &(sw_binding){.data = y}, NULL, NULL, &test_error));
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 12; j++) {
            int row = rows[i] + 2, column = j % 6 + 1; /* of r, which is t as [8,8]: row = 4 * n + head */
            assert_int_equal(y[i * 12 + j], 256 * x[row % 4 * 16 + row / 4 * 8 + column]);
        }
    assert_int_equal(device->ops->execute(program, (sw_binding[]){{x}, {(char *)rows + 1}},
                                          &(sw_binding){.data = y}, NULL, NULL, &test_error),
                     SW_INVALID_ARGUMENT);
    device->ops->unload(program);
}

/* The values are those of sorting; the places are theirs, each once. Their order among equal values is open.
 * A whole row of a vocabulary, as a head has it. */
static void top_k_hands_out_the_best(void **state) {
    (void)state;
    enum { ROW = 49152, K = 40 };
    static uint16_t x[ROW], sorted[65536];
    sw_graph *g = sw_graph_create(&arena, "best", 1, 1);
    test_tensor(g, "x", SW_TENSOR_INPUT, SW_U16, DIMS(1, ROW), 0.001f, -30000);
    test_tensor(g, "y", SW_TENSOR_OUTPUT, SW_U16, DIMS(1, K), 0.001f, -30000);
    test_tensor(g, "places", SW_TENSOR_OUTPUT, SW_I32, DIMS(1, K), 0, 0);
    test_op(g, (sw_op){.type = SW_OP_TOP_K}, "best", (const char *[]){"x"}, 1, "y");
    g->ops[0].outputs[1] = 2, g->ops[0].n_outputs = 2;
    assert_true(sw_graph_seal(g));
    CHECK_OK(device->ops->supports(device, g, &g->ops[0], &test_error));
    sw_program *program;
    CHECK_OK(device->ops->load(device, g, &program, &test_error));
    for (uint32_t most = 65536; most >= 1024; most /= 64) { /* few ties among the best, and many */
        uint64_t seed = 3;
        uint16_t y[K];
        int32_t places[K];
        memset(sorted, 0, sizeof sorted); /* how often each value is there */
        for (int i = 0; i < ROW; i++) sorted[x[i] = (uint16_t)(test_next(&seed) % most)]++;
        CHECK_OK(device->ops->execute(program, &(sw_binding){.data = x}, (sw_binding[]){{y}, {places}}, NULL,
                                      NULL, &test_error));
        for (int i = 0, value = 65535; i < K; i++) {
            while (sorted[value] == 0) value--;
            sorted[value]--;
            assert_int_equal(y[i], value);
            assert_in_range(places[i], 0, ROW - 1);
            assert_int_equal(x[places[i]], y[i]);
            for (int k = 0; k < i; k++) assert_int_not_equal(places[k], places[i]);
        }
    }
    device->ops->unload(program);
}

/* 16-bit activations and one weight scale a row: within 1 of the exact value. */
static void channel_scales_belong_to_rows(void **state) {
    (void)state;
    enum { K = 64, N = 48 };
    static int8_t w[N * K];
    static float scales[N];
    uint64_t seed = 20;
    for (int i = 0; i < N * K; i++) w[i] = (int8_t)(test_next(&seed) % 255 - 127);
    for (int i = 0; i < N; i++) scales[i] = 0.001f * (float)(1 + i % 7);
    const float x_scale = 1.0f / 8192, y_scale = 1.0f / 2048;
    sw_graph *g = sw_graph_create(&arena, "channels", 1, 1);
    test_tensor(g, "x", SW_TENSOR_INPUT, SW_U16, DIMS(1, K), x_scale, -32768);
    sw_tensor *t = test_tensor(g, "w", SW_TENSOR_CONSTANT, SW_S8, DIMS(N, K), 0, 0);
    t->data = w;
    t->channel_scales = scales;
    test_tensor(g, "y", SW_TENSOR_OUTPUT, SW_U16, DIMS(1, N), y_scale, -32768);
    test_op(g, (sw_op){.type = SW_OP_FULLY_CONNECTED}, "fc", (const char *[]){"x", "w"}, 2, "y");
    assert_true(sw_graph_seal(g));
    sw_program *program;
    CHECK_OK(device->ops->load(device, g, &program, &test_error));
    uint16_t x[K], y[N];
    for (int i = 0; i < K; i++) x[i] = (uint16_t)test_next(&seed);
    CHECK_OK(device->ops->execute(program, &(sw_binding){.data = x}, &(sw_binding){.data = y}, NULL, NULL,
                                  &test_error));
    for (int n = 0; n < N; n++) {
        double sum = 0;
        for (int k = 0; k < K; k++) sum += (double)(x[k] - 32768) * w[n * K + k];
        double exact = sum * (double)x_scale * (double)scales[n] / (double)y_scale + 32768;
        /* The HTP drops the sum's low 8 bits: up to 256 steps of the sum less. */
        double dropped = 257.0 * (double)x_scale * (double)scales[n] / (double)y_scale + 1;
        if (y[n] > exact + 1 || y[n] < exact - dropped) fail_msg("[%d] is %u, wanted %.2f", n, y[n], exact);
    }
    device->ops->unload(program);
}

static int open_device(void **state) {
    (void)state;
    sw_qnn_graph_options options = {.opt_level = 3};
    sw_log_set_level(SW_LOG_WARN);
    return sw_htp_device_create(&device, &library, sw_soc_find("SM8750"), &options, &test_error) != SW_OK;
}

static int close_device(void **state) {
    (void)state;
    device->ops->destroy(device);
    sw_arena_free(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_sum_over_the_right_axes),
                                       cmocka_unit_test(norms_and_softmax_run_over_the_last_axis),
                                       cmocka_unit_test(elementwise_ops_broadcast),
                                       cmocka_unit_test(rotary_pairs_are_halves),
                                       cmocka_unit_test(movement_is_exact),
                                       cmocka_unit_test(top_k_hands_out_the_best),
                                       cmocka_unit_test(channel_scales_belong_to_rows)};
    if (!test_open_library(&library)) return TEST_SKIPPED;
    return cmocka_run_group_tests(tests, open_device, close_device);
}
