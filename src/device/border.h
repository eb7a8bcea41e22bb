/* border.h: what the host writes into a graph's inputs and reads from its outputs, each in the tensor's own
 * type and encoding (f32, f16, s8, u8, u16). Shapes and meanings of the border: graph/decoder.h.
 *
 * All pointers are borrowed for the call and nothing is kept; threads may call with distinct outputs. */
#ifndef SW_DEVICE_BORDER_H
#define SW_DEVICE_BORDER_H

#include "graph/ir.h"

/* The integer nearest to value / scale, ties away from zero (as QNN's Quantize), less the offset, saturated
 * to the type's range. NaN becomes the integer of 0. type is a quantized one, encoding.scale > 0. */
int32_t sw_quantize_value(float value, sw_dtype type, sw_encoding encoding);

/* scale * (q + offset). */
static inline float sw_dequantize_value(int32_t q, sw_encoding encoding) {
    return (float)((double)encoding.scale * ((double)q + (double)encoding.offset));
}

/* values[n] as t's type and encoding (per tensor), to out. f16: nearest even. t's type is not i32. */
void sw_quantize_row(const sw_tensor *t, const float *values, size_t n, void *out);

/* The reverse: n values of t's type at data, to floats. For logits. */
void sw_dequantize_row(const sw_tensor *t, const void *data, size_t n, float *out);

/* cos and sin [1, n, head_dim / 2] of angle = position * theta^(-2 i / head_dim), computed in double.
 * positions[n_rows], 1 <= n_rows <= n: rows past them (padding) repeat the last position. */
void sw_border_fill_rotary(const sw_tensor *cos_tensor, const sw_tensor *sin_tensor, float theta,
                           const uint32_t *positions, uint32_t n_rows, void *cos_out, void *sin_out);

/* mask [1, 1, n, C]: row r sees the first n_cached of the C - n cache columns and the new columns 0..r; the
 * rest is blocked. Rows of padding follow the same rule: they stay finite, no row before them sees them, and
 * what they give is dropped. An unblocked entry is exactly 0; a blocked one SW_MASK_BLOCKED in a float type,
 * the lowest integer in a quantized one. n_cached <= C - n. */
void sw_border_fill_mask(const sw_tensor *mask, uint32_t n_cached, void *out);

/* hidden [n, hidden]: row r is the embedding's row ids[r]; rows n_ids..n-1 (padding) are 0. The embedding is
 * [vocab, hidden] with data of s8 and its scales, f16 or f32, or with a view only.
 * Errors: SW_INVALID_ARGUMENT (an id outside the vocabulary; more ids than rows), SW_NO_MEMORY. */
sw_code sw_border_fill_hidden(const sw_tensor *hidden, const sw_tensor *embedding, const int32_t *ids,
                              uint32_t n_ids, void *out, sw_error *err) SW_MUST_CHECK;

#endif
