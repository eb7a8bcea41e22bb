/* sink.c: the first tokens of every context, outside of the graphs (PrefixQuant: Chen et al., arXiv
 * 2410.05265).
 *
 * The first token makes massive activations: values a thousand times the others' that one encoding would have
 * to hold beside them. It sees nothing but itself, so its K and V depend on its id alone. They are computed
 * by the float model here, and all that follows sees them in the cache; they are no larger than others' K and
 * V.
 */
#include "quant/sink.h"

#include <math.h>
#include <string.h>

#include "device/border.h"
#include "quant/window.h"

sw_code sw_sink_compute(sw_sink *out, const sw_model *model, sw_device *device, const int32_t *ids,
                        uint32_t n_ids, sw_arena *arena, sw_error *err) {
    *out = (sw_sink){0};
    const sw_hparams *h = &model->hparams;
    size_t all = (size_t)sw_sink_values(h, n_ids), values = all / (2 * h->n_layers);
    float *kv = sw_arena_array(arena, all, sizeof *kv);
    int32_t *copy = sw_arena_array(arena, n_ids, sizeof *copy);
    if (kv == NULL || copy == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory for the first token's K, V");
    memcpy(copy, ids, n_ids * sizeof *copy);
    sw_float_window w = {.model = model, .device = device};
    sw_code code = sw_float_window_run(&w, &(sw_window){ids, n_ids}, NULL, NULL, err);
    for (uint32_t slot = 0; code == SW_OK && slot < 2 * h->n_layers; slot++) {
        const sw_graph *graph = w.decoder.graphs[0];
        char name[SW_NAME_BYTES];
        sw_layer_name(name, slot / 2, slot % 2 == 0 ? "k_new" : "v_new");
        uint32_t index = sw_graph_find(graph, name), o = 0;
        while (o < graph->n_outputs && graph->outputs[o] != index) o++;
        if (o == graph->n_outputs)
            code = SW_FAIL(err, SW_INTERNAL, "the graph has no output `%s`", name);
        else
            memcpy(kv + slot * values, w.outputs[o].data, values * sizeof *kv);
    }
    for (size_t i = 0; code == SW_OK && i < all; i++)
        if (!isfinite(kv[i]))
            code = SW_FAIL(err, SW_BAD_DATA, "the first token's K or V of layer %zu isn't finite",
                           i / values / 2);
    sw_float_window_free(&w);
    if (code == SW_OK) *out = (sw_sink){n_ids, copy, kv};
    return code;
}

sw_code sw_sink_attach(sw_decoder *decoder, const sw_sink *sink, sw_error *err) {
    if (sink == NULL || sink->n_tokens == 0) return SW_OK;
    const sw_hparams *h = &decoder->hparams;
    size_t all = (size_t)sw_sink_values(h, sink->n_tokens), values = all / (2 * h->n_layers);
    size_t bytes = sw_dtype_bytes(sw_decoder_kv_type(decoder));
    uint8_t *kv = sw_arena_array(&decoder->arena, all, bytes);
    int32_t *ids = sw_arena_array(&decoder->arena, sink->n_tokens, sizeof *ids);
    if (kv == NULL || ids == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory for the first token's K, V");
    memcpy(ids, sink->ids, sink->n_tokens * sizeof *ids);
    for (uint32_t slot = 0; slot < 2 * h->n_layers; slot++) {
        char name[SW_NAME_BYTES];
        sw_layer_name(name, slot / 2, slot % 2 == 0 ? "k_new" : "v_new");
        const sw_graph *graph = decoder->graphs[0]; /* of the shard that holds the layer */
        for (uint32_t g = 0; g < decoder->n_graphs && slot / 2 >= graph->end_layer; g++)
            graph = decoder->graphs[g];
        uint32_t index = sw_graph_find(graph, name);
        if (index == UINT32_MAX) return SW_FAIL(err, SW_INTERNAL, "the graph has no output `%s`", name);
        sw_quantize_row(graph->tensors[index], (const float *)sink->kv + slot * values, values,
                        kv + slot * values * bytes);
    }
    decoder->sink = (sw_sink){sink->n_tokens, ids, kv};
    return SW_OK;
}
