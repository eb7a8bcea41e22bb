/* observe.c: the table of ranges: min-max over everything calibration runs, by sw_tensor.range.
 *
 * A blocked score (mask added: about SW_MASK_BLOCKED) must enter no range, or it would take up the encoding
 * of the scores. Scores are therefore only looked at as inputs of Softmax, above half of SW_MASK_BLOCKED. Of
 * each row the greatest counts apart: what lies far enough below every row's maximum has no weight in any
 * row, and the encoding need not reach there (types.c). */
#include "quant/observe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/decoder.h"
#include "quant/collect.h"
#include "quant/rules.h"
#include "quant/value_loops.h"

struct sw_ranges {
    sw_names names;
    sw_range *ranges; /* [capacity], by index in names */
    uint32_t capacity;
};

sw_ranges *sw_ranges_create(void) {
    return calloc(1, sizeof(sw_ranges));
}

void sw_ranges_free(sw_ranges *ranges) {
    if (!ranges) return;
    sw_names_free(&ranges->names);
    free(ranges->ranges);
    free(ranges);
}

sw_code sw_ranges_merge(sw_ranges *ranges, const char *name, sw_range seen, sw_error *err) {
    uint32_t before = ranges->names.count, i = sw_names_add(&ranges->names, name);
    if (i == UINT32_MAX) return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for its range", name);
    if (i >= ranges->capacity) {
        uint32_t capacity = ranges->capacity ? ranges->capacity * 2 : 256;
        sw_range *grown = realloc(ranges->ranges, capacity * sizeof *grown);
        if (!grown) return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for its range", name);
        ranges->ranges = grown;
        ranges->capacity = capacity;
    }
    sw_range *r = &ranges->ranges[i];
    if (i == before) *r = (sw_range)SW_RANGE_EMPTY; /* new */
    r->min = fminf(r->min, seen.min);
    r->max = fmaxf(r->max, seen.max);
    r->least_row_max = fminf(r->least_row_max, seen.least_row_max);
    return SW_OK;
}

const sw_range *sw_ranges_find(const sw_ranges *ranges, const char *name) {
    uint32_t i = sw_names_find(&ranges->names, name);
    return i == UINT32_MAX ? NULL : &ranges->ranges[i];
}

uint32_t sw_ranges_count(const sw_ranges *ranges) {
    return ranges->names.count;
}

const sw_range *sw_ranges_at(const sw_ranges *ranges, uint32_t index, const char **name) {
    *name = ranges->names.names[index];
    return &ranges->ranges[index];
}

void sw_ranges_widen(sw_ranges *ranges, sw_groups *groups) {
    static const float seen = 0.25f, scores = 1; /* docs/accuracy.md, "Calibration text" */
    for (uint32_t i = 0; i < ranges->names.count; i++) {
        sw_range *r = &ranges->ranges[i];
        if (r->min > r->max || sw_names_find(&groups->names, ranges->names.names[i]) == UINT32_MAX) continue;
        const sw_range_kind kind = sw_groups_kind(groups, ranges->names.names[i]);
        if (kind == SW_RANGE_SEEN) {
            r->min = fminf(r->min, r->min * (1 + seen)), r->max = fmaxf(r->max, r->max * (1 + seen));
        } else if (kind == SW_RANGE_SCORES && isfinite(r->least_row_max)) {
            const float span = r->max - r->least_row_max;
            r->max += scores * span, r->least_row_max -= scores * span;
        }
    }
}

bool sw_range_of_values(const float *values, size_t n, float *min, float *max) {
    sw_values_best()->range(values, n, min, max);
    return isfinite(*min) && isfinite(*max);
}

sw_code sw_ranges_not_finite(const sw_tensor *t, sw_error *err) {
    return SW_FAIL(err, SW_BAD_DATA,
                   "%s: calibration met a value that is infinite or no number; check the weights", t->name);
}

sw_code sw_ranges_observe(sw_ranges *ranges, const sw_tensor *t, const float *values, sw_error *err) {
    sw_range seen = SW_RANGE_EMPTY;
    if (!sw_range_of_values(values, (size_t)sw_tensor_elements(t), &seen.min, &seen.max))
        return sw_ranges_not_finite(t, err);
    return sw_ranges_merge(ranges, t->range, seen, err);
}

/* x [.., c], the input of a Softmax over its rows. */
static sw_code observe_scores(sw_ranges *ranges, const sw_tensor *t, const float *x, sw_error *err) {
    size_t columns = t->dims[t->rank - 1], n_rows = (size_t)sw_tensor_elements(t) / columns;
    sw_range seen = SW_RANGE_EMPTY;
    for (size_t r = 0; r < n_rows; r++, x += columns) {
        float row_max = -INFINITY;
        for (size_t i = 0; i < columns; i++) {
            if (!(x[i] > SW_MASK_BLOCKED / 2)) continue;
            row_max = x[i] > row_max ? x[i] : row_max;
            seen.min = x[i] < seen.min ? x[i] : seen.min;
        }
        if (row_max == -INFINITY) continue; /* a row that sees nothing */
        seen.max = fmaxf(seen.max, row_max);
        seen.least_row_max = fminf(seen.least_row_max, row_max);
    }
    if (seen.max == INFINITY)
        return SW_FAIL(err, SW_BAD_DATA, "%s: calibration met an infinite score; check the weights", t->name);
    return sw_ranges_merge(ranges, t->range, seen, err);
}

/* The range's method, and the type that it will have. */
static sw_range_method method_of(const sw_recipe *recipe, const sw_tensor *t, sw_op_type made_by,
                                 sw_range_kind kind, sw_dtype *type) {
    if (recipe == NULL) return (sw_range_method){SW_METHOD_MINMAX, 0};
    sw_range_method method = recipe->method;
    *type = recipe->activation;
    for (uint32_t i = 0; i < recipe->n_activation_rules; i++) {
        const sw_activation_rule *rule = &recipe->activation_rules[i];
        if (!sw_activation_rule_matches(rule, t->range, made_by)) continue;
        if (rule->type != SW_DTYPE_COUNT) *type = rule->type;
        if (rule->method.kind != SW_METHOD_DEFAULT) method = rule->method;
    }
    if (kind == SW_RANGE_KV) *type = recipe->kv;
    if (!sw_dtype_quantized(*type)) method.kind = SW_METHOD_MINMAX; /* a float has no range */
    return method;
}

static sw_code observe_output(sw_observation *o, const sw_op *op, const sw_tensor *t, sw_range_kind kind,
                              const float *values) {
    sw_dtype type = SW_F32;
    sw_range_method method = method_of(o->recipe, t, op->type, kind, &type);
    if (method.kind <= SW_METHOD_MINMAX) return sw_ranges_observe(o->ranges, t, values, &o->error);
    if (sw_op_get_info(op->type)->movement) return SW_OK; /* its input's range is the group's */
    return sw_collection_add(o->collection, t, values, method, type, kind == SW_RANGE_KV, &o->error);
}

void sw_observe_op(void *context, const sw_graph *graph, const sw_op *op, const void *const *values) {
    sw_observation *o = context;
    if (op->type == SW_OP_SOFTMAX && o->error.code == SW_OK) {
        uint32_t x = op->inputs[0];
        o->error.code = observe_scores(o->ranges, graph->tensors[x], values[x], &o->error);
    }
    for (uint32_t i = 0; i < op->n_outputs && o->error.code == SW_OK; i++) {
        const sw_tensor *t = graph->tensors[op->outputs[i]];
        sw_range_kind kind = sw_groups_kind(o->groups, t->range);
        if (t->dtype != SW_F32 || (kind != SW_RANGE_SEEN && kind != SW_RANGE_KV)) continue;
        o->error.code = observe_output(o, op, t, kind, values[op->outputs[i]]);
    }
}
