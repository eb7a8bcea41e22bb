/* types.c: gives every tensor its type by role and its encoding by group of ranges, and puts Converts where
 * types meet.
 *
 * An op's type is its first input's. An input of another type is converted before it, once for all readers;
 * an output of another type is written in the op's type, under the name "<tensor>.<type>", and converted
 * behind it. MatMul alone takes a second input of another width: 8-bit K and V beside 16-bit queries.
 *
 * Scores. A score that lies m = (bits + 1) ln 2 / beta below its row's maximum has a probability under
 * 2^-(bits + 1), half a step of the output. So with L = the least maximum that any row had, less m, every
 * score below L may saturate: the range is [L, greatest]. The mask needs to be as deep as the widest of these
 * ranges, and no deeper: it then pushes the greatest score to L. One such mask serves all layers.
 *
 * A row whose maximum lies lower than any seen lets masked columns in, with a step of probability each. The
 * HTP's e^x of 16 bits is 0 from 15 octaves on, so that L leaves room for maxima lower by 2 ln 2 / beta; then
 * it is 1/65536, which moves nothing. A step of 8 bits does, so they have L a bit lower: room for ln 2 /
 * beta.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/encoding.h"
#include "quant/observe.h"
#include "quant/quant.h"
#include "quant/rules.h"

typedef struct typing {
    sw_decoder *decoder;
    const sw_recipe *recipe;
    sw_groups groups;
    sw_range *ranges; /* [groups.names.count], of roots */
    sw_error *err;
} typing;

static sw_dtype type_of_role(const sw_recipe *recipe, sw_role role) {
    switch (role) {
    case SW_ROLE_ACTIVATION:
        return recipe->activation;
    case SW_ROLE_KV:
        return recipe->kv;
    case SW_ROLE_WEIGHT:
        return recipe->weight;
    case SW_ROLE_GAMMA:
        return recipe->gamma;
    default:
        return SW_I32;
    }
}

static void type_activation(const sw_recipe *recipe, sw_tensor *t, sw_op_type made_by) {
    for (uint32_t i = 0; i < recipe->n_activation_rules; i++) {
        const sw_activation_rule *rule = &recipe->activation_rules[i];
        if (rule->type != SW_DTYPE_COUNT && sw_activation_rule_matches(rule, t->range, made_by))
            t->dtype = rule->type;
    }
}

sw_weight_rule sw_recipe_weight(const sw_recipe *recipe, const char *constant) {
    sw_weight_rule found = {
        .match = "*", .type = recipe->weight, .form = recipe->form, .rounding = recipe->rounding};
    for (uint32_t i = 0; i < recipe->n_weight_rules; i++)
        if (sw_pattern_matches(recipe->weight_rules[i].match, constant)) found = recipe->weight_rules[i];
    if (found.type != SW_S8) found.form = (sw_weight_form){0};
    return found;
}

static void type_matrix(const sw_recipe *recipe, sw_tensor *constant) {
    sw_weight_rule rule = sw_recipe_weight(recipe, constant->name);
    constant->dtype = rule.type;
    constant->form = rule.form;
}

/* Ranges of groups, then the scores' lower ends, then the mask's. */
static void merge_ranges(typing *t, const sw_ranges *ranges) {
    uint32_t n = t->groups.names.count;
    for (uint32_t i = 0; i < n; i++) t->ranges[i] = (sw_range)SW_RANGE_EMPTY;
    for (uint32_t i = 0; i < n; i++) {
        const char *name = t->groups.names.names[i];
        const sw_range *seen = sw_ranges_find(ranges, name);
        if (!seen) continue;
        sw_range *r = &t->ranges[sw_groups_root(&t->groups, name)];
        r->min = fminf(r->min, seen->min);
        r->max = fmaxf(r->max, seen->max);
        r->least_row_max = fminf(r->least_row_max, seen->least_row_max);
    }

    float deepest = 0;
    double bits = 8.0 * (double)sw_dtype_bytes(t->recipe->activation);
    double slack = bits == 8 ? 1 : 0;
    for (uint32_t i = 0; i < n; i++) {
        sw_range *r = &t->ranges[i];
        if (t->groups.parent[i] != i || t->groups.kinds[i] != SW_RANGE_SCORES) continue;
        if (isfinite(r->least_row_max))
            r->min = r->least_row_max - (float)((bits + slack + 1) * log(2) / (double)t->groups.betas[i]);
        r->min = fminf(r->min, 0);
        deepest = fmaxf(deepest, fmaxf(r->max, 0) - r->min);
    }
    /* A little deeper: the Add rounds its inputs' scales to 15 bits. */
    for (uint32_t i = 0; i < n; i++)
        if (t->groups.kinds[i] == SW_RANGE_MASK)
            t->ranges[i].min = deepest * (-1 - 1.0f / 1024), t->ranges[i].max = 0;
}

/* The tensor's encoding in its present type. */
static sw_code set_encoding(typing *t, const sw_graph *graph, sw_tensor *tensor) {
    if (!sw_dtype_quantized(tensor->dtype)) return SW_OK;
    uint32_t root = sw_groups_root(&t->groups, tensor->range);
    const sw_range *r = &t->ranges[root];
    switch (t->groups.kinds[root]) {
    case SW_RANGE_UNIT:
        tensor->encoding = sw_encoding_of_unit(tensor->dtype);
        return SW_OK;
    case SW_RANGE_TURN:
        tensor->encoding = sw_encoding_of_range(-1, 1, tensor->dtype);
        return SW_OK;
    default:
        break;
    }
    if (!isfinite(r->min) || !isfinite(r->max))
        return SW_FAIL(t->err, SW_INVALID_ARGUMENT, "%s: calibration has seen no values of `%s` (range `%s`)",
                       graph->name, tensor->name, tensor->range);
    double min = (double)r->min, max = (double)r->max;
    tensor->encoding = t->groups.kinds[root] == SW_RANGE_KV
                           ? sw_encoding_symmetric(fmax(-min, max), tensor->dtype)
                           : sw_encoding_of_range(min, max, tensor->dtype);
    return SW_OK;
}

/* A graph while its ops are written anew. */
typedef struct rewrite {
    sw_graph *graph;
    uint32_t *versions; /* [tensors before the rewrite][SW_DTYPE_COUNT]: the same values in that type, or 0
                         * for none yet, or index + 1 */
} rewrite;

static sw_code no_memory(const rewrite *w, sw_error *err) {
    return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for its Converts", w->graph->name);
}

/* A native tensor for the values of tensor `of` in another type. */
static sw_code add_version(rewrite *w, uint32_t of, sw_dtype type, uint32_t *out, sw_error *err) {
    sw_arena *arena = w->graph->arena;
    sw_tensor *copy = sw_arena_alloc(arena, sizeof *copy);
    if (!copy) return no_memory(w, err);
    *copy = *w->graph->tensors[of];
    copy->kind = SW_TENSOR_NATIVE;
    copy->dtype = type;
    copy->name = sw_arena_printf(arena, "%s.%s", copy->name, sw_dtype_name(type));
    *out = copy->name ? sw_graph_add_tensor(w->graph, copy) : UINT32_MAX;
    if (*out == UINT32_MAX) return no_memory(w, err);
    w->versions[of * SW_DTYPE_COUNT + type] = *out + 1;
    return SW_OK;
}

static sw_code add_convert(rewrite *w, uint32_t from, uint32_t to, uint32_t named_after, sw_error *err) {
    sw_op op = {.type = SW_OP_CONVERT, .n_inputs = 1, .n_outputs = 1, .inputs = {from}, .outputs = {to}};
    op.name = sw_arena_printf(w->graph->arena, "%s.convert", w->graph->tensors[named_after]->name);
    return op.name && sw_graph_add_op(w->graph, &op) ? SW_OK : no_memory(w, err);
}

static bool takes(const sw_op *op, sw_dtype own, uint32_t input, const sw_tensor *x) {
    if (x->dtype == own || x->kind == SW_TENSOR_CONSTANT || x->role == SW_ROLE_INDEX) return true;
    return op->type == SW_OP_MATMUL && input == 1 && own == SW_U16 && x->dtype == SW_U8;
}

static sw_code rewrite_op(rewrite *w, sw_op op, sw_error *err) {
    const sw_tensor *first = w->graph->tensors[op.inputs[0]];
    sw_dtype own = first->dtype;
    if (first->kind == SW_TENSOR_CONSTANT || own == SW_I32)
        return SW_FAIL(err, SW_UNSUPPORTED, "%s: its first input %s is no activation", op.name, first->name);
    if (op.type == SW_OP_FULLY_CONNECTED &&
        w->graph->tensors[op.inputs[1]]->form.scales == SW_SCALES_BLOCKWISE) {
        op.type = SW_OP_MATMUL; /* the same product; the HTP's FullyConnected gets blockwise weights wrong */
        op.params.matmul.transpose_in1 = true;
    }
    for (uint32_t i = 1; i < op.n_inputs; i++) {
        uint32_t x = op.inputs[i];
        if (takes(&op, own, i, w->graph->tensors[x])) continue;
        uint32_t version = w->versions[x * SW_DTYPE_COUNT + own];
        if (!version) {
            SW_TRY(add_version(w, x, own, &version, err));
            SW_TRY(add_convert(w, x, version++, x, err));
        }
        op.inputs[i] = version - 1;
    }
    uint32_t out = op.outputs[0];
    bool differs = w->graph->tensors[out]->dtype != own;
    if (differs) SW_TRY(add_version(w, out, own, &op.outputs[0], err));
    if (!sw_graph_add_op(w->graph, &op)) return no_memory(w, err);
    return differs ? add_convert(w, op.outputs[0], out, out, err) : SW_OK;
}

static sw_code insert_converts(sw_graph *graph, sw_error *err) {
    uint32_t n_ops = graph->n_ops;
    rewrite w = {graph, calloc((size_t)graph->n_tensors * SW_DTYPE_COUNT + 1, sizeof *w.versions)};
    sw_op *ops = calloc(n_ops + 1u, sizeof *ops);
    sw_code code = w.versions && ops ? SW_OK : no_memory(&w, err);
    if (code == SW_OK) {
        memcpy(ops, graph->ops, n_ops * sizeof *ops);
        graph->n_ops = 0;
    }
    for (uint32_t i = 0; i < n_ops && code == SW_OK; i++) code = rewrite_op(&w, ops[i], err);
    free(ops);
    free(w.versions);
    return code;
}

static sw_code type_graph(typing *t, sw_graph *graph) {
    char handed[SW_NAME_BYTES];
    sw_graph_first_input(graph, handed);
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        sw_tensor *tensor = graph->tensors[i];
        if (tensor->kind == SW_TENSOR_CONSTANT) continue; /* done, once for all graphs */
        if (tensor->dtype != (tensor->role == SW_ROLE_INDEX ? SW_I32 : SW_F32))
            return SW_FAIL(t->err, SW_INVALID_ARGUMENT, "%s: `%s` is %s already; a float graph is wanted",
                           graph->name, tensor->name, sw_dtype_name(tensor->dtype));
        tensor->dtype = type_of_role(t->recipe, tensor->role);
        if (tensor->role != SW_ROLE_ACTIVATION || tensor->kind != SW_TENSOR_INPUT) continue;
        bool added = graph->begin_layer > 0 && strcmp(tensor->name, handed) == 0; /* in the shard before */
        type_activation(t->recipe, tensor, added ? SW_OP_ADD : SW_OP_COUNT);
    }
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        sw_tensor *made = graph->tensors[graph->ops[i].outputs[0]];
        if (made->role == SW_ROLE_ACTIVATION) type_activation(t->recipe, made, graph->ops[i].type);
    }
    SW_TRY(insert_converts(graph, t->err));
    for (uint32_t i = 0; i < graph->n_tensors; i++)
        if (graph->tensors[i]->kind != SW_TENSOR_CONSTANT) SW_TRY(set_encoding(t, graph, graph->tensors[i]));
    return sw_graph_seal(graph) ? SW_OK : SW_FAIL(t->err, SW_NO_MEMORY, "%s: out of memory", graph->name);
}

static sw_code assign(typing *t, const sw_ranges *ranges) {
    SW_TRY(sw_groups_init(&t->groups, t->decoder->graphs, t->decoder->n_graphs, t->err));
    t->ranges = sw_arena_array(&t->groups.names.arena, t->groups.names.count, sizeof *t->ranges);
    if (!t->ranges) return SW_FAIL(t->err, SW_NO_MEMORY, "no memory for ranges");
    if (ranges != NULL) merge_ranges(t, ranges);
    for (uint32_t i = 0; i < t->decoder->n_constants; i++) {
        sw_tensor *constant = t->decoder->constants[i];
        constant->dtype = type_of_role(t->recipe, constant->role);
        if (constant->role == SW_ROLE_WEIGHT) type_matrix(t->recipe, constant);
        if (constant->role == SW_ROLE_GAMMA) type_activation(t->recipe, constant, SW_OP_COUNT);
    }
    for (uint32_t i = 0; i < t->decoder->n_graphs; i++) SW_TRY(type_graph(t, t->decoder->graphs[i]));
    return SW_OK;
}

sw_code sw_quantize_types(sw_decoder *decoder, const sw_recipe *recipe, const sw_ranges *ranges,
                          sw_error *err) {
    bool quantized = sw_dtype_quantized(recipe->activation) || sw_dtype_quantized(recipe->kv);
    if (quantized && !ranges)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "recipe %s needs calibration", recipe->name);
    typing t = {.decoder = decoder, .recipe = recipe, .err = err};
    sw_code code = assign(&t, ranges);
    sw_groups_free(&t.groups);
    return code;
}
