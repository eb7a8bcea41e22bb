/* smooth.h: a model turned into an equal one whose channels are nearer to each other in size. */
#ifndef SW_QUANT_SMOOTH_H
#define SW_QUANT_SMOOTH_H

#include "quant/quant.h"
#include "quant/rotate_model.h"

/* Divides channels of activations and multiplies the weights behind them by the same factors, in place:
 * up_proj rows against down_proj columns, v_proj rows against o_proj columns, and where the model isn't
 * rotated the norms' gammas against what reads them. The factors come from what the float model shows on some
 * of the windows (behind the sink, or NULL) and from the weights, by the recipe's strength, or with
 * SW_SMOOTH_SEARCH by a search for the least noise that the recipe's types make. pool may be NULL. Draws
 * progress. Errors: SW_BAD_DATA (a value that isn't finite), the device's, SW_NO_MEMORY. */
sw_code sw_smooth_model(sw_rotated_model *model, const sw_recipe *recipe, const sw_sink *sink,
                        sw_device *device, const sw_window *windows, size_t n_windows, sw_pool *pool,
                        sw_error *err) SW_MUST_CHECK;

/* One pair of layers: `channels` activations, and the matrices that read them. */
typedef struct sw_smooth_pair {
    size_t channels;
    const float *greatest;       /* [channels] of |activation| */
    const float *first_greatest; /* the same of a factor of it that is quantized too, or NULL */
    const float *first_power;    /* [channels] mean square of the other factor */
    const float *power;          /* [cols] mean square of what each column multiplies */
    float *weights[3];           /* [rows[i], cols] each; `weights` of them */
    size_t rows[3], cols, n_weights;
    const uint32_t *channel_of;            /* [cols], or NULL: column i reads channel i */
    double activation_steps, weight_steps; /* of their encodings: 255, 65535; 15 */
} sw_smooth_pair;

/* The noise power at the matrices' outputs with channels divided by factors [channels], by rounding alone:
 * errors of a twelfth of a step squared, independent of each other. */
double sw_smooth_noise(const sw_smooth_pair *pair, const float *factors, float *scratch);

/* Factors [channels] > 0 by strength: greatest^strength / (largest weight)^(1 - strength), as SmoothQuant has
 * it, or by search. scratch [cols + 2 * channels]. */
void sw_smooth_factors(const sw_smooth_pair *pair, float strength, float *factors, float *scratch);

#endif
