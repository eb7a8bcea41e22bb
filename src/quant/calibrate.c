/* calibrate.c: runs the float decoder over windows of text and watches every value. */
#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "quant/observe.h"
#include "quant/window.h"

/* hidden_in's range is that of the whole table: any token can come, and the text shows few of them. */
static sw_code observe_embedding(sw_ranges *ranges, const sw_model *model, sw_error *err) {
    const sw_weight *table = sw_model_weight(model, SW_W_EMBEDDING, 0);
    float *row = malloc((table->cols + (size_t)1) * sizeof *row);
    if (!row) return SW_FAIL(err, SW_NO_MEMORY, "calibration: out of memory");
    sw_range all = SW_RANGE_EMPTY;
    sw_code code = SW_OK;
    for (uint32_t r = 0; r < table->rows && code == SW_OK; r++) {
        float min, max;
        sw_weight_row(table, r, row);
        if (!sw_range_of_values(row, table->cols, &min, &max))
            code = SW_FAIL(err, SW_BAD_DATA, "%s: row %u has a value that is infinite or no number",
                           table->file_name, r);
        all.min = fminf(all.min, min);
        all.max = fmaxf(all.max, max);
    }
    free(row);
    return code == SW_OK ? sw_ranges_merge(ranges, "hidden_in", all, err) : code;
}

/* As a session feeds it: the sink's tokens aren't repeated. */
static sw_window behind_sink(const sw_sink *sink, sw_window window) {
    uint32_t n = 0;
    while (sink != NULL && n < sink->n_tokens && n + 1 < window.n_tokens && window.ids[n] == sink->ids[n])
        n++;
    return (sw_window){window.ids + n, window.n_tokens - n};
}

static sw_code run_window(sw_float_window *w, sw_observation *observation, const sw_window *window,
                          sw_error *err) {
    observation->groups = &w->groups;
    SW_TRY(sw_float_window_run(w, window, sw_observe_op, observation, err));
    if (observation->error.code != SW_OK && err) *err = observation->error;
    return observation->error.code;
}

sw_code sw_calibrate(sw_ranges **out, const sw_model *model, const sw_sink *sink, sw_device *device,
                     const sw_window *windows, size_t n_windows, sw_error *err) {
    *out = NULL;
    if (n_windows == 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "calibration has no text; it needs at least one window of tokens");
    sw_float_window w = {.model = model, .sink = sink, .device = device};
    sw_observation observation = {.ranges = sw_ranges_create()};
    if (!observation.ranges) return SW_FAIL(err, SW_NO_MEMORY, "calibration: out of memory");
    sw_progress progress;
    sw_progress_start(&progress, "calibrating", n_windows);
    sw_code code = observe_embedding(observation.ranges, model, err);
    for (size_t i = 0; i < n_windows && code == SW_OK; i++) {
        const sw_window window = behind_sink(sink, windows[i]);
        code = run_window(&w, &observation, &window, err);
        if (code != SW_OK && err) sw_error_prefix(err, "calibration window %zu", i);
        sw_progress_update(&progress, i + 1);
    }
    sw_progress_end(&progress);
    sw_float_window_free(&w);
    if (code == SW_OK)
        *out = observation.ranges;
    else
        sw_ranges_free(observation.ranges);
    return code;
}
