/* rotate_avx2.c: the loops of rotate_loops.h for AVX2. */
#include "quant/rotate_loops.h"

#if defined(__x86_64__)
#include "quant/rotate_body.h"

const sw_rotate_loops sw_rotate_avx2 = {SW_ISA_AVX2, walsh, dense_rows};
#endif
