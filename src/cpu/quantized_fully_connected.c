/* quantized_fully_connected.c: y = requantize(x . w^T), u8 or u16 activations and s8 weights.
 *
 * A u16 value is 256 * high + low: its row is two u8 rows, so one kind of dot product serves both types.
 * Blockwise weights are 4-bit values times steps of 1 to 16: products from -128 to 112 that fit s8, so that a
 * tile of them is the same problem with a scale a row. */
#include "cpu/dot.h"
#include "cpu/requantize.h"
#include "cpu/tasks.h"

typedef struct prepared {
    sw_dot_u8s8 *dot;
    sw_requantizer *requantizer; /* [out] */
    int64_t *share;              /* [out]: the input offset's share of the sum, offset * sum w */
} prepared;

enum { ROWS_PER_TILE = 32, CHANNELS_PER_TILE = 16 };

static bool linear_matches(const sw_op_call *call, sw_scales scales) {
    const sw_tensor *x = call->in[0], *w = call->in[1], *y = call->out;
    return w->form.scales == scales && sw_is_unsigned_quantized(x) && w->dtype == SW_S8 &&
           w->kind == SW_TENSOR_CONSTANT && y->dtype == x->dtype && w->rank == 2 &&
           w->dims[1] <= SW_DOT_MAX_TERMS && sw_last_dim(x) == w->dims[1] && sw_last_dim(y) == w->dims[0] &&
           sw_tensor_elements(x) / w->dims[1] == sw_tensor_elements(y) / w->dims[0];
}

bool sw_quantized_fully_connected_matches(const sw_op_call *call) {
    return linear_matches(call, SW_SCALES_ROW);
}

bool sw_quantized_blockwise_matches(const sw_op_call *call) {
    const sw_weight_form *f = &call->in[1]->form;
    return call->op->params.matmul.transpose_in1 && linear_matches(call, SW_SCALES_BLOCKWISE) &&
           f->four_bit && f->block > 0 && call->in[1]->dims[1] % f->block == 0;
}

/* Row `row` times its steps; out [in]. */
static void multiply_steps(const sw_tensor *w, size_t row, int8_t *out) {
    const size_t in = w->dims[1], block = w->form.block;
    const int8_t *q = (const int8_t *)w->data + row * in;
    const uint8_t *steps = w->block_steps + row * (in / block);
    for (size_t b = 0; b < in / block; b++) {
        const int step = steps[b];
        for (size_t i = b * block; i < (b + 1) * block; i++) out[i] = (int8_t)(q[i] * step);
    }
}

sw_code sw_quantized_fully_connected_prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    const sw_tensor *x = call->in[0], *w = call->in[1], *y = call->out;
    size_t out = w->dims[0], in = w->dims[1];
    const bool blockwise = w->form.scales == SW_SCALES_BLOCKWISE;
    if (w->data == NULL || (blockwise && (w->block_steps == NULL || w->channel_scales == NULL)))
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "op %s: the weight %s has no values", call->op->name,
                       w->name);
    prepared *p = sw_arena_alloc(arena, sizeof *p);
    if (p == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    p->dot = sw_dot_choose();
    p->requantizer = sw_arena_array(arena, out, sizeof *p->requantizer);
    p->share = sw_arena_array(arena, out, sizeof *p->share);
    int8_t *products = sw_arena_array(arena, blockwise ? in : 0, 1);
    if (p->requantizer == NULL || p->share == NULL || products == NULL)
        return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    /* Single precision and this order, as the HTP's: the tensor's largest scale, then each channel's share of
     * it. */
    float largest = w->encoding.scale;
    for (size_t o = 0; w->channel_scales != NULL && o < out; o++)
        if (o == 0 || w->channel_scales[o] > largest) largest = w->channel_scales[o];
    const float whole = x->encoding.scale * largest / y->encoding.scale;
    for (size_t o = 0; o < out; o++) {
        const int8_t *row = (const int8_t *)w->data + o * in;
        int64_t sum = 0;
        if (blockwise) multiply_steps(w, o, products), row = products;
        for (size_t i = 0; i < in; i++) sum += row[i];
        p->share[o] = sum * x->encoding.offset;
        float part = w->channel_scales != NULL ? w->channel_scales[o] / largest : 1;
        p->requantizer[o] = sw_requantizer_of(whole * part, y->dtype);
    }
    call->prepared = p;
    return SW_OK;
}

/* [u16 rows as u8 rows: rows][high, low][in], then [threads][a tile of blockwise weights' products]. */
static size_t planes_bytes(const sw_op_call *call) {
    return call->in[0]->dtype == SW_U16 ? 2 * (size_t)sw_tensor_elements(call->in[0]) : 0;
}

size_t sw_quantized_fully_connected_scratch(const sw_op_call *call) {
    const sw_tensor *w = call->in[1];
    size_t tile = w->form.scales == SW_SCALES_BLOCKWISE ? CHANNELS_PER_TILE * (size_t)w->dims[1] : 0;
    return planes_bytes(call) + sw_pool_threads(call->pool) * tile;
}

typedef struct job {
    const sw_op_call *call;
    const uint8_t *planes;
    size_t rows, in, out;
} job;

/* Rows [c0, c0 + n) of the weights as s8. */
static const int8_t *weight_rows(const job *j, size_t worker, size_t c0, size_t n) {
    const sw_tensor *w = j->call->in[1];
    if (w->form.scales != SW_SCALES_BLOCKWISE) return (const int8_t *)j->call->in_data[1] + c0 * j->in;
    int8_t *tile = (int8_t *)j->call->scratch + planes_bytes(j->call) + worker * CHANNELS_PER_TILE * j->in;
    for (size_t c = 0; c < n; c++) multiply_steps(w, c0 + c, tile + c * j->in);
    return tile;
}

/* A tile of channels for all rows. */
static void channels(void *context, size_t worker, size_t task) {
    const job *j = context;
    const prepared *p = j->call->prepared;
    const sw_tensor *y = j->call->out;
    const bool wide = y->dtype == SW_U16;
    const size_t planes = wide ? 2 : 1, c0 = task * CHANNELS_PER_TILE;
    const size_t n = j->out - c0 < CHANNELS_PER_TILE ? j->out - c0 : CHANNELS_PER_TILE;
    const int32_t offset = y->encoding.offset, max = sw_dtype_max(y->dtype);
    const int8_t *w = weight_rows(j, worker, c0, n);
    int32_t sums[2 * ROWS_PER_TILE * CHANNELS_PER_TILE];
    for (size_t r0 = 0; r0 < j->rows; r0 += ROWS_PER_TILE) {
        size_t rows = j->rows - r0 < ROWS_PER_TILE ? j->rows - r0 : ROWS_PER_TILE;
        p->dot(j->planes + r0 * planes * j->in, rows * planes, w, n, j->in, sums, CHANNELS_PER_TILE);
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < n; c++) {
                const int32_t *sum = sums + r * planes * CHANNELS_PER_TILE + c;
                const sw_requantizer q = p->requantizer[c0 + c];
                size_t at = (r0 + r) * j->out + c0 + c;
                if (wide) {
                    int64_t raw = 256 * (int64_t)sum[0] + sum[CHANNELS_PER_TILE];
                    ((uint16_t *)j->call->out_data)[at] =
                        (uint16_t)sw_requantize(q, sw_wide_sum(raw, p->share[c0 + c]), offset, max);
                } else {
                    ((uint8_t *)j->call->out_data)[at] =
                        (uint8_t)sw_requantize(q, sum[0] + p->share[c0 + c], offset, max);
                }
            }
    }
}

void sw_quantized_fully_connected_run(const sw_op_call *call) {
    const sw_tensor *x = call->in[0], *w = call->in[1];
    job j = {call, call->in_data[0], 0, w->dims[1], w->dims[0]};
    j.rows = (size_t)sw_tensor_elements(x) / j.in;
    if (x->dtype == SW_U16) {
        const uint16_t *values = call->in_data[0];
        uint8_t *planes = call->scratch;
        for (size_t r = 0; r < j.rows; r++)
            for (size_t i = 0; i < j.in; i++) {
                planes[2 * r * j.in + i] = (uint8_t)(values[r * j.in + i] >> 8);
                planes[(2 * r + 1) * j.in + i] = (uint8_t)(values[r * j.in + i] & 255);
            }
        j.planes = planes;
    }
    sw_tasks_run(call->pool, (j.out + CHANNELS_PER_TILE - 1) / CHANNELS_PER_TILE, channels, &j);
}
