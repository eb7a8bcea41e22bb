/* extract.c: copies ops and the tensors around them. */
#include "graph/extract.h"

/* The tensor in `one`; added, as `kind` unless it is a constant, where it isn't there yet. UINT32_MAX without
 * memory. */
static uint32_t carry(sw_graph *one, sw_tensor *t, sw_tensor_kind kind) {
    uint32_t index = sw_graph_find(one, t->name);
    if (index != UINT32_MAX) return index;
    if (t->kind != SW_TENSOR_CONSTANT) {
        sw_tensor *copy = sw_arena_alloc(one->arena, sizeof *copy);
        if (copy == NULL) return UINT32_MAX;
        *copy = *t;
        copy->kind = kind;
        t = copy;
    }
    return sw_graph_add_tensor(one, t);
}

static bool append(sw_graph *one, const sw_graph *graph, const sw_op *op, sw_tensor_kind output_kind) {
    sw_op copy = *op;
    for (uint32_t i = 0; i < op->n_inputs; i++)
        if ((copy.inputs[i] = carry(one, graph->tensors[op->inputs[i]], SW_TENSOR_INPUT)) == UINT32_MAX)
            return false;
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if ((copy.outputs[i] = carry(one, graph->tensors[op->outputs[i]], output_kind)) == UINT32_MAX)
            return false;
    return sw_graph_add_op(one, &copy);
}

/* Of a Multiply of x by Sigmoid(x): the Sigmoid; else NULL. */
static const sw_op *sigmoid_of(const sw_graph *graph, const sw_op *op) {
    for (uint32_t i = 0; i < graph->n_ops; i++)
        if (sw_op_silu_input(op, &graph->ops[i]) > 0) return &graph->ops[i];
    return NULL;
}

sw_graph *sw_graph_extract_op(sw_arena *arena, const sw_graph *graph, const sw_op *op) {
    sw_graph *one = sw_graph_create(arena, op->name, graph->ar_len, graph->context_len);
    if (one == NULL) return NULL;
    const sw_op *before = sigmoid_of(graph, op);
    if (before != NULL && !append(one, graph, before, SW_TENSOR_NATIVE)) return NULL;
    return append(one, graph, op, SW_TENSOR_OUTPUT) && sw_graph_seal(one) ? one : NULL;
}

sw_graph *sw_graph_extract_ops(sw_arena *arena, const sw_graph *graph, uint32_t first, uint32_t count) {
    const sw_op *ops = graph->ops + first;
    sw_graph *some = sw_graph_create(arena, graph->name, graph->ar_len, graph->context_len);
    if (some == NULL) return NULL;
    for (uint32_t i = 0; i < count; i++) {
        bool leaves = i + 1 == count || graph->tensors[ops[i].outputs[0]]->kind == SW_TENSOR_OUTPUT;
        if (!append(some, graph, &ops[i], leaves ? SW_TENSOR_OUTPUT : SW_TENSOR_NATIVE)) return NULL;
    }
    return sw_graph_seal(some) ? some : NULL;
}
