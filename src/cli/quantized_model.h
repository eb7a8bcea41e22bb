/* quantized_model.h: a recipe applied to a checkpoint, step by step, for what compiles the graphs and for
 * what only measures them. */
#ifndef SW_CLI_QUANTIZED_MODEL_H
#define SW_CLI_QUANTIZED_MODEL_H

#include "cli/calibration.h"
#include "graph/decoder.h"
#include "quant/rotate_model.h"

typedef struct sw_quantized_model {
    sw_recipe recipe;
    sw_rotated_model rotated; /* empty where not wanted */
    const sw_model *model; /* what its graphs are built from and calibrated with: that, or the checkpoint's */
    sw_arena arena;
    sw_sink sink;                      /* of the model, f32; empty where not wanted */
    sw_ranges *ranges;                 /* NULL for a float recipe */
    size_t n_calibrated, n_windows;    /* tokens and windows that they were seen on */
    bool shares;                       /* model, sink and ranges are another's */
    const char *rounding;              /* of all matrices, instead of the recipe's; or NULL */
    const sw_calibration *calibration; /* borrowed, as is the checkpoint: rounding needs them */
    const sw_checkpoint *checkpoint;
} sw_quantized_model;

/* Is the model rotated first? Then its embedding and its head are two tables. */
bool sw_cli_wants_rotation(const sw_recipe *recipe, const sw_options *options);

/* Repairs the model where the recipe or --rotate wants that: moves outliers out of the way of integers, in a
 * file of scratch_folder without a name, and takes the chat's first token out of the graphs. The checkpoint
 * is borrowed. Free in every case. Errors also: SW_UNSUPPORTED where chats have no first token in common. */
sw_code sw_quantized_model_begin(sw_quantized_model *q, const sw_recipe *recipe, const sw_options *options,
                                 const char *scratch_folder, const sw_checkpoint *checkpoint,
                                 sw_error *err) SW_MUST_CHECK;

/* Instead of both: what was made before, of the same model, recipe and calibration. No weight is read again:
 * graphs can be built and given types, but not calibrated, quantized or compared. sink is borrowed, *ranges
 * taken over. Errors: SW_NO_MEMORY. */
sw_code sw_quantized_model_restore(sw_quantized_model *q, const sw_recipe *recipe, const sw_options *options,
                                   const sw_checkpoint *checkpoint, const sw_sink *sink, sw_ranges **ranges,
                                   sw_error *err) SW_MUST_CHECK;

/* Runs the float model over the calibration's windows, where the recipe needs ranges. Calibration and
 * checkpoint are borrowed from here on: what rounds by the calibration text runs it again. */
sw_code sw_quantized_model_calibrate(sw_quantized_model *q, const sw_calibration *calibration,
                                     const sw_checkpoint *checkpoint, sw_error *err) SW_MUST_CHECK;

/* Instead of both: takes model and ranges of another one, which must outlive this one. False where the recipe
 * needs other ones, and where the other has none of its own. */
bool sw_quantized_model_share(sw_quantized_model *q, const sw_recipe *recipe, const sw_options *options,
                              const sw_quantized_model *other);
void sw_quantized_model_free(sw_quantized_model *q); /* once or more */

/* Where a constant goes once it is quantized; data is borrowed for the call. */
typedef sw_code sw_constant_sink(void *context, sw_tensor *constant, const void *data, sw_error *err);

/* Quantizes the decoder's constants one by one, in their order; its types are those of the recipe by then.
 * The matrices of layers are rounded as the model's recipe says; q NULL: to the nearest. Draws progress.
 * beside: a sink that waits for a disk and doesn't touch the decoder's arena has a thread of its own, one
 * constant at a time, while the next one is quantized. */
sw_code sw_quantize_constants(sw_decoder *decoder, const sw_quantized_model *q, sw_pool *pool, bool beside,
                              sw_constant_sink *sink, void *context, sw_error *err) SW_MUST_CHECK;

/* Gives `to` the quantized constants of `from`, a decoder of the same model and recipe, which must outlive
 * it. Decoders of one model have the same constants in the same order. Errors: SW_INTERNAL. */
sw_code sw_borrow_constants(sw_decoder *to, const sw_decoder *from, sw_error *err) SW_MUST_CHECK;

/* A decoder of one graph, "window", that takes n_tokens at once and gives the logits of all its rows: no
 * cache but the sink's rows. It isn't compiled, but has the integers of the graphs that are, since encodings
 * belong to names. Of the float model, behind that sink or (NULL) without one: */
sw_code sw_window_decoder_build(sw_decoder *out, const sw_model *model, const sw_sink *sink,
                                uint32_t n_tokens, sw_error *err) SW_MUST_CHECK;

/* Quantized, behind its sink. constants: a decoder of the same model and recipe, whose quantized constants
 * are borrowed; NULL: they are made here, in the decoder's arena. */
sw_code sw_window_decoder_quantize(sw_decoder *out, const sw_quantized_model *q, uint32_t n_tokens,
                                   const sw_decoder *constants, sw_pool *pool, sw_error *err) SW_MUST_CHECK;

#endif
