/* describe_layers.c: weights and encodings by layer; what belongs to none (embedding, last norm, head, masks)
 * stands in an entry of its own, the last one. */
#include <stdlib.h>
#include <string.h>

#include "base/f16.h"
#include "cli/describe.h"
#include "soc/memory_plan.h"

/* Of "layer_<i>.<name>"; n_layers for others. */
static uint32_t layer_of(const char *name, uint32_t n_layers) {
    char *end;
    if (strncmp(name, "layer_", 6) != 0) return n_layers;
    unsigned long layer = strtoul(name + 6, &end, 10);
    return end != name + 6 && *end == '.' && layer < n_layers ? (uint32_t)layer : n_layers;
}

static json_t *dims_to_json(const sw_tensor *t) {
    json_t *dims = json_array();
    for (uint32_t i = 0; i < t->rank; i++) json_array_append_new(dims, json_integer(t->dims[i]));
    return dims;
}

/* Least and greatest scale of a constant; false where it has none. */
static bool scale_range(const sw_tensor *t, double *least, double *greatest) {
    size_t rows = t->dims[0], n = 0;
    if (t->form.block > 0 && t->block_scales != NULL) {
        n = rows * (t->dims[1] / t->form.block);
        for (size_t i = 0; i < n; i++) {
            double s = (double)sw_f16_to_f32(t->block_scales[i]);
            if (i == 0 || s < *least) *least = s;
            if (i == 0 || s > *greatest) *greatest = s;
        }
    } else if (t->channel_scales != NULL) {
        n = rows;
        for (size_t i = 0; i < n; i++) {
            double s = (double)t->channel_scales[i];
            if (i == 0 || s < *least) *least = s;
            if (i == 0 || s > *greatest) *greatest = s;
        }
    } else if (sw_dtype_quantized(t->dtype)) {
        *least = *greatest = (double)t->encoding.scale, n = 1;
    }
    return n > 0;
}

static json_t *weight_to_json(const sw_tensor *t, uint64_t bytes) {
    char form[SW_WEIGHT_FORM_BYTES] = "";
    double least = 0, greatest = 0;
    bool scaled = scale_range(t, &least, &greatest);
    if (t->role == SW_ROLE_WEIGHT && t->dtype == SW_S8) sw_weight_form_text(t->form, form);
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:o, s:o}", "name", t->name, "type", sw_dtype_name(t->dtype),
                     "form", form, "dims", dims_to_json(t), "bytes", (json_int_t)bytes, "least_scale",
                     scaled ? json_real(least) : json_null(), "greatest_scale",
                     scaled ? json_real(greatest) : json_null());
}

static json_t *activation_to_json(const sw_tensor *t) {
    bool encoded = sw_dtype_quantized(t->dtype);
    const double scale = (double)t->encoding.scale, offset = t->encoding.offset;
    json_t *o = json_pack("{s:s, s:s}", "name", t->name, "type", sw_dtype_name(t->dtype));
    json_object_set_new(o, "scale", encoded ? json_real(scale) : json_null());
    json_object_set_new(o, "offset", encoded ? json_integer(t->encoding.offset) : json_null());
    json_object_set_new(o, "low",
                        encoded ? json_real(scale * (sw_dtype_min(t->dtype) + offset)) : json_null());
    json_object_set_new(o, "high",
                        encoded ? json_real(scale * (sw_dtype_max(t->dtype) + offset)) : json_null());
    return o;
}

static bool same_encoding(const sw_tensor *a, const sw_tensor *b) {
    return a->dtype == b->dtype && a->encoding.offset == b->encoding.offset &&
           memcmp(&a->encoding.scale, &b->encoding.scale, sizeof a->encoding.scale) == 0;
}

/* Graphs of several AR lengths have their tensors under the same names and, but for those that only one has,
 * with the same encodings: what an earlier graph of the shard has said isn't said again. */
static void add_activations(json_t *const *lists, const sw_decoder *d, uint32_t g) {
    const sw_graph *graph = d->graphs[g];
    const uint32_t first = graph->shard * sw_decoder_kinds(d);
    json_t *seen = json_object(); /* name: index, so that the whole takes linear time */
    for (uint32_t k = first; k < g; k++)
        for (uint32_t i = 0; i < d->graphs[k]->n_tensors; i++)
            json_object_set_new(seen, d->graphs[k]->tensors[i]->name,
                                json_integer((json_int_t)k * UINT32_MAX + i));
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        const sw_tensor *t = graph->tensors[i];
        if (t->kind == SW_TENSOR_CONSTANT || t->role == SW_ROLE_INDEX) continue;
        const json_t *before = json_object_get(seen, t->name);
        if (before != NULL) {
            json_int_t at = json_integer_value(before);
            if (same_encoding(t, d->graphs[at / UINT32_MAX]->tensors[at % UINT32_MAX])) continue;
        }
        json_array_append_new(lists[layer_of(t->name, d->hparams.n_layers)], activation_to_json(t));
    }
    json_decref(seen);
}

json_t *sw_describe_layers(const sw_decoder *d, bool details) {
    const uint32_t n = d->hparams.n_layers;
    const sw_dtype activation = sw_graph_activation_type(d->graphs[0]);
    uint64_t *bytes = calloc(n + 1u, sizeof *bytes);
    json_t **weights = calloc(n + 1u, sizeof(json_t *)), **activations = calloc(n + 1u, sizeof(json_t *));
    json_t *layers = NULL;
    if (bytes == NULL || weights == NULL || activations == NULL) goto end;
    layers = json_array();
    for (uint32_t i = 0; i <= n; i++) {
        weights[i] = json_array(), activations[i] = json_array();
        json_t *layer = json_object();
        json_object_set_new(layer, "layer", i < n ? json_integer(i) : json_null());
        json_object_set_new(layer, "weights", weights[i]); /* which it owns from here on */
        if (details)
            json_object_set_new(layer, "activations", activations[i]);
        else
            json_decref(activations[i]);
        json_array_append_new(layers, layer);
    }
    for (uint32_t i = 0; i < d->n_constants; i++) {
        const sw_tensor *t = d->constants[i];
        const sw_stored_bytes stored = sw_constant_stored_bytes(t, activation);
        const uint32_t layer = layer_of(t->name, n);
        bytes[layer] += stored.shared + stored.per_graph;
        json_array_append_new(weights[layer], weight_to_json(t, stored.shared + stored.per_graph));
    }
    for (uint32_t i = 0; i <= n; i++)
        json_object_set_new(json_array_get(layers, i), "weight_bytes", json_integer((json_int_t)bytes[i]));
    for (uint32_t g = 0; details && g < d->n_graphs; g++) add_activations(activations, d, g);
end:
    free(bytes), free(weights), free(activations);
    return layers;
}
