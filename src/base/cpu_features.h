/* cpu_features.h: what this processor can do, read once. SPILLWAY_ISA=scalar|avx2|avx512 (on Arm
 * scalar|neon|dotprod|i8mm) in the environment hides what is above, so that every path of a machine can be
 * tested. */
#ifndef SW_BASE_CPU_FEATURES_H
#define SW_BASE_CPU_FEATURES_H

#include <stdbool.h>

#include "spillway/error.h"

typedef enum sw_isa {
    SW_ISA_SCALAR,
    SW_ISA_AVX2,   /* AVX2, FMA, F16C */
    SW_ISA_AVX512, /* AVX-512 F, BW, DQ, VL, VNNI */
    SW_ISA_NEON,   /* what every 64-bit Arm processor has */
    SW_ISA_DOTPROD,
    SW_ISA_I8MM,
    SW_ISA_COUNT
} sw_isa;

/* True where this processor can run code of that kind and the environment doesn't hide it. */
bool sw_cpu_has(sw_isa isa);
const char *sw_isa_name(sw_isa isa);

/* Errors: SW_INVALID_ARGUMENT where SPILLWAY_ISA is no name, which would hide nothing. */
sw_code sw_isa_check_environment(sw_error *err) SW_MUST_CHECK;

#endif
