/* manifest.c: the manifest's lists of names, its writer, and the comparisons with what a loader finds. */
#include "bundle/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/find_name.h"
#include "graph/verify.h"

static const char *const kind_names[SW_PART_KIND_COUNT] = {
#define SW_PART_KIND_NAME(id, name, least, most) [id] = name,
    SW_PART_KINDS(SW_PART_KIND_NAME)
#undef SW_PART_KIND_NAME
};

static const char *const mode_names[SW_MODE_COUNT] = {"hybrid", "kv"};

const char *sw_part_kind_name(sw_part_kind kind) {
    return kind_names[kind];
}

const char *sw_model_mode_name(sw_model_mode mode) {
    return mode_names[mode];
}

bool sw_model_mode_from_name(const char *name, sw_model_mode *out) {
    unsigned i;
    if (!sw_find_name(mode_names, SW_MODE_COUNT, name, &i)) return false;
    *out = (sw_model_mode)i;
    return true;
}

sw_soc sw_manifest_soc(const sw_manifest *m) {
    const sw_soc *known = sw_soc_find(m->soc_name);
    if (known != NULL) return *known;
    return (sw_soc){
        .name = m->soc_name, .model_id = m->soc_id, .htp_arch = m->htp_arch, .vtcm_mb = m->vtcm_mb};
}

void sw_manifest_init(sw_manifest *m, const sw_decoder *decoder) {
    *m = (sw_manifest){.hparams = decoder->hparams,
                       .context_len = decoder->context_len,
                       .n_shards = decoder->n_shards,
                       .n_graphs = decoder->n_graphs};
    for (uint32_t g = 0; g < m->n_graphs; g++) {
        const sw_graph *graph = decoder->graphs[g];
        m->graphs[g].name = graph->name;
        m->graphs[g].shard = graph->shard;
        m->graphs[g].ar_len = graph->ar_len;
        m->graphs[g].head_pieces = sw_graph_head_pieces(graph);
        for (unsigned op = 0; op < SW_OP_COUNT; op++)
            m->graphs[g].op_counts[op] = sw_graph_count_ops(graph, (sw_op_type)op);
        for (uint32_t i = 0; i < graph->n_outputs; i++)
            if (graph->tensors[graph->outputs[i]]->role == SW_ROLE_KV)
                m->kv_type = graph->tensors[graph->outputs[i]]->dtype;
    }
}

static json_t *ddr_to_json(const sw_ddr *ddr) {
    if (!ddr->known) return json_null();
    return json_pack("{s:I, s:I, s:I, s:I}", "spill", (json_int_t)ddr->spill, "fill", (json_int_t)ddr->fill,
                     "read", (json_int_t)ddr->read, "write", (json_int_t)ddr->write);
}

static json_t *advice_to_json(const sw_manifest_graph *g) {
    if (g->slc_reason == NULL) return json_null();
    return json_pack("{s:s, s:s}", "verdict", sw_slc_verdict_name(g->slc_verdict), "reason", g->slc_reason);
}

static json_t *graphs_to_json(const sw_manifest *m) {
    json_t *graphs = json_array();
    for (uint32_t i = 0; i < m->n_graphs; i++) {
        const sw_manifest_graph *g = &m->graphs[i];
        json_t *ops = json_object();
        for (unsigned op = 0; op < SW_OP_COUNT; op++)
            if (g->op_counts[op] > 0)
                json_object_set_new(ops, sw_op_get_info((sw_op_type)op)->name,
                                    json_integer(g->op_counts[op]));
        json_array_append_new(
            graphs,
            json_pack("{s:s, s:I, s:I, s:s, s:I, s:b, s:o, s:I, s:I, s:o, s:o, s:f}", "name", g->name,
                      "shard", (json_int_t)g->shard, "ar_len", (json_int_t)g->ar_len, "attention",
                      sw_attention_form_name(g->attention), "head_pieces", (json_int_t)g->head_pieces,
                      "slc_allocator", g->slc_allocator, "slc_advice", advice_to_json(g), "spill_fill_bytes",
                      (json_int_t)g->spill_fill_bytes, "vtcm_bytes", (json_int_t)g->vtcm_bytes, "ddr",
                      ddr_to_json(&g->ddr), "ops", ops, "finalize_seconds", g->finalize_seconds));
    }
    return graphs;
}

static json_t *parts_to_json(const sw_manifest *m) {
    json_t *parts = json_array();
    for (uint32_t i = 0; i < m->n_parts; i++) {
        const sw_part *p = &m->parts[i];
        json_array_append_new(parts, json_pack("{s:s, s:s, s:I, s:s}", "kind", kind_names[p->kind], "path",
                                               p->path, "bytes", (json_int_t)p->bytes, "sha256", p->sha256));
    }
    return parts;
}

/* A piece that couldn't be made (a NULL text, no memory) makes the whole NULL, or a manifest that the reader
 * refuses; sw_manifest_write looks at both. */
static json_t *to_json(const sw_manifest *m) {
    json_t *calibration =
        m->calibration != NULL ? json_loads(m->calibration, JSON_REJECT_DUPLICATES, NULL) : json_object();
    json_t *tuning = m->tuning != NULL ? json_loads(m->tuning, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (m->tuning != NULL && tuning == NULL) {
        json_decref(calibration);
        return NULL;
    }
    return json_pack(
        "{s:s, s:i, s:s, s:o, s:s, s:s, s:s, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:s?, s:b, s:I, s:o, "
        "s:I, s:f, s:I, s:o, s:o*, s:o}",
        "format", SW_MANIFEST_FORMAT, "version", (int)SW_MANIFEST_VERSION, "tool_version", m->tool_version,
        "model", sw_hparams_to_json(&m->hparams), "recipe", m->recipe, "kv_type", sw_dtype_name(m->kv_type),
        "model_mode", mode_names[m->mode], "context_len", (json_int_t)m->context_len, "prefill_ar_len",
        (json_int_t)m->prefill_ar_len, "soc_name", m->soc_name, "soc_id", (json_int_t)m->soc_id, "htp_arch",
        (json_int_t)m->htp_arch, "vtcm_mb", (json_int_t)m->vtcm_mb, "opt_level", (json_int_t)m->opt_level,
        "qnn_build_id", m->qnn_build_id, "weight_sharing", m->weight_sharing, "shards",
        (json_int_t)m->n_shards, "graphs", graphs_to_json(m), "spill_fill_buffer_bytes",
        (json_int_t)m->spill_fill_buffer_bytes, "compile_seconds", m->compile_seconds, "peak_memory_bytes",
        (json_int_t)m->peak_memory_bytes, "calibration", calibration, "tuning", tuning, "parts",
        parts_to_json(m));
}

sw_code sw_manifest_write(const sw_manifest *m, sw_arena *arena, char **text, size_t *size, sw_error *err) {
    if (m->tool_version == NULL || m->recipe == NULL || m->soc_name == NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "the manifest lacks tool_version, recipe or soc_name");
    json_t *document = to_json(m);
    char *dump = document != NULL ? json_dumps(document, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(document);
    if (dump == NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "the manifest holds text that is not UTF-8, a number that is not finite, or "
                       "figures of calibration or tuning that are no JSON object");
    *text = sw_arena_printf(arena, "%s\n", dump);
    free(dump);
    if (*text == NULL) return SW_FAIL(err, SW_NO_MEMORY, "manifest: out of memory");
    *size = strlen(*text);
    sw_manifest again;
    return sw_manifest_read(&again, arena, "manifest to be written", *text, *size, err);
}

/* "v2.51.0.260929181845" as four numbers. */
static bool parse_build_id(const char *id, uint64_t out[4]) {
    const char *at = id;
    if (*at++ != 'v') return false;
    for (unsigned i = 0; i < 4; i++) {
        char *end;
        if (*at < '0' || *at > '9') return false;
        out[i] = strtoull(at, &end, 10);
        if (i < 3 && *end != '.') return false;
        at = end + 1;
    }
    return true;
}

static sw_code check_build(const sw_manifest *m, const char *library, sw_error *err) {
    uint64_t ours[4], theirs[4];
    if (m->qnn_build_id == NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "the bundle holds no context binary; compile it again with Qualcomm's library");
    if (strcmp(m->qnn_build_id, library) == 0) return SW_OK;
    if (!parse_build_id(m->qnn_build_id, ours) || !parse_build_id(library, theirs))
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "the bundle was compiled by QAIRT `%s`, the library is `%s`, and which is newer can't "
                       "be told; compile again with the library that loads",
                       m->qnn_build_id, library);
    for (unsigned i = 0; i < 4; i++) {
        if (ours[i] < theirs[i]) return SW_OK; /* older binaries load */
        if (ours[i] > theirs[i])
            return SW_FAIL(err, SW_INVALID_ARGUMENT,
                           "the bundle was compiled by QAIRT %s, the library here is %s, which is older: "
                           "compile again with it, or load with %s or newer",
                           m->qnn_build_id, library, m->qnn_build_id);
    }
    return SW_OK;
}

sw_code sw_manifest_check_target(const sw_manifest *m, uint32_t soc_id, uint32_t htp_arch, uint32_t vtcm_mb,
                                 const char *library_build_id, sw_error *err) {
    if (soc_id != 0 && soc_id != m->soc_id)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "the bundle was compiled for %s (SoC %u), this is SoC %u: compile again for it",
                       m->soc_name, m->soc_id, soc_id);
    if (htp_arch != 0 && htp_arch != m->htp_arch)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "the bundle was compiled for HTP V%u (%s), this is V%u: compile again for its SoC",
                       m->htp_arch, m->soc_name, htp_arch);
    if (vtcm_mb != 0 && m->vtcm_mb > vtcm_mb)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "the bundle was compiled for %u MB of VTCM, the SoC has %u MB: compile again with at "
                       "most that",
                       m->vtcm_mb, vtcm_mb);
    return library_build_id != NULL ? check_build(m, library_build_id, err) : SW_OK;
}

sw_code sw_manifest_check_binary(const sw_manifest *m, const char *build_id, uint32_t soc_id,
                                 uint32_t htp_arch, sw_error *err) {
    if ((soc_id != 0 && soc_id != m->soc_id) || (htp_arch != 0 && htp_arch != m->htp_arch))
        return SW_FAIL(err, SW_BAD_DATA,
                       "the manifest says %s (SoC %u, V%u), the context binary SoC %u, V%u: compile again",
                       m->soc_name, m->soc_id, m->htp_arch, soc_id, htp_arch);
    if (m->qnn_build_id == NULL || strcmp(m->qnn_build_id, build_id) != 0)
        return SW_FAIL(err, SW_BAD_DATA,
                       "the manifest says built by %s, the context binary %s: compile again",
                       m->qnn_build_id != NULL ? m->qnn_build_id : "nothing", build_id);
    return SW_OK;
}

sw_code sw_manifest_check_spill(const sw_manifest *m, uint32_t shard, const char *graph,
                                uint64_t binary_spill_fill_bytes, sw_error *err) {
    char label[SW_GRAPH_LABEL_BYTES];
    for (uint32_t i = 0; i < m->n_graphs; i++) {
        if (m->graphs[i].shard != shard || strcmp(m->graphs[i].name, graph) != 0) continue;
        if (m->graphs[i].spill_fill_bytes == binary_spill_fill_bytes) return SW_OK;
        return SW_FAIL(err, SW_BAD_DATA,
                       "%s: the manifest says %llu spill-fill bytes, the context binary %llu: compile again",
                       sw_manifest_graph_label(m, &m->graphs[i], label),
                       (unsigned long long)m->graphs[i].spill_fill_bytes,
                       (unsigned long long)binary_spill_fill_bytes);
    }
    return SW_FAIL(err, SW_BAD_DATA,
                   "the context binary of shard %u has a graph `%s`, which the manifest lacks", shard, graph);
}

const char *sw_manifest_graph_label(const sw_manifest *m, const sw_manifest_graph *g,
                                    char out[SW_GRAPH_LABEL_BYTES]) {
    if (m->n_shards > 1)
        snprintf(out, SW_GRAPH_LABEL_BYTES, "shard %u %.63s", g->shard, g->name);
    else
        snprintf(out, SW_GRAPH_LABEL_BYTES, "%.63s", g->name);
    return out;
}
