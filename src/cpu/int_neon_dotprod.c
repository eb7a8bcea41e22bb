/* int_neon_dotprod.c: the integer inner loops of cpu/int_neon.h with sdot. */
#if defined(__aarch64__)
#define NEON_ISA   sw_int_dotprod
#define NEON_NEEDS SW_ISA_DOTPROD
#define NEON_FORM  NEON_DOTPROD
#include "cpu/int_neon.h"
#else
typedef int sw_no_dotprod_integers_here; /* ISO C wants a declaration */
#endif
