/* load.h: finds and loads Qualcomm's libraries. They are never linked. */
#ifndef SW_QNN_LOAD_H
#define SW_QNN_LOAD_H

#include <limits.h>

#include "qnn/api.h"
#include "qnn/stdout.h"
#include "spillway/error.h"

/* libQnnHtp.so and libQnnSystem.so of one folder, loaded for the rest of the process: they start threads and
 * are not made to be unloaded. */
typedef struct sw_qnn_library {
    const QnnInterface_t *htp;
    const QnnSystemInterface_t *system;
    const char *build_id; /* "v2.51.0.260929181845"; the library's own text */
    char path[PATH_MAX];  /* of libQnnHtp.so */
} sw_qnn_library;

/* For programs, before the library is loaded: without memory it may call abort(). After this call the process
 * then says so and exits with status 1. */
void sw_qnn_report_abort(void);

/* From `path` (libQnnHtp.so or its folder; NULL: not given), else $QNN_SDK_ROOT/lib/x86_64-linux-clang (unset
 * and empty are the same), else the first of `folders` (NULL-terminated; NULL: none) that has libQnnHtp.so.
 * What was named but is wrong is an error, not passed over. What the library prints while it is loaded is
 * kept off stdout. Errors: SW_NOT_FOUND (where was looked, what to set), SW_LIBRARY (the loader's sentence; a
 * missing entry point), SW_UNSUPPORTED (its API version and the oldest that will do). */
sw_code sw_qnn_library_open(sw_qnn_library *library, const char *path, const char *const *folders,
                            sw_error *err) SW_MUST_CHECK;

/* The provider to use out of what a library offers; for tests. */
sw_code sw_qnn_choose_htp(const char *path, const QnnInterface_t *const *list, uint32_t count,
                          const QnnInterface_t **out, sw_error *err) SW_MUST_CHECK;
sw_code sw_qnn_choose_system(const char *path, const QnnSystemInterface_t *const *list, uint32_t count,
                             const QnnSystemInterface_t **out, sw_error *err) SW_MUST_CHECK;

#endif
