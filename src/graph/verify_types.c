/* verify_types.c: the one table of what types and forms of weights go together in an op. */
#include <stdio.h>

#include "graph/verify_parts.h"

/* Types that an op takes: in0, in1, out. What isn't here isn't lowered and has no kernel. Source: measured on
 * Qualcomm's compiler, QAIRT 2.51. Ops whose types are all equal, and movement ops, stand below. */
typedef struct type_rule {
    sw_op_type op;
    sw_dtype in0, in1, out;
    unsigned bits; /* of s8 weights, and whose scales they have; 0: in1 is no weight */
    sw_scales scales;
} type_rule;

static const type_rule type_rules[] = {
    {SW_OP_FULLY_CONNECTED, SW_F32, SW_F32, SW_F32, 0, 0},
    {SW_OP_FULLY_CONNECTED, SW_F16, SW_F16, SW_F16, 0, 0},
    {SW_OP_FULLY_CONNECTED, SW_F16, SW_S8, SW_F16, 8, SW_SCALES_ROW},
    {SW_OP_FULLY_CONNECTED, SW_F16, SW_S8, SW_F16, 4, SW_SCALES_ROW},
    {SW_OP_FULLY_CONNECTED, SW_F16, SW_S8, SW_F16, 8, SW_SCALES_FLOAT_BLOCK},
    {SW_OP_FULLY_CONNECTED, SW_F16, SW_S8, SW_F16, 4, SW_SCALES_FLOAT_BLOCK},
    {SW_OP_FULLY_CONNECTED, SW_U8, SW_S8, SW_U8, 8, SW_SCALES_ROW},
    {SW_OP_FULLY_CONNECTED, SW_U8, SW_S8, SW_U8, 4, SW_SCALES_ROW},
    {SW_OP_FULLY_CONNECTED, SW_U16, SW_S8, SW_U16, 8, SW_SCALES_ROW},
    {SW_OP_FULLY_CONNECTED, SW_U16, SW_S8, SW_U16, 4, SW_SCALES_ROW},
    {SW_OP_MATMUL, SW_U8, SW_S8, SW_U8, 4, SW_SCALES_BLOCKWISE}, /* wrong in FullyConnected */
    {SW_OP_MATMUL, SW_U16, SW_S8, SW_U16, 4, SW_SCALES_BLOCKWISE},
    {SW_OP_MATMUL, SW_F32, SW_F32, SW_F32, 0, 0},
    {SW_OP_MATMUL, SW_F16, SW_F16, SW_F16, 0, 0},
    {SW_OP_MATMUL, SW_U8, SW_U8, SW_U8, 0, 0},
    {SW_OP_MATMUL, SW_U16, SW_U8, SW_U16, 0, 0},
    {SW_OP_MATMUL, SW_U16, SW_U16, SW_U16, 0, 0},
    {SW_OP_CONVERT, SW_U8, SW_U8, SW_U16, 0, 0},
    {SW_OP_CONVERT, SW_U16, SW_U16, SW_U8, 0, 0},
    {SW_OP_CONVERT, SW_F32, SW_F32, SW_F16, 0, 0},
    {SW_OP_CONVERT, SW_F16, SW_F16, SW_F32, 0, 0},
};

static bool fits_rule(const type_rule *r, const sw_tensor *x, const sw_tensor *w, const sw_tensor *y) {
    if (r->in0 != x->dtype || r->in1 != w->dtype || r->out != y->dtype) return false;
    return r->bits == 0 || (r->bits == (w->form.four_bit ? 4 : 8) && r->scales == w->form.scales);
}

/* What the rules of the op allow behind in0's type. */
static void list_allowed(sw_op_type op, sw_dtype in0, char *out, size_t capacity) {
    size_t n = 0;
    for (int any = 0; any < 2 && n == 0; any++) /* no rule has that in0: all of them */
        for (size_t i = 0; i < sizeof type_rules / sizeof *type_rules; i++) {
            const type_rule *r = &type_rules[i];
            if (r->op != op || (r->in0 != in0 && any == 0) || n + 1 >= capacity) continue;
            n += (size_t)snprintf(out + n, capacity - n, "%s%s, %s", n > 0 ? "; " : "", sw_dtype_name(r->in0),
                                  sw_dtype_name(r->in1));
            if (r->bits > 0 && n < capacity)
                n += (size_t)snprintf(out + n, capacity - n, " (%u bits, %s)", r->bits,
                                      sw_scales_name(r->scales));
            if (n < capacity) n += (size_t)snprintf(out + n, capacity - n, " -> %s", sw_dtype_name(r->out));
        }
}

sw_code sw_verify_op_types(const sw_graph *graph, const sw_op *op, sw_error *err) {
    const sw_tensor *in[SW_MAX_INPUTS] = {NULL}, *out = graph->tensors[op->outputs[0]];
    for (uint32_t i = 0; i < op->n_inputs; i++) in[i] = graph->tensors[op->inputs[i]];
    bool listed = false, ok = false;
    for (size_t i = 0; i < sizeof type_rules / sizeof *type_rules; i++) {
        if (type_rules[i].op != op->type) continue;
        listed = true;
        const sw_tensor *in1 = op->n_inputs > 1 ? in[1] : in[0];
        ok = ok || fits_rule(&type_rules[i], in[0], in1, out);
    }
    if (!listed) { /* all of one type, but for Gather's indices */
        ok = out->dtype == in[0]->dtype;
        for (uint32_t i = 1; i < op->n_inputs; i++)
            ok = ok && in[i]->dtype == (op->type == SW_OP_GATHER ? SW_I32 : in[0]->dtype);
    }
    for (uint32_t i = 1; i < op->n_outputs; i++) /* TopK's places */
        ok = ok && graph->tensors[op->outputs[i]]->dtype == SW_I32;
    if (ok) return SW_OK;
    char read[256] = "", have[512] = "", allowed[512] = "", form[SW_WEIGHT_FORM_BYTES];
    int n = 0;
    for (uint32_t i = 0; i < op->n_inputs && n < 180; i++)
        n += snprintf(read + n, sizeof read - (size_t)n, "%s`%.64s`", i > 0 ? ", " : "", in[i]->name);
    n = 0;
    for (uint32_t i = 0; i < op->n_inputs && n < 150; i++) {
        const sw_tensor *t = in[i];
        n += snprintf(have + n, sizeof have - (size_t)n, "%s%s", i > 0 ? ", " : "", sw_dtype_name(t->dtype));
        if (t->dtype == SW_S8 && t->kind == SW_TENSOR_CONSTANT)
            n += snprintf(have + n, sizeof have - (size_t)n, " (`%.64s`: %s)", t->name,
                          sw_weight_form_text(t->form, form));
    }
    snprintf(have + n, sizeof have - (size_t)n, " -> %s", sw_dtype_name(out->dtype));
    if (listed) list_allowed(op->type, in[0]->dtype, allowed, sizeof allowed);
    return SW_FAIL(err, SW_BAD_DATA, "%s: %s `%s` of %s to `%s`: types %s, allowed: %s", graph->name,
                   sw_op_get_info(op->type)->name, op->name, read, out->name, have,
                   listed ? allowed : "one type for all");
}
