/* report.c: figures of a quantized decoder for the user.
 *
 * HTP drops the low 8 bits of a u16 product's integer sum (units of s_x * s_w) before it rescales; the ratio
 * s_out / (s_x * s_w) tells how many output steps that can be: 256 / ratio. */
#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "quant/quant.h"

static double greatest_scale(const sw_tensor *t) {
    if (!t->channel_scales) return (double)t->encoding.scale;
    float greatest = 0;
    for (uint32_t i = 0; i < t->dims[0]; i++)
        if (t->channel_scales[i] > greatest) greatest = t->channel_scales[i];
    return (double)greatest;
}

void sw_quantize_get_report(const sw_decoder *decoder, sw_quantize_report *out) {
    *out = (sw_quantize_report){0};
    for (uint32_t g = 0; g < decoder->n_graphs; g++) {
        const sw_graph *graph = decoder->graphs[g];
        for (uint32_t i = 0; i < graph->n_ops; i++) {
            const sw_op *op = &graph->ops[i];
            out->n_converts += op->type == SW_OP_CONVERT;
            if (op->type != SW_OP_FULLY_CONNECTED && op->type != SW_OP_MATMUL) continue;
            const sw_tensor *x = graph->tensors[op->inputs[0]], *y = graph->tensors[op->outputs[0]];
            double w = greatest_scale(graph->tensors[op->inputs[1]]);
            if (x->dtype != SW_U16 || y->dtype != SW_U16 || !(w > 0)) continue;
            double ratio = (double)y->encoding.scale / ((double)x->encoding.scale * w);
            if (out->smallest_u16_ratio != 0 && ratio >= out->smallest_u16_ratio) continue;
            out->smallest_u16_ratio = ratio;
            snprintf(out->smallest_u16_ratio_tensor, sizeof out->smallest_u16_ratio_tensor, "%s", y->name);
        }
    }
}

void sw_weight_costs_add(sw_weight_costs *costs, const sw_tensor *t, const sw_weight_cost *cost) {
    if (t->role != SW_ROLE_WEIGHT || t->dtype != SW_S8 || !t->weight) return;
    if (cost->unchanged) {
        costs->unchanged[t->weight->storage]++;
        return;
    }
    if (t->form.block) costs->block = t->form.block;
    costs->sums[t->weight->storage][t->form.scales][t->form.four_bit].tensors++;
    costs->sums[t->weight->storage][t->form.scales][t->form.four_bit].signal += cost->signal;
    costs->sums[t->weight->storage][t->form.scales][t->form.four_bit].noise += cost->noise;
}

void sw_weight_costs_log(const sw_weight_costs *costs) {
    char text[SW_WEIGHT_FORM_BYTES];
    for (unsigned i = 0; i < SW_STORE_COUNT; i++) {
        const char *storage = sw_storage_infos[i].name;
        if (costs->unchanged[i])
            sw_log(SW_LOG_INFO, "weights: %u matrices of %s unchanged, block by block", costs->unchanged[i],
                   storage);
        for (unsigned k = 0; k < 2 * SW_SCALES_COUNT; k++) {
            sw_weight_form form = {(sw_scales)(k / 2), k % 2, costs->block};
            if (!costs->sums[i][k / 2][k % 2].tensors) continue;
            double signal = costs->sums[i][k / 2][k % 2].signal, noise = costs->sums[i][k / 2][k % 2].noise;
            sw_log(SW_LOG_INFO, "weights: %u matrices of %s to %s: SQNR %.1f dB",
                   costs->sums[i][k / 2][k % 2].tensors, storage, sw_weight_form_text(form, text),
                   noise > 0 ? 10 * log10(signal / noise) : 999.0);
        }
    }
}
