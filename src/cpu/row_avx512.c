/* row_avx512.c: the elementwise loops, compiled for AVX-512. */
#if defined(__AVX512BW__)
#define ROW_ISA   sw_row_avx512
#define ROW_NEEDS SW_ISA_AVX512
#include "cpu/row_loops.h"
#else
typedef int sw_no_avx512_rows_here; /* ISO C wants a declaration */
#endif
