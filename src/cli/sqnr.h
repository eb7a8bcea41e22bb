/* sqnr.h: where along the graph a quantized model loses the float model's values. */
#ifndef SW_CLI_SQNR_H
#define SW_CLI_SQNR_H

#include <stdio.h>

#include "cli/quantized_model.h"

typedef struct sw_tensor_sqnr {
    const char *name, *op; /* the op that writes it, by QNN's name */
    const char *kind;      /* the name without its layer: a line of the plot */
    int layer;             /* -1: of none */
    sw_dtype dtype;
    /* The float values' power over the difference's, decibels: of what the quantized graph computed, all
     * errors before it included; and of the float values put through this tensor's own encoding alone. Where
     * `own` is the same the tensor is the culprit, where it is far higher the damage came from before. */
    double sqnr_db, own_db;
} sw_tensor_sqnr;

typedef struct sw_sqnr_table {
    sw_arena arena;
    sw_tensor_sqnr *rows; /* [count], the worst sqnr_db first */
    uint32_t count;
} sw_sqnr_table;

enum { SW_SQNR_WINDOW_TOKENS = 128 }; /* as much as needed: all float values are kept, 1 MB a token */

/* Runs the window through two decoders of one graph for n_tokens each (sw_window_decoder_*), float and
 * quantized, of the same model, and compares tensors of the same name. Left out: what is only moved, and
 * scores, which saturate on purpose where they have no weight: their damage shows in the probabilities.
 * Free in every case. Errors: those of the device; SW_NO_MEMORY. */
sw_code sw_sqnr_measure(sw_sqnr_table *out, const sw_decoder *exact, const sw_decoder *quantized,
                        sw_device *device, const int32_t *ids, uint32_t n_tokens,
                        sw_error *err) SW_MUST_CHECK;

/* As above for a quantized model, on at most SW_SQNR_WINDOW_TOKENS of the window: builds both decoders.
 * constants: a decoder that has the quantized ones. */
sw_code sw_sqnr_of_model(sw_sqnr_table *out, const sw_quantized_model *q, const sw_decoder *constants,
                         const sw_checkpoint *checkpoint, const sw_window *window,
                         sw_error *err) SW_MUST_CHECK;
void sw_sqnr_table_free(sw_sqnr_table *table);

/* "layer_1.ffn_product 6.1, ...": the five worst by their SQNR, or by their own rounding. Returns out. */
enum { SW_SQNR_WORST = 5, SW_SQNR_LINE_BYTES = 512 };
const char *sw_sqnr_worst(const sw_sqnr_table *table, bool own, char out[SW_SQNR_LINE_BYTES]);

/* The whole table as text, and below it the worst by their own rounding. */
void sw_sqnr_print(const sw_sqnr_table *table, FILE *stream);

/* Is gnuplot there, and can path be written? For a look before the work. */
sw_code sw_sqnr_plot_check(const char *path, sw_error *err) SW_MUST_CHECK;

/* SQNR over layers, a line for each kind of tensor, as SVG, drawn by gnuplot. Errors: SW_NOT_FOUND where
 * gnuplot isn't installed, SW_IO. */
sw_code sw_sqnr_plot(const sw_sqnr_table *table, const char *title, const char *path,
                     sw_error *err) SW_MUST_CHECK;

#endif
