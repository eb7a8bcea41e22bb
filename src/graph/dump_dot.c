/* dump_dot.c: one graph for Graphviz. Nodes are ops, coloured by family; edges are tensors with type and
 * dims; a layer's ops stand in a box, by the "layer_<i>." that their names begin with. Constants are not
 * drawn as nodes: the op that uses one says so. */
#include <errno.h>
#include <string.h>

#include "graph/json.h"

static const char *color(sw_op_type type) {
    switch (type) {
    case SW_OP_FULLY_CONNECTED:
    case SW_OP_MATMUL:
        return "#9ecae1"; /* products */
    case SW_OP_RMS_NORM:
    case SW_OP_SOFTMAX:
        return "#fdae6b"; /* sums over an axis */
    case SW_OP_ROTARY_EMBEDDING:
    case SW_OP_SIGMOID:
    case SW_OP_ADD:
    case SW_OP_MULTIPLY:
        return "#a1d99b"; /* value by value */
    case SW_OP_CONVERT:
        return "#fb9a99"; /* changes of width */
    default:
        return sw_op_get_info(type)->movement ? "#d9d9d9" : "#ffffff";
    }
}

/* The layer that a name belongs to, or UINT32_MAX. */
static uint32_t layer_of(const char *name) {
    unsigned layer;
    return sscanf(name, "layer_%u.", &layer) == 1 ? layer : UINT32_MAX;
}

/* Text inside a quoted DOT string. */
static void put_text(FILE *stream, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', stream);
        fputc(*text, stream);
    }
}

static void put_type(FILE *stream, const sw_tensor *t) {
    fprintf(stream, "%s [", sw_dtype_name(t->dtype));
    for (uint32_t i = 0; i < t->rank; i++) fprintf(stream, i > 0 ? ",%u" : "%u", t->dims[i]);
    fputc(']', stream);
}

static void put_op(FILE *stream, const sw_graph *graph, uint32_t index) {
    const sw_op *op = &graph->ops[index];
    fprintf(stream, "  op%u [fillcolor=\"%s\" label=\"%s\\n", index, color(op->type),
            sw_op_get_info(op->type)->name);
    put_text(stream, op->name);
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        const sw_tensor *t = graph->tensors[op->inputs[i]];
        if (t->kind != SW_TENSOR_CONSTANT) continue;
        fputs("\\n", stream);
        put_text(stream, t->name);
        fputc(' ', stream);
        put_type(stream, t);
    }
    fputs("\"];\n", stream);
}

static void put_border(FILE *stream, const sw_graph *graph, uint32_t index) {
    const sw_tensor *t = graph->tensors[index];
    if (t->kind != SW_TENSOR_INPUT && t->kind != SW_TENSOR_OUTPUT) return;
    fprintf(stream, "  t%u [shape=ellipse fillcolor=\"%s\" label=\"", index,
            t->role == SW_ROLE_KV ? "#dadaeb" : "#ffffff");
    put_text(stream, t->name);
    fputs("\"];\n", stream);
}

static void put_edge(FILE *stream, const char *from, uint32_t from_index, const char *to, uint32_t to_index,
                     const sw_tensor *t) {
    fprintf(stream, "  %s%u -> %s%u [label=\"", from, from_index, to, to_index);
    put_type(stream, t);
    fputs("\"];\n", stream);
}

/* The ops in runs of one layer, each run in its box. */
static void put_ops(FILE *stream, const sw_graph *graph) {
    uint32_t open = UINT32_MAX;
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        uint32_t layer = layer_of(graph->ops[i].name);
        if (layer != open) {
            if (open != UINT32_MAX) fputs("  }\n", stream);
            if (layer != UINT32_MAX)
                fprintf(stream, "  subgraph cluster_%u {\n  label=\"layer %u\";\n", layer, layer);
            open = layer;
        }
        put_op(stream, graph, i);
    }
    if (open != UINT32_MAX) fputs("  }\n", stream);
}

sw_code sw_graph_write_dot(const sw_graph *graph, FILE *stream, sw_error *err) {
    sw_arena arena = SW_ARENA_EMPTY;
    uint32_t *maker = sw_arena_array(&arena, graph->n_tensors, sizeof *maker); /* op + 1, 0: none */
    if (maker == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", graph->name);
    errno = 0;
    fputs("digraph \"", stream);
    put_text(stream, graph->name);
    fprintf(stream, "\" {\n  label=\"AR %u, context %u\";\n", graph->ar_len, graph->context_len);
    fputs("  node [shape=box style=filled fontname=\"Helvetica\" fontsize=10];\n"
          "  edge [fontname=\"Helvetica\" fontsize=8];\n",
          stream);
    for (uint32_t i = 0; i < graph->n_tensors; i++) put_border(stream, graph, i);
    put_ops(stream, graph);
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const sw_op *op = &graph->ops[i];
        for (uint32_t k = 0; k < op->n_inputs; k++) {
            const sw_tensor *t = graph->tensors[op->inputs[k]];
            if (maker[op->inputs[k]] > 0)
                put_edge(stream, "op", maker[op->inputs[k]] - 1, "op", i, t);
            else if (t->kind == SW_TENSOR_INPUT)
                put_edge(stream, "t", op->inputs[k], "op", i, t);
        }
        for (uint32_t k = 0; k < op->n_outputs; k++) {
            const sw_tensor *t = graph->tensors[op->outputs[k]];
            maker[op->outputs[k]] = i + 1;
            if (t->kind == SW_TENSOR_OUTPUT) put_edge(stream, "op", i, "t", op->outputs[k], t);
        }
    }
    fputs("}\n", stream);
    sw_arena_free(&arena);
    if (fflush(stream) == 0 && !ferror(stream)) return SW_OK;
    return SW_FAIL(err, SW_IO, "can't write the graph: %s", strerror(errno));
}
