/* calibrate.c: runs the float decoder over windows of text and watches every value. */
#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "quant/collect.h"
#include "quant/pack.h"
#include "quant/window.h"

enum { PIECE = 4096 }; /* rows of the table that are in memory at a time */

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
        if (r % PIECE == PIECE - 1) sw_weight_drop_rows(table, r + 1 - PIECE, r + 1);
        all.min = fminf(all.min, min);
        all.max = fmaxf(all.max, max);
    }
    free(row);
    sw_weight_drop_pages(table);
    return code == SW_OK ? sw_ranges_merge(ranges, "hidden_in", all, err) : code;
}

static sw_code run_window(sw_float_window *w, sw_observation *observation, const sw_window *window,
                          sw_error *err) {
    observation->groups = &w->groups;
    SW_TRY(sw_float_window_run(w, window, sw_observe_op, observation, err));
    if (observation->error.code != SW_OK && err) *err = observation->error;
    return observation->error.code;
}

/* Least and greatest, whatever the recipe's method: what all rows look at must not saturate. */
static sw_code observe_sink(sw_ranges *ranges, const sw_sink *sink, const sw_hparams *h, sw_error *err) {
    if (sink == NULL || sink->n_tokens == 0) return SW_OK;
    size_t values = (size_t)sw_sink_values(h, sink->n_tokens) / (2 * h->n_layers);
    for (uint32_t slot = 0; slot < 2 * h->n_layers; slot++) {
        char name[SW_NAME_BYTES];
        sw_range seen = SW_RANGE_EMPTY;
        sw_layer_name(name, slot / 2, slot % 2 == 0 ? "k_new" : "v_new");
        if (!sw_range_of_values((const float *)sink->kv + slot * values, values, &seen.min, &seen.max))
            return SW_FAIL(err, SW_BAD_DATA, "%s: the first token's values aren't finite", name);
        SW_TRY(sw_ranges_merge(ranges, name, seen, err));
    }
    return SW_OK;
}

/* The documents of packed windows stand behind the sink already. */
static sw_code run_windows(sw_observation *o, sw_float_window *w, const sw_packs *text, sw_error *err) {
    sw_progress progress;
    sw_progress_start(&progress, "calibrating", text->n);
    sw_code code = observe_embedding(o->ranges, w->model, err);
    for (size_t i = 0; i < text->n && code == SW_OK; i++) {
        const bool packed = text->begins != NULL;
        const sw_window window = packed ? text->windows[i] : sw_window_behind(w->sink, text->windows[i]);
        w->begins = packed ? text->begins[i] : NULL;
        code = run_window(w, o, &window, err);
        if (code != SW_OK && err) sw_error_prefix(err, "calibration window %zu", i);
        sw_collection_end_window(o->collection);
        sw_progress_update(&progress, i + 1);
    }
    sw_progress_end(&progress);
    if (code == SW_OK) code = sw_collection_choose(o->collection, o->ranges, err);
    if (code == SW_OK && text->begins != NULL) sw_ranges_widen(o->ranges, &w->groups);
    return code == SW_OK ? observe_sink(o->ranges, w->sink, &w->model->hparams, err) : code;
}

sw_code sw_calibrate_packed(sw_ranges **out, const sw_model *model, const sw_sink *sink,
                            const sw_recipe *recipe, sw_device *device, const sw_packs *packs,
                            sw_error *err) {
    *out = NULL;
    if (packs->n == 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "calibration has no text; it needs at least one window of tokens");
    sw_float_window w = {.model = model, .sink = sink, .device = device};
    sw_observation o = {.ranges = sw_ranges_create(), .recipe = recipe, .collection = sw_collection_create()};
    sw_code code = o.ranges != NULL && o.collection != NULL
                       ? run_windows(&o, &w, packs, err)
                       : SW_FAIL(err, SW_NO_MEMORY, "calibration: out of memory");
    sw_float_window_free(&w);
    sw_collection_free(o.collection);
    if (code == SW_OK)
        *out = o.ranges;
    else
        sw_ranges_free(o.ranges);
    return code;
}

sw_code sw_calibrate(sw_ranges **out, const sw_model *model, const sw_sink *sink, const sw_recipe *recipe,
                     sw_device *device, const sw_window *windows, size_t n_windows, sw_error *err) {
    const sw_packs each = {.windows = (sw_window *)(uintptr_t)windows, .n = n_windows};
    return sw_calibrate_packed(out, model, sink, recipe, device, &each, err);
}
