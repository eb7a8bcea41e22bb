/* row_avx2.c: the elementwise loops, compiled for AVX2. */
#if defined(__AVX2__)
#define ROW_ISA   sw_row_avx2
#define ROW_NEEDS SW_ISA_AVX2
#include "cpu/row_loops.h"
#else
typedef int sw_no_avx2_rows_here; /* ISO C wants a declaration */
#endif
