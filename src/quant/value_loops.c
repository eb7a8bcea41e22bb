/* value_loops.c: the loops of value_loops.h for any processor, and the choice. */
#include "quant/value_loops.h"

#include "quant/value_body.h"

const sw_value_loops sw_values_scalar = {SW_ISA_SCALAR, range, nearest_of_8, cost};

const sw_value_loops *sw_values_best(void) {
    static const sw_value_loops *_Atomic best; /* every thread would find the same */
    const sw_value_loops *found = best;
    if (found != NULL) return found;
    found = &sw_values_scalar;
#if defined(__x86_64__)
    if (sw_cpu_has(sw_values_avx2.needs)) found = &sw_values_avx2;
    if (sw_cpu_has(sw_values_avx512.needs)) found = &sw_values_avx512;
#endif
    best = found;
    return found;
}
