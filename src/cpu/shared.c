/* shared.c: a list of entries, each in a slab; a slab goes when its last entry went. An entry is looked for
 * by every entry's key in turn: a graph has some hundreds. */
#include "cpu/shared.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/huge.h"

enum { ALIGNMENT = 64, SLAB = 16 << 20 };

typedef struct slab {
    struct slab *next;
    char *memory;
    size_t used, capacity;
    size_t n_entries;
} slab;

typedef struct entry {
    struct entry *next;
    slab *slab;
    void *memory;
    size_t holders, key_bytes;
    char key[];
} entry;

struct sw_shared_store {
    slab *slabs; /* the newest first: the one that is being filled */
    entry *entries;
};

typedef struct sw_shared_hold {
    struct sw_shared_hold *next;
    entry *entry;
} hold;

sw_shared_store *sw_shared_store_create(void) {
    return calloc(1, sizeof(sw_shared_store));
}

static slab *new_slab(size_t bytes) {
    slab *s = calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    s->capacity = bytes < SLAB ? SLAB : bytes;
    s->memory = sw_huge_alloc(s->capacity);
    if (s->memory != NULL) return s;
    free(s);
    return NULL;
}

/* Zeros; an entry larger than a slab gets one of its own. */
static void *take(sw_shared_store *store, size_t bytes, slab **from) {
    const size_t padded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    slab *s = store->slabs;
    if (padded < bytes) return NULL;
    if (s == NULL || s->capacity - s->used < padded) {
        s = new_slab(padded);
        if (s == NULL) return NULL;
        s->next = store->slabs;
        store->slabs = s;
    }
    void *memory = s->memory + s->used;
    s->used += padded, s->n_entries++;
    *from = s;
    return memory;
}

static void drop_slab(sw_shared_store *store, slab *s) {
    slab **link = &store->slabs;
    while (*link != s) link = &(*link)->next;
    *link = s->next;
    sw_huge_free(s->memory, s->capacity);
    free(s);
}

static void drop_entry(sw_shared_store *store, entry *e) {
    entry **link = &store->entries;
    while (*link != e) link = &(*link)->next;
    *link = e->next;
    if (--e->slab->n_entries == 0) drop_slab(store, e->slab);
    free(e);
}

static entry *find(sw_shared_store *store, const void *key, size_t key_bytes) {
    entry *e = store->entries;
    while (e != NULL && (e->key_bytes != key_bytes || memcmp(e->key, key, key_bytes) != 0)) e = e->next;
    return e;
}

static entry *add(sw_shared_store *store, const void *key, size_t key_bytes, size_t bytes) {
    entry *e = calloc(1, sizeof *e + key_bytes);
    if (e == NULL) return NULL;
    e->memory = take(store, bytes, &e->slab);
    if (e->memory == NULL) {
        free(e);
        return NULL;
    }
    e->key_bytes = key_bytes;
    memcpy(e->key, key, key_bytes);
    e->next = store->entries;
    return store->entries = e;
}

sw_code sw_shared_get(sw_shared *shared, const void *key, size_t key_bytes, size_t bytes,
                      sw_shared_fill *fill, void *context, const void **out, sw_error *err) {
    hold *h = sw_arena_alloc(shared->arena, sizeof *h);
    entry *e = h != NULL ? find(shared->store, key, key_bytes) : NULL;
    if (h != NULL && e == NULL && (e = add(shared->store, key, key_bytes, bytes)) != NULL)
        fill(context, e->memory);
    if (e == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory for %zu bytes of constants", bytes);
    e->holders++;
    *h = (hold){shared->holds, e};
    shared->holds = h;
    *out = e->memory;
    return SW_OK;
}

void sw_shared_release(sw_shared *shared) {
    for (hold *h = shared->holds; h != NULL; h = h->next)
        if (--h->entry->holders == 0) drop_entry(shared->store, h->entry);
    shared->holds = NULL;
}

void sw_shared_store_destroy(sw_shared_store *store) {
    if (store == NULL) return;
    while (store->entries != NULL) drop_entry(store, store->entries);
    free(store);
}
