/* failure.h: what adb and the device say, as a sentence with the next step. */
#ifndef SW_DEPLOY_FAILURE_H
#define SW_DEPLOY_FAILURE_H

#include <stdbool.h>
#include <stddef.h>

#include "spillway/error.h"

typedef struct sw_adb_failure {
    const char *name, *says, *means, *next;
} sw_adb_failure;

extern const sw_adb_failure sw_adb_failures[]; /* failures.inc's rows */
extern const size_t sw_n_adb_failures;

/* The first row that fits the text; NULL: none. */
const sw_adb_failure *sw_adb_failure_find(const char *text);

/* Fills err: "what was done: what it means; what to do ("what was said")". Returns SW_IO. */
sw_code sw_adb_fail(sw_error *err, const char *text, const char *format, ...) SW_PRINTF(3, 4);

/* Is this one of the lines that Qualcomm's DSP libraries write in runs that succeed? It is no reason of a
 * failure. */
bool sw_adb_line_is_harmless(const char *line);

#endif
