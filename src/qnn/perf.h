/* perf.h: the HTP's clocks and power, through the library's performance infrastructure. A vote holds while it
 * stands and is taken back at the end; where a process ends without that, the driver drops its votes. */
#ifndef SW_QNN_PERF_H
#define SW_QNN_PERF_H

#include "qnn/context.h"

/* Modes: enumerator, name. */
#define SW_HTP_PERF_MODES(X)                                                                                 \
    X(SW_PERF_BURST, "burst")         /* highest clocks, no sleep between calls */                           \
    X(SW_PERF_BALANCED, "balanced")   /* nominal clocks, which may go up and down */                         \
    X(SW_PERF_LOW_POWER, "low_power") /* low clocks, sleep as soon as may be */

typedef enum sw_htp_perf_mode {
#define SW_HTP_PERF_ENUM(id, name) id,
    SW_HTP_PERF_MODES(SW_HTP_PERF_ENUM)
#undef SW_HTP_PERF_ENUM
        SW_PERF_MODE_COUNT
} sw_htp_perf_mode;

const char *sw_htp_perf_mode_name(sw_htp_perf_mode mode);
bool sw_htp_perf_mode_from_name(const char *name, sw_htp_perf_mode *out);

typedef struct sw_qnn_perf {
    const QnnHtpDevice_Infrastructure_t *infrastructure; /* NULL: no vote stands */
    uint32_t client;
} sw_qnn_perf;

/* Votes for a mode. Errors: SW_LIBRARY, after which no vote stands: graphs run all the same. */
sw_code sw_qnn_perf_begin(sw_qnn_perf *perf, const sw_qnn *qnn, sw_htp_perf_mode mode,
                          sw_error *err) SW_MUST_CHECK;

/* Back to the default; no-op where no vote stands. Before the device goes. */
void sw_qnn_perf_end(sw_qnn_perf *perf);

#endif
