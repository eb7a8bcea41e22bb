/* safetensors_set.c: a checkpoint in shards. The index, as transformers writes it:
 *   {"metadata": {"total_size": bytes of all tensors, ...}, "weight_map": {tensor: file name, ...}} */
#include "model/safetensors_set.h"

#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"

static sw_code no_memory(const char *path, sw_error *err) {
    return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", path);
}

static size_t find_file(const sw_safetensors_set *set, const char *name) {
    size_t i = 0;
    while (i < set->n_files && strcmp(set->names[i], name) != 0) i++;
    return i;
}

static sw_code open_file(sw_safetensors_set *set, const char *folder, const char *name, sw_error *err) {
    const char *path = sw_path_join(&set->arena, folder, name);
    set->names[set->n_files] = sw_arena_strdup(&set->arena, name);
    if (path == NULL || set->names[set->n_files] == NULL) return no_memory(folder, err);
    SW_TRY(sw_safetensors_open(&set->files[set->n_files], path, err));
    set->n_files++;
    return SW_OK;
}

/* One line of weight_map: opens the shard at its first mention and looks the tensor up. */
static sw_code read_entry(sw_safetensors_set *set, const char *folder, const sw_json *at, sw_error *err) {
    const char *name;
    SW_TRY(sw_json_text(at, false, 255, &name, err));
    if (strchr(name, '/') != NULL || name[0] == '.')
        return sw_json_fail(at, err, "`%s` must be the name of a file in the same folder", name);
    size_t i = find_file(set, name);
    if (i == SW_ST_MAX_SHARDS) return sw_json_fail(at, err, "more than %d shards", SW_ST_MAX_SHARDS);
    if (i == set->n_files && open_file(set, folder, name, err) != SW_OK)
        return sw_error_prefix(err, "%s: shard of `%s`", at->file, at->key);
    if (sw_safetensors_find(&set->files[i], at->key) == NULL)
        return sw_json_fail(at, err, "shard %s has no such tensor", name);
    return SW_OK;
}

/* The other direction: what a shard holds, the index must place there. */
static sw_code check_shard(const sw_safetensors_set *set, size_t file, const sw_json *map, uint64_t *total,
                           sw_error *err) {
    const sw_safetensors *f = &set->files[file];
    for (size_t i = 0; i < f->n_tensors; i++) {
        sw_json at = sw_json_find(map, f->tensors[i].name);
        if (at.value == NULL)
            return SW_FAIL(err, SW_BAD_DATA, "%s: has `%s`, which the index doesn't list", f->map.path,
                           f->tensors[i].name);
        if (strcmp(json_string_value(at.value), set->names[file]) != 0)
            return sw_json_fail(&at, err, "is in two shards, %s and %s", json_string_value(at.value),
                                set->names[file]);
        *total += f->tensors[i].bytes; /* each is at most its file's size */
    }
    return SW_OK;
}

static sw_code warn_of_total(const sw_json *index, uint64_t total, sw_error *err) {
    sw_json metadata = sw_json_find(index, "metadata"), at = sw_json_find(&metadata, "total_size");
    if (metadata.value == NULL || at.value == NULL) return SW_OK;
    uint64_t claimed = 0;
    SW_TRY(sw_json_u64(&at, 0, INT64_MAX, &claimed, err));
    if (claimed != total)
        sw_log(SW_LOG_WARN, "%s: total_size is %llu, the tensors have %llu bytes", index->file,
               (unsigned long long)claimed, (unsigned long long)total);
    return SW_OK;
}

static sw_code read_index(sw_safetensors_set *set, const char *folder, const sw_json *index, sw_error *err) {
    sw_json map;
    uint64_t total = 0;
    SW_TRY(sw_json_get(index, "weight_map", &map, err));
    SW_TRY(sw_json_object(&map, err));
    json_t *object = (json_t *)(uintptr_t)map.value;
    for (void *i = json_object_iter(object); i != NULL; i = json_object_iter_next(object, i)) {
        sw_json at = sw_json_find(&map, json_object_iter_key(i));
        SW_TRY(read_entry(set, folder, &at, err));
    }
    if (set->n_files == 0) return sw_json_fail(&map, err, "lists no tensor");
    for (size_t i = 0; i < set->n_files; i++) SW_TRY(check_shard(set, i, &map, &total, err));
    return warn_of_total(index, total, err);
}

static sw_code open_set(sw_safetensors_set *set, const char *folder, sw_error *err) {
    char *text;
    size_t size;
    sw_json index;
    const char *path = sw_path_join(&set->arena, folder, "model.safetensors.index.json");
    set->names = sw_arena_array(&set->arena, SW_ST_MAX_SHARDS, sizeof *set->names);
    set->files = sw_arena_array(&set->arena, SW_ST_MAX_SHARDS, sizeof *set->files);
    if (path == NULL || set->names == NULL || set->files == NULL) return no_memory(folder, err);
    if (access(path, F_OK) != 0) return open_file(set, folder, "model.safetensors", err);
    SW_TRY(sw_file_read(path, SW_ST_INDEX_MAX_BYTES, &set->arena, &text, &size, err));
    SW_TRY(sw_json_parse(&index, path, text, size, err));
    sw_code code = read_index(set, folder, &index, err);
    sw_json_free(&index);
    return code;
}

sw_code sw_safetensors_set_open(sw_safetensors_set *out, const char *folder, sw_error *err) {
    *out = (sw_safetensors_set){0};
    sw_code code = open_set(out, folder, err);
    if (code != SW_OK) sw_safetensors_set_close(out);
    return code;
}

void sw_safetensors_set_close(sw_safetensors_set *set) {
    for (size_t i = 0; i < set->n_files; i++) sw_safetensors_close(&set->files[i]);
    sw_arena_free(&set->arena);
    *set = (sw_safetensors_set){0};
}

sw_code sw_safetensors_set_weight(const sw_safetensors_set *set, const char *name, sw_weight *out,
                                  sw_error *err) {
    for (size_t i = 0; i < set->n_files; i++)
        if (sw_safetensors_find(&set->files[i], name) != NULL)
            return sw_safetensors_weight(&set->files[i], name, out, err);
    if (set->n_files == 1) return sw_safetensors_weight(&set->files[0], name, out, err);
    return SW_FAIL(err, SW_NOT_FOUND, "none of the %zu shards has a tensor `%s`", set->n_files, name);
}
