/* extract.c: copies an op and the tensors around it. */
#include "graph/extract.h"

sw_graph *sw_graph_extract_op(sw_arena *arena, const sw_graph *graph, const sw_op *op) {
    sw_graph *one = sw_graph_create(arena, op->name, graph->ar_len, graph->context_len);
    if (one == NULL) return NULL;
    sw_op copy = *op;
    for (uint32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        bool output = i >= op->n_inputs;
        uint32_t from = output ? op->outputs[i - op->n_inputs] : op->inputs[i];
        uint32_t *to = output ? &copy.outputs[i - op->n_inputs] : &copy.inputs[i];
        *to = UINT32_MAX;
        for (uint32_t k = 0; k < i && k < op->n_inputs; k++)
            if (op->inputs[k] == from) *to = copy.inputs[k];
        if (*to != UINT32_MAX) continue;
        sw_tensor *t = graph->tensors[from];
        if (t->kind != SW_TENSOR_CONSTANT) {
            sw_tensor *border = sw_arena_alloc(arena, sizeof *border);
            if (border == NULL) return NULL;
            *border = *t;
            border->kind = output ? SW_TENSOR_OUTPUT : SW_TENSOR_INPUT;
            t = border;
        }
        *to = sw_graph_add_tensor(one, t);
        if (*to == UINT32_MAX) return NULL;
    }
    return sw_graph_add_op(one, &copy) && sw_graph_seal(one) ? one : NULL;
}
