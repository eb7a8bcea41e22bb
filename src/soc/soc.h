/* soc.h: the SoCs whose HTP can be compiled for. The model's id alone goes to Qualcomm's compiler;
 * architecture and VTCM follow from it. */
#ifndef SW_SOC_SOC_H
#define SW_SOC_SOC_H

#include <stdint.h>

#include "spillway/error.h"

/* The first HTP whose graphs can share weights in a context (Qualcomm's HTP page; measured from V73 to V81).
 */
enum { SW_WEIGHT_SHARING_LEAST_ARCH = 73 };

typedef struct sw_soc {
    const char *name;  /* "SM8750" */
    uint32_t model_id; /* Qualcomm's number for it: 69 */
    uint32_t htp_arch; /* 79 for V79 */
    uint32_t vtcm_mb;  /* the HTP's on-chip memory: what one graph may use at most */
} sw_soc;

extern const sw_soc sw_socs[];
extern const uint32_t sw_n_socs;

/* By name, in any case; NULL: unknown. Static. So "is this text a SoC's name" is `!= NULL`. */
const sw_soc *sw_soc_find(const char *name);

/* By the compiler's number, as a context binary has it; NULL: unknown. */
const sw_soc *sw_soc_find_id(uint32_t model_id);

/* As sw_soc_find, with an error (SW_INVALID_ARGUMENT) that lists the names nearest to an unknown one. */
sw_code sw_soc_get(const char *name, const sw_soc **out, sw_error *err) SW_MUST_CHECK;

#endif
