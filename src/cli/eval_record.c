/* eval_record.c: a table in memory with a log behind it. */
#include "cli/eval_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

enum { MOST_BYTES = 256 << 20 };

static const char line_start[] = "{\"kind\":\"";

struct sw_eval_record {
    json_t *results; /* by key text */
    FILE *file;      /* or NULL */
    char *path;
};

/* The caller frees it. */
static char *key_text(const sw_eval_key *key) {
    char *text;
    return asprintf(&text, "%s|%s|%u|%s", key->kind, key->recipe, key->number, key->digest) < 0 ? NULL : text;
}

static sw_code remember(sw_eval_record *r, const sw_eval_key *key, json_t *values, sw_error *err) {
    char *text = key_text(key);
    int failed = text == NULL || json_object_set(r->results, text, values) != 0;
    free(text);
    return failed ? SW_FAIL(err, SW_NO_MEMORY, "no memory for a result") : SW_OK;
}

static sw_code read_line(sw_eval_record *r, unsigned number, const char *line, size_t size, sw_error *err) {
    enum { MOST_TEXT = 4096 };
    char place[4352];
    snprintf(place, sizeof place, "%s: line %u", r->path, number);
    sw_json all, kind, recipe, n, digest, values;
    sw_eval_key key;
    SW_TRY(sw_json_parse(&all, place, line, size, err));
    sw_code code = sw_json_get(&all, "kind", &kind, err);
    if (code == SW_OK) code = sw_json_text(&kind, false, MOST_TEXT, &key.kind, err);
    if (code == SW_OK) code = sw_json_get(&all, "recipe", &recipe, err);
    if (code == SW_OK) code = sw_json_text(&recipe, false, MOST_TEXT, &key.recipe, err);
    if (code == SW_OK) code = sw_json_get(&all, "number", &n, err);
    if (code == SW_OK) code = sw_json_u32(&n, 0, UINT32_MAX, &key.number, err);
    if (code == SW_OK) code = sw_json_get(&all, "of", &digest, err);
    if (code == SW_OK) code = sw_json_text(&digest, false, MOST_TEXT, &key.digest, err);
    if (code == SW_OK) code = sw_json_get(&all, "values", &values, err);
    if (code == SW_OK) code = sw_json_object(&values, err);
    if (code == SW_OK) code = remember(r, &key, (json_t *)(uintptr_t)values.value, err);
    sw_json_free(&all);
    return code;
}

/* *whole: the bytes of the lines that have an end. */
static sw_code read_file(sw_eval_record *r, size_t *whole, sw_error *err) {
    sw_arena arena = SW_ARENA_EMPTY;
    char *text;
    size_t size;
    *whole = 0;
    sw_code code = sw_file_read(r->path, MOST_BYTES, &arena, &text, &size, err);
    unsigned number = 1;
    while (code == SW_OK && *whole < size) {
        const char *line = text + *whole, *end = memchr(line, '\n', size - *whole);
        if (end == NULL) break;
        code = read_line(r, number++, line, (size_t)(end - line), err);
        *whole += (size_t)(end - line) + 1;
    }
    /* Cut off in the middle of a line of ours, or something else? */
    size_t rest = size - *whole, same = sizeof line_start - 1 < rest ? sizeof line_start - 1 : rest;
    if (code == SW_OK && memcmp(text + *whole, line_start, same) != 0)
        code = SW_FAIL(err, SW_BAD_DATA, "%s: line %u is no result of spillway eval", r->path, number);
    sw_arena_free(&arena);
    return code;
}

static sw_code open_file(sw_eval_record *r, sw_error *err) {
    size_t whole = 0;
    bool is_new = access(r->path, F_OK) != 0;
    if (!is_new) SW_TRY(read_file(r, &whole, err));
    r->file = fopen(r->path, is_new ? "we" : "r+e");
    if (r->file == NULL)
        return SW_FAIL(err, SW_IO, "%s: can't open for writing: %s", r->path, strerror(errno));
    if (!is_new && (ftruncate(fileno(r->file), (off_t)whole) != 0 || fseek(r->file, 0, SEEK_END) != 0))
        return SW_FAIL(err, SW_IO, "%s: can't go on at byte %zu: %s", r->path, whole, strerror(errno));
    return SW_OK;
}

sw_code sw_eval_record_open(sw_eval_record **out, const char *path, sw_error *err) {
    sw_eval_record *r = *out = calloc(1, sizeof *r);
    if (r == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    r->results = json_object();
    r->path = path != NULL ? strdup(path) : NULL;
    sw_code code = SW_OK;
    if (r->results == NULL || (path != NULL && r->path == NULL))
        code = SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    if (code == SW_OK && path != NULL) code = open_file(r, err);
    if (code != SW_OK) {
        sw_eval_record_close(r);
        *out = NULL;
    }
    return code;
}

void sw_eval_record_close(sw_eval_record *r) {
    if (r == NULL) return;
    if (r->file != NULL) fclose(r->file); /* each line was flushed and checked */
    json_decref(r->results);
    free(r->path);
    free(r);
}

const json_t *sw_eval_record_find(const sw_eval_record *r, const sw_eval_key *key) {
    char *text = key_text(key);
    const json_t *found = text != NULL ? json_object_get(r->results, text) : NULL;
    free(text);
    return found;
}

sw_code sw_eval_record_put(sw_eval_record *r, const sw_eval_key *key, json_t *values, sw_error *err) {
    if (values == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory for a result");
    sw_code code = remember(r, key, values, err);
    if (code == SW_OK && r->file != NULL) {
        json_t *line = json_pack("{s:s, s:s, s:I, s:s, s:O}", "kind", key->kind, "recipe", key->recipe,
                                 "number", (json_int_t)key->number, "of", key->digest, "values", values);
        if (line == NULL) code = SW_FAIL(err, SW_NO_MEMORY, "no memory for a result");
        if (line != NULL && (json_dumpf(line, r->file, JSON_COMPACT | JSON_REAL_PRECISION(17)) != 0 ||
                             fputc('\n', r->file) == EOF || fflush(r->file) != 0))
            code = SW_FAIL(err, SW_IO, "%s: can't write: %s", r->path, strerror(errno));
        json_decref(line);
    }
    json_decref(values);
    return code;
}
