/* platform.h: the SoC that the library has found itself on. */
#ifndef SW_QNN_PLATFORM_H
#define SW_QNN_PLATFORM_H

#include "qnn/load.h"

typedef struct sw_qnn_platform { /* 0: not told */
    uint32_t soc_model, htp_arch, vtcm_mb;
} sw_qnn_platform;

/* Of no use on a PC, where the library names a fixed SoC. Errors: SW_LIBRARY, e.g. where no HTP is found. */
sw_code sw_qnn_platform_read(const sw_qnn_library *library, sw_qnn_platform *out,
                             sw_error *err) SW_MUST_CHECK;

#endif
