/* int_neon_i8mm.c: the integer inner loops of cpu/int_neon.h with usdot. */
#if defined(__aarch64__)
#define NEON_ISA   sw_int_i8mm
#define NEON_NEEDS SW_ISA_I8MM
#define NEON_FORM  NEON_I8MM
#include "cpu/int_neon.h"
#else
typedef int sw_no_i8mm_integers_here; /* ISO C wants a declaration */
#endif
