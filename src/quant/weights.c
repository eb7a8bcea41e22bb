/* weights.c: a constant's values as its type, row by row from the checkpoint's view, in parallel.
 *
 * s8 matrices: by matrix.c in their form; but where the file has the form's own blocks, these as they are.
 * Vectors of norms: affine over the whole vector. Nearest, ties away from zero; f16: nearest even. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/f16.h"
#include "device/border.h"
#include "quant/encoding.h"
#include "quant/gptq.h"
#include "quant/matrix.h"
#include "quant/observe.h"
#include "quant/quant.h"
#include "quant/value_loops.h"

enum { ROWS_A_TASK = SW_GPTQ_ROWS, FILE_BLOCK = 32 };

typedef struct job {
    sw_tensor tensor;        /* with the data and scales that are being made */
    bool copy_blocks;        /* the file's blocks are the form's */
    const sw_factor *factor; /* of the layer's inputs, or NULL: to the nearest */
    float *channel_scales;
    uint16_t *block_scales;
    uint8_t *block_steps;
    double *signal, *noise; /* [rows] or NULL */
    char *data;
    atomic_bool no_memory, not_finite, too_large;
} job;

/* The form's scales are there, in the decoder's arena. */
static sw_code make_scales(sw_decoder *decoder, job *j, sw_error *err) {
    const sw_tensor *t = &j->tensor;
    const uint32_t rows = t->dims[0];
    const sw_weight_form *f = &t->form;
    if (f->scales != SW_SCALES_ROW && (f->block == 0 || t->dims[1] % f->block != 0))
        return SW_FAIL(err, SW_UNSUPPORTED,
                       "%s: its rows of %u can't be cut into blocks of %u; use a recipe with a scale a row",
                       t->name, t->dims[1], f->block);
    size_t blocks = f->scales != SW_SCALES_ROW ? (size_t)rows * (t->dims[1] / f->block) : 0;
    bool ok = true;
    if (f->scales != SW_SCALES_FLOAT_BLOCK) {
        j->channel_scales = sw_arena_array(&decoder->arena, rows, sizeof *j->channel_scales);
        ok = j->channel_scales != NULL;
    }
    if (f->scales == SW_SCALES_FLOAT_BLOCK) {
        j->block_scales = sw_arena_array(&decoder->arena, blocks, sizeof *j->block_scales);
        ok = ok && j->block_scales != NULL;
    }
    if (f->scales == SW_SCALES_BLOCKWISE) {
        j->block_steps = sw_arena_array(&decoder->arena, blocks, sizeof *j->block_steps);
        ok = ok && j->block_steps != NULL;
    }
    j->tensor.channel_scales = j->channel_scales;
    j->tensor.block_scales = j->block_scales;
    j->tensor.block_steps = j->block_steps;
    return ok ? SW_OK : SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for its scales", t->name);
}

static void add_cost(const job *j, const float *row, uint32_t cols, size_t r, float *scratch) {
    sw_weight_matrix_row(&j->tensor, r, scratch);
    sw_values_best()->cost(row, scratch, cols, &j->signal[r], &j->noise[r]);
}

/* From row r on. */
static sw_row_scales scales_of(const job *j, size_t r) {
    const size_t blocks = j->tensor.form.block != 0 ? j->tensor.dims[1] / j->tensor.form.block : 0;
    return (sw_row_scales){j->channel_scales != NULL ? j->channel_scales + r : NULL,
                           j->block_scales != NULL ? j->block_scales + r * blocks : NULL,
                           j->block_steps != NULL ? j->block_steps + r * blocks : NULL};
}

/* row and scratch [cols]. */
static void quantize_matrix_row(job *j, float *row, uint32_t cols, size_t r, float *scratch) {
    int8_t *q = (int8_t *)j->data + r * cols;
    sw_row_scales scales = scales_of(j, r);
    if (j->copy_blocks) { /* finite: the file was checked when it was opened */
        sw_weight_row_blocks(j->tensor.weight, (uint32_t)r, q, scales.block);
        return;
    }
    float min, max;
    sw_weight_row(j->tensor.weight, (uint32_t)r, row);
    if (!sw_range_of_values(row, cols, &min, &max)) {
        atomic_store(&j->not_finite, true);
        return;
    }
    if (!sw_quantize_matrix_row(j->tensor.form, row, cols, q, scales, scratch))
        atomic_store(&j->too_large, true);
    if (j->signal != NULL) add_cost(j, row, cols, r, scratch);
}

/* A row as it is, or through the tensor's one encoding. */
static void write_row(job *j, float *row, uint32_t cols, size_t r) {
    float min, max;
    sw_weight_row(j->tensor.weight, (uint32_t)r, row);
    if (!sw_range_of_values(row, cols, &min, &max)) atomic_store(&j->not_finite, true);
    if (j->tensor.dtype == SW_F16 &&
        (isinf(sw_f16_to_f32(sw_f32_to_f16(min))) || isinf(sw_f16_to_f32(sw_f32_to_f16(max)))))
        atomic_store(&j->too_large, true);
    sw_quantize_row(&j->tensor, row, cols, j->data + r * cols * sw_dtype_bytes(j->tensor.dtype));
}

static void quantize_rows(void *context, size_t begin, size_t end) {
    job *j = context;
    const uint32_t cols = j->tensor.weight->cols;
    float *row = malloc((2 * (size_t)cols + 1) * sizeof *row);
    if (!row) {
        atomic_store(&j->no_memory, true);
        return;
    }
    for (size_t r = begin; r < end; r++) {
        if (j->tensor.dtype == SW_S8)
            quantize_matrix_row(j, row, cols, r, row + cols);
        else
            write_row(j, row, cols, r);
    }
    free(row);
    sw_weight_drop_rows(j->tensor.weight, (uint32_t)begin, (uint32_t)end);
}

/* Rows that share the work on the factor. */
static void round_rows(void *context, size_t begin, size_t end) {
    job *j = context;
    const size_t cols = j->tensor.weight->cols;
    float *rows = malloc(((size_t)ROWS_A_TASK + 1) * cols * sizeof *rows);
    void *scratch = malloc(sw_gptq_scratch_bytes(j->factor));
    if (!rows || !scratch) atomic_store(&j->no_memory, true);
    for (size_t r = begin; rows && scratch && r < end; r += ROWS_A_TASK) {
        size_t n = end - r < ROWS_A_TASK ? end - r : ROWS_A_TASK;
        float min, max;
        for (size_t i = 0; i < n; i++) sw_weight_row(j->tensor.weight, (uint32_t)(r + i), rows + i * cols);
        if (!sw_range_of_values(rows, n * cols, &min, &max)) {
            atomic_store(&j->not_finite, true);
            break;
        }
        if (!sw_gptq_rows(j->tensor.form, j->factor, rows, n, (int8_t *)j->data + r * cols, scales_of(j, r),
                          scratch))
            atomic_store(&j->too_large, true);
        for (size_t i = 0; i < n && j->signal != NULL; i++)
            add_cost(j, rows + i * cols, (uint32_t)cols, r + i, rows + ROWS_A_TASK * cols);
    }
    free(rows);
    free(scratch);
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

/* Q4_0 fits 8 bits as well as 4. */
bool sw_weight_stays(const sw_tensor *t) {
    return t->form.scales == SW_SCALES_FLOAT_BLOCK && t->form.block == FILE_BLOCK &&
           (t->weight->storage == SW_STORE_Q4_0 ||
            (t->weight->storage == SW_STORE_Q8_0 && !t->form.four_bit));
}

static sw_code quantize(sw_decoder *decoder, job *j, sw_pool *pool, sw_error *err) {
    sw_tensor *t = &j->tensor;
    const sw_weight *w = t->weight;
    if (t->dtype == SW_S8) {
        SW_TRY(make_scales(decoder, j, err));
        j->copy_blocks = sw_weight_stays(t);
    } else if (sw_dtype_quantized(t->dtype)) {
        SW_TRY(encode_vector(t, err));
    }
    bool round = j->factor != NULL && t->dtype == SW_S8 && !j->copy_blocks;
    if (round && j->factor->n != w->cols)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: has rows of %u, but its input has %zu values", t->name,
                       w->cols, j->factor->n);
    sw_pool_for(pool, w->rows, ROWS_A_TASK, round ? round_rows : quantize_rows, j);
    if (atomic_load(&j->no_memory)) return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for rows", t->name);
    if (atomic_load(&j->not_finite))
        return SW_FAIL(err, SW_BAD_DATA, "%s (%s): has a value that is infinite or no number", t->name,
                       w->file_name);
    if (atomic_load(&j->too_large))
        return SW_FAIL(err, SW_UNSUPPORTED,
                       "%s (%s): has a value beyond f16's greatest, 65504; use a recipe with a scale a row",
                       t->name, w->file_name);
    return SW_OK;
}

sw_code sw_quantize_constant(sw_decoder *decoder, sw_tensor *t, void *data, sw_pool *pool,
                             sw_weight_cost *cost, sw_error *err) {
    return sw_round_constant(decoder, t, NULL, data, pool, cost, err);
}

sw_code sw_round_constant(sw_decoder *decoder, sw_tensor *t, const sw_factor *factor, void *data,
                          sw_pool *pool, sw_weight_cost *cost, sw_error *err) {
    const sw_weight *w = t->weight;
    if (!w || w->cols == 0 || (uint64_t)w->rows * w->cols != sw_tensor_elements(t) || t->dtype == SW_I32 ||
        (t->dtype == SW_S8 && (t->rank != 2 || t->dims[1] != w->cols)))
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: has no weight of its size in the checkpoint", t->name);
    job j = {.tensor = *t, .factor = factor, .data = data};
    j.tensor.data = data;
    double *sums = NULL;
    if (cost && t->dtype == SW_S8) {
        sums = calloc((size_t)w->rows, 2 * sizeof *sums);
        if (!sums) return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for sums of its rows", t->name);
        j.signal = sums, j.noise = sums + w->rows;
    }
    sw_code code = quantize(decoder, &j, pool, err);
    if (cost) *cost = (sw_weight_cost){.unchanged = j.copy_blocks};
    for (uint32_t r = 0; sums && r < w->rows; r++) cost->signal += j.signal[r], cost->noise += j.noise[r];
    free(sums);
    if (code != SW_OK) return code;
    t->encoding = j.tensor.encoding;
    t->channel_scales = j.channel_scales;
    t->block_scales = j.block_scales;
    t->block_steps = j.block_steps;
    return SW_OK;
}
