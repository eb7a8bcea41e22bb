/* traffic_cache.c: keys of points, and their results as files: one a point, replaced as a whole, so that
 * processes that share a cache don't meet. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/quantized_model.h"
#include "cli/traffic.h"
#include "graph/json.h"
#include "quant/ranges_json.h"

#define FORMAT "spillway-traffic"
enum { VERSION = 1, MOST_BYTES = 1 << 20 };

static sw_code no_memory(sw_error *err) {
    return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
}

sw_code sw_traffic_find_cache(sw_traffic *t, sw_error *err) {
    const char *cache = t->options->grid.cache, *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache != NULL)
        t->cache = cache;
    else if (xdg != NULL && xdg[0] == '/') /* the XDG rule: others are ignored */
        t->cache = sw_path_join(&t->arena, xdg, "spillway");
    else if (home != NULL && home[0] != '\0')
        t->cache = sw_path_join(&t->arena, home, ".cache/spillway");
    else
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "neither $XDG_CACHE_HOME nor $HOME is set: wanted --cache FOLDER");
    if (t->cache == NULL) return no_memory(err);
    static const char *const below[] = {"results", "prepared"};
    for (unsigned i = 0; i < 2; i++) {
        const char *path = sw_path_join(&t->arena, t->cache, below[i]);
        if (path == NULL) return no_memory(err);
        SW_TRY(sw_folder_make(path, err));
    }
    return SW_OK;
}

static void hash_text(sw_sha256 *s, const char *text) {
    sw_sha256_update(s, text, strlen(text) + 1);
}

static sw_code hash_file(sw_sha256 *s, const char *path, sw_error *err) {
    enum { STEP = 4 << 20 };
    sw_file_map map;
    SW_TRY(sw_file_map_open(&map, path, err));
    for (uint64_t at = 0; at < map.size; at += STEP) {
        uint64_t n = map.size - at < STEP ? map.size - at : STEP;
        sw_sha256_update(s, map.data + at, (size_t)n);
        sw_file_map_drop_pages(&map, at, n);
    }
    sw_file_map_close(&map);
    return SW_OK;
}

sw_code sw_traffic_digest(sw_traffic *t, sw_error *err) {
    const sw_options *o = t->options;
    sw_sha256 model;
    char text[128];
    sw_sha256_init(&model);
    hash_text(&model, "prepared " SW_VERSION);
    SW_TRY(hash_file(&model, t->checkpoint, err));
    snprintf(text, sizeof text, "kv %u, samples %u, rounding %s, rotate %s", o->kv_bits, o->calib_samples,
             o->rounding != NULL ? o->rounding : "as the recipe says",
             o->rotate != NULL ? o->rotate : "as the recipe wants");
    hash_text(&model, text);
    if (o->calib_text != NULL) SW_TRY(hash_file(&model, o->calib_text, err));
    for (uint32_t r = 0; r < t->n_recipes; r++) {
        sw_sha256 s = model;
        sw_recipe named;
        if (sw_recipe_find(&named, t->recipes[r].name, o->kv_bits, NULL) == SW_OK)
            hash_text(&s, t->recipes[r].name);
        else
            SW_TRY(hash_file(&s, t->recipes[r].name, err));
        sw_sha256_final(&s, t->recipes[r].digest);
    }
    return SW_OK;
}

bool sw_traffic_shares_weights(const sw_traffic *t, const sw_traffic_point *p) {
    return strcmp(t->options->model_mode, "kv") != 0 && p->soc->htp_arch >= SW_WEIGHT_SHARING_LEAST_ARCH;
}

sw_code sw_traffic_build(const sw_traffic *t, const sw_traffic_point *p, sw_decoder *out, sw_error *err) {
    const sw_graph_options options = {p->graph, p->ar_len, p->attention,
                                      sw_head_form_auto(t->model.hparams.vocab, p->top_k, p->vtcm_mb)};
    sw_model model = t->model; /* its views are borrowed */
    model.hparams.n_layers = p->layers;
    if (sw_cli_wants_rotation(&t->recipes[p->recipe].recipe, t->options))
        model.hparams.tied_embeddings = false;
    return sw_decoder_build(out, &model, p->context_len, &options, 1, err);
}

/* The graph as text, with its types. */
static sw_code hash_graph(sw_sha256 *s, const sw_traffic *t, const sw_traffic_point *p, sw_error *err) {
    sw_decoder decoder;
    sw_ranges *ranges = NULL;
    char *text = NULL;
    size_t size = 0;
    SW_TRY(sw_traffic_build(t, p, &decoder, err));
    sw_code code = sw_ranges_any(&ranges, &decoder, err);
    if (code == SW_OK) code = sw_quantize_types(&decoder, &t->recipes[p->recipe].recipe, ranges, err);
    FILE *stream = code == SW_OK ? open_memstream(&text, &size) : NULL;
    if (stream != NULL) {
        code = sw_decoder_write_json(&decoder, stream, err);
        if (fclose(stream) != 0 && code == SW_OK) code = no_memory(err);
    } else if (code == SW_OK) {
        code = no_memory(err);
    }
    if (code == SW_OK) sw_sha256_update(s, text, size);
    free(text);
    sw_ranges_free(ranges);
    sw_decoder_free(&decoder);
    return code;
}

sw_code sw_traffic_find_key(sw_traffic *t, sw_traffic_point *p, sw_error *err) {
    sw_sha256 s;
    char text[128];
    sw_sha256_init(&s);
    hash_text(&s, FORMAT);
    SW_TRY(hash_graph(&s, t, p, err));
    hash_text(&s, t->recipes[p->recipe].digest);
    snprintf(text, sizeof text, "SoC %u, VTCM %u, O%u, SLC %d, sharing %d", p->soc->model_id, p->vtcm_mb,
             p->opt_level, p->slc, sw_traffic_shares_weights(t, p));
    hash_text(&s, text);
    hash_text(&s, t->library->build_id);
    sw_sha256_final(&s, p->key);
    return SW_OK;
}

static char *result_path(sw_traffic *t, const char *cache, const char *key) {
    return sw_arena_printf(&t->arena, "%s/results/%s.json", cache, key);
}

/* Numbers of a result: name in the file, field. */
#define FIGURES(X)                                                                                           \
    X("spill", spill)                                                                                        \
    X("fill", fill)                                                                                          \
    X("write", write)                                                                                        \
    X("read", read)                                                                                          \
    X("spill_fill_bytes", spill_fill_bytes)                                                                  \
    X("vtcm_bytes", vtcm_bytes)                                                                              \
    X("binary_bytes", binary_bytes)

static sw_code read_figures(const sw_json *at, sw_traffic_figures *f, sw_error *err) {
    sw_json value;
#define READ_FIGURE(name, field)                                                                             \
    SW_TRY(sw_json_get(at, name, &value, err));                                                              \
    SW_TRY(sw_json_u64(&value, 0, INT64_MAX, &f->field, err));
    FIGURES(READ_FIGURE)
#undef READ_FIGURE
    SW_TRY(sw_json_get(at, "ops", &value, err));
    SW_TRY(sw_json_u32(&value, 1, UINT32_MAX, &f->n_ops, err));
    SW_TRY(sw_json_get(at, "slc_idle", &value, err));
    SW_TRY(sw_json_bool(&value, &f->slc_idle, err));
    SW_TRY(sw_json_get(at, "finalize_seconds", &value, err));
    return sw_json_f64(&value, &f->finalize_seconds, err);
}

/* A result's text; key: the one that it must have. */
static sw_code read_result(const char *file, const char *text, size_t size, const char *key,
                           sw_traffic_figures *out, sw_error *err) {
    sw_json document = {0}, at;
    const char *word;
    uint32_t version;
    sw_code code = sw_json_parse(&document, file, text, size, err);
    if (code == SW_OK) code = sw_json_get(&document, "format", &at, err);
    if (code == SW_OK) code = sw_json_text(&at, false, 64, &word, err);
    if (code == SW_OK && strcmp(word, FORMAT) != 0)
        code = sw_json_fail(&at, err, "is `%s`, wanted `" FORMAT "`", word);
    if (code == SW_OK) code = sw_json_get(&document, "version", &at, err);
    if (code == SW_OK) code = sw_json_u32(&at, VERSION, VERSION, &version, err);
    if (code == SW_OK) code = sw_json_get(&document, "key", &at, err);
    if (code == SW_OK) code = sw_json_text(&at, false, 64, &word, err);
    if (code == SW_OK && strcmp(word, key) != 0)
        code = sw_json_fail(&at, err, "isn't what the file's name says");
    if (code == SW_OK) code = sw_json_get(&document, "figures", &at, err);
    if (code == SW_OK) code = read_figures(&at, out, err);
    sw_json_free(&document);
    return code;
}

/* A result that is there and whole. What is damaged is as good as not there: it can be measured again. */
static sw_code find_result(sw_traffic *t, const char *path, const char *key, bool *known,
                           sw_traffic_figures *out, char **text, size_t *size, sw_error *err) {
    sw_error reason = {SW_OK, ""};
    *known = false;
    if (access(path, F_OK) != 0 && errno == ENOENT) return SW_OK;
    sw_code code = sw_file_read(path, MOST_BYTES, &t->arena, text, size, &reason);
    if (code == SW_OK) code = read_result(path, *text, *size, key, out, &reason);
    *known = code == SW_OK;
    if (code == SW_OK) return SW_OK;
    if (code != SW_BAD_DATA) return SW_FAIL(err, code, "%s", reason.message);
    sw_log(SW_LOG_WARN, "%s: this result counts as not measured", reason.message);
    return SW_OK;
}

sw_code sw_traffic_look_up(sw_traffic *t, sw_traffic_point *p, sw_error *err) {
    char *text;
    size_t size;
    const char *path = result_path(t, t->cache, p->key);
    if (path == NULL) return no_memory(err);
    return find_result(t, path, p->key, &p->known, &p->figures, &text, &size, err);
}

sw_code sw_traffic_keep(sw_traffic *t, const sw_traffic_point *p, sw_error *err) {
    char point[SW_TRAFFIC_POINT_BYTES];
    const sw_traffic_figures *f = &p->figures;
    const char *path = result_path(t, t->cache, p->key);
    json_t *figures = json_pack("{s:i, s:b, s:f}", "ops", (int)f->n_ops, "slc_idle", f->slc_idle,
                                "finalize_seconds", f->finalize_seconds);
#define WRITE_FIGURE(name, field) json_object_set_new(figures, name, json_integer((json_int_t)f->field));
    FIGURES(WRITE_FIGURE)
#undef WRITE_FIGURE
    json_t *document = json_pack("{s:s, s:i, s:s, s:s, s:s, s:o}", "format", FORMAT, "version", (int)VERSION,
                                 "key", p->key, "point", sw_traffic_point_text(t, p, point), "library",
                                 t->library->build_id, "figures", figures);
    char *text = document != NULL ? json_dumps(document, JSON_INDENT(1)) : NULL;
    json_decref(document);
    sw_code code =
        text != NULL && path != NULL ? sw_file_replace(path, text, strlen(text), err) : no_memory(err);
    free(text);
    return code;
}

/* "<64 hex>.json" -> its key. */
static bool is_result_name(const char *name, char key[SW_SHA256_HEX_BYTES]) {
    if (strspn(name, "0123456789abcdef") != SW_SHA256_HEX_BYTES - 1) return false;
    memcpy(key, name, SW_SHA256_HEX_BYTES - 1);
    key[SW_SHA256_HEX_BYTES - 1] = '\0';
    return strcmp(name + SW_SHA256_HEX_BYTES - 1, ".json") == 0;
}

static sw_code merge_one(sw_traffic *t, const char *from, const char *key, uint32_t *n, sw_error *err) {
    char *text, *ours;
    size_t size, our_size;
    bool known, known_here;
    sw_traffic_figures figures = {0};
    const char *path = result_path(t, from, key), *to = result_path(t, t->cache, key);
    if (path == NULL || to == NULL) return no_memory(err);
    SW_TRY(find_result(t, path, key, &known, &figures, &text, &size, err));
    if (!known) return SW_OK;
    SW_TRY(find_result(t, to, key, &known_here, &figures, &ours, &our_size, err));
    if (known_here) return SW_OK;
    (*n)++;
    return sw_file_replace(to, text, size, err);
}

sw_code sw_traffic_merge(sw_traffic *t, const char *from, uint32_t *n, sw_error *err) {
    const char *folder = sw_path_join(&t->arena, from, "results");
    *n = 0;
    if (folder == NULL) return no_memory(err);
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return SW_FAIL(err, errno == ENOENT ? SW_NOT_FOUND : SW_IO,
                       "--merge: %s: %s: wanted the --cache folder of another run", folder, strerror(errno));
    sw_code code = SW_OK;
    char key[SW_SHA256_HEX_BYTES];
    for (struct dirent *e; code == SW_OK && (e = readdir(dir)) != NULL;)
        if (is_result_name(e->d_name, key)) code = merge_one(t, from, key, n, err);
    closedir(dir);
    return code;
}
