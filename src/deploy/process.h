/* process.h: runs a program and hands on what it prints, as it comes. */
#ifndef SW_DEPLOY_PROCESS_H
#define SW_DEPLOY_PROCESS_H

#include <stddef.h>

#include "spillway/error.h"

/* Bytes in the order they came; the pieces have no meaning. An error stops the program. */
typedef sw_code sw_process_sink(void *context, const char *data, size_t size, sw_error *err);

typedef struct sw_process {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH where it has no '/' */
    sw_process_sink *out, *err;
    void *context; /* of both */
} sw_process;

/* Its stdin is empty; no shell is between. *status: its exit status, 128 + the number of a signal that ended
 * it. Errors: SW_NOT_FOUND (no such program), SW_IO, a sink's own. */
sw_code sw_process_run(const sw_process *process, int *status, sw_error *err) SW_MUST_CHECK;

#endif
