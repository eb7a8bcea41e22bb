/* observe.h: what calibration saw of each named range, and the observer that collects it. */
#ifndef SW_QUANT_OBSERVE_H
#define SW_QUANT_OBSERVE_H

#include "quant/groups.h"
#include "quant/quant.h"

typedef struct sw_range {
    float min, max;      /* of all values; min > max where nothing was seen */
    float least_row_max; /* inputs of Softmax: the least of the rows' greatest values; else +infinity */
} sw_range;

#define SW_RANGE_EMPTY                                                                                       \
    { INFINITY, -INFINITY, INFINITY }

/* An empty table; NULL without memory. Free with sw_ranges_free. */
sw_ranges *sw_ranges_create(void);

/* Widens the range of that name. Errors: SW_NO_MEMORY. */
sw_code sw_ranges_merge(sw_ranges *ranges, const char *name, sw_range seen, sw_error *err) SW_MUST_CHECK;

/* NULL where the name was never seen. */
const sw_range *sw_ranges_find(const sw_ranges *ranges, const char *name);

/* Widens ranges of 16 bits by what a short text doesn't show: by a quarter, but scores by as much as their
 * rows' greatest values were apart, to both sides. */
void sw_ranges_widen(sw_ranges *ranges, sw_groups *groups);

/* All of them, in the order in which they were first seen. */
uint32_t sw_ranges_count(const sw_ranges *ranges);
const sw_range *sw_ranges_at(const sw_ranges *ranges, uint32_t index, const char **name);

/* Least and greatest of values[n], n > 0. False where one is infinite or no number. */
bool sw_range_of_values(const float *values, size_t n, float *min, float *max);

/* Fills err: the tensor has a value that isn't finite. SW_BAD_DATA. */
sw_code sw_ranges_not_finite(const sw_tensor *t, sw_error *err);

/* Merges a tensor's f32 values. Errors: SW_BAD_DATA with the tensor where a value isn't finite. */
sw_code sw_ranges_observe(sw_ranges *ranges, const sw_tensor *t, const float *values,
                          sw_error *err) SW_MUST_CHECK;

/* A running observation: the context of sw_observe_op. */
typedef struct sw_observation {
    sw_ranges *ranges;
    const sw_recipe *recipe;          /* NULL: min-max */
    struct sw_collection *collection; /* for what is more than that */
    sw_groups *groups;                /* of the graph that runs */
    sw_error error; /* error.code is not SW_OK after the first failure; later calls do nothing */
} sw_observation;

/* An sw_observer. Sees every op's outputs, but for what has a fixed encoding, the mask, and scores; those are
 * seen as Softmax gets them, without their blocked entries. */
void sw_observe_op(void *context, const sw_graph *graph, const sw_op *op, const void *const *values);

#endif
