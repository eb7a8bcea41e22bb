/* token_map.c: a hash table with open addressing, at most half full; FNV-1a over the text, its high bits
 * mixed in (source: Fowler, Noll and Vo's parameters for 64 bits). */
#include "text/token_map.h"

#include <string.h>

static size_t hash_text(sw_span text) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < text.size; i++) h = (h ^ (unsigned char)text.data[i]) * 0x100000001b3u;
    return (size_t)(h ^ h >> 32);
}

/* The slot that has text, or the free one where it would go. */
static int32_t *find_slot(const sw_token_map *map, sw_span text) {
    for (size_t i = hash_text(text) & map->mask;; i = (i + 1) & map->mask) {
        int32_t id = map->slots[i];
        if (id < 0) return &map->slots[i];
        sw_span have = map->tokens[id];
        if (have.size == text.size && memcmp(have.data, text.data, text.size) == 0) return &map->slots[i];
    }
}

sw_code sw_token_map_init(sw_token_map *map, const sw_span *tokens, size_t n_tokens, sw_arena *arena,
                          sw_error *err) {
    size_t n_slots = 2;
    while (n_slots < 2 * n_tokens) n_slots *= 2;
    map->tokens = tokens;
    map->mask = n_slots - 1;
    map->slots = sw_arena_array(arena, n_slots, sizeof *map->slots);
    if (map->slots == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory for %zu tokens", n_tokens);
    memset(map->slots, 0xff, n_slots * sizeof *map->slots);
    for (size_t id = 0; id < n_tokens; id++) {
        int32_t *slot = find_slot(map, tokens[id]);
        if (*slot >= 0)
            return SW_FAIL(err, SW_BAD_DATA, "token %zu has the text of token %d, \"%.*s\"", id, *slot,
                           (int)(tokens[id].size < 60 ? tokens[id].size : 60), tokens[id].data);
        *slot = (int32_t)id;
    }
    return SW_OK;
}

int32_t sw_token_map_find(const sw_token_map *map, sw_span text) {
    return text.size > 0 ? *find_slot(map, text) : -1;
}
