/* platform.c: the first on-chip HTP of the library's list of hardware. */
#include "qnn/platform.h"

#include "qnn/error.h"
#include "qnn/log.h"

enum { ON_CHIP = 0 };

sw_code sw_qnn_platform_read(const sw_qnn_library *library, sw_qnn_platform *out, sw_error *err) {
    const QnnCore_t *core = &library->htp->core;
    const QnnDevice_PlatformInfo_t *info = NULL;
    *out = (sw_qnn_platform){0};
    sw_qnn_log_reset();
    void *diverted = sw_qnn_divert_stdout(); /* without a logger the library prints */
    Qnn_ErrorHandle_t e = core->deviceGetPlatformInfo(NULL, &info);
    sw_qnn_restore_stdout(diverted);
    if (e != 0)
        return SW_FAIL(
            err, SW_LIBRARY,
            "Qualcomm's library can't tell which SoC this is: QNN error %u; likely: no Snapdragon, or "
            "/sys/devices/system/soc/soc0/id (/sys/devices/soc0/soc_id on Android) can't be read; next: "
            "look at that file, and run on a device with an HTP",
            (unsigned)(e & 0xffff));
    if (info == NULL) return SW_OK;
    for (uint32_t i = 0; info->version == 1 && info->v1.hwDevices != NULL && i < info->v1.numHwDevices; i++) {
        const QnnDevice_HardwareDeviceInfo_t *hardware = &info->v1.hwDevices[i];
        const QnnHtpDevice_DeviceInfoExtension_t *htp = hardware->v1.deviceInfoExtension;
        if (hardware->version != 1 || htp == NULL || htp->devType != ON_CHIP) continue;
        *out = (sw_qnn_platform){.soc_model = htp->onChipDevice.socModel,
                                 .htp_arch = htp->onChipDevice.arch,
                                 .vtcm_mb = (uint32_t)htp->onChipDevice.vtcmSize};
        break;
    }
    core->deviceFreePlatformInfo(NULL, info);
    return SW_OK;
}
