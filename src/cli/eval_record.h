/* eval_record.h: results as they come, in a file that a second run goes on from.
 *
 * JSON Lines: one object a result, appended and flushed at once. A result is found again by its kind, its
 * recipe, its number, and a digest of all that it depends on (model, text, context, calibration, version):
 * what was made from other things stays in the file and is passed over. */
#ifndef SW_CLI_EVAL_RECORD_H
#define SW_CLI_EVAL_RECORD_H

#include <jansson.h>
#include <stdint.h>

#include "spillway/error.h"

typedef struct sw_eval_record sw_eval_record;

typedef struct sw_eval_key {
    const char *kind, *recipe; /* "window", "16a8w" */
    uint32_t number;
    const char *digest;
} sw_eval_key;

/* Reads what the file holds and opens it for more; it may be missing. path NULL: kept in memory alone. A last
 * line without its end, from a run that was cut off, is taken off the file. Errors: SW_IO; SW_BAD_DATA with
 * the line where it is no record of this program (the file is then left as it is). */
sw_code sw_eval_record_open(sw_eval_record **out, const char *path, sw_error *err) SW_MUST_CHECK;
void sw_eval_record_close(sw_eval_record *record); /* NULL is allowed */

/* Borrowed; NULL where there is no such result. */
const json_t *sw_eval_record_find(const sw_eval_record *record, const sw_eval_key *key);

/* Takes the values over in every case; NULL is SW_NO_MEMORY. */
sw_code sw_eval_record_put(sw_eval_record *record, const sw_eval_key *key, json_t *values,
                           sw_error *err) SW_MUST_CHECK;

#endif
