/* manifest_read.c: manifest.json into the struct; every value is checked where it is read, and then the
 * relations between them. */
#include <stdlib.h>
#include <string.h>

#include "bundle/manifest.h"
#include "soc/soc.h"

typedef struct reader {
    sw_manifest *m;
    sw_arena *arena;
    sw_error *err;
} reader;

static const struct {
    uint32_t least, most;
} kind_limits[SW_PART_KIND_COUNT] = {
#define SW_PART_KIND_LIMITS(id, name, least, most) [id] = {least, most},
    SW_PART_KINDS(SW_PART_KIND_LIMITS)
#undef SW_PART_KIND_LIMITS
};

static sw_code no_memory(reader *r, const sw_json *at) {
    return SW_FAIL(r->err, SW_NO_MEMORY, "%s: out of memory", at->file);
}

/* A copy of a key's text in the arena. */
static sw_code get_text(reader *r, const sw_json *parent, const char *key, size_t most, const char **out) {
    sw_json at;
    const char *text;
    SW_TRY(sw_json_get(parent, key, &at, r->err));
    SW_TRY(sw_json_text(&at, false, most, &text, r->err));
    *out = sw_arena_strdup(r->arena, text);
    return *out != NULL ? SW_OK : no_memory(r, &at);
}

static sw_code get_u64(reader *r, const sw_json *parent, const char *key, uint64_t *out) {
    sw_json at;
    SW_TRY(sw_json_get(parent, key, &at, r->err));
    return sw_json_u64(&at, 0, INT64_MAX, out, r->err);
}

static sw_code get_u32(reader *r, const sw_json *parent, const char *key, uint32_t least, uint32_t most,
                       uint32_t *out) {
    sw_json at;
    SW_TRY(sw_json_get(parent, key, &at, r->err));
    return sw_json_u32(&at, least, most, out, r->err);
}

static sw_code get_bool(reader *r, const sw_json *parent, const char *key, bool *out) {
    sw_json at;
    SW_TRY(sw_json_get(parent, key, &at, r->err));
    return sw_json_bool(&at, out, r->err);
}

static sw_code read_ddr(reader *r, const sw_json *parent, sw_ddr *ddr) {
    static const char *const keys[] = {"spill", "fill", "read", "write", NULL};
    sw_json at;
    SW_TRY(sw_json_get(parent, "ddr", &at, r->err));
    if (json_is_null(at.value)) return SW_OK;
    SW_TRY(sw_json_only_keys(&at, keys, r->err));
    ddr->known = true;
    SW_TRY(get_u64(r, &at, "spill", &ddr->spill));
    SW_TRY(get_u64(r, &at, "fill", &ddr->fill));
    SW_TRY(get_u64(r, &at, "read", &ddr->read));
    return get_u64(r, &at, "write", &ddr->write);
}

static sw_code read_op_counts(reader *r, const sw_json *parent, uint32_t counts[SW_OP_COUNT]) {
    sw_json at;
    SW_TRY(sw_json_get(parent, "ops", &at, r->err));
    SW_TRY(sw_json_object(&at, r->err));
    json_t *object = (json_t *)(uintptr_t)at.value;
    for (void *i = json_object_iter(object); i != NULL; i = json_object_iter_next(object, i)) {
        sw_json count = sw_json_find(&at, json_object_iter_key(i));
        sw_op_type type;
        if (!sw_op_from_name(count.key, &type)) return sw_json_fail(&count, r->err, "unknown op");
        SW_TRY(sw_json_u32(&count, 1, UINT32_MAX, &counts[type], r->err));
    }
    return SW_OK;
}

static sw_code get_seconds(reader *r, const sw_json *parent, const char *key, double *out) {
    sw_json at;
    SW_TRY(sw_json_get(parent, key, &at, r->err));
    SW_TRY(sw_json_f64(&at, out, r->err));
    return *out >= 0 ? SW_OK : sw_json_fail(&at, r->err, "is %g, wanted 0 or more", *out);
}

static sw_code read_advice(reader *r, const sw_json *parent, sw_manifest_graph *g) {
    static const char *const keys[] = {"verdict", "reason", NULL};
    sw_json at;
    const char *name;
    SW_TRY(sw_json_get(parent, "slc_advice", &at, r->err));
    if (json_is_null(at.value)) return SW_OK;
    SW_TRY(sw_json_only_keys(&at, keys, r->err));
    SW_TRY(get_text(r, &at, "verdict", 32, &name));
    sw_json verdict = sw_json_find(&at, "verdict");
    if (!sw_slc_verdict_from_name(name, &g->slc_verdict))
        return sw_json_fail(&verdict, r->err, "is `%s`, wanted off, on, measure or not available", name);
    return get_text(r, &at, "reason", SW_SLC_REASON_BYTES, &g->slc_reason);
}

static sw_code read_graph(reader *r, const sw_json *at, uint32_t shard, sw_manifest_graph *g) {
    static const char *const keys[] = {"name",
                                       "shard",
                                       "ar_len",
                                       "attention",
                                       "slc_allocator",
                                       "slc_advice",
                                       "spill_fill_bytes",
                                       "vtcm_bytes",
                                       "ddr",
                                       "ops",
                                       "finalize_seconds",
                                       "head_pieces",
                                       NULL};
    sw_json form, pieces = sw_json_find(at, "head_pieces");
    const char *attention;
    SW_TRY(sw_json_only_keys(at, keys, r->err));
    SW_TRY(get_text(r, at, "name", SW_NAME_BYTES - 1, &g->name));
    SW_TRY(get_u32(r, at, "shard", shard, shard, &g->shard));
    for (const sw_manifest_graph *other = r->m->graphs; other < g; other++)
        if (other->shard == shard && strcmp(other->name, g->name) == 0)
            return sw_json_fail(at, r->err, "two graphs are named `%s`", g->name);
    SW_TRY(get_u32(r, at, "ar_len", 1, r->m->context_len, &g->ar_len));
    SW_TRY(get_text(r, at, "attention", 64, &attention));
    form = sw_json_find(at, "attention");
    if (!sw_attention_form_from_name(attention, &g->attention))
        return sw_json_fail(&form, r->err, "is `%s`, wanted grouped, per_kv_head or per_head", attention);
    g->head_pieces = 1;
    if (pieces.value != NULL) SW_TRY(get_u32(r, at, "head_pieces", 1, SW_MAX_INPUTS, &g->head_pieces));
    SW_TRY(get_bool(r, at, "slc_allocator", &g->slc_allocator));
    SW_TRY(read_advice(r, at, g));
    SW_TRY(get_u64(r, at, "spill_fill_bytes", &g->spill_fill_bytes));
    SW_TRY(get_u64(r, at, "vtcm_bytes", &g->vtcm_bytes));
    SW_TRY(read_ddr(r, at, &g->ddr));
    SW_TRY(read_op_counts(r, at, g->op_counts));
    return get_seconds(r, at, "finalize_seconds", &g->finalize_seconds);
}

static sw_code read_graphs(reader *r, const sw_json *document) {
    sw_manifest *m = r->m;
    sw_json at;
    size_t count;
    uint64_t largest = 0;
    bool has_prefill = m->mode == SW_MODE_KV, has_decode = false;
    uint32_t layers = m->hparams.n_layers;
    SW_TRY(get_u32(r, document, "shards", 1, layers < SW_MAX_SHARDS ? layers : SW_MAX_SHARDS, &m->n_shards));
    SW_TRY(sw_json_get(document, "graphs", &at, r->err));
    SW_TRY(sw_json_array(&at, m->n_shards, (size_t)m->n_shards * SW_MAX_KINDS, &count, r->err));
    if (count % m->n_shards != 0)
        return sw_json_fail(&at, r->err, "has %zu graphs, which is no multiple of the %u shards", count,
                            m->n_shards);
    m->n_graphs = (uint32_t)count;
    for (uint32_t i = 0; i < m->n_graphs; i++) {
        sw_json element = sw_json_element(&at, i);
        SW_TRY(read_graph(r, &element, i / (m->n_graphs / m->n_shards), &m->graphs[i]));
        if (m->graphs[i].spill_fill_bytes > largest) largest = m->graphs[i].spill_fill_bytes;
        has_prefill = has_prefill || m->graphs[i].ar_len == m->prefill_ar_len;
        has_decode = has_decode || m->graphs[i].ar_len == 1;
    }
    if (!has_prefill)
        return sw_json_fail(&at, r->err, "no graph has prefill_ar_len %u as its ar_len", m->prefill_ar_len);
    if (!has_decode) return sw_json_fail(&at, r->err, "no graph has ar_len 1");
    SW_TRY(get_u64(r, document, "spill_fill_buffer_bytes", &m->spill_fill_buffer_bytes));
    if (m->spill_fill_buffer_bytes == largest) return SW_OK;
    at = sw_json_find(document, "spill_fill_buffer_bytes");
    return sw_json_fail(&at, r->err, "is %llu, but the largest spill_fill_bytes of the graphs is %llu",
                        (unsigned long long)m->spill_fill_buffer_bytes, (unsigned long long)largest);
}

static bool is_file_name(const char *path) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return path[0] != '.' && path[strspn(path, allowed)] == '\0' && strcmp(path, "manifest.json") != 0;
}

static sw_code read_part(reader *r, const sw_json *at, sw_part *part) {
    static const char *const keys[] = {"kind", "path", "bytes", "sha256", NULL};
    const char *kind, *sha256;
    sw_json value;
    SW_TRY(sw_json_only_keys(at, keys, r->err));
    SW_TRY(get_text(r, at, "kind", 32, &kind));
    value = sw_json_find(at, "kind");
    unsigned k = 0;
    while (k < SW_PART_KIND_COUNT && strcmp(sw_part_kind_name((sw_part_kind)k), kind) != 0) k++;
    if (k == SW_PART_KIND_COUNT) return sw_json_fail(&value, r->err, "unknown kind `%s`", kind);
    part->kind = (sw_part_kind)k;

    SW_TRY(sw_json_get(at, "path", &value, r->err));
    SW_TRY(sw_json_text(&value, true, SW_MAX_PART_PATH_BYTES, &part->path, r->err));
    if (part->path[0] != '\0' && !is_file_name(part->path))
        return sw_json_fail(&value, r->err,
                            "`%s` must be a file in the bundle's folder: letters, digits, '.', '_' and '-', "
                            "no '.' in front",
                            part->path);
    if ((part->path = sw_arena_strdup(r->arena, part->path)) == NULL) return no_memory(r, at);
    for (const sw_part *other = r->m->parts; other < part; other++)
        if (part->path[0] != '\0' && strcmp(other->path, part->path) == 0)
            return sw_json_fail(&value, r->err, "two parts are named `%s`", part->path);

    SW_TRY(get_u64(r, at, "bytes", &part->bytes));
    SW_TRY(get_text(r, at, "sha256", 256, &sha256));
    value = sw_json_find(at, "sha256");
    size_t length = strlen(sha256);
    if (length != SW_SHA256_HEX_BYTES - 1 || sha256[strspn(sha256, "0123456789abcdef")] != '\0')
        return sw_json_fail(&value, r->err, "`%.80s` has %zu characters; wanted 64 digits of 0-9 and a-f",
                            sha256, length);
    memcpy(part->sha256, sha256, sizeof part->sha256);
    return SW_OK;
}

static sw_code read_parts(reader *r, const sw_json *document) {
    sw_manifest *m = r->m;
    sw_json at;
    size_t count;
    uint32_t counts[SW_PART_KIND_COUNT] = {0}, seen[SW_PART_KIND_COUNT] = {0};
    SW_TRY(sw_json_get(document, "parts", &at, r->err));
    SW_TRY(sw_json_array(&at, 1, SW_MAX_PARTS, &count, r->err));
    if ((m->parts = sw_arena_array(r->arena, count, sizeof *m->parts)) == NULL) return no_memory(r, &at);
    m->n_parts = (uint32_t)count;
    for (uint32_t i = 0; i < m->n_parts; i++) {
        sw_json element = sw_json_element(&at, i);
        SW_TRY(read_part(r, &element, &m->parts[i]));
        counts[m->parts[i].kind]++;
    }
    for (uint32_t i = 0; i < m->n_parts; i++) {
        const sw_part *part = &m->parts[i];
        seen[part->kind]++;
        if (part->path[0] != '\0') continue;
        sw_json element = sw_json_element(&at, i);
        return sw_json_fail(&element, r->err, "path is empty: %s part %u of %u is missing",
                            sw_part_kind_name(part->kind), seen[part->kind], counts[part->kind]);
    }
    for (unsigned k = 0; k < SW_PART_KIND_COUNT; k++)
        if (counts[k] < kind_limits[k].least || counts[k] > kind_limits[k].most)
            return sw_json_fail(&at, r->err, "has %u parts of kind `%s`, wanted %u to %u", counts[k],
                                sw_part_kind_name((sw_part_kind)k), kind_limits[k].least,
                                kind_limits[k].most);
    if (counts[SW_PART_CONTEXT] != 0 && counts[SW_PART_CONTEXT] != m->n_shards)
        return sw_json_fail(&at, r->err, "has %u context parts, wanted one for each of %u shards",
                            counts[SW_PART_CONTEXT], m->n_shards);
    if ((m->qnn_build_id == NULL) != (counts[SW_PART_CONTEXT] == 0))
        return sw_json_fail(&at, r->err, "has %u context parts, but qnn_build_id is %s",
                            counts[SW_PART_CONTEXT], m->qnn_build_id != NULL ? m->qnn_build_id : "null");
    return SW_OK;
}

static sw_code read_model(reader *r, const sw_json *document) {
    sw_manifest *m = r->m;
    sw_json at;
    const char *name;
    SW_TRY(get_text(r, document, "tool_version", 64, &m->tool_version));
    SW_TRY(sw_json_get(document, "model", &at, r->err));
    SW_TRY(sw_hparams_from_json(&m->hparams, &at, r->err));
    SW_TRY(get_text(r, document, "recipe", 64, &m->recipe));
    SW_TRY(get_text(r, document, "kv_type", 32, &name));
    at = sw_json_find(document, "kv_type");
    if (!sw_dtype_from_name(name, &m->kv_type) || m->kv_type == SW_I32)
        return sw_json_fail(&at, r->err, "is `%s`, wanted u8, u16, s8, f16 or f32", name);
    SW_TRY(get_text(r, document, "model_mode", 32, &name));
    at = sw_json_find(document, "model_mode");
    if (!sw_model_mode_from_name(name, &m->mode))
        return sw_json_fail(&at, r->err, "is `%s`, wanted hybrid or kv", name);
    SW_TRY(get_u32(r, document, "context_len", 1, 1 << 20, &m->context_len));
    bool hybrid = m->mode == SW_MODE_HYBRID;
    return get_u32(r, document, "prefill_ar_len", hybrid ? 1 : 0, hybrid ? m->context_len : 0,
                   &m->prefill_ar_len);
}

/* A known SoC's facts are the table's: a manifest with others is of two minds about its target. */
static sw_code read_soc(reader *r, const sw_json *document) {
    enum { MOST_VTCM_MB = 64 };
    sw_manifest *m = r->m;
    SW_TRY(get_text(r, document, "soc_name", 64, &m->soc_name));
    SW_TRY(get_u32(r, document, "soc_id", 0, 65535, &m->soc_id));
    SW_TRY(get_u32(r, document, "htp_arch", 0, 999, &m->htp_arch));
    const sw_soc *soc = sw_soc_find(m->soc_name), *other = sw_soc_find_id(m->soc_id);
    sw_json at = sw_json_find(document, "soc_name");
    if (soc == NULL && other != NULL)
        return sw_json_fail(&at, r->err, "is `%s`, but SoC %u is %s", m->soc_name, m->soc_id, other->name);
    at = sw_json_find(document, "soc_id");
    if (soc != NULL && m->soc_id != soc->model_id)
        return sw_json_fail(&at, r->err, "is %u, %s is %u", m->soc_id, soc->name, soc->model_id);
    at = sw_json_find(document, "htp_arch");
    if (soc != NULL && m->htp_arch != soc->htp_arch)
        return sw_json_fail(&at, r->err, "is %u, %s has a V%u", m->htp_arch, soc->name, soc->htp_arch);
    return get_u32(r, document, "vtcm_mb", 0, soc != NULL ? soc->vtcm_mb : MOST_VTCM_MB, &m->vtcm_mb);
}

static sw_code read_target(reader *r, const sw_json *document) {
    sw_manifest *m = r->m;
    sw_json at;
    SW_TRY(read_soc(r, document));
    SW_TRY(get_u32(r, document, "opt_level", 0, 3, &m->opt_level));
    SW_TRY(sw_json_get(document, "qnn_build_id", &at, r->err));
    if (!json_is_null(at.value)) SW_TRY(get_text(r, document, "qnn_build_id", 128, &m->qnn_build_id));
    return get_bool(r, document, "weight_sharing", &m->weight_sharing);
}

/* An object that is carried along as text. */
static sw_code get_free_form(reader *r, const sw_json *document, const char *key, const char **out) {
    sw_json at;
    SW_TRY(sw_json_get(document, key, &at, r->err));
    SW_TRY(sw_json_object(&at, r->err));
    char *text = json_dumps(at.value, JSON_REAL_PRECISION(9));
    *out = text != NULL ? sw_arena_strdup(r->arena, text) : NULL;
    free(text);
    return *out != NULL ? SW_OK : no_memory(r, &at);
}

static sw_code read_document(reader *r, sw_json *document) {
    static const char *const keys[] = {"format",      "version",         "tool_version",
                                       "model",       "recipe",          "kv_type",
                                       "soc_name",    "soc_id",          "htp_arch",
                                       "vtcm_mb",     "opt_level",       "model_mode",
                                       "parts",       "qnn_build_id",    "weight_sharing",
                                       "shards",      "graphs",          "spill_fill_buffer_bytes",
                                       "context_len", "compile_seconds", "peak_memory_bytes",
                                       "calibration", "prefill_ar_len",  "tuning",
                                       NULL};
    sw_json at;
    const char *format;
    int64_t version;
    SW_TRY(get_text(r, document, "format", 64, &format));
    at = sw_json_find(document, "format");
    if (strcmp(format, SW_MANIFEST_FORMAT) != 0)
        return sw_json_fail(&at, r->err, "is `%s`, wanted `" SW_MANIFEST_FORMAT "`", format);
    SW_TRY(sw_json_get(document, "version", &at, r->err));
    SW_TRY(sw_json_i64(&at, INT64_MIN, INT64_MAX, &version, r->err));
    if (version != SW_MANIFEST_VERSION)
        return SW_FAIL(r->err, SW_UNSUPPORTED,
                       "%s: $.version: is %lld, this build reads %d: compile the model again", document->file,
                       (long long)version, SW_MANIFEST_VERSION);
    document->other_keys = SW_JSON_OTHER_VERSION;
    SW_TRY(sw_json_only_keys(document, keys, r->err));
    SW_TRY(read_model(r, document));
    SW_TRY(read_target(r, document));
    SW_TRY(read_graphs(r, document));
    SW_TRY(get_seconds(r, document, "compile_seconds", &r->m->compile_seconds));
    SW_TRY(get_u64(r, document, "peak_memory_bytes", &r->m->peak_memory_bytes));
    SW_TRY(get_free_form(r, document, "calibration", &r->m->calibration));
    if (sw_json_find(document, "tuning").value != NULL)
        SW_TRY(get_free_form(r, document, "tuning", &r->m->tuning));
    return read_parts(r, document);
}

sw_code sw_manifest_read(sw_manifest *m, sw_arena *arena, const char *file, const char *text, size_t size,
                         sw_error *err) {
    sw_json document;
    *m = (sw_manifest){0};
    SW_TRY(sw_json_parse(&document, file, text, size, err));
    reader r = {.m = m, .arena = arena, .err = err};
    sw_code code = read_document(&r, &document);
    sw_json_free(&document);
    return code;
}
