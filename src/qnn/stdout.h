/* stdout.h: keeps Qualcomm's library away from the program's results. It prints at least one line with
 * printf while it is loaded, which then waits in the C library's buffer until the program ends. */
#ifndef SW_QNN_STDOUT_H
#define SW_QNN_STDOUT_H

#include "spillway/error.h"

/* For programs, once, before anything is printed: `stdout` becomes a stream of its own on a copy of file
 * descriptor 1, and descriptor 1 leads to stderr. Errors: SW_IO. */
sw_code sw_qnn_protect_stdout(sw_error *err) SW_MUST_CHECK;

/* What code between the two prints to stdout, in whatever way, goes to the log instead, lines with <E> as
 * errors and others at debug level, for the whole process: keep it short and let no other thread print. Works
 * with or without the above. */
void *sw_qnn_divert_stdout(void); /* NULL: nothing could be diverted */
void sw_qnn_restore_stdout(void *diversion);

#endif
