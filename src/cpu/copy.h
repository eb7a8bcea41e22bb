/* copy.h: a block of up to four dimensions from one place to another, each side with strides of its own. All
 * ops that only move data are calls of this. */
#ifndef SW_CPU_COPY_H
#define SW_CPU_COPY_H

#include "graph/ir.h"

typedef struct sw_copy {
    size_t element_bytes; /* 1, 2 or 4 */
    uint32_t rank;        /* at most SW_MAX_RANK */
    size_t dims[SW_MAX_RANK];
    size_t in_strides[SW_MAX_RANK], out_strides[SW_MAX_RANK]; /* bytes */
} sw_copy;

/* Bytes between neighbours of each dimension of a dense tensor. */
void sw_byte_strides(const sw_tensor *t, size_t out[SW_MAX_RANK]);

/* in and out don't overlap. */
void sw_copy_run(const sw_copy *copy, const void *in, void *out);

#endif
