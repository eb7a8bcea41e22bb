/* collect.h: ranges that aren't what was seen from end to end: by histograms and averages. */
#ifndef SW_QUANT_COLLECT_H
#define SW_QUANT_COLLECT_H

#include "quant/observe.h"

typedef struct sw_collection sw_collection;

/* An empty one; NULL without memory. */
sw_collection *sw_collection_create(void);
void sw_collection_free(sw_collection *collection); /* NULL is allowed */

/* Adds a tensor's f32 values to what is kept for its range. The first call for a range decides on method
 * (none but SW_METHOD_MINMAX and SW_METHOD_DEFAULT), type and whether the encoding will have 0 in the middle.
 * Errors: SW_BAD_DATA where a value isn't finite, SW_NO_MEMORY. */
sw_code sw_collection_add(sw_collection *collection, const sw_tensor *t, const float *values,
                          sw_range_method method, sw_dtype type, bool symmetric, sw_error *err) SW_MUST_CHECK;

/* Ends a window: what moving averages are over. */
void sw_collection_end_window(sw_collection *collection);

/* Merges the range of each into the table. */
sw_code sw_collection_choose(const sw_collection *collection, sw_ranges *ranges, sw_error *err) SW_MUST_CHECK;

#endif
