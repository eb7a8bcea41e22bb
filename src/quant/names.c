/* names.c: open addressing with linear probing over FNV-1a hashes (Fowler, Noll, Vo; RFC 9923). */
#include "quant/names.h"

#include <stdbool.h>
#include <string.h>

static uint32_t hash(const char *name) {
    uint32_t h = 2166136261u;
    for (const char *c = name; *c; c++) h = (h ^ (uint8_t)*c) * 16777619u;
    return h;
}

/* The slot that holds the name, or the empty one where it belongs. */
static uint32_t *slot_of(const sw_names *table, const char *name) {
    uint32_t s = hash(name) & (table->n_slots - 1);
    while (table->slots[s] && strcmp(table->names[table->slots[s] - 1], name) != 0)
        s = (s + 1) & (table->n_slots - 1);
    return &table->slots[s];
}

static bool grow(sw_names *table) {
    uint32_t n_slots = table->n_slots ? table->n_slots * 2 : 256;
    if (n_slots < table->n_slots) return false; /* wrapped */
    const char **names = sw_arena_array(&table->arena, n_slots / 2, sizeof *names);
    uint32_t *slots = sw_arena_array(&table->arena, n_slots, sizeof *slots);
    if (!names || !slots) return false;
    if (table->count) memcpy(names, table->names, table->count * sizeof *names);
    table->names = names;
    table->slots = slots;
    table->n_slots = n_slots;
    for (uint32_t i = 0; i < table->count; i++) *slot_of(table, names[i]) = i + 1;
    return true;
}

uint32_t sw_names_add(sw_names *table, const char *name) {
    uint32_t index = sw_names_find(table, name);
    if (index != UINT32_MAX) return index;
    if (table->count >= table->n_slots / 2 && !grow(table)) return UINT32_MAX;
    const char *copy = sw_arena_strdup(&table->arena, name);
    if (!copy) return UINT32_MAX;
    index = table->count++;
    table->names[index] = copy;
    *slot_of(table, name) = index + 1;
    return index;
}

uint32_t sw_names_find(const sw_names *table, const char *name) {
    if (!table->n_slots) return UINT32_MAX;
    uint32_t slot = *slot_of(table, name);
    return slot ? slot - 1 : UINT32_MAX;
}

void sw_names_free(sw_names *table) {
    sw_arena_free(&table->arena);
    *table = (sw_names)SW_NAMES_EMPTY;
}
