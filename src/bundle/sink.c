/* sink.c: the K and V of the first tokens, a safetensors file of two tensors. */
#include <math.h>

#include "base/f16.h"
#include "bundle/internal.h"
#include "bundle/safetensors_write.h"

enum { KV_RANK = 5 };

static void kv_dims(const sw_decoder *decoder, uint32_t n_tokens, uint32_t dims[KV_RANK]) {
    const sw_hparams *h = &decoder->hparams;
    dims[0] = h->n_layers, dims[1] = 2, dims[2] = h->n_kv_heads, dims[3] = n_tokens, dims[4] = h->head_dim;
}

sw_code sw_bundle_sink_write(const sw_decoder *decoder, const char *path, sw_error *err) {
    const sw_sink *sink = &decoder->sink;
    sw_safetensors_writer w = {0};
    uint32_t dims[KV_RANK];
    kv_dims(decoder, sink->n_tokens, dims);
    SW_TRY(sw_safetensors_writer_open(
        &w, path, sw_safetensors_header_room("ids") + sw_safetensors_header_room("kv"), err));
    sw_code code = sw_safetensors_writer_put(&w, "ids", SW_ST_I32, 1, &sink->n_tokens, sink->ids, err);
    if (code == SW_OK)
        code = sw_safetensors_writer_put(&w, "kv", sw_weights_dtype(sw_decoder_kv_type(decoder)), KV_RANK,
                                         dims, sink->kv, err);
    if (code == SW_OK) code = sw_safetensors_writer_commit(&w, err);
    sw_safetensors_writer_discard(&w);
    return code;
}

/* A cache that holds an infinity or a NaN would spoil every token behind it. */
static sw_code check_finite(const sw_decoder *decoder, const sw_safetensors *file, sw_error *err) {
    const sw_sink *sink = &decoder->sink;
    sw_dtype type = sw_decoder_kv_type(decoder);
    if (sw_dtype_quantized(type)) return SW_OK;
    for (uint64_t i = 0; i < sw_sink_values(&decoder->hparams, sink->n_tokens); i++) {
        float x =
            type == SW_F16 ? sw_f16_to_f32(((const uint16_t *)sink->kv)[i]) : ((const float *)sink->kv)[i];
        if (!isfinite(x))
            return SW_FAIL(err, SW_BAD_DATA, "%s: value %llu of `kv` is infinite or no number",
                           file->map.path, (unsigned long long)i);
    }
    return SW_OK;
}

sw_code sw_bundle_sink_attach(sw_decoder *decoder, const sw_safetensors *file, sw_error *err) {
    const sw_st_tensor *t = sw_safetensors_find(file, "ids");
    uint32_t dims[KV_RANK], n;
    const void *ids = NULL, *kv = NULL;
    if (t == NULL || t->rank != 1 || t->dims[0] < 1 || t->dims[0] > decoder->context_len)
        return SW_FAIL(err, SW_BAD_DATA, "%s: wanted a tensor `ids` of 1 to %u tokens", file->map.path,
                       decoder->context_len);
    n = (uint32_t)t->dims[0];
    kv_dims(decoder, n, dims);
    SW_TRY(sw_weights_find(decoder, file, "ids", SW_ST_I32, 1, &n, &ids, err));
    SW_TRY(sw_weights_find(decoder, file, "kv", sw_weights_dtype(sw_decoder_kv_type(decoder)), KV_RANK, dims,
                           &kv, err));
    if (file->n_tensors != 2)
        return SW_FAIL(err, SW_BAD_DATA, "%s: has %zu tensors, wanted `ids` and `kv` alone", file->map.path,
                       file->n_tensors);
    decoder->sink = (sw_sink){n, ids, kv};
    return check_finite(decoder, file, err);
}
