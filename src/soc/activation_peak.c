/* activation_peak.c: liveness over the ops in their order. A value lives from the op that makes it to the
 * last that reads it; a Reshape's output is its input under another name. Inputs of the graph and constants
 * come from DDR and aren't counted. */
#include <stdlib.h>

#include "soc/memory_plan.h"

static bool made_here(const sw_tensor *t) {
    return t->kind == SW_TENSOR_NATIVE || t->kind == SW_TENSOR_OUTPUT;
}

void sw_find_lifetimes(const sw_graph *graph, uint32_t *root, uint32_t *last) {
    for (uint32_t i = 0; i < graph->n_tensors; i++) root[i] = i, last[i] = 0;
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const sw_op *op = &graph->ops[i];
        if (op->type == SW_OP_RESHAPE && made_here(graph->tensors[op->inputs[0]]))
            root[op->outputs[0]] = root[op->inputs[0]];
        for (uint32_t k = 0; k < op->n_inputs; k++) last[root[op->inputs[k]]] = i;
        for (uint32_t k = 0; k < op->n_outputs; k++) last[root[op->outputs[k]]] = i;
    }
}

sw_code sw_activation_peak(const sw_graph *graph, uint64_t *bytes, const char **op_name, sw_error *err) {
    uint32_t *root = calloc(graph->n_tensors + 1u, sizeof *root);
    uint32_t *last = calloc(graph->n_tensors + 1u, sizeof *last);
    /* ends[i]: bytes that are free after op i. */
    uint64_t *ends = calloc(graph->n_ops + 1u, sizeof *ends), alive = 0;
    sw_code code = SW_OK;
    *bytes = 0, *op_name = NULL;
    if (root == NULL || last == NULL || ends == NULL)
        code = SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for its plan", graph->name);
    if (code == SW_OK) sw_find_lifetimes(graph, root, last);
    for (uint32_t i = 0; i < graph->n_ops && code == SW_OK; i++) {
        const sw_op *op = &graph->ops[i];
        for (uint32_t k = 0; k < op->n_outputs; k++) {
            uint32_t t = op->outputs[k];
            if (root[t] != t) continue;
            alive += sw_tensor_bytes(graph->tensors[t]);
            ends[last[t]] += sw_tensor_bytes(graph->tensors[t]);
        }
        if (alive > *bytes) *bytes = alive, *op_name = op->name;
        alive -= ends[i];
    }
    free(root), free(last), free(ends);
    return code;
}
