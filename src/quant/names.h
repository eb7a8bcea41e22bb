/* names.h: a table of names: each gets the next index, 0, 1, 2, ..., the first time it is added. */
#ifndef SW_QUANT_NAMES_H
#define SW_QUANT_NAMES_H

#include <stdint.h>

#include "base/arena.h"

typedef struct sw_names {
    sw_arena arena; /* of everything below; outgrown arrays stay in it, less than the live ones together */
    const char **names; /* [count], copies */
    uint32_t *slots;    /* [n_slots], a power of two, at most half full: index + 1, or 0 for empty */
    uint32_t count, n_slots;
} sw_names;

#define SW_NAMES_EMPTY                                                                                       \
    { .count = 0 }

/* The name's index; UINT32_MAX without memory. */
uint32_t sw_names_add(sw_names *table, const char *name);

/* The name's index; UINT32_MAX where it was never added. */
uint32_t sw_names_find(const sw_names *table, const char *name);

void sw_names_free(sw_names *table);

#endif
