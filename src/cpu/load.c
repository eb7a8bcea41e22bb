/* load.c: makes a graph ready to run: kernels chosen, constants prepared, one buffer planned. */
#include <stdlib.h>
#include <string.h>

#include "cpu/fuse.h"
#include "cpu/plan.h"
#include "cpu/program.h"

enum { NEVER = UINT32_MAX };

static bool aligned(const void *data, sw_dtype type) {
    return (uintptr_t)data % sw_dtype_bytes(type) == 0;
}

/* A constant needs values. Only the float kernels of FullyConnected and RmsNorm read a checkpoint's view. */
static sw_code check_constant(const sw_op_call *call, uint32_t input, sw_error *err) {
    const sw_tensor *t = call->in[input];
    if (t->data != NULL && !aligned(t->data, t->dtype))
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "constant %s: its data isn't aligned to the %zu bytes of %s",
                       t->name, sw_dtype_bytes(t->dtype), sw_dtype_name(t->dtype));
    if (t->data != NULL) return SW_OK;
    bool reads_views = call->op->type == SW_OP_FULLY_CONNECTED || call->op->type == SW_OP_RMS_NORM;
    bool is_float = t->dtype == SW_F32 || t->dtype == SW_F16;
    if (t->weight == NULL || !is_float || !reads_views || input != 1)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "op %s: constant %s (%s) has no data yet", call->op->name,
                       t->name, sw_dtype_name(t->dtype));
    return SW_OK;
}

/* Of a Multiply; made_by [n_tensors]. */
static uint32_t find_silu_input(const sw_graph *graph, const sw_op *op, const uint32_t *made_by) {
    if (op->type != SW_OP_MULTIPLY) return 0;
    for (uint32_t j = 0; j < 2; j++) {
        const uint32_t maker = made_by[op->inputs[1 - j]];
        const uint32_t silu_input = maker != NEVER ? sw_op_silu_input(op, &graph->ops[maker]) : 0;
        if (silu_input > 0) return silu_input;
    }
    return 0;
}

/* Walks the ops in order: every input must have been made before it is read. Fills steps and lifetimes. */
static sw_code choose_kernels(sw_program *p, uint32_t *first_use, sw_error *err) {
    const sw_graph *graph = p->graph;
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const sw_op *op = &graph->ops[i];
        sw_step *step = &p->steps[i];
        step->index = i;
        SW_TRY(sw_op_call_init(&step->call, graph, op, &p->arena, err));
        step->call.silu_input = find_silu_input(graph, op, first_use);
        step->kernel = sw_kernel_find(&step->call, err);
        if (step->kernel == NULL) return SW_UNSUPPORTED;
        step->call.pool = p->pool, step->call.shared = &p->shared;

        for (uint32_t j = 0; j < op->n_inputs; j++) {
            uint32_t t = op->inputs[j];
            const sw_tensor *tensor = graph->tensors[t];
            if (tensor->kind == SW_TENSOR_CONSTANT)
                SW_TRY(check_constant(&step->call, j, err));
            else if (tensor->kind != SW_TENSOR_INPUT && first_use[t] == NEVER)
                return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: op %s reads %s before an op makes it",
                               graph->name, op->name, tensor->name);
            p->last_use[t] = i;
        }
        for (uint32_t j = 0; j < op->n_outputs; j++) {
            uint32_t out = op->outputs[j];
            const sw_tensor *tensor = graph->tensors[out];
            if (tensor->kind != SW_TENSOR_NATIVE && tensor->kind != SW_TENSOR_OUTPUT)
                return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: op %s writes %s, which is an %s", graph->name,
                               op->name, tensor->name, sw_tensor_kind_name(tensor->kind));
            if (first_use[out] != NEVER)
                return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: op %s makes %s a second time", graph->name,
                               op->name, tensor->name);
            first_use[out] = p->last_use[out] = i;
        }
    }
    return SW_OK;
}

/* The border must be sealed, and every output made. */
static sw_code check_border(const sw_graph *graph, const uint32_t *first_use, sw_error *err) {
    uint32_t n_inputs = 0, n_outputs = 0;
    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        n_inputs += graph->tensors[t]->kind == SW_TENSOR_INPUT;
        n_outputs += graph->tensors[t]->kind == SW_TENSOR_OUTPUT;
        if (graph->tensors[t]->kind == SW_TENSOR_OUTPUT && first_use[t] == NEVER)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: no op makes the output %s", graph->name,
                           graph->tensors[t]->name);
    }
    if (n_inputs != graph->n_inputs || n_outputs != graph->n_outputs)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "%s: %u inputs and %u outputs are listed, %u and %u are there: not sealed",
                       graph->name, graph->n_inputs, graph->n_outputs, n_inputs, n_outputs);
    return SW_OK;
}

static sw_code plan_natives(sw_program *p, const uint32_t *first_use, sw_arena *work, sw_error *err) {
    const sw_graph *graph = p->graph;
    sw_plan_block *blocks = sw_arena_array(work, graph->n_tensors, sizeof *blocks);
    if (blocks == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    size_t n = 0;
    for (uint32_t t = 0; t < graph->n_tensors; t++)
        if (graph->tensors[t]->kind == SW_TENSOR_NATIVE && first_use[t] != NEVER)
            blocks[n++] = (sw_plan_block){.size_bytes = sw_tensor_bytes(graph->tensors[t]),
                                          .first = first_use[t],
                                          .last = p->last_use[t]};
    uint64_t size;
    SW_TRY(sw_plan(blocks, n, work, &size, err));
    char *buffer = sw_arena_alloc(&p->arena, (size_t)size);
    if (buffer == NULL)
        return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for %llu bytes of activations", graph->name,
                       (unsigned long long)size);
    n = 0;
    for (uint32_t t = 0; t < graph->n_tensors; t++)
        if (graph->tensors[t]->kind == SW_TENSOR_NATIVE && first_use[t] != NEVER)
            p->storage[t] = buffer + blocks[n++].offset;
    return SW_OK;
}

static sw_code prepare_step(sw_program *p, sw_step *step, sw_error *err) {
    if (step->kernel->prepare != NULL && step->kernel->prepare(&step->call, &p->arena, err) != SW_OK)
        return sw_error_prefix(err, "op %s", step->call.op->name);
    return SW_OK;
}

sw_code sw_program_prepare_observed(sw_program *p, sw_error *err) {
    for (uint32_t i = 0; i < p->graph->n_ops && !p->observable; i++)
        if (p->steps[i].for_observers) SW_TRY(prepare_step(p, &p->steps[i], err));
    p->observable = true;
    return SW_OK;
}

/* Constants are in place from here on; each kernel prepares, and the largest wish for scratch is met. */
static sw_code prepare(sw_program *p, sw_error *err) {
    size_t scratch_bytes = 0;
    for (uint32_t i = 0; i < p->graph->n_ops; i++) {
        sw_step *step = &p->steps[i];
        for (uint32_t j = 0; j < step->call.op->n_inputs; j++)
            if (step->call.in[j]->kind == SW_TENSOR_CONSTANT) {
                step->call.in_data[j] = step->call.in[j]->data;
                p->values[step->call.op->inputs[j]] = p->graph->tensors[step->call.op->inputs[j]]->data;
            }
        if (!step->for_observers) SW_TRY(prepare_step(p, step, err));
        size_t wish = step->kernel->scratch_bytes != NULL ? step->kernel->scratch_bytes(&step->call) : 0;
        if (wish > scratch_bytes) scratch_bytes = wish;
    }
    for (uint32_t i = 0; i < p->n_run; i++) { /* some of the same steps, and those that stand for several */
        size_t wish =
            p->run[i]->kernel->scratch_bytes != NULL ? p->run[i]->kernel->scratch_bytes(&p->run[i]->call) : 0;
        if (wish > scratch_bytes) scratch_bytes = wish;
    }
    p->scratch = sw_arena_alloc(&p->arena, scratch_bytes);
    p->bound = sw_arena_array(&p->arena, p->n_run, sizeof *p->bound);
    p->calls = sw_arena_array(&p->arena, p->n_run, sizeof *p->calls);
    if (p->bound == NULL || p->calls == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    if (p->scratch == NULL)
        return SW_FAIL(err, SW_NO_MEMORY, "no memory for %zu bytes of scratch", scratch_bytes);
    for (uint32_t i = 0; i < p->graph->n_ops; i++) p->steps[i].call.scratch = p->scratch;
    for (uint32_t i = 0; i < p->n_run; i++) p->run[i]->call.scratch = p->scratch;
    return SW_OK;
}

static sw_code load(sw_program *p, sw_arena *work, sw_error *err) {
    const sw_graph *graph = p->graph;
    size_t n = graph->n_tensors;
    uint32_t *first_use = sw_arena_array(work, n, sizeof *first_use);
    p->steps = sw_arena_array(&p->arena, graph->n_ops, sizeof *p->steps);
    p->last_use = sw_arena_array(&p->arena, n, sizeof *p->last_use);
    p->storage = sw_arena_array(&p->arena, n, sizeof *p->storage);
    p->values = sw_arena_array(&p->arena, n, sizeof *p->values);
    if (first_use == NULL || p->steps == NULL || p->last_use == NULL || p->storage == NULL ||
        p->values == NULL)
        return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    for (size_t t = 0; t < n; t++) first_use[t] = NEVER;

    SW_TRY(choose_kernels(p, first_use, err));
    SW_TRY(check_border(graph, first_use, err));
    SW_TRY(sw_fuse(p, first_use, err));
    p->can_limit = true;
    for (uint32_t i = 0; i < p->n_run; i++) /* a Softmax that isn't in a step of attention tells nothing */
        if (p->run[i]->call.op->type == SW_OP_SOFTMAX) p->can_limit = false;
    SW_TRY(plan_natives(p, first_use, work, err));
    return prepare(p, err);
}

sw_code sw_program_load(sw_program **out, const sw_graph *graph, sw_pool *pool, sw_shared_store *store,
                        sw_error *err) {
    *out = NULL;
    sw_program *p = calloc(1, sizeof *p);
    if (p == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    p->graph = graph;
    p->n_tokens = graph->ar_len;
    p->pool = pool;
    p->shared = (sw_shared){.store = store, .arena = &p->arena};
    sw_arena work = SW_ARENA_EMPTY;
    sw_code code = load(p, &work, err);
    sw_arena_free(&work);
    if (code != SW_OK) {
        sw_program_unload(p);
        return code;
    }
    *out = p;
    return SW_OK;
}

void sw_program_unload(sw_program *program) {
    if (program == NULL) return;
    sw_shared_release(&program->shared);
    sw_arena_free(&program->arena);
    free(program);
}
