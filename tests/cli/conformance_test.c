/* The CPU device against the HTP emulator, op by op: every op and type of a quantized decoder at the shapes
 * of SmolLM2-135M (AR 32, context 128), on random values under scales that are no powers of two. Prints the
 * worst and the mean difference in output steps (LSB) and how many outputs differ; each has a bound, the ones
 * that docs/numerics.md states. */
#include <math.h>

#include "base/log.h"
#include "cpu/cpu.h"
#include "qnn/htp_test.h"
#include "soc/soc.h"

typedef enum values { NORMAL, UNIFORM, PROBABILITY, MASK } values;

typedef struct operand {
    sw_dtype dtype;
    values values;
    double low, high; /* of the encoding; a normal distribution's deviation is an eighth of high - low */
    uint32_t dims[SW_MAX_RANK];
    bool constant;
} operand;

typedef struct conformance_case {
    const char *name;
    sw_op_type op;
    float parameter; /* epsilon, beta, or 1 for transpose_in1 */
    operand in[3], out;
    int worst;      /* LSB */
    double percent; /* of outputs that may differ */
} conformance_case;

#define A8  SW_U8
#define A16 SW_U16
#define OF(type, values, low, high, ...)                                                                     \
    { type, values, low, high, {__VA_ARGS__}, false }
#define X(type, ...)            OF(type, NORMAL, -4.1, 3.7, __VA_ARGS__)
#define Y(type, low, high, ...) OF(type, NORMAL, low, high, __VA_ARGS__)
/* Zero points in the middle, -128 and -32768. */
#define KV8(...)  OF(SW_U8, NORMAL, -5.3 * 128 / 127, 5.3, __VA_ARGS__)
#define KV16(...) OF(SW_U16, NORMAL, -5.3 * 32768 / 32767, 5.3, __VA_ARGS__)
/* 1 / 256 and 1 / 65536 a step. */
#define P8(values, ...)  OF(SW_U8, values, 0, 255.0 / 256, __VA_ARGS__)
#define P16(values, ...) OF(SW_U16, values, 0, 65535.0 / 65536, __VA_ARGS__)
#define ANGLE(type)      OF(type, UNIFORM, -1, 1, 1, 32, 32)
#define SCORES(type)     OF(type, NORMAL, -53, 47, 1, 9, 32, 128)
#define GAMMA(type)                                                                                          \
    { type, UNIFORM, -0.3, 1.7, {576}, true }
#define FC(type, rows, in, out, range, worst, percent)                                                       \
    {                                                                                                        \
#type " " #in "->" #out " x " #rows, SW_OP_FULLY_CONNECTED, 0,                                       \
            {X(type, rows, in), {SW_S8, UNIFORM, 0, 0, {out, in }, true } },                                 \
                                 Y(type, -1.07 * (range), range, rows, out), worst, percent                  \
    }

/* clang-format off: a table.
 * Rows: name, op, parameter, inputs, output, bounds. */
static const conformance_case cases[] = {
    FC(A8, 1, 576, 576, 6.0, 0, 0),
    FC(A8, 32, 576, 576, 6.0, 0, 0),
    FC(A8, 1, 576, 192, 6.0, 0, 0),
    FC(A8, 32, 576, 192, 6.0, 0, 0),
    FC(A8, 1, 576, 1536, 6.0, 0, 0),
    FC(A8, 32, 576, 1536, 6.0, 0, 0),
    FC(A8, 1, 1536, 576, 10.0, 0, 0),
    FC(A8, 32, 1536, 576, 10.0, 0, 0),
    FC(A16, 1, 576, 576, 6.0, 0, 0),
    FC(A16, 32, 576, 576, 6.0, 0, 0),
    FC(A16, 1, 576, 192, 6.0, 0, 0),
    FC(A16, 32, 576, 192, 6.0, 0, 0),
    FC(A16, 1, 576, 1536, 6.0, 0, 0),
    FC(A16, 32, 576, 1536, 6.0, 0, 0),
    FC(A16, 1, 1536, 576, 10.0, 0, 0),
    FC(A16, 32, 1536, 576, 10.0, 0, 0),

    {"u8 q u8 k^T",
     SW_OP_MATMUL,
     1,
     {X(A8, 1, 3, 96, 64), KV8(1, 3, 128, 64)},
     Y(A8, -41, 38, 1, 3, 96, 128),
     0,
     0},
    {"u8 p u8 v",
     SW_OP_MATMUL,
     0,
     {P8(PROBABILITY, 1, 3, 96, 128), KV8(1, 3, 128, 64)},
     Y(A8, -17, 19, 1, 3, 96, 64),
     0,
     0},
    {"u16 q u8 k^T",
     SW_OP_MATMUL,
     1,
     {X(A16, 1, 3, 96, 64), KV8(1, 3, 128, 64)},
     Y(A16, -41, 38, 1, 3, 96, 128),
     0,
     0},
    {"u16 p u8 v",
     SW_OP_MATMUL,
     0,
     {P16(PROBABILITY, 1, 3, 96, 128), KV8(1, 3, 128, 64)},
     Y(A16, -17, 19, 1, 3, 96, 64),
     0,
     0},
    {"u16 q u8 k^T, AR 1",
     SW_OP_MATMUL,
     1,
     {X(A16, 1, 3, 3, 64), KV8(1, 3, 128, 64)},
     Y(A16, -41, 38, 1, 3, 3, 128),
     0,
     0},
    {"u16 p u8 v, AR 1",
     SW_OP_MATMUL,
     0,
     {P16(PROBABILITY, 1, 3, 3, 128), KV8(1, 3, 128, 64)},
     Y(A16, -17, 19, 1, 3, 3, 64),
     0,
     0},
    {"u16 q u16 k^T",
     SW_OP_MATMUL,
     1,
     {X(A16, 1, 3, 96, 64), KV16(1, 3, 128, 64)},
     Y(A16, -41, 38, 1, 3, 96, 128),
     60,
     75},
    {"u16 p u16 v",
     SW_OP_MATMUL,
     0,
     {P16(PROBABILITY, 1, 3, 96, 128), KV16(1, 3, 128, 64)},
     Y(A16, -17, 19, 1, 3, 96, 64),
     60,
     75},
    /* What encodings are to avoid: any other offset of a u8 K or V. */
    {"u8 q u8 k^T, offset -97",
     SW_OP_MATMUL,
     1,
     {X(A8, 1, 3, 96, 64), OF(A8, UNIFORM, -1.9, 3.1, 1, 3, 128, 64)},
     Y(A8, -41, 38, 1, 3, 96, 128),
     1,
     15},
    {"u16 q u8 k^T, offset -97",
     SW_OP_MATMUL,
     1,
     {X(A16, 1, 3, 96, 64), OF(A8, UNIFORM, -1.9, 3.1, 1, 3, 128, 64)},
     Y(A16, -41, 38, 1, 3, 96, 128),
     400,
     100},

    {"u8", SW_OP_RMS_NORM, 1e-5F, {X(A8, 32, 576), GAMMA(A8)}, Y(A8, -6.1, 6.7, 32, 576), 1, 0.1},
    {"u8, AR 1", SW_OP_RMS_NORM, 1e-5F, {X(A8, 1, 576), GAMMA(A8)}, Y(A8, -6.1, 6.7, 1, 576), 1, 0.4},
    {"u16", SW_OP_RMS_NORM, 1e-5F, {X(A16, 32, 576), GAMMA(A16)}, Y(A16, -6.1, 6.7, 32, 576), 0, 0},
    {"u16, AR 1", SW_OP_RMS_NORM, 1e-5F, {X(A16, 1, 576), GAMMA(A16)}, Y(A16, -6.1, 6.7, 1, 576), 0, 0},

    {"u8",
     SW_OP_ROTARY_EMBEDDING,
     0,
     {X(A8, 1, 9, 32, 64), ANGLE(A8), ANGLE(A8)},
     Y(A8, -4.9, 4.6, 1, 9, 32, 64),
     1,
     3},
    {"u16",
     SW_OP_ROTARY_EMBEDDING,
     0,
     {X(A16, 1, 9, 32, 64), ANGLE(A16), ANGLE(A16)},
     Y(A16, -4.9, 4.6, 1, 9, 32, 64),
     0,
     0},

    {"u8", SW_OP_SOFTMAX, 0.125F, {SCORES(A8)}, P8(UNIFORM, 1, 9, 32, 128), 2, 3},
    {"u8, steep", SW_OP_SOFTMAX, 1, {SCORES(A8)}, P8(UNIFORM, 1, 9, 32, 128), 2, 3},
    {"u16", SW_OP_SOFTMAX, 0.125F, {SCORES(A16)}, P16(UNIFORM, 1, 9, 32, 128), 0, 0},
    {"u16, steep", SW_OP_SOFTMAX, 1, {SCORES(A16)}, P16(UNIFORM, 1, 9, 32, 128), 0, 0},

    {"u8", SW_OP_SIGMOID, 0, {OF(A8, NORMAL, -9.3, 7.7, 32, 1536)}, P8(UNIFORM, 32, 1536), 0, 0},
    {"u16", SW_OP_SIGMOID, 0, {OF(A16, NORMAL, -9.3, 7.7, 32, 1536)}, P16(UNIFORM, 32, 1536), 0, 0},

    {"u8",
     SW_OP_MULTIPLY,
     0,
     {X(A8, 32, 1536), OF(A8, NORMAL, -6.1, 5.3, 32, 1536)},
     Y(A8, -13, 14.3, 32, 1536),
     1,
     1},
    {"u8 by sigmoid",
     SW_OP_MULTIPLY,
     0,
     {X(A8, 32, 1536), P8(UNIFORM, 32, 1536)},
     Y(A8, -2.9, 3.1, 32, 1536),
     1,
     1},
    {"u16",
     SW_OP_MULTIPLY,
     0,
     {X(A16, 32, 1536), OF(A16, NORMAL, -6.1, 5.3, 32, 1536)},
     Y(A16, -13, 14.3, 32, 1536),
     0,
     0},
    {"u16 by sigmoid",
     SW_OP_MULTIPLY,
     0,
     {X(A16, 32, 1536), P16(UNIFORM, 32, 1536)},
     Y(A16, -2.9, 3.1, 32, 1536),
     0,
     0},

    {"u8", SW_OP_ADD, 0, {X(A8, 32, 576), OF(A8, NORMAL, -6.1, 5.3, 32, 576)}, Y(A8, -7, 7.7, 32, 576), 1, 4},
    {"u8 mask",
     SW_OP_ADD,
     0,
     {SCORES(A8), OF(A8, MASK, -150, 0, 1, 1, 32, 128)},
     Y(A8, -200, 47, 1, 9, 32, 128),
     1,
     4},
    {"u16",
     SW_OP_ADD,
     0,
     {X(A16, 32, 576), OF(A16, NORMAL, -6.1, 5.3, 32, 576)},
     Y(A16, -7, 7.7, 32, 576),
     0,
     0},
    {"u16 mask",
     SW_OP_ADD,
     0,
     {SCORES(A16), OF(A16, MASK, -150, 0, 1, 1, 32, 128)},
     Y(A16, -200, 47, 1, 9, 32, 128),
     0,
     0},

    {"u16 to u8", SW_OP_CONVERT, 0, {X(A16, 1, 3, 32, 64)}, KV8(1, 3, 32, 64), 0, 0},
    {"u8 to u16", SW_OP_CONVERT, 0, {X(A8, 1, 3, 32, 64)}, Y(A16, -4.4, 4.2, 1, 3, 32, 64), 0, 0},
};

/* clang-format on */

static uint64_t seed = 20;

static double uniform(void) {
    return (double)test_next(&seed) / 2147483648.0;
}

/* Irwin-Hall: the sum of twelve, of variance 1; no function whose bits vary between machines. */
static double normal(void) {
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += uniform();
    return sum;
}

static double value_of(const operand *o) {
    double u;
    switch (o->values) {
    case NORMAL:
        return normal() * (o->high - o->low) / 8;
    case PROBABILITY:
        return u = uniform(), u *= u, u *= u, u * u;
    case MASK:
        return uniform() < 0.5 ? 0 : o->low;
    default:
        return o->low + uniform() * (o->high - o->low);
    }
}

/* A tensor of the graph with its values, which live in the graph's arena. */
static void *add_operand(sw_graph *graph, const char *name, sw_tensor_kind kind, const operand *o,
                         bool per_row) {
    uint32_t rank = SW_MAX_RANK;
    while (rank > 1 && o->dims[rank - 1] == 0) rank--;
    float scale = 1;
    int32_t offset = 0;
    if (!per_row) {
        scale = (float)((o->high - o->low) / sw_dtype_max(o->dtype));
        offset = (int32_t)lround(o->low / (double)scale);
    }
    sw_tensor *t = test_tensor(graph, name, kind, o->dtype, rank, o->dims, scale, offset);
    size_t n = (size_t)sw_tensor_elements(t);
    void *data = sw_arena_array(graph->arena, n, sw_dtype_bytes(o->dtype));
    assert_non_null(data);
    if (kind == SW_TENSOR_CONSTANT) t->data = data;
    if (per_row) {
        float *scales = sw_arena_array(graph->arena, t->dims[0], sizeof *scales);
        assert_non_null(scales);
        for (uint32_t i = 0; i < t->dims[0]; i++)
            scales[i] = (float)(0.0004 + 0.0011 * uniform() * uniform());
        t->channel_scales = scales;
        for (size_t i = 0; i < n; i++) ((int8_t *)data)[i] = (int8_t)((int)(test_next(&seed) % 255) - 127);
    } else if (kind != SW_TENSOR_OUTPUT) {
        int32_t max = sw_dtype_max(o->dtype);
        for (size_t i = 0; i < n; i++) {
            double q = floor(value_of(o) / (double)scale + 0.5) - offset;
            q = q < 0 ? 0 : q > max ? max : q;
            if (o->dtype == SW_U8)
                ((uint8_t *)data)[i] = (uint8_t)q;
            else
                ((uint16_t *)data)[i] = (uint16_t)q;
        }
    }
    return data;
}

static void execute(sw_device *device, const sw_graph *graph, const sw_binding *inputs, sw_binding output) {
    sw_program *program;
    CHECK_OK(device->ops->load(device, graph, &program, &test_error));
    CHECK_OK(device->ops->execute(program, inputs, &output, NULL, NULL, &test_error));
    device->ops->unload(program);
}

typedef struct devices {
    sw_device *cpu, *htp;
} devices;

static bool check(const devices *d, const conformance_case *c) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_graph *graph = sw_graph_create(&arena, "graph", 32, 128);
    static const char *const names[] = {"in0", "in1", "in2"};
    sw_binding inputs[3];
    uint32_t n = 0, bound = 0;
    assert_non_null(graph);
    for (; n < 3 && c->in[n].dims[0] > 0; n++) {
        bool weight = c->op == SW_OP_FULLY_CONNECTED && n == 1;
        void *data = add_operand(graph, names[n], c->in[n].constant ? SW_TENSOR_CONSTANT : SW_TENSOR_INPUT,
                                 &c->in[n], weight);
        if (!c->in[n].constant) inputs[bound++] = (sw_binding){.data = data};
    }
    void *on_cpu = add_operand(graph, "out", SW_TENSOR_OUTPUT, &c->out, false);
    sw_op op = {.type = c->op};
    if (c->op == SW_OP_RMS_NORM) op.params.rms_norm.epsilon = c->parameter;
    if (c->op == SW_OP_SOFTMAX) op.params.softmax.beta = c->parameter;
    if (c->op == SW_OP_MATMUL) op.params.matmul.transpose_in1 = c->parameter > 0;
    test_op(graph, op, "op", names, n, "out");
    assert_true(sw_graph_seal(graph));

    const sw_tensor *out = graph->tensors[graph->outputs[0]];
    void *on_htp = sw_arena_alloc(&arena, (size_t)sw_tensor_bytes(out));
    assert_non_null(on_htp);
    execute(d->cpu, graph, inputs, (sw_binding){.data = on_cpu});
    execute(d->htp, graph, inputs, (sw_binding){.data = on_htp});

    size_t elements = (size_t)sw_tensor_elements(out), differ = 0, inside = 0;
    int least = 0, most = 0;
    double sum = 0;
    for (size_t i = 0; i < elements; i++) {
        int cpu = out->dtype == SW_U8 ? ((uint8_t *)on_cpu)[i] : ((uint16_t *)on_cpu)[i];
        int htp = out->dtype == SW_U8 ? ((uint8_t *)on_htp)[i] : ((uint16_t *)on_htp)[i];
        int difference = htp - cpu;
        inside += cpu > 0 && cpu < sw_dtype_max(out->dtype);
        differ += difference != 0;
        sum += difference;
        if (difference < least) least = difference;
        if (difference > most) most = difference;
    }
    double percent = 100.0 * (double)differ / (double)elements;
    bool spread = c->op == SW_OP_SOFTMAX || inside >= elements / 2; /* most probabilities are 0 */
    bool good = -least <= c->worst && most <= c->worst && percent <= c->percent && spread;
    printf("%-20s %-30s %4d..%-3d mean %8.4f, %8.4f %% differ (bound %d, %g %%)%s\n",
           sw_op_get_info(c->op)->name, c->name, least, most, sum / (double)elements, percent, c->worst,
           c->percent,
           good                    ? ""
           : inside < elements / 4 ? "  saturated"
                                   : "  TOO MUCH");
    sw_arena_free(&arena);
    return good;
}

static void the_cpu_device_is_the_emulator_within_bounds(void **state) {
    printf("emulator minus CPU device, in output steps:\n");
    size_t bad = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) bad += !check(*state, &cases[i]);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(the_cpu_device_is_the_emulator_within_bounds, &d)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    d.cpu->ops->destroy(d.cpu);
    d.htp->ops->destroy(d.htp);
    return failed;
}
