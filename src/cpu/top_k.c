/* top_k.c: the k greatest values of each row and their places, in descending order, by a heap of the k best
 * so far: most values are passed over after one comparison with its least.
 *
 * A value and its place are one number, so that one comparison orders both: the value's bits, turned so that
 * they order as the value does, above the place's complement. So of equal values the one at the lower place
 * comes first. A NaN is the greatest: whoever takes the result sees it. */
#include "cpu/top_k.h"

#include <string.h>

#include "base/f16.h"

bool sw_top_k_matches(const sw_op_call *call) {
    const sw_tensor *x = call->in[0], *y = call->out, *places = call->places;
    if (y->dtype != x->dtype || places->dtype != SW_I32 || y->rank != x->rank || places->rank != y->rank)
        return false;
    for (uint32_t i = 0; i < y->rank; i++)
        if (places->dims[i] != y->dims[i] || (i + 1 < y->rank && y->dims[i] != x->dims[i])) return false;
    return y->dims[y->rank - 1] <= x->dims[x->rank - 1] && x->dims[x->rank - 1] <= INT32_MAX;
}

size_t sw_top_k_scratch_bytes(const sw_op_call *call) {
    return call->out->dims[call->out->rank - 1] * sizeof(uint64_t);
}

static uint32_t key_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x) return UINT32_MAX;
    if (x == 0) bits = 0; /* one zero */
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

static uint32_t key_at(sw_dtype type, const void *row, size_t i) {
    switch (type) {
    case SW_U8:
        return ((const uint8_t *)row)[i];
    case SW_S8:
        return (uint32_t)(((const int8_t *)row)[i] + 128);
    case SW_U16:
        return ((const uint16_t *)row)[i];
    case SW_I32:
        return (uint32_t)((const int32_t *)row)[i] ^ 0x80000000u;
    case SW_F16:
        return key_of_float(sw_f16_to_f32(((const uint16_t *)row)[i]));
    default:
        return key_of_float(((const float *)row)[i]);
    }
}

/* Puts the entry at the root of heap[0, k), whose root is the least, where it belongs. */
static void sift_down(uint64_t *heap, size_t k, uint64_t entry) {
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < k; i = child) {
        if (child + 1 < k && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= entry) break;
        heap[i] = heap[child];
    }
    heap[i] = entry;
}

static void top_k_of_row(const sw_op_call *call, const char *row, size_t n, char *values, int32_t *places,
                         size_t k) {
    const sw_dtype type = call->out->dtype;
    const size_t bytes = sw_dtype_bytes(type);
    uint64_t *heap = call->scratch;
    memset(heap, 0, k * sizeof *heap);
    for (size_t i = 0; i < n; i++) {
        uint64_t entry = (uint64_t)key_at(type, row, i) << 32 | (UINT32_MAX - (uint32_t)i);
        if (entry > heap[0]) sift_down(heap, k, entry);
    }
    for (size_t left = k; left > 0; left--) { /* the least goes last */
        const uint32_t place = UINT32_MAX - (uint32_t)heap[0];
        places[left - 1] = (int32_t)place;
        memcpy(values + (left - 1) * bytes, row + place * bytes, bytes);
        sift_down(heap, left - 1, heap[left - 1]);
    }
}

void sw_top_k_run(const sw_op_call *call) {
    const size_t n = call->in[0]->dims[call->in[0]->rank - 1], k = call->out->dims[call->out->rank - 1];
    const size_t bytes = sw_dtype_bytes(call->out->dtype), rows = sw_tensor_elements(call->out) / k;
    for (size_t r = 0; r < rows; r++)
        top_k_of_row(call, (const char *)call->in_data[0] + r * n * bytes, n,
                     (char *)call->out_data + r * k * bytes, call->places_data + r * k, k);
}
