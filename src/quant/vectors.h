/* vectors.h: bytes of the widest vectors that the including file's flags allow. Wider ones, which compilers
 * accept too, they keep in memory. */
#ifndef SW_QUANT_VECTORS_H
#define SW_QUANT_VECTORS_H

#if defined(__AVX512F__)
#define SW_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define SW_VECTOR_BYTES 32
#else
#define SW_VECTOR_BYTES 16
#endif

#endif
