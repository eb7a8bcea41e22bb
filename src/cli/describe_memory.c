/* describe_memory.c: where a graph's bytes go, by its shapes: the memory plan's sums, and a placement of the
 * activations in one buffer by lifetime (cpu/plan.h). Qualcomm's compiler makes a placement of its own, of
 * tiles, which no interface tells; this one shows what is alive when, and whether whole tensors would fit. */
#include <stdlib.h>

#include "cli/describe.h"
#include "cpu/plan.h"
#include "soc/memory_plan.h"

typedef struct placed {
    sw_plan_block *blocks;
    uint32_t *tensors, *makers; /* of each block */
    uint32_t count;
    uint64_t bytes; /* of the buffer */
} placed;

static sw_code place(const sw_graph *graph, sw_arena *arena, placed *out, sw_error *err) {
    uint32_t n = graph->n_tensors;
    uint32_t *root = sw_arena_array(arena, n, sizeof *root), *last = sw_arena_array(arena, n, sizeof *last);
    *out = (placed){.blocks = sw_arena_array(arena, n, sizeof *out->blocks),
                    .tensors = sw_arena_array(arena, n, sizeof *out->tensors),
                    .makers = sw_arena_array(arena, n, sizeof *out->makers)};
    if (root == NULL || last == NULL || out->blocks == NULL || out->tensors == NULL || out->makers == NULL)
        return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    sw_find_lifetimes(graph, root, last);
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        uint32_t t = graph->ops[i].outputs[0];
        if (root[t] != t) continue;
        out->tensors[out->count] = t, out->makers[out->count] = i;
        out->blocks[out->count++] =
            (sw_plan_block){.size_bytes = sw_tensor_bytes(graph->tensors[t]), .first = i, .last = last[t]};
    }
    return sw_plan(out->blocks, out->count, arena, &out->bytes, err);
}

static json_t *block_to_json(const sw_graph *graph, const placed *p, uint32_t i) {
    const sw_plan_block *b = &p->blocks[i];
    const sw_op *op = &graph->ops[p->makers[i]];
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "tensor", graph->tensors[p->tensors[i]]->name,
                     "op", op->name, "op_type", sw_op_get_info(op->type)->name, "bytes",
                     (json_int_t)b->size_bytes, "offset", (json_int_t)b->offset, "first_op",
                     (json_int_t)b->first, "last_op", (json_int_t)b->last);
}

static json_t *graph_to_json(const sw_manifest_graph *m, uint64_t vtcm_bytes, const sw_plan_graph *plan,
                             const sw_graph *graph, const placed *p, bool details) {
    uint32_t over = 0;
    uint64_t over_bytes = 0;
    for (uint32_t i = 0; i < p->count; i++)
        if (p->blocks[i].offset + p->blocks[i].size_bytes > vtcm_bytes)
            over++, over_bytes += p->blocks[i].size_bytes;
    json_t *o =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s?, s:I, s:I, s:I, s:I}", "name",
                  m->name, "shard", (json_int_t)m->shard, "vtcm_bytes", (json_int_t)vtcm_bytes, "n_ops",
                  (json_int_t)graph->n_ops, "weight_bytes", (json_int_t)plan->weight_bytes, "kv_in_bytes",
                  (json_int_t)plan->kv_in_bytes, "kv_out_bytes", (json_int_t)plan->kv_out_bytes,
                  "other_in_bytes", (json_int_t)plan->other_in_bytes, "other_out_bytes",
                  (json_int_t)plan->other_out_bytes, "least_ddr_bytes", (json_int_t)plan->dram_bytes,
                  "activation_bytes", (json_int_t)plan->activation_bytes, "activation_op",
                  plan->activation_op, "placed_bytes", (json_int_t)p->bytes, "n_blocks", (json_int_t)p->count,
                  "blocks_over_vtcm", (json_int_t)over, "bytes_over_vtcm", (json_int_t)over_bytes);
    if (!details) return o;
    json_t *blocks = json_array();
    for (uint32_t i = 0; i < p->count; i++) json_array_append_new(blocks, block_to_json(graph, p, i));
    json_object_set_new(o, "blocks", blocks);
    return o;
}

static sw_code describe(const sw_bundle *bundle, const sw_memory_plan *plan, bool details, json_t **out,
                        sw_error *err) {
    const sw_manifest *m = &bundle->manifest;
    json_t *graphs = json_array();
    sw_code code = SW_OK;
    for (uint32_t i = 0; i < m->n_graphs && code == SW_OK; i++) {
        const sw_manifest_graph *g = &m->graphs[i];
        sw_arena work = SW_ARENA_EMPTY;
        placed p;
        code = place(bundle->decoder.graphs[i], &work, &p, err);
        uint64_t vtcm_bytes = g->vtcm_bytes > 0 ? g->vtcm_bytes : (uint64_t)m->vtcm_mb << 20;
        if (code == SW_OK)
            json_array_append_new(graphs, graph_to_json(g, vtcm_bytes, &plan->graphs[i],
                                                        bundle->decoder.graphs[i], &p, details));
        sw_arena_free(&work);
    }
    if (code != SW_OK) {
        json_decref(graphs);
        return code;
    }
    *out = json_pack("{s:I, s:I, s:I, s:I, s:o}", "kv_cache_bytes", (json_int_t)plan->kv_cache_bytes,
                     "other_io_bytes", (json_int_t)plan->other_io_bytes, "embedding_bytes",
                     (json_int_t)plan->embedding_bytes, "context_limit_bytes",
                     (json_int_t)SW_CONTEXT_LIMIT_BYTES, "graphs", graphs);
    return *out != NULL ? SW_OK : SW_FAIL(err, SW_NO_MEMORY, "out of memory");
}

sw_code sw_describe_memory(const sw_options *options, const sw_bundle *bundle, bool details, json_t **out,
                           sw_error *err) {
    const sw_manifest *m = &bundle->manifest;
    const sw_soc soc = sw_manifest_soc(m);
    sw_memory_plan *plan = malloc(sizeof *plan);
    if (plan == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    sw_code code = sw_memory_plan_make(plan, &bundle->decoder, &soc, m->weight_sharing, m->opt_level,
                                       (double)options->dram_gbps, err);
    if (code == SW_OK) code = describe(bundle, plan, details, out, err);
    free(plan);
    return code;
}
