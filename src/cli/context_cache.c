/* context_cache.c: a key from everything that decides, and an entry that is only believed when its hash is
 * right: processes may share the folder, and Qualcomm's loader crashes on a damaged binary. */
#include "cli/context_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_copy.h"
#include "base/json.h"
#include "base/log.h"
#include "graph/json.h"

#define FORMAT "spillway-context"
enum { VERSION = 1, MOST_BYTES = 1 << 20 };

static sw_code no_memory(sw_error *err) {
    return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
}

static void hash_text(sw_sha256 *s, const char *text) {
    sw_sha256_update(s, text, strlen(text) + 1);
}

/* All of the decoder: other shards decide too, as they share encodings at the border. */
static sw_code hash_decoder(sw_sha256 *s, const sw_decoder *decoder, sw_error *err) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) return no_memory(err);
    sw_code code = sw_decoder_write_json(decoder, stream, err);
    if (fclose(stream) != 0 && code == SW_OK) code = no_memory(err);
    if (code == SW_OK) sw_sha256_update(s, text, size);
    free(text);
    return code;
}

sw_code sw_context_entry_find(sw_context_entry *out, const char *folder, const sw_decoder *decoder,
                              const sw_manifest *m, uint32_t shard, bool slc_auto, const char *weights_sha256,
                              const char *build_id, sw_error *err) {
    sw_sha256 s;
    char text[160];
    out->folder = folder;
    sw_sha256_init(&s);
    hash_text(&s, FORMAT " " SW_VERSION);
    hash_text(&s, weights_sha256);
    hash_text(&s, build_id);
    snprintf(text, sizeof text, "SoC %u V%u, VTCM %u, O%u, sharing %d, SLC auto %d, shard %u of %u",
             m->soc_id, m->htp_arch, m->vtcm_mb, m->opt_level, m->weight_sharing, slc_auto, shard,
             m->n_shards);
    hash_text(&s, text);
    for (uint32_t i = 0; i < m->n_graphs; i++) hash_text(&s, m->graphs[i].slc_allocator ? "SLC" : "-");
    SW_TRY(hash_decoder(&s, decoder, err));
    sw_sha256_final(&s, out->key);
    return SW_OK;
}

static char *entry_path(const sw_context_entry *e, sw_arena *arena, const char *ending) {
    return sw_arena_printf(arena, "%s/%s.%s", e->folder, e->key, ending);
}

/* Numbers of a graph: name in the file, field. */
#define FIGURES(X)                                                                                           \
    X("spill_fill_bytes", spill_fill_bytes)                                                                  \
    X("vtcm_bytes", vtcm_bytes)                                                                              \
    X("spill", ddr.spill)                                                                                    \
    X("fill", ddr.fill)                                                                                      \
    X("write", ddr.write)                                                                                    \
    X("read", ddr.read)

static json_t *graph_to_json(const sw_manifest_graph *g) {
    json_t *figures =
        json_pack("{s:s, s:b, s:b, s:i, s:s, s:f}", "name", g->name, "slc_allocator", g->slc_allocator,
                  "ddr_known", g->ddr.known, "slc_verdict", (int)g->slc_verdict, "slc_reason", g->slc_reason,
                  "finalize_seconds", g->finalize_seconds);
#define WRITE_FIGURE(name, field) json_object_set_new(figures, name, json_integer((json_int_t)g->field));
    FIGURES(WRITE_FIGURE)
#undef WRITE_FIGURE
    return figures;
}

static sw_code read_graph(const sw_json *at, sw_manifest_graph *g, sw_arena *arena, sw_error *err) {
    sw_json value;
    const char *text;
    uint32_t verdict;
    SW_TRY(sw_json_get(at, "name", &value, err));
    SW_TRY(sw_json_text(&value, false, 256, &text, err));
    if (strcmp(text, g->name) != 0) return sw_json_fail(&value, err, "is `%s`, wanted `%s`", text, g->name);
#define READ_FIGURE(name, field)                                                                             \
    SW_TRY(sw_json_get(at, name, &value, err));                                                              \
    SW_TRY(sw_json_u64(&value, 0, INT64_MAX, &g->field, err));
    FIGURES(READ_FIGURE)
#undef READ_FIGURE
    SW_TRY(sw_json_get(at, "slc_allocator", &value, err));
    SW_TRY(sw_json_bool(&value, &g->slc_allocator, err));
    SW_TRY(sw_json_get(at, "ddr_known", &value, err));
    SW_TRY(sw_json_bool(&value, &g->ddr.known, err));
    SW_TRY(sw_json_get(at, "finalize_seconds", &value, err));
    SW_TRY(sw_json_f64(&value, &g->finalize_seconds, err));
    SW_TRY(sw_json_get(at, "slc_verdict", &value, err));
    SW_TRY(sw_json_u32(&value, 0, SW_SLC_VERDICT_COUNT - 1, &verdict, err));
    SW_TRY(sw_json_get(at, "slc_reason", &value, err));
    SW_TRY(sw_json_text(&value, true, SW_SLC_REASON_BYTES, &text, err));
    g->slc_verdict = (sw_slc_verdict)verdict;
    g->slc_reason = sw_arena_strdup(arena, text);
    return g->slc_reason != NULL ? SW_OK : no_memory(err);
}

static sw_code read_document(const sw_json *document, sw_manifest_graph *graphs, uint32_t n,
                             char sha256[SW_SHA256_HEX_BYTES], sw_arena *arena, sw_error *err) {
    sw_json at;
    const char *text;
    uint32_t version;
    size_t count;
    SW_TRY(sw_json_get(document, "version", &at, err));
    SW_TRY(sw_json_u32(&at, VERSION, VERSION, &version, err));
    SW_TRY(sw_json_get(document, "sha256", &at, err));
    SW_TRY(sw_json_text(&at, false, SW_SHA256_HEX_BYTES - 1, &text, err));
    snprintf(sha256, SW_SHA256_HEX_BYTES, "%s", text);
    SW_TRY(sw_json_get(document, "graphs", &at, err));
    SW_TRY(sw_json_array(&at, n, n, &count, err));
    for (uint32_t i = 0; i < n; i++) {
        sw_json element = sw_json_element(&at, i);
        SW_TRY(read_graph(&element, &graphs[i], arena, err));
    }
    return SW_OK;
}

static sw_code take(const char *binary, const char *file, const char *text, size_t size, const char *path,
                    sw_manifest_graph *graphs, uint32_t n, sw_arena *arena, sw_error *err) {
    sw_json document = {0};
    char wanted[SW_SHA256_HEX_BYTES] = "", found[SW_SHA256_HEX_BYTES];
    sw_code code = sw_json_parse(&document, file, text, size, err);
    if (code == SW_OK) code = read_document(&document, graphs, n, wanted, arena, err);
    sw_json_free(&document);
    SW_TRY(code);
    SW_TRY(sw_file_copy(binary, path, found, err));
    if (strcmp(found, wanted) == 0) return SW_OK;
    return SW_FAIL(err, SW_BAD_DATA, "%s: its SHA-256 is %s, wanted %s", binary, found, wanted);
}

sw_code sw_context_entry_take(const sw_context_entry *e, const char *path, sw_manifest_graph *graphs,
                              uint32_t n, sw_arena *arena, bool *found, sw_error *err) {
    const char *file = entry_path(e, arena, "json"), *binary = entry_path(e, arena, "bin");
    sw_manifest_graph *read = sw_arena_array(arena, n, sizeof *read);
    char *text;
    size_t size;
    sw_error its = {SW_OK, ""};
    *found = false;
    if (file == NULL || binary == NULL || read == NULL) return no_memory(err);
    if (access(file, F_OK) != 0) return SW_OK;
    memcpy(read, graphs, n * sizeof *read);
    sw_code code = sw_file_read(file, MOST_BYTES, arena, &text, &size, &its);
    if (code == SW_OK) code = take(binary, file, text, size, path, read, n, arena, &its);
    *found = code == SW_OK;
    if (code == SW_OK)
        memcpy(graphs, read, n * sizeof *read);
    else
        sw_log(SW_LOG_WARN, "%s: not taken from the cache, compiled again", its.message);
    return SW_OK;
}

sw_code sw_context_entry_keep(const sw_context_entry *e, const char *path, const char *sha256,
                              const sw_manifest_graph *graphs, uint32_t n, sw_error *err) {
    sw_arena arena = SW_ARENA_EMPTY;
    const char *file = entry_path(e, &arena, "json"), *binary = entry_path(e, &arena, "bin");
    sw_code code = file != NULL && binary != NULL ? sw_file_share(path, binary, err) : no_memory(err);
    if (code == SW_OK) {
        json_t *list = json_array();
        for (uint32_t i = 0; i < n; i++) json_array_append_new(list, graph_to_json(&graphs[i]));
        json_t *document = json_pack("{s:s, s:i, s:s, s:o}", "format", FORMAT, "version", (int)VERSION,
                                     "sha256", sha256, "graphs", list);
        char *text = document != NULL ? json_dumps(document, JSON_INDENT(1)) : NULL;
        /* Not waited for on the disk: after a crash half of it is no JSON. */
        code = text != NULL ? sw_file_put(file, text, strlen(text), err) : no_memory(err);
        free(text);
        json_decref(document);
    }
    sw_arena_free(&arena);
    return code;
}
