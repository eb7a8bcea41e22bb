/* decoder.c: a decoder's names. */
#include "graph/decoder.h"

#include <stdio.h>
#include <string.h>

#include "base/find_name.h"

static const char *const form_names[SW_ATTENTION_FORM_COUNT] = {"grouped", "per_kv_head"};

const char *sw_attention_form_name(sw_attention_form form) {
    return form_names[form];
}

bool sw_attention_form_from_name(const char *name, sw_attention_form *out) {
    unsigned i;
    if (!sw_find_name(form_names, SW_ATTENTION_FORM_COUNT, name, &i)) return false;
    *out = (sw_attention_form)i;
    return true;
}

void sw_layer_name(char out[SW_NAME_BYTES], uint32_t layer, const char *name) {
    snprintf(out, SW_NAME_BYTES, "layer_%u.%s", layer, name);
}

uint32_t sw_decoder_kinds(const sw_decoder *decoder) {
    return decoder->n_shards > 0 && decoder->n_graphs % decoder->n_shards == 0
               ? decoder->n_graphs / decoder->n_shards
               : 0;
}

const char *sw_graph_first_input(const sw_graph *graph, char *out) {
    if (graph->begin_layer == 0) return memcpy(out, "hidden_in", sizeof "hidden_in");
    sw_layer_name(out, graph->begin_layer - 1, "residual");
    return out;
}

const char *sw_graph_last_output(const sw_graph *graph, uint32_t n_layers, char *out) {
    if (graph->end_layer == n_layers) return memcpy(out, "logits", sizeof "logits");
    sw_layer_name(out, graph->end_layer - 1, "residual");
    return out;
}
