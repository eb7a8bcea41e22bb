/* htp_device.c: the HTP behind device.h, from context binaries.
 *
 * open_all and close_all make and undo everything that lives on the DSP's side: session, contexts,
 * performance mode. They serve the first load, the end, and the recovery after the DSP was restarted, so that
 * nothing can come back otherwise than it was. A program keeps no handle longer than one such life (its
 * `life` against the device's). */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "qnn/error.h"
#include "qnn/htp.h"

enum { DSP_LINK_FAILED = 1007, DSP_RESTARTED = 1011 };

typedef struct htp {
    sw_device base;
    const sw_qnn_library *library;
    const sw_soc *soc;
    const sw_htp_binary *binaries;
    uint32_t n;
    sw_htp_options options;
    sw_qnn qnn;
    sw_qnn_group group;
    sw_qnn_perf perf;
    sw_shared_memory memory;
    uint32_t life; /* counts open_all */
    sw_program *programs;
} htp;

struct sw_program {
    htp *device;
    sw_program *next;
    const sw_graph *graph;
    const sw_binary_graph *info;
    uint32_t life; /* of the device, in which the handles below were taken */
    Qnn_Handle_t handle;
    Qnn_Tensor_t *inputs, *outputs; /* in the IR graph's order */
    sw_profile profile;
    sw_arena arena;
};

static void close_all(htp *d) {
    sw_shared_memory_deregister(&d->memory, &d->qnn);
    sw_qnn_group_close(&d->group);
    sw_qnn_perf_end(&d->perf);
    sw_qnn_close(&d->qnn);
}

static sw_code open_all(htp *d, sw_error *err) {
    sw_error perf_error;
    d->life++;
    SW_TRY(sw_qnn_open(&d->qnn, d->library, d->soc, err));
    if (sw_qnn_perf_begin(&d->perf, &d->qnn, d->options.perf, &perf_error) != SW_OK)
        sw_log(SW_LOG_WARN, "runs at default clocks: %s", perf_error.message);
    sw_code code = sw_qnn_group_open(&d->group, &d->qnn, d->binaries, d->n, NULL, err);
    if (code != SW_OK) close_all(d);
    return code;
}

static sw_code supports(sw_device *device, const sw_graph *graph, const sw_op *op, sw_error *err) {
    (void)device;
    return SW_FAIL(err, SW_UNSUPPORTED, "%s: `%s`: the HTP runs graphs that are compiled, not single ops",
                   graph->name, op->name);
}

/* ---- Loading ---- */

static const sw_binary_graph *find_graph(const sw_htp_binary *binary, const char *name) {
    for (uint32_t i = 0; i < binary->info->n_graphs; i++)
        if (strcmp(binary->info->graphs[i].name, name) == 0) return &binary->info->graphs[i];
    return NULL;
}

/* What the program gives and takes must be what the binary was compiled for. */
static sw_code check_tensor(const char *file, const sw_graph *graph, const sw_tensor *t,
                            const sw_binary_tensor *b, sw_error *err) {
    if (!b->known || b->dtype != t->dtype || b->rank != t->rank ||
        memcmp(b->dims, t->dims, t->rank * sizeof *t->dims) != 0)
        return SW_FAIL(err, SW_BAD_DATA,
                       "%s: `%s` of %s has another type or shape in the binary than in the "
                       "bundle's graph: compile again",
                       file, t->name, graph->name);
    if (!sw_dtype_quantized(t->dtype)) return SW_OK;
    if (b->has_encoding && b->encoding.scale == t->encoding.scale && b->encoding.offset == t->encoding.offset)
        return SW_OK;
    return SW_FAIL(
        err, SW_BAD_DATA,
        "%s: `%s` of %s has scale %.9g, offset %d in the binary, but %.9g, %d in the bundle's graph: "
        "compile again",
        file, t->name, graph->name, (double)b->encoding.scale, b->encoding.offset, (double)t->encoding.scale,
        t->encoding.offset);
}

static sw_code make_tensors(sw_program *p, const char *file, const uint32_t *indices, uint32_t n,
                            const sw_binary_tensor *list, uint32_t n_list, Qnn_Tensor_t **out,
                            sw_error *err) {
    const sw_graph *graph = p->graph;
    *out = sw_arena_array(&p->arena, n, sizeof **out);
    if (*out == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", graph->name);
    if (n != n_list)
        return SW_FAIL(err, SW_BAD_DATA,
                       "%s: %s has %u inputs or outputs, in the bundle's graph %u: compile again", file,
                       graph->name, n_list, n);
    for (uint32_t i = 0; i < n; i++) {
        const sw_tensor *t = graph->tensors[indices[i]];
        const sw_binary_tensor *found = NULL;
        for (uint32_t k = 0; k < n_list && found == NULL; k++)
            if (strcmp(list[k].name, t->name) == 0) found = &list[k];
        if (found == NULL)
            return SW_FAIL(err, SW_BAD_DATA, "%s: %s has no `%s`: compile again", file, graph->name, t->name);
        SW_TRY(check_tensor(file, graph, t, found, err));
        SW_TRY(sw_qnn_lower_tensor(t, &p->arena, &(*out)[i], err));
        (*out)[i].v2.id = found->id;
    }
    return SW_OK;
}

static sw_code prepare(sw_program *p, sw_error *err) {
    const sw_graph *graph = p->graph;
    htp *d = p->device;
    if (graph->shard >= d->n)
        return SW_FAIL(err, SW_BAD_DATA, "%s: is of shard %u, but there are %u context binaries", graph->name,
                       graph->shard, d->n);
    const sw_htp_binary *binary = &d->binaries[graph->shard];
    p->info = find_graph(binary, graph->name);
    if (p->info == NULL)
        return SW_FAIL(err, SW_BAD_DATA, "%s: has no graph `%s`: compile again", binary->file, graph->name);
    SW_TRY(make_tensors(p, binary->file, graph->inputs, graph->n_inputs, p->info->inputs, p->info->n_inputs,
                        &p->inputs, err));
    return make_tensors(p, binary->file, graph->outputs, graph->n_outputs, p->info->outputs,
                        p->info->n_outputs, &p->outputs, err);
}

/* The graph's handle in the device's present life. Buffers are registered anew with the contexts of it. */
static sw_code take_handle(sw_program *p, sw_error *err) {
    htp *d = p->device;
    if (d->group.n == 0) SW_TRY(open_all(d, err)); /* a recovery has failed */
    if (p->life == d->life) return SW_OK;
    SW_TRY(sw_qnn_group_graph(&d->group, p->graph->shard, p->graph->name, d->options.force_slc_off,
                              &p->handle, err));
    for (uint32_t i = 0; i < p->graph->n_inputs; i++) p->inputs[i].v2.memType = QNN_TENSORMEMTYPE_RAW;
    for (uint32_t i = 0; i < p->graph->n_outputs; i++) p->outputs[i].v2.memType = QNN_TENSORMEMTYPE_RAW;
    p->life = d->life;
    return SW_OK;
}

static void unload(sw_program *p) {
    if (p == NULL) return;
    for (sw_program **at = &p->device->programs; *at != NULL; at = &(*at)->next) {
        if (*at != p) continue;
        *at = p->next;
        break;
    }
    sw_profile_free(&p->profile);
    sw_arena_free(&p->arena);
    free(p);
}

static sw_code load(sw_device *device, const sw_graph *graph, sw_program **out, sw_error *err) {
    *out = NULL;
    htp *d = (htp *)device;
    sw_program *p = calloc(1, sizeof *p);
    if (p == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", graph->name);
    p->device = d;
    p->graph = graph;
    sw_program **last = &d->programs;
    while (*last != NULL) last = &(*last)->next;
    *last = p;
    sw_code code = prepare(p, err);
    if (code == SW_OK) code = take_handle(p, err);
    if (code != SW_OK) {
        unload(p);
        return code;
    }
    *out = p;
    return SW_OK;
}

/* ---- Running ---- */

/* The library looks at neither sizes nor alignment, so it is given exactly what the tensor needs. */
static sw_code bind(sw_program *p, const sw_tensor *t, const sw_binding *binding, Qnn_Tensor_t *out,
                    sw_error *err) {
    htp *d = p->device;
    uint64_t size = sw_tensor_bytes(t);
    if (binding->data == NULL || (uintptr_t)binding->data % sw_dtype_bytes(t->dtype) != 0 ||
        size > UINT32_MAX)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "%s: bound to nothing, to data that isn't aligned to its type, "
                       "or to 4 GB or more",
                       t->name);
    Qnn_Handle_t handle;
    SW_TRY(sw_shared_memory_register(&d->memory, &d->qnn, d->group.contexts[p->graph->shard], out,
                                     binding->data, size, &handle, err));
    out->v2.memType = handle != NULL ? QNN_TENSORMEMTYPE_MEMHANDLE : QNN_TENSORMEMTYPE_RAW;
    if (handle != NULL) {
        out->v2.memHandle = handle;
    } else {
        out->v2.clientBuf.data = binding->data;
        out->v2.clientBuf.dataSize = (uint32_t)size;
    }
    return SW_OK;
}

static sw_code bind_all(sw_program *p, const sw_binding *inputs, const sw_binding *outputs, sw_error *err) {
    const sw_graph *graph = p->graph;
    SW_TRY(take_handle(p, err));
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        SW_TRY(bind(p, graph->tensors[graph->inputs[i]], &inputs[i], &p->inputs[i], err));
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        SW_TRY(bind(p, graph->tensors[graph->outputs[i]], &outputs[i], &p->outputs[i], err));
    return SW_OK;
}

/* *e: the library's number where it is the run itself that failed. */
static sw_code run(sw_program *p, Qnn_ErrorHandle_t *e, sw_error *err) {
    const htp *d = p->device;
    const QnnCore_t *core = &d->library->htp->core;
    Qnn_Handle_t collector = NULL;
    *e = 0;
    if (d->options.profile) {
        Qnn_ErrorHandle_t made = core->profileCreate(d->qnn.backend, QNN_PROFILE_LEVEL_DETAILED, &collector);
        if (made != 0) return sw_qnn_fail(err, made, "making a profile");
    }
    sw_qnn_log_reset();
    *e = core->graphExecute(p->handle, p->inputs, p->graph->n_inputs, p->outputs, p->graph->n_outputs,
                            collector, NULL);
    sw_code code = SW_OK;
    if (*e != 0)
        code = sw_qnn_fail(err, *e, "running graph %s of shard %u", p->graph->name, p->graph->shard);
    else if (collector != NULL)
        code = sw_profile_add(&p->profile, &d->qnn, collector, err);
    if (collector != NULL) core->profileFree(collector);
    return code;
}

static sw_code execute(sw_program *p, const sw_binding *inputs, const sw_binding *outputs,
                       sw_observer *observer, void *observer_context, sw_error *err) {
    (void)observer_context;
    if (observer != NULL)
        return SW_FAIL(err, SW_UNSUPPORTED, "%s: the HTP can't show values between ops; the CPU device can",
                       p->graph->name);
    Qnn_ErrorHandle_t e;
    SW_TRY(bind_all(p, inputs, outputs, err));
    sw_code code = run(p, &e, err);
    uint32_t number = (uint32_t)(e & 0xffff);
    if (code == SW_OK || (number != DSP_RESTARTED && number != DSP_LINK_FAILED)) return code;
    /* Inputs and KV cache are in the host's memory, so a run can be repeated. */
    sw_log(SW_LOG_WARN, "%s: QNN error %u: the DSP was restarted; the contexts are loaded again",
           p->graph->name, number);
    close_all(p->device);
    SW_TRY(open_all(p->device, err));
    SW_TRY(bind_all(p, inputs, outputs, err));
    return run(p, &e, err);
}

/* ---- The device ---- */

static void *allocate(sw_device *device, size_t size) {
    return sw_shared_memory_allocate(&((htp *)device)->memory, size);
}

static void release(sw_device *device, void *data, size_t size) {
    (void)size;
    htp *d = (htp *)device;
    sw_shared_memory_deregister(&d->memory, &d->qnn);
    sw_shared_memory_release(&d->memory, data);
}

static void destroy(sw_device *device) {
    if (device == NULL) return;
    htp *d = (htp *)device;
    close_all(d);
    sw_shared_memory_free(&d->memory);
    free(d);
}

void sw_htp_device_profiles(const sw_device *device, sw_htp_profile_sink *sink, void *context) {
    for (const sw_program *p = ((const htp *)device)->programs; p != NULL; p = p->next)
        if (p->profile.n_runs > 0) sink(context, p->graph->shard, p->graph->name, &p->profile);
}

static const sw_device_ops device_ops = {.name = "htp",
                                         .supports = supports,
                                         .load = load,
                                         .execute = execute,
                                         .unload = unload,
                                         .destroy = destroy,
                                         .allocate = allocate,
                                         .release = release};

sw_code sw_htp_device_load(sw_device **out, const sw_qnn_library *library, const sw_soc *soc,
                           const sw_htp_binary *binaries, uint32_t n, const sw_htp_options *options,
                           sw_error *err) {
    *out = NULL;
    htp *d = calloc(1, sizeof *d);
    if (d == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    d->base.ops = &device_ops;
    d->library = library, d->soc = soc, d->binaries = binaries, d->n = n;
    d->options = *options;
    if (options->rpcmem != NULL)
        d->memory.rpcmem = *options->rpcmem;
    else
        sw_rpcmem_load(&d->memory.rpcmem);
    sw_code code = open_all(d, err);
    if (code != SW_OK) {
        free(d);
        return code;
    }
    *out = &d->base;
    return SW_OK;
}
