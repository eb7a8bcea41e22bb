/* layers.h: runs the layers of a float model stage by stage over some text, each stage with the weights that
 * those before it got, so that what a matrix is rounded for is what it will read. */
#ifndef SW_QUANT_LAYERS_H
#define SW_QUANT_LAYERS_H

#include "quant/hessian.h"
#include "quant/quant.h"

typedef struct sw_layers sw_layers;

/* Borrows model, device and pool. sink: the tokens before every window, or NULL; what they make is no input
 * to round for. Only the first most_tokens tokens are used. Memory: the values that are alive between two
 * stages (about 2 * (hidden + ffn) floats a token), and what hessian.h takes for the widest input. Errors:
 * SW_INVALID_ARGUMENT (no window of 2 tokens and more), the device's. */
sw_code sw_layers_create(sw_layers **out, const sw_model *model, const sw_sink *sink, sw_device *device,
                         sw_pool *pool, const sw_window *windows, size_t n_windows, size_t most_tokens,
                         sw_error *err) SW_MUST_CHECK;
void sw_layers_destroy(sw_layers *layers); /* NULL is allowed */

/* The factor of the input of the linear layer that has this matrix; valid until the next call. Constants must
 * come in the order in which the model reads them. */
sw_code sw_layers_factor(sw_layers *layers, const sw_tensor *constant, const sw_factor **out,
                         sw_error *err) SW_MUST_CHECK;

/* Stages that are still to come read these values in place of the model's. t: an s8 matrix with its data. */
sw_code sw_layers_replace(sw_layers *layers, const sw_tensor *t, const void *data,
                          sw_error *err) SW_MUST_CHECK;

#endif
