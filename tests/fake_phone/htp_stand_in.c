/* htp_stand_in.c: a libQnnHtp.so for the emulated phone: QNN's function table, and behind it the CPU device.
 * So the runner's whole way can be gone, with real context binaries and Qualcomm's own libQnnSystem.so, up to
 * the text of a reply. It computes the graphs of graph.json in the folder that the context binary lies in,
 * and counts.
 *
 * With FAKE_PHONE_LOG a file gets a line for each context, and the counts at the end. FAKE_PHONE
 * "dead_context": making a context fails as it does where the DSP has no room (1002). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "bundle/bundle.h"
#include "cpu/cpu.h"
#include "qnn/api.h"

enum { ERROR_MEMORY = 1002, ERROR_ARGUMENT = 1001, FAILED = 6000, MAX_MEMORY = 4096, MAX_BORDER = 1024 };

/* The build that the emulated phone's libraries are of; deploy looks for it in every library. */
static const char build_id[] = "v2.51.0.260929181845";

typedef struct context {
    sw_bundle bundle; /* opened again for each context */
    uint32_t shard;
} context;

typedef struct graph {
    const sw_graph *graph;
    sw_program *program;
} graph;

typedef struct memory {
    uint8_t *map; /* of the whole buffer; NULL: free */
    size_t size, offset;
} memory;

static sw_device *cpu;
static memory memories[MAX_MEMORY];
static unsigned n_registered, n_executed, n_contexts, n_votes, n_slc_off;

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

/* ---- What is there to be called ---- */

static Qnn_ErrorHandle_t log_create(QnnLog_Callback_t *callback, uint32_t level, Qnn_Handle_t *log) {
    (void)callback, (void)level;
    *log = &memories;
    return 0;
}
static Qnn_ErrorHandle_t log_set_level(Qnn_Handle_t log, uint32_t level) {
    (void)log, (void)level;
    return 0;
}
static Qnn_ErrorHandle_t log_free(Qnn_Handle_t log) {
    (void)log;
    return 0;
}
static Qnn_ErrorHandle_t backend_create(Qnn_Handle_t log, const Qnn_Config_t **config,
                                        Qnn_Handle_t *backend) {
    (void)log, (void)config;
    sw_error err;
    if (sw_cpu_device_create(&cpu, NULL, &err) != SW_OK) return ERROR_MEMORY;
    *backend = cpu;
    return 0;
}
static Qnn_ErrorHandle_t backend_free(Qnn_Handle_t backend) {
    (void)backend;
    cpu->ops->destroy(cpu);
    note("%u contexts, %u memory registrations, %u runs, %u votes for clocks, %u graphs with the SLC off",
         n_contexts, n_registered, n_executed, n_votes, n_slc_off);
    return 0;
}
static Qnn_ErrorHandle_t backend_build_id(const char **id) {
    *id = build_id;
    return 0;
}
static Qnn_ErrorHandle_t device_create(Qnn_Handle_t log, const Qnn_Config_t **config, Qnn_Handle_t *device) {
    (void)log, (void)config;
    *device = &n_contexts;
    return 0;
}
static Qnn_ErrorHandle_t device_free(Qnn_Handle_t device) {
    (void)device;
    return 0;
}

static const QnnHtpDevice_DeviceInfoExtension_t sm8750 = {
    .onChipDevice = {.vtcmSize = 8, .socModel = 69, .signedPdSupport = 1, .arch = 79}};
static const QnnDevice_HardwareDeviceInfo_t hardware = {
    .version = 1, .v1 = {.numCores = 1, .deviceInfoExtension = &sm8750}};
static const QnnDevice_PlatformInfo_t platform = {.version = 1,
                                                  .v1 = {.numHwDevices = 1, .hwDevices = &hardware}};

static Qnn_ErrorHandle_t platform_get(Qnn_Handle_t log, const QnnDevice_PlatformInfo_t **info) {
    (void)log;
    *info = &platform;
    return 0;
}
static Qnn_ErrorHandle_t platform_free(Qnn_Handle_t log, const QnnDevice_PlatformInfo_t *info) {
    (void)log, (void)info;
    return 0;
}

static Qnn_ErrorHandle_t power_create(uint32_t device, uint32_t core, uint32_t *id) {
    (void)device, (void)core;
    *id = 1;
    return 0;
}
static Qnn_ErrorHandle_t power_destroy(uint32_t id) {
    (void)id;
    return 0;
}
static Qnn_ErrorHandle_t power_set(uint32_t id, const QnnHtpPerfInfrastructure_PowerConfig_t **config) {
    (void)id, (void)config;
    n_votes++;
    return 0;
}
static const QnnHtpDevice_Infrastructure_t infrastructure = {
    .createPowerConfigId = power_create, .destroyPowerConfigId = power_destroy, .setPowerConfig = power_set};
static Qnn_ErrorHandle_t infrastructure_get(const QnnHtpDevice_Infrastructure_t **out) {
    *out = &infrastructure;
    return 0;
}

/* ---- Contexts and graphs ---- */

/* The file that is mapped at an address: the bundle's folder is where it lies. */
static int find_file(const void *address, char path[4096]) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[8192];
    int found = 0;
    while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL) {
        unsigned long begin, end;
        found = sscanf(line, "%lx-%lx %*s %*s %*s %*s %4095s", &begin, &end, path) == 3 && path[0] == '/' &&
                (unsigned long)(uintptr_t)address >= begin && (unsigned long)(uintptr_t)address < end;
    }
    if (maps != NULL) fclose(maps);
    return found;
}

static Qnn_ErrorHandle_t context_load(Qnn_Handle_t backend, Qnn_Handle_t device, const Qnn_Config_t **config,
                                      const void *data, uint64_t size, Qnn_Handle_t *out,
                                      Qnn_Handle_t profile) {
    (void)backend, (void)device, (void)profile;
    const char *fails = getenv("FAKE_PHONE");
    if (fails != NULL && strstr(fails, "dead_context") != NULL) return ERROR_MEMORY;
    char path[4096];
    if (!find_file(data, path)) return ERROR_ARGUMENT;
    char *name = strrchr(path, '/');
    *name++ = '\0';
    context *c = calloc(1, sizeof *c);
    sw_error err;
    if (c == NULL || sw_bundle_open(&c->bundle, path, &err) != SW_OK) return ERROR_ARGUMENT;
    for (;; c->shard++) {
        const sw_part *part = sw_bundle_part(&c->bundle, SW_PART_CONTEXT, c->shard);
        if (part == NULL) return ERROR_ARGUMENT;
        if (strcmp(part->path, name) == 0) break;
    }
    const QnnHtpContext_CustomConfig_t *group =
        config != NULL && *config != NULL ? (*config)->customConfig : NULL;
    note("context %u: %llu bytes, spill-fill group %s, %llu bytes", c->shard, (unsigned long long)size,
         group == NULL                             ? "none"
         : group->u.group.firstGroupHandle == NULL ? "begins"
                                                   : "goes on",
         group != NULL ? (unsigned long long)group->u.group.maxSpillFillBuffer : 0);
    n_contexts++;
    *out = c;
    return 0;
}

static Qnn_ErrorHandle_t context_free(Qnn_Handle_t handle, Qnn_Handle_t profile) {
    (void)profile;
    context *c = handle;
    sw_bundle_close(&c->bundle);
    free(c);
    return 0;
}

static Qnn_ErrorHandle_t graph_retrieve(Qnn_Handle_t handle, const char *name, Qnn_Handle_t *out) {
    const context *c = handle;
    const sw_decoder *d = &c->bundle.decoder;
    for (uint32_t i = 0; i < d->n_graphs; i++) {
        if (d->graphs[i]->shard != c->shard || strcmp(d->graphs[i]->name, name) != 0) continue;
        graph *g = calloc(1, sizeof *g);
        sw_error err;
        if (g == NULL) return ERROR_MEMORY;
        g->graph = d->graphs[i];
        if (cpu->ops->load(cpu, g->graph, &g->program, &err) != SW_OK) {
            note("graph %s: %s", name, err.message);
            return FAILED;
        }
        *out = g;
        return 0;
    }
    return FAILED;
}

static Qnn_ErrorHandle_t graph_set_config(Qnn_Handle_t handle, const Qnn_Config_t **config) {
    (void)handle, (void)config;
    n_slc_off++;
    return 0;
}

/* Where a tensor's values are: in the caller's buffer, or at a place of a registered one. */
static void *place(const Qnn_Tensor_t *t) {
    if (t->v2.memType == QNN_TENSORMEMTYPE_RAW) return t->v2.clientBuf.data;
    const memory *m = t->v2.memHandle;
    return m->map + m->offset;
}

static int bind(const sw_graph *g, const uint32_t *indices, uint32_t n, const Qnn_Tensor_t *tensors,
                uint32_t n_tensors, sw_binding *out) {
    for (uint32_t i = 0; i < n; i++) {
        const sw_tensor *t = g->tensors[indices[i]];
        uint32_t k = 0;
        while (k < n_tensors && strcmp(tensors[k].v2.name, t->name) != 0) k++;
        if (k == n_tensors) return 0;
        out[i] = (sw_binding){.data = place(&tensors[k])};
        if (tensors[k].v2.memType == QNN_TENSORMEMTYPE_RAW &&
            tensors[k].v2.clientBuf.dataSize != sw_tensor_bytes(t))
            return 0;
    }
    return 1;
}

static Qnn_ErrorHandle_t graph_execute(Qnn_Handle_t handle, const Qnn_Tensor_t *inputs, uint32_t n_inputs,
                                       Qnn_Tensor_t *outputs, uint32_t n_outputs, Qnn_Handle_t profile,
                                       Qnn_Handle_t signal) {
    (void)profile, (void)signal;
    const graph *g = handle;
    sw_binding in[MAX_BORDER], out[MAX_BORDER];
    sw_error err;
    if (g->graph->n_inputs > MAX_BORDER || g->graph->n_outputs > MAX_BORDER ||
        !bind(g->graph, g->graph->inputs, g->graph->n_inputs, inputs, n_inputs, in) ||
        !bind(g->graph, g->graph->outputs, g->graph->n_outputs, outputs, n_outputs, out))
        return ERROR_ARGUMENT;
    n_executed++;
    return cpu->ops->execute(g->program, in, out, NULL, NULL, &err) == SW_OK ? 0 : FAILED;
}

/* ---- Shared memory: the file descriptor is mapped, as the DSP would ---- */

static Qnn_ErrorHandle_t memory_register(Qnn_Handle_t handle, const Qnn_MemDescriptor_t *list, uint32_t count,
                                         Qnn_Handle_t *out) {
    (void)handle;
    for (uint32_t i = 0; i < count; i++) {
        memory *m = memories;
        while (m < memories + MAX_MEMORY && m->map != NULL) m++;
        if (m == memories + MAX_MEMORY) return ERROR_MEMORY;
        const QnnMemHtp_Descriptor_t *d = list[i].customInfo;
        void *map = mmap(NULL, d->size, PROT_READ | PROT_WRITE, MAP_SHARED, d->sharedBufferConfig.fd, 0);
        if (map == MAP_FAILED) return ERROR_MEMORY;
        *m = (memory){map, d->size, d->sharedBufferConfig.offset};
        out[i] = m;
        n_registered++;
    }
    return 0;
}

static Qnn_ErrorHandle_t memory_deregister(const Qnn_Handle_t *handles, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        memory *m = handles[i];
        munmap(m->map, m->size);
        *m = (memory){0};
    }
    return 0;
}

/* ---- Profiles: made, and empty ---- */

static Qnn_ErrorHandle_t profile_create(Qnn_Handle_t backend, uint32_t level, Qnn_Handle_t *profile) {
    (void)backend, (void)level;
    *profile = &n_executed;
    return 0;
}
static Qnn_ErrorHandle_t profile_events(Qnn_Handle_t profile, const uint64_t **events, uint32_t *count) {
    (void)profile;
    *events = NULL, *count = 0;
    return 0;
}
static Qnn_ErrorHandle_t profile_free(Qnn_Handle_t profile) {
    (void)profile;
    return 0;
}

static const QnnInterface_t interface = {.backendId = QNN_BACKEND_ID_HTP,
                                         .providerName = "HTP_STAND_IN",
                                         .coreApiVersion = {QNN_CORE_MAJOR, QNN_CORE_MINOR_LEAST, 0},
                                         .core = {.backendCreate = backend_create,
                                                  .backendGetBuildId = backend_build_id,
                                                  .backendFree = backend_free,
                                                  .contextCreateFromBinary = context_load,
                                                  .contextFree = context_free,
                                                  .graphSetConfig = graph_set_config,
                                                  .graphRetrieve = graph_retrieve,
                                                  .graphExecute = graph_execute,
                                                  .logCreate = log_create,
                                                  .logSetLogLevel = log_set_level,
                                                  .logFree = log_free,
                                                  .profileCreate = profile_create,
                                                  .profileGetEvents = profile_events,
                                                  .profileFree = profile_free,
                                                  .memRegister = memory_register,
                                                  .memDeRegister = memory_deregister,
                                                  .deviceGetPlatformInfo = platform_get,
                                                  .deviceFreePlatformInfo = platform_free,
                                                  .deviceGetInfrastructure = infrastructure_get,
                                                  .deviceCreate = device_create,
                                                  .deviceFree = device_free}};

__attribute__((visibility("default"))) Qnn_ErrorHandle_t
QnnInterface_getProviders(const QnnInterface_t ***list, uint32_t *count);
Qnn_ErrorHandle_t QnnInterface_getProviders(const QnnInterface_t ***list, uint32_t *count) {
    static const QnnInterface_t *providers[] = {&interface};
    *list = providers;
    *count = 1;
    return 0;
}
