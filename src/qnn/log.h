/* log.h: Qualcomm's log: passed on line by line, word for word, behind "[QNN] ", and searched for what the
 * interface itself doesn't tell. Qualcomm's INFO comes several times an op, so it is shown at our verbose
 * level, but for the lines that are a result: the DDR summary and the SLC allocator's.
 *
 * The callback has no place for a user's pointer, so there is one state a process. It is locked: lines may
 * come from any thread. What is captured belongs to one call of the library at a time: one thread calls it.
 */
#ifndef SW_QNN_LOG_H
#define SW_QNN_LOG_H

#include <stdbool.h>

#include "base/log.h"
#include "qnn/api.h"
#include "qnn/hint.h"

/* The compiler's DDR summary of one finalize, bytes a run of the graph. */
typedef struct sw_qnn_ddr {
    bool known; /* all four lines were there */
    uint64_t spill, fill, write, read;
} sw_qnn_ddr;

enum { SW_QNN_MAX_REASONS = 3, SW_QNN_REASON_BYTES = 160, SW_QNN_OP_NAME_BYTES = 96 };

typedef struct sw_qnn_capture { /* since the last sw_qnn_log_reset */
    sw_qnn_ddr ddr;
    int slc_allocate; /* N of "slc_allocate = N" (a verbose line of graphCreate); -1: no such line */
    bool slc_idle;    /* the SLC allocator said that the graph has no copies through DDR to place */
    /* "Operator named X (0x..) not sufficiently tiled to fit in TCM. Requires N bytes": the largest N, 0 for
     * no such line; and the op of the graph that it came from, "" where no line names it. */
    uint64_t vtcm_wanted;
    char vtcm_op[SW_QNN_OP_NAME_BYTES];
    uint32_t n_4003; /* error lines with 4003: a feature of the graph is not to be had; calls return 0 all
                        the same */
    const sw_qnn_hint *hint; /* of the first warning or error that has one; NULL: none */
    uint32_t n_reasons;
    char reasons[SW_QNN_MAX_REASONS][SW_QNN_REASON_BYTES]; /* the first error lines, harmless ones left out */
} sw_qnn_capture;

/* For logCreate. */
void sw_qnn_log_callback(const char *format, uint32_t level, uint64_t timestamp, va_list args);

/* The level for the library: ours, but never below INFO, where the DDR summary is. */
uint32_t sw_qnn_log_level(void);

/* The level of the lines that are a result, INFO at first: below it where graphs are made only to be run. */
void sw_qnn_log_set_result_level(sw_log_level level);

void sw_qnn_log_reset(void);
void sw_qnn_log_captured(sw_qnn_capture *out);

#endif
