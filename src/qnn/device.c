/* device.c: the HTP emulator behind device.h. A program is a context with one graph, prepared in this process
 * and run there: the library can't load a shared-weights or SLC binary back on a PC. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "qnn/error.h"
#include "qnn/htp.h"
#include "qnn/ticker.h"

typedef struct htp_device {
    sw_device base;
    sw_qnn qnn;
    sw_qnn_graph_options options;
} htp_device;

struct sw_program {
    const sw_graph *graph;
    sw_qnn_context context;
    sw_qnn_lowered lowered;
    Qnn_Tensor_t *inputs, *outputs; /* in the graph's order */
    sw_arena arena;
};

static sw_code supports(sw_device *device, const sw_graph *graph, const sw_op *op, sw_error *err) {
    return sw_qnn_validate_op(&((htp_device *)device)->qnn, graph, op, err);
}

static void unload(sw_program *p) {
    if (p == NULL) return;
    sw_qnn_context_free(&p->context);
    sw_arena_free(&p->arena);
    free(p);
}

static sw_code prepare(htp_device *device, sw_program *p, sw_error *err) {
    const sw_graph *graph = p->graph;
    SW_TRY(sw_qnn_context_create(&p->context, &device->qnn, false, err));
    SW_TRY(sw_qnn_lower(&p->context, graph, &device->options, &p->arena, &p->lowered, err));
    SW_TRY(sw_qnn_graph_finalize(&p->context, &p->lowered.graph, err));
    p->inputs = sw_arena_array(&p->arena, graph->n_inputs, sizeof *p->inputs);
    p->outputs = sw_arena_array(&p->arena, graph->n_outputs, sizeof *p->outputs);
    if (p->inputs == NULL || p->outputs == NULL)
        return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", graph->name);
    for (uint32_t i = 0; i < graph->n_inputs; i++) p->inputs[i] = p->lowered.tensors[graph->inputs[i]];
    for (uint32_t i = 0; i < graph->n_outputs; i++) p->outputs[i] = p->lowered.tensors[graph->outputs[i]];
    return SW_OK;
}

static sw_code load(sw_device *device, const sw_graph *graph, sw_program **out, sw_error *err) {
    *out = NULL;
    sw_program *p = calloc(1, sizeof *p);
    if (p == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", graph->name);
    p->graph = graph;
    sw_qnn_log_set_result_level(SW_LOG_VERBOSE); /* DDR traffic and the cache's use are of no matter here */
    sw_code code = prepare((htp_device *)device, p, err);
    sw_qnn_log_set_result_level(SW_LOG_INFO);
    if (code != SW_OK) {
        unload(p);
        return code;
    }
    *out = p;
    return SW_OK;
}

/* The library looks at neither sizes nor alignment, so it is given exactly what the tensor needs. */
static sw_code set_buffer(const sw_tensor *t, void *data, Qnn_Tensor_t *out, sw_error *err) {
    uint64_t size = sw_tensor_bytes(t);
    if (data == NULL || (uintptr_t)data % sw_dtype_bytes(t->dtype) != 0 || size > UINT32_MAX)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: %s", t->name,
                       data == NULL        ? "bound to nothing"
                       : size > UINT32_MAX ? "4 GB or more"
                                           : "bound to data that isn't aligned to its type");
    out->v2.clientBuf.data = data;
    out->v2.clientBuf.dataSize = (uint32_t)size;
    return SW_OK;
}

static sw_code execute(sw_program *p, const sw_binding *inputs, const sw_binding *outputs,
                       sw_observer *observer, void *observer_context, sw_error *err) {
    (void)observer_context;
    const sw_graph *graph = p->graph;
    if (observer != NULL)
        return SW_FAIL(err, SW_UNSUPPORTED,
                       "%s: the HTP emulator can't show values between ops; the CPU "
                       "device can",
                       graph->name);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        SW_TRY(set_buffer(graph->tensors[graph->inputs[i]], inputs[i].data, &p->inputs[i], err));
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        SW_TRY(set_buffer(graph->tensors[graph->outputs[i]], outputs[i].data, &p->outputs[i], err));
    sw_qnn_log_reset();
    /* A step takes seconds. The time would wipe a reply that streams to the same terminal. */
    bool shown = isatty(STDOUT_FILENO) == 0;
    char label[SW_TICKER_LABEL_BYTES];
    sw_ticker bar;
    int n = snprintf(label, sizeof label, "emulator: %.24s", graph->name);
    if (graph->end_layer > graph->begin_layer) /* not one that is an op alone */
        snprintf(label + n, sizeof label - (size_t)n, ", layers %u to %u", graph->begin_layer,
                 graph->end_layer - 1);
    if (shown) sw_ticker_start(&bar, label);
    uint64_t start = sw_now_us();
    Qnn_ErrorHandle_t e = p->context.qnn->library->htp->core.graphExecute(
        p->lowered.graph.handle, p->inputs, graph->n_inputs, p->outputs, graph->n_outputs, NULL, NULL);
    if (shown) sw_ticker_stop(&bar);
    sw_log(SW_LOG_VERBOSE, "%s: %.2f s", label, (double)(sw_now_us() - start) / 1e6);
    return e == 0 ? SW_OK : sw_qnn_fail(err, e, "running graph %s on the emulator", graph->name);
}

static void destroy(sw_device *device) {
    if (device == NULL) return;
    sw_qnn_close(&((htp_device *)device)->qnn);
    free(device);
}

static const sw_device_ops device_ops = {.name = "htp-emulator",
                                         .supports = supports,
                                         .load = load,
                                         .execute = execute,
                                         .unload = unload,
                                         .destroy = destroy};

sw_code sw_htp_device_create(sw_device **out, const sw_qnn_library *library, const sw_soc *soc,
                             const sw_qnn_graph_options *options, sw_error *err) {
    *out = NULL;
    htp_device *device = calloc(1, sizeof *device);
    if (device == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    device->base.ops = &device_ops;
    device->options = *options;
    device->options.slc_allocator = false;
    sw_code code = sw_qnn_open(&device->qnn, library, soc, err);
    if (code != SW_OK) {
        free(device);
        return code;
    }
    *out = &device->base;
    return SW_OK;
}
