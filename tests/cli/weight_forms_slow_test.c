/* Products with 4-bit and block weights: the CPU device against the emulator, at shapes of SmolLM2-135M, and
 * both against exact arithmetic. Bounds: docs/numerics.md. u8, u16: in output steps; f16: relative to the
 * root mean square of the exact outputs. */
#include <math.h>

#include "base/f16.h"
#include "base/log.h"
#include "cli/conformance_cases.h"
#include "cpu/cpu.h"
#include "graph/verify.h"
#include "qnn/htp_test.h"
#include "soc/soc.h"

typedef struct devices {
    sw_device *cpu, *htp;
} devices;

static uint64_t seed = 4;

static float uniform(float low, float high) {
    return low + (high - low) * (float)(test_next(&seed) / 2147483648.0);
}

static void *array(sw_arena *arena, size_t count, size_t size) {
    void *data = sw_arena_array(arena, count, size);
    assert_non_null(data);
    return data;
}

/* Integers over the form's whole range, scales over a decade; of float blocks some are negative and some 0,
 * as Q4_0 files have them. */
static void fill_weight(sw_tensor *t, sw_arena *arena) {
    size_t rows = t->dims[0], n = rows * t->dims[1], blocks = t->form.block > 0 ? n / t->form.block : 0;
    int8_t *q = array(arena, n, 1);
    float *scales = array(arena, rows, sizeof *scales);
    uint16_t *block_scales = array(arena, blocks, sizeof *block_scales);
    uint8_t *steps = array(arena, blocks, 1);
    bool four = t->form.four_bit;
    for (size_t i = 0; i < n; i++)
        q[i] = (int8_t)(four ? (int)(test_next(&seed) % 16) - 8 : (int)(test_next(&seed) % 255) - 127);
    for (size_t i = 0; i < rows; i++) scales[i] = uniform(0.0005f, 0.005f) / (four ? 1 : 16);
    for (size_t i = 0; i < blocks; i++) {
        steps[i] = (uint8_t)(1 + test_next(&seed) % 16);
        float scale = test_next(&seed) % 16 == 0 ? 0 : uniform(-0.02f, 0.02f) / (four ? 1 : 16);
        block_scales[i] = sw_f32_to_f16(scale);
    }
    t->data = q;
    if (t->form.scales != SW_SCALES_FLOAT_BLOCK) t->channel_scales = scales;
    if (t->form.scales == SW_SCALES_FLOAT_BLOCK) t->block_scales = block_scales;
    if (t->form.scales == SW_SCALES_BLOCKWISE) t->block_steps = steps;
}

static double real_of(const sw_tensor *t, const void *data, size_t i) {
    if (t->dtype == SW_F16) return (double)sw_f16_to_f32(((const uint16_t *)data)[i]);
    int q = t->dtype == SW_U8 ? ((const uint8_t *)data)[i] : ((const uint16_t *)data)[i];
    return (double)t->encoding.scale * (q + t->encoding.offset);
}

/* y [rows, out] in real numbers. */
static double *exact_product(const sw_tensor *x, const void *data, const sw_tensor *w, sw_arena *arena) {
    size_t rows = x->dims[0], in = x->dims[1], out = w->dims[0];
    double *y = array(arena, rows * out, sizeof *y);
    float *row = array(arena, in, sizeof *row);
    for (size_t o = 0; o < out; o++) {
        sw_weight_matrix_row(w, o, row);
        for (size_t r = 0; r < rows; r++)
            for (size_t i = 0; i < in; i++) y[r * out + o] += real_of(x, data, r * in + i) * (double)row[i];
    }
    return y;
}

static void execute(sw_device *device, const sw_graph *graph, void *x, void *y) {
    sw_program *program;
    CHECK_OK(device->ops->supports(device, graph, &graph->ops[0], &test_error));
    CHECK_OK(device->ops->load(device, graph, &program, &test_error));
    CHECK_OK(device->ops->execute(program, &(sw_binding){.data = x}, &(sw_binding){.data = y}, NULL, NULL,
                                  &test_error));
    device->ops->unload(program);
}

typedef struct difference {
    double worst, mean, rms;
    size_t differ, compared;
} difference;

/* a against b or `exact`, in units; outputs that saturate in either are left out. */
static difference compare(const sw_tensor *y, const void *a, const void *b, const double *exact,
                          double unit) {
    difference d = {0};
    bool integer = sw_dtype_quantized(y->dtype);
    double most = integer ? sw_dtype_max(y->dtype) : 0;
    for (size_t i = 0; i < sw_tensor_elements(y); i++) {
        double step = integer ? real_of(y, a, i) / (double)y->encoding.scale - y->encoding.offset : 1;
        if (integer && (step < 1 || step > most - 1)) continue;
        double v = (real_of(y, a, i) - (b != NULL ? real_of(y, b, i) : exact[i])) / unit;
        d.worst = fmax(d.worst, fabs(v));
        d.mean += v, d.rms += v * v;
        d.differ += fabs(v) > 1e-9, d.compared++;
    }
    d.mean /= (double)d.compared, d.rms = sqrt(d.rms / (double)d.compared);
    return d;
}

static bool check(const devices *d, const form_case *c) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_graph *g = sw_graph_create(&arena, "graph", 1, 1);
    assert_non_null(g);
    bool integer = sw_dtype_quantized(c->activation), wide = c->activation == SW_U16;
    float x_scale = integer ? (wide ? 8.0f / 65536 : 8.0f / 256) : 0, y_scale = (float)c->y_scale;
    int32_t zero = !integer ? 0 : wide ? -32768 : -128;
    sw_tensor *x = test_tensor(g, "x", SW_TENSOR_INPUT, c->activation, DIMS(c->rows, c->in), x_scale,
                               integer ? zero - 77 : 0);
    sw_tensor *w = test_tensor(g, "w", SW_TENSOR_CONSTANT, SW_S8, DIMS(c->out, c->in), 0, 0);
    sw_tensor *y = test_tensor(g, "y", SW_TENSOR_OUTPUT, c->activation, DIMS(c->rows, c->out), y_scale, zero);
    w->role = SW_ROLE_WEIGHT;
    w->form = c->form;
    fill_weight(w, &arena);
    sw_op op = {.type = SW_OP_FULLY_CONNECTED};
    if (c->form.scales == SW_SCALES_BLOCKWISE) {
        op.type = SW_OP_MATMUL;
        op.params.matmul.transpose_in1 = true;
    }
    test_op(g, op, "op", (const char *[]){"x", "w"}, 2, "y");
    assert_true(sw_graph_seal(g));
    CHECK_OK(sw_graph_verify(g, &test_error));

    size_t n = (size_t)sw_tensor_elements(x);
    void *values = array(&arena, n, sw_dtype_bytes(x->dtype));
    for (size_t i = 0; i < n; i++) {
        if (x->dtype == SW_F16) ((uint16_t *)values)[i] = sw_f32_to_f16(uniform(-2, 2));
        if (x->dtype == SW_U16) ((uint16_t *)values)[i] = (uint16_t)test_next(&seed);
        if (x->dtype == SW_U8) ((uint8_t *)values)[i] = (uint8_t)test_next(&seed);
    }
    void *on_cpu = array(&arena, (size_t)sw_tensor_bytes(y), 1);
    void *on_htp = array(&arena, (size_t)sw_tensor_bytes(y), 1);
    execute(d->cpu, g, values, on_cpu);
    execute(d->htp, g, values, on_htp);
    const double *exact = exact_product(x, values, w, &arena);
    double unit = (double)y_scale;
    if (!integer) {
        unit = 0;
        for (size_t i = 0; i < sw_tensor_elements(y); i++) unit += exact[i] * exact[i];
        unit = sqrt(unit / (double)sw_tensor_elements(y));
    }
    difference between = compare(y, on_htp, on_cpu, NULL, unit);
    difference cpu = compare(y, on_cpu, NULL, exact, unit), htp = compare(y, on_htp, NULL, exact, unit);
    bool good = integer ? between.worst <= 0 && cpu.worst <= 3 && htp.worst <= 3 &&
                              between.compared > sw_tensor_elements(y) / 2
                        : between.worst <= 4e-3 && cpu.rms <= 3e-4 && htp.rms <= 5e-4;
    char form[SW_WEIGHT_FORM_BYTES];
    printf(
        "%-3s x %-22s %4u x %4u -> %4u  worst %-9.3g rms %-9.3g %6.2f %% differ; from exact: CPU rms %.3g, "
        "emulator rms %.3g%s\n",
        sw_dtype_name(c->activation), sw_weight_form_text(c->form, form), c->rows, c->in, c->out,
        between.worst, between.rms, 100.0 * (double)between.differ / (double)between.compared, cpu.rms,
        htp.rms, good ? "" : "  TOO MUCH");
    sw_arena_free(&arena);
    return good;
}

static void every_form_on_both_devices(void **state) {
    size_t bad = 0;
    for (size_t i = 0; i < sizeof form_cases / sizeof *form_cases; i++) bad += !check(*state, &form_cases[i]);
    assert_int_equal(bad, 0);
}

int main(void) {
    sw_qnn_library library;
    if (!test_open_library(&library)) return TEST_SKIPPED;
    devices d;
    sw_qnn_graph_options options = {.vtcm_mb = 8, .opt_level = 3};
    sw_log_set_level(SW_LOG_ERROR);
    if (sw_cpu_device_create(&d.cpu, NULL, &test_error) != SW_OK ||
        sw_htp_device_create(&d.htp, &library, sw_soc_find("SM8750"), &options, &test_error) != SW_OK) {
        fprintf(stderr, "%s\n", test_error.message);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(every_form_on_both_devices, &d)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    d.cpu->ops->destroy(d.cpu);
    d.htp->ops->destroy(d.htp);
    return failed;
}
