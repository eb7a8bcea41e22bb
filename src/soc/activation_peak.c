/* activation_peak.c: liveness over the ops in their order. A value lives from the op that makes it to the
 * last that reads it; a Reshape's output is its input under another name. Inputs of the graph and constants
 * come from DDR and aren't counted. */
#include <stdlib.h>

#include "soc/memory_plan.h"

typedef struct lifetimes {
    uint32_t *root; /* [tensors]: the tensor whose bytes these are */
    uint32_t *last; /* [tensors]: of roots, the last op that touches them */
} lifetimes;

static bool made_here(const sw_tensor *t) {
    return t->kind == SW_TENSOR_NATIVE || t->kind == SW_TENSOR_OUTPUT;
}

static void find_lifetimes(const sw_graph *graph, lifetimes *l) {
    for (uint32_t i = 0; i < graph->n_tensors; i++) l->root[i] = i;
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const sw_op *op = &graph->ops[i];
        if (op->type == SW_OP_RESHAPE && made_here(graph->tensors[op->inputs[0]]))
            l->root[op->outputs[0]] = l->root[op->inputs[0]];
        for (uint32_t k = 0; k < op->n_inputs; k++) l->last[l->root[op->inputs[k]]] = i;
        for (uint32_t k = 0; k < op->n_outputs; k++) l->last[l->root[op->outputs[k]]] = i;
    }
}

sw_code sw_activation_peak(const sw_graph *graph, uint64_t *bytes, const char **op_name, sw_error *err) {
    lifetimes l = {calloc(graph->n_tensors + 1u, sizeof *l.root),
                   calloc(graph->n_tensors + 1u, sizeof *l.last)};
    /* ends[i]: bytes that are free after op i. */
    uint64_t *ends = calloc(graph->n_ops + 1u, sizeof *ends), alive = 0;
    sw_code code = SW_OK;
    *bytes = 0, *op_name = NULL;
    if (l.root == NULL || l.last == NULL || ends == NULL)
        code = SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for its plan", graph->name);
    if (code == SW_OK) find_lifetimes(graph, &l);
    for (uint32_t i = 0; i < graph->n_ops && code == SW_OK; i++) {
        const sw_op *op = &graph->ops[i];
        for (uint32_t k = 0; k < op->n_outputs; k++) {
            uint32_t t = op->outputs[k];
            if (l.root[t] != t) continue;
            alive += sw_tensor_bytes(graph->tensors[t]);
            ends[l.last[t]] += sw_tensor_bytes(graph->tensors[t]);
        }
        if (alive > *bytes) *bytes = alive, *op_name = op->name;
        alive -= ends[i];
    }
    free(l.root), free(l.last), free(ends);
    return code;
}
