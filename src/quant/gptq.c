/* gptq.c: GPTQ (Frantar et al., arXiv 2210.17323) by back substitution: column by column, each rounded to
 * what makes up best for the errors of the columns before it (hessian.h says what an error does to which
 * column).
 *
 * 16 rows go through together, lane by lane, so that an element of the factor is loaded once for all. The
 * columns go by blocks: first what all errors before the block ask of its columns, a matrix product; then the
 * block by itself. A block's scale is chosen there, when its weights are known: candidates are all tried, and
 * the one that leaves the least error is kept. */
#include "quant/gptq.h"

#include <math.h>
#include <string.h>

#include "base/f16.h"
#include "quant/panels.h"

enum { LANES = SW_PANEL, CANDIDATES = 8, STEPS = 9 };

typedef float lanes[LANES];

typedef struct rows {
    sw_weight_form form;
    const sw_factor *factor;
    const sw_panels_isa *isa;
    size_t block;
    lanes *weights, *differences, *q; /* [padded] each: the rows turned; weight - value; integers */
    lanes channel;                    /* scales of rows */
    lanes *block_scales;              /* [padded / block]: or steps */
} rows;

size_t sw_gptq_scratch_bytes(const sw_factor *factor) {
    return 4 * factor->padded * sizeof(lanes);
}

static void best_of(const lanes scale, const lanes cost, lanes best_scale, lanes best_cost) {
    for (size_t l = 0; l < LANES; l++)
        if (cost[l] < best_cost[l]) best_cost[l] = cost[l], best_scale[l] = scale[l];
}

static void greatest_magnitudes(const lanes *x, size_t n, lanes out) {
    for (size_t l = 0; l < LANES; l++) out[l] = 0;
    for (size_t c = 0; c < n; c++)
        for (size_t l = 0; l < LANES; l++) out[l] = fabsf(x[c][l]) > out[l] ? fabsf(x[c][l]) : out[l];
}

/* f16 scales, of either sign with 4 bits, that put the greatest magnitude at 7 to 14. */
static void choose_float_scale(const rows *r, const sw_block *block, lanes *q, lanes best) {
    lanes greatest, scale, cost, least;
    greatest_magnitudes((const lanes *)block->x, block->size, greatest);
    for (size_t l = 0; l < LANES; l++) least[l] = INFINITY, best[l] = 0;
    for (int c = 0; c < (r->form.four_bit ? 2 * CANDIDATES : 1); c++) {
        float at = block->high * (1 + (float)(c / 2) / (CANDIDATES - 1));
        for (size_t l = 0; l < LANES; l++)
            scale[l] = sw_f16_to_f32(sw_f32_to_f16((c % 2 == 0 ? 1 : -1) * greatest[l] / at));
        r->isa->round_block(block, scale, q[0], cost);
        best_of(scale, cost, best, least);
    }
}

/* Steps of the rows' scales. */
static void choose_step(const rows *r, const sw_block *block, lanes *q, lanes best_step) {
    lanes greatest, scale, step, cost, least;
    greatest_magnitudes((const lanes *)block->x, block->size, greatest);
    for (size_t l = 0; l < LANES; l++) least[l] = INFINITY, best_step[l] = 1;
    for (int c = 0; c < STEPS; c++) {
        for (size_t l = 0; l < LANES; l++) {
            float top = ceilf(greatest[l] / (block->high * r->channel[l]));
            top = top > 16 ? 16 : top;
            step[l] = top - (float)c < 1 ? 1 : top - (float)c;
            scale[l] = r->channel[l] * step[l];
        }
        r->isa->round_block(block, scale, q[0], cost);
        best_of(step, cost, best_step, least);
    }
}

/* What the errors before column `first` ask of the block's columns, added to its weights: x. */
static void adapt(const rows *r, size_t first, size_t size, lanes *x, float *u) {
    const size_t padded = r->factor->padded;
    memset(x, 0, size * sizeof *x);
    for (size_t c = 0; c < size; c += SW_TILE) {
        const float *panel = r->factor->u + (first + c) / SW_PANEL * padded * SW_PANEL;
        r->isa->tile(first, panel + (first + c) % SW_PANEL, r->differences[0], x[c]);
    }
    for (size_t i = 0; i < size; i++)
        for (size_t c = 0; c < size; c++)
            u[i * size + c] =
                r->factor
                    ->u[(first + c) / SW_PANEL * padded * SW_PANEL + (first + i) * SW_PANEL + c % SW_PANEL];
    /* So far x[c] is what column c has to take; a column that takes it relieves those behind. */
    for (size_t i = 0; i < size; i++)
        for (size_t c = i + 1; c < size; c++)
            for (size_t l = 0; l < LANES; l++) x[c][l] -= u[i * size + c] * x[i][l];
    for (size_t c = 0; c < size; c++)
        for (size_t l = 0; l < LANES; l++) x[c][l] += r->weights[first + c][l];
}

/* p U^T = y for p, in place: from the last column on. */
static void solve_transposed(const rows *r, lanes *y) {
    const size_t padded = r->factor->padded;
    for (size_t first = padded; first > 0;) {
        const size_t behind = first;
        first -= SW_PANEL;
        lanes sum[SW_PANEL] = {{0}};
        const float *panel = r->factor->ut + first * padded;
        for (size_t c = 0; c < SW_PANEL; c += SW_TILE)
            r->isa->tile(padded - behind, panel + behind * SW_PANEL + c, y[0] + behind * LANES, sum[c]);
        for (size_t c = SW_PANEL; c-- > 0;) {
            for (size_t k = c + 1; k < SW_PANEL; k++)
                for (size_t l = 0; l < LANES; l++)
                    sum[c][l] += panel[(first + k) * SW_PANEL + c] * y[first + k][l];
            for (size_t l = 0; l < LANES; l++) y[first + c][l] -= sum[c][l];
        }
    }
}

/* z U = y for z, in place. */
static void solve(const rows *r, lanes *y) {
    const size_t padded = r->factor->padded;
    for (size_t first = 0; first < padded; first += SW_PANEL) {
        lanes sum[SW_PANEL] = {{0}};
        const float *panel = r->factor->u + first * padded;
        for (size_t c = 0; c < SW_PANEL; c += SW_TILE) r->isa->tile(first, panel + c, y[0], sum[c]);
        for (size_t c = 0; c < SW_PANEL; c++) {
            for (size_t k = 0; k < c; k++)
                for (size_t l = 0; l < LANES; l++)
                    sum[c][l] += panel[(first + k) * SW_PANEL + c] * y[first + k][l];
            for (size_t l = 0; l < LANES; l++) y[first + c][l] -= sum[c][l];
        }
    }
}

/* How far to go towards the outputs before rounding: what the text shows of the inputs' errors holds for
 * other text only in part. Measured: docs/accuracy.md. */
static const float correction = 0.5f;

/* The weights that give with the inputs of now what the model's gave with its own: w + w C H^-1, where H = U
 * diag(weight) U^T. */
static void correct(const rows *r) {
    const sw_factor *f = r->factor;
    const size_t padded = f->padded;
    lanes *y = r->q; /* not yet in use */
    memset(y, 0, padded * sizeof *y);
    for (size_t c = 0; c < padded; c += SW_TILE)
        r->isa->tile(padded, f->cross + c / SW_PANEL * padded * SW_PANEL + c % SW_PANEL, r->weights[0], y[c]);
    solve_transposed(r, y);
    for (size_t c = 0; c < padded; c++)
        for (size_t l = 0; l < LANES; l++) y[c][l] /= f->weight[c];
    solve(r, y);
    for (size_t c = 0; c < padded; c++)
        for (size_t l = 0; l < LANES; l++) r->weights[c][l] += correction * y[c][l];
}

static void round_rows(const rows *r) {
    lanes x[SW_MOST_BLOCK], scale, cost;
    float u[SW_MOST_BLOCK * SW_MOST_BLOCK];
    sw_block block = {.size = r->block, .x = x[0], .u = u};
    block.low = r->form.four_bit ? -8 : -127, block.high = r->form.four_bit ? 7 : 127;
    for (size_t first = 0; first < r->factor->padded; first += r->block) {
        lanes *q = r->q + first;
        block.weight = r->factor->weight + first;
        adapt(r, first, r->block, x, u);
        memcpy(scale, r->channel, sizeof scale);
        if (r->form.scales == SW_SCALES_FLOAT_BLOCK) {
            choose_float_scale(r, &block, q, scale);
            memcpy(r->block_scales[first / r->block], scale, sizeof scale);
        } else if (r->form.scales == SW_SCALES_BLOCKWISE) {
            lanes step;
            choose_step(r, &block, q, step);
            memcpy(r->block_scales[first / r->block], step, sizeof step);
            for (size_t l = 0; l < LANES; l++) scale[l] *= step[l];
        }
        r->isa->round_block(&block, scale, q[0], cost);
        for (size_t c = 0; c < r->block; c++)
            for (size_t l = 0; l < LANES; l++)
                r->differences[first + c][l] = r->weights[first + c][l] - scale[l] * q[c][l];
    }
}

static bool store(const rows *r, size_t n_rows, int8_t *q, sw_row_scales scales) {
    const size_t n = r->factor->n, n_blocks = n / r->block;
    bool fits = true;
    for (size_t row = 0; row < n_rows; row++) {
        for (size_t c = 0; c < r->factor->padded; c++)
            if (r->factor->order[c] < n) q[row * n + r->factor->order[c]] = (int8_t)r->q[c][row];
        if (scales.channel != NULL) scales.channel[row] = r->channel[row];
        for (size_t b = 0; b < n_blocks && scales.block != NULL; b++) {
            uint16_t half = sw_f32_to_f16(r->block_scales[b][row]);
            fits = fits && (half & 0x7c00) != 0x7c00;
            scales.block[row * n_blocks + r->factor->order[b * r->block] / r->block] = half;
        }
        for (size_t b = 0; b < n_blocks && scales.block_steps != NULL; b++)
            scales.block_steps[row * n_blocks + r->factor->order[b * r->block] / r->block] =
                (uint8_t)r->block_scales[b][row];
    }
    return fits;
}

bool sw_gptq_rows(sw_weight_form form, const sw_factor *factor, const float *values, size_t n_rows, int8_t *q,
                  sw_row_scales scales, void *scratch) {
    const size_t padded = factor->padded, n = factor->n;
    lanes *at = scratch;
    rows r = {.form = form,
              .factor = factor,
              .isa = sw_panels_best(),
              .block = form.scales == SW_SCALES_ROW ? SW_PANEL : form.block,
              .weights = at,
              .differences = at + padded,
              .q = at + 2 * padded,
              .block_scales = at + 3 * padded};
    memset(r.weights, 0, padded * sizeof *r.weights);
    for (size_t l = 0; l < LANES; l++) r.channel[l] = 1;
    for (size_t row = 0; row < n_rows; row++)
        for (size_t c = 0; c < padded; c++)
            if (factor->order[c] < n) r.weights[c][row] = values[row * n + factor->order[c]];
    correct(&r);
    float *one = r.differences[0], *wanted = one + padded; /* not yet in use */
    for (size_t row = 0; row < n_rows && form.scales != SW_SCALES_FLOAT_BLOCK; row++) {
        for (size_t c = 0; c < padded; c++) one[c] = r.weights[c][row];
        r.channel[row] = sw_matrix_row_scale(form, one, factor->diagonal, padded, wanted);
    }
    round_rows(&r);
    return store(&r, n_rows, q, scales);
}
