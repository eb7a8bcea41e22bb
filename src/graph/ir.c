/* ir.c: names of the IR's lists and the growth of a graph. */
#include "graph/ir.h"

#include <string.h>

#include "base/find_name.h"

typedef struct dtype_info {
    const char *name;
    size_t bytes;
    bool quantized;
} dtype_info;

static const dtype_info dtypes[SW_DTYPE_COUNT] = {
#define SW_DTYPE_ROW(id, name, bytes, quantized) [id] = {name, bytes, quantized},
    SW_DTYPES(SW_DTYPE_ROW)
#undef SW_DTYPE_ROW
};

static const sw_op_info ops[SW_OP_COUNT] = {
#define SW_OP(id, qnn_name, least, most, outputs, movement) [id] = {qnn_name, least, most, outputs, movement},
#include "graph/ops.inc"
#undef SW_OP
};

static const char *const kind_names[SW_TENSOR_KIND_COUNT] = {"input", "output", "native", "constant"};
static const char *const role_names[SW_ROLE_COUNT] = {"activation", "kv", "index", "weight", "gamma"};

const char *sw_dtype_name(sw_dtype type) {
    return dtypes[type].name;
}
size_t sw_dtype_bytes(sw_dtype type) {
    return dtypes[type].bytes;
}
bool sw_dtype_quantized(sw_dtype type) {
    return dtypes[type].quantized;
}

int32_t sw_dtype_min(sw_dtype type) {
    return type == SW_S8 ? -128 : 0;
}

int32_t sw_dtype_max(sw_dtype type) {
    return type == SW_S8 ? 127 : type == SW_U16 ? 65535 : 255;
}

const char *sw_tensor_kind_name(sw_tensor_kind kind) {
    return kind_names[kind];
}
const char *sw_role_name(sw_role role) {
    return role_names[role];
}

bool sw_dtype_from_name(const char *name, sw_dtype *out) {
    for (unsigned i = 0; i < SW_DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) != 0) continue;
        *out = (sw_dtype)i;
        return true;
    }
    return false;
}

bool sw_tensor_kind_from_name(const char *name, sw_tensor_kind *out) {
    unsigned i;
    if (!sw_find_name(kind_names, SW_TENSOR_KIND_COUNT, name, &i)) return false;
    *out = (sw_tensor_kind)i;
    return true;
}

bool sw_role_from_name(const char *name, sw_role *out) {
    unsigned i;
    if (!sw_find_name(role_names, SW_ROLE_COUNT, name, &i)) return false;
    *out = (sw_role)i;
    return true;
}

const sw_op_info *sw_op_get_info(sw_op_type type) {
    return &ops[type];
}

bool sw_op_from_name(const char *name, sw_op_type *out) {
    for (unsigned i = 0; i < SW_OP_COUNT; i++) {
        if (strcmp(ops[i].name, name) != 0) continue;
        *out = (sw_op_type)i;
        return true;
    }
    return false;
}

uint32_t sw_op_silu_input(const sw_op *multiply, const sw_op *sigmoid) {
    if (multiply->type != SW_OP_MULTIPLY || sigmoid->type != SW_OP_SIGMOID) return 0;
    for (uint32_t i = 0; i < 2; i++)
        if (sigmoid->inputs[0] == multiply->inputs[i] && sigmoid->outputs[0] == multiply->inputs[1 - i])
            return 1 + i;
    return 0;
}

uint64_t sw_tensor_elements(const sw_tensor *t) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) n *= t->dims[i];
    return n;
}

uint64_t sw_tensor_bytes(const sw_tensor *t) {
    return sw_tensor_elements(t) * sw_dtype_bytes(t->dtype);
}

void sw_constant_rows(const sw_tensor *t, uint32_t begin, uint32_t end, sw_tensor *out, sw_weight *view) {
    const size_t cols = t->dims[1], blocks = t->form.block != 0 ? cols / t->form.block : 0;
    *out = *t;
    out->dims[0] = end - begin;
    if (t->data != NULL) out->data = (const char *)t->data + begin * cols * sw_dtype_bytes(t->dtype);
    if (t->channel_scales != NULL) out->channel_scales = t->channel_scales + begin;
    if (t->block_scales != NULL) out->block_scales = t->block_scales + begin * blocks;
    if (t->block_steps != NULL) out->block_steps = t->block_steps + begin * blocks;
    if (t->weight == NULL) return;
    *view = *t->weight;
    if (view->data != NULL) view->data += begin * view->row_bytes;
    view->rows = end - begin;
    out->weight = view;
}

sw_graph *sw_graph_create(sw_arena *arena, const char *name, uint32_t ar_len, uint32_t context_len) {
    sw_graph *graph = sw_arena_alloc(arena, sizeof *graph);
    char *copy = sw_arena_strdup(arena, name);
    if (graph == NULL || copy == NULL) return NULL;
    *graph = (sw_graph){.name = copy, .ar_len = ar_len, .context_len = context_len, .arena = arena};
    return graph;
}

/* Doubles an arena array; the old one stays in the arena, which costs as much again at most. */
static void *grow(sw_arena *arena, void *old, uint32_t *capacity, size_t element) {
    uint32_t bigger = *capacity == 0 ? 256 : *capacity * 2;
    void *data = sw_arena_array(arena, bigger, element);
    if (data == NULL) return NULL;
    if (old != NULL) memcpy(data, old, *capacity * element);
    *capacity = bigger;
    return data;
}

uint32_t sw_graph_add_tensor(sw_graph *graph, sw_tensor *tensor) {
    if (graph->n_tensors == graph->tensor_capacity) {
        void *data = grow(graph->arena, graph->tensors, &graph->tensor_capacity, sizeof *graph->tensors);
        if (data == NULL) return UINT32_MAX;
        graph->tensors = data;
    }
    graph->tensors[graph->n_tensors] = tensor;
    return graph->n_tensors++;
}

bool sw_graph_add_op(sw_graph *graph, const sw_op *op) {
    if (graph->n_ops == graph->op_capacity) {
        void *data = grow(graph->arena, graph->ops, &graph->op_capacity, sizeof *graph->ops);
        if (data == NULL) return false;
        graph->ops = data;
    }
    graph->ops[graph->n_ops++] = *op;
    return true;
}

bool sw_graph_seal(sw_graph *graph) {
    graph->inputs = sw_arena_array(graph->arena, graph->n_tensors, sizeof *graph->inputs);
    graph->outputs = sw_arena_array(graph->arena, graph->n_tensors, sizeof *graph->outputs);
    if (graph->inputs == NULL || graph->outputs == NULL) return false;
    graph->n_inputs = graph->n_outputs = 0;
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        if (graph->tensors[i]->kind == SW_TENSOR_INPUT) graph->inputs[graph->n_inputs++] = i;
        if (graph->tensors[i]->kind == SW_TENSOR_OUTPUT) graph->outputs[graph->n_outputs++] = i;
    }
    return true;
}

uint32_t sw_graph_find(const sw_graph *graph, const char *name) {
    for (uint32_t i = 0; i < graph->n_tensors; i++)
        if (strcmp(graph->tensors[i]->name, name) == 0) return i;
    return UINT32_MAX;
}
