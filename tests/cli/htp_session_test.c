/* A session on the HTP device, over a stand-in for the library that counts registrations: every input and
 * output lies in the one shared block, and the number of registrations doesn't grow with context or calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/verify.h"
#include "qnn/htp.h"
#include "runtime/session.h"
#include "tiny_model.h"

enum { LAYERS = 4, SHARDS = 2, VOCAB = 96 };

static uint32_t n_registered, n_live, n_allocated, n_runs;
static uintptr_t n_contexts;
static size_t block_bytes;
static sw_error err;

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

/* ---- The stand-in ---- */

static uint64_t make(Qnn_Handle_t *out) {
    *out = (Qnn_Handle_t)(uintptr_t)1;
    return 0;
}
static uint64_t log_create(QnnLog_Callback_t *callback, uint32_t level, Qnn_Handle_t *out) {
    (void)callback, (void)level;
    return make(out);
}
static uint64_t backend_create(Qnn_Handle_t log, const Qnn_Config_t **config, Qnn_Handle_t *out) {
    (void)log, (void)config;
    return make(out);
}
static uint64_t give_up(Qnn_Handle_t handle) {
    (void)handle;
    return 0;
}
static uint64_t from_binary(Qnn_Handle_t backend, Qnn_Handle_t device, const Qnn_Config_t **config,
                            const void *data, uint64_t size, Qnn_Handle_t *context, Qnn_Handle_t profile) {
    (void)backend, (void)device, (void)config, (void)data, (void)size, (void)profile;
    *context = (Qnn_Handle_t)(uintptr_t)(1000 + n_contexts++);
    return 0;
}
static uint64_t context_free(Qnn_Handle_t context, Qnn_Handle_t profile) {
    (void)context, (void)profile;
    return 0;
}
static uint64_t graph_retrieve(Qnn_Handle_t context, const char *name, Qnn_Handle_t *graph) {
    (void)context, (void)name;
    return make(graph);
}
static uint64_t no_infrastructure(const QnnHtpDevice_Infrastructure_t **out) {
    (void)out;
    return 1000;
}
static uint64_t mem_register(Qnn_Handle_t context, const Qnn_MemDescriptor_t *m, uint32_t count,
                             Qnn_Handle_t *out) {
    (void)context;
    assert_int_equal(count, 1);
    assert_int_equal(m->customInfo->sharedBufferConfig.offset % SW_BUFFER_ALIGNMENT, 0);
    assert_true(m->customInfo->sharedBufferConfig.offset < block_bytes);
    n_registered++, n_live++;
    return make(out);
}
static uint64_t mem_deregister(const Qnn_Handle_t *handles, uint32_t count) {
    (void)handles;
    n_live -= count;
    return 0;
}
static uint64_t graph_execute(Qnn_Handle_t graph, const Qnn_Tensor_t *inputs, uint32_t n_inputs,
                              Qnn_Tensor_t *outputs, uint32_t n_outputs, Qnn_Handle_t profile,
                              Qnn_Handle_t signal) {
    (void)graph, (void)profile, (void)signal;
    n_runs++;
    for (uint32_t i = 0; i < n_inputs; i++) assert_int_equal(inputs[i].v2.memType, 1);
    for (uint32_t i = 0; i < n_outputs; i++) assert_int_equal(outputs[i].v2.memType, 1);
    return 0;
}
static const QnnInterface_t interface = {.core = {.logCreate = log_create,
                                                  .logFree = give_up,
                                                  .backendCreate = backend_create,
                                                  .backendFree = give_up,
                                                  .deviceCreate = backend_create,
                                                  .deviceFree = give_up,
                                                  .contextCreateFromBinary = from_binary,
                                                  .contextFree = context_free,
                                                  .graphRetrieve = graph_retrieve,
                                                  .graphExecute = graph_execute,
                                                  .memRegister = mem_register,
                                                  .memDeRegister = mem_deregister,
                                                  .deviceGetInfrastructure = no_infrastructure}};
static const sw_qnn_library library = {.htp = &interface};

static void *rpc_alloc(int heap, uint32_t flags, int size) {
    (void)heap, (void)flags;
    n_allocated++;
    block_bytes = (size_t)size;
    return aligned_alloc(4096, ((size_t)size + 4095) / 4096 * 4096);
}
static int rpc_fd(void *data) {
    return data != NULL ? 3 : -1;
}
static const sw_rpcmem rpcmem = {rpc_alloc, free, rpc_fd};

/* ---- A float decoder, and the binaries that say they hold it ---- */

static sw_binary_tensor *describe(sw_arena *arena, const sw_graph *g, const uint32_t *indices, uint32_t n) {
    sw_binary_tensor *list = sw_arena_array(arena, n, sizeof *list);
    for (uint32_t i = 0; i < n; i++) {
        const sw_tensor *t = g->tensors[indices[i]];
        list[i] =
            (sw_binary_tensor){.name = t->name, .id = i, .rank = t->rank, .known = true, .dtype = t->dtype};
        memcpy(list[i].dims, t->dims, sizeof t->dims);
    }
    return list;
}

static void describe_all(sw_arena *arena, const sw_decoder *d, sw_htp_binary *binaries) {
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        sw_binary_info *info = sw_arena_alloc(arena, sizeof *info);
        info->n_graphs = sw_decoder_kinds(d);
        info->graphs = sw_arena_array(arena, info->n_graphs, sizeof *info->graphs);
        for (uint32_t k = 0; k < info->n_graphs; k++) {
            const sw_graph *g = sw_decoder_graph(d, shard, k);
            info->graphs[k] = (sw_binary_graph){.name = g->name,
                                                .inputs = describe(arena, g, g->inputs, g->n_inputs),
                                                .outputs = describe(arena, g, g->outputs, g->n_outputs),
                                                .n_inputs = g->n_inputs,
                                                .n_outputs = g->n_outputs};
        }
        binaries[shard] = (sw_htp_binary){.file = "context.bin", .data = "x", .size = 1, .info = info};
    }
}

/* Registrations of a chat: a prompt of several chunks, many tokens, a second prompt. */
static uint32_t chat(uint32_t context_len) {
    const sw_graph_options kinds[] = {{"prefill_forward", 16, SW_ATTENTION_GROUPED, SW_HEAD_LAST},
                                      {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST}};
    const sw_htp_options options = {.rpcmem = &rpcmem};
    sw_hparams h = tiny_hparams();
    h.n_layers = LAYERS;
    h.context_max = 4096;
    tiny_model tiny;
    sw_decoder d;
    sw_device *device;
    sw_session *s;
    sw_htp_binary binaries[SHARDS];
    int32_t ids[40] = {1, 2, 3};
    float logits[VOCAB];
    n_registered = n_live = n_allocated = n_runs = 0;
    tiny_model_create(&tiny, &h);
    OK(sw_decoder_build_shards(&d, &tiny.model, context_len, kinds, 2, SHARDS, &err));
    describe_all(&d.arena, &d, binaries);
    sw_log_set_level(SW_LOG_ERROR); /* it warns that there are no clocks to set */
    OK(sw_htp_device_load(&device, &library, sw_soc_find("SM8750"), binaries, SHARDS, &options, &err));
    OK(sw_session_create(&s, &d, device, &err));
    assert_int_equal(n_allocated, 1);
    OK(sw_session_feed(s, ids, 40, logits, NULL, &err));
    for (int i = 0; i < 20; i++) OK(sw_session_feed(s, ids, 1, logits, NULL, &err));
    uint32_t n = n_registered;
    OK(sw_session_feed(s, ids, 40, logits, NULL, &err));
    for (int i = 0; i < 5; i++) OK(sw_session_feed(s, ids, 1, logits, NULL, &err));
    assert_int_equal(n_registered, n); /* all was known */
    assert_int_equal(n_runs, (3 + 20 + 3 + 5) * SHARDS);
    sw_session_destroy(s);
    device->ops->destroy(device);
    assert_int_equal(n_live, 0);
    sw_decoder_free(&d);
    tiny_model_free(&tiny);
    return n;
}

static void registrations_do_not_grow_with_the_context(void **state) {
    (void)state;
    uint32_t n = chat(128);
    /* A kind: K and V as cache and as new entries of each layer; hidden_in or what is handed over, cos, sin,
     * mask in each shard; what is handed over and logits going out; `last` of prefill. */
    assert_int_equal(n, 2 * (LAYERS * 4 + SHARDS * 4 + SHARDS) + 1);
    assert_int_equal(chat(4096), n);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(registrations_do_not_grow_with_the_context)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
