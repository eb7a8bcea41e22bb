/* row_isa.c: the elementwise loops compiled for any processor of the architecture, and the choice of a
 * variant.
 */
#define ROW_ISA   sw_row_scalar
#define ROW_NEEDS SW_ISA_SCALAR
#include "cpu/row_loops.h"

const sw_row_isa *const sw_row_variants[] = {
#if defined(__x86_64__)
    &sw_row_avx512, &sw_row_avx2,
#endif
    &sw_row_scalar};
const size_t sw_row_variant_count = sizeof sw_row_variants / sizeof *sw_row_variants;

const sw_row_isa *sw_row_best(void) {
    size_t i = 0;
    while (!sw_cpu_has(sw_row_variants[i]->needs)) i++;
    return sw_row_variants[i];
}
