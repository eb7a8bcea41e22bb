/* identify.c: says what a path is that was given as a bundle and isn't one, and what can be done with it. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "bundle/internal.h"
#include "bundle/pte.h"
#include "model/file_kind.h"

#define WHAT_TO_DO "give the checkpoint it was made from to `spillway llama`"

static bool exists(const char *folder, const char *name) {
    sw_arena arena = SW_ARENA_EMPTY;
    const char *path = sw_path_join(&arena, folder, name);
    struct stat st;
    bool there = path != NULL && lstat(path, &st) == 0;
    sw_arena_free(&arena);
    return there;
}

/* What it holds, or what is damaged in it. */
static void describe_pte(const sw_file_map *map, char *out, size_t capacity) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_pte pte;
    sw_error why;
    if (sw_pte_read(map->data, map->size, &arena, &pte, &why) == SW_OK)
        snprintf(out, capacity,
                 "; it holds a QNN context binary of %llu bytes at byte %llu: `spillway inspect` shows it",
                 (unsigned long long)pte.binaries[0].bytes, (unsigned long long)pte.binaries[0].offset);
    else
        snprintf(out, capacity, "; %.200s", why.message);
    sw_arena_free(&arena);
}

static sw_code name_file(const sw_file_map *map, sw_error *err) {
    const char *path = map->path;
    const uint8_t *d = map->data;
    size_t length = strlen(path);
    if (map->size == 0) return SW_FAIL(err, SW_BAD_DATA, "%s: is an empty file, not a bundle", path);
    if (sw_pte_is(d, map->size)) {
        char more[256];
        describe_pte(map, more, sizeof more);
        return SW_FAIL(err, SW_BAD_DATA,
                       "%s: is an ExecuTorch program, not a bundle; its graphs are compiled and can't be "
                       "turned back: " WHAT_TO_DO "%s",
                       path, more);
    }
    if (map->size >= 4 && memcmp(d, "GGUF", 4) == 0)
        return SW_FAIL(err, SW_BAD_DATA,
                       "%s: is a GGUF checkpoint, not a bundle; compile it with `spillway llama`", path);
    const char *kind = sw_file_kind(d, map->size);
    if (kind != NULL)
        return SW_FAIL(err, SW_BAD_DATA,
                       "%s: is %s, not a bundle; a bundle is a folder with a " SW_MANIFEST_NAME, path, kind);
    if (length > 4 && strcmp(path + length - 4, ".bin") == 0)
        return SW_FAIL(err, SW_BAD_DATA,
                       "%s: is a file, perhaps a QNN context binary, which is one part of a bundle; give the "
                       "folder with its " SW_MANIFEST_NAME,
                       path);
    return SW_FAIL(err, SW_BAD_DATA, "%s: is a file; a bundle is a folder with a " SW_MANIFEST_NAME, path);
}

sw_code sw_bundle_name_other(const char *path, sw_error *err) {
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        if (exists(path, SW_PARTIAL_NAME))
            return SW_FAIL(
                err, SW_BAD_DATA,
                "%s: is an incomplete bundle: its compile was stopped or still runs; compile again", path);
        if (exists(path, "config.json"))
            return SW_FAIL(
                err, SW_BAD_DATA,
                "%s: is a Hugging Face checkpoint, not a bundle, and this build reads checkpoints from "
                "GGUF files only",
                path);
        return SW_FAIL(err, SW_NOT_FOUND, "%s: is no bundle: it has no " SW_MANIFEST_NAME, path);
    }
    sw_file_map map;
    SW_TRY(sw_file_map_open(&map, path, err));
    sw_code code = name_file(&map, err);
    sw_file_map_close(&map);
    return code;
}
