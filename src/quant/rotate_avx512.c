/* rotate_avx512.c: the loops of rotate_loops.h for AVX-512. */
#include "quant/rotate_loops.h"

#if defined(__x86_64__)
#include "quant/rotate_body.h"

const sw_rotate_loops sw_rotate_avx512 = {SW_ISA_AVX512, walsh, dense_rows};
#endif
