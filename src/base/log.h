/* log.h: what is said beside the result. Everything goes to stderr; results go to stdout elsewhere.
 * Levels by how often a thing happens: info once a process or graph, verbose once a token, debug once an op.
 */
#ifndef SW_BASE_LOG_H
#define SW_BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spillway/error.h"

typedef enum sw_log_level {
    SW_LOG_ERROR,
    SW_LOG_WARN,
    SW_LOG_INFO,
    SW_LOG_VERBOSE,
    SW_LOG_DEBUG
} sw_log_level;

/* Process-wide; the default is SW_LOG_INFO. */
void sw_log_set_level(sw_log_level level);
sw_log_level sw_log_get_level(void);

/* "error", "warn", ...; false for other text. */
bool sw_log_level_from_name(const char *name, sw_log_level *out);
const char *sw_log_level_name(sw_log_level level);

/* One line, terminated here; whole lines even from several threads. Clears a progress bar first. */
void sw_log(sw_log_level level, const char *format, ...) SW_PRINTF(2, 3);

/* A line in which a library complains, without its newline. It is kept, to stand below the sentence that ends
 * the command; from SW_LOG_VERBOSE on it is shown at once, in its place among the others. */
void sw_log_below(const char *format, ...) SW_PRINTF(1, 2);

/* The end of a command: "error: sentence" and what was kept below it, or, for NULL, what was kept as
 * warnings. */
void sw_log_end(const char *sentence);

/* What was kept, to stderr; for signal handlers too. */
void sw_log_write_below(void);

/* Where lines are kept from now on, of `size` bytes, zero at first: what others read when this process has
 * ended. */
void sw_log_keep_below_in(char *buffer, size_t size);

/* A bar on stderr, drawn only where stderr is a terminal: "label 12/30 [=====     ] 3.2 s"; the time
 * alone where the total is 0: unknown. */
typedef struct sw_progress {
    const char *label;
    uint64_t total, drawn_us, start_us;
    bool active;
} sw_progress;

void sw_progress_start(sw_progress *p, const char *label, uint64_t total);
void sw_progress_update(sw_progress *p, uint64_t done);
void sw_progress_end(sw_progress *p); /* wipes the bar */
void sw_progress_forbid(void);        /* no bar any more in this process: another one draws there */

/* Monotonic clock, microseconds. */
uint64_t sw_now_us(void);

#endif
