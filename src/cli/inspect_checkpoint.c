/* inspect_checkpoint.c: what a GGUF file holds: hyperparameters, and how its weights are stored. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/binary_report.h"
#include "cli/describe.h"
#include "cli/report.h"
#include "graph/json.h"
#include "model/gguf.h"

typedef struct stored {
    uint32_t tensors;
    uint64_t bytes;
} stored;

static uint64_t bytes_of(const sw_weight *w) {
    return (uint64_t)w->rows * w->row_bytes;
}

/* sums[SW_STORE_COUNT]. */
static void count_storages(const sw_gguf *gguf, stored *sums) {
    for (size_t i = 0; i < sw_gguf_n_tensors(gguf); i++) {
        const sw_weight *w = sw_gguf_tensor_at(gguf, i);
        sums[w->storage].tensors++;
        sums[w->storage].bytes += bytes_of(w);
    }
}

static void print_text(const sw_model *model, bool tensors) {
    const sw_hparams *h = &model->hparams;
    stored sums[SW_STORE_COUNT] = {0};
    char bytes[32];
    printf("checkpoint: %s, architecture %s\n", h->name[0] != '\0' ? h->name : "unnamed", h->architecture);
    printf("%u layers of width %u, feed-forward %u, %u heads of %u on %u KV heads, vocabulary %u%s\n",
           h->n_layers, h->hidden, h->ffn, h->n_heads, h->head_dim, h->n_kv_heads, h->vocab,
           h->tied_embeddings ? ", tied embeddings" : "");
    printf("%u positions, RoPE theta %g, RMS epsilon %g\n", h->context_max, (double)h->rope_theta,
           (double)h->rms_epsilon);
    count_storages(model->gguf, sums);
    for (unsigned i = 0; i < SW_STORE_COUNT; i++)
        if (sums[i].tensors > 0)
            printf("stored as %s: %u tensor%s, %s\n", sw_storage_infos[i].name, sums[i].tensors,
                   sums[i].tensors > 1 ? "s" : "", sw_bytes_text(sums[i].bytes, bytes));
    for (size_t i = 0; tensors && i < sw_gguf_n_tensors(model->gguf); i++) {
        const sw_weight *w = sw_gguf_tensor_at(model->gguf, i);
        printf("  %-28s %s [%u, %u], %s\n", w->file_name, sw_storage_infos[w->storage].name, w->rows, w->cols,
               sw_bytes_text(bytes_of(w), bytes));
    }
}

static sw_code print_json(const sw_model *model, uint64_t file_bytes, bool tensors, sw_error *err) {
    stored sums[SW_STORE_COUNT] = {0};
    json_t *storages = json_array();
    count_storages(model->gguf, sums);
    for (unsigned i = 0; i < SW_STORE_COUNT; i++)
        if (sums[i].tensors > 0)
            json_array_append_new(storages,
                                  json_pack("{s:s, s:I, s:I}", "storage", sw_storage_infos[i].name, "tensors",
                                            (json_int_t)sums[i].tensors, "bytes", (json_int_t)sums[i].bytes));
    json_t *o = json_pack("{s:s, s:I, s:o, s:o}", "kind", "gguf_checkpoint", "bytes", (json_int_t)file_bytes,
                          "model", sw_hparams_to_json(&model->hparams), "storages", storages);
    if (tensors) {
        json_t *list = json_array();
        for (size_t i = 0; i < sw_gguf_n_tensors(model->gguf); i++) {
            const sw_weight *w = sw_gguf_tensor_at(model->gguf, i);
            json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:[I, I], s:I}", "name", w->file_name, "storage",
                                            sw_storage_infos[w->storage].name, "dims", (json_int_t)w->rows,
                                            (json_int_t)w->cols, "bytes", (json_int_t)bytes_of(w)));
        }
        json_object_set_new(o, "tensors", list);
    }
    return sw_json_print(o, stdout, err);
}

sw_code sw_inspect_checkpoint(const sw_options *options, uint64_t file_bytes, sw_error *err) {
    sw_model model;
    SW_TRY(sw_model_open(&model, options->operand, err));
    sw_code code = SW_OK;
    if (options->json)
        code = print_json(&model, file_bytes, options->tensors, err);
    else
        print_text(&model, options->tensors);
    sw_model_close(&model);
    return code;
}
