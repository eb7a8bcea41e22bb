/* context.c: makes sessions, contexts and graphs with their options, and undoes them in reverse order.
 *
 * An option is a custom configuration of the backend inside a configuration; lists of these are arrays of
 * pointers with NULL at the end. Each level has one function that builds its list, so that whatever makes an
 * object again makes it the same way. */
#include "qnn/context.h"

#include <stdio.h>

#include "qnn/clock.h"
#include "qnn/error.h"
#include "qnn/ticker.h"

enum { MAX_GRAPH_OPTIONS = 3 };

typedef struct device_config {
    QnnHtpDevice_CustomConfig_t custom;
    Qnn_Config_t config;
    const Qnn_Config_t *list[2];
} device_config;

static void build_device_config(device_config *c, const sw_soc *soc) {
    c->custom = (QnnHtpDevice_CustomConfig_t){
        .option = QNN_HTP_DEVICE_SOC, .value_at_4 = soc->model_id, .value_at_8 = soc->model_id};
    c->config = (Qnn_Config_t){.customConfig = &c->custom};
    c->list[0] = &c->config;
    c->list[1] = NULL;
}

sw_code sw_qnn_open(sw_qnn *qnn, const sw_qnn_library *library, const sw_soc *soc, sw_error *err) {
    *qnn = (sw_qnn){.library = library, .soc = soc};
    const QnnCore_t *core = &library->htp->core;
    sw_qnn_log_reset();
    device_config config;
    build_device_config(&config, soc);
    const char *step = "making a logger";
    Qnn_ErrorHandle_t e = SW_QNN_TIMED(core->logCreate(sw_qnn_log_callback, sw_qnn_log_level(), &qnn->log));
    if (e == 0) {
        step = "making a backend";
        e = SW_QNN_TIMED(core->backendCreate(qnn->log, NULL, &qnn->backend));
    }
    if (e == 0) {
        step = "making a device";
        e = SW_QNN_TIMED(core->deviceCreate(qnn->log, config.list, &qnn->device));
    }
    if (e == 0) return SW_OK;
    sw_code code = sw_qnn_fail(err, e, "%s for %s (SoC %u)", step, soc->name, soc->model_id);
    sw_qnn_close(qnn);
    return code;
}

void sw_qnn_close(sw_qnn *qnn) {
    if (qnn->library == NULL) return;
    const QnnCore_t *core = &qnn->library->htp->core;
    if (qnn->device != NULL) core->deviceFree(qnn->device);
    if (qnn->backend != NULL) core->backendFree(qnn->backend);
    if (qnn->log != NULL) core->logFree(qnn->log); /* last: the others log while they go */
    *qnn = (sw_qnn){0};
}

typedef struct context_config {
    QnnHtpContext_CustomConfig_t custom;
    Qnn_Config_t config;
    const Qnn_Config_t *list[2];
} context_config;

static void build_context_config(context_config *c, bool weight_sharing) {
    c->custom = (QnnHtpContext_CustomConfig_t){.option = QNN_HTP_CONTEXT_WEIGHT_SHARING};
    c->custom.u.enabled = weight_sharing;
    c->config = (Qnn_Config_t){.customConfig = &c->custom};
    c->list[0] = &c->config;
    c->list[1] = NULL;
}

sw_code sw_qnn_context_create(sw_qnn_context *context, sw_qnn *qnn, bool weight_sharing, sw_error *err) {
    *context = (sw_qnn_context){.qnn = qnn, .weight_sharing = weight_sharing};
    if (weight_sharing && qnn->soc->htp_arch < SW_WEIGHT_SHARING_LEAST_ARCH)
        return SW_FAIL(err, SW_UNSUPPORTED, "weight sharing needs an HTP of V%d or later, %s has V%u",
                       SW_WEIGHT_SHARING_LEAST_ARCH, qnn->soc->name, qnn->soc->htp_arch);
    context_config config;
    build_context_config(&config, weight_sharing);
    sw_qnn_log_reset();
    Qnn_ErrorHandle_t e = SW_QNN_TIMED(
        qnn->library->htp->core.contextCreate(qnn->backend, qnn->device, config.list, &context->handle));
    if (e == 0) return SW_OK;
    context->handle = NULL;
    return sw_qnn_fail(err, e, "making a context with weight sharing %s", weight_sharing ? "on" : "off");
}

void sw_qnn_context_free(sw_qnn_context *context) {
    if (context->handle != NULL)
        (void)SW_QNN_TIMED(context->qnn->library->htp->core.contextFree(context->handle, NULL));
    *context = (sw_qnn_context){0};
}

typedef struct graph_config {
    QnnHtpGraph_CustomConfig_t customs[MAX_GRAPH_OPTIONS];
    Qnn_Config_t configs[MAX_GRAPH_OPTIONS];
    const Qnn_Config_t *list[MAX_GRAPH_OPTIONS + 1];
} graph_config;

/* The SLC allocator is sent as 0 too, so that the setting never hangs on a library's default. */
static void build_graph_config(graph_config *c, const sw_qnn_graph_options *options, uint32_t vtcm_mb) {
    *c = (graph_config){0};
    c->customs[0].option = QNN_HTP_GRAPH_OPTIMIZATION;
    c->customs[0].u.optimization.type = QNN_HTP_OPTIMIZATION_LEVEL;
    c->customs[0].u.optimization.value = (float)options->opt_level;
    c->customs[1].option = QNN_HTP_GRAPH_OPTIMIZATION;
    c->customs[1].u.optimization.type = QNN_HTP_OPTIMIZATION_SLC_ALLOCATOR;
    c->customs[1].u.optimization.value = options->slc_allocator ? 1.0f : 0.0f;
    c->customs[2].option = QNN_HTP_GRAPH_VTCM_MB; /* the library's own default is 4 MB on every SoC */
    c->customs[2].u.vtcm_mb = vtcm_mb;
    for (int i = 0; i < MAX_GRAPH_OPTIONS; i++) {
        c->configs[i].customConfig = &c->customs[i];
        c->list[i] = &c->configs[i];
    }
}

sw_code sw_qnn_graph_create(sw_qnn_context *context, const char *name, const sw_qnn_graph_options *options,
                            sw_qnn_graph *out, sw_error *err) {
    sw_qnn *qnn = context->qnn;
    *out = (sw_qnn_graph){.name = name, .slc_allocate = -1};
    out->vtcm_mb = options->vtcm_mb != 0 ? options->vtcm_mb : qnn->soc->vtcm_mb;
    if (options->vtcm_mb > qnn->soc->vtcm_mb)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%u MB of VTCM for graph %s: %s has %u MB", options->vtcm_mb,
                       name, qnn->soc->name, qnn->soc->vtcm_mb);
    if (options->opt_level < 1 || options->opt_level > 3)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "optimization level %u for graph %s, wanted 1 to 3",
                       options->opt_level, name);
    graph_config config;
    build_graph_config(&config, options, out->vtcm_mb);
    const QnnCore_t *core = &qnn->library->htp->core;
    sw_qnn_log_reset();
    /* The compiler tells its SLC setting in a verbose line of this call alone. */
    uint32_t level = sw_qnn_log_level();
    if (level < QNN_LOG_VERBOSE) core->logSetLogLevel(qnn->log, QNN_LOG_VERBOSE);
    Qnn_ErrorHandle_t e = SW_QNN_TIMED(core->graphCreate(context->handle, name, config.list, &out->handle));
    if (level < QNN_LOG_VERBOSE) core->logSetLogLevel(qnn->log, level);
    if (e != 0) return sw_qnn_fail(err, e, "making graph %s", name);
    sw_qnn_capture seen;
    sw_qnn_log_captured(&seen);
    out->slc_allocate = seen.slc_allocate;
    if (seen.slc_allocate >= 0 && (seen.slc_allocate != 0) != options->slc_allocator)
        return SW_FAIL(err, SW_LIBRARY, "graph %s: SLC allocator asked for: %s, but the compiler says %d",
                       name, options->slc_allocator ? "on" : "off", seen.slc_allocate);
    return SW_OK;
}

/* The op with the tensor of exactly that many bytes, or else with the largest one. */
static const char *guess_op(const sw_graph *graph, uint64_t wanted) {
    const char *best = "";
    uint64_t largest = 0;
    for (uint32_t i = 0; graph != NULL && i < graph->n_ops; i++) {
        const sw_op *op = &graph->ops[i];
        for (uint32_t k = 0; k <= op->n_inputs; k++) {
            uint64_t bytes =
                sw_tensor_bytes(graph->tensors[k < op->n_inputs ? op->inputs[k] : op->outputs[0]]);
            if (bytes == wanted) return op->name;
            if (bytes <= largest) continue;
            largest = bytes;
            best = op->name;
        }
    }
    return best;
}

/* The library's own line tells of an op of its making, at times with the graph's op that it comes from. This
 * says whose fault it is, and what there is. */
static sw_code fail_vtcm(const sw_qnn_graph *graph, const sw_qnn_capture *seen, Qnn_ErrorHandle_t e,
                         sw_error *err) {
    bool told = seen->vtcm_op[0] != '\0';
    const char *name = told ? seen->vtcm_op : guess_op(graph->ir, seen->vtcm_wanted);
    char layer_text[32] = "";
    unsigned layer;
    if (sscanf(name, "layer_%u.", &layer) == 1)
        snprintf(layer_text, sizeof layer_text, " of layer %u", layer);
    return SW_FAIL(
        err, SW_UNSUPPORTED,
        "compiling graph %s: %s`%s`%s can't be cut into pieces that fit into VTCM: it wants %llu "
        "bytes at once, the graph may use %llu (%u MB); give it more VTCM, a shorter AR or context "
        "length, or another --attention (QNN error %u)",
        graph->name, told ? "op " : "an op, most likely ", name, layer_text,
        (unsigned long long)seen->vtcm_wanted, (unsigned long long)graph->vtcm_mb << 20, graph->vtcm_mb,
        (unsigned)(e & 0xffff));
}

sw_code sw_qnn_graph_finalize(sw_qnn_context *context, sw_qnn_graph *graph, sw_error *err) {
    sw_qnn_log_reset();
    char label[SW_TICKER_LABEL_BYTES];
    snprintf(label, sizeof label, "compile %.40s", graph->name);
    sw_ticker bar;
    sw_ticker_start(&bar, label);
    uint64_t start = sw_now_us();
    Qnn_ErrorHandle_t e = context->qnn->library->htp->core.graphFinalize(graph->handle, NULL, NULL);
    graph->finalize_seconds = (double)(sw_now_us() - start) / 1e6;
    sw_ticker_stop(&bar);
    sw_qnn_capture seen;
    sw_qnn_log_captured(&seen);
    if (e != 0 && seen.vtcm_wanted > 0) return fail_vtcm(graph, &seen, e, err);
    if (e != 0) return sw_qnn_fail(err, e, "compiling graph %s", graph->name);
    graph->ddr = seen.ddr;
    graph->slc_idle = seen.slc_idle;
    return SW_OK;
}

sw_code sw_qnn_context_binary_size(sw_qnn_context *context, uint64_t *capacity, sw_error *err) {
    *capacity = 0;
    sw_qnn_log_reset();
    Qnn_ErrorHandle_t e =
        SW_QNN_TIMED(context->qnn->library->htp->core.contextGetBinarySize(context->handle, capacity));
    if (e == 0 && *capacity > 0) return SW_OK;
    return sw_qnn_fail(err, e, "asking for the context binary's size");
}

sw_code sw_qnn_context_binary(sw_qnn_context *context, uint8_t *data, uint64_t capacity, uint64_t *size,
                              sw_error *err) {
    *size = 0;
    sw_qnn_log_reset();
    Qnn_ErrorHandle_t e = SW_QNN_TIMED(
        context->qnn->library->htp->core.contextGetBinary(context->handle, data, capacity, size));
    if (e == 0 && *size > 0 && *size <= capacity) return SW_OK;
    return sw_qnn_fail(err, e, "taking the context binary (%llu of %llu bytes)", (unsigned long long)*size,
                       (unsigned long long)capacity);
}
