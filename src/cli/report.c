/* report.c: figures of compiled graphs as text. */
#include "cli/report.h"

#include <jansson.h>
#include <string.h>

const char *sw_bytes_text(uint64_t bytes, char out[32]) {
    if (bytes < 10000)
        snprintf(out, 32, "%llu B", (unsigned long long)bytes);
    else if (bytes < 1000000)
        snprintf(out, 32, "%.1f kB", (double)bytes / 1e3);
    else
        snprintf(out, 32, "%.1f MB", (double)bytes / 1e6);
    return out;
}

double sw_finalize_seconds(const sw_manifest *m) {
    double sum = 0;
    for (uint32_t i = 0; i < m->n_graphs; i++) sum += m->graphs[i].finalize_seconds;
    return sum;
}

static double least(double a, double b) {
    return a < b ? a : b;
}

sw_compile_seconds sw_compile_seconds_of(double total, double tuning, double beside, double finalize,
                                         double calls) {
    sw_compile_seconds s = {.total = total, .tuning = tuning, .finalize = least(finalize, beside)};
    s.calls = least(calls, beside - s.finalize);
    s.own = total - tuning - s.finalize - s.calls;
    return s;
}

const char *sw_compile_seconds_line(const sw_compile_seconds *s, char out[SW_LINE_BYTES]) {
    char tuning[48] = "";
    if (s->tuning > 0) snprintf(tuning, sizeof tuning, "tuning %.1f s, ", s->tuning);
    int n = snprintf(out, SW_LINE_BYTES,
                     "%.1f s: %sQualcomm's finalize %.1f s, its other calls %.1f s, ours %.1f s", s->total,
                     tuning, s->finalize, s->calls, s->own);
    if (s->finalize > 0 && n > 0 && n < SW_LINE_BYTES) /* none: all came from the cache */
        snprintf(out + n, SW_LINE_BYTES - (size_t)n, " (%.0f %% of finalize)", 100 * s->own / s->finalize);
    return out;
}

const char *sw_graph_line(const sw_manifest *m, const sw_manifest_graph *g, char out[SW_LINE_BYTES]) {
    char label[SW_GRAPH_LABEL_BYTES], spill[32], read[32], write[32];
    int n = snprintf(out, SW_LINE_BYTES, "%s: SLC allocator %s, spill-fill %s, VTCM %llu MB",
                     sw_manifest_graph_label(m, g, label), g->slc_allocator ? "on" : "off",
                     sw_bytes_text(g->spill_fill_bytes, spill), (unsigned long long)(g->vtcm_bytes >> 20));
    if (g->ddr.known && n > 0 && n < SW_LINE_BYTES)
        n += snprintf(out + n, SW_LINE_BYTES - (size_t)n, ", DDR read %s, write %s",
                      sw_bytes_text(g->ddr.read, read), sw_bytes_text(g->ddr.write, write));
    if (g->ddr.known && g->ddr.spill + g->ddr.fill > 0 && n > 0 && n < SW_LINE_BYTES)
        snprintf(out + n, SW_LINE_BYTES - (size_t)n, " (of these spill %s, fill %s)",
                 sw_bytes_text(g->ddr.spill, spill), sw_bytes_text(g->ddr.fill, read));
    return out;
}

const char *sw_ops_line(const sw_manifest_graph *g, uint32_t n_layers, char out[SW_LINE_BYTES]) {
    uint32_t total = 0;
    for (unsigned i = 0; i < SW_OP_COUNT; i++) total += g->op_counts[i];
    uint32_t converts = g->op_counts[SW_OP_CONVERT];
    snprintf(out, SW_LINE_BYTES, "%u ops, %u a layer, %u Convert (%u a layer)", total, total / n_layers,
             converts, converts / n_layers);
    return out;
}

static void print_graph(const sw_manifest *m, const sw_manifest_graph *g, FILE *stream) {
    char line[SW_LINE_BYTES];
    sw_layer_run run = sw_shard_layers(m->hparams.n_layers, m->n_shards, g->shard);
    fprintf(stream, "%s\n", sw_graph_line(m, g, line));
    fprintf(stream, "  AR length %u, layers %u to %u, attention %s", g->ar_len, run.begin, run.end - 1,
            sw_attention_form_name(g->attention));
    if (g->head_pieces > 1) fprintf(stream, ", head in %u pieces", g->head_pieces);
    fprintf(stream, "; %s; finalize %.1f s\n", sw_ops_line(g, run.end - run.begin, line),
            g->finalize_seconds);
    if (g->slc_reason != NULL)
        fprintf(stream, "  SLC allocator: advice: %s: %s\n", sw_slc_verdict_name(g->slc_verdict),
                g->slc_reason);
    fprintf(stream, " ");
    for (unsigned i = 0; i < SW_OP_COUNT; i++)
        if (g->op_counts[i] > 0)
            fprintf(stream, " %s %u", sw_op_get_info((sw_op_type)i)->name, g->op_counts[i]);
    fputc('\n', stream);
}

/* What each level would move; forms one by one are in the JSON. */
static void print_tuning(const char *text, FILE *stream) {
    json_t *tuning = json_loads(text, 0, NULL), *level;
    size_t i;
    fprintf(stream,
            "tuned: %zu compiles tried; bytes a token:", json_array_size(json_object_get(tuning, "tried")));
    json_array_foreach(json_object_get(tuning, "levels"), i, level) {
        const json_t *bytes = json_object_get(level, "bytes_a_token");
        fprintf(stream, "%s O%lld ", i > 0 ? "," : "",
                (long long)json_integer_value(json_object_get(level, "opt_level")));
        if (json_is_integer(bytes))
            fprintf(stream, "%lld", (long long)json_integer_value(bytes));
        else
            fputs("doesn't compile", stream);
        if (json_is_true(json_object_get(level, "chosen"))) fputs(" (taken)", stream);
    }
    fputc('\n', stream);
    json_decref(tuning);
}

void sw_manifest_print(const sw_manifest *m, FILE *stream) {
    const sw_hparams *h = &m->hparams;
    char bytes[32];
    fprintf(stream, "model: %s, %s, %u layers of width %u, %u heads on %u KV heads, vocabulary %u\n",
            h->name[0] != '\0' ? h->name : "unnamed", h->architecture, h->n_layers, h->hidden, h->n_heads,
            h->n_kv_heads, h->vocab);
    fprintf(stream, "recipe: %s, KV cache %s; %s mode, context %u", m->recipe, sw_dtype_name(m->kv_type),
            sw_model_mode_name(m->mode), m->context_len);
    if (m->mode == SW_MODE_HYBRID) fprintf(stream, ", prefill AR %u", m->prefill_ar_len);
    fprintf(stream, "\ntarget: %s (SoC %u, V%u), VTCM %u MB, O%u, weights %s, compiler %s\n", m->soc_name,
            m->soc_id, m->htp_arch, m->vtcm_mb, m->opt_level,
            m->weight_sharing ? "shared by the graphs" : "a copy a graph",
            m->qnn_build_id != NULL ? m->qnn_build_id : "none");
    for (uint32_t i = 0; i < m->n_graphs; i++) print_graph(m, &m->graphs[i], stream);
    fprintf(stream, "spill-fill buffer: %s, as large as the largest graph's need%s\n",
            sw_bytes_text(m->spill_fill_buffer_bytes, bytes), m->n_shards > 1 ? ", one for all shards" : "");
    fprintf(stream, "compiled in %.1f s, of these %.1f s in Qualcomm's finalize; peak memory %s\n",
            m->compile_seconds, sw_finalize_seconds(m), sw_bytes_text(m->peak_memory_bytes, bytes));
    if (m->calibration != NULL) fprintf(stream, "calibration: %s\n", m->calibration);
    if (m->tuning != NULL) print_tuning(m->tuning, stream);
    for (uint32_t i = 0; i < m->n_parts; i++)
        fprintf(stream, "part: %-9s %12llu bytes  %s\n", sw_part_kind_name(m->parts[i].kind),
                (unsigned long long)m->parts[i].bytes, m->parts[i].path);
}
