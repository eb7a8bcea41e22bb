/* binary_report.c: context binaries for people and for programs. */
#include "cli/binary_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/report.h"

static sw_code open_library(void *options, const sw_qnn_library **out, sw_error *err) {
    return sw_cli_open_library(options, out, err);
}

sw_code sw_binary_report_read(const sw_options *options, const sw_binary_source *source, sw_arena *arena,
                              sw_binary_info *out, sw_error *err) {
    SW_TRY(sw_binary_info_read_apart(open_library, (void *)(uintptr_t)options, source->file,
                                     source->data + source->offset, source->bytes, arena, out, err));
    for (uint32_t i = 0; i < out->n_graphs; i++)
        if (out->graphs[i].unknown_blob != 0)
            return SW_FAIL(err, SW_UNSUPPORTED,
                           "%s: graph %s: the HTP's record of it has version %u, this build reads 1 and 2",
                           source->file, out->graphs[i].name, out->graphs[i].unknown_blob);
    return SW_OK;
}

/* ---- Text ---- */

static void print_tensor(const char *kind, const sw_binary_tensor *t, FILE *stream) {
    fprintf(stream, "    %-6s %-24s %s [", kind, t->name,
            t->known ? sw_dtype_name(t->dtype) : sw_qnn_type_name(t->qnn_type));
    for (uint32_t i = 0; i < t->rank; i++) fprintf(stream, "%s%u", i > 0 ? "," : "", t->dims[i]);
    fputc(']', stream);
    if (t->has_encoding)
        fprintf(stream, "  scale %.9g offset %d", (double)t->encoding.scale, t->encoding.offset);
    if (t->other_encoding) fprintf(stream, "  encoding %s", sw_qnn_encoding_name(t->encoding_form));
    fputc('\n', stream);
}

static void print_graph(const sw_binary_graph *g, FILE *stream) {
    char bytes[5][32];
    fprintf(stream, "  graph %s: %u inputs, %u outputs", g->name, g->n_inputs, g->n_outputs);
    if (g->has_blob)
        fprintf(stream, ", spill-fill %s, VTCM %llu MB, O%u", sw_bytes_text(g->spill_fill_bytes, bytes[0]),
                (unsigned long long)(g->vtcm_bytes >> 20), g->opt_level);
    else
        fprintf(stream, ", spill-fill, VTCM and optimization level unknown");
    if (g->has_sizes)
        fprintf(stream,
                ", I/O %s, ops %s, constants of its own %s, tensors in DDR %s, weights shared by the graphs "
                "%s",
                sw_bytes_text(g->io_bytes, bytes[0]), sw_bytes_text(g->op_data_bytes, bytes[1]),
                sw_bytes_text(g->const_bytes, bytes[2]), sw_bytes_text(g->ddr_tensor_bytes, bytes[3]),
                sw_bytes_text(g->shared_weights_bytes, bytes[4]));
    fputc('\n', stream);
}

void sw_binary_report_print(const sw_binary_info *info, bool tensors, FILE *stream) {
    const sw_soc *soc = sw_soc_find_id(info->soc_model);
    char arch[16] = "unknown HTP";
    if (info->htp_arch != 0) snprintf(arch, sizeof arch, "V%u", info->htp_arch);
    fprintf(stream, "context binary: built by %s (core %u.%u, backend %u.%u) for ", info->build_id,
            info->core_api.major, info->core_api.minor, info->backend_api.major, info->backend_api.minor);
    if (soc != NULL)
        fprintf(stream, "%s, %s\n", soc->name, arch);
    else if (info->soc_model != 0)
        fprintf(stream, "SoC %u, %s\n", info->soc_model, arch);
    else
        fprintf(stream, "an unknown SoC, %s\n", arch);
    for (uint32_t i = 0; i < info->n_graphs; i++) {
        const sw_binary_graph *g = &info->graphs[i];
        print_graph(g, stream);
        for (uint32_t k = 0; tensors && k < g->n_inputs; k++) print_tensor("input", &g->inputs[k], stream);
        for (uint32_t k = 0; tensors && k < g->n_outputs; k++) print_tensor("output", &g->outputs[k], stream);
    }
}

/* ---- JSON ---- */

static json_t *tensors_to_json(const sw_binary_tensor *tensors, uint32_t count) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        const sw_binary_tensor *t = &tensors[i];
        json_t *dims = json_array(), *encoding = json_null();
        for (uint32_t k = 0; k < t->rank; k++) json_array_append_new(dims, json_integer(t->dims[k]));
        if (t->has_encoding)
            encoding = json_pack("{s:f, s:i}", "scale", (double)t->encoding.scale, "offset",
                                 (int)t->encoding.offset);
        else if (t->other_encoding)
            encoding = json_pack("{s:s}", "form", sw_qnn_encoding_name(t->encoding_form));
        json_array_append_new(
            list, json_pack("{s:s, s:I, s:s, s:I, s:o, s:o}", "name", t->name, "id", (json_int_t)t->id,
                            "type", t->known ? sw_dtype_name(t->dtype) : sw_qnn_type_name(t->qnn_type),
                            "qnn_type", (json_int_t)t->qnn_type, "dims", dims, "encoding", encoding));
    }
    return list;
}

static void set_count(json_t *object, const char *key, bool known, uint64_t value) {
    json_object_set_new(object, key, known ? json_integer((json_int_t)value) : json_null());
}

static json_t *graph_to_json(const sw_binary_graph *g) {
    json_t *o = json_pack("{s:s}", "name", g->name);
    set_count(o, "spill_fill_bytes", g->has_blob, g->spill_fill_bytes);
    set_count(o, "vtcm_bytes", g->has_blob, g->vtcm_bytes);
    set_count(o, "opt_level", g->has_blob && g->opt_level != 0, g->opt_level);
    set_count(o, "n_hvx_threads", g->has_blob, g->n_hvx_threads);
    set_count(o, "io_bytes", g->has_sizes, g->io_bytes);
    set_count(o, "op_data_bytes", g->has_sizes, g->op_data_bytes);
    set_count(o, "const_bytes", g->has_sizes, g->const_bytes);
    set_count(o, "ddr_tensor_bytes", g->has_sizes, g->ddr_tensor_bytes);
    set_count(o, "shared_weights_bytes", g->has_sizes, g->shared_weights_bytes);
    json_object_set_new(o, "slc_allocator", json_string("unknown"));
    json_object_set_new(o, "inputs", tensors_to_json(g->inputs, g->n_inputs));
    json_object_set_new(o, "outputs", tensors_to_json(g->outputs, g->n_outputs));
    return o;
}

static json_t *version_to_json(Qnn_Version_t v) {
    return json_sprintf("%u.%u.%u", v.major, v.minor, v.patch);
}

json_t *sw_binary_report_json(const sw_binary_source *source, const sw_binary_info *info) {
    const sw_soc *soc = sw_soc_find_id(info->soc_model);
    json_t *graphs = json_array();
    for (uint32_t i = 0; i < info->n_graphs; i++)
        json_array_append_new(graphs, graph_to_json(&info->graphs[i]));
    json_t *o = json_pack(
        "{s:I, s:I, s:I, s:s, s:o, s:o, s:o, s:I, s:s?}", "offset", (json_int_t)source->offset, "bytes",
        (json_int_t)source->bytes, "binary_info_version", (json_int_t)info->version, "build_id",
        info->build_id, "core_api", version_to_json(info->core_api), "backend_api",
        version_to_json(info->backend_api), "context_blob_version", version_to_json(info->blob_version),
        "context_blob_bytes", (json_int_t)info->blob_bytes, "soc", soc != NULL ? soc->name : NULL);
    set_count(o, "soc_id", info->soc_model != 0, info->soc_model);
    set_count(o, "htp_arch", info->htp_arch != 0, info->htp_arch);
    if (source->methods != NULL) json_object_set_new(o, "methods", sw_json_of_bytes(source->methods));
    json_object_set_new(o, "graphs", graphs);
    return o;
}

sw_code sw_json_print(json_t *document, FILE *stream, sw_error *err) {
    char *text = document != NULL ? json_dumps(document, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(document);
    if (text == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    errno = 0;
    bool ok = fputs(text, stream) >= 0 && fputc('\n', stream) != EOF && fflush(stream) == 0;
    free(text);
    return ok ? SW_OK : SW_FAIL(err, SW_IO, "can't write: %s", strerror(errno));
}
