/* platform.c: the first on-chip HTP of the library's list of hardware. */
#include "qnn/platform.h"

#include "qnn/error.h"
#include "qnn/log.h"

enum { ON_CHIP = 0 };

static void take(const QnnDevice_PlatformInfo_t *info, sw_qnn_platform *out) {
    for (uint32_t i = 0; info->version == 1 && info->v1.hwDevices != NULL && i < info->v1.numHwDevices; i++) {
        const QnnDevice_HardwareDeviceInfo_t *hardware = &info->v1.hwDevices[i];
        const QnnHtpDevice_DeviceInfoExtension_t *htp = hardware->v1.deviceInfoExtension;
        if (hardware->version != 1 || htp == NULL || htp->devType != ON_CHIP) continue;
        *out = (sw_qnn_platform){.soc_model = htp->onChipDevice.socModel,
                                 .htp_arch = htp->onChipDevice.arch,
                                 .vtcm_mb = (uint32_t)htp->onChipDevice.vtcmSize};
        return;
    }
}

sw_code sw_qnn_platform_read(const sw_qnn_library *library, sw_qnn_platform *out, sw_error *err) {
    const QnnCore_t *core = &library->htp->core;
    const QnnDevice_PlatformInfo_t *info = NULL;
    Qnn_Handle_t log = NULL;
    *out = (sw_qnn_platform){0};
    sw_qnn_log_reset();
    /* With a logger, so that the library's reasons are heard: this is the first call that looks for the HTP.
     */
    Qnn_ErrorHandle_t e = core->logCreate(sw_qnn_log_callback, sw_qnn_log_level(), &log);
    if (e != 0) return sw_qnn_fail(err, e, "looking for the HTP");
    e = core->deviceGetPlatformInfo(log, &info);
    sw_code code = e == 0 ? SW_OK : sw_qnn_fail(err, e, "asking which SoC this is");
    if (e == 0 && info != NULL) {
        take(info, out);
        core->deviceFreePlatformInfo(log, info);
    }
    core->logFree(log);
    return code;
}
