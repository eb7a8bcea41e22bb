/* compile.c: graphs to one context binary: lower all, compile each, take the binary. */
#include <stdlib.h>

#include "base/log.h"
#include "qnn/htp.h"

static sw_code compile(sw_qnn_context *context, const sw_graph *const *graphs,
                       const sw_qnn_graph_options *options, uint32_t n_graphs, sw_htp_lowered *on_lowered,
                       void *on_lowered_context, sw_htp_graph_report *reports, sw_error *err) {
    for (uint32_t i = 0; i < n_graphs; i++) {
        sw_arena arena = SW_ARENA_EMPTY;
        sw_qnn_lowered lowered;
        uint64_t start = sw_now_us();
        sw_code code = sw_qnn_lower(context, graphs[i], &options[i], &arena, &lowered, err);
        double lower_seconds = (double)(sw_now_us() - start) / 1e6;
        if (code == SW_OK && on_lowered != NULL) on_lowered(on_lowered_context);
        if (code == SW_OK) code = sw_qnn_graph_finalize(context, &lowered.graph, err);
        sw_arena_free(&arena);
        if (code != SW_OK) return code;
        reports[i] = (sw_htp_graph_report){.name = graphs[i]->name,
                                           .ddr = lowered.graph.ddr,
                                           .slc_allocate = lowered.graph.slc_allocate,
                                           .slc_idle = lowered.graph.slc_idle,
                                           .finalize_seconds = lowered.graph.finalize_seconds};
        sw_log(SW_LOG_VERBOSE, "%s: %u ops lowered in %.1f s, compiled in %.1f s, SLC allocator %s",
               graphs[i]->name, graphs[i]->n_ops, lower_seconds, lowered.graph.finalize_seconds,
               options[i].slc_allocator ? "on" : "off");
    }
    return SW_OK;
}

sw_code sw_htp_compile_graphs(sw_htp_compiled *out, const sw_qnn_library *library, const sw_soc *soc,
                              const sw_graph *const *graphs, const sw_qnn_graph_options *options,
                              uint32_t n_graphs, bool weight_sharing, sw_htp_lowered *lowered,
                              void *lowered_context, sw_htp_graph_report *reports, sw_error *err) {
    *out = (sw_htp_compiled){0};
    sw_code code = sw_qnn_open(&out->qnn, library, soc, err);
    if (code == SW_OK) code = sw_qnn_context_create(&out->context, &out->qnn, weight_sharing, err);
    if (code == SW_OK)
        code = compile(&out->context, graphs, options, n_graphs, lowered, lowered_context, reports, err);
    if (code != SW_OK) sw_htp_compiled_free(out);
    return code;
}

void sw_htp_compiled_free(sw_htp_compiled *compiled) {
    sw_qnn_context_free(&compiled->context);
    sw_qnn_close(&compiled->qnn);
}

static sw_code take(sw_htp_compiled *compiled, uint8_t **binary, uint64_t *size, sw_error *err) {
    uint64_t capacity;
    SW_TRY(sw_qnn_context_binary_size(&compiled->context, &capacity, err));
    *binary = malloc(capacity);
    if (*binary == NULL)
        return SW_FAIL(err, SW_NO_MEMORY, "no memory for a context binary of %llu bytes",
                       (unsigned long long)capacity);
    sw_code code = sw_qnn_context_binary(&compiled->context, *binary, capacity, size, err);
    if (code == SW_OK) return SW_OK;
    free(*binary);
    *binary = NULL;
    return code;
}

sw_code sw_htp_compile(const sw_qnn_library *library, const sw_soc *soc, const sw_graph *const *graphs,
                       const sw_qnn_graph_options *options, uint32_t n_graphs, bool weight_sharing,
                       sw_htp_graph_report *reports, uint8_t **binary, uint64_t *size, sw_error *err) {
    *binary = NULL;
    *size = 0;
    sw_htp_compiled compiled;
    SW_TRY(sw_htp_compile_graphs(&compiled, library, soc, graphs, options, n_graphs, weight_sharing, NULL,
                                 NULL, reports, err));
    sw_code code = take(&compiled, binary, size, err);
    sw_htp_compiled_free(&compiled);
    return code;
}
