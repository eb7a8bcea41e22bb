/* rotate_loops.c: the loops of rotate_loops.h for any processor, and the choice. */
#include "quant/rotate_loops.h"

#include "quant/rotate_body.h"

const sw_rotate_loops sw_rotate_scalar = {SW_ISA_SCALAR, walsh, dense_rows};

const sw_rotate_loops *sw_rotate_best(void) {
#if defined(__x86_64__)
    if (sw_cpu_has(sw_rotate_avx512.needs)) return &sw_rotate_avx512;
    if (sw_cpu_has(sw_rotate_avx2.needs)) return &sw_rotate_avx2;
#endif
    return &sw_rotate_scalar;
}
