/* inspect.c: what a bundle, a context binary, an ExecuTorch program or a checkpoint holds. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "bundle/pte.h"
#include "cli/binary_report.h"
#include "cli/cli.h"
#include "cli/describe.h"
#include "cli/page.h"
#include "cli/report.h"
#include "model/file_kind.h"

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

static sw_code print_bundle(const sw_options *options, sw_bundle *bundle, sw_error *err) {
    const sw_tensor *e = bundle->decoder.embedding;
    const sw_context *contexts;
    uint32_t n_contexts;
    char bytes[32];
    sw_manifest_print(&bundle->manifest, stdout);
    printf("embedding: %s%s, %s%s\n", sw_dtype_name(e->dtype),
           e->channel_scales != NULL ? " with a scale a row" : "", sw_bytes_text(sw_tensor_bytes(e), bytes),
           bundle->decoder.hparams.tied_embeddings ? ", the head's own table" : "");
    SW_TRY(sw_read_contexts(options, bundle, &contexts, &n_contexts, err));
    for (uint32_t i = 0; i < n_contexts; i++)
        sw_binary_report_print(&contexts[i].info, options->tensors, stdout);
    return SW_OK;
}

static sw_code inspect_bundle(const sw_options *options, sw_error *err) {
    sw_bundle bundle;
    json_t *document = NULL;
    SW_TRY(sw_bundle_open(&bundle, options->operand, err));
    sw_code code = SW_OK;
    if (options->report != NULL) code = sw_page_write(options, &bundle, options->report, err);
    if (code != SW_OK || (options->report != NULL && options->dot == NULL && !options->json)) {
        /* what is wrong, or all that was wanted */
    } else if (options->dot != NULL) {
        code = print_dot(options, &bundle, err);
    } else if (options->json) {
        code = sw_describe_bundle(options, &bundle, options->tensors, &document, err);
        if (code == SW_OK) code = sw_json_print(document, stdout, err);
    } else {
        code = print_bundle(options, &bundle, err);
    }
    sw_bundle_close(&bundle);
    return code;
}

/* A file that holds context binaries: one alone, or those of an ExecuTorch program. */
typedef struct holder {
    sw_arena arena;
    const char *path;
    sw_file_map map;
    bool is_pte;
    sw_pte pte;
    sw_binary_source *sources; /* [n] */
    sw_binary_info *infos;
    uint32_t n;
} holder;

static sw_code read_holder(holder *h, const sw_options *options, sw_error *err) {
    h->n = 1;
    if (h->is_pte) {
        if (sw_pte_read(h->map.data, h->map.size, &h->arena, &h->pte, err) != SW_OK)
            return sw_error_prefix(err, "%s: an ExecuTorch program", h->path);
        h->n = h->pte.n_binaries;
    }
    h->sources = sw_arena_array(&h->arena, h->n, sizeof *h->sources);
    h->infos = sw_arena_array(&h->arena, h->n, sizeof *h->infos);
    if (h->sources == NULL || h->infos == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < h->n; i++) {
        h->sources[i] = (sw_binary_source){.file = h->path, .data = h->map.data, .bytes = h->map.size};
        if (h->is_pte) {
            h->sources[i].offset = h->pte.binaries[i].offset;
            h->sources[i].bytes = h->pte.binaries[i].bytes;
            h->sources[i].methods = h->pte.binaries[i].methods;
        }
        SW_TRY(sw_binary_report_read(options, &h->sources[i], &h->arena, &h->infos[i], err));
    }
    return SW_OK;
}

static void print_holder(const holder *h) {
    char bytes[3][32];
    if (h->is_pte)
        printf("ExecuTorch program: %s, of these the program itself %s, segments %s; %u methods\n",
               sw_bytes_text(h->map.size, bytes[0]), sw_bytes_text(h->pte.program_bytes, bytes[1]),
               sw_bytes_text(h->pte.segment_bytes, bytes[2]), h->pte.n_methods);
    for (uint32_t i = 0; i < h->n; i++) {
        if (h->is_pte)
            printf("at byte %llu, for %s: %s\n", (unsigned long long)h->sources[i].offset,
                   h->sources[i].methods, sw_bytes_text(h->sources[i].bytes, bytes[0]));
        sw_binary_report_print(&h->infos[i], true, stdout);
    }
    printf("SLC allocator: unknown, a context binary doesn't say; a bundle's manifest does\n");
}

static sw_code print_holder_json(const holder *h, sw_error *err) {
    json_t *binaries = json_array();
    for (uint32_t i = 0; i < h->n; i++)
        json_array_append_new(binaries, sw_binary_report_json(&h->sources[i], &h->infos[i]));
    json_t *o = json_pack("{s:s, s:I}", "kind", h->is_pte ? "executorch_program" : "qnn_context_binary",
                          "bytes", (json_int_t)h->map.size);
    if (h->is_pte) {
        json_t *methods = json_array();
        for (uint32_t i = 0; i < h->pte.n_methods; i++)
            json_array_append_new(methods, sw_json_of_bytes(h->pte.methods[i]));
        json_object_set_new(o, "program_bytes", json_integer((json_int_t)h->pte.program_bytes));
        json_object_set_new(o, "segment_bytes", json_integer((json_int_t)h->pte.segment_bytes));
        json_object_set_new(o, "methods", methods);
    }
    json_object_set_new(o, "context_binaries", binaries);
    return sw_json_print(o, stdout, err);
}

/* What the first bytes tell. What is neither a checkpoint nor like a context binary must not go to Qualcomm's
 * library, whose error is a bare number. */
static sw_code inspect_file(const sw_options *options, sw_error *err) {
    holder h = {.path = options->operand};
    SW_TRY(sw_file_map_open(&h.map, h.path, err));
    const bool gguf = h.map.size >= 4 && memcmp(h.map.data, "GGUF", 4) == 0;
    h.is_pte = !gguf && sw_pte_is(h.map.data, h.map.size);
    const bool other =
        !gguf && !h.is_pte && (h.map.size == 0 || sw_file_kind(h.map.data, h.map.size) != NULL);
    sw_code code = SW_OK;
    if (other)
        code = inspect_bundle(options, err); /* which says what it is */
    else if (options->dot != NULL || options->report != NULL)
        code = SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: is for bundles, %s is %s",
                       options->dot != NULL ? "dot" : "report", h.path, gguf ? "a checkpoint" : "a file");
    else if (gguf)
        code = sw_inspect_checkpoint(options, h.map.size, err);
    else
        code = read_holder(&h, options, err);
    if (code == SW_OK && h.n > 0) {
        if (options->json)
            code = print_holder_json(&h, err);
        else
            print_holder(&h);
    }
    sw_file_map_close(&h.map);
    sw_arena_free(&h.arena);
    return code;
}

sw_code sw_cmd_inspect(const sw_options *options, sw_error *err) {
    return sw_cli_is_folder(options->operand) ? inspect_bundle(options, err) : inspect_file(options, err);
}
