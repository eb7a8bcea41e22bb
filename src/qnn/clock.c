/* clock.c: a sum a thread. */
#include "qnn/clock.h"

#include "base/log.h"

static _Thread_local uint64_t start_us, sum_us;

void sw_qnn_clock_start(void) {
    start_us = sw_now_us();
}

Qnn_ErrorHandle_t sw_qnn_clock_stop(Qnn_ErrorHandle_t e) {
    sum_us += sw_now_us() - start_us;
    return e;
}

double sw_qnn_call_seconds(void) {
    return (double)sum_us / 1e6;
}
