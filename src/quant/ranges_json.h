/* ranges_json.h: what calibration saw, as JSON: so that one calibration serves many compiles.
 *
 * {"format": "spillway-ranges", "version": 1, "ranges": [["name", min, max, least_row_max or null], ...]};
 * floats have 9 significant digits and come back bit for bit. */
#ifndef SW_QUANT_RANGES_JSON_H
#define SW_QUANT_RANGES_JSON_H

#include <stdio.h>

#include "quant/quant.h"

/* Errors: SW_IO (errno's text, without a path). */
sw_code sw_ranges_write_json(const sw_ranges *ranges, FILE *stream, sw_error *err) SW_MUST_CHECK;

/* Free with sw_ranges_free. file is for messages. Errors: SW_BAD_DATA with the place, SW_UNSUPPORTED
 * (version), SW_NO_MEMORY; then *out is NULL. */
sw_code sw_ranges_read_json(sw_ranges **out, const char *file, const char *text, size_t size,
                            sw_error *err) SW_MUST_CHECK;

/* [-1, 1] for every range of the decoder: enough to give types with, where encodings don't matter. Free with
 * sw_ranges_free. Errors: SW_NO_MEMORY; then *out is NULL. */
sw_code sw_ranges_any(sw_ranges **out, const sw_decoder *decoder, sw_error *err) SW_MUST_CHECK;

#endif
