/* plan_print.c: a plan as tables for people, and as JSON. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/plan.h"

static double mb(uint64_t bytes) {
    return (double)bytes / 1e6;
}

static int digits_of(const char *text) {
    return (int)strlen(text);
}

static void print_head(const sw_planned *p, const sw_target *t, FILE *stream) {
    const sw_hparams *h = &p->decoder.hparams;
    const sw_soc_memory memory = sw_soc_memory_of(t->soc);
    fprintf(stream,
            "%s: %s, %u layers of width %u, feed-forward %u, %u heads of %u on %u KV heads, vocabulary %u; "
            "%.1f M parameters\n",
            p->model, h->architecture, h->n_layers, h->hidden, h->ffn, h->n_heads, h->head_dim, h->n_kv_heads,
            h->vocab, (double)p->parameters / 1e6);
    fprintf(stream, "recipe %s, KV cache %s, context %u, level %u; %s: V%u, VTCM %u MB, DRAM ",
            t->recipe.name, sw_dtype_name(t->recipe.kv), t->context_len, t->opt_level, t->soc->name,
            t->soc->htp_arch, t->soc->vtcm_mb);
    if (p->plan.dram_gbps > 0)
        fprintf(stream, "%.1f GB/s at its peak", p->plan.dram_gbps);
    else
        fprintf(stream, "bandwidth unknown (--dram_gbps sets it)");
    if (memory.slc_kb > 0)
        fprintf(stream, ", system-level cache %u KB\n\n", memory.slc_kb);
    else
        fprintf(stream, ", system-level cache unknown\n\n");
}

static int op_width(const sw_planned *p) {
    int width = 2;
    for (uint32_t i = 0; i < p->decoder.n_graphs; i++)
        if (p->plan.graphs[i].activation_op != NULL && digits_of(p->plan.graphs[i].activation_op) > width)
            width = digits_of(p->plan.graphs[i].activation_op);
    return width;
}

static void print_graphs(const sw_planned *p, FILE *stream) {
    fprintf(stream,
            "graph            shard  layers    AR   ops  weights MB  KV in MB  KV out MB  other I/O MB  "
            "activations MB  at %-*s  least DDR MB\n",
            op_width(p) - 3 > 0 ? op_width(p) - 3 : 0, "op");
    for (uint32_t i = 0; i < p->decoder.n_graphs; i++) {
        const sw_plan_graph *g = &p->plan.graphs[i];
        char layers[32];
        snprintf(layers, sizeof layers, "%u-%u", g->layers.begin, g->layers.end - 1);
        fprintf(stream, "%-15s  %5u  %-7s %4u  %4u  %10.1f  %8.3f  %9.3f  %12.3f  %14.3f  %-*s  %12.1f\n",
                g->name, g->shard, layers, g->ar_len, g->n_ops, mb(g->weight_bytes), mb(g->kv_in_bytes),
                mb(g->kv_out_bytes), mb(g->other_in_bytes + g->other_out_bytes), mb(g->activation_bytes),
                op_width(p), g->activation_op != NULL ? g->activation_op : "-", mb(g->dram_bytes));
    }
    fputc('\n', stream);
}

static void print_shards(const sw_planned *p, FILE *stream) {
    fprintf(stream, "shard  layers   weights MB  context MB  of the limit  largest weight MB\n");
    for (uint32_t i = 0; i < p->plan.n_shards; i++) {
        const sw_plan_shard *s = &p->plan.shards[i];
        char layers[32];
        snprintf(layers, sizeof layers, "%u-%u", s->layers.begin, s->layers.end - 1);
        fprintf(stream, "%5u  %-7s  %10.1f  %10.1f  %10.1f %%  %17.1f  %s%s\n", i, layers,
                mb(s->weight_bytes), mb(s->context_bytes),
                100.0 * (double)s->context_bytes / SW_CONTEXT_LIMIT_BYTES, mb(s->largest_weight_bytes),
                s->largest_weight != NULL ? s->largest_weight : "-",
                s->weight_bytes >= SW_LARGE_WEIGHT_BYTES
                    ? "; weights of 290 MB and more fail to map on some phones: --max_weight_buffer_mb"
                    : "");
    }
    fputc('\n', stream);
}

static void print_tokens(const char *what, const sw_interval *t, FILE *stream) {
    if (t->high > 0) fprintf(stream, "; %s %.0f (%.0f to %.0f)", what, t->likely, t->low, t->high);
}

static void print_spills(const sw_planned *p, const sw_target *t, FILE *stream) {
    double vtcm = t->vtcm_mb * 1048576.0;
    for (uint32_t i = 0; i < p->plan.n_kinds; i++) { /* shards are alike */
        const sw_plan_graph *g = &p->plan.graphs[i];
        double share = (double)g->activation_bytes / vtcm;
        fprintf(
            stream, "%s: activations of %.1f %% of %u MB of VTCM: %s\n", g->name, 100 * share, t->vtcm_mb,
            share > SW_VTCM_SHARE_OF_ACTIVATIONS
                ? "expect spills; --tune, --attention per_head or a shorter --prefill_ar_len may avoid them"
                : "spills are unlikely");
    }
}

static void print_heads(const sw_planned *p, FILE *stream) {
    const sw_plan_graph *last = &p->plan.graphs[p->decoder.n_graphs - 1]; /* alike in all kinds */
    if (last->head_pieces > 1)
        fprintf(stream, "head: in %u pieces, so that a row of logits has room in the VTCM\n",
                last->head_pieces);
}

static void print_sums(const sw_planned *p, const sw_target *t, FILE *stream) {
    const sw_memory_plan *m = &p->plan;
    const sw_slc_assumption *e = &sw_slc_assumptions[SW_SLC_dram_efficiency];
    fprintf(stream, "contexts: %.1f MB in %u, %s; the limit of one is %.1f MB; smallest number that fits: ",
            mb(m->context_bytes), m->n_shards,
            t->n_kinds < 2      ? "one graph each"
            : m->weight_sharing ? "weights shared by the graphs"
                                : "weights a copy a graph",
            mb(SW_CONTEXT_LIMIT_BYTES));
    if (p->least_shards > 0)
        fprintf(stream, "%u\n", p->least_shards);
    else
        fprintf(stream, "none\n");
    fprintf(stream, "KV cache: %.3f MB, one for all graphs (counted for each graph it would be %.3f MB); ",
            mb(m->kv_cache_bytes), mb(m->kv_bytes_if_a_graph_had_its_own));
    fprintf(stream, "other inputs and outputs: %.3f MB\n", mb(m->other_io_bytes));
    if (m->embedding_bytes > 0)
        fprintf(stream, "embedding table of the host: %.1f MB, mapped\n", mb(m->embedding_bytes));
    else
        fprintf(stream, "embedding table of the host: the head's own\n");
    print_heads(p, stream);
    print_spills(p, t, stream);
    fprintf(
        stream,
        "a compile needs about %.2f GB of memory, %.2f GB of these for Qualcomm's compiler with a shard\n",
        (double)p->compile.needed_bytes / 1e9, (double)p->compile.shard_bytes / 1e9);
    if (m->dram_gbps <= 0) {
        fprintf(stream, "tokens/s that DRAM allows: unknown\n");
        return;
    }
    fprintf(stream, "tokens/s that DRAM allows at %.0f %% of its peak (%.0f to %.0f %%)", 100 * e->value,
            100 * e->low, 100 * e->high);
    print_tokens("prefill", &m->prefill_tokens, stream);
    print_tokens("decode", &m->decode_tokens, stream);
    fputc('\n', stream);
}

void sw_planned_print(const sw_planned *p, const sw_target *t, FILE *stream) {
    print_head(p, t, stream);
    print_graphs(p, stream);
    print_shards(p, stream);
    print_sums(p, t, stream);
}

/* ---- JSON ---- */

static json_t *number(uint64_t value) {
    return json_integer((json_int_t)value);
}

static json_t *interval_to_json(const sw_interval *i) {
    if (i->high <= 0) return json_null();
    return json_pack("{s:f, s:f, s:f}", "low", i->low, "likely", i->likely, "high", i->high);
}

static json_t *graph_to_json(const sw_plan_graph *g) {
    return json_pack("{s:s, s:I, s:[i, i], s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:s?, s:o}", "name",
                     g->name, "shard", (json_int_t)g->shard, "layers", (int)g->layers.begin,
                     (int)g->layers.end - 1, "ar_len", (json_int_t)g->ar_len, "ops", (json_int_t)g->n_ops,
                     "head_pieces", (json_int_t)g->head_pieces, "weight_bytes", number(g->weight_bytes),
                     "kv_in_bytes", number(g->kv_in_bytes), "kv_out_bytes", number(g->kv_out_bytes),
                     "other_in_bytes", number(g->other_in_bytes), "other_out_bytes",
                     number(g->other_out_bytes), "activation_bytes", number(g->activation_bytes),
                     "activation_op", g->activation_op, "least_ddr_bytes", number(g->dram_bytes));
}

static json_t *shard_to_json(const sw_plan_shard *s) {
    return json_pack("{s:[i, i], s:o, s:o, s:o, s:s?}", "layers", (int)s->layers.begin,
                     (int)s->layers.end - 1, "weight_bytes", number(s->weight_bytes), "context_bytes",
                     number(s->context_bytes), "largest_weight_bytes", number(s->largest_weight_bytes),
                     "largest_weight", s->largest_weight);
}

static json_t *memory_to_json(const sw_planned *p, const sw_target *t) {
    static const char *const slices[] = {"unknown", "none", "listed"};
    sw_soc_memory m = sw_soc_memory_of(t->soc);
    return json_pack("{s:s, s:I, s:I, s:I, s:o, s:o, s:s, s:o}", "name", t->soc->name, "id",
                     (json_int_t)t->soc->model_id, "htp_arch", (json_int_t)t->soc->htp_arch, "vtcm_mb",
                     (json_int_t)t->soc->vtcm_mb, "dram_peak_gbps",
                     p->plan.dram_gbps > 0 ? json_real(p->plan.dram_gbps) : json_null(), "slc_kb",
                     m.slc_kb > 0 ? number(m.slc_kb) : json_null(), "compute_slice", slices[m.compute],
                     "compute_slice_kb", m.slice_kb > 0 ? number(m.slice_kb) : json_null());
}

sw_code sw_planned_print_json(const sw_planned *p, const sw_target *t, FILE *stream, sw_error *err) {
    const sw_memory_plan *m = &p->plan;
    json_t *graphs = json_array(), *shards = json_array();
    for (uint32_t i = 0; i < p->decoder.n_graphs; i++)
        json_array_append_new(graphs, graph_to_json(&m->graphs[i]));
    for (uint32_t i = 0; i < m->n_shards; i++) json_array_append_new(shards, shard_to_json(&m->shards[i]));
    json_t *document = json_pack(
        "{s:o, s:s, s:s, s:I, s:I, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o, "
        "s:o, s:o}",
        "model", sw_json_of_bytes(p->model), "recipe", t->recipe.name, "kv_type", sw_dtype_name(t->recipe.kv),
        "context_len", (json_int_t)t->context_len, "opt_level", (json_int_t)t->opt_level, "parameters",
        number(p->parameters), "soc", memory_to_json(p, t), "weight_sharing", m->weight_sharing, "graphs",
        graphs, "shards", shards, "context_bytes", number(m->context_bytes), "largest_context_bytes",
        number(m->largest_context_bytes), "context_limit_bytes", number(SW_CONTEXT_LIMIT_BYTES),
        "max_weight_buffer_bytes", p->most_weight_bytes > 0 ? number(p->most_weight_bytes) : json_null(),
        "least_shards", p->least_shards > 0 ? number(p->least_shards) : json_null(), "kv_cache_bytes",
        number(m->kv_cache_bytes), "other_io_bytes", number(m->other_io_bytes), "embedding_bytes",
        number(m->embedding_bytes), "compile_memory_bytes", number(p->compile.needed_bytes),
        "compiler_memory_bytes", number(p->compile.shard_bytes), "prefill_tokens_per_second",
        interval_to_json(&m->prefill_tokens), "decode_tokens_per_second",
        interval_to_json(&m->decode_tokens));
    char *text = document != NULL ? json_dumps(document, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(document);
    if (text == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    fprintf(stream, "%s\n", text);
    free(text);
    return SW_OK;
}
