/* shared.h: what the loaded graphs of a device have in common, made once: weights packed for the kernels, and
 * tables. A hybrid model's prefill and decode graphs have the same weights and encodings.
 *
 * Memory is taken from slabs of huge pages (base/huge.h). */
#ifndef SW_CPU_SHARED_H
#define SW_CPU_SHARED_H

#include "base/arena.h"

typedef struct sw_shared_store sw_shared_store; /* a device's */

/* A program's hold on entries of the store. */
typedef struct sw_shared {
    sw_shared_store *store;
    sw_arena *arena; /* borrowed */
    struct sw_shared_hold *holds;
} sw_shared;

sw_shared_store *sw_shared_store_create(void);        /* NULL without memory */
void sw_shared_store_destroy(sw_shared_store *store); /* after its programs; NULL is allowed */

/* Writes the entry's `bytes` from what `context` says; the memory is zero before. */
typedef void sw_shared_fill(void *context, void *out);

/* The entry of that key, made by `fill` if no program holds it yet; *out is aligned to 64 bytes and lives
 * until sw_shared_release. The key must say all that the content hangs on: it is compared by its bytes, so a
 * struct is to be zeroed first. Errors: SW_NO_MEMORY. */
sw_code sw_shared_get(sw_shared *shared, const void *key, size_t key_bytes, size_t bytes,
                      sw_shared_fill *fill, void *context, const void **out, sw_error *err) SW_MUST_CHECK;

/* Gives back all entries that this program held; those that nobody else holds are freed. */
void sw_shared_release(sw_shared *shared);

#endif
