/* quantized_fully_connected.c: y = requantize(x . w^T), x u8 or u16, w s8 with a scale an output channel; and
 * MatMul with blockwise weights.
 *
 * A tile of 32 channels is one task, for all rows of x that are asked for. Decode, with one row, is bound by
 * memory: each weight is read once, in memory's order, as cpu/packed_weights.h has them. */
#include "cpu/int_isa.h"
#include "cpu/packed_weights.h"
#include "cpu/requantize.h"
#include "cpu/tasks.h"

/* Of a tile's channels, see cpu/int_isa.h, sw_int_scaling; side by side, as they are read together. */
typedef struct tile_scaling {
    _Alignas(64) float step[SW_INT_COLS];
    float half[SW_INT_COLS];
    int32_t shift[SW_INT_COLS], share[SW_INT_COLS];
} tile_scaling;

typedef struct prepared {
    const sw_int_isa *isa;
    sw_packed_weights w;
    tile_scaling *scaling; /* [tiles] */
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

static size_t rows_of(const sw_op_call *call) {
    return (size_t)sw_tensor_elements(call->in[0]) / call->in[1]->dims[1];
}

static size_t rows_asked(const sw_op_call *call) {
    return sw_rows_asked(call, rows_of(call));
}

/* [x in the variant's form: rows][a panel a worker]. */
static size_t x_bytes(const sw_op_call *call) {
    return rows_of(call) * sw_int_x_bytes(call->in[1]->dims[1]);
}

static size_t worker_bytes(const sw_op_call *call) {
    return call->in[1]->form.four_bit ? sw_align64(sw_int_panel_bytes(call->in[1]->dims[1])) : 0;
}

size_t sw_quantized_fully_connected_scratch(const sw_op_call *call) {
    return x_bytes(call) + sw_pool_threads(call->pool) * worker_bytes(call);
}

typedef struct scaling_job {
    const sw_op_call *call;
    prepared *p;
    float largest; /* of the channels' scales */
} scaling_job;

/* Single precision and this order, as the HTP's: the tensor's largest scale, then each channel's share of it.
 */
static void set_scaling(void *context, size_t begin, size_t end) {
    const scaling_job *j = context;
    prepared *p = j->p;
    const sw_tensor *x = j->call->in[0], *w = j->call->in[1], *y = j->call->out;
    const float whole = x->encoding.scale * j->largest / y->encoding.scale;
    for (size_t o = begin; o < end; o++) {
        const float part = w->channel_scales != NULL ? w->channel_scales[o] / j->largest : 1;
        const sw_requantizer r = sw_requantizer_of(whole * part, y->dtype);
        const int64_t share = (int64_t)p->w.sums[o] * x->encoding.offset;
        tile_scaling *t = &p->scaling[o / SW_INT_COLS];
        const size_t c = o % SW_INT_COLS;
        t->step[c] = r.step, t->half[c] = r.half;
        t->shift[c] = r.shift < 31 ? r.shift : 31; /* of an int32 no more is left by a longer one */
        t->share[c] = (int32_t)(y->dtype == SW_U16 ? sw_wide_share(share) : share);
    }
}

sw_code sw_quantized_fully_connected_prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    enum { CHANNELS_PER_RANGE = 1024 };
    const sw_tensor *w = call->in[1];
    const size_t out = w->dims[0];
    const bool blockwise = w->form.scales == SW_SCALES_BLOCKWISE;
    if (w->data == NULL || (blockwise && (w->block_steps == NULL || w->channel_scales == NULL)))
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "op %s: the weight %s has no values", call->op->name,
                       w->name);
    prepared *p = sw_arena_alloc(arena, sizeof *p);
    if (p == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    *p = (prepared){.isa = sw_int_best()};
    SW_TRY(sw_packed_weights_get(&p->w, call, err));
    p->scaling = sw_arena_array(arena, p->w.n_tiles, sizeof *p->scaling);
    if (p->scaling == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    scaling_job j = {call, p, w->encoding.scale};
    for (size_t o = 0; w->channel_scales != NULL && o < out; o++)
        if (o == 0 || w->channel_scales[o] > j.largest) j.largest = w->channel_scales[o];
    sw_pool_for(call->pool, out, CHANNELS_PER_RANGE, set_scaling, &j);
    call->prepared = p;
    return SW_OK;
}

static void load_rows(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    const prepared *p = call->prepared;
    const bool wide = call->in[0]->dtype == SW_U16;
    for (size_t r = begin; r < end; r++)
        p->isa->load_x(p->w.in, wide, (const char *)call->in_data[0] + r * p->w.in * (wide ? 2 : 1),
                       (char *)call->scratch + r * sw_int_x_bytes(p->w.in));
}

/* Calls of one input, whose rows are in the scratch; the panels of workers are as large as any needs. */
typedef struct job {
    const sw_op_call *calls;
    size_t worker_bytes;
} job;

/* A tile of channels for all rows. */
static void run_tile(const sw_op_call *call, size_t tile, int8_t *panel_scratch) {
    const prepared *p = call->prepared;
    const sw_int_isa *isa = p->isa;
    const sw_tensor *y = call->out;
    const bool wide = y->dtype == SW_U16;
    const size_t in = p->w.in, out = p->w.out, c0 = tile * SW_INT_COLS,
                 n = out - c0 < SW_INT_COLS ? out - c0 : SW_INT_COLS, all = rows_asked(call);
    const char *x = call->scratch;
    const int32_t *w_sums = p->w.sums + c0;
    int32_t sums[SW_INT_ROWS * SW_INT_COLS];
    const tile_scaling *t = &p->scaling[tile];
    const sw_int_scaling scaling = {t->step, t->half, t->shift, t->share};
    for (size_t i = 0; i < sizeof *t; i += 64) /* they are read last, by then they are there */
        __builtin_prefetch((const char *)t + i);
    const bool as_nibbles = p->w.nibbles && all == 1 && isa->tile_nibbles != NULL;
    const int8_t *panel = as_nibbles ? NULL : sw_packed_panel(&p->w, tile, panel_scratch);
    const size_t most = wide ? SW_INT_ROWS / 2 : SW_INT_ROWS, parts = (all + most - 1) / most;
    for (size_t part = 0; part < parts; part++) { /* of equal height, as far as that goes */
        const size_t r0 = all * part / parts, rows = all * (part + 1) / parts - r0;
        if (as_nibbles)
            isa->tile_nibbles(x, wide, in, p->w.block, p->w.tiles + tile * p->w.tile_bytes, sums);
        else
            isa->tile(rows, x + r0 * sw_int_x_bytes(in), wide, in, panel, w_sums, sums);
        for (size_t r = 0; r < rows; r++)
            isa->requantize(n, sums + r * SW_INT_COLS, scaling, wide, y->encoding.offset,
                            (char *)call->out_data + ((r0 + r) * out + c0) * (wide ? 2 : 1));
    }
}

static void channels(void *context, size_t worker, size_t tile) {
    const job *j = context;
    const sw_op_call *call = j->calls;
    for (; tile >= ((const prepared *)call->prepared)->w.n_tiles; call++)
        tile -= ((const prepared *)call->prepared)->w.n_tiles;
    run_tile(call, tile, (int8_t *)call->scratch + x_bytes(call) + worker * j->worker_bytes);
}

void sw_quantized_fully_connected_run_together(const sw_op_call *calls, uint32_t n) {
    sw_op_call first = calls[0];
    job j = {.calls = calls};
    size_t tiles = 0;
    for (uint32_t i = 0; i < n; i++) {
        tiles += ((const prepared *)calls[i].prepared)->w.n_tiles;
        if (worker_bytes(&calls[i]) > j.worker_bytes) j.worker_bytes = worker_bytes(&calls[i]);
    }
    sw_pool_for(first.pool, rows_asked(&first), 8, load_rows, &first);
    sw_tasks_run(first.pool, tiles, channels, &j);
}

void sw_quantized_fully_connected_run(const sw_op_call *call) {
    sw_quantized_fully_connected_run_together(call, 1);
}
