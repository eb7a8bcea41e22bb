/* memory_plan.c: sums over the graphs. Limits of hyperparameters keep every product far below 2^64. */
#include "soc/memory_plan.h"

#include <stdlib.h>
#include <string.h>

static bool is_input(const sw_tensor *t) {
    return t->kind == SW_TENSOR_INPUT;
}

sw_dtype sw_graph_activation_type(const sw_graph *graph) {
    for (uint32_t i = 0; i < graph->n_tensors; i++)
        if (graph->tensors[i]->role == SW_ROLE_ACTIVATION) return graph->tensors[i]->dtype;
    return SW_F32;
}

static sw_code plan_graph(const sw_graph *graph, sw_plan_graph *g, sw_error *err) {
    sw_dtype activation = sw_graph_activation_type(graph);
    *g = (sw_plan_graph){.name = graph->name,
                         .shard = graph->shard,
                         .ar_len = graph->ar_len,
                         .n_ops = graph->n_ops,
                         .head_pieces = sw_graph_head_pieces(graph),
                         .layers = {graph->begin_layer, graph->end_layer}};
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        const sw_tensor *t = graph->tensors[i];
        uint64_t bytes = sw_tensor_bytes(t);
        if (t->kind == SW_TENSOR_CONSTANT) {
            sw_stored_bytes s = sw_constant_stored_bytes(t, activation);
            g->weight_bytes += s.shared + s.per_graph;
        } else if (t->kind != SW_TENSOR_NATIVE) {
            bool kv = t->role == SW_ROLE_KV;
            uint64_t *sum = is_input(t) ? (kv ? &g->kv_in_bytes : &g->other_in_bytes)
                                        : (kv ? &g->kv_out_bytes : &g->other_out_bytes);
            *sum += bytes;
        }
    }
    g->dram_bytes =
        g->weight_bytes + g->kv_in_bytes + g->kv_out_bytes + g->other_in_bytes + g->other_out_bytes;
    return sw_activation_peak(graph, &g->activation_bytes, &g->activation_op, err);
}

/* The next constant of a graph from place *at on, or NULL. */
static const sw_tensor *next_constant(const sw_graph *graph, uint32_t *at) {
    while (*at < graph->n_tensors)
        if (graph->tensors[(*at)++]->kind == SW_TENSOR_CONSTANT) return graph->tensors[*at - 1];
    return NULL;
}

/* Weights whose product is rotated (those of queries and keys): what level 1 doesn't share. apart
 * [graph->n_tensors], by index; zeroed by the caller, as is work, where each tensor gets the weight that it
 * is the product of, plus 1, through ops that move values alone. */
static void find_rotated(const sw_graph *graph, uint32_t *work, bool *apart) {
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const sw_op *op = &graph->ops[i];
        const uint32_t from = work[op->inputs[0]];
        if (op->type == SW_OP_FULLY_CONNECTED)
            work[op->outputs[0]] = op->inputs[1] + 1;
        else if (op->type == SW_OP_RESHAPE || op->type == SW_OP_TRANSPOSE || op->type == SW_OP_CONVERT)
            work[op->outputs[0]] = from;
        else if (op->type == SW_OP_ROTARY_EMBEDDING && from > 0)
            apart[from - 1] = true;
    }
}

/* The shard's context: constants of its first graph, and what other graphs add to that. Graphs of one decoder
 * meet their constants in the same order. */
static sw_code plan_shard(sw_memory_plan *p, const sw_decoder *decoder, uint32_t shard, sw_error *err) {
    sw_plan_shard *s = &p->shards[shard];
    uint64_t ops = 0;
    const sw_graph *first = sw_decoder_graph(decoder, shard, 0);
    s->layers = (sw_layer_run){first->begin_layer, first->end_layer};
    for (uint32_t kind = 0; kind < p->n_kinds; kind++) {
        const sw_graph *graph = sw_decoder_graph(decoder, shard, kind);
        sw_dtype activation = sw_graph_activation_type(graph);
        uint64_t own = 0;
        uint32_t at = 0, in_first = 0;
        uint32_t *work = calloc(graph->n_tensors + 1, sizeof *work);
        bool *apart = calloc(graph->n_tensors + 1, sizeof *apart);
        if (work != NULL && apart != NULL && p->opt_level == 1) find_rotated(graph, work, apart);
        for (const sw_tensor *t; work != NULL && apart != NULL && (t = next_constant(graph, &at)) != NULL;) {
            sw_stored_bytes bytes = sw_constant_stored_bytes(t, activation);
            if (apart[at - 1]) sw_keep_integers_apart(t, &bytes);
            own += bytes.shared + bytes.per_graph;
            bool there = p->weight_sharing && kind > 0 && next_constant(first, &in_first) == t;
            s->weight_bytes += bytes.per_graph + (there ? 0 : bytes.shared);
            if (bytes.shared + bytes.per_graph > s->largest_weight_bytes)
                s->largest_weight_bytes = bytes.shared + bytes.per_graph, s->largest_weight = t->name;
        }
        bool failed = work == NULL || apart == NULL;
        free(work), free(apart);
        if (failed) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        ops += sw_compiled_ops_bytes(graph->n_ops, own);
    }
    s->context_bytes = s->weight_bytes + ops;
    p->context_bytes += s->context_bytes;
    if (s->context_bytes > p->largest_context_bytes)
        p->largest_context_bytes = s->context_bytes, p->largest_shard = shard;
    return SW_OK;
}

/* The session's own: one cache for all graphs, hidden states between shards once. */
static void plan_session(sw_memory_plan *p, const sw_decoder *decoder) {
    const sw_hparams *h = &decoder->hparams;
    for (uint32_t g = 0; g < decoder->n_graphs; g++) {
        const sw_graph *graph = decoder->graphs[g];
        const sw_plan_graph *x = &p->graphs[g];
        p->kv_bytes_if_a_graph_had_its_own += x->kv_in_bytes + x->kv_out_bytes;
        p->other_io_bytes += x->kv_out_bytes + x->other_in_bytes + x->other_out_bytes;
        if (graph->begin_layer > 0 && graph->n_inputs > 0) { /* the shard before has it as its output */
            char name[SW_NAME_BYTES];
            uint32_t i = sw_graph_find(graph, sw_graph_first_input(graph, name));
            if (i != UINT32_MAX) p->other_io_bytes -= sw_tensor_bytes(graph->tensors[i]);
        }
        for (uint32_t i = 0; i < graph->n_outputs && p->kv_cache_bytes == 0; i++) {
            const sw_tensor *t = graph->tensors[graph->outputs[i]];
            if (t->role == SW_ROLE_KV)
                p->kv_cache_bytes = 2ull * h->n_layers * h->n_kv_heads * decoder->context_len * h->head_dim *
                                    sw_dtype_bytes(t->dtype);
        }
    }
    if (!h->tied_embeddings) p->embedding_bytes = sw_tensor_bytes(decoder->embedding);
}

static sw_interval bound(const sw_memory_plan *p, bool decode) {
    const sw_slc_assumption *e = &sw_slc_assumptions[SW_SLC_dram_efficiency];
    double bytes = 0, tokens = 0;
    for (uint32_t g = 0; g < p->n_shards * p->n_kinds; g++)
        if ((p->graphs[g].ar_len == 1) == decode)
            bytes += (double)p->graphs[g].dram_bytes, tokens = p->graphs[g].ar_len;
    if (bytes <= 0 || p->dram_gbps <= 0) return (sw_interval){0, 0, 0};
    double at_peak = tokens * p->dram_gbps * 1e9 / bytes;
    return (sw_interval){e->low * at_peak, e->value * at_peak, e->high * at_peak};
}

sw_code sw_memory_plan_make(sw_memory_plan *out, const sw_decoder *decoder, const sw_soc *soc,
                            bool weight_sharing, uint32_t opt_level, double dram_gbps, sw_error *err) {
    memset(out, 0, sizeof *out);
    out->soc = soc;
    out->n_kinds = sw_decoder_kinds(decoder);
    out->n_shards = decoder->n_shards;
    out->weight_sharing = weight_sharing;
    out->opt_level = opt_level;
    out->dram_gbps = dram_gbps > 0 ? dram_gbps : sw_soc_memory_of(soc).dram_peak_gbps;
    if (out->n_kinds == 0 || sw_graph_activation_type(decoder->graphs[0]) == SW_F32)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "a plan needs a decoder whose tensors have their types");
    for (uint32_t g = 0; g < decoder->n_graphs; g++)
        SW_TRY(plan_graph(decoder->graphs[g], &out->graphs[g], err));
    for (uint32_t s = 0; s < out->n_shards; s++) SW_TRY(plan_shard(out, decoder, s, err));
    plan_session(out, decoder);
    out->prefill_tokens = bound(out, false);
    out->decode_tokens = bound(out, true);
    return SW_OK;
}

bool sw_memory_plan_fits(const sw_memory_plan *plan, uint64_t most_weight_bytes) {
    for (uint32_t i = 0; most_weight_bytes > 0 && i < plan->n_shards; i++)
        if (plan->shards[i].weight_bytes > most_weight_bytes) return false;
    return plan->largest_context_bytes <= SW_CONTEXT_LIMIT_BYTES;
}
