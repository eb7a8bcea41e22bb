/* shared_memory.c: blocks of rpcmem, and the list of what is registered. A block is one file descriptor; a
 * tensor is registered as a place in it (QNN_HTP_MEM_SHARED_BUFFER). */
#include "qnn/shared_memory.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "qnn/error.h"

/* Of rpcmem.h in Qualcomm's fastrpc project: the system heap, cached. */
enum { SYSTEM_HEAP = 25, CACHED = 1 };

void sw_rpcmem_load(sw_rpcmem *out) {
    static const char *const names[] = {"libcdsprpc.so", "libcdsprpc.so.1"}; /* Android's, Linux's */
    union { /* a function's address as data: POSIX has it so */
        void *data[3];
        sw_rpcmem functions;
    } found = {{NULL}};
    _Static_assert(sizeof found.data == sizeof found.functions, "three functions");
    *out = (sw_rpcmem){0};
    void *library = NULL;
    for (size_t i = 0; library == NULL && i < 2; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        sw_log(SW_LOG_VERBOSE, "no libcdsprpc here: inputs and outputs are plain memory");
        return;
    }
    found.data[0] = dlsym(library, "rpcmem_alloc");
    found.data[1] = dlsym(library, "rpcmem_free");
    found.data[2] = dlsym(library, "rpcmem_to_fd");
    if (found.data[0] != NULL && found.data[1] != NULL && found.data[2] != NULL)
        *out = found.functions;
    else
        sw_log(SW_LOG_WARN,
               "libcdsprpc lacks rpcmem_alloc, rpcmem_free or rpcmem_to_fd: inputs and outputs are "
               "plain memory, which the library copies");
}

void *sw_shared_memory_allocate(sw_shared_memory *m, size_t size) {
    if (m->rpcmem.alloc == NULL || size == 0 || size > INT_MAX) return NULL;
    sw_shared_block *block = calloc(1, sizeof *block);
    if (block == NULL) return NULL;
    block->data = m->rpcmem.alloc(SYSTEM_HEAP, CACHED, (int)size);
    block->size = size;
    block->fd = block->data != NULL ? m->rpcmem.to_fd(block->data) : -1;
    if (block->fd < 0) {
        sw_log(SW_LOG_WARN,
               "rpcmem gives no %zu bytes of shared memory: inputs and outputs are plain memory, "
               "which the library copies",
               size);
        if (block->data != NULL) m->rpcmem.free(block->data);
        free(block);
        return NULL;
    }
    memset(block->data, 0, size);
    block->next = m->blocks;
    m->blocks = block;
    return block->data;
}

void sw_shared_memory_release(sw_shared_memory *m, void *data) {
    for (sw_shared_block **at = &m->blocks; *at != NULL; at = &(*at)->next) {
        sw_shared_block *block = *at;
        if (block->data != data) continue;
        *at = block->next;
        m->rpcmem.free(block->data);
        free(block);
        return;
    }
}

static const sw_shared_block *find_block(const sw_shared_memory *m, const void *data, uint64_t size) {
    for (const sw_shared_block *b = m->blocks; b != NULL; b = b->next) {
        uintptr_t begin = (uintptr_t)b->data, at = (uintptr_t)data;
        if (at >= begin && at - begin <= b->size && size <= b->size - (at - begin)) return b;
    }
    return NULL;
}

static bool make_room(sw_shared_memory *m) {
    if (m->n < m->capacity) return true;
    uint32_t capacity = m->capacity == 0 ? 256 : 2 * m->capacity;
    sw_registration *bigger = realloc(m->registrations, capacity * sizeof *bigger);
    if (bigger == NULL) return false;
    m->registrations = bigger;
    m->capacity = capacity;
    return true;
}

sw_code sw_shared_memory_register(sw_shared_memory *m, const sw_qnn *qnn, Qnn_Handle_t context,
                                  const Qnn_Tensor_t *tensor, const void *data, uint64_t size,
                                  Qnn_Handle_t *out, sw_error *err) {
    *out = NULL;
    const sw_shared_block *block = find_block(m, data, size);
    if (block == NULL) return SW_OK;
    for (uint32_t i = 0; i < m->n; i++) {
        const sw_registration *r = &m->registrations[i];
        if (r->context != context || r->data != data || r->size != size) continue;
        *out = r->handle;
        return SW_OK;
    }
    if (!make_room(m)) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", tensor->v2.name);
    QnnMemHtp_Descriptor_t place = {.type = QNN_HTP_MEM_SHARED_BUFFER, .size = block->size};
    place.sharedBufferConfig.fd = block->fd;
    place.sharedBufferConfig.offset = (uint64_t)((uintptr_t)data - (uintptr_t)block->data);
    Qnn_MemDescriptor_t memory = {.memShape = {tensor->v2.rank, tensor->v2.dimensions, NULL},
                                  .dataType = tensor->v2.dataType,
                                  .memType = QNN_MEM_TYPE_CUSTOM,
                                  .customInfo = &place};
    sw_qnn_log_reset();
    Qnn_ErrorHandle_t e = qnn->library->htp->core.memRegister(context, &memory, 1, out);
    if (e != 0)
        return sw_qnn_fail(err, e, "registering %llu bytes of shared memory for %s", (unsigned long long)size,
                           tensor->v2.name);
    m->registrations[m->n++] =
        (sw_registration){.context = context, .handle = *out, .data = data, .size = size};
    return SW_OK;
}

void sw_shared_memory_deregister(sw_shared_memory *m, const sw_qnn *qnn) {
    while (m->n > 0) qnn->library->htp->core.memDeRegister(&m->registrations[--m->n].handle, 1);
}

void sw_shared_memory_free(sw_shared_memory *m) {
    while (m->blocks != NULL) sw_shared_memory_release(m, m->blocks->data);
    free(m->registrations);
    *m = (sw_shared_memory){0};
}
