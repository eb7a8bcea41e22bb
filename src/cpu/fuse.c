/* fuse.c: finds the patterns of decoder graphs; a pattern that isn't met in every detail is left as it is. */
#include "cpu/fuse.h"

#include "cpu/attention.h"
#include "cpu/quantized.h"

enum { NOBODY = UINT32_MAX };

typedef struct fusing {
    sw_program *p;
    const uint32_t *made_by;
    uint32_t *readers; /* [n_tensors] how many ops read it */
    bool *left_out;    /* [n_ops] */
    sw_step **instead; /* [n_ops] the step that takes an op's place, or NULL */
} fusing;

static const sw_tensor *tensor(const fusing *f, uint32_t t) {
    return f->p->graph->tensors[t];
}

/* The op that makes a native tensor, if it is of that type; else NULL. */
static const sw_op *maker(const fusing *f, uint32_t t, sw_op_type type) {
    if (f->made_by[t] == NOBODY || tensor(f, t)->kind != SW_TENSOR_NATIVE) return NULL;
    const sw_op *op = &f->p->graph->ops[f->made_by[t]];
    return op->type == type ? op : NULL;
}

/* The same, of a tensor that one op alone reads. */
static const sw_op *sole_maker(const fusing *f, uint32_t t, sw_op_type type) {
    return f->readers[t] == 1 ? maker(f, t, type) : NULL;
}

/* Behind Reshapes that one op alone reads. */
static uint32_t behind_reshapes(const fusing *f, uint32_t t) {
    for (const sw_op *op; (op = sole_maker(f, t, SW_OP_RESHAPE)) != NULL;) t = op->inputs[0];
    return t;
}

static void leave_out(fusing *f, const sw_op *op) {
    f->left_out[op - f->p->graph->ops] = true;
}

/* Leaves out the Reshapes of behind_reshapes. */
static void leave_out_reshapes(fusing *f, uint32_t t) {
    for (const sw_op *op; (op = sole_maker(f, t, SW_OP_RESHAPE)) != NULL; t = op->inputs[0]) leave_out(f, op);
}

static const sw_op_call *call_of(const fusing *f, const sw_op *op) {
    return &f->p->steps[op - f->p->graph->ops].call;
}

/* Adds a piece of K or V: heads of a tensor, or those that a slice takes of one. */
static bool add_piece(const fusing *f, uint32_t t, sw_op *fused, sw_attention_pieces *pieces) {
    uint32_t head = 0;
    const sw_tensor *piece = tensor(f, t), *whole = piece;
    const sw_op *slice = maker(f, t, SW_OP_STRIDED_SLICE);
    if (slice != NULL) {
        for (uint32_t i = 0; i < SW_MAX_RANK; i++)
            if (i != 1 && (i >= piece->rank || slice->params.strided_slice.begin[i] != 0)) return false;
        head = slice->params.strided_slice.begin[1];
        t = slice->inputs[0];
        whole = tensor(f, t);
    }
    if (whole->rank != SW_MAX_RANK || piece->dims[0] != 1 || whole->dims[0] != 1 ||
        whole->dims[2] != piece->dims[2] || whole->dims[3] != piece->dims[3] ||
        whole->kind == SW_TENSOR_CONSTANT)
        return false;
    pieces->input[pieces->n] = fused->n_inputs;
    pieces->length[pieces->n] = whole->dims[2];
    pieces->head[pieces->n++] = head;
    fused->inputs[fused->n_inputs++] = t;
    return true;
}

static bool add_pieces(const fusing *f, uint32_t t, sw_op *fused, sw_attention_pieces *pieces) {
    const sw_op *concat = maker(f, t, SW_OP_CONCAT);
    pieces->n = 0;
    if (concat == NULL) return add_piece(f, t, fused, pieces);
    return concat->n_inputs == 2 && concat->params.concat.axis == 2 &&
           add_piece(f, concat->inputs[0], fused, pieces) && add_piece(f, concat->inputs[1], fused, pieces);
}

static sw_code no_memory(sw_error *err) {
    return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
}

/* softmax(q . k^T + mask) . v, that ends in `context`. */
static sw_code fuse_attention(fusing *f, const sw_op *context, sw_error *err) {
    sw_program *p = f->p;
    const uint32_t probabilities = behind_reshapes(f, context->inputs[0]);
    const sw_op *softmax = sole_maker(f, probabilities, SW_OP_SOFTMAX);
    const sw_op *add = softmax != NULL ? sole_maker(f, softmax->inputs[0], SW_OP_ADD) : NULL;
    if (add == NULL) return SW_OK;
    sw_attention a = {.mask_first = tensor(f, add->inputs[0])->kind == SW_TENSOR_INPUT,
                      .blocked_counts = &p->blocked_counts};
    const uint32_t mask = add->inputs[a.mask_first ? 0 : 1], masked = add->inputs[a.mask_first ? 1 : 0];
    const uint32_t scores_out = behind_reshapes(f, masked);
    const sw_op *scores = sole_maker(f, scores_out, SW_OP_MATMUL);
    if (scores == NULL || tensor(f, mask)->kind != SW_TENSOR_INPUT ||
        tensor(f, scores->inputs[0])->kind != SW_TENSOR_NATIVE)
        return SW_OK;

    sw_op fused = *context;
    fused.n_inputs = 2;
    fused.inputs[0] = scores->inputs[0], fused.inputs[1] = mask;
    a.scores = call_of(f, scores), a.add = call_of(f, add);
    a.softmax = call_of(f, softmax), a.context = call_of(f, context);
    if (!sw_attention_matches(&a) || !add_pieces(f, scores->inputs[1], &fused, &a.k) ||
        !add_pieces(f, context->inputs[1], &fused, &a.v) || a.k.n != a.v.n)
        return SW_OK;
    for (uint32_t i = 0; i < a.k.n; i++)
        if (a.k.length[i] != a.v.length[i]) return SW_OK;

    sw_step *step = sw_arena_alloc(&p->arena, sizeof *step);
    sw_op *op = sw_arena_alloc(&p->arena, sizeof *op);
    sw_attention *attention = sw_arena_alloc(&p->arena, sizeof *attention);
    if (step == NULL || op == NULL || attention == NULL) return no_memory(err);
    *op = fused, *attention = a;
    *step = (sw_step){.kernel = &sw_kernel_attention,
                      .call = {.op = op, .out = a.context->out, .prepared = attention, .pool = p->pool}};
    for (uint32_t i = 0; i < op->n_inputs; i++) step->call.in[i] = tensor(f, op->inputs[i]);
    f->instead[context - p->graph->ops] = step;
    leave_out_reshapes(f, context->inputs[0]), leave_out_reshapes(f, masked);
    leave_out(f, softmax), leave_out(f, add), leave_out(f, scores);
    return SW_OK;
}

/* Leaves out what nobody reads any more; the graph's own outputs are no native tensors. */
static void leave_out_unread(fusing *f) {
    const sw_graph *graph = f->p->graph;
    for (uint32_t t = 0; t < graph->n_tensors; t++) f->readers[t] = 0;
    for (uint32_t i = graph->n_ops; i-- > 0;) {
        const sw_op *op = f->instead[i] != NULL ? f->instead[i]->call.op : &graph->ops[i];
        bool unread = true;
        for (uint32_t k = 0; k < op->n_outputs; k++)
            unread = unread && tensor(f, op->outputs[k])->kind == SW_TENSOR_NATIVE &&
                     f->readers[op->outputs[k]] == 0;
        if (unread && !f->left_out[i]) f->left_out[i] = f->p->steps[i].for_observers = true;
        if (f->left_out[i]) continue;
        const sw_step *step = f->instead[i] != NULL ? f->instead[i] : &f->p->steps[i];
        const bool reads_x_alone = step->kernel->run == sw_quantized_silu_run;
        for (uint32_t j = 0; j < op->n_inputs; j++)
            if (!reads_x_alone || j + 1 == step->call.silu_input) f->readers[op->inputs[j]]++;
    }
}

/* Lists the steps; from the last to the first, so that a life grows along a chain of Reshapes. */
static sw_code list_steps(fusing *f, sw_error *err) {
    sw_program *p = f->p;
    const sw_graph *graph = p->graph;
    p->run = sw_arena_array(&p->arena, graph->n_ops, sizeof *p->run);
    if (p->run == NULL) return no_memory(err);
    for (uint32_t i = graph->n_ops; i-- > 0;) {
        if (f->left_out[i]) continue;
        sw_step *step = f->instead[i] != NULL ? f->instead[i] : &p->steps[i];
        const sw_op *op = step->call.op;
        const uint32_t out = op->outputs[0];
        uint32_t until = i;
        if (op->type == SW_OP_RESHAPE && tensor(f, out)->kind == SW_TENSOR_NATIVE &&
            tensor(f, op->inputs[0])->kind != SW_TENSOR_INPUT) {
            step->hands_on = true;
            until = p->last_use[out];
        }
        step->index = i;
        p->run[p->n_run++] = step;
        for (uint32_t j = 0; j < op->n_inputs; j++)
            if (p->last_use[op->inputs[j]] < until) p->last_use[op->inputs[j]] = until;
    }
    for (uint32_t i = 0; i < p->n_run / 2; i++) {
        sw_step *step = p->run[i];
        p->run[i] = p->run[p->n_run - 1 - i], p->run[p->n_run - 1 - i] = step;
    }
    return SW_OK;
}

/* FullyConnecteds of one input that follow each other, such as q, k and v. */
static sw_code join_linears(sw_program *p, sw_error *err) {
    for (uint32_t i = 0; i < p->n_run;) {
        sw_step *first = p->run[i];
        const sw_op *op = first->call.op;
        const char *label = first->kernel->name;
        uint32_t n = 1;
        while (first->kernel->run == sw_quantized_fully_connected_run && n < SW_MOST_TOGETHER &&
               i + n < p->n_run && p->run[i + n]->kernel->run == sw_quantized_fully_connected_run &&
               p->run[i + n]->call.op->inputs[0] == op->inputs[0]) {
            label = sw_arena_printf(&p->arena, n == 1 ? "%s, with %s" : "%s, %s", label,
                                    p->run[i + n]->call.op->name);
            if (label == NULL) return no_memory(err);
            n++;
        }
        if (n > 1) first->together = n, first->label = label;
        i += n;
    }
    return SW_OK;
}

static sw_code fuse(fusing *f, sw_arena *work, sw_error *err) {
    const sw_graph *graph = f->p->graph;
    f->readers = sw_arena_array(work, graph->n_tensors, sizeof *f->readers);
    f->left_out = sw_arena_array(work, graph->n_ops, sizeof *f->left_out);
    f->instead = sw_arena_array(work, graph->n_ops, sizeof(sw_step *));
    if (f->readers == NULL || f->left_out == NULL || f->instead == NULL) return no_memory(err);
    for (uint32_t i = 0; i < graph->n_ops; i++)
        for (uint32_t j = 0; j < graph->ops[i].n_inputs; j++) f->readers[graph->ops[i].inputs[j]]++;
    for (uint32_t i = 0; i < graph->n_ops; i++)
        if (graph->ops[i].type == SW_OP_MATMUL) SW_TRY(fuse_attention(f, &graph->ops[i], err));
    leave_out_unread(f);
    SW_TRY(list_steps(f, err));
    return join_linears(f->p, err);
}

sw_code sw_fuse(sw_program *program, const uint32_t *made_by, sw_error *err) {
    fusing f = {.p = program, .made_by = made_by};
    sw_arena work = SW_ARENA_EMPTY;
    sw_code code = fuse(&f, &work, err);
    sw_arena_free(&work);
    return code;
}
