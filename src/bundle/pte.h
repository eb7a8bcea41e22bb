/* pte.h: an ExecuTorch program (.pte): which methods it has, and where the QNN context binaries in it are. */
#ifndef SW_BUNDLE_PTE_H
#define SW_BUNDLE_PTE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct sw_pte_binary {
    uint64_t offset, bytes; /* of the context binary in the file */
    const char *methods;    /* whose delegate it is: "kv_forward, prefill_forward" */
} sw_pte_binary;

typedef struct sw_pte {
    uint64_t program_bytes, segment_bytes; /* the flatbuffer, with its header; what stands behind it */
    const char **methods;
    uint32_t n_methods;
    sw_pte_binary *binaries; /* each once, whatever number of methods use it */
    uint32_t n_binaries;
} sw_pte;

/* Do the first bytes say that it is one, of whatever version? */
bool sw_pte_is(const uint8_t *data, uint64_t size);

/* Texts and arrays are in the arena; data is borrowed for the call. Nothing in the context binaries is looked
 * at. Messages name no file: the caller has it. Errors: SW_BAD_DATA (with the field and its place),
 * SW_UNSUPPORTED (a version; a delegate's data of another form), SW_NOT_FOUND (no context binary, with the
 * delegates there are), SW_NO_MEMORY. */
sw_code sw_pte_read(const uint8_t *data, uint64_t size, sw_arena *arena, sw_pte *out,
                    sw_error *err) SW_MUST_CHECK;

#endif
