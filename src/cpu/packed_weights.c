/* packed_weights.c: a tile is a task: its rows to a panel, for 4 bits the panel to nibbles. Blockwise weights
 * are 4-bit values times steps of 1 to 16: products from -128 to 112 that fit s8. */
#include "cpu/packed_weights.h"

#include <string.h>

#include "base/file.h"
#include "cpu/int_isa.h"
#include "cpu/tasks.h"

typedef struct packing {
    const sw_op_call *call;
    const sw_int_isa *isa;
    sw_packed_weights *packed;
    int32_t *sums;
    uint8_t *tiles;
    char *scratch; /* a worker's: [products: tile of s8 rows][panel][steps] */
    size_t products_bytes, panel_bytes, worker_bytes;
} packing;

static bool is_blockwise(const sw_tensor *w) {
    return w->form.scales == SW_SCALES_BLOCKWISE;
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

static void pack_tile(void *context, size_t worker, size_t tile) {
    const packing *p = context;
    const sw_packed_weights *packed = p->packed;
    const sw_tensor *w = p->call->in[1];
    const size_t in = packed->in, c0 = tile * SW_INT_COLS,
                 n = packed->out - c0 < SW_INT_COLS ? packed->out - c0 : SW_INT_COLS;
    int8_t *products = (int8_t *)p->scratch + worker * p->worker_bytes, *panel = products + p->products_bytes;
    uint8_t *out = p->tiles + tile * packed->tile_bytes;
    const int8_t *rows = (const int8_t *)w->data + c0 * in, *summed = rows;
    if (is_blockwise(w)) {
        for (size_t c = 0; c < n; c++) multiply_steps(w, c0 + c, products + c * in);
        summed = products;
    }
    p->isa->row_sums(n, in, summed, in, 0, p->sums + c0);
    if (!packed->nibbles) {
        p->isa->pack_rows(n, in, summed, in, 0, (int8_t *)out);
        return;
    }
    p->isa->pack_rows(n, in, rows, in, 0, panel);
    const size_t blocks = packed->block > 0 ? in / packed->block : 0;
    uint8_t *steps = (uint8_t *)panel + p->panel_bytes;
    for (size_t b = 0; b < blocks; b++)
        for (size_t c = 0; c < SW_INT_COLS; c++)
            steps[b * SW_INT_COLS + c] = c < n ? w->block_steps[(c0 + c) * blocks + b] : 1;
    sw_nibbles_pack(in, packed->block, panel, steps, out);
}

static size_t sums_bytes(const sw_packed_weights *p) {
    return sw_align64(p->n_tiles * SW_INT_COLS * sizeof(int32_t));
}

static void fill(void *context, void *out) {
    packing *p = context;
    p->sums = out, p->tiles = (uint8_t *)out + sums_bytes(p->packed);
    sw_tasks_run(p->call->pool, p->packed->n_tiles, pack_tile, p);
    const sw_tensor *w = p->call->in[1];
    if (w->in_file) sw_file_drop_mapped(w->data, (size_t)sw_tensor_bytes(w));
}

/* All that the content hangs on. */
typedef struct weights_key {
    const void *data, *steps;
    uint64_t in, out, block;
    bool nibbles;
} weights_key;

sw_code sw_packed_weights_get(sw_packed_weights *out, const sw_op_call *call, sw_error *err) {
    const sw_tensor *w = call->in[1];
    const size_t in = w->dims[1];
    const bool blockwise = is_blockwise(w), blocks_fit = sw_nibbles_fit(w->form.block);
    *out = (sw_packed_weights){.in = in,
                               .out = w->dims[0],
                               .n_tiles = ((size_t)w->dims[0] + SW_INT_COLS - 1) / SW_INT_COLS,
                               .nibbles = w->form.four_bit && (!blockwise || blocks_fit),
                               .block = blockwise && blocks_fit ? w->form.block : 0};
    out->tile_bytes = sw_align64(out->nibbles ? sw_nibbles_bytes(in, out->block) : sw_int_panel_bytes(in));

    weights_key key;
    memset(&key, 0, sizeof key);
    key.data = w->data, key.steps = w->block_steps, key.in = in, key.out = out->out;
    key.block = blockwise ? w->form.block : 0, key.nibbles = out->nibbles;

    sw_arena work = SW_ARENA_EMPTY;
    packing p = {.call = call, .isa = sw_int_best(), .packed = out};
    p.products_bytes = blockwise ? sw_align64(SW_INT_COLS * in) : 0;
    p.panel_bytes = out->nibbles ? sw_align64(sw_int_panel_bytes(in)) : 0;
    p.worker_bytes = p.products_bytes + p.panel_bytes;
    if (out->block > 0) p.worker_bytes += sw_align64(in / out->block * SW_INT_COLS);
    p.scratch = sw_arena_array(&work, sw_pool_threads(call->pool), p.worker_bytes);
    const void *memory = NULL;
    sw_code code = SW_OK;
    if (p.scratch == NULL) code = SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    if (code == SW_OK)
        code = sw_shared_get(call->shared, &key, sizeof key, sums_bytes(out) + out->n_tiles * out->tile_bytes,
                             fill, &p, &memory, err);
    sw_arena_free(&work);
    if (code != SW_OK) return code;
    out->sums = memory, out->tiles = (const uint8_t *)memory + sums_bytes(out);
    return SW_OK;
}

const int8_t *sw_packed_panel(const sw_packed_weights *w, size_t t, int8_t *panel) {
    const uint8_t *tile = w->tiles + t * w->tile_bytes;
    if (!w->nibbles) return (const int8_t *)tile;
    sw_int_best()->unpack_nibbles(w->in, w->block, tile, panel);
    return panel;
}
