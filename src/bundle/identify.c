/* identify.c: says what a path is that was given as a bundle and isn't one, and what can be done with it.
 *
 * ExecuTorch's program file (.pte), from executorch/schema/extended_header.h: u32 offset of the root table,
 * "ET12", then optionally an extended header: "eh00", u32 its length (24, or 32 with the last field), u64
 * bytes of the program, u64 offset of the segments, u64 bytes of the segments. Qualcomm's backend wraps each
 * context binary: u32 0x5678ABCD, u64 signature, u64 bytes, zeros up to byte 256, the binary. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "bundle/internal.h"
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

/* The first wrapped context binary after byte `from`, as text; "" where there is none. */
static void describe_wrapper(const sw_file_map *map, uint64_t from, char *out, size_t capacity) {
    static const uint8_t magic[4] = {0xcd, 0xab, 0x78, 0x56}, zeros[236];
    out[0] = '\0';
    while (from < map->size) {
        const uint8_t *hit = memmem(map->data + from, (size_t)(map->size - from), magic, sizeof magic);
        if (hit == NULL) return;
        sw_cursor c = {.data = map->data, .size = map->size, .pos = (uint64_t)(hit - map->data)};
        uint64_t at = c.pos, signature, claimed;
        from = at + 1;
        if (sw_cursor_take(&c, 4) == NULL || !sw_cursor_u64(&c, &signature) || !sw_cursor_u64(&c, &claimed))
            return;
        const uint8_t *padding = sw_cursor_take(&c, sizeof zeros);
        if (padding == NULL) return;
        if (memcmp(padding, zeros, sizeof zeros) != 0) continue; /* chance bytes */
        uint64_t left = sw_cursor_left(&c);
        if (claimed == 0 || claimed > left)
            snprintf(out, capacity,
                     "; damaged: the context binary's wrapper at byte %llu claims %llu bytes, %llu are there",
                     (unsigned long long)at, (unsigned long long)claimed, (unsigned long long)left);
        else
            snprintf(out, capacity, "; it holds a QNN context binary of %llu bytes at byte %llu",
                     (unsigned long long)claimed, (unsigned long long)c.pos);
        return;
    }
}

/* What the extended header says, or which field of it is damaged. */
static void describe_pte(const sw_file_map *map, char *out, size_t capacity) {
    sw_cursor c = {.data = map->data, .size = map->size};
    uint32_t root = 0, length = 0;
    uint64_t program = 0, base = 0, segments = 0;
    out[0] = '\0';
    bool ok = sw_cursor_u32(&c, &root);
    const uint8_t *id = sw_cursor_take(&c, 4);
    if (!ok || id == NULL) return;
    if (memcmp(id, "ET12", 4) != 0)
        snprintf(out, capacity, "; its version is `%.4s`, known is `ET12`", (const char *)id);
    else if (root >= map->size)
        snprintf(out, capacity, "; damaged: the root table at byte %u is beyond the end (%llu)", root,
                 (unsigned long long)map->size);
    if (out[0] != '\0') return;
    const uint8_t *extended = sw_cursor_take(&c, 4);
    if (extended == NULL || memcmp(extended, "eh", 2) != 0) return;
    if (memcmp(extended, "eh00", 4) != 0) {
        snprintf(out, capacity, "; its extended header is `%.4s`, known is `eh00`", (const char *)extended);
    } else if (!sw_cursor_u32(&c, &length) || (length != 24 && length != 32)) {
        snprintf(out, capacity, "; damaged: the extended header's length is %u, wanted 24 or 32", length);
    } else if (!sw_cursor_u64(&c, &program) || !sw_cursor_u64(&c, &base) ||
               (length == 32 && !sw_cursor_u64(&c, &segments))) {
        snprintf(out, capacity, "; damaged: it ends inside the extended header");
    } else if (program > map->size || base > map->size || segments > map->size - base) {
        snprintf(out, capacity,
                 "; damaged: a program of %llu bytes and segments of %llu at byte %llu, in a file of %llu",
                 (unsigned long long)program, (unsigned long long)segments, (unsigned long long)base,
                 (unsigned long long)map->size);
    } else {
        describe_wrapper(map, base, out, capacity);
    }
}

static sw_code name_file(const sw_file_map *map, sw_error *err) {
    const char *path = map->path;
    const uint8_t *d = map->data;
    size_t length = strlen(path);
    if (map->size == 0) return SW_FAIL(err, SW_BAD_DATA, "%s: is an empty file, not a bundle", path);
    if (map->size >= 8 && memcmp(d + 4, "ET", 2) == 0 && d[6] >= '0' && d[6] <= '9') {
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
