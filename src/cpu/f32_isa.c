/* f32_isa.c: the variants of the float inner loops, and the choice of one. */
#include "cpu/f32_isa.h"

const sw_f32_isa *const sw_f32_variants[] = {
#if defined(__x86_64__)
    &sw_f32_avx512, &sw_f32_avx2,
#endif
    &sw_f32_scalar};
const size_t sw_f32_variant_count = sizeof sw_f32_variants / sizeof *sw_f32_variants;

const sw_f32_isa *sw_f32_best(void) {
    static const sw_f32_isa *_Atomic best; /* every thread would find the same */
    const sw_f32_isa *found = best;
    for (size_t i = 0; found == NULL; i++)
        if (sw_cpu_has(sw_f32_variants[i]->needs)) best = found = sw_f32_variants[i];
    return found;
}
