/* read.c: opens a bundle: manifest, then graph, then weights, each checked against the one before. The parts'
 * sizes are compared, their content is hashed only on demand. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "bundle/internal.h"
#include "graph/verify.h"

void sw_hash_map(const sw_file_map *map, char hex[SW_SHA256_HEX_BYTES]) {
    enum { STEP = 4 << 20 };
    sw_sha256 s;
    sw_sha256_init(&s);
    for (uint64_t at = 0; at < map->size; at += STEP) {
        uint64_t n = map->size - at < STEP ? map->size - at : STEP;
        sw_sha256_update(&s, map->data + at, (size_t)n);
        sw_file_map_drop_pages(map, at, n);
    }
    sw_sha256_final(&s, hex);
}

const sw_part *sw_bundle_part(const sw_bundle *bundle, sw_part_kind kind, uint32_t index) {
    for (uint32_t i = 0; i < bundle->manifest.n_parts; i++)
        if (bundle->manifest.parts[i].kind == kind && index-- == 0) return &bundle->manifest.parts[i];
    return NULL;
}

const char *sw_bundle_part_path(sw_bundle *bundle, const sw_part *part) {
    return sw_path_join(&bundle->arena, bundle->folder, part->path);
}

static sw_code no_memory(const char *path, sw_error *err) {
    return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", path);
}

/* A regular file of the size that the manifest says; a link could lead out of the bundle. */
static sw_code check_part_file(sw_bundle *b, const sw_part *part, sw_error *err) {
    struct stat st;
    const char *path = sw_bundle_part_path(b, part);
    if (path == NULL) return no_memory(b->folder, err);
    if (lstat(path, &st) != 0)
        return SW_FAIL(err, errno == ENOENT ? SW_NOT_FOUND : SW_IO, "%s: can't read the bundle's %s part: %s",
                       path, sw_part_kind_name(part->kind), strerror(errno));
    if (!S_ISREG(st.st_mode))
        return SW_FAIL(err, SW_BAD_DATA, "%s: is %s, wanted a regular file", path,
                       S_ISLNK(st.st_mode)   ? "a symbolic link"
                       : S_ISDIR(st.st_mode) ? "a folder"
                                             : "neither file nor folder");
    if ((uint64_t)st.st_size != part->bytes)
        return SW_FAIL(err, SW_BAD_DATA, "%s: has %llu bytes, the manifest says %llu", path,
                       (unsigned long long)st.st_size, (unsigned long long)part->bytes);
    return SW_OK;
}

static sw_code check_kv_type(const sw_manifest *m, const sw_graph *graph, const char *file, sw_error *err) {
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const sw_tensor *t = graph->tensors[graph->outputs[i]];
        if (t->role != SW_ROLE_KV || t->dtype == m->kv_type) continue;
        return SW_FAIL(err, SW_BAD_DATA, "%s: kv_type is %s, but `%s` of %s is %s", file,
                       sw_dtype_name(m->kv_type), t->name, graph->name, sw_dtype_name(t->dtype));
    }
    return SW_OK;
}

static sw_code same_hparams(const sw_manifest *m, const sw_decoder *decoder, const char *file,
                            sw_error *err) {
    json_t *a = sw_hparams_to_json(&m->hparams), *b = sw_hparams_to_json(&decoder->hparams);
    sw_code code = SW_OK;
    if (a == NULL || b == NULL)
        code = no_memory(file, err);
    else if (!json_equal(a, b))
        code = SW_FAIL(err, SW_BAD_DATA, "%s: `model` differs from the graph's `hparams`", file);
    json_decref(a);
    json_decref(b);
    return code;
}

sw_code sw_manifest_check_decoder(const sw_manifest *m, const sw_decoder *decoder, const char *file,
                                  sw_error *err) {
    SW_TRY(same_hparams(m, decoder, file, err));
    if (m->context_len != decoder->context_len)
        return SW_FAIL(err, SW_BAD_DATA, "%s: context_len is %u, the graph's %u", file, m->context_len,
                       decoder->context_len);
    if (m->n_graphs != decoder->n_graphs || m->n_shards != decoder->n_shards)
        return SW_FAIL(err, SW_BAD_DATA, "%s: lists %u graphs in %u shards, the graph part has %u in %u",
                       file, m->n_graphs, m->n_shards, decoder->n_graphs, decoder->n_shards);
    for (uint32_t i = 0; i < m->n_graphs; i++) {
        const sw_manifest_graph *g = &m->graphs[i];
        const sw_graph *graph = decoder->graphs[i];
        if (strcmp(g->name, graph->name) != 0 || g->ar_len != graph->ar_len)
            return SW_FAIL(err, SW_BAD_DATA, "%s: graph %u is %s with AR %u, in the graph part %s with AR %u",
                           file, i, g->name, g->ar_len, graph->name, graph->ar_len);
        for (unsigned op = 0; op < SW_OP_COUNT; op++) {
            uint32_t count = sw_graph_count_ops(graph, (sw_op_type)op);
            if (g->op_counts[op] != count)
                return SW_FAIL(err, SW_BAD_DATA, "%s: %s has %u %s, in the graph part %u", file, g->name,
                               g->op_counts[op], sw_op_get_info((sw_op_type)op)->name, count);
        }
        if (g->head_pieces != sw_graph_head_pieces(graph))
            return SW_FAIL(err, SW_BAD_DATA, "%s: head_pieces of %s is %u, in the graph part %u", file,
                           g->name, g->head_pieces, sw_graph_head_pieces(graph));
        SW_TRY(check_kv_type(m, graph, file, err));
    }
    return sw_decoder_verify(decoder, err);
}

static sw_code read_sink(sw_bundle *b, sw_error *err) {
    const sw_part *part = sw_bundle_part(b, SW_PART_SINK, 0);
    if (part == NULL) return SW_OK;
    const char *path = sw_bundle_part_path(b, part);
    if (path == NULL) return no_memory(b->folder, err);
    SW_TRY(sw_safetensors_open(&b->sink, path, err));
    return sw_bundle_sink_attach(&b->decoder, &b->sink, err);
}

sw_code sw_bundle_read_graph(sw_bundle *b, sw_error *err) {
    sw_arena text_arena = SW_ARENA_EMPTY; /* the text is large and only needed here */
    char *text;
    size_t size;
    bool *per_channel = NULL;
    const char *path = sw_bundle_part_path(b, sw_bundle_part(b, SW_PART_GRAPH, 0));
    const char *weights = sw_bundle_part_path(b, sw_bundle_part(b, SW_PART_WEIGHTS, 0));
    const char *manifest = sw_path_join(&b->arena, b->folder, SW_MANIFEST_NAME);
    if (path == NULL || weights == NULL || manifest == NULL) return no_memory(b->folder, err);
    sw_code code = sw_file_read(path, SW_GRAPH_JSON_MAX_BYTES, &text_arena, &text, &size, err);
    if (code == SW_OK) code = sw_decoder_read_json(&b->decoder, path, text, size, &per_channel, err);
    sw_arena_free(&text_arena);
    SW_TRY(code);
    SW_TRY(sw_safetensors_open(&b->weights, weights, err));
    SW_TRY(sw_weights_attach(&b->decoder, per_channel, &b->weights, err));
    SW_TRY(read_sink(b, err));
    return sw_manifest_check_decoder(&b->manifest, &b->decoder, manifest, err);
}

static sw_code open_manifest(sw_bundle *b, const char *folder, sw_error *err) {
    char *text;
    size_t size;
    struct stat st;
    b->folder = sw_arena_strdup(&b->arena, folder);
    const char *path = sw_path_join(&b->arena, folder, SW_MANIFEST_NAME);
    if (b->folder == NULL || path == NULL) return no_memory(folder, err);
    if (stat(path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return sw_bundle_name_other(folder, err);
    SW_TRY(sw_file_read(path, SW_MANIFEST_MAX_BYTES, &b->arena, &text, &size, err));
    SW_TRY(sw_manifest_read(&b->manifest, &b->arena, path, text, size, err));
    for (uint32_t i = 0; i < b->manifest.n_parts; i++) SW_TRY(check_part_file(b, &b->manifest.parts[i], err));
    return SW_OK;
}

sw_code sw_bundle_open_manifest(sw_bundle *out, const char *folder, sw_error *err) {
    *out = (sw_bundle){0};
    sw_code code = open_manifest(out, folder, err);
    if (code != SW_OK) sw_bundle_close(out);
    return code;
}

sw_code sw_bundle_open(sw_bundle *out, const char *folder, sw_error *err) {
    SW_TRY(sw_bundle_open_manifest(out, folder, err));
    sw_code code = sw_bundle_read_graph(out, err);
    if (code != SW_OK) sw_bundle_close(out);
    return code;
}

void sw_bundle_close(sw_bundle *bundle) {
    sw_decoder_free(&bundle->decoder);
    sw_safetensors_close(&bundle->weights);
    sw_safetensors_close(&bundle->sink);
    for (uint32_t i = 0; i < SW_MAX_SHARDS; i++) sw_file_map_close(&bundle->contexts[i]);
    sw_arena_free(&bundle->arena);
    *bundle = (sw_bundle){0};
}

/* The map's content against what the manifest says of the part. */
static sw_code check_content(const sw_part *part, const char *path, const sw_file_map *map, sw_error *err) {
    char hex[SW_SHA256_HEX_BYTES];
    sw_hash_map(map, hex);
    if (map->size != part->bytes)
        return SW_FAIL(err, SW_BAD_DATA, "%s: has %llu bytes, the manifest says %llu", path,
                       (unsigned long long)map->size, (unsigned long long)part->bytes);
    if (strcmp(hex, part->sha256) != 0)
        return SW_FAIL(err, SW_BAD_DATA, "%s: its SHA-256 is %s, the manifest says %s: the part is damaged",
                       path, hex, part->sha256);
    return SW_OK;
}

sw_code sw_bundle_check_part(const sw_bundle *bundle, const sw_part *part, sw_error *err) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_file_map map;
    const char *path = sw_path_join(&arena, bundle->folder, part->path);
    sw_code code = path != NULL ? sw_file_map_open(&map, path, err) : no_memory(bundle->folder, err);
    if (code == SW_OK) {
        code = check_content(part, path, &map, err);
        sw_file_map_close(&map);
    }
    sw_arena_free(&arena);
    return code;
}

sw_code sw_bundle_map_context(sw_bundle *bundle, uint32_t shard, const sw_file_map **out, sw_error *err) {
    const sw_part *part = sw_bundle_part(bundle, SW_PART_CONTEXT, shard);
    if (part == NULL || shard >= SW_MAX_SHARDS)
        return SW_FAIL(err, SW_NOT_FOUND,
                       "%s: holds no context binary of shard %u: compile it again with Qualcomm's library",
                       bundle->folder, shard);
    const char *path = sw_bundle_part_path(bundle, part);
    sw_file_map *map = &bundle->contexts[shard];
    if (path == NULL) return no_memory(bundle->folder, err);
    if (map->path == NULL) SW_TRY(sw_file_map_open(map, path, err));
    *out = map;
    return check_content(part, path, map, err);
}

sw_code sw_bundle_verify(const sw_bundle *bundle, sw_error *err) {
    for (uint32_t i = 0; i < bundle->manifest.n_parts; i++)
        SW_TRY(sw_bundle_check_part(bundle, &bundle->manifest.parts[i], err));
    return SW_OK;
}
