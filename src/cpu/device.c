/* device.c: the CPU device: binds a call's inputs and outputs and runs the loaded steps in order. */
#include <stdlib.h>

#include "base/huge.h"
#include "base/log.h"
#include "base/trace.h"
#include "cpu/copy.h"
#include "cpu/cpu.h"
#include "cpu/int_isa.h"
#include "cpu/program.h"
#include "cpu/quantized.h"

typedef struct cpu_device {
    sw_device base;
    sw_pool *pool; /* borrowed, may be NULL */
    sw_shared_store *store;
} cpu_device;

static sw_code supports(sw_device *device, const sw_graph *graph, const sw_op *op, sw_error *err) {
    (void)device;
    sw_op_call call;
    sw_arena arena = SW_ARENA_EMPTY;
    sw_code code = sw_op_call_init(&call, graph, op, &arena, err);
    if (code == SW_OK && sw_kernel_find(&call, err) == NULL) code = SW_UNSUPPORTED;
    sw_arena_free(&arena);
    return code;
}

static sw_code load(sw_device *device, const sw_graph *graph, sw_program **out, sw_error *err) {
    cpu_device *cpu = (cpu_device *)device;
    return sw_program_load(out, graph, cpu->pool, cpu->store, err);
}

static sw_code check_binding(const sw_tensor *t, const sw_binding *binding, sw_error *err) {
    if (binding->data == NULL || (uintptr_t)binding->data % sw_dtype_bytes(t->dtype) != 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: bound to %s", t->name,
                       binding->data == NULL ? "nothing" : "data that isn't aligned to its type");
    return SW_OK;
}

/* Indices come from the host at each call, so this can't be checked at load. */
static sw_code check_indices(const sw_op_call *call, sw_error *err) {
    const int32_t *index = call->in_data[1];
    for (size_t i = 0; i < call->in[1]->dims[0]; i++)
        if (index[i] < 0 || (uint32_t)index[i] >= call->in[0]->dims[0])
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "op %s: %s[%zu] is %d, %s has %u rows", call->op->name,
                           call->in[1]->name, i, index[i], call->in[0]->name, call->in[0]->dims[0]);
    return SW_OK;
}

static sw_op_call bind_call(const sw_program *p, const sw_step *step, uint32_t n_tokens) {
    sw_op_call call = step->call;
    call.ar_len = p->graph->ar_len, call.n_tokens = n_tokens;
    const sw_op *op = call.op;
    for (uint32_t j = 0; j < op->n_inputs; j++)
        if (call.in[j]->kind != SW_TENSOR_CONSTANT) call.in_data[j] = p->values[op->inputs[j]];
    call.out_data = p->storage[op->outputs[0]];
    if (call.places != NULL) call.places_data = p->storage[op->outputs[1]];
    return call;
}

static sw_code run_step(sw_program *p, const sw_step *step, sw_error *err) {
    const sw_op_call call = bind_call(p, step, p->graph->ar_len);
    const sw_op *op = call.op;
    if (op->type == SW_OP_GATHER) SW_TRY(check_indices(&call, err));
    sw_trace_span span = sw_trace_begin(op->name, "op", step->kernel->name);
    step->kernel->run(&call);
    sw_trace_end(span);
    for (uint32_t j = 0; j < op->n_outputs; j++) p->values[op->outputs[j]] = p->storage[op->outputs[j]];
    return SW_OK;
}

/* One step an op, every tensor seen while it lives. */
static sw_code run_observed(sw_program *p, sw_observer *observer, void *context, sw_error *err) {
    const sw_graph *graph = p->graph;
    SW_TRY(sw_program_prepare_observed(p, err));
    p->is_bound = false;
    for (uint32_t t = 0; t < graph->n_tensors; t++)
        if (graph->tensors[t]->kind == SW_TENSOR_NATIVE || graph->tensors[t]->kind == SW_TENSOR_OUTPUT)
            p->values[t] = NULL;
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const sw_op *op = &graph->ops[i];
        SW_TRY(run_step(p, &p->steps[i], err));
        observer(context, graph, op, p->values);
        for (uint32_t j = 0; j < op->n_inputs + op->n_outputs; j++) {
            uint32_t t = j < op->n_inputs ? op->inputs[j] : op->outputs[j - op->n_inputs];
            if (graph->tensors[t]->kind == SW_TENSOR_NATIVE && p->last_use[t] == i) p->values[t] = NULL;
        }
    }
    return SW_OK;
}

/* Where each step reads and writes: the same as long as the bindings are. */
static void bind_steps(sw_program *p) {
    for (uint32_t i = 0; i < p->n_run; i++) {
        const sw_step *step = p->run[i];
        const sw_op *op = step->call.op;
        if (step->hands_on) {
            p->bound[i] = (sw_bound){0};
            p->values[op->outputs[0]] = p->values[op->inputs[0]];
            continue;
        }
        p->calls[i] = bind_call(p, step, p->n_tokens);
        p->bound[i] = (sw_bound){.run = step->kernel->run,
                                 .together = step->together > 1 ? step->together : 1,
                                 .gathers = op->type == SW_OP_GATHER};
        for (uint32_t j = 0; j < op->n_outputs; j++) p->values[op->outputs[j]] = p->storage[op->outputs[j]];
    }
    p->is_bound = true;
}

enum { PREPARED_BYTES = 128 }; /* what kernels have there begins with pointers and numbers */

static void fetch(const void *data, size_t size) {
    for (size_t i = 0; i < size; i += 64) __builtin_prefetch((const char *)data + i);
}

/* What steps read besides values was last read a token ago, and has to come from memory: the call behind step
 * i, and what step i's points at. */
static void fetch_ahead(const sw_program *p, uint32_t i) {
    if (i + 1 < p->n_run) fetch(&p->calls[i + 1], sizeof p->calls[i + 1]);
    if (i >= p->n_run || p->bound[i].together == 0) return;
    const sw_op_call *next = &p->calls[i];
    fetch(next->in[0], sizeof *next->in[0]);
    fetch(next->out, sizeof *next->out);
    if (next->in[1] != NULL) fetch(next->in[1], sizeof *next->in[1]);
    if (next->prepared != NULL) fetch(next->prepared, PREPARED_BYTES);
}

static sw_trace_span begin_trace(const sw_step *step) {
    return sw_trace_begin(step->call.op->name, "op", step->together > 1 ? step->label : step->kernel->name);
}

static sw_code run_steps(sw_program *p, sw_error *err) {
    const bool traced = sw_trace_is_on();
    if (!p->is_bound) bind_steps(p);
    for (uint32_t i = 0; i < p->n_run;) {
        const sw_bound *b = &p->bound[i];
        const sw_op_call *calls = &p->calls[i];
        const sw_step *step = traced && b->together > 0 ? p->run[i] : NULL;
        i += b->together > 0 ? b->together : 1;
        fetch_ahead(p, i);
        if (b->gathers) SW_TRY(check_indices(calls, err));
        sw_trace_span span = step != NULL ? begin_trace(step) : (sw_trace_span){0};
        if (b->together == 1) b->run(calls);
        if (b->together > 1) sw_quantized_fully_connected_run_together(calls, b->together);
        sw_trace_end(span);
    }
    return SW_OK;
}

static void limit_tokens(sw_program *p, uint32_t n_tokens) {
    if (!p->can_limit) n_tokens = p->graph->ar_len;
    if (p->n_tokens != n_tokens) p->is_bound = false;
    p->n_tokens = n_tokens;
}

/* Where the mask of a row asked for blocks too little for its scores, the rows that weren't computed were
 * seen: once more with all of them, as every later call. */
static sw_code run(sw_program *p, sw_error *err) {
    atomic_store(&p->blocked_counts, false);
    SW_TRY(run_steps(p, err));
    if (p->n_tokens == p->graph->ar_len || !atomic_load(&p->blocked_counts)) return SW_OK;
    p->can_limit = false;
    limit_tokens(p, p->graph->ar_len);
    return run_steps(p, err);
}

/* Of a tensor whose data is elsewhere than at the last call. */
static sw_code check_bound(sw_program *p, const sw_tensor *t, const sw_binding *b, const void *before,
                           sw_error *err) {
    if (b->data == before && before != NULL) return SW_OK;
    p->is_bound = false;
    return check_binding(t, b, err);
}

static sw_code execute(sw_program *p, const sw_binding *inputs, const sw_binding *outputs,
                       sw_observer *observer, void *observer_context, sw_error *err) {
    const sw_graph *graph = p->graph;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const void **value = &p->values[graph->inputs[i]];
        SW_TRY(check_bound(p, graph->tensors[graph->inputs[i]], &inputs[i], *value, err));
        *value = inputs[i].data;
    }
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        void **storage = &p->storage[graph->outputs[i]];
        SW_TRY(check_bound(p, graph->tensors[graph->outputs[i]], &outputs[i], *storage, err));
        *storage = outputs[i].data;
    }
    sw_trace_span span = sw_trace_begin(graph->name, "graph", NULL);
    sw_code code = observer != NULL ? run_observed(p, observer, observer_context, err) : run(p, err);
    sw_trace_end(span);
    return code;
}

static void *allocate(sw_device *device, size_t size) {
    (void)device;
    return sw_huge_alloc(size);
}

static void release(sw_device *device, void *data, size_t size) {
    (void)device;
    sw_huge_free(data, size);
}

static void destroy(sw_device *device) {
    sw_shared_store_destroy(((cpu_device *)device)->store);
    free(device);
}

static const sw_device_ops device_ops = {.name = "cpu",
                                         .supports = supports,
                                         .load = load,
                                         .execute = execute,
                                         .limit_tokens = limit_tokens,
                                         .unload = sw_program_unload,
                                         .destroy = destroy,
                                         .allocate = allocate,
                                         .release = release};

sw_code sw_cpu_device_create(sw_device **out, sw_pool *pool, sw_error *err) {
    SW_TRY(sw_isa_check_environment(err));
    cpu_device *device = calloc(1, sizeof *device);
    sw_shared_store *store = device != NULL ? sw_shared_store_create() : NULL;
    if (store == NULL) {
        free(device);
        return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    }
    *device = (cpu_device){.base = {.ops = &device_ops}, .pool = pool, .store = store};
    *out = &device->base;
    sw_log(SW_LOG_VERBOSE, "cpu: %s kernels, %u threads", sw_isa_name(sw_int_best()->needs),
           sw_pool_threads(pool));
    return SW_OK;
}
