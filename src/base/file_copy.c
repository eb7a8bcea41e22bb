/* file_copy.c: through a map, whose pages are given back piece by piece. */
#include "base/file_copy.h"

#include <unistd.h>

#include "base/interrupt.h"

enum { PIECE = 4 << 20 };

/* w NULL: none. */
static sw_code pass(const sw_file_map *map, sw_sha256 *s, sw_file_writer *w, sw_error *err) {
    for (uint64_t at = 0; at < map->size; at += PIECE) {
        const size_t n = map->size - at < PIECE ? (size_t)(map->size - at) : PIECE;
        sw_sha256_update(s, map->data + at, n);
        if (w != NULL) SW_TRY(sw_file_writer_write(w, map->data + at, n, err));
        sw_file_map_drop_pages(map, at, n);
    }
    return SW_OK;
}

sw_code sw_file_add_to_hash(const char *path, sw_sha256 *s, sw_error *err) {
    sw_file_map map;
    SW_TRY(sw_file_map_open(&map, path, err));
    sw_code code = pass(&map, s, NULL, err);
    sw_file_map_close(&map);
    return code;
}

sw_code sw_file_hash(const char *path, char sha256[SW_SHA256_HEX_BYTES], sw_error *err) {
    sw_sha256 s;
    sw_sha256_init(&s);
    SW_TRY(sw_file_add_to_hash(path, &s, err));
    sw_sha256_final(&s, sha256);
    return SW_OK;
}

sw_code sw_file_copy(const char *from, const char *to, char sha256[SW_SHA256_HEX_BYTES], sw_error *err) {
    sw_file_map map;
    sw_file_writer w;
    sw_sha256 s;
    sw_sha256_init(&s);
    SW_TRY(sw_file_map_open(&map, from, err));
    sw_code code = sw_file_writer_open(&w, to, err);
    if (code == SW_OK) {
        w.later = true;
        code = pass(&map, &s, &w, err);
        if (code == SW_OK)
            code = sw_file_writer_commit(&w, err);
        else
            sw_file_writer_discard(&w);
    }
    sw_file_map_close(&map);
    sw_sha256_final(&s, sha256);
    return code;
}

/* By way of a third name: link() replaces nothing. */
static bool share(const char *from, const char *to, sw_arena *arena) {
    const char *third = sw_arena_printf(arena, "%s.%ld-link", to, (long)getpid());
    if (third == NULL) return false;
    sw_interrupt_hold();
    const bool linked = link(from, third) == 0, shared = linked && rename(third, to) == 0;
    if (linked) unlink(third); /* still there where both were the same file before */
    sw_interrupt_release();
    return shared;
}

sw_code sw_file_share(const char *from, const char *to, sw_error *err) {
    sw_arena arena = SW_ARENA_EMPTY;
    char sha256[SW_SHA256_HEX_BYTES];
    const bool shared = share(from, to, &arena);
    sw_arena_free(&arena);
    return shared ? SW_OK : sw_file_copy(from, to, sha256, err);
}
