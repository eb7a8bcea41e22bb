/* decoder.c: a decoder's names. */
#include "graph/decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/find_name.h"

static const char *const form_names[SW_ATTENTION_FORM_COUNT] = {"grouped", "per_kv_head", "per_head"};

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

sw_candidates sw_graph_candidates(const sw_graph *graph) {
    uint32_t logits = sw_graph_find(graph, "logits"), tokens = sw_graph_find(graph, "tokens");
    sw_candidates c = {0};
    if (logits != UINT32_MAX) c.logits = graph->tensors[logits];
    if (logits != UINT32_MAX && tokens != UINT32_MAX) {
        c.tokens = graph->tensors[tokens];
        c.n = (uint32_t)sw_tensor_elements(c.logits);
    }
    return c;
}

uint32_t sw_decoder_candidates(const sw_decoder *decoder) {
    uint32_t least = 0;
    for (uint32_t g = 0; g < decoder->n_graphs; g++) {
        uint32_t n = sw_graph_candidates(decoder->graphs[g]).n;
        if (n > 0 && (least == 0 || n < least)) least = n;
    }
    return least;
}

const char *sw_top_k_text(uint32_t top_k, char out[SW_TOP_K_BYTES]) {
    snprintf(out, SW_TOP_K_BYTES, top_k > 0 ? "topk:%u" : "all", top_k);
    return out;
}

bool sw_top_k_from_text(const char *text, uint32_t *top_k) {
    *top_k = 0;
    if (strcmp(text, "all") == 0) return true;
    if (strncmp(text, "topk:", 5) != 0 || text[5] < '1' || text[5] > '9') return false;
    char *end;
    unsigned long n = strtoul(text + 5, &end, 10);
    *top_k = (uint32_t)n;
    return *end == '\0' && n <= INT32_MAX;
}

const char *sw_graph_last_output(const sw_graph *graph, uint32_t n_layers, char *out) {
    if (graph->end_layer == n_layers) return memcpy(out, "logits", sizeof "logits");
    sw_layer_name(out, graph->end_layer - 1, "residual");
    return out;
}
