/* shared_memory.h: memory that host and DSP both see, so that a graph's inputs and outputs aren't copied.
 *
 * It comes from Qualcomm's libcdsprpc (rpcmem), which only phones and boards have. A tensor's place in it is
 * registered once with each context that uses it and then known by a handle: the number of registrations is
 * that of the distinct buffers, whatever the number of calls and the length of the context. */
#ifndef SW_QNN_SHARED_MEMORY_H
#define SW_QNN_SHARED_MEMORY_H

#include <stddef.h>

#include "graph/ir.h"
#include "qnn/context.h"

/* libcdsprpc's functions; all NULL where there is none. */
typedef struct sw_rpcmem {
    void *(*alloc)(int heap, uint32_t flags, int size);
    void (*free)(void *data);
    int (*to_fd)(void *data); /* below 0: it isn't rpcmem's */
} sw_rpcmem;

/* Loads the library for the rest of the process; *out is zeroed where there is none. */
void sw_rpcmem_load(sw_rpcmem *out);

typedef struct sw_shared_block {
    struct sw_shared_block *next;
    uint8_t *data;
    size_t size;
    int fd;
} sw_shared_block;

typedef struct sw_registration {
    Qnn_Handle_t context, handle;
    const void *data;
    uint64_t size;
} sw_registration;

typedef struct sw_shared_memory {
    sw_rpcmem rpcmem;
    sw_shared_block *blocks;
    sw_registration *registrations; /* [n], room for capacity */
    uint32_t n, capacity;
} sw_shared_memory;

/* Zeroed memory, or NULL: no rpcmem, none left, or more than it gives at once (2 GB). */
void *sw_shared_memory_allocate(sw_shared_memory *m, size_t size);
void sw_shared_memory_release(sw_shared_memory *m, void *data); /* its registrations first */

/* The handle of a tensor's values at `data` for that context; registered now if it wasn't. *out is NULL where
 * data isn't of this memory: then the library has to be given the pointer. Errors: SW_LIBRARY, SW_NO_MEMORY.
 */
sw_code sw_shared_memory_register(sw_shared_memory *m, const sw_qnn *qnn, Qnn_Handle_t context,
                                  const Qnn_Tensor_t *tensor, const void *data, uint64_t size,
                                  Qnn_Handle_t *out, sw_error *err) SW_MUST_CHECK;

/* Ends all registrations: before their contexts go. */
void sw_shared_memory_deregister(sw_shared_memory *m, const sw_qnn *qnn);

/* Blocks that were not released, and the list. */
void sw_shared_memory_free(sw_shared_memory *m);

#endif
