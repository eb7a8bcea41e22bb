/* quantized_fully_connected.c: y = requantize(x . w^T), x u8 or u16, w s8 with a scale an output channel; and
 * MatMul with blockwise weights.
 *
 * A tile of 32 channels is one task. Few rows of x (decode) meet the rows of w where they lie, which is bound
 * by memory: every weight is read once. 4-bit weights are packed to nibbles for it at load. For many rows of
 * x (prefill) the tile's weights are packed into a panel first.
 *
 * Blockwise weights are 4-bit values times steps of 1 to 16: products from -128 to 112 that fit s8, so that a
 * tile of them is the same problem with a scale a row. */
#include "cpu/int_isa.h"
#include "cpu/requantize.h"
#include "cpu/tasks.h"

enum { FEW_ROWS = 3 };

typedef struct prepared {
    const sw_int_isa *isa;
    float *step, *half;     /* [out]: cpu/int_isa.h, sw_int_scaling */
    int32_t *shift, *share; /* [out] */
    int32_t *w_sums;        /* [out, padded to SW_INT_COLS] */
    uint8_t *nibbles;       /* [out][sw_nibbles_bytes(in)], or NULL */
} prepared;

static bool linear_matches(const sw_op_call *call, sw_scales scales) {
    const sw_tensor *x = call->in[0], *w = call->in[1], *y = call->out;
    return w->form.scales == scales && sw_is_unsigned_quantized(x) && w->dtype == SW_S8 &&
           w->kind == SW_TENSOR_CONSTANT && y->dtype == x->dtype && w->rank == 2 &&
           w->dims[1] <= SW_INT_MAX_TERMS && sw_last_dim(x) == w->dims[1] && sw_last_dim(y) == w->dims[0] &&
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

static bool is_blockwise(const sw_op_call *call) {
    return call->in[1]->form.scales == SW_SCALES_BLOCKWISE;
}

static size_t rows_of(const sw_op_call *call) {
    return (size_t)sw_tensor_elements(call->in[0]) / call->in[1]->dims[1];
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

/* A worker's scratch: [panel][a tile of blockwise weights' products]. */
static size_t align64(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static size_t products_bytes(const sw_op_call *call) {
    return is_blockwise(call) ? align64(SW_INT_COLS * (size_t)call->in[1]->dims[1]) : 0;
}

static size_t worker_bytes(const sw_op_call *call) {
    return align64(sw_int_panel_bytes(call->in[1]->dims[1])) + products_bytes(call);
}

/* [x in the variant's form: rows][workers]. */
static size_t x_bytes(const sw_op_call *call) {
    return rows_of(call) * sw_int_x_bytes(call->in[1]->dims[1]);
}

size_t sw_quantized_fully_connected_scratch(const sw_op_call *call) {
    return x_bytes(call) + sw_pool_threads(call->pool) * worker_bytes(call);
}

/* Rows [c0, c0 + n) of the weights as s8. */
static const int8_t *weight_rows(const sw_op_call *call, int8_t *products, size_t c0, size_t n) {
    const sw_tensor *w = call->in[1];
    const size_t in = w->dims[1];
    if (!is_blockwise(call)) return (const int8_t *)w->data + c0 * in;
    for (size_t c = 0; c < n; c++) multiply_steps(w, c0 + c, products + c * in);
    return products;
}

typedef struct summing {
    const sw_op_call *call;
    prepared *p;
    int8_t *products; /* a tile a worker */
} summing;

static size_t tile_width(size_t out, size_t tile) {
    const size_t left = out - tile * SW_INT_COLS;
    return left < SW_INT_COLS ? left : SW_INT_COLS;
}

static void sum_tile(void *context, size_t worker, size_t tile) {
    const summing *s = context;
    const sw_tensor *w = s->call->in[1];
    const size_t in = w->dims[1], c0 = tile * SW_INT_COLS, n = tile_width(w->dims[0], tile);
    const int8_t *rows = weight_rows(s->call, s->products + worker * products_bytes(s->call), c0, n);
    s->p->isa->row_sums(n, in, rows, in, 0, s->p->w_sums + c0);
    for (size_t c = c0; s->p->nibbles != NULL && c < c0 + n; c++)
        sw_nibbles_pack(in, rows + (c - c0) * in, s->p->nibbles + c * sw_nibbles_bytes(in));
}

sw_code sw_quantized_fully_connected_prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    const sw_tensor *x = call->in[0], *w = call->in[1], *y = call->out;
    const size_t out = w->dims[0], in = w->dims[1], tiles = (out + SW_INT_COLS - 1) / SW_INT_COLS;
    if (w->data == NULL || (is_blockwise(call) && (w->block_steps == NULL || w->channel_scales == NULL)))
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "op %s: the weight %s has no values", call->op->name,
                       w->name);
    const bool nibbles = w->form.four_bit && !is_blockwise(call) && rows_of(call) <= FEW_ROWS;
    prepared *p = sw_arena_alloc(arena, sizeof *p);
    if (p == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    *p = (prepared){.isa = sw_int_best()};
    p->step = sw_arena_array(arena, out, sizeof *p->step);
    p->half = sw_arena_array(arena, out, sizeof *p->half);
    p->shift = sw_arena_array(arena, out, sizeof *p->shift);
    p->share = sw_arena_array(arena, out, sizeof *p->share);
    p->w_sums = sw_arena_array(arena, tiles * SW_INT_COLS, sizeof *p->w_sums);
    if (nibbles) p->nibbles = sw_arena_array(arena, out, sw_nibbles_bytes(in));
    sw_arena work = SW_ARENA_EMPTY;
    summing s = {call, p, sw_arena_alloc(&work, sw_pool_threads(call->pool) * products_bytes(call))};
    if (p->step == NULL || p->half == NULL || p->shift == NULL || p->share == NULL || p->w_sums == NULL ||
        (nibbles && p->nibbles == NULL) || s.products == NULL) {
        sw_arena_free(&work);
        return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    }
    sw_tasks_run(call->pool, tiles, sum_tile, &s);
    sw_arena_free(&work);

    /* Single precision and this order, as the HTP's: the tensor's largest scale, then each channel's share of
     * it. */
    float largest = w->encoding.scale;
    for (size_t o = 0; w->channel_scales != NULL && o < out; o++)
        if (o == 0 || w->channel_scales[o] > largest) largest = w->channel_scales[o];
    const float whole = x->encoding.scale * largest / y->encoding.scale;
    for (size_t o = 0; o < out; o++) {
        const float part = w->channel_scales != NULL ? w->channel_scales[o] / largest : 1;
        const sw_requantizer r = sw_requantizer_of(whole * part, y->dtype);
        const int64_t share = (int64_t)p->w_sums[o] * x->encoding.offset;
        p->step[o] = r.step, p->half[o] = r.half;
        p->shift[o] = r.shift < 31 ? r.shift : 31; /* of an int32 no more is left by a longer one */
        p->share[o] = (int32_t)(y->dtype == SW_U16 ? sw_wide_share(share) : share);
    }
    call->prepared = p;
    return SW_OK;
}

typedef struct job {
    const sw_op_call *call;
    size_t rows, in, out;
} job;

static void load_rows(void *context, size_t begin, size_t end) {
    const job *j = context;
    const prepared *p = j->call->prepared;
    const bool wide = j->call->in[0]->dtype == SW_U16;
    for (size_t r = begin; r < end; r++)
        p->isa->load_x(j->in, wide, (const char *)j->call->in_data[0] + r * j->in * (wide ? 2 : 1),
                       (char *)j->call->scratch + r * sw_int_x_bytes(j->in));
}

/* A tile of channels for all rows. */
static void channels(void *context, size_t worker, size_t tile) {
    const job *j = context;
    const sw_op_call *call = j->call;
    const prepared *p = call->prepared;
    const sw_int_isa *isa = p->isa;
    const sw_tensor *y = call->out;
    const bool wide = y->dtype == SW_U16;
    const size_t in = j->in, c0 = tile * SW_INT_COLS, n = tile_width(j->out, tile),
                 x_row = sw_int_x_bytes(in);
    const char *x = call->scratch;
    int8_t *panel = (int8_t *)call->scratch + x_bytes(call) + worker * worker_bytes(call);
    int8_t *products = panel + align64(sw_int_panel_bytes(in));
    int32_t sums[SW_INT_ROWS * SW_INT_COLS];
    const sw_int_scaling scaling = {p->step + c0, p->half + c0, p->shift + c0, p->share + c0};
    const int8_t *w = p->nibbles != NULL ? NULL : weight_rows(call, products, c0, n);
    const bool few = j->rows <= FEW_ROWS;
    if (!few) isa->pack_rows(n, in, w, in, 0, panel);
    const size_t most = few    ? FEW_ROWS
                        : wide ? SW_INT_ROWS / 2
                               : SW_INT_ROWS,
                 parts = (j->rows + most - 1) / most;
    for (size_t part = 0; part < parts; part++) { /* of equal height, as far as that goes */
        const size_t r0 = j->rows * part / parts, rows = j->rows * (part + 1) / parts - r0;
        const void *from = x + r0 * x_row;
        if (p->nibbles != NULL)
            isa->dot_nibbles(rows, from, wide, n, in, p->nibbles + c0 * sw_nibbles_bytes(in), p->w_sums + c0,
                             sums, SW_INT_COLS);
        else if (few)
            isa->dot(rows, from, wide, n, in, w, in, 0, p->w_sums + c0, sums, SW_INT_COLS);
        else
            isa->tile(rows, from, wide, in, panel, p->w_sums + c0, sums);
        for (size_t r = 0; r < rows; r++)
            isa->requantize(n, sums + r * SW_INT_COLS, scaling, wide, y->encoding.offset,
                            (char *)call->out_data + ((r0 + r) * j->out + c0) * (wide ? 2 : 1));
    }
}

void sw_quantized_fully_connected_run(const sw_op_call *call) {
    const sw_tensor *w = call->in[1];
    job j = {call, rows_of(call), w->dims[1], w->dims[0]};
    sw_pool_for(call->pool, j.rows, 8, load_rows, &j);
    sw_tasks_run(call->pool, (j.out + SW_INT_COLS - 1) / SW_INT_COLS, channels, &j);
}
