/* The HTP device over a stand-in for the library that counts and keeps what it is told: one spill-fill group
 * whatever the order of the files, the same options when contexts are made again, a registration for each
 * distinct buffer, clocks that go back. What the stand-in computes: outputs are bytes of inputs plus one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "qnn/htp.h"

enum { MAX_CONTEXTS = 64, MAX_MEMORY = 64 };

typedef struct registered {
    uintptr_t context;
    int fd;
    uint64_t offset, size;
    uint32_t dims[4];
} registered;

static char calls[8192];
static uint32_t n_contexts, n_live_contexts, n_registered, n_live_memory, n_runs;
static uint32_t fail_context, fail_run, fail_number; /* which of them fails, from 1; 0: none */
static registered memory[MAX_MEMORY];
static uint8_t *rpc_data;
static size_t rpc_size;
static uint32_t n_rpc;

static uint64_t record(const char *format, ...) SW_PRINTF(1, 2);
static uint64_t record(const char *format, ...) {
    size_t used = strlen(calls);
    va_list args;
    va_start(args, format);
    vsnprintf(calls + used, sizeof calls - used, format, args);
    va_end(args);
    strncat(calls, " ", sizeof calls - strlen(calls) - 1);
    return 0;
}

static Qnn_Handle_t handle(uintptr_t n) {
    return (Qnn_Handle_t)n;
}

static uint64_t log_create(QnnLog_Callback_t *callback, uint32_t level, Qnn_Handle_t *log) {
    (void)callback, (void)level;
    *log = handle(1);
    return record("log");
}
static uint64_t log_free(Qnn_Handle_t log) {
    return record("~log%d", log == handle(1) ? 0 : 1);
}
static uint64_t backend_create(Qnn_Handle_t log, const Qnn_Config_t **config, Qnn_Handle_t *backend) {
    (void)log, (void)config;
    *backend = handle(2);
    return record("backend");
}
static uint64_t backend_free(Qnn_Handle_t backend) {
    (void)backend;
    return record("~backend");
}
static uint64_t device_create(Qnn_Handle_t log, const Qnn_Config_t **config, Qnn_Handle_t *device) {
    (void)log, (void)config;
    *device = handle(3);
    return record("device");
}
static uint64_t device_free(Qnn_Handle_t device) {
    (void)device;
    return record("~device");
}

/* context{largest,first}: what the group's registration says; "none" without one. Handles: 101, 102, ... */
static uint64_t from_binary(Qnn_Handle_t backend, Qnn_Handle_t device, const Qnn_Config_t **config,
                            const void *data, uint64_t size, Qnn_Handle_t *context, Qnn_Handle_t profile) {
    assert_ptr_equal(backend, handle(2));
    assert_ptr_equal(device, handle(3));
    assert_null(profile);
    assert_non_null(data);
    if (config[0] == NULL) {
        record("context{none,%u}", (unsigned)size);
    } else {
        assert_null(config[1]);
        assert_int_equal(config[0]->option, 0);
        const unsigned char *bytes = config[0]->customConfig;
        uint32_t option;
        uint64_t first, largest;
        memcpy(&option, bytes, sizeof option);
        memcpy(&first, bytes + 8, sizeof first);
        memcpy(&largest, bytes + 16, sizeof largest);
        assert_int_equal(option, 2);
        record("context{%llu,%llu}", (unsigned long long)largest,
               (unsigned long long)(first == 0 ? 0 : first - 100));
    }
    if (++n_contexts == fail_context) return 1002;
    *context = handle(100 + ++n_live_contexts);
    return 0;
}
static uint64_t context_free(Qnn_Handle_t context, Qnn_Handle_t profile) {
    (void)profile;
    assert_int_equal((uintptr_t)context, 100 + n_live_contexts); /* the last one first */
    n_live_contexts--;
    return record("~context");
}
static uint64_t graph_retrieve(Qnn_Handle_t context, const char *name, Qnn_Handle_t *graph) {
    *graph = handle((uintptr_t)context * 10 + (strcmp(name, "kv_forward") == 0));
    return 0;
}
static uint64_t graph_set_config(Qnn_Handle_t graph, const Qnn_Config_t **config) {
    (void)graph;
    uint32_t words[3];
    float value;
    memcpy(words, config[0]->customConfig, sizeof words);
    memcpy(&value, (const char *)config[0]->customConfig + 12, sizeof value);
    assert_null(config[1]);
    return record("set{%u,%u,%g}", words[0], words[2], (double)value);
}

static uint64_t mem_register(Qnn_Handle_t context, const Qnn_MemDescriptor_t *m, uint32_t count,
                             Qnn_Handle_t *handles) {
    assert_int_equal(count, 1);
    assert_int_equal(m->memType, 2);
    assert_int_equal(m->customInfo->type, 1);
    assert_int_equal(m->customInfo->size, rpc_size);
    assert_true(n_registered < MAX_MEMORY);
    registered *r = &memory[n_registered++];
    *r = (registered){(uintptr_t)context,
                      m->customInfo->sharedBufferConfig.fd,
                      m->customInfo->sharedBufferConfig.offset,
                      1,
                      {0}};
    for (uint32_t i = 0; i < m->memShape.numDim; i++) {
        r->dims[i] = m->memShape.dimSize[i];
        r->size *= m->memShape.dimSize[i];
    }
    assert_true(r->offset + r->size <= rpc_size);
    handles[0] = handle(1000 + n_registered);
    n_live_memory++;
    return 0;
}
static uint64_t mem_deregister(const Qnn_Handle_t *handles, uint32_t count) {
    (void)handles;
    n_live_memory -= count;
    return 0;
}

static const registered *memory_of(const Qnn_Tensor_t *t, uintptr_t context) {
    assert_int_equal(t->v2.memType, 1);
    const registered *r = &memory[(uintptr_t)t->v2.memHandle - 1001];
    assert_int_equal(r->context, context);
    return r;
}
static uint8_t *data_of(const Qnn_Tensor_t *t, uintptr_t context) {
    if (t->v2.memType == 0) return t->v2.clientBuf.data;
    return rpc_data + memory_of(t, context)->offset;
}

static uint64_t graph_execute(Qnn_Handle_t graph, const Qnn_Tensor_t *inputs, uint32_t n_inputs,
                              Qnn_Tensor_t *outputs, uint32_t n_outputs, Qnn_Handle_t profile,
                              Qnn_Handle_t signal) {
    assert_null(signal);
    (void)profile;
    uintptr_t context = (uintptr_t)graph / 10;
    assert_int_equal(n_inputs, 2);
    assert_int_equal(n_outputs, 1);
    assert_int_equal(inputs[0].v2.id, 7); /* the binary's own numbers */
    assert_int_equal(outputs[0].v2.id, 9);
    assert_true(context > 100 && context <= 100 + n_live_contexts);
    if (++n_runs == fail_run) return fail_number;
    for (uint32_t i = 0; i < outputs[0].v2.dimensions[0]; i++)
        data_of(&outputs[0], context)[i] = (uint8_t)(data_of(&inputs[0], context)[i] + 1);
    return 0;
}

static uint64_t create_power(uint32_t device, uint32_t core, uint32_t *id) {
    *id = 77;
    return record("power%u%u", device, core);
}
static uint64_t destroy_power(uint32_t id) {
    return record("~power%u", id);
}
static uint64_t set_power(uint32_t id, const QnnHtpPerfInfrastructure_PowerConfig_t **list) {
    assert_int_equal(id, 77);
    record("vote{");
    for (; *list != NULL; list++) {
        uint32_t w[17];
        memcpy(w, *list, sizeof w); /* 68 bytes: option, then the 16 words of the clocks */
        if (w[0] == 1)
            record("dcvs:%u,mode:%u,sleep:%u,bus:%u-%u,core:%u-%u", w[3], w[4], w[6], w[10], w[12], w[14],
                   w[16]);
        else
            record("%s:%u", w[0] == 2 ? "latency" : "polling", w[1]);
    }
    return record("}");
}
static const QnnHtpDevice_Infrastructure_t infrastructure = {
    .createPowerConfigId = create_power, .destroyPowerConfigId = destroy_power, .setPowerConfig = set_power};
static uint64_t get_infrastructure(const QnnHtpDevice_Infrastructure_t **out) {
    *out = &infrastructure;
    return 0;
}

static const QnnInterface_t interface = {.core = {.logCreate = log_create,
                                                  .logFree = log_free,
                                                  .backendCreate = backend_create,
                                                  .backendFree = backend_free,
                                                  .deviceCreate = device_create,
                                                  .deviceFree = device_free,
                                                  .contextCreateFromBinary = from_binary,
                                                  .contextFree = context_free,
                                                  .graphRetrieve = graph_retrieve,
                                                  .graphSetConfig = graph_set_config,
                                                  .graphExecute = graph_execute,
                                                  .memRegister = mem_register,
                                                  .memDeRegister = mem_deregister,
                                                  .deviceGetInfrastructure = get_infrastructure}};
static const sw_qnn_library library = {.htp = &interface};

static void *rpc_alloc(int heap, uint32_t flags, int size) {
    assert_int_equal(heap, 25);
    assert_int_equal(flags, 1);
    assert_null(rpc_data);
    n_rpc++;
    rpc_size = (size_t)size;
    return rpc_data = aligned_alloc(4096, (rpc_size + 4095) / 4096 * 4096);
}
static void rpc_free(void *data) {
    assert_ptr_equal(data, rpc_data);
    free(data);
    rpc_data = NULL;
}
static int rpc_fd(void *data) {
    assert_ptr_equal(data, rpc_data);
    return 5;
}
static const sw_rpcmem rpcmem = {rpc_alloc, rpc_free, rpc_fd}, no_rpcmem;

static sw_error err;
static sw_arena arena;

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static int reset(void **state) {
    (void)state;
    calls[0] = '\0';
    n_contexts = n_live_contexts = n_registered = n_live_memory = n_runs = n_rpc = 0;
    fail_context = fail_run = fail_number = 0;
    return 0;
}

static int finish(void **state) {
    (void)state;
    assert_int_equal(n_live_contexts, 0);
    assert_int_equal(n_live_memory, 0);
    assert_null(rpc_data);
    sw_arena_free(&arena);
    return 0;
}

/* ---- A model of n shards: x u8 [length], cache u8 [1, 2, length, 4] -> y u8 [length] ---- */

static sw_graph *make_graph(const char *name, uint32_t shard, uint32_t length) {
    static const char *const names[] = {"x", "cache", "y"};
    sw_graph *g = sw_graph_create(&arena, name, 1, length);
    assert_non_null(g);
    g->shard = shard;
    for (uint32_t i = 0; i < 3; i++) {
        sw_tensor *t = sw_arena_alloc(&arena, sizeof *t);
        *t = (sw_tensor){.name = names[i], .range = names[i], .dtype = SW_U8, .encoding = {0.5f, -3}};
        t->kind = i == 2 ? SW_TENSOR_OUTPUT : SW_TENSOR_INPUT;
        t->rank = i == 1 ? 4 : 1;
        memcpy(t->dims, i == 1 ? (uint32_t[4]){1, 2, length, 4} : (uint32_t[4]){length, 0, 0, 0},
               sizeof t->dims);
        assert_true(sw_graph_add_tensor(g, t) != UINT32_MAX);
    }
    assert_true(sw_graph_seal(g));
    return g;
}

static sw_binary_tensor *describe(const sw_graph *g, const uint32_t *indices, uint32_t n, uint32_t first_id) {
    sw_binary_tensor *list = sw_arena_array(&arena, n, sizeof *list);
    for (uint32_t i = 0; i < n; i++) {
        const sw_tensor *t = g->tensors[indices[i]];
        list[i] = (sw_binary_tensor){.name = t->name,
                                     .id = first_id + i,
                                     .rank = t->rank,
                                     .known = true,
                                     .dtype = t->dtype,
                                     .has_encoding = true,
                                     .encoding = t->encoding};
        memcpy(list[i].dims, t->dims, sizeof t->dims);
    }
    return list;
}

typedef struct model {
    sw_graph *graphs[8][2];
    sw_htp_binary binaries[8];
    uint32_t n;
} model;

static void make_model(model *m, uint32_t n, const uint64_t spills[][2], uint32_t length) {
    static const char *const names[] = {"prefill_forward", "kv_forward"};
    *m = (model){.n = n};
    for (uint32_t i = 0; i < n; i++) {
        sw_binary_info *info = sw_arena_alloc(&arena, sizeof *info);
        info->n_graphs = 2;
        info->graphs = sw_arena_array(&arena, 2, sizeof *info->graphs);
        for (uint32_t k = 0; k < 2; k++) {
            sw_graph *g = m->graphs[i][k] = make_graph(names[k], i, length);
            info->graphs[k] = (sw_binary_graph){.name = names[k],
                                                .inputs = describe(g, g->inputs, 2, 7),
                                                .outputs = describe(g, g->outputs, 1, 9),
                                                .n_inputs = 2,
                                                .n_outputs = 1,
                                                .has_blob = true,
                                                .spill_fill_bytes = spills[i][k]};
        }
        m->binaries[i] = (sw_htp_binary){.file = "context.bin", .data = "binary", .size = 6, .info = info};
    }
}

static sw_code open_device(sw_device **out, const model *m, const sw_htp_options *options) {
    return sw_htp_device_load(out, &library, sw_soc_find("SM8750"), m->binaries, m->n, options, &err);
}

static void close_device(sw_device *device) {
    device->ops->destroy(device);
}

/* ---- Groups ---- */

static const uint64_t no_spill[4][2];

static void the_largest_need_is_asked_for_in_any_order(void **state) {
    (void)state;
    enum { BIG = 1835008 };
    static const struct {
        uint64_t spills[4][2];
        const char *contexts, *line;
    } cases[] = {
        {{{BIG, 0}, {10, 20}, {0, 0}, {4096, 0}},
         "context{1835008,0} context{1835008,1} context{1835008,1} context{1835008,1} ",
         "shard 0 prefill_forward"},
        {{{10, 20}, {BIG, 0}, {4096, 0}, {0, 0}},
         "context{1835008,0} context{1835008,1} context{1835008,1} context{1835008,1} ",
         "shard 1 prefill_forward"},
        {{{0, 0}, {4096, 0}, {10, 20}, {0, BIG}},
         "context{1835008,0} context{1835008,1} context{1835008,1} context{1835008,1} ",
         "shard 3 kv_forward"},
        {{{0, 0}, {0, 0}, {0, 0}, {0, 0}},
         "context{none,6} context{none,6} context{none,6} context{none,6} ",
         NULL},
        /* More than 32 bits hold. */
        {{{1, 1}, {0x123456789a, 0}, {0, 0}, {0, 0}},
         "context{78187493530,0} context{78187493530,1} context{78187493530,1} context{78187493530,1} ",
         "shard 1 prefill_forward"},
    };
    const sw_htp_options options = {.rpcmem = &no_rpcmem};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model m;
        sw_device *device;
        uint32_t shard = 99;
        const char *graph = NULL;
        char label[64];
        reset(NULL);
        make_model(&m, 4, cases[i].spills, 16);
        OK(open_device(&device, &m, &options));
        if (strstr(calls, cases[i].contexts) == NULL) fail_msg("%zu: %s", i, calls);
        close_device(device);
        uint64_t largest = sw_htp_largest_spill(m.binaries, 4, &shard, &graph);
        assert_int_equal(largest > 0, cases[i].line != NULL);
        if (largest == 0) continue;
        snprintf(label, sizeof label, "shard %u %s", shard, graph);
        assert_string_equal(label, cases[i].line);
    }
}

static void nothing_outlives_a_device(void **state) {
    (void)state;
    static const uint64_t spills[2][2] = {{100, 0}, {50, 0}};
    const sw_htp_options options = {.rpcmem = &no_rpcmem};
    model m;
    sw_device *first, *second;
    make_model(&m, 2, spills, 16);
    for (int turn = 0; turn < 2; turn++) { /* the second model's group starts with a handle of 0 again */
        calls[0] = '\0';
        OK(open_device(&first, &m, &options));
        assert_non_null(strstr(calls, "context{100,0} context{100,1} "));
        close_device(first);
    }
    make_model(&m, 1, spills + 1, 16);
    calls[0] = '\0';
    OK(open_device(&second, &m, &options));
    assert_non_null(strstr(calls, "context{50,0} "));
    close_device(second);
}

static void a_context_that_fails_leaves_nothing_open(void **state) {
    (void)state;
    static const uint64_t spills[3][2] = {{100, 0}, {50, 0}, {0, 0}};
    const sw_htp_options options = {.rpcmem = &no_rpcmem};
    model m;
    sw_device *device;
    make_model(&m, 3, spills, 16);
    for (uint32_t i = 1; i <= 3; i++) {
        char want[96];
        reset(NULL);
        fail_context = i;
        assert_int_equal(open_device(&device, &m, &options), SW_LIBRARY);
        snprintf(want, sizeof want, "context.bin: loading the context of shard %u of 3: QNN error 1002",
                 i - 1);
        if (strstr(err.message, want) != err.message) fail_msg("%s", err.message);
        assert_int_equal(n_live_contexts, 0);
        /* The clocks go back, and all that was made is undone, in reverse order. */
        const char *vote = strstr(calls, "vote{ dcvs:1,mode:1,sleep:0,bus:16-16,core:16-16");
        assert_non_null(vote);
        assert_non_null(strstr(vote, "~power77 ~device ~backend ~log0 "));
    }
}

/* ---- Memory ---- */

/* Both graphs of both shards over the same buffers, several times. */
static uint32_t count_registrations(uint32_t length) {
    const sw_htp_options options = {.rpcmem = &rpcmem};
    model m;
    sw_device *device;
    sw_program *programs[2][2];
    reset(NULL);
    make_model(&m, 2, no_spill, length);
    OK(open_device(&device, &m, &options));
    size_t bytes = 12 * (size_t)length;
    uint8_t *block = device->ops->allocate(device, bytes);
    assert_ptr_equal(block, rpc_data);
    for (size_t i = 0; i < bytes; i++) assert_int_equal(block[i], 0);
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < 2; k++) OK(device->ops->load(device, m.graphs[i][k], &programs[i][k], &err));
    for (uint32_t turn = 0; turn < 20; turn++)
        for (uint32_t i = 0; i < 2; i++)
            for (uint32_t k = 0; k < 2; k++) {
                const sw_binding inputs[2] = {{.data = block}, {.data = block + 2 * length}};
                const sw_binding output = {.data = block + length};
                block[3] = (uint8_t)turn;
                OK(device->ops->execute(programs[i][k], inputs, &output, NULL, NULL, &err));
                assert_int_equal(block[length + 3], turn + 1);
            }
    uint32_t n = n_registered;
    for (uint32_t i = 0; i < n; i++) assert_int_equal(memory[i].fd, 5);
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < 2; k++) device->ops->unload(programs[i][k]);
    device->ops->release(device, block, bytes);
    close_device(device);
    assert_int_equal(n_rpc, 1);
    return n;
}

static void registrations_are_those_of_distinct_buffers(void **state) {
    (void)state;
    uint32_t n = count_registrations(128);
    assert_int_equal(n, 2 * 3); /* x, cache, y, with each of two contexts */
    assert_int_equal(count_registrations(4096), n);
}

static void plain_memory_is_handed_over_as_it_is(void **state) {
    (void)state;
    const sw_htp_options options = {.rpcmem = &no_rpcmem};
    model m;
    sw_device *device;
    sw_program *program;
    uint8_t x[16] = {5}, y[16], cache[128];
    make_model(&m, 1, no_spill, 16);
    OK(open_device(&device, &m, &options));
    assert_null(device->ops->allocate(device, 100));
    OK(device->ops->load(device, m.graphs[0][1], &program, &err));
    const sw_binding inputs[2] = {{.data = x}, {.data = cache}}, output = {.data = y};
    OK(device->ops->execute(program, inputs, &output, NULL, NULL, &err));
    assert_int_equal(y[0], 6);
    assert_int_equal(n_registered, 0);
    const sw_binding nothing[2] = {{.data = x}, {.data = NULL}};
    assert_int_equal(device->ops->execute(program, nothing, &output, NULL, NULL, &err), SW_INVALID_ARGUMENT);
    device->ops->unload(program);
    close_device(device);
}

/* ---- Recovery ---- */

static void after_a_restart_of_the_dsp_all_is_as_it_was(void **state) {
    (void)state;
    static const uint64_t spills[2][2] = {{100, 0}, {300, 0}};
    static const uint32_t numbers[] = {1007, 1011};
    const sw_htp_options options = {.rpcmem = &rpcmem, .perf = SW_PERF_BALANCED, .force_slc_off = true};
    for (size_t i = 0; i < 2; i++) {
        model m;
        sw_device *device;
        sw_program *program;
        char first[sizeof calls];
        reset(NULL);
        make_model(&m, 2, spills, 16);
        OK(open_device(&device, &m, &options));
        OK(device->ops->load(device, m.graphs[1][0], &program, &err));
        memcpy(first, calls, sizeof first);
        assert_non_null(strstr(first, "context{300,0} context{300,1} set{1,7,0} "));
        uint8_t *block = device->ops->allocate(device, 160);
        const sw_binding inputs[2] = {{.data = block}, {.data = block + 32}}, output = {.data = block + 16};
        OK(device->ops->execute(program, inputs, &output, NULL, NULL, &err));
        uint32_t registered_before = n_registered;

        calls[0] = '\0';
        fail_run = n_runs + 1, fail_number = numbers[i];
        block[0] = 41;
        OK(device->ops->execute(program, inputs, &output, NULL, NULL, &err));
        assert_int_equal(block[16], 42);
        char *again = strstr(calls, "~log0 ");
        assert_non_null(again);
        assert_string_equal(again + strlen("~log0 "), first); /* session, clocks, contexts, options */
        assert_int_equal(n_registered, 2 * registered_before);
        assert_int_equal(n_live_memory, registered_before);
        assert_int_equal(n_live_contexts, 2);
        device->ops->unload(program);
        device->ops->release(device, block, 160);
        close_device(device);
    }
}

static void a_run_is_repeated_once_and_only_then(void **state) {
    (void)state;
    const sw_htp_options options = {.rpcmem = &no_rpcmem};
    model m;
    sw_device *device;
    sw_program *program;
    uint8_t x[16] = {5}, y[16], cache[128];
    const sw_binding inputs[2] = {{.data = x}, {.data = cache}}, output = {.data = y};
    make_model(&m, 1, no_spill, 16);
    OK(open_device(&device, &m, &options));
    OK(device->ops->load(device, m.graphs[0][1], &program, &err));
    fail_run = 1, fail_number = 6004; /* no restart: no second try */
    assert_int_equal(device->ops->execute(program, inputs, &output, NULL, NULL, &err), SW_LIBRARY);
    assert_non_null(strstr(err.message, "running graph kv_forward of shard 0: QNN error 6004"));
    assert_int_equal(n_runs, 1);
    assert_int_equal(n_contexts, 1);
    fail_run = 2, fail_number = 1011;
    fail_context = 2; /* and the contexts can't be made again */
    assert_int_equal(device->ops->execute(program, inputs, &output, NULL, NULL, &err), SW_LIBRARY);
    assert_non_null(strstr(err.message, "loading the context of shard 0 of 1: QNN error 1002"));
    OK(device->ops->execute(program, inputs, &output, NULL, NULL, &err)); /* later they can */
    assert_int_equal(n_contexts, 3);
    device->ops->unload(program);
    close_device(device);
}

/* ---- Clocks ---- */

static void clocks_are_set_and_go_back(void **state) {
    (void)state;
    static const char *const votes[SW_PERF_MODE_COUNT] = {
        [SW_PERF_BURST] = "dcvs:0,mode:16,sleep:40,bus:160-160,core:160-160 latency:100 polling:9999",
        [SW_PERF_BALANCED] = "dcvs:1,mode:1,sleep:1000,bus:96-112,core:96-112 latency:0 polling:0",
        [SW_PERF_LOW_POWER] = "dcvs:1,mode:4,sleep:2000,bus:48-64,core:48-64 latency:0 polling:0"};
    for (unsigned mode = 0; mode < SW_PERF_MODE_COUNT; mode++) {
        const sw_htp_options options = {.rpcmem = &no_rpcmem, .perf = (sw_htp_perf_mode)mode};
        model m;
        sw_device *device;
        char want[512];
        reset(NULL);
        make_model(&m, 1, no_spill, 16);
        OK(open_device(&device, &m, &options));
        close_device(device);
        snprintf(want, sizeof want,
                 "log backend device power00 vote{ %s } context{none,6} ~context "
                 "vote{ dcvs:1,mode:1,sleep:0,bus:16-16,core:16-16 latency:0 polling:0 } ~power77 ~device "
                 "~backend ~log0 ",
                 votes[mode]);
        assert_string_equal(calls, want);
    }
}

/* ---- What doesn't fit ---- */

static void binaries_of_another_graph_are_refused(void **state) {
    (void)state;
    const sw_htp_options options = {.rpcmem = &no_rpcmem};
    model m;
    sw_device *device;
    sw_program *program;
    make_model(&m, 1, no_spill, 16);
    OK(open_device(&device, &m, &options));
    sw_graph *g = m.graphs[0][0];
    sw_binary_graph *b = &m.binaries[0].info->graphs[0];
    struct {
        void *field;
        uint32_t value;
        const char *message;
    } cases[] = {
        {&b->inputs[1].dims[2], 15, "`cache` of prefill_forward has another type or shape in the binary"},
        {&b->inputs[0].dtype, SW_U16, "`x` of prefill_forward has another type or shape in the binary"},
        {&b->outputs[0].encoding.offset, 3,
         "`y` of prefill_forward has scale 0.5, offset 3 in the binary, but"},
        {&b->n_inputs, 1, "prefill_forward has 1 inputs or outputs, in the bundle's graph 2"},
        {&g->shard, 1, "is of shard 1, but there are 1 context binaries"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t was;
        memcpy(&was, cases[i].field, sizeof was);
        memcpy(cases[i].field, &cases[i].value, sizeof was);
        assert_int_equal(device->ops->load(device, g, &program, &err), SW_BAD_DATA);
        if (strstr(err.message, cases[i].message) == NULL) fail_msg("%s", err.message);
        memcpy(cases[i].field, &was, sizeof was);
    }
    b->name = "other";
    assert_int_equal(device->ops->load(device, g, &program, &err), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "context.bin: has no graph `prefill_forward`"));
    close_device(device);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, reset, finish)
    const struct CMUnitTest tests[] = {
        TEST(the_largest_need_is_asked_for_in_any_order), TEST(nothing_outlives_a_device),
        TEST(a_context_that_fails_leaves_nothing_open),   TEST(registrations_are_those_of_distinct_buffers),
        TEST(plain_memory_is_handed_over_as_it_is),       TEST(after_a_restart_of_the_dsp_all_is_as_it_was),
        TEST(a_run_is_repeated_once_and_only_then),       TEST(clocks_are_set_and_go_back),
        TEST(binaries_of_another_graph_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
