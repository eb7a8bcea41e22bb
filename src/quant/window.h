/* window.h: the float decoder over a run of tokens at once: what all that looks at float values runs. */
#ifndef SW_QUANT_WINDOW_H
#define SW_QUANT_WINDOW_H

#include "quant/groups.h"
#include "quant/quant.h"

/* A graph "calibration" whose AR length is the window's: no cache but the sink's rows; logits of all rows, of
 * long windows of every fourth one. What it sees counts for the graphs with a cache, as ranges belong to
 * names (groups.h). */
typedef struct sw_float_window {
    const sw_model *model; /* borrowed, as the two below */
    const sw_sink *sink;   /* f32 of that model, or NULL: tokens then stand behind it */
    sw_device *device;
    const uint32_t *begins; /* [tokens of the window that runs] as in pack.h; NULL: it is one document */
    uint32_t n_tokens;      /* of the window that the rest is for; 0: none yet */
    sw_decoder decoder;
    sw_groups groups;
    sw_program *program;
    sw_binding *inputs, *outputs; /* data owned, but for the sink's */
} sw_float_window;

/* Runs ids[n_tokens]; the graph is rebuilt where the last window had another length. Init the struct with
 * model, sink and device, the rest 0. Errors: SW_INVALID_ARGUMENT (no token, an id out of range), the
 * device's, SW_NO_MEMORY. */
sw_code sw_float_window_run(sw_float_window *w, const sw_window *window, sw_observer *observer, void *context,
                            sw_error *err) SW_MUST_CHECK;
void sw_float_window_free(sw_float_window *w);

/* An sw_observer for float graphs: what an op has read of the checkpoint need not stay resident. So a run has
 * no more of the model in memory than the weights of one op. */
void sw_drop_read_weights(void *context, const sw_graph *graph, const sw_op *op, const void *const *values);

/* The window as a session feeds it: the sink's tokens at its start aren't repeated. sink may be NULL. */
sw_window sw_window_behind(const sw_sink *sink, sw_window window);

#endif
