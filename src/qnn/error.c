/* error.c: builds our error from QNN's number and the lines that the library logged before it. */
#include "qnn/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "qnn/log.h"

static const sw_qnn_error_info infos[] = {
#define SW_QNN_ERROR(number, name, reason, next) {number, name, reason, next},
#include "qnn/errors.inc"
#undef SW_QNN_ERROR
};

const sw_qnn_error_info *sw_qnn_error_find(uint64_t handle) {
    uint32_t number = (uint32_t)(handle & 0xffff);
    for (size_t i = 0; i < sizeof infos / sizeof *infos; i++)
        if (infos[i].number == number) return &infos[i];
    return NULL;
}

sw_code sw_qnn_fail(sw_error *err, uint64_t handle, const char *format, ...) {
    char said[sizeof((sw_qnn_capture *)0)->reasons + 64] = "";
    sw_error tried;
    va_list args;
    va_start(args, format);
    sw_vfail(&tried, SW_LIBRARY, format, args);
    va_end(args);

    sw_qnn_capture capture;
    sw_qnn_log_captured(&capture);
    for (uint32_t i = 0; i < capture.n_reasons; i++) {
        size_t used = strlen(said);
        snprintf(said + used, sizeof said - used, "%s\"%s\"", i == 0 ? "; the library says " : ", ",
                 capture.reasons[i]);
    }

    const sw_qnn_error_info *info = sw_qnn_error_find(handle);
    if (info == NULL)
        return sw_fail(err, SW_LIBRARY, "%s: unknown QNN error %" PRIu64 " (0x%" PRIx64 ")%s", tried.message,
                       handle, handle, said);
    const sw_qnn_hint *hint = capture.hint; /* a line tells more than the number */
    return sw_fail(err, SW_LIBRARY, "%s: QNN error %u (%s)%s; likely: %s; next: %s", tried.message,
                   info->number, info->name, said, hint != NULL ? hint->reason : info->reason,
                   hint != NULL ? hint->next : info->next);
}
