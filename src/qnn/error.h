/* error.h: QNN's error numbers as sentences. */
#ifndef SW_QNN_ERROR_H
#define SW_QNN_ERROR_H

#include <stdint.h>

#include "spillway/error.h"

typedef struct sw_qnn_error_info {
    uint32_t number;
    const char *name;   /* "QNN_GRAPH_ERROR_INVALID_HANDLE" */
    const char *reason; /* the likely one */
    const char *next;   /* what to do */
} sw_qnn_error_info;

/* Of a handle, whose low 16 bits are the number; NULL where the number is unknown. Static. */
const sw_qnn_error_info *sw_qnn_error_find(uint64_t handle);

/* Fills *err and returns SW_LIBRARY: what was tried, then number and name (unknown ones in decimal and hex),
 * the library's own last error lines (log.h), likely reason and next step. */
sw_code sw_qnn_fail(sw_error *err, uint64_t handle, const char *format, ...) SW_PRINTF(3, 4);

#endif
