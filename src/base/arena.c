/* arena.c: a linked list of chunks, filled from the front. Under AddressSanitizer a gap that may not be
 * touched follows each block, as one would from malloc. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#endif

enum { ALIGNMENT = 64, CHUNK_BYTES = 256 * 1024 };

#if defined(UNDER_ASAN)
#include <sanitizer/asan_interface.h>
enum { GAP_BYTES = ALIGNMENT };
#else
#define ASAN_POISON_MEMORY_REGION(at, size)   ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
enum { GAP_BYTES = 0 };
#endif

/* Padded to ALIGNMENT, so that the first block behind it is aligned too. */
struct sw_arena_chunk {
    _Alignas(ALIGNMENT) sw_arena_chunk *next;
};

void *sw_arena_alloc(sw_arena *arena, size_t size) {
    if (size > SIZE_MAX / 2) return NULL;
    size_t padded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (padded == 0) padded = ALIGNMENT;
    padded += GAP_BYTES;
    if (arena->chunk == NULL || padded > arena->capacity - arena->used) {
        size_t capacity = padded > CHUNK_BYTES ? padded : CHUNK_BYTES;
        sw_arena_chunk *chunk = aligned_alloc(ALIGNMENT, sizeof *chunk + capacity);
        if (chunk == NULL) return NULL;
        ASAN_POISON_MEMORY_REGION(chunk + 1, capacity);
        chunk->next = arena->chunk;
        arena->chunk = chunk;
        arena->used = 0;
        arena->capacity = capacity;
        arena->total_bytes += capacity;
    }
    void *block = (char *)(arena->chunk + 1) + arena->used;
    arena->used += padded;
    ASAN_UNPOISON_MEMORY_REGION(block, size);
    return memset(block, 0, size);
}

void *sw_arena_array(sw_arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    return sw_arena_alloc(arena, bytes);
}

char *sw_arena_strndup(sw_arena *arena, const char *text, size_t length) {
    char *copy = length < SIZE_MAX ? sw_arena_alloc(arena, length + 1) : NULL;
    return copy != NULL ? memcpy(copy, text, length) : NULL;
}

char *sw_arena_strdup(sw_arena *arena, const char *text) {
    return sw_arena_strndup(arena, text, strlen(text));
}

char *sw_arena_printf(sw_arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = n >= 0 ? sw_arena_alloc(arena, (size_t)n + 1) : NULL;
    if (text == NULL) return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    return text;
}

void sw_arena_free(sw_arena *arena) {
    for (sw_arena_chunk *chunk = arena->chunk; chunk != NULL;) {
        sw_arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    *arena = (sw_arena)SW_ARENA_EMPTY;
}
