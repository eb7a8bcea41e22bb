/* token_map.h: from a token's text to its id. */
#ifndef SW_TEXT_TOKEN_MAP_H
#define SW_TEXT_TOKEN_MAP_H

#include "base/arena.h"
#include "base/bytes.h"

typedef struct sw_token_map {
    const sw_span *tokens; /* borrowed */
    int32_t *slots;        /* id, -1: free; in the arena */
    size_t mask;
} sw_token_map;

/* Every text must be there once. Errors: SW_BAD_DATA with both ids where one is there twice, SW_NO_MEMORY. */
sw_code sw_token_map_init(sw_token_map *map, const sw_span *tokens, size_t n_tokens, sw_arena *arena,
                          sw_error *err) SW_MUST_CHECK;

/* The id, or -1. */
int32_t sw_token_map_find(const sw_token_map *map, sw_span text);

#endif
