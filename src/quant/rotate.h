/* rotate.h: orthogonal matrices that spread an outlier over all channels, applied in n log n. */
#ifndef SW_QUANT_ROTATE_H
#define SW_QUANT_ROTATE_H

#include <stdint.h>

#include "base/arena.h"

/* R = diag(signs) (B x H), [size, size]: a Hadamard matrix H of order 2^k by Sylvester, and a matrix B for
 * what is left of the size. Where Paley's constructions give one, B is a Hadamard matrix too, and every entry
 * of R is +-1 / sqrt(size): one large channel comes out as size equal ones. Else B is a cosine transform:
 * orthogonal, less even. The same size and seed give the same R, on every machine to the
 * bit. */
typedef struct sw_rotation {
    sw_arena arena;
    uint32_t size, block; /* block divides size; size / block is a power of two */
    float *signs;         /* [size], +-1 / sqrt(size / block): H's norm is in here */
    float *dense;         /* B [block, block], orthogonal; NULL for block = 1 */
    const struct sw_rotate_loops *loops;
} sw_rotation;

enum { SW_ROTATION_MAX_BLOCK = 1024 };

/* Errors: SW_UNSUPPORTED (a size of 0; its odd part exceeds SW_ROTATION_MAX_BLOCK), SW_NO_MEMORY. */
sw_code sw_rotation_init(sw_rotation *r, uint32_t size, uint64_t seed, sw_error *err) SW_MUST_CHECK;
void sw_rotation_free(sw_rotation *r);

/* Each column of x [size, width] as a row vector times R, in place: width 1 is x R of one vector. scratch
 * [size * width]. Threads may call it with distinct x and scratch. */
void sw_rotation_apply(const sw_rotation *r, float *restrict x, size_t width, float *restrict scratch);

#endif
