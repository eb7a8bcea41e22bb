/* clock.h: how long this process's calls of Qualcomm's library took, for the account that a compile gives.
 * graphFinalize, which has its own place there (qnn/context.h), and running graphs aren't in it. */
#ifndef SW_QNN_CLOCK_H
#define SW_QNN_CLOCK_H

#include <stdint.h>

#include "qnn/api.h"

/* Of this thread, so far. */
double sw_qnn_call_seconds(void);

/* Qnn_ErrorHandle_t e = SW_QNN_TIMED(core->contextFree(...)): the call's own value. */
#define SW_QNN_TIMED(call) (sw_qnn_clock_start(), sw_qnn_clock_stop(call))
void sw_qnn_clock_start(void);
Qnn_ErrorHandle_t sw_qnn_clock_stop(Qnn_ErrorHandle_t e);

#endif
