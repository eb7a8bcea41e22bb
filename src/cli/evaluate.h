/* evaluate.h: how near quantized graphs are to the float model. */
#ifndef SW_CLI_EVALUATE_H
#define SW_CLI_EVALUATE_H

#include "device/device.h"
#include "graph/decoder.h"
#include "quant/quant.h"

typedef struct sw_evaluation {
    uint32_t positions, same_top; /* compared; of these the greatest logit is the same token's */
    double sqnr_db; /* 10 log10 of the f32 logits' power over the difference's, all positions together */
} sw_evaluation;

/* Feeds the window to the decoder in steps of a few tokens and compares the logits behind each step with
 * those of the f32 graphs of the model, on the same device. The window has at most the decoder's context of
 * tokens. */
sw_code sw_evaluate(const sw_model *model, const sw_decoder *decoder, sw_device *device,
                    const sw_window *window, sw_evaluation *out, sw_error *err) SW_MUST_CHECK;

#endif
