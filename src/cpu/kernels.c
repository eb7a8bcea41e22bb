/* kernels.c: from an op to the kernel that computes it. */
#include <stdarg.h>
#include <stdio.h>

#include "base/bytes.h"
#include "cpu/program.h"

/* Text that is cut off where it doesn't fit: it only goes into a message. */
typedef struct text {
    char data[512];
    size_t length;
} text;

SW_PRINTF(2, 3) static void add(text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->data + t->length, sizeof t->data - t->length, format, args);
    va_end(args);
    if (n > 0) t->length += (size_t)n;
    if (t->length > sizeof t->data - 1) t->length = sizeof t->data - 1;
}

static void add_tensor(text *t, const sw_tensor *tensor) {
    add(t, "%s [", sw_dtype_name(tensor->dtype));
    for (uint32_t i = 0; i < tensor->rank; i++) add(t, i > 0 ? ", %u" : "%u", tensor->dims[i]);
    add(t, "]");
}

typedef struct table {
    const sw_kernel *kernels;
    size_t count;
} table;

const sw_kernel *sw_kernel_find(const sw_op_call *call, sw_error *err) {
    const table tables[] = {{sw_kernels_movement, sw_kernels_movement_count},
                            {sw_kernels_quantized, sw_kernels_quantized_count},
                            {sw_kernels_float, sw_kernels_float_count}};
    text known = {.length = 0}, types = {.length = 0};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (size_t i = 0; i < tables[t].count; i++) {
            const sw_kernel *kernel = &tables[t].kernels[i];
            if (kernel->op != call->op->type) continue;
            if (kernel->matches(call)) return kernel;
            add(&known, "%s%s", known.length > 0 ? "; " : "", kernel->name);
        }

    for (uint32_t i = 0; i < call->op->n_inputs; i++) {
        if (i > 0) add(&types, ", ");
        add_tensor(&types, call->in[i]);
    }
    add(&types, " -> ");
    add_tensor(&types, call->out);
    SW_FAIL(err, SW_UNSUPPORTED, "op %s: the CPU device has no %s for %s (it has: %s)", call->op->name,
            sw_op_get_info(call->op->type)->name, types.data, known.length > 0 ? known.data : "none");
    return NULL;
}

static sw_code check_tensor(const sw_graph *graph, const sw_tensor *t, sw_error *err) {
    if ((unsigned)t->dtype >= SW_DTYPE_COUNT || (unsigned)t->kind >= SW_TENSOR_KIND_COUNT)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: tensor %s has no legal type or kind", graph->name,
                       t->name);
    if (t->rank == 0 || t->rank > SW_MAX_RANK)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: tensor %s has rank %u, wanted 1 to %d", graph->name,
                       t->name, t->rank, SW_MAX_RANK);
    uint64_t bytes = sw_dtype_bytes(t->dtype);
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->dims[i] == 0 || !sw_mul_u64(bytes, t->dims[i], &bytes) || bytes > SIZE_MAX / 4)
            return SW_FAIL(err, SW_INVALID_ARGUMENT,
                           "%s: tensor %s: dimension %u is %u, which makes its size 0 or too large",
                           graph->name, t->name, i, t->dims[i]);
    return SW_OK;
}

/* The second input, a constant of which the op takes some channels. */
static sw_code take_channels(sw_op_call *call, sw_arena *arena, sw_error *err) {
    const sw_op *op = call->op;
    const sw_tensor *w = op->n_inputs > 1 ? call->in[1] : NULL;
    if (w == NULL || w->kind != SW_TENSOR_CONSTANT || w->rank != 2 ||
        op->channels.begin >= op->channels.end || op->channels.end > w->dims[0])
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "op %s: takes channels %u to %u, but its constant has %u",
                       op->name, op->channels.begin, op->channels.end, w != NULL ? w->dims[0] : 0);
    sw_tensor *rows = sw_arena_alloc(arena, sizeof *rows);
    sw_weight *view = sw_arena_alloc(arena, sizeof *view);
    if (rows == NULL || view == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    sw_constant_rows(w, op->channels.begin, op->channels.end, rows, view);
    call->in[1] = rows;
    return SW_OK;
}

sw_code sw_op_call_init(sw_op_call *call, const sw_graph *graph, const sw_op *op, sw_arena *arena,
                        sw_error *err) {
    *call = (sw_op_call){.op = op};
    if ((unsigned)op->type >= SW_OP_COUNT)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: op %s has no legal type", graph->name, op->name);
    const sw_op_info *info = sw_op_get_info(op->type);
    if (op->n_inputs < info->least_inputs || op->n_inputs > info->most_inputs ||
        op->n_inputs > SW_MAX_INPUTS || op->n_outputs != info->n_outputs)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "%s: op %s (%s) has %u inputs and %u outputs, wanted %u to %u and %u", graph->name,
                       op->name, info->name, op->n_inputs, op->n_outputs, info->least_inputs,
                       info->most_inputs, info->n_outputs);
    for (uint32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        uint32_t index = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        if (index >= graph->n_tensors)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: op %s refers to tensor %u, the graph has %u",
                           graph->name, op->name, index, graph->n_tensors);
        SW_TRY(check_tensor(graph, graph->tensors[index], err));
        if (i < op->n_inputs)
            call->in[i] = graph->tensors[index];
        else if (i == op->n_inputs)
            call->out = graph->tensors[index];
        else
            call->places = graph->tensors[index];
    }
    return op->channels.end != 0 ? take_channels(call, arena, err) : SW_OK;
}
