/* value_avx2.c: the loops of value_loops.h for AVX2. */
#include "quant/value_loops.h"

#if defined(__x86_64__)
#include "quant/value_body.h"

const sw_value_loops sw_values_avx2 = {SW_ISA_AVX2, range, nearest_of_8, cost};
#endif
