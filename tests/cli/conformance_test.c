/* The CPU device against the HTP emulator, op by op (cli/conformance_cases.h), on random values under scales
 * that are no powers of two. Prints the worst and the mean difference in output steps (LSB), f16 in parts of
 * the outputs' root mean square, and how many outputs differ. */
#include <math.h>

#include "base/f16.h"
#include "base/log.h"
#include "cli/conformance_cases.h"
#include "cpu/cpu.h"
#include "near_ties.h"
#include "qnn/htp_test.h"
#include "soc/soc.h"

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
    case INDEX:
        return floor(o->low + uniform() * (o->high - o->low + 1));
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
    const bool integers = sw_dtype_quantized(o->dtype);
    if (!per_row && integers) {
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
    } else if (kind != SW_TENSOR_OUTPUT && !integers) {
        for (size_t i = 0; i < n; i++)
            if (o->dtype == SW_F16)
                ((uint16_t *)data)[i] = sw_f32_to_f16((float)value_of(o));
            else
                ((int32_t *)data)[i] = (int32_t)value_of(o);
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

static double value_at(const sw_tensor *t, const void *data, size_t i) {
    if (t->dtype == SW_F16) return (double)sw_f16_to_f32(((const uint16_t *)data)[i]);
    return t->dtype == SW_U8 ? ((const uint8_t *)data)[i] : ((const uint16_t *)data)[i];
}

static bool check(const devices *d, const conformance_case *c) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_graph *graph = sw_graph_create(&arena, "graph", 32, 128);
    static const char *const names[] = {"in0", "in1", "in2"};
    sw_binding inputs[3];
    uint32_t n = 0, bound = 0;
    assert_non_null(graph);
    for (; n < 3 && c->in[n].dims[0] > 0; n++) {
        bool weight = c->in[n].dtype == SW_S8;
        void *data = add_operand(graph, names[n], c->in[n].constant ? SW_TENSOR_CONSTANT : SW_TENSOR_INPUT,
                                 &c->in[n], weight);
        if (!c->in[n].constant) inputs[bound++] = (sw_binding){.data = data};
    }
    void *on_cpu = add_operand(graph, "out", SW_TENSOR_OUTPUT, &c->out, false);
    sw_op op = {.type = c->op};
    if (c->op == SW_OP_RMS_NORM) op.params.rms_norm.epsilon = c->parameter;
    if (c->op == SW_OP_SOFTMAX) op.params.softmax.beta = c->parameter;
    if (c->op == SW_OP_MATMUL) op.params.matmul.transpose_in1 = c->parameter > 0;
    if (c->op == SW_OP_CONCAT) op.params.concat.axis = (uint32_t)c->parameter;
    for (uint32_t i = 0; c->op == SW_OP_TRANSPOSE && i < SW_MAX_RANK; i++) /* the middle two */
        op.params.transpose.perm[i] = i == 1 || i == 2 ? 3 - i : i;
    for (uint32_t i = 0; c->op == SW_OP_STRIDED_SLICE && i < SW_MAX_RANK; i++) { /* the last ones */
        op.params.strided_slice.begin[i] = c->in[0].dims[i] - c->out.dims[i];
        op.params.strided_slice.end[i] = c->in[0].dims[i];
    }
    test_op(graph, op, "op", names, n, "out");
    assert_true(sw_graph_seal(graph));

    const sw_tensor *out = graph->tensors[graph->outputs[0]];
    void *on_htp = sw_arena_alloc(&arena, (size_t)sw_tensor_bytes(out));
    assert_non_null(on_htp);
    execute(d->cpu, graph, inputs, (sw_binding){.data = on_cpu});
    execute(d->htp, graph, inputs, (sw_binding){.data = on_htp});

    const size_t elements = (size_t)sw_tensor_elements(out);
    const bool integers = sw_dtype_quantized(out->dtype);
    const double max = integers ? (double)sw_dtype_max(out->dtype) : (double)INFINITY;
    size_t differ = 0, inside = 0;
    double least = 0, most = 0, sum = 0, power = 0;
    for (size_t i = 0; i < elements; i++) {
        const double cpu = value_at(out, on_cpu, i), difference = value_at(out, on_htp, i) - cpu;
        inside += (!integers || cpu > 0) && cpu < max;
        differ += difference != 0;
        sum += difference, power += cpu * cpu;
        least = fmin(least, difference), most = fmax(most, difference);
    }
    const double unit = integers ? 1 : sqrt(power / (double)elements);
    least /= unit, most /= unit;
    double percent = 100.0 * (double)differ / (double)elements;
    bool spread = c->op == SW_OP_SOFTMAX || inside >= elements / 2; /* most probabilities are 0 */
    bool good = -least <= c->worst && most <= c->worst && percent <= c->percent && spread;
    printf("%-20s %-30s %9.3g..%-9.3g mean %9.2g, %8.4f %% differ (bound %g, %g %%)%s\n",
           sw_op_get_info(c->op)->name, c->name, least, most, sum / (double)elements / unit, percent,
           c->worst, c->percent,
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

static void near_ties_are_the_recorded_ones(void **state) {
    const devices *d = *state;
    uint32_t misses = 0;
    for (size_t i = 0; i < sizeof near_ties / sizeof *near_ties; i++) {
        near_tie_graph g;
        near_tie_build(&near_ties[i], &g);
        sw_binding in[NEAR_TIE_INPUTS];
        for (uint32_t k = 0; k < NEAR_TIE_INPUTS; k++) in[k] = (sw_binding){.data = g.inputs[k]};
        uint16_t on_cpu[NEAR_TIE_MOST] = {0}, on_htp[NEAR_TIE_MOST] = {0};
        execute(d->cpu, g.graph, in, (sw_binding){.data = on_cpu});
        execute(d->htp, g.graph, in, (sw_binding){.data = on_htp});
        misses += near_tie_misses(&near_ties[i], "CPU device", on_cpu);
        misses += near_tie_misses(&near_ties[i], "emulator", on_htp);
        sw_arena_free(&g.arena);
    }
    assert_int_equal(misses, 0);
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
        cmocka_unit_test_prestate(near_ties_are_the_recorded_ones, &d),
        cmocka_unit_test_prestate(the_cpu_device_is_the_emulator_within_bounds, &d)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    d.cpu->ops->destroy(d.cpu);
    d.htp->ops->destroy(d.htp);
    return failed;
}
