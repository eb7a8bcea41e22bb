/* value_avx512.c: the loops of value_loops.h for AVX-512. */
#include "quant/value_loops.h"

#if defined(__x86_64__)
#include "quant/value_body.h"

const sw_value_loops sw_values_avx512 = {SW_ISA_AVX512, range, nearest_of_8, cost};
#endif
