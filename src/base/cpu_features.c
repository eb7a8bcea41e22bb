/* cpu_features.c: through the compiler's own reading of CPUID; on Arm the kernel's, in the auxiliary vector.
 */
#include "base/cpu_features.h"

#include <stdlib.h>
#include <string.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

static const char *const names[SW_ISA_COUNT] = {"scalar", "avx2", "avx512", "neon", "dotprod", "i8mm"};

const char *sw_isa_name(sw_isa isa) {
    return (unsigned)isa < SW_ISA_COUNT ? names[isa] : "unknown";
}

static bool processor_has(sw_isa isa) {
    switch (isa) {
    case SW_ISA_SCALAR:
        return true;
#if defined(__x86_64__)
    case SW_ISA_AVX2:
        /* F16C came before AVX2 and is in every processor that has it; clang 14 can't ask for it by name. */
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case SW_ISA_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vnni");
#elif defined(__aarch64__)
    case SW_ISA_NEON:
        return true;
    case SW_ISA_DOTPROD:
        return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
    case SW_ISA_I8MM:
        return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
#endif
    default:
        return false;
    }
}

bool sw_cpu_has(sw_isa isa) {
    const char *limit = getenv("SPILLWAY_ISA");
    for (unsigned i = 0; limit != NULL && i < SW_ISA_COUNT; i++)
        if (strcmp(limit, names[i]) == 0 && (unsigned)isa > i) return false;
    return processor_has(isa);
}

sw_code sw_isa_check_environment(sw_error *err) {
    const char *limit = getenv("SPILLWAY_ISA");
    for (unsigned i = 0; limit != NULL && i < SW_ISA_COUNT; i++)
        if (strcmp(limit, names[i]) == 0) return SW_OK;
    if (limit == NULL || limit[0] == '\0') return SW_OK;
    return SW_FAIL(
        err, SW_INVALID_ARGUMENT,
        "SPILLWAY_ISA: `%s`, wanted one of: scalar, avx2, avx512; on Arm scalar, neon, dotprod, i8mm", limit);
}
