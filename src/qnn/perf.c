/* perf.c: a mode is a vote for bus and core clocks (by voltage corner), for the time until the DSP sleeps,
 * and for how long the host polls for an answer instead of waiting for an interrupt. */
#include "qnn/perf.h"

#include "base/find_name.h"
#include "base/log.h"
#include "qnn/error.h"

static const char *const mode_names[SW_PERF_MODE_COUNT] = {
#define SW_HTP_PERF_NAME(id, name) [id] = name,
    SW_HTP_PERF_MODES(SW_HTP_PERF_NAME)
#undef SW_HTP_PERF_NAME
};

const char *sw_htp_perf_mode_name(sw_htp_perf_mode mode) {
    return mode_names[mode];
}

bool sw_htp_perf_mode_from_name(const char *name, sw_htp_perf_mode *out) {
    unsigned i;
    if (!sw_find_name(mode_names, SW_PERF_MODE_COUNT, name, &i)) return false;
    *out = (sw_htp_perf_mode)i;
    return true;
}

typedef struct vote {
    bool adjust;   /* clocks may follow the load */
    uint32_t mode; /* QNN_HTP_POWERMODE_* */
    uint32_t least_corner, corner;
    uint32_t sleep_us;       /* shortest time that the DSP takes to sleep and wake */
    uint32_t rpc_latency_us; /* of a call, asked from the host's processors; 0: whatever it is */
    uint32_t polling_us;
} vote;

static const vote votes[SW_PERF_MODE_COUNT] = {
    [SW_PERF_BURST] = {false, QNN_HTP_POWERMODE_PERFORMANCE, QNN_HTP_CORNER_MAX, QNN_HTP_CORNER_MAX, 40, 100,
                       QNN_HTP_MOST_RPC_POLLING_US},
    [SW_PERF_BALANCED] = {true, QNN_HTP_POWERMODE_ADJUST_UP_DOWN, QNN_HTP_CORNER_NOM, QNN_HTP_CORNER_NOM_PLUS,
                          1000, 0, 0},
    [SW_PERF_LOW_POWER] = {true, QNN_HTP_POWERMODE_POWER_SAVER, QNN_HTP_CORNER_SVS2, QNN_HTP_CORNER_SVS, 2000,
                           0, 0},
};
static const vote no_vote = {
    true, QNN_HTP_POWERMODE_ADJUST_UP_DOWN, QNN_HTP_CORNER_DISABLE, QNN_HTP_CORNER_DISABLE, 0, 0, 0};

static Qnn_ErrorHandle_t set(const sw_qnn_perf *perf, const vote *v) {
    QnnHtpPerfInfrastructure_PowerConfig_t clocks = {.option = QNN_HTP_POWER_DCVS_V3},
                                           latency = {.option = QNN_HTP_POWER_RPC_CONTROL_LATENCY},
                                           polling = {.option = QNN_HTP_POWER_RPC_POLLING_TIME};
    clocks.u.dcvsV3 = (QnnHtpPerfInfrastructure_DcvsV3_t){.contextId = perf->client,
                                                          .setDcvsEnable = 1,
                                                          .dcvsEnable = v->adjust,
                                                          .powerMode = v->mode,
                                                          .setSleepLatency = v->sleep_us > 0,
                                                          .sleepLatency = v->sleep_us,
                                                          .setBusParams = 1,
                                                          .busVoltageCornerMin = v->least_corner,
                                                          .busVoltageCornerTarget = v->corner,
                                                          .busVoltageCornerMax = v->corner,
                                                          .setCoreParams = 1,
                                                          .coreVoltageCornerMin = v->least_corner,
                                                          .coreVoltageCornerTarget = v->corner,
                                                          .coreVoltageCornerMax = v->corner};
    latency.u.microseconds = v->rpc_latency_us;
    polling.u.microseconds = v->polling_us;
    const QnnHtpPerfInfrastructure_PowerConfig_t *list[] = {&clocks, &latency, &polling, NULL};
    return perf->infrastructure->setPowerConfig(perf->client, list);
}

sw_code sw_qnn_perf_begin(sw_qnn_perf *perf, const sw_qnn *qnn, sw_htp_perf_mode mode, sw_error *err) {
    *perf = (sw_qnn_perf){0};
    const QnnHtpDevice_Infrastructure_t *infrastructure = NULL;
    sw_qnn_log_reset();
    Qnn_ErrorHandle_t e = qnn->library->htp->core.deviceGetInfrastructure(&infrastructure);
    if (e != 0) return sw_qnn_fail(err, e, "asking for the performance infrastructure");
    if (infrastructure == NULL || infrastructure->infraType != 0 ||
        infrastructure->createPowerConfigId == NULL || infrastructure->setPowerConfig == NULL ||
        infrastructure->destroyPowerConfigId == NULL)
        return SW_FAIL(err, SW_LIBRARY, "the library has no performance infrastructure");
    e = infrastructure->createPowerConfigId(0, 0, &perf->client);
    if (e != 0) return sw_qnn_fail(err, e, "becoming a client of the performance infrastructure");
    perf->infrastructure = infrastructure;
    e = set(perf, &votes[mode]);
    if (e == 0) return SW_OK;
    sw_code code = sw_qnn_fail(err, e, "setting the performance mode %s", mode_names[mode]);
    sw_qnn_perf_end(perf);
    return code;
}

void sw_qnn_perf_end(sw_qnn_perf *perf) {
    if (perf->infrastructure == NULL) return;
    if (set(perf, &no_vote) != 0)
        sw_log(SW_LOG_VERBOSE, "the performance mode is taken back by its client's end");
    perf->infrastructure->destroyPowerConfigId(perf->client);
    *perf = (sw_qnn_perf){0};
}
