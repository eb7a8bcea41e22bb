/* inspect.c: what a bundle, a context binary or a checkpoint holds. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "graph/json.h"
#include "model/file_kind.h"
#include "model/gguf.h"
#include "qnn/binary_info.h"
#include "soc/soc.h"

static void print_tensor(const char *kind, const sw_binary_tensor *t) {
    printf("    %-6s %-24s ", kind, t->name);
    if (t->known)
        printf("%-4s [", sw_dtype_name(t->dtype));
    else
        printf("QNN type %u [", t->qnn_type);
    for (uint32_t i = 0; i < t->rank; i++) printf("%s%u", i > 0 ? "," : "", t->dims[i]);
    printf("]");
    if (t->has_encoding) printf("  scale %.9g offset %d", (double)t->encoding.scale, t->encoding.offset);
    putchar('\n');
}

static void print_binary(const sw_binary_info *info, bool tensors) {
    char bytes[4][32];
    const sw_soc *soc = sw_soc_find_id(info->soc_model);
    printf("context binary: built by %s (core %u.%u, backend %u.%u) for %s, V%u\n", info->build_id,
           info->core_api.major, info->core_api.minor, info->backend_api.major, info->backend_api.minor,
           soc != NULL ? soc->name : "an unknown SoC", info->htp_arch);
    for (uint32_t i = 0; i < info->n_graphs; i++) {
        const sw_binary_graph *g = &info->graphs[i];
        printf("  graph %s: %u inputs, %u outputs", g->name, g->n_inputs, g->n_outputs);
        if (g->has_blob)
            printf(", spill-fill %s, VTCM %llu MB, O%u", sw_bytes_text(g->spill_fill_bytes, bytes[0]),
                   (unsigned long long)(g->vtcm_bytes >> 20), g->opt_level);
        if (g->has_sizes)
            printf(", I/O %s, ops %s, constants of its own %s, weights shared by the graphs %s",
                   sw_bytes_text(g->io_bytes, bytes[0]), sw_bytes_text(g->op_data_bytes, bytes[1]),
                   sw_bytes_text(g->const_bytes, bytes[2]), sw_bytes_text(g->shared_weights_bytes, bytes[3]));
        putchar('\n');
        for (uint32_t k = 0; tensors && k < g->n_inputs; k++) print_tensor("input", &g->inputs[k]);
        for (uint32_t k = 0; tensors && k < g->n_outputs; k++) print_tensor("output", &g->outputs[k]);
    }
}

static sw_code read_binary(const sw_options *options, const char *path, sw_arena *arena, sw_binary_info *info,
                           sw_error *err) {
    const sw_qnn_library *library;
    sw_file_map map;
    SW_TRY(sw_cli_open_library(options, &library, err));
    SW_TRY(sw_file_map_open(&map, path, err));
    sw_code code = sw_binary_info_read(library, path, map.data, map.size, arena, info, err);
    sw_file_map_close(&map);
    return code;
}

/* The binary's own words against the manifest's. */
static sw_code inspect_contexts(const sw_options *options, sw_bundle *bundle, sw_error *err) {
    const sw_part *part;
    const sw_qnn_library *library;
    sw_code code = sw_cli_open_library(options, &library, err);
    if (code == SW_NOT_FOUND && options->qnn_lib == NULL) { /* the manifest has said the most of it */
        sw_log(SW_LOG_WARN, "the context binary is not read: %s", err->message);
        return SW_OK;
    }
    if (code != SW_OK) return code;
    for (uint32_t i = 0; (part = sw_bundle_part(bundle, SW_PART_CONTEXT, i)) != NULL; i++) {
        sw_binary_info info;
        const char *path = sw_bundle_part_path(bundle, part);
        if (path == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        SW_TRY(sw_bundle_check_part(bundle, part, err));
        SW_TRY(read_binary(options, path, &bundle->arena, &info, err));
        code = sw_manifest_check_binary(&bundle->manifest, info.build_id, info.soc_model, info.htp_arch, err);
        for (uint32_t k = 0; k < info.n_graphs && code == SW_OK; k++)
            code = sw_manifest_check_spill(&bundle->manifest, i, info.graphs[k].name,
                                           info.graphs[k].spill_fill_bytes, err);
        if (code != SW_OK) return sw_error_prefix(err, "%s", path);
        print_binary(&info, options->tensors);
    }
    return SW_OK;
}

/* A graph by its name, with ":<shard>" behind it where there are several. */
static sw_code print_dot(const sw_options *options, const sw_bundle *bundle, sw_error *err) {
    const sw_decoder *d = &bundle->decoder;
    char list[SW_MAX_KINDS * (SW_NAME_BYTES + 8)] = "", name[SW_NAME_BYTES + 8];
    for (uint32_t i = 0; i < d->n_graphs; i++) {
        snprintf(name, sizeof name, "%.63s:%u", d->graphs[i]->name, d->graphs[i]->shard);
        if (strcmp(d->graphs[i]->name, options->dot) == 0 || strcmp(name, options->dot) == 0)
            return sw_graph_write_dot(d->graphs[i], stdout, err);
        size_t used = strlen(list);
        if (d->graphs[i]->shard == 0)
            snprintf(list + used, sizeof list - used, "%s%.63s", i > 0 ? ", " : "", d->graphs[i]->name);
    }
    return SW_FAIL(err, SW_INVALID_ARGUMENT, "--dot: `%s`, wanted one of the bundle's graphs: %s%s",
                   options->dot, list,
                   d->n_shards > 1 ? "; with :SHARD behind it for another than the first" : "");
}

static sw_code inspect_bundle(const sw_options *options, sw_error *err) {
    sw_bundle bundle;
    SW_TRY(sw_bundle_open(&bundle, options->operand, err));
    sw_code code = SW_OK;
    if (options->dot != NULL) {
        code = print_dot(options, &bundle, err);
    } else if (options->json) {
        char *text;
        size_t size;
        code = sw_manifest_write(&bundle.manifest, &bundle.arena, &text, &size, err);
        if (code == SW_OK) fwrite(text, 1, size, stdout);
    } else {
        const sw_tensor *e = bundle.decoder.embedding;
        char bytes[32];
        sw_manifest_print(&bundle.manifest, stdout);
        printf("embedding: %s%s, %s%s\n", sw_dtype_name(e->dtype),
               e->channel_scales != NULL ? " with a scale a row" : "",
               sw_bytes_text(sw_tensor_bytes(e), bytes),
               bundle.decoder.hparams.tied_embeddings ? ", the head's own table" : "");
        code = inspect_contexts(options, &bundle, err);
    }
    sw_bundle_close(&bundle);
    return code;
}

static sw_code inspect_model(const sw_options *options, sw_error *err) {
    sw_model model;
    SW_TRY(sw_model_open(&model, options->operand, err));
    const sw_hparams *h = &model.hparams;
    printf("checkpoint: %s, architecture %s\n", h->name[0] != '\0' ? h->name : "unnamed", h->architecture);
    printf("%u layers of width %u, feed-forward %u, %u heads of %u on %u KV heads, vocabulary %u%s\n",
           h->n_layers, h->hidden, h->ffn, h->n_heads, h->head_dim, h->n_kv_heads, h->vocab,
           h->tied_embeddings ? ", tied embeddings" : "");
    printf("%u positions, RoPE theta %g, RMS epsilon %g\n", h->context_max, (double)h->rope_theta,
           (double)h->rms_epsilon);
    sw_model_close(&model);
    return SW_OK;
}

/* The first bytes of a file, to tell a checkpoint from a context binary and both from what is neither: that
 * must not go to Qualcomm's library, whose error is a bare number. */
static sw_code look_at_file(const char *path, bool *gguf, bool *other, sw_error *err) {
    sw_file_map map;
    SW_TRY(sw_file_map_open(&map, path, err));
    *gguf = map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0;
    *other = map.size == 0 || sw_file_kind(map.data, map.size) != NULL;
    sw_file_map_close(&map);
    return SW_OK;
}

sw_code sw_cmd_inspect(const sw_options *options, sw_error *err) {
    if (sw_cli_is_folder(options->operand)) return inspect_bundle(options, err);
    bool gguf, other;
    SW_TRY(look_at_file(options->operand, &gguf, &other, err));
    if (!gguf && other) return inspect_bundle(options, err); /* which says what it is */
    if (options->json || options->dot != NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: is for bundles, %s is a file",
                       options->json ? "json" : "dot", options->operand);
    if (gguf) return inspect_model(options, err);
    sw_arena arena = SW_ARENA_EMPTY;
    sw_binary_info info;
    sw_code code = read_binary(options, options->operand, &arena, &info, err);
    if (code == SW_OK) print_binary(&info, true);
    sw_arena_free(&arena);
    return code;
}
