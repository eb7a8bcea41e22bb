/* trace.h: which work ran when on which thread, written as Chrome trace JSON for ui.perfetto.dev.
 *
 * One trace a process, like the log. Off, a span costs one load. Each thread has its own events: a span
 * inside another of the same thread ends before it does, so events nest. */
#ifndef SW_BASE_TRACE_H
#define SW_BASE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "spillway/error.h"

enum { SW_TRACE_MAX_THREADS = 64, SW_TRACE_MAX_EVENTS = 2000000 /* of a thread; later ones are counted */ };

/* Texts are borrowed until the trace is written; detail may be NULL. */
typedef struct sw_trace_span {
    const char *name, *category, *detail;
    uint64_t start_ns; /* 0: the trace is off */
} sw_trace_span;

/* Starts collecting; thread 0 is the caller's. */
void sw_trace_start(void);
bool sw_trace_is_on(void);

sw_trace_span sw_trace_begin(const char *name, const char *category, const char *detail);
void sw_trace_end(sw_trace_span span);

/* For pools: this thread's number, from 1; and a span of a worker under the name of what the loop is part of:
 * the innermost open span of the thread that started it. */
void sw_trace_set_thread(unsigned number);
sw_trace_span sw_trace_begin_worker(void);

/* Ends collecting and replaces the file; no thread may be in a span. Warns where events were dropped. Without
 * a start it only forgets. path NULL: forgets. Errors: SW_IO, SW_NO_MEMORY (events were lost for want of it).
 */
sw_code sw_trace_write(const char *path, sw_error *err) SW_MUST_CHECK;

#endif
