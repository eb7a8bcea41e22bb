/* collect.c: histograms and moving averages by range, and what they say in the end.
 *
 * The methods are those of PyTorch's quantization (MovingAverageMinMaxObserver, HistogramObserver) and
 * AIMET's (percentile, "enhanced"). */
#include "quant/collect.h"

#include <math.h>
#include <stdlib.h>

#include "quant/histogram.h"

typedef struct entry {
    sw_range_method method;
    sw_dtype type;
    bool symmetric;
    double least, greatest; /* of all values */
    /* Moving averages: of the window in hand, and of the windows before. */
    double window_min, window_max, mean_min, mean_max;
    bool any_window;
    sw_histogram *histogram; /* of the other methods */
} entry;

struct sw_collection {
    sw_names names;
    entry *entries; /* [capacity], by index in names */
    uint32_t capacity;
};

sw_collection *sw_collection_create(void) {
    return calloc(1, sizeof(sw_collection));
}

void sw_collection_free(sw_collection *c) {
    if (c == NULL) return;
    for (uint32_t i = 0; i < c->names.count; i++) free(c->entries[i].histogram);
    free(c->entries);
    sw_names_free(&c->names);
    free(c);
}

static entry *find_or_add(sw_collection *c, const char *range, const entry *fresh) {
    uint32_t index = sw_names_find(&c->names, range);
    if (index != UINT32_MAX) return &c->entries[index];
    if (c->names.count == c->capacity) {
        uint32_t capacity = c->capacity > 0 ? 2 * c->capacity : 256;
        entry *bigger = realloc(c->entries, capacity * sizeof *bigger);
        if (bigger == NULL) return NULL;
        c->entries = bigger, c->capacity = capacity;
    }
    sw_histogram *h = NULL;
    if (fresh->method.kind != SW_METHOD_MOVING_AVERAGE && (h = calloc(1, sizeof *h)) == NULL) return NULL;
    index = sw_names_add(&c->names, range);
    if (index == UINT32_MAX) {
        free(h);
        return NULL;
    }
    c->entries[index] = *fresh;
    c->entries[index].histogram = h;
    return &c->entries[index];
}

sw_code sw_collection_add(sw_collection *c, const sw_tensor *t, const float *values, sw_range_method method,
                          sw_dtype type, bool symmetric, sw_error *err) {
    size_t n = (size_t)sw_tensor_elements(t);
    float min, max;
    if (!sw_range_of_values(values, n, &min, &max)) return sw_ranges_not_finite(t, err);
    const entry fresh = {.method = method,
                         .type = type,
                         .symmetric = symmetric,
                         .least = INFINITY,
                         .greatest = -INFINITY,
                         .window_min = INFINITY,
                         .window_max = -INFINITY};
    entry *e = find_or_add(c, t->range, &fresh);
    if (e == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for its range", t->range);
    e->least = fmin(e->least, (double)min), e->greatest = fmax(e->greatest, (double)max);
    e->window_min = fmin(e->window_min, (double)min), e->window_max = fmax(e->window_max, (double)max);
    if (e->histogram != NULL) sw_histogram_add(e->histogram, values, n);
    return SW_OK;
}

void sw_collection_end_window(sw_collection *c) {
    for (uint32_t i = 0; i < c->names.count; i++) {
        entry *e = &c->entries[i];
        if (e->window_min > e->window_max) continue; /* not in this window */
        double share = e->any_window ? e->method.parameter : 1;
        e->mean_min += share * (e->window_min - e->mean_min);
        e->mean_max += share * (e->window_max - e->mean_max);
        e->any_window = true;
        e->window_min = INFINITY, e->window_max = -INFINITY;
    }
}

static void choose(const entry *e, double *min, double *max) {
    double share = e->method.parameter / 100;
    *min = e->least, *max = e->greatest;
    switch (e->method.kind) {
    case SW_METHOD_MOVING_AVERAGE:
        *min = e->mean_min, *max = e->mean_max;
        break;
    case SW_METHOD_PERCENTILE: /* a bin's edge may lie beyond what was seen */
        *min = fmax(sw_histogram_quantile(e->histogram, 1 - share), e->least);
        *max = fmin(sw_histogram_quantile(e->histogram, share), e->greatest);
        break;
    case SW_METHOD_MSE:
        sw_histogram_least_error(e->histogram, e->type, e->symmetric, min, max);
        break;
    default:
        break;
    }
}

sw_code sw_collection_choose(const sw_collection *c, sw_ranges *ranges, sw_error *err) {
    for (uint32_t i = 0; i < c->names.count; i++) {
        double min, max;
        choose(&c->entries[i], &min, &max);
        const sw_range chosen = {(float)min, (float)max, INFINITY};
        SW_TRY(sw_ranges_merge(ranges, c->names.names[i], chosen, err));
    }
    return SW_OK;
}
