/* cdsprpc.c: a stand-in for libcdsprpc.so.1, the library through which Qualcomm's stub talks to the DSP: the
 * border behind which no emulator goes. The functions are those of Qualcomm's public fastrpc project
 * (rpcmem.h, remote.h, dspqueue.h), for 64-bit ARM Linux; numbers of errors as its AEEStdErr.h has them.
 *
 * Memory is ordinary memory, with a file of its own a block. A session is granted, as long as the skel is
 * where the real one would look: in the folder that ADSP_LIBRARY_PATH names, taken as one folder. What runs
 * on the DSP can't be had: the first call of it fails. FAKE_PHONE refuses: "no_session", "no_unsigned",
 * "no_memory". With FAKE_PHONE_LOG a file gets a line a call. */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum {
    AEE_SUCCESS = 0,
    AEE_EFAILED = 1,
    AEE_ENOMEMORY = 2,
    AEE_EBADPARM = 14,
    AEE_EUNSUPPORTED = 20,
    AEE_ECONNREFUSED = 0x72,
    MAX_BLOCKS = 4096
};
#define AEE_EUNABLETOLOAD (int)0x80000406 /* the DSP's own: the module can't be loaded */

/* Of remote.h. */
enum { DSPRPC_GET_DSP_INFO = 2, DSPRPC_GET_DOMAIN = 4 };
enum {
    FASTRPC_THREAD_PARAMS = 1,
    DSPRPC_CONTROL_UNSIGNED_MODULE = 2,
    FASTRPC_RESERVE_NEW_SESSION = 13,
    FASTRPC_GET_EFFECTIVE_DOMAIN_ID = 14,
    FASTRPC_GET_URI = 15
};
enum {
    DOMAIN_SUPPORT,
    UNSIGNED_PD_SUPPORT,
    HVX_SUPPORT_64B,
    HVX_SUPPORT_128B,
    VTCM_PAGE,
    VTCM_COUNT,
    ARCH_VER,
    HMX_SUPPORT_DEPTH,
    HMX_SUPPORT_SPATIAL,
    ASYNC_FASTRPC_SUPPORT,
    STATUS_NOTIFICATION_SUPPORT
};
enum { CDSP_DOMAIN = 3, SM8750_ARCH = 0x8779 };

static void note(const char *format, ...) {
    const char *path = getenv("FAKE_PHONE_LOG");
    FILE *log = path != NULL ? fopen(path, "a") : NULL;
    if (log == NULL) return;
    va_list args;
    va_start(args, format);
    vfprintf(log, format, args);
    va_end(args);
    fputc('\n', log);
    fclose(log);
}

static int refuses(const char *what) {
    const char *list = getenv("FAKE_PHONE");
    return list != NULL && strstr(list, what) != NULL;
}

/* ---- rpcmem.h ---- */

static struct block {
    void *data;
    size_t size;
    int fd;
} blocks[MAX_BLOCKS];

API void rpcmem_init(void) {}
API void rpcmem_deinit(void) {}

API void *rpcmem_alloc2(int heap, uint32_t flags, size_t size) {
    note("rpcmem_alloc heap %d flags %u size %zu", heap, flags, size);
    if (refuses("no_memory")) return NULL;
    for (size_t i = 0; i < MAX_BLOCKS; i++) {
        struct block *b = &blocks[i];
        if (b->data != NULL) continue;
        b->fd = memfd_create("rpcmem", MFD_CLOEXEC);
        if (b->fd < 0) return NULL;
        void *data = ftruncate(b->fd, (off_t)size) == 0
                         ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0)
                         : MAP_FAILED;
        if (data == MAP_FAILED) {
            close(b->fd);
            return NULL;
        }
        b->data = data, b->size = size;
        return data;
    }
    return NULL;
}

API void *rpcmem_alloc(int heap, uint32_t flags, int size) {
    return size > 0 ? rpcmem_alloc2(heap, flags, (size_t)size) : NULL;
}

static struct block *find(const void *data) {
    for (size_t i = 0; i < MAX_BLOCKS; i++)
        if (data != NULL && blocks[i].data == data) return &blocks[i];
    return NULL;
}

API void rpcmem_free(void *data) {
    struct block *b = find(data);
    if (b == NULL) return;
    note("rpcmem_free size %zu", b->size);
    munmap(b->data, b->size);
    close(b->fd);
    *b = (struct block){0};
}

API int rpcmem_to_fd(void *data) {
    struct block *b = find(data);
    return b != NULL ? b->fd : -1;
}

/* ---- remote.h ---- */

/* "file:///libQnnHtpV79Skel.so?..." -> is that file in ADSP_LIBRARY_PATH's folder? */
static int skel_is_there(const char *uri) {
    const char *name = strncmp(uri, "file:///", 8) == 0 ? uri + 8 : uri;
    const char *folder = getenv("ADSP_LIBRARY_PATH");
    char path[4096];
    snprintf(path, sizeof path, "%s/%.*s", folder != NULL ? folder : "/usr/lib/dsp", (int)strcspn(name, "?"),
             name);
    int there = access(path, R_OK) == 0;
    note("skel %s: %s", path, there ? "found" : "missing");
    return there;
}

API int remote_handle64_open(const char *uri, uint64_t *handle) {
    note("remote_handle64_open %s", uri);
    if (refuses("no_session")) return AEE_ECONNREFUSED;
    if (!skel_is_there(uri)) return AEE_EUNABLETOLOAD;
    *handle = 1;
    return AEE_SUCCESS;
}
API int remote_handle64_invoke(uint64_t handle, uint32_t scalars, void *arguments) {
    (void)handle, (void)arguments;
    note("remote_handle64_invoke method %u", scalars >> 24 & 31);
    return AEE_EUNSUPPORTED;
}
API int remote_handle64_close(uint64_t handle) {
    note("remote_handle64_close %llu", (unsigned long long)handle);
    return AEE_SUCCESS;
}

static int dsp_info(uint32_t attribute, uint32_t *value) {
    switch (attribute) {
    case DOMAIN_SUPPORT:
    case UNSIGNED_PD_SUPPORT:
    case ASYNC_FASTRPC_SUPPORT:
    case STATUS_NOTIFICATION_SUPPORT:
    case HMX_SUPPORT_DEPTH:
    case HMX_SUPPORT_SPATIAL:
        *value = 1;
        return AEE_SUCCESS;
    case HVX_SUPPORT_128B:
        *value = 4;
        return AEE_SUCCESS;
    case VTCM_PAGE:
        *value = 8 << 20;
        return AEE_SUCCESS;
    case VTCM_COUNT:
        *value = 1;
        return AEE_SUCCESS;
    case ARCH_VER:
        *value = SM8750_ARCH;
        return AEE_SUCCESS;
    default:
        *value = 0;
        return AEE_SUCCESS;
    }
}

API int remote_handle_control(uint32_t request, void *data, uint32_t size) {
    note("remote_handle_control %u", request);
    if (request == DSPRPC_GET_DSP_INFO && size >= 12) { /* domain, attribute, value */
        uint32_t *info = data;
        int code = dsp_info(info[1], &info[2]);
        note("  attribute %u: 0x%x", info[1], info[2]);
        return code;
    }
    if (request == DSPRPC_GET_DOMAIN && size >= 4) *(int *)data = CDSP_DOMAIN;
    return AEE_SUCCESS;
}
API int remote_handle64_control(uint64_t handle, uint32_t request, void *data, uint32_t size) {
    (void)handle;
    return remote_handle_control(request, data, size);
}

/* Requests with answers in the caller's struct: reserving a session, its domain, its URI. */
struct new_session {
    char *domain_name;
    uint32_t domain_name_size;
    char *session_name;
    uint32_t session_name_size, effective_domain, session;
};
struct effective_domain {
    char *domain_name;
    uint32_t domain_name_size, session, effective_domain;
};
struct session_uri {
    char *domain_name;
    uint32_t domain_name_size, session;
    char *module;
    uint32_t module_size;
    char *uri;
    uint32_t uri_size;
};

API int remote_session_control(uint32_t request, void *data, uint32_t size) {
    note("remote_session_control %u, %u bytes", request, size);
    if (request == DSPRPC_CONTROL_UNSIGNED_MODULE && refuses("no_unsigned")) return AEE_EUNSUPPORTED;
    if (refuses("no_session") && request >= FASTRPC_RESERVE_NEW_SESSION) return AEE_ECONNREFUSED;
    if (request == FASTRPC_RESERVE_NEW_SESSION && size >= sizeof(struct new_session)) {
        struct new_session *s = data;
        s->effective_domain = CDSP_DOMAIN, s->session = 1;
    }
    if (request == FASTRPC_GET_EFFECTIVE_DOMAIN_ID && size >= sizeof(struct effective_domain))
        ((struct effective_domain *)data)->effective_domain = CDSP_DOMAIN;
    if (request == FASTRPC_GET_URI && size >= sizeof(struct session_uri)) {
        struct session_uri *s = data;
        int n = snprintf(s->uri, s->uri_size, "%.*s&_dom=cdsp&_session=%u", (int)s->module_size, s->module,
                         s->session);
        if (n < 0 || (uint32_t)n >= s->uri_size) return AEE_EBADPARM;
    }
    return AEE_SUCCESS;
}

API void remote_register_buf_attr(void *data, int size, int fd, int attributes) {
    (void)data, (void)attributes;
    note("remote_register_buf_attr fd %d size %d", fd, size);
}
API void remote_register_buf_attr2(void *data, size_t size, int fd, int attributes) {
    (void)data, (void)attributes;
    note("remote_register_buf_attr2 fd %d size %zu", fd, size);
}
API void remote_register_buf(void *data, int size, int fd) {
    remote_register_buf_attr(data, size, fd, 0);
}
API int remote_register_dma_handle(int fd, uint32_t size) {
    note("remote_register_dma_handle fd %d size %u", fd, size);
    return AEE_SUCCESS;
}
API int remote_register_dma_handle_attr(int fd, uint32_t size, uint32_t attributes) {
    (void)attributes;
    return remote_register_dma_handle(fd, size);
}
API int fastrpc_mmap(int domain, int fd, void *data, int offset, size_t size, uint32_t flags) {
    (void)data, (void)flags;
    note("fastrpc_mmap domain %d fd %d offset %d size %zu", domain, fd, offset, size);
    return AEE_SUCCESS;
}
API int fastrpc_munmap(int domain, int fd, void *data, size_t size) {
    (void)data;
    note("fastrpc_munmap domain %d fd %d size %zu", domain, fd, size);
    return AEE_SUCCESS;
}
API int remote_mem_map(int domain, int fd, int flags, uint64_t address, size_t size, uint64_t *remote) {
    (void)domain, (void)fd, (void)flags, (void)size;
    *remote = address;
    return AEE_SUCCESS;
}
API int remote_mem_unmap(int domain, uint64_t address, size_t size) {
    (void)domain, (void)address, (void)size;
    return AEE_SUCCESS;
}
API int remote_set_mode(uint32_t mode) {
    (void)mode;
    return AEE_SUCCESS;
}

/* Handles without a domain, and calls that don't wait: nobody at the other end. */
API int remote_handle_open(const char *name, uint32_t *handle) {
    (void)name, (void)handle;
    return AEE_EUNSUPPORTED;
}
API int remote_handle_invoke(uint32_t handle, uint32_t scalars, void *arguments) {
    (void)handle, (void)scalars, (void)arguments;
    return AEE_EUNSUPPORTED;
}
API int remote_handle_close(uint32_t handle) {
    (void)handle;
    return AEE_SUCCESS;
}
API int remote_handle64_invoke_async(uint64_t handle, void *how, uint32_t scalars, void *arguments) {
    (void)handle, (void)how, (void)scalars, (void)arguments;
    return AEE_EUNSUPPORTED;
}
API int fastrpc_async_get_status(uint64_t job, int timeout, int *result) {
    (void)job, (void)timeout, (void)result;
    return AEE_EUNSUPPORTED;
}
API int fastrpc_release_async_job(uint64_t job) {
    (void)job;
    return AEE_EUNSUPPORTED;
}

/* ---- dspqueue.h: a queue can be made; no packet ever comes back ---- */

API int dspqueue_create(int domain, uint32_t flags, uint32_t request_size, uint32_t response_size,
                        void *packet, void *error, void *context, void **queue) {
    (void)flags, (void)request_size, (void)response_size, (void)packet, (void)error, (void)context;
    note("dspqueue_create domain %d", domain);
    if (refuses("no_session")) return AEE_ECONNREFUSED;
    *queue = &blocks;
    return AEE_SUCCESS;
}
API int dspqueue_close(void *queue) {
    (void)queue;
    return AEE_SUCCESS;
}
API int dspqueue_export(void *queue, uint64_t *id) {
    (void)queue;
    *id = 1;
    return AEE_SUCCESS;
}
API int dspqueue_import(uint64_t id, void *packet, void *error, void *context, void **queue) {
    (void)id, (void)packet, (void)error, (void)context, (void)queue;
    return AEE_EUNSUPPORTED;
}
API int dspqueue_request(void *request) {
    (void)request;
    return AEE_EUNSUPPORTED;
}
API int dspqueue_write_noblock(void *queue, uint32_t flags, uint32_t n, void *buffers, uint32_t size,
                               const uint8_t *message) {
    (void)queue, (void)flags, (void)n, (void)buffers, (void)size, (void)message;
    return AEE_EUNSUPPORTED;
}
API int dspqueue_write(void *queue, uint32_t flags, uint32_t n, void *buffers, uint32_t size,
                       const uint8_t *message, uint32_t timeout_us) {
    (void)timeout_us;
    return dspqueue_write_noblock(queue, flags, n, buffers, size, message);
}
API int dspqueue_read_noblock(void *queue, uint32_t *flags, uint32_t max_buffers, uint32_t *n, void *buffers,
                              uint32_t max_size, uint32_t *size, uint8_t *message) {
    (void)queue, (void)flags, (void)max_buffers, (void)n, (void)buffers, (void)max_size, (void)size,
        (void)message;
    return AEE_EUNSUPPORTED;
}
API int dspqueue_read(void *queue, uint32_t *flags, uint32_t max_buffers, uint32_t *n, void *buffers,
                      uint32_t max_size, uint32_t *size, uint8_t *message, uint32_t timeout_us) {
    (void)timeout_us;
    return dspqueue_read_noblock(queue, flags, max_buffers, n, buffers, max_size, size, message);
}
API int dspqueue_peek_noblock(void *queue, uint32_t *flags, uint32_t *n, uint32_t *size) {
    (void)queue, (void)flags, (void)n, (void)size;
    return AEE_EUNSUPPORTED;
}
API int dspqueue_peek(void *queue, uint32_t *flags, uint32_t *n, uint32_t *size, uint32_t timeout_us) {
    (void)timeout_us;
    return dspqueue_peek_noblock(queue, flags, n, size);
}
API int dspqueue_write_early_wakeup_noblock(void *queue, uint32_t delay, uint32_t flags) {
    (void)queue, (void)delay, (void)flags;
    return AEE_EUNSUPPORTED;
}
API int dspqueue_get_stat(void *queue, uint32_t statistic, uint64_t *value) {
    (void)queue, (void)statistic, (void)value;
    return AEE_EUNSUPPORTED;
}
