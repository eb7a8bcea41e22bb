/* prepared_cache.c: a key from everything that decides, an entry in JSON beside the weights. */
#include "cli/prepared_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_copy.h"
#include "base/json.h"
#include "quant/ranges_json.h"

#define FORMAT "spillway-prepared"
enum {
    VERSION = 1,
    MOST_BYTES = 256 << 20,
    MOST_ENCODINGS = 1 << 20,
    MOST_FIGURES = 1 << 16,
    MOST_LINE = 2048
};

static sw_code no_memory(sw_error *err) {
    return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
}

/* ---- The key ---- */

static void hash_text(sw_sha256 *s, const char *text) {
    sw_sha256_update(s, text, strlen(text) + 1);
}

static void hash_number(sw_sha256 *s, double number) {
    char text[40];
    snprintf(text, sizeof text, "%.17g", number);
    hash_text(s, text);
}

static void hash_form(sw_sha256 *s, sw_weight_form form) {
    hash_number(s, form.scales), hash_number(s, form.four_bit), hash_number(s, form.block);
}

static void hash_method(sw_sha256 *s, sw_range_method method) {
    hash_number(s, method.kind), hash_number(s, method.parameter);
}

/* What it says, not how it is called. */
static void hash_recipe(sw_sha256 *s, const sw_recipe *r) {
    const sw_dtype types[] = {r->activation, r->kv, r->weight, r->gamma};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) hash_text(s, sw_dtype_name(types[i]));
    hash_number(s, r->sink), hash_number(s, (double)r->smooth);
    hash_method(s, r->method);
    hash_form(s, r->form);
    hash_number(s, r->rounding), hash_number(s, r->n_weight_rules), hash_number(s, r->n_activation_rules);
    for (uint32_t i = 0; i < r->n_weight_rules; i++) {
        const sw_weight_rule *rule = &r->weight_rules[i];
        hash_text(s, rule->match), hash_number(s, rule->type), hash_number(s, rule->rounding);
        hash_form(s, rule->form);
    }
    for (uint32_t i = 0; i < r->n_activation_rules; i++) {
        const sw_activation_rule *rule = &r->activation_rules[i];
        hash_text(s, rule->match), hash_number(s, rule->op), hash_number(s, rule->type);
        hash_method(s, rule->method);
    }
}

static void hash_calibration(sw_sha256 *s, const sw_calibration *c) {
    hash_number(s, c->built_in), hash_number(s, (double)c->n_used), hash_number(s, (double)c->n_windows);
    for (size_t i = 0; i < c->n_windows; i++) hash_number(s, c->windows[i].n_tokens);
    hash_number(s, c->held_out.n_tokens), hash_number(s, (double)c->text.count);
    sw_sha256_update(s, c->text.data, c->text.count * sizeof *c->text.data);
}

static sw_code make_key(sw_prepared *p, const sw_checkpoint *checkpoint, const sw_calibration *calibration,
                        const sw_recipe *recipe, const sw_options *options, sw_error *err) {
    sw_sha256 s;
    sw_sha256_init(&s);
    hash_text(&s, FORMAT " " SW_VERSION), hash_number(&s, VERSION);
    sw_error none;
    if (sw_file_add_to_hash("/proc/self/exe", &s, &none) != SW_OK) /* builds of one version may differ */
        sw_log(SW_LOG_VERBOSE, "cache: known by the version alone: %s", none.message);
    SW_TRY(sw_file_add_to_hash(checkpoint->path, &s, err));
    hash_recipe(&s, recipe);
    hash_calibration(&s, calibration);
    hash_number(&s, sw_cli_wants_rotation(recipe, options));
    hash_text(&s, options->rounding != NULL ? options->rounding : "");
    sw_sha256_final(&s, p->key);
    return SW_OK;
}

/* Of a value's text, the same for the same value. */
static bool hash_value(const json_t *value, char sha256[SW_SHA256_HEX_BYTES]) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    sw_sha256 s;
    if (text == NULL) return false;
    sw_sha256_init(&s);
    sw_sha256_update(&s, text, strlen(text));
    sw_sha256_final(&s, sha256);
    free(text);
    return true;
}

/* ---- Reading ---- */

static sw_code read_floats(const sw_json *at, size_t n, float *out, sw_error *err) {
    size_t count;
    SW_TRY(sw_json_array(at, n, n, &count, err));
    for (size_t i = 0; i < n; i++) {
        sw_json element = sw_json_element(at, i);
        double value;
        SW_TRY(sw_json_f64(&element, &value, err));
        out[i] = (float)value;
        if (!isfinite(out[i])) return sw_json_fail(&element, err, "is %g, which no float holds", value);
    }
    return SW_OK;
}

static sw_code read_sink(sw_prepared *p, const sw_json *document, const sw_hparams *h, sw_error *err) {
    sw_json at;
    size_t n;
    SW_TRY(sw_json_get(document, "sink_ids", &at, err));
    SW_TRY(sw_json_array(&at, 0, h->context_max, &n, err));
    if (n == 0) return SW_OK;
    int32_t *ids = sw_arena_array(p->arena, n, sizeof *ids);
    const size_t values = (size_t)sw_sink_values(h, (uint32_t)n);
    float *kv = sw_arena_array(p->arena, values, sizeof *kv);
    if (ids == NULL || kv == NULL) return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        sw_json element = sw_json_element(&at, i);
        uint32_t id;
        SW_TRY(sw_json_u32(&element, 0, h->vocab - 1, &id, err));
        ids[i] = (int32_t)id;
    }
    SW_TRY(sw_json_get(document, "sink_kv", &at, err));
    SW_TRY(read_floats(&at, values, kv, err));
    p->sink = (sw_sink){(uint32_t)n, ids, kv};
    return SW_OK;
}

static sw_code read_encodings(sw_prepared *p, const sw_json *document, sw_error *err) {
    sw_json list, at;
    const char *text;
    SW_TRY(sw_json_get(document, "encodings", &list, err));
    SW_TRY(sw_json_array(&list, 0, MOST_ENCODINGS, &p->n_encodings, err));
    p->encodings = sw_arena_array(p->arena, p->n_encodings + 1, sizeof *p->encodings);
    if (p->encodings == NULL) return no_memory(err);
    for (size_t i = 0; i < p->n_encodings; i++) {
        sw_json one = sw_json_element(&list, i);
        sw_prepared_encoding *e = &p->encodings[i];
        double scale;
        int64_t offset;
        SW_TRY(sw_json_get(&one, "name", &at, err));
        SW_TRY(sw_json_text(&at, false, SW_NAME_BYTES - 1, &text, err));
        e->constant = sw_arena_strdup(p->arena, text);
        if (e->constant == NULL) return no_memory(err);
        SW_TRY(sw_json_get(&one, "scale", &at, err));
        SW_TRY(sw_json_f64(&at, &scale, err));
        if (!(scale > 0)) return sw_json_fail(&at, err, "is %g, wanted a scale above 0", scale);
        SW_TRY(sw_json_get(&one, "offset", &at, err));
        SW_TRY(sw_json_i64(&at, INT32_MIN, INT32_MAX, &offset, err));
        e->encoding = (sw_encoding){(float)scale, (int32_t)offset};
    }
    return SW_OK;
}

static sw_code read_texts(sw_prepared *p, const sw_json *document, bool wanted, sw_error *err) {
    sw_evaluation_texts *t = &p->texts;
    sw_json at = sw_json_find(document, "figures"), lines;
    const char *text;
    size_t n;
    p->lacks_texts = at.value == NULL && wanted;
    if (at.value == NULL && !wanted) return SW_OK;
    SW_TRY(sw_json_get(document, "figures", &at, err));
    SW_TRY(sw_json_text(&at, false, MOST_FIGURES, &text, err));
    if ((t->figures = sw_arena_strdup(p->arena, text)) == NULL) return no_memory(err);
    SW_TRY(sw_json_get(document, "report", &lines, err));
    SW_TRY(sw_json_array(&lines, 0, SW_EVALUATION_MOST_LINES, &n, err));
    for (size_t i = 0; i < n; i++) {
        sw_json line = sw_json_element(&lines, i), level = sw_json_element(&line, 0);
        size_t two;
        SW_TRY(sw_json_array(&line, 2, 2, &two, err));
        SW_TRY(sw_json_text(&level, false, 16, &text, err));
        if (!sw_log_level_from_name(text, &t->levels[i]))
            return sw_json_fail(&level, err, "is `%s`, no level of a log", text);
        at = sw_json_element(&line, 1);
        SW_TRY(sw_json_text(&at, false, MOST_LINE, &text, err));
        if ((t->lines[i] = sw_arena_strdup(p->arena, text)) == NULL) return no_memory(err);
        t->n_lines = (unsigned)i + 1;
    }
    return SW_OK;
}

static sw_code read_ranges(sw_prepared *p, const sw_json *document, sw_error *err) {
    sw_json at;
    SW_TRY(sw_json_get(document, "ranges", &at, err));
    if (json_is_null(at.value)) return SW_OK;
    char *text = json_dumps(at.value, JSON_COMPACT);
    if (text == NULL) return no_memory(err);
    sw_code code = sw_ranges_read_json(&p->ranges, at.file, text, strlen(text), err);
    free(text);
    return code;
}

/* The entry, once it has its hash: a digit that another one took the place of would show in nothing else. */
static sw_code find_entry(const sw_json *document, sw_json *out, sw_error *err) {
    sw_json at;
    const char *text;
    uint32_t version;
    char found[SW_SHA256_HEX_BYTES];
    SW_TRY(sw_json_get(document, "version", &at, err));
    SW_TRY(sw_json_u32(&at, VERSION, VERSION, &version, err));
    SW_TRY(sw_json_get(document, "sha256", &at, err));
    SW_TRY(sw_json_text(&at, false, SW_SHA256_HEX_BYTES - 1, &text, err));
    SW_TRY(sw_json_get(document, "entry", out, err));
    if (!hash_value(out->value, found)) return no_memory(err);
    return strcmp(found, text) == 0 ? SW_OK : sw_json_fail(out, err, "has the SHA-256 %s", found);
}

static sw_code read_document(sw_prepared *p, const sw_json *whole, const sw_hparams *h, bool wants_ranges,
                             bool wants_texts, sw_error *err) {
    sw_json at, entry, *document = &entry;
    const char *text;
    SW_TRY(find_entry(whole, &entry, err));
    SW_TRY(sw_json_get(document, "weights", &at, err));
    SW_TRY(sw_json_text(&at, false, SW_SHA256_HEX_BYTES - 1, &text, err));
    if (strlen(text) != SW_SHA256_HEX_BYTES - 1 || strspn(text, "0123456789abcdef") != strlen(text))
        return sw_json_fail(&at, err, "is `%s`, wanted 64 digits", text);
    memcpy(p->weights_sha256, text, sizeof p->weights_sha256);
    SW_TRY(sw_json_get(document, "tokens", &at, err));
    SW_TRY(sw_json_u64(&at, 0, INT64_MAX, &p->n_calibrated, err));
    SW_TRY(sw_json_get(document, "windows", &at, err));
    SW_TRY(sw_json_u64(&at, 0, INT64_MAX, &p->n_windows, err));
    SW_TRY(read_ranges(p, document, err));
    if (wants_ranges && p->ranges == NULL) return sw_json_fail(document, err, "has no ranges");
    SW_TRY(read_sink(p, document, h, err));
    SW_TRY(read_encodings(p, document, err));
    return read_texts(p, document, wants_texts, err);
}

static sw_code read_entry(sw_prepared *p, const char *file, const sw_hparams *h, bool wants_ranges,
                          bool wants_texts, sw_error *err) {
    char *text, found[SW_SHA256_HEX_BYTES];
    size_t size;
    sw_json document = {0};
    SW_TRY(sw_file_read(file, MOST_BYTES, p->arena, &text, &size, err));
    sw_code code = sw_json_parse(&document, file, text, size, err);
    if (code == SW_OK) code = read_document(p, &document, h, wants_ranges, wants_texts, err);
    sw_json_free(&document);
    SW_TRY(code);
    p->weights = sw_arena_printf(p->arena, "%s/%s.safetensors", p->folder, p->weights_sha256);
    if (p->weights == NULL) return no_memory(err);
    SW_TRY(sw_file_hash(p->weights, found, err));
    if (strcmp(found, p->weights_sha256) == 0) return SW_OK;
    return SW_FAIL(err, SW_BAD_DATA, "%s: its SHA-256 is %s", p->weights, found);
}

sw_code sw_prepared_find(sw_prepared *p, const char *cache, const sw_checkpoint *checkpoint,
                         const sw_calibration *calibration, const sw_recipe *recipe,
                         const sw_options *options, bool wants_texts, sw_arena *arena, sw_error *err) {
    sw_error its = {SW_OK, ""};
    *p = (sw_prepared){.arena = arena, .folder = sw_path_join(arena, cache, "prepared")};
    if (p->folder == NULL) return no_memory(err);
    SW_TRY(sw_folder_make(p->folder, err));
    SW_TRY(make_key(p, checkpoint, calibration, recipe, options, err));
    const char *file = sw_arena_printf(arena, "%s/%s.json", p->folder, p->key);
    if (file == NULL) return no_memory(err);
    if (access(file, F_OK) != 0) return SW_OK;
    p->found = read_entry(p, file, &checkpoint->model.hparams, sw_dtype_quantized(recipe->activation),
                          wants_texts, &its) == SW_OK;
    if (p->found) return SW_OK;
    if (!p->lacks_texts) sw_log(SW_LOG_WARN, "%s: not taken from the cache, made again", its.message);
    sw_prepared_free(p);
    p->sink = (sw_sink){0}, p->texts = (sw_evaluation_texts){0};
    return SW_OK;
}

sw_code sw_prepared_encode(const sw_prepared *p, sw_decoder *decoder, sw_error *err) {
    for (uint32_t i = 0; i < decoder->n_constants; i++) {
        sw_tensor *t = decoder->constants[i];
        if (!sw_dtype_quantized(t->dtype) || t->dtype == SW_S8) continue;
        size_t k = 0;
        while (k < p->n_encodings && strcmp(p->encodings[k].constant, t->name) != 0) k++;
        if (k == p->n_encodings)
            return SW_FAIL(err, SW_BAD_DATA, "%s/%s.json: has no encoding of %s", p->folder, p->key, t->name);
        t->encoding = p->encodings[k].encoding;
    }
    return SW_OK;
}

/* ---- Writing ---- */

static json_t *ranges_to_json(const sw_ranges *ranges) {
    char *text = NULL;
    size_t size = 0;
    if (ranges == NULL) return json_null();
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) return NULL;
    sw_code code = sw_ranges_write_json(ranges, stream, NULL);
    json_t *value = fclose(stream) == 0 && code == SW_OK ? json_loads(text, 0, NULL) : NULL;
    free(text);
    return value;
}

static json_t *encodings_to_json(const sw_decoder *decoder) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < decoder->n_constants; i++) {
        const sw_tensor *t = decoder->constants[i];
        if (!sw_dtype_quantized(t->dtype) || t->dtype == SW_S8) continue;
        json_array_append_new(list, json_pack("{s:s, s:f, s:i}", "name", t->name, "scale",
                                              (double)t->encoding.scale, "offset", (int)t->encoding.offset));
    }
    return list;
}

static void add_sink(json_t *document, const sw_sink *sink, const sw_hparams *h) {
    json_t *ids = json_array(), *kv = json_array();
    const size_t n = sink->n_tokens > 0 ? (size_t)sw_sink_values(h, sink->n_tokens) : 0;
    for (uint32_t i = 0; i < sink->n_tokens; i++) json_array_append_new(ids, json_integer(sink->ids[i]));
    for (size_t i = 0; i < n; i++) json_array_append_new(kv, json_real((double)((const float *)sink->kv)[i]));
    json_object_set_new(document, "sink_ids", ids);
    json_object_set_new(document, "sink_kv", kv);
}

static void add_texts(json_t *document, const sw_evaluation_texts *t) {
    if (t->figures == NULL) return;
    json_t *lines = json_array();
    for (unsigned i = 0; i < t->n_lines; i++)
        json_array_append_new(lines, json_pack("[s, s]", sw_log_level_name(t->levels[i]), t->lines[i]));
    json_object_set_new(document, "figures", json_string(t->figures));
    json_object_set_new(document, "report", lines);
}

static bool is_whole(const json_t *entry, const sw_evaluation_texts *texts) {
    return json_object_get(entry, "ranges") != NULL && json_object_get(entry, "encodings") != NULL &&
           json_object_get(entry, "sink_kv") != NULL &&
           (texts->figures == NULL || (json_object_get(entry, "figures") != NULL &&
                                       json_array_size(json_object_get(entry, "report")) == texts->n_lines));
}

static sw_code put_entry(const char *sha256, const sw_quantized_model *q, const sw_decoder *decoder,
                         const sw_evaluation_texts *texts, const char *file, sw_error *err) {
    json_t *entry = json_pack("{s:s, s:I, s:I}", "weights", sha256, "tokens", (json_int_t)q->n_calibrated,
                              "windows", (json_int_t)q->n_windows);
    if (entry == NULL) return no_memory(err);
    json_object_set_new(entry, "ranges", ranges_to_json(q->ranges));
    json_object_set_new(entry, "encodings", encodings_to_json(decoder));
    add_sink(entry, &q->sink, &decoder->hparams);
    add_texts(entry, texts);
    char check[SW_SHA256_HEX_BYTES];
    const bool whole = is_whole(entry, texts) && hash_value(entry, check);
    json_t *document = json_pack("{s:s, s:i, s:s, s:o}", "format", FORMAT, "version", (int)VERSION, "sha256",
                                 whole ? check : "", "entry", entry);
    char *text = whole && document != NULL ? json_dumps(document, JSON_INDENT(1)) : NULL;
    sw_code code = text != NULL ? sw_file_put(file, text, strlen(text), err) : no_memory(err);
    free(text);
    json_decref(document);
    return code;
}

sw_code sw_prepared_keep(const sw_prepared *p, const sw_quantized_model *q, const sw_decoder *decoder,
                         const char *weights, const sw_evaluation_texts *texts, sw_error *err) {
    sw_arena arena = SW_ARENA_EMPTY;
    char sha256[SW_SHA256_HEX_BYTES], copied[SW_SHA256_HEX_BYTES];
    sw_code code = sw_file_hash(weights, sha256, err);
    const char *file = sw_arena_printf(&arena, "%s/%s.json", p->folder, p->key),
               *to = code == SW_OK ? sw_arena_printf(&arena, "%s/%s.safetensors", p->folder, sha256) : NULL;
    if (code == SW_OK && (file == NULL || to == NULL)) code = no_memory(err);
    if (code == SW_OK) code = sw_file_copy(weights, to, copied, err);
    if (code == SW_OK) code = put_entry(sha256, q, decoder, texts, file, err);
    sw_arena_free(&arena);
    return code;
}

void sw_prepared_free(sw_prepared *p) {
    sw_ranges_free(p->ranges);
    p->ranges = NULL;
}
