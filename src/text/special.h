/* special.h: tokens that are found in a text as they are, before it is split into words. */
#ifndef SW_TEXT_SPECIAL_H
#define SW_TEXT_SPECIAL_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/bytes.h"

typedef struct sw_special {
    sw_span text; /* borrowed */
    int32_t id;
    bool control; /* only where special tokens are parsed */
} sw_special;

typedef struct sw_specials {
    sw_special *list;  /* sorted by text; in the arena */
    size_t first[257]; /* list[first[b]] .. list[first[b + 1]] begin with byte b */
    bool any_always;   /* one of them isn't control */
} sw_specials;

/* Collects the control, unknown and user-defined tokens; token_types NULL: there are none. */
sw_code sw_specials_init(sw_specials *s, const sw_span *tokens, const int32_t *token_types, size_t n_tokens,
                         sw_arena *arena, sw_error *err) SW_MUST_CHECK;

/* The leftmost special token at or after *at, the longest of those that begin there. Returns its id and puts
 * its place and size into *at and *size; -1 where none is left. */
int32_t sw_specials_next(const sw_specials *s, sw_span text, bool parse_control, size_t *at, size_t *size);

#endif
