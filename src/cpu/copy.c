/* copy.c: neighbouring dimensions that are contiguous on both sides are merged first; then the inner one is a
 * memcpy, or a loop over elements where a side has gaps (a transposed matrix). */
#include "cpu/copy.h"

#include <string.h>

void sw_byte_strides(const sw_tensor *t, size_t out[SW_MAX_RANK]) {
    size_t stride = sw_dtype_bytes(t->dtype);
    for (uint32_t i = t->rank; i-- > 0;) {
        out[i] = stride;
        stride *= t->dims[i];
    }
}

/* The same copy with four dimensions: those of 1 dropped, those merged that are one run on both sides, and
 * ones put before them. */
static sw_copy simplify(const sw_copy *copy) {
    sw_copy s = {.element_bytes = copy->element_bytes, .rank = SW_MAX_RANK, .dims = {1, 1, 1, 1}};
    uint32_t at = SW_MAX_RANK; /* the outermost dimension so far */
    for (uint32_t i = copy->rank; i-- > 0;) {
        if (copy->dims[i] == 1) continue;
        if (at < SW_MAX_RANK && copy->in_strides[i] == s.dims[at] * s.in_strides[at] &&
            copy->out_strides[i] == s.dims[at] * s.out_strides[at]) {
            s.dims[at] *= copy->dims[i];
            continue;
        }
        at--;
        s.dims[at] = copy->dims[i];
        s.in_strides[at] = copy->in_strides[i];
        s.out_strides[at] = copy->out_strides[i];
    }
    if (at == SW_MAX_RANK) s.in_strides[at - 1] = s.out_strides[at - 1] = s.element_bytes; /* one element */
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

/* The innermost dimension. */
static void copy_run(const sw_copy *c, const char *in, char *out) {
    uint32_t inner = SW_MAX_RANK - 1;
    if (c->in_strides[inner] == c->element_bytes && c->out_strides[inner] == c->element_bytes)
        memcpy(out, in, c->dims[inner] * c->element_bytes);
    else
        copy_elements(c->element_bytes, c->dims[inner], in, c->in_strides[inner], out, c->out_strides[inner]);
}

void sw_copy_run(const sw_copy *copy, const void *in, void *out) {
    sw_copy s = simplify(copy);
    for (size_t i = 0; i < s.dims[0]; i++)
        for (size_t j = 0; j < s.dims[1]; j++)
            for (size_t k = 0; k < s.dims[2]; k++)
                copy_run(&s,
                         (const char *)in + i * s.in_strides[0] + j * s.in_strides[1] + k * s.in_strides[2],
                         (char *)out + i * s.out_strides[0] + j * s.out_strides[1] + k * s.out_strides[2]);
}
