/* int_neon.c: the integer inner loops of cpu/int_neon.h, for any 64-bit Arm processor. */
#if defined(__aarch64__)
#define NEON_ISA   sw_int_neon
#define NEON_NEEDS SW_ISA_NEON
#define NEON_FORM  NEON_PLAIN
#include "cpu/int_neon.h"
#else
typedef int sw_no_neon_integers_here; /* ISO C wants a declaration */
#endif
