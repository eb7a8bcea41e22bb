/* weights.c: a constant's values as its type, row by row from the checkpoint's view, in parallel.
 *
 * s8 matrices: symmetric, one scale a row, scale = greatest magnitude / 127, so that -128 stays unused.
 * Vectors of norms: affine over the whole vector. Nearest, ties away from zero; f16: nearest even. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/f16.h"
#include "device/border.h"
#include "quant/encoding.h"
#include "quant/observe.h"
#include "quant/quant.h"

enum { ROWS_A_TASK = 16 };

/* A row of zeros, or of what is as good as zero, needs some scale: > 0, and normal in products with others.
 */
static const float least_scale = 1e-8f;

typedef struct job {
    const sw_tensor *tensor;
    float *scales; /* [rows] for s8, else NULL */
    char *data;
    atomic_bool no_memory, not_finite, too_large;
} job;

static void quantize_matrix_row(job *j, const float *row, uint32_t cols, size_t r) {
    float min, max;
    if (!sw_range_of_values(row, cols, &min, &max)) {
        atomic_store(&j->not_finite, true);
        return;
    }
    float scale = fmaxf(-min, max) / 127;
    if (!(scale >= least_scale)) scale = least_scale;
    j->scales[r] = scale;
    int8_t *out = (int8_t *)j->data + r * cols;
    for (uint32_t i = 0; i < cols; i++) {
        double q = round((double)row[i] / (double)scale);
        out[i] = (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
    }
}

/* A row as it is, or through the tensor's one encoding. */
static void write_row(job *j, const float *row, uint32_t cols, size_t r) {
    float min, max;
    if (!sw_range_of_values(row, cols, &min, &max)) atomic_store(&j->not_finite, true);
    if (j->tensor->dtype == SW_F16 &&
        (isinf(sw_f16_to_f32(sw_f32_to_f16(min))) || isinf(sw_f16_to_f32(sw_f32_to_f16(max)))))
        atomic_store(&j->too_large, true);
    sw_quantize_row(j->tensor, row, cols, j->data + r * cols * sw_dtype_bytes(j->tensor->dtype));
}

static void quantize_rows(void *context, size_t begin, size_t end) {
    job *j = context;
    const sw_weight *w = j->tensor->weight;
    float *row = malloc((w->cols + (size_t)1) * sizeof *row);
    if (!row) {
        atomic_store(&j->no_memory, true);
        return;
    }
    for (size_t r = begin; r < end; r++) {
        sw_weight_row(w, (uint32_t)r, row);
        if (j->scales)
            quantize_matrix_row(j, row, w->cols, r);
        else
            write_row(j, row, w->cols, r);
    }
    free(row);
}

/* The one encoding of a quantized constant without scales for its rows: a norm's vector. */
static sw_code encode_vector(sw_tensor *t, sw_error *err) {
    const sw_weight *w = t->weight;
    float *row = malloc((w->cols + (size_t)1) * sizeof *row), least = 0, greatest = 0;
    if (!row) return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for a row", t->name);
    for (uint32_t r = 0; r < w->rows; r++) {
        float min, max;
        sw_weight_row(w, r, row);
        if (!sw_range_of_values(row, w->cols, &min, &max)) continue; /* write_row says so */
        least = fminf(least, min);
        greatest = fmaxf(greatest, max);
    }
    free(row);
    t->encoding = sw_encoding_of_range((double)least, (double)greatest, t->dtype);
    return SW_OK;
}

sw_code sw_quantize_constant(sw_decoder *decoder, sw_tensor *t, void *data, sw_pool *pool, sw_error *err) {
    const sw_weight *w = t->weight;
    if (!w || w->cols == 0 || (uint64_t)w->rows * w->cols != sw_tensor_elements(t) || t->dtype == SW_I32)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: has no weight of its size in the checkpoint", t->name);
    job j = {.tensor = t, .data = data};
    if (t->dtype == SW_S8) {
        j.scales = sw_arena_array(&decoder->arena, w->rows, sizeof *j.scales);
        if (!j.scales) return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for %u scales", t->name, w->rows);
    } else if (sw_dtype_quantized(t->dtype)) {
        SW_TRY(encode_vector(t, err));
    }
    sw_pool_for(pool, w->rows, ROWS_A_TASK, quantize_rows, &j);
    if (atomic_load(&j.no_memory)) return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for rows", t->name);
    if (atomic_load(&j.not_finite))
        return SW_FAIL(err, SW_BAD_DATA, "%s (%s): has a value that is infinite or no number", t->name,
                       w->file_name);
    if (atomic_load(&j.too_large))
        return SW_FAIL(err, SW_UNSUPPORTED,
                       "%s (%s): has a value beyond f16's greatest, 65504; use a recipe "
                       "with quantized weights",
                       t->name, w->file_name);
    t->channel_scales = j.scales;
    return SW_OK;
}
