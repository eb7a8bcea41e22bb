/* device_test.c: whole graphs on the CPU device: order, lifetimes, bindings, the observer, and every way in
 * which a graph or a call can be wrong. */
#include "small_graph.h"

#include <math.h>
#include <stdlib.h>

#include "cpu/kernels.h"

/* Each op of the IR has a kernel. */
static void no_op_lacks_a_kernel(void **state) {
    (void)state;
    const struct {
        const sw_kernel *kernels;
        size_t count;
    } tables[] = {{sw_kernels_movement, sw_kernels_movement_count},
                  {sw_kernels_quantized, sw_kernels_quantized_count},
                  {sw_kernels_float, sw_kernels_float_count}};
    bool has[SW_OP_COUNT] = {false};
    for (size_t t = 0; t < 3; t++)
        for (size_t i = 0; i < tables[t].count; i++) has[tables[t].kernels[i].op] = true;
    for (unsigned op = 0; op < SW_OP_COUNT; op++)
        if (!has[op]) fail_msg("no kernel for %s", sw_op_get_info(op)->name);
}

/* A graph with a branch: h is read by two ops, and the output `early` by a later op.
 *
 *   x -> FullyConnected w -> h -> Sigmoid -> s -> Multiply(h, s) -> early -> Add(early, h) -> late */
enum { ROWS = 3, IN = 5, OUT = 7 };

typedef struct branch_graph {
    small_graph s;
    uint32_t x, w, h, sigmoid, early, late;
    float weights[OUT * IN];
} branch_graph;

static void branch_graph_init(branch_graph *g) {
    small_graph_init(&g->s);
    fill_floats(g->weights, OUT * IN, 1);
    g->x = add_tensor(&g->s, SW_TENSOR_INPUT, SW_F32, DIMS(ROWS, IN));
    g->w = add_tensor(&g->s, SW_TENSOR_CONSTANT, SW_F32, DIMS(OUT, IN));
    g->h = add_tensor(&g->s, SW_TENSOR_NATIVE, SW_F32, DIMS(ROWS, OUT));
    g->sigmoid = add_tensor(&g->s, SW_TENSOR_NATIVE, SW_F32, DIMS(ROWS, OUT));
    g->early = add_tensor(&g->s, SW_TENSOR_OUTPUT, SW_F32, DIMS(ROWS, OUT));
    g->late = add_tensor(&g->s, SW_TENSOR_OUTPUT, SW_F32, DIMS(ROWS, OUT));
    g->s.graph->tensors[g->w]->data = g->weights;
    add_op(&g->s, SW_OP_FULLY_CONNECTED, g->h, INPUTS(g->x, g->w));
    add_op(&g->s, SW_OP_SIGMOID, g->sigmoid, INPUTS(g->h));
    add_op(&g->s, SW_OP_MULTIPLY, g->early, INPUTS(g->h, g->sigmoid));
    add_op(&g->s, SW_OP_ADD, g->late, INPUTS(g->early, g->h));
    assert_true(sw_graph_seal(g->s.graph));
}

static void check_branch(const branch_graph *g, const float *x, const float *early, const float *late) {
    for (size_t i = 0; i < ROWS * OUT; i++) {
        double h = 0;
        for (size_t j = 0; j < IN; j++) h += (double)x[i / OUT * IN + j] * g->weights[i % OUT * IN + j];
        double product = h / (1 + exp(-h));
        assert_true(fabs(early[i] - product) < 1e-5 && fabs(late[i] - product - h) < 1e-5);
    }
}

/* What the observer saw: the number of calls, and whether values[] held what it should. */
typedef struct sightings {
    const branch_graph *g;
    unsigned calls;
    float h[ROWS * OUT];
} sightings;

static void observe(void *context, const sw_graph *graph, const sw_op *op, const void *const *values) {
    sightings *seen = context;
    const branch_graph *g = seen->g;
    assert_ptr_equal(op, &graph->ops[seen->calls]); /* in order */
    for (uint32_t i = 0; i < op->n_inputs; i++) assert_non_null(values[op->inputs[i]]);
    assert_non_null(values[op->outputs[0]]);
    assert_ptr_equal(values[g->w], g->weights);
    if (seen->calls == 0) memcpy(seen->h, values[g->h], sizeof seen->h);
    assert_memory_equal(seen->h, values[g->h], sizeof seen->h); /* alive to the end, and untouched */
    assert_true((values[g->sigmoid] != NULL) == (seen->calls == 1 || seen->calls == 2));
    assert_true((values[g->early] != NULL) == (seen->calls >= 2));
    assert_true((values[g->late] != NULL) == (seen->calls >= 3));
    seen->calls++;
}

static void a_program_runs_again_and_is_observed(void **state) {
    (void)state;
    branch_graph g;
    sw_device *device;
    sw_program *program;
    sw_error err;
    branch_graph_init(&g);
    assert_int_equal(sw_cpu_device_create(&device, NULL, &err), SW_OK);
    assert_string_equal(device->ops->name, "cpu");
    for (uint32_t i = 0; i < g.s.graph->n_ops; i++)
        assert_int_equal(device->ops->supports(device, g.s.graph, &g.s.graph->ops[i], &err), SW_OK);
    assert_int_equal(device->ops->load(device, g.s.graph, &program, &err), SW_OK);
    for (unsigned run = 0; run < 3; run++) { /* other buffers each time */
        float *x = malloc(ROWS * IN * sizeof *x), *early = malloc(ROWS * OUT * sizeof *early),
              *late = malloc(ROWS * OUT * sizeof *late);
        assert_true(x != NULL && early != NULL && late != NULL);
        fill_floats(x, ROWS * IN, run + 10);
        sightings seen = {.g = &g, .calls = 0};
        const sw_binding outputs[] = {{early}, {late}};
        assert_int_equal(device->ops->execute(program, &(sw_binding){.data = x}, outputs,
                                              run == 1 ? NULL : observe, &seen, &err),
                         SW_OK);
        assert_int_equal(seen.calls, run == 1 ? 0 : 4);
        check_branch(&g, x, early, late);
        free(x), free(early), free(late);
    }
    device->ops->unload(program);
    device->ops->destroy(device);
    small_graph_free(&g.s);
}

/* Bindings of the call before are kept: each call's own count all the same, behind a refused one too. */
static void bindings_may_change_in_part(void **state) {
    (void)state;
    branch_graph g;
    sw_device *device;
    sw_program *program;
    sw_error err;
    static float x[2][ROWS * IN], early[2][ROWS * OUT], late[2][ROWS * OUT];
    fill_floats(x[0], ROWS * IN, 1), fill_floats(x[1], ROWS * IN, 2);
    branch_graph_init(&g);
    assert_int_equal(sw_cpu_device_create(&device, NULL, &err), SW_OK);
    assert_int_equal(device->ops->load(device, g.s.graph, &program, &err), SW_OK);
    for (unsigned before = 0; before < 8; before++)
        for (unsigned now = 0; now < 8; now++)
            for (unsigned refused = 0; refused < 3; refused++) {
                const unsigned ways[] = {before, now ^ 7u, now};
                for (unsigned i = 0; i < 3; i++) {
                    const unsigned a = ways[i] & 1, b = ways[i] >> 1 & 1, c = ways[i] >> 2;
                    const bool bad = i == 1;
                    const sw_binding in = {bad && refused == 0 ? NULL : x[a]},
                                     out[] = {{bad && refused == 1 ? NULL : early[b]},
                                              {bad && refused == 2 ? NULL : late[c]}};
                    memset(early, 0, sizeof early), memset(late, 0, sizeof late);
                    sw_code code = device->ops->execute(program, &in, out, NULL, NULL, &err);
                    assert_int_equal(code, bad ? SW_INVALID_ARGUMENT : SW_OK);
                    if (!bad) check_branch(&g, x[a], early[b], late[c]);
                }
            }
    device->ops->unload(program);
    device->ops->destroy(device);
    small_graph_free(&g.s);
}

/* The same bits with any number of threads. */
static void threads_change_nothing(void **state) {
    (void)state;
    enum { N = 40, C = 577, WIDE = 130 };
    static float x[N * C], w[WIDE * C], gamma[WIDE], y[3][N * WIDE];
    fill_floats(x, N * C, 1), fill_floats(w, WIDE * C, 2), fill_floats(gamma, WIDE, 3);
    for (unsigned threads = 1; threads <= 3; threads++) {
        small_graph s;
        small_graph_init(&s);
        uint32_t in = add_tensor(&s, SW_TENSOR_INPUT, SW_F32, DIMS(N, C));
        uint32_t weight = add_tensor(&s, SW_TENSOR_CONSTANT, SW_F32, DIMS(WIDE, C));
        uint32_t g = add_tensor(&s, SW_TENSOR_CONSTANT, SW_F32, DIMS(WIDE));
        uint32_t h = add_tensor(&s, SW_TENSOR_NATIVE, SW_F32, DIMS(N, WIDE));
        uint32_t normed = add_tensor(&s, SW_TENSOR_NATIVE, SW_F32, DIMS(N, WIDE));
        uint32_t out = add_tensor(&s, SW_TENSOR_OUTPUT, SW_F32, DIMS(N, WIDE));
        s.graph->tensors[weight]->data = w;
        s.graph->tensors[g]->data = gamma;
        add_op(&s, SW_OP_FULLY_CONNECTED, h, INPUTS(in, weight));
        add_op(&s, SW_OP_RMS_NORM, normed, INPUTS(h, g))->params.rms_norm.epsilon = 1e-5f;
        add_op(&s, SW_OP_SOFTMAX, out, INPUTS(normed))->params.softmax.beta = 1;
        sw_pool *pool;
        sw_error err;
        assert_int_equal(sw_pool_create(&pool, threads, &err), SW_OK);
        assert_runs(&s, pool, &(sw_binding){.data = x}, &(sw_binding){.data = y[threads - 1]});
        assert_memory_equal(y[threads - 1], y[0], sizeof y[0]);
        sw_pool_destroy(pool);
        small_graph_free(&s);
    }
}

static void unsupported_types_are_named(void **state) {
    (void)state;
    small_graph s;
    small_graph_init(&s);
    uint32_t x = add_tensor(&s, SW_TENSOR_INPUT, SW_F32, DIMS(2, 3));
    uint32_t w = add_tensor(&s, SW_TENSOR_CONSTANT, SW_I32, DIMS(4, 3));
    uint32_t y = add_tensor(&s, SW_TENSOR_OUTPUT, SW_F32, DIMS(2, 4));
    add_op(&s, SW_OP_FULLY_CONNECTED, y, INPUTS(x, w));
    sw_device *device;
    sw_error err;
    assert_int_equal(sw_cpu_device_create(&device, NULL, &err), SW_OK);
    assert_int_equal(device->ops->supports(device, s.graph, &s.graph->ops[0], &err), SW_UNSUPPORTED);
    static const char *const parts[] = {"op0", "FullyConnected", "f32 [2, 3]", "i32 [4, 3]",
                                        "FullyConnected f16"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(err.message, parts[i]) == NULL) fail_msg("no \"%s\" in: %s", parts[i], err.message);
    device->ops->destroy(device);
    small_graph_free(&s);
}

/* One damage to the branch graph, and a word of the sentence that refuses it. */
typedef struct damage {
    void (*apply)(branch_graph *g);
    const char *part;
} damage;

static sw_weight wrong_view = {"blk.w", NULL, IN * 4, OUT + 1, IN, SW_STORE_F32, 0, false};

static void swap_order(branch_graph *g) {
    sw_op op = g->s.graph->ops[0];
    g->s.graph->ops[0] = g->s.graph->ops[1];
    g->s.graph->ops[1] = op;
}
static void no_data(branch_graph *g) {
    g->s.graph->tensors[g->w]->data = NULL;
}
static void view_of_another_size(branch_graph *g) {
    g->s.graph->tensors[g->w]->data = NULL;
    g->s.graph->tensors[g->w]->weight = &wrong_view;
}
static void misaligned_data(branch_graph *g) {
    g->s.graph->tensors[g->w]->data = (const char *)g->weights + 1;
}
static void not_sealed(branch_graph *g) {
    g->s.graph->n_inputs = 0;
}
static void bad_index(branch_graph *g) {
    g->s.graph->ops[1].inputs[0] = 99;
}
static void bad_arity(branch_graph *g) {
    g->s.graph->ops[1].n_inputs = 2;
}
static void made_twice(branch_graph *g) {
    g->s.graph->ops[3].outputs[0] = g->early;
}
static void output_never_made(branch_graph *g) {
    g->s.graph->n_ops = 3;
}
static void writes_an_input(branch_graph *g) {
    g->s.graph->tensors[g->h]->kind = SW_TENSOR_INPUT;
}
static void bad_rank(branch_graph *g) {
    g->s.graph->tensors[g->h]->rank = 5;
}
static void empty_dimension(branch_graph *g) {
    g->s.graph->tensors[g->x]->dims[0] = 0;
}
static void huge_dimensions(branch_graph *g) {
    sw_tensor *t = g->s.graph->tensors[g->h];
    t->rank = 4;
    for (int i = 0; i < 4; i++) t->dims[i] = UINT32_MAX;
}
static void bad_type(branch_graph *g) {
    g->s.graph->ops[1].type = SW_OP_COUNT;
}

static void damaged_graphs_are_refused(void **state) {
    (void)state;
    static const damage damages[] = {
        {swap_order, "before an op makes it"},
        {no_data, "no data"},
        {view_of_another_size, "blk.w is [8, 5]"},
        {misaligned_data, "aligned"},
        {not_sealed, "not sealed"},
        {bad_index, "refers to tensor 99"},
        {bad_arity, "2 inputs"},
        {made_twice, "second time"},
        {output_never_made, "no op makes"},
        {writes_an_input, "which is an input"},
        {bad_rank, "rank 5"},
        {empty_dimension, "dimension 0 is 0"},
        {huge_dimensions, "too large"},
        {bad_type, "legal type"},
    };
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        branch_graph g;
        sw_device *device;
        sw_program *program;
        sw_error err = {.message = ""};
        branch_graph_init(&g);
        damages[i].apply(&g);
        assert_int_equal(sw_cpu_device_create(&device, NULL, &err), SW_OK);
        assert_int_equal(device->ops->load(device, g.s.graph, &program, &err), SW_INVALID_ARGUMENT);
        assert_null(program);
        if (strstr(err.message, damages[i].part) == NULL)
            fail_msg("no \"%s\" in: %s", damages[i].part, err.message);
        device->ops->destroy(device);
        small_graph_free(&g.s);
    }
}

static void bad_bindings_are_refused(void **state) {
    (void)state;
    float cache[2 * 3 * 4], out[2 * 3 * 4];
    fill_floats(cache, 24, 1);
    small_graph s;
    small_graph_init(&s);
    uint32_t x = add_tensor(&s, SW_TENSOR_INPUT, SW_F32, DIMS(1, 2, 3, 4));
    uint32_t y = add_tensor(&s, SW_TENSOR_OUTPUT, SW_F32, DIMS(6, 4));
    add_op(&s, SW_OP_RESHAPE, y, INPUTS(x));
    const sw_binding good_in = {cache}, good_out = {out};
    const sw_binding bad_in[] = {{NULL}, {(char *)cache + 2}};
    const sw_binding bad_out[] = {{NULL}, {(char *)out + 1}};
    sw_error err;
    for (size_t i = 0; i < sizeof bad_in / sizeof *bad_in; i++)
        assert_int_equal(run_graph(&s, NULL, &bad_in[i], &good_out, &err), SW_INVALID_ARGUMENT);
    for (size_t i = 0; i < sizeof bad_out / sizeof *bad_out; i++)
        assert_int_equal(run_graph(&s, NULL, &good_in, &bad_out[i], &err), SW_INVALID_ARGUMENT);
    assert_runs(&s, NULL, &good_in, &good_out);
    assert_memory_equal(cache, out, sizeof out);
    small_graph_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_op_lacks_a_kernel),        cmocka_unit_test(a_program_runs_again_and_is_observed),
        cmocka_unit_test(bindings_may_change_in_part), cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(unsupported_types_are_named), cmocka_unit_test(damaged_graphs_are_refused),
        cmocka_unit_test(bad_bindings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
