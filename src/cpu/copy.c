/* copy.c: neighbouring dimensions that are contiguous on both sides are merged first; then the inner one is a
 * memcpy, or a loop over elements where a side has gaps (a transposed matrix). */
#include "cpu/copy.h"

#include <string.h>

void sw_byte_strides(const sw_tensor *t, size_t head_stride_bytes, size_t out[SW_MAX_RANK]) {
    size_t stride = sw_dtype_bytes(t->dtype);
    for (uint32_t i = t->rank; i-- > 0;) {
        out[i] = stride;
        stride *= t->dims[i];
    }
    if (head_stride_bytes != 0 && t->rank == SW_MAX_RANK) {
        out[1] = head_stride_bytes;
        out[0] = head_stride_bytes * t->dims[1];
    }
}

/* The same copy without dimensions of 1, and with those merged that are one run on both sides. */
static sw_copy simplify(const sw_copy *copy) {
    sw_copy s = {.element_bytes = copy->element_bytes};
    for (uint32_t i = 0; i < copy->rank; i++) {
        if (copy->dims[i] == 1) continue;
        uint32_t last = s.rank - 1;
        if (s.rank > 0 && s.in_strides[last] == copy->dims[i] * copy->in_strides[i] &&
            s.out_strides[last] == copy->dims[i] * copy->out_strides[i]) {
            s.dims[last] *= copy->dims[i];
            s.in_strides[last] = copy->in_strides[i];
            s.out_strides[last] = copy->out_strides[i];
            continue;
        }
        s.dims[s.rank] = copy->dims[i];
        s.in_strides[s.rank] = copy->in_strides[i];
        s.out_strides[s.rank] = copy->out_strides[i];
        s.rank++;
    }
    return s;
}

#define COPY_ELEMENTS(type)                                                                                  \
    for (size_t i = 0; i < n; i++) {                                                                         \
        type value;                                                                                          \
        memcpy(&value, in + i * in_stride, sizeof value);                                                    \
        memcpy(out + i * out_stride, &value, sizeof value);                                                  \
    }

static void copy_elements(size_t element, size_t n, const char *in, size_t in_stride, char *out,
                          size_t out_stride) {
    if (element == 1) {
        COPY_ELEMENTS(uint8_t)
    } else if (element == 2) {
        COPY_ELEMENTS(uint16_t)
    } else {
        COPY_ELEMENTS(uint32_t)
    }
}

static void copy_dim(const sw_copy *c, uint32_t dim, const char *in, char *out) {
    if (dim + 1 < c->rank) {
        for (size_t i = 0; i < c->dims[dim]; i++)
            copy_dim(c, dim + 1, in + i * c->in_strides[dim], out + i * c->out_strides[dim]);
    } else if (c->in_strides[dim] == c->element_bytes && c->out_strides[dim] == c->element_bytes) {
        memcpy(out, in, c->dims[dim] * c->element_bytes);
    } else {
        copy_elements(c->element_bytes, c->dims[dim], in, c->in_strides[dim], out, c->out_strides[dim]);
    }
}

void sw_copy_run(const sw_copy *copy, const void *in, void *out) {
    for (uint32_t i = 0; i < copy->rank; i++)
        if (copy->dims[i] == 0) return;
    sw_copy s = simplify(copy);
    if (s.rank == 0)
        memcpy(out, in, s.element_bytes);
    else
        copy_dim(&s, 0, in, out);
}

void sw_copy_to_dense(const sw_tensor *t, size_t head_stride_bytes, const void *in, void *out) {
    sw_copy copy = {.element_bytes = sw_dtype_bytes(t->dtype), .rank = t->rank};
    for (uint32_t i = 0; i < t->rank; i++) copy.dims[i] = t->dims[i];
    sw_byte_strides(t, head_stride_bytes, copy.in_strides);
    sw_byte_strides(t, 0, copy.out_strides);
    sw_copy_run(&copy, in, out);
}
