/* group.c: finds the largest spill-fill need, then makes the contexts, the first of which carries it.
 *
 * One function builds a context's options, for the first load and for one after the DSP was restarted. */
#include "qnn/group.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "qnn/error.h"
#include "soc/spill_fill.h"

uint64_t sw_htp_largest_spill(const sw_htp_binary *binaries, uint32_t n, uint32_t *shard,
                              const char **graph) {
    uint64_t largest = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < binaries[i].info->n_graphs; k++) {
            const sw_binary_graph *g = &binaries[i].info->graphs[k];
            if (g->spill_fill_bytes <= largest) continue;
            largest = g->spill_fill_bytes;
            *shard = i;
            *graph = g->name;
        }
    return largest;
}

static uint64_t log_largest_spill(const sw_htp_binary *binaries, uint32_t n) {
    uint32_t shard = 0;
    const char *graph = "";
    char label[128], line[SW_SPILL_FILL_LINE_BYTES];
    uint64_t largest = sw_htp_largest_spill(binaries, n, &shard, &graph);
    if (n > 1)
        snprintf(label, sizeof label, "shard %u %.99s", shard, graph);
    else
        snprintf(label, sizeof label, "%.99s", graph);
    sw_log(SW_LOG_DEBUG, "%s", sw_spill_fill_line(largest, n, label, line));
    return largest;
}

typedef struct group_config {
    QnnHtpContext_CustomConfig_t custom;
    Qnn_Config_t config;
    const Qnn_Config_t *list[2];
} group_config;

static void build_config(group_config *c, Qnn_Handle_t first, uint64_t largest) {
    *c = (group_config){.custom.option = QNN_HTP_CONTEXT_REGISTER_MULTI_CONTEXTS};
    c->custom.u.group.firstGroupHandle = first;
    c->custom.u.group.maxSpillFillBuffer = largest;
    c->config.customConfig = &c->custom;
    if (largest > 0) c->list[0] = &c->config;
}

sw_code sw_qnn_group_open(sw_qnn_group *group, sw_qnn *qnn, const sw_htp_binary *binaries, uint32_t n,
                          Qnn_Handle_t profile, sw_error *err) {
    *group = (sw_qnn_group){.qnn = qnn, .binaries = binaries};
    if (n < 1 || n > SW_MAX_SHARDS)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%u context binaries, wanted 1 to %d", n, SW_MAX_SHARDS);
    uint64_t largest = log_largest_spill(binaries, n);
    for (uint32_t i = 0; i < n; i++) {
        group_config config;
        sw_qnn_capture said;
        build_config(&config, i > 0 ? group->contexts[0] : NULL, largest);
        sw_qnn_log_reset();
        Qnn_ErrorHandle_t e = qnn->library->htp->core.contextCreateFromBinary(
            qnn->backend, qnn->device, config.list, binaries[i].data, binaries[i].size, &group->contexts[i],
            profile);
        sw_qnn_log_captured(&said);
        if (e == 0) group->n++;
        if (e == 0 && said.n_4003 > 0) e = 4003; /* the call returns 0, and no graph can be had */
        if (e == 0) continue;
        sw_code code =
            sw_qnn_fail(err, e, "%s: loading the context of shard %u of %u", binaries[i].file, i, n);
        sw_qnn_group_close(group);
        return code;
    }
    return SW_OK;
}

void sw_qnn_group_close(sw_qnn_group *group) {
    while (group->n > 0) { /* the first one last: the others are of its group */
        Qnn_Handle_t context = group->contexts[--group->n];
        group->qnn->library->htp->core.contextFree(context, NULL);
    }
    *group = (sw_qnn_group){0};
}

sw_code sw_qnn_group_graph(const sw_qnn_group *group, uint32_t shard, const char *name, bool force_slc_off,
                           Qnn_Handle_t *out, sw_error *err) {
    const QnnCore_t *core = &group->qnn->library->htp->core;
    const char *file = group->binaries[shard].file;
    sw_qnn_log_reset();
    Qnn_ErrorHandle_t e = core->graphRetrieve(group->contexts[shard], name, out);
    if (e != 0) return sw_qnn_fail(err, e, "%s: taking graph %s", file, name);
    if (!force_slc_off) return SW_OK;
    QnnHtpGraph_CustomConfig_t custom = {.option = QNN_HTP_GRAPH_OPTIMIZATION};
    custom.u.optimization.type = QNN_HTP_OPTIMIZATION_SLC_ALLOCATOR;
    custom.u.optimization.value = 0;
    Qnn_Config_t config = {.customConfig = &custom};
    const Qnn_Config_t *list[2] = {&config, NULL};
    e = core->graphSetConfig(*out, list);
    return e == 0 ? SW_OK : sw_qnn_fail(err, e, "%s: switching the SLC allocator of %s off", file, name);
}
