/* json.h: JSON from outside, read with jansson and checked value by value: every complaint names the file and
 * the path inside it ("graph.json: $.graphs[0].ops[3].inputs: ..."). The path costs nothing until it is
 * wanted: places are links on the reader's stack. */
#ifndef SW_BASE_JSON_H
#define SW_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "spillway/error.h"

/* A value and where it stands. */
typedef struct sw_json {
    const json_t *value;          /* borrowed from the document */
    const struct sw_json *parent; /* NULL: the document itself */
    const char *key;              /* in an object; NULL in an array */
    size_t index;                 /* in an array */
    const char *file;             /* for messages */
    const char *other_keys; /* what is said of missing and unknown keys beside their names; NULL: no more */
} sw_json;

/* Parses text: one value, UTF-8, no key twice, no integer beyond int64, not nested deeper than jansson's
 * 2048. On success *out is the document's place; give out->value to sw_json_free. Errors: SW_BAD_DATA with
 * line, column and reason; SW_NO_MEMORY. */
sw_code sw_json_parse(sw_json *out, const char *file, const char *text, size_t size,
                      sw_error *err) SW_MUST_CHECK;
void sw_json_free(sw_json *document); /* an empty one is allowed */

/* other_keys of a document that this program wrote. */
#define SW_JSON_OTHER_VERSION "made by another version of spillway: compile the model again"

/* Fills err with "file: path: sentence"; returns SW_BAD_DATA. */
sw_code sw_json_fail(const sw_json *at, sw_error *err, const char *format, ...) SW_PRINTF(3, 4);

/* Refuses keys that are not in known (ended by NULL). at must be an object: else refused. */
sw_code sw_json_only_keys(const sw_json *at, const char *const *known, sw_error *err) SW_MUST_CHECK;

/* A key of an object; SW_BAD_DATA where it is missing. sw_json_find: value NULL where it is missing. */
sw_code sw_json_get(const sw_json *at, const char *key, sw_json *out, sw_error *err) SW_MUST_CHECK;
sw_json sw_json_find(const sw_json *at, const char *key);

/* An element; index must be below sw_json_count. */
sw_json sw_json_element(const sw_json *array, size_t index);

/* Keys of an object, or elements of an array, between least and most. */
sw_code sw_json_object(const sw_json *at, sw_error *err) SW_MUST_CHECK;
sw_code sw_json_array(const sw_json *at, size_t least, size_t most, size_t *count,
                      sw_error *err) SW_MUST_CHECK;

/* Values of their type and in their range, both ends included. Text: 1 (or 0 with allow_empty) to most bytes,
 * no control characters; borrowed from the document. Numbers are finite (JSON has no others). */
sw_code sw_json_text(const sw_json *at, bool allow_empty, size_t most, const char **out,
                     sw_error *err) SW_MUST_CHECK;
sw_code sw_json_i64(const sw_json *at, int64_t least, int64_t most, int64_t *out,
                    sw_error *err) SW_MUST_CHECK;
sw_code sw_json_u64(const sw_json *at, uint64_t least, uint64_t most, uint64_t *out,
                    sw_error *err) SW_MUST_CHECK;
sw_code sw_json_u32(const sw_json *at, uint32_t least, uint32_t most, uint32_t *out,
                    sw_error *err) SW_MUST_CHECK;
sw_code sw_json_f64(const sw_json *at, double *out, sw_error *err) SW_MUST_CHECK;
sw_code sw_json_bool(const sw_json *at, bool *out, sw_error *err) SW_MUST_CHECK;

/* A JSON string of any bytes, file names among them: what is no UTF-8 stands as \xNN, as in error lines. Own
 * it; NULL without memory. */
json_t *sw_json_of_bytes(const char *text);

#endif
