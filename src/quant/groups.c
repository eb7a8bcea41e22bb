/* groups.c: ties ranges together by union-find (with path halving: Tarjan and van Leeuwen, 1984).
 *
 * Values that are only moved must keep their integers, so all ranges along a path of movement ops are one: a
 * KV cache, its new entries, their concatenation and its slices. The same holds over graphs, since ranges
 * have names: what prefill wrote, decode reads (the encodings belong to the names). */
#include "quant/groups.h"

#include <string.h>

static uint32_t find(sw_groups *g, uint32_t i) {
    while (g->parent[i] != i) i = g->parent[i] = g->parent[g->parent[i]];
    return i;
}

uint32_t sw_groups_root(sw_groups *g, const char *range) {
    return find(g, sw_names_find(&g->names, range));
}

sw_range_kind sw_groups_kind(sw_groups *g, const char *range) {
    return g->kinds[sw_groups_root(g, range)];
}

static bool has_range(const sw_tensor *t) {
    return t->kind != SW_TENSOR_CONSTANT && t->role != SW_ROLE_INDEX;
}

static uint32_t root_of(sw_groups *g, const sw_graph *graph, uint32_t tensor) {
    return sw_groups_root(g, graph->tensors[tensor]->range);
}

/* The root of a stays the root. */
static void join(sw_groups *g, const sw_graph *graph, uint32_t a, uint32_t b) {
    if (has_range(graph->tensors[a]) && has_range(graph->tensors[b]))
        g->parent[root_of(g, graph, b)] = root_of(g, graph, a);
}

static void join_movement(sw_groups *g, const sw_graph *graph) {
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const sw_op *op = &graph->ops[i];
        if (!sw_op_get_info(op->type)->movement) continue;
        uint32_t n = op->type == SW_OP_GATHER ? 1 : op->n_inputs;
        for (uint32_t k = 0; k < n; k++) join(g, graph, op->outputs[0], op->inputs[k]);
    }
}

static sw_code set_kind(sw_groups *g, const sw_graph *graph, const sw_op *op, uint32_t tensor,
                        sw_range_kind kind, sw_error *err) {
    if (!has_range(graph->tensors[tensor])) return SW_OK;
    uint32_t root = root_of(g, graph, tensor);
    if (g->kinds[root] != SW_RANGE_SEEN && g->kinds[root] != kind)
        return SW_FAIL(err, SW_UNSUPPORTED,
                       "%s: %s needs an encoding of its own, but ops that only move data tie it to another "
                       "fixed encoding",
                       op->name, graph->tensors[tensor]->name);
    g->kinds[root] = kind;
    return SW_OK;
}

/* Marks what the op's meaning fixes. Joins of movement ops are done. */
static sw_code set_kinds(sw_groups *g, const sw_graph *graph, sw_error *err) {
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const sw_op *op = &graph->ops[i];
        if (op->type == SW_OP_SOFTMAX || op->type == SW_OP_SIGMOID)
            SW_TRY(set_kind(g, graph, op, op->outputs[0], SW_RANGE_UNIT, err));
        if (op->type == SW_OP_ROTARY_EMBEDDING)
            for (uint32_t k = 1; k <= 2; k++)
                SW_TRY(set_kind(g, graph, op, op->inputs[k], SW_RANGE_TURN, err));
        if (op->type == SW_OP_MATMUL) SW_TRY(set_kind(g, graph, op, op->inputs[1], SW_RANGE_KV, err));
        if (op->type != SW_OP_SOFTMAX) continue;
        float beta = op->params.softmax.beta;
        if (!(beta > 0))
            return SW_FAIL(err, SW_UNSUPPORTED, "%s: beta %g, must be > 0", op->name, (double)beta);
        SW_TRY(set_kind(g, graph, op, op->inputs[0], SW_RANGE_SCORES, err));
        float *least = &g->betas[root_of(g, graph, op->inputs[0])];
        if (*least == 0 || beta < *least) *least = beta;
    }
    uint32_t mask = sw_graph_find(graph, "mask");
    if (mask == UINT32_MAX || graph->tensors[mask]->kind != SW_TENSOR_INPUT) return SW_OK;
    g->kinds[root_of(g, graph, mask)] = SW_RANGE_MASK;
    return SW_OK;
}

/* Where the mask is added to scores, they need no more range before than after. */
static void join_masked(sw_groups *g, const sw_graph *graph) {
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const sw_op *op = &graph->ops[i];
        if (op->type != SW_OP_ADD || g->kinds[root_of(g, graph, op->outputs[0])] != SW_RANGE_SCORES) continue;
        for (uint32_t k = 0; k < 2; k++)
            if (has_range(graph->tensors[op->inputs[k]]) &&
                g->kinds[root_of(g, graph, op->inputs[k])] != SW_RANGE_MASK)
                join(g, graph, op->outputs[0], op->inputs[k]);
    }
}

sw_code sw_groups_init(sw_groups *g, sw_graph *const *graphs, uint32_t n_graphs, sw_error *err) {
    *g = (sw_groups){.parent = NULL};
    for (uint32_t i = 0; i < n_graphs; i++)
        for (uint32_t t = 0; t < graphs[i]->n_tensors; t++)
            if (has_range(graphs[i]->tensors[t]) &&
                sw_names_add(&g->names, graphs[i]->tensors[t]->range) == UINT32_MAX)
                return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for its ranges", graphs[i]->name);

    uint32_t n = g->names.count;
    g->parent = sw_arena_array(&g->names.arena, n, sizeof *g->parent);
    g->kinds = sw_arena_array(&g->names.arena, n, sizeof *g->kinds);
    g->betas = sw_arena_array(&g->names.arena, n, sizeof *g->betas);
    if (!g->parent || !g->kinds || !g->betas) return SW_FAIL(err, SW_NO_MEMORY, "no memory for %u ranges", n);
    for (uint32_t i = 0; i < n; i++) g->parent[i] = i;

    for (uint32_t i = 0; i < n_graphs; i++) join_movement(g, graphs[i]);
    for (uint32_t i = 0; i < n_graphs; i++) SW_TRY(set_kinds(g, graphs[i], err));
    for (uint32_t i = 0; i < n_graphs; i++) join_masked(g, graphs[i]);
    return SW_OK;
}

void sw_groups_free(sw_groups *g) {
    sw_names_free(&g->names);
    *g = (sw_groups){.parent = NULL};
}
