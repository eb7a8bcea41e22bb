/* small_graph.h: graphs built by hand for the tests of the CPU device, and seeded numbers to fill them with.
 */
#ifndef SW_TESTS_CPU_SMALL_GRAPH_H
#define SW_TESTS_CPU_SMALL_GRAPH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/cpu.h"

typedef struct small_graph {
    sw_arena arena;
    sw_graph *graph;
    unsigned names;
} small_graph;

static inline void small_graph_init(small_graph *s) {
    *s = (small_graph){.names = 0};
    s->graph = sw_graph_create(&s->arena, "small", 1, 1);
    assert_non_null(s->graph);
}

static inline void small_graph_free(small_graph *s) {
    sw_arena_free(&s->arena);
}

#define DIMS(...)                                                                                            \
    (sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)), (const uint32_t[]) {                       \
        __VA_ARGS__                                                                                          \
    }

static inline uint32_t add_tensor(small_graph *s, sw_tensor_kind kind, sw_dtype dtype, size_t rank,
                                  const uint32_t *dims) {
    sw_tensor *t = sw_arena_alloc(&s->arena, sizeof *t);
    assert_non_null(t);
    const char *name = sw_arena_printf(&s->arena, "t%u", s->names++);
    *t = (sw_tensor){.name = name, .range = name, .kind = kind, .dtype = dtype, .rank = (uint32_t)rank};
    for (size_t i = 0; i < rank; i++) t->dims[i] = dims[i];
    return sw_graph_add_tensor(s->graph, t);
}

/* An op with n inputs and one output; parameters may be set in the returned op. */
static inline sw_op *add_op(small_graph *s, sw_op_type type, uint32_t output, uint32_t n,
                            const uint32_t *inputs) {
    sw_op op = {.type = type,
                .name = sw_arena_printf(&s->arena, "op%u", s->graph->n_ops),
                .n_inputs = n,
                .n_outputs = 1};
    memcpy(op.inputs, inputs, n * sizeof *inputs);
    op.outputs[0] = output;
    assert_true(sw_graph_add_op(s->graph, &op));
    return &s->graph->ops[s->graph->n_ops - 1];
}

#define INPUTS(...)                                                                                          \
    (uint32_t)(sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)), (const uint32_t[]) {             \
        __VA_ARGS__                                                                                          \
    }

/* Loads, runs once, unloads; the code of the first that fails. */
static inline sw_code run_graph(small_graph *s, sw_pool *pool, const sw_binding *inputs,
                                const sw_binding *outputs, sw_error *err) {
    sw_device *device;
    sw_program *program;
    assert_true(sw_graph_seal(s->graph));
    assert_int_equal(sw_cpu_device_create(&device, pool, err), SW_OK);
    sw_code code = device->ops->load(device, s->graph, &program, err);
    if (code == SW_OK) {
        code = device->ops->execute(program, inputs, outputs, NULL, NULL, err);
        device->ops->unload(program);
    }
    device->ops->destroy(device);
    return code;
}

#define assert_runs(s, pool, inputs, outputs)                                                                \
    do {                                                                                                     \
        sw_error run_error = {.message = ""};                                                                \
        if (run_graph(s, pool, inputs, outputs, &run_error) != SW_OK) fail_msg("%s", run_error.message);     \
    } while (0)

/* Numbers of a linear congruential generator (Knuth's MMIX constants), in [-1, 1). */
static inline float next_float(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)((int32_t)(*seed >> 40) - (1 << 23)) / (1 << 23);
}

static inline void fill_floats(float *out, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++) out[i] = next_float(&seed);
}

#endif
