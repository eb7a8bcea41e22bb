/* arena.h: memory with one lifetime. Blocks are taken one after another and given back all at once.
 *
 *   chunk:  [header][block][pad][block]...[free]   chunks are linked; a block larger than a chunk gets its
 * own.
 *
 * Not thread-safe: an arena belongs to one thread at a time. */
#ifndef SW_BASE_ARENA_H
#define SW_BASE_ARENA_H

#include <stddef.h>

#include "spillway/error.h"

typedef struct sw_arena_chunk sw_arena_chunk;

typedef struct sw_arena {
    sw_arena_chunk *chunk; /* newest first */
    size_t used, capacity; /* of the newest chunk, bytes */
    size_t total_bytes;    /* over all chunks */
} sw_arena;

#define SW_ARENA_EMPTY                                                                                       \
    { 0 }

/* A zero-filled block aligned to 64 bytes, or NULL without memory. size 0 gives a valid pointer. */
void *sw_arena_alloc(sw_arena *arena, size_t size);

/* As above for count elements; NULL also where count * size wraps. */
void *sw_arena_array(sw_arena *arena, size_t count, size_t size);

/* Copies of text; NULL without memory. */
char *sw_arena_strdup(sw_arena *arena, const char *text);
char *sw_arena_strndup(sw_arena *arena, const char *text, size_t length);
char *sw_arena_printf(sw_arena *arena, const char *format, ...) SW_PRINTF(2, 3);

/* Frees everything; the arena is empty and usable again. */
void sw_arena_free(sw_arena *arena);

#endif
