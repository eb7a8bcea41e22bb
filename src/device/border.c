/* border.c: fills a graph's inputs and reads its outputs in the tensors' types and encodings.
 *
 * Everything is computed in float or double first and then goes through one writer, so that a type is known
 * in one place. The rounding is that of QNN's Quantize op: ties away from zero in the real value. Rotary
 * angles as in Su et al., RoFormer (arXiv 2104.09864), section 3.2.2. */
#include "device/border.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/f16.h"
#include "graph/decoder.h"

int32_t sw_quantize_value(float value, sw_dtype type, sw_encoding encoding) {
    double lowest = sw_dtype_min(type), greatest = sw_dtype_max(type);
    double q = isnan(value) ? 0 : round((double)value / (double)encoding.scale);
    q -= (double)encoding.offset;
    return (int32_t)(q < lowest ? lowest : q > greatest ? greatest : q);
}

static void write_integer(sw_dtype type, int32_t q, void *out, size_t index) {
    switch (type) {
    case SW_U8:
        ((uint8_t *)out)[index] = (uint8_t)q;
        break;
    case SW_S8:
        ((int8_t *)out)[index] = (int8_t)q;
        break;
    case SW_U16:
        ((uint16_t *)out)[index] = (uint16_t)q;
        break;
    default:
        break; /* not a quantized type */
    }
}

void sw_quantize_row(const sw_tensor *t, const float *values, size_t n, void *out) {
    if (t->dtype == SW_F32) {
        memcpy(out, values, n * sizeof *values);
    } else if (t->dtype == SW_F16) {
        for (size_t i = 0; i < n; i++) ((uint16_t *)out)[i] = sw_f32_to_f16(values[i]);
    } else {
        for (size_t i = 0; i < n; i++)
            write_integer(t->dtype, sw_quantize_value(values[i], t->dtype, t->encoding), out, i);
    }
}

/* Values of a type with one encoding, from index `first` on. */
static void read_values(sw_dtype type, sw_encoding encoding, const void *data, size_t first, size_t n,
                        float *out) {
    switch (type) {
    case SW_F32:
        memcpy(out, (const float *)data + first, n * sizeof *out);
        break;
    case SW_F16:
        for (size_t i = 0; i < n; i++) out[i] = sw_f16_to_f32(((const uint16_t *)data)[first + i]);
        break;
    case SW_U8:
        for (size_t i = 0; i < n; i++)
            out[i] = sw_dequantize_value(((const uint8_t *)data)[first + i], encoding);
        break;
    case SW_S8:
        for (size_t i = 0; i < n; i++)
            out[i] = sw_dequantize_value(((const int8_t *)data)[first + i], encoding);
        break;
    case SW_U16:
        for (size_t i = 0; i < n; i++)
            out[i] = sw_dequantize_value(((const uint16_t *)data)[first + i], encoding);
        break;
    default:
        break; /* i32 has no real values */
    }
}

void sw_dequantize_row(const sw_tensor *t, const void *data, size_t n, float *out) {
    read_values(t->dtype, t->encoding, data, 0, n, out);
}

void sw_border_fill_rotary(const sw_tensor *cos_tensor, const sw_tensor *sin_tensor, float theta,
                           const uint32_t *positions, uint32_t n_rows, void *cos_out, void *sin_out) {
    size_t n = cos_tensor->dims[1], half = cos_tensor->dims[2];
    size_t cos_bytes = half * sw_dtype_bytes(cos_tensor->dtype);
    size_t sin_bytes = half * sw_dtype_bytes(sin_tensor->dtype);
    for (size_t i = 0; i < half; i++) { /* column by column: pow() once for all rows */
        double frequency = pow((double)theta, -(double)i / (double)half);
        for (size_t r = 0; r < n; r++) {
            double angle = (double)positions[r < n_rows ? r : n_rows - 1] * frequency;
            float c = (float)cos(angle), s = (float)sin(angle);
            char *cos_row = (char *)cos_out + r * cos_bytes, *sin_row = (char *)sin_out + r * sin_bytes;
            sw_quantize_row(cos_tensor, &c, 1, cos_row + i * sw_dtype_bytes(cos_tensor->dtype));
            sw_quantize_row(sin_tensor, &s, 1, sin_row + i * sw_dtype_bytes(sin_tensor->dtype));
        }
    }
}

static void fill_columns(const sw_tensor *mask, void *row, size_t begin, size_t end, bool blocked) {
    bool integer = sw_dtype_quantized(mask->dtype);
    float value = blocked ? SW_MASK_BLOCKED : 0.0f;
    int32_t q = !integer  ? 0
                : blocked ? sw_dtype_min(mask->dtype)
                          : sw_quantize_value(0.0f, mask->dtype, mask->encoding);
    for (size_t j = begin; j < end; j++) {
        if (integer)
            write_integer(mask->dtype, q, row, j);
        else
            sw_quantize_row(mask, &value, 1, (char *)row + j * sw_dtype_bytes(mask->dtype));
    }
}

void sw_border_fill_mask(const sw_tensor *mask, uint32_t n_cached, void *out) {
    size_t n = mask->dims[2], context = mask->dims[3], cache = context - n;
    for (size_t r = 0; r < n; r++) {
        void *row = (char *)out + r * context * sw_dtype_bytes(mask->dtype);
        fill_columns(mask, row, 0, n_cached, false);
        fill_columns(mask, row, n_cached, cache, true);
        fill_columns(mask, row, cache, cache + r + 1, false);
        fill_columns(mask, row, cache + r + 1, context, true);
    }
}

sw_code sw_border_fill_hidden(const sw_tensor *hidden, const sw_tensor *embedding, const int32_t *ids,
                              uint32_t n_ids, void *out, sw_error *err) {
    size_t rows = hidden->dims[0], width = hidden->dims[1];
    if (n_ids > rows)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: %u tokens for %zu rows", hidden->name, n_ids, rows);
    for (uint32_t r = 0; r < n_ids; r++)
        if (ids[r] < 0 || (uint32_t)ids[r] >= embedding->dims[0])
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "token %u: id %d, but the vocabulary has 0 to %u", r,
                           ids[r], embedding->dims[0] - 1);

    float *row = calloc(width ? width : 1, sizeof *row);
    if (!row) return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for a row of %zu", hidden->name, width);
    size_t row_bytes = width * sw_dtype_bytes(hidden->dtype);
    for (size_t r = 0; r < rows; r++) {
        if (r == n_ids) memset(row, 0, width * sizeof *row); /* padding from here on */
        if (r < n_ids) {
            uint32_t id = (uint32_t)ids[r];
            if (embedding->data && embedding->dtype == SW_S8)
                sw_weight_matrix_row(embedding, id, row);
            else if (embedding->data)
                read_values(embedding->dtype, embedding->encoding, embedding->data, id * width, width, row);
            else
                sw_weight_row(embedding->weight, id, row);
        }
        sw_quantize_row(hidden, row, width, (char *)out + r * row_bytes);
    }
    free(row);
    return SW_OK;
}
