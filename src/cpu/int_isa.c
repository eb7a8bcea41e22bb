/* int_isa.c: the scalar variant of the integer inner loops, the forms of weights, and the choice of a
 * variant.
 */
#include "cpu/int_isa.h"

#include <string.h>

enum { QUAD = 4 * SW_INT_COLS };

void sw_nibbles_pack(size_t k, size_t block, const int8_t *panel, const uint8_t *steps, uint8_t *out) {
    static const int8_t zeros[QUAD];
    for (size_t t = 0; t < k; t += 8, panel += 2 * QUAD) {
        const int8_t *high = t + 4 < k ? panel + QUAD : zeros;
        uint8_t *to = out + sw_nibbles_at(t, block);
        for (size_t i = 0; i < QUAD; i++)
            to[i] = (uint8_t)(((uint8_t)(panel[i] + 8) & 15) | (uint8_t)((uint8_t)(high[i] + 8) << 4));
    }
    for (size_t b = 0; block > 0 && b < k / block; b++)
        memcpy(out + sw_nibble_steps_at(b, block), steps + b * SW_INT_COLS, SW_INT_COLS);
}

static void unpack_nibbles(size_t k, size_t block, const uint8_t *nibbles, int8_t *panel) {
    for (size_t t = 0; t < k; t += 8, panel += 2 * QUAD) {
        const uint8_t *step = block > 0 ? nibbles + sw_nibble_steps_at(t / block, block) : NULL;
        const uint8_t *from = nibbles + sw_nibbles_at(t, block);
        const size_t quads = t + 4 < k ? 2 : 1;
        for (size_t q = 0; q < quads; q++)
            for (size_t i = 0; i < QUAD; i++) {
                const int v = (q == 0 ? from[i] & 15 : from[i] >> 4) - 8;
                panel[q * QUAD + i] = (int8_t)(step != NULL ? v * step[i / 4] : v);
            }
    }
}

/* x as 16-bit values. */
static void load_x(size_t k, bool wide, const void *x, void *out) {
    uint16_t *to = out;
    for (size_t t = 0; t < k; t++) to[t] = wide ? ((const uint16_t *)x)[t] : ((const uint8_t *)x)[t];
    memset(to + k, 0, sw_int_x_bytes(k) - 2 * k);
}

static void row_sums(size_t n, size_t k, const int8_t *w, size_t w_stride, uint8_t flip, int32_t *out) {
    for (size_t j = 0; j < n; j++) {
        int32_t sum = 0;
        for (size_t t = 0; t < k; t++) sum += (int8_t)((uint8_t)w[j * w_stride + t] ^ flip);
        out[j] = sum;
    }
}

static int32_t sum_of(int64_t sum, bool wide) {
    return (int32_t)(wide ? sum >> 8 : sum);
}

static void dot(size_t n_x, const void *x, bool wide, size_t n_w, size_t k, const int8_t *w, size_t w_stride,
                uint8_t flip, const int32_t *w_sums, int32_t *out, size_t out_stride) {
    (void)w_sums;
    for (size_t i = 0; i < n_x; i++) {
        const uint16_t *xi = (const uint16_t *)x + i * sw_int_x_bytes(k) / 2;
        for (size_t j = 0; j < n_w; j++) {
            int64_t sum = 0;
            for (size_t t = 0; t < k; t++) sum += xi[t] * (int8_t)((uint8_t)w[j * w_stride + t] ^ flip);
            out[i * out_stride + j] = sum_of(sum, wide);
        }
    }
}

static void pack_rows(size_t n, size_t k, const int8_t *w, size_t w_stride, uint8_t flip, int8_t *panel) {
    memset(panel, 0, sw_int_panel_bytes(k));
    for (size_t c = 0; c < n; c++)
        for (size_t t = 0; t < k; t++)
            panel[t / 4 * 4 * SW_INT_COLS + 4 * c + t % 4] = (int8_t)((uint8_t)w[c * w_stride + t] ^ flip);
}

static void pack_columns(size_t n, size_t k, const uint8_t *w, size_t w_stride, uint8_t flip, int8_t *panel) {
    memset(panel, 0, sw_int_panel_bytes(k));
    for (size_t t = 0; t < k; t++)
        for (size_t c = 0; c < n; c++)
            panel[t / 4 * 4 * SW_INT_COLS + 4 * c + t % 4] = (int8_t)(w[t * w_stride + c] ^ flip);
}

static void tile(size_t rows, const void *x, bool wide, size_t k, const int8_t *panel, const int32_t *w_sums,
                 int32_t *out) {
    (void)w_sums;
    for (size_t r = 0; r < rows; r++) {
        const uint16_t *xr = (const uint16_t *)x + r * sw_int_x_bytes(k) / 2;
        int64_t sums[SW_INT_COLS] = {0};
        for (size_t t = 0; t < k; t++)
            for (size_t c = 0; c < SW_INT_COLS; c++)
                sums[c] += xr[t] * panel[t / 4 * 4 * SW_INT_COLS + 4 * c + t % 4];
        for (size_t c = 0; c < SW_INT_COLS; c++) out[r * SW_INT_COLS + c] = sum_of(sums[c], wide);
    }
}

static void tile_nibbles(const void *x, bool wide, size_t k, size_t block, const uint8_t *nibbles,
                         int32_t *out) {
    const uint16_t *row = x;
    for (size_t c = 0; c < SW_INT_COLS; c++) {
        int64_t sum = 0;
        for (size_t t = 0; t < k; t++) {
            const int byte = nibbles[sw_nibbles_at(t, block) + 4 * c + t % 4];
            const int step = block > 0 ? nibbles[sw_nibble_steps_at(t / block, block) + c] : 1;
            sum += (int64_t)row[t] * ((t % 8 < 4 ? byte & 15 : byte >> 4) - 8) * step;
        }
        out[c] = sum_of(sum, wide);
    }
}

static void requantize(size_t n, const int32_t *sums, sw_int_scaling s, bool wide, int32_t offset, void *y) {
    const int32_t max = wide ? UINT16_MAX : UINT8_MAX;
    for (size_t i = 0; i < n; i++) {
        const int32_t sum =
            (int32_t)((uint32_t)sums[i] + (uint32_t)s.share[i]); /* fits: |x + offset| < 2^16 */
        const double v = ((double)(sum >> s.shift[i]) + (double)s.half[i]) * (double)s.step[i] + 0.5 - offset;
        const int32_t q = !(v > 0) ? 0 : v >= max ? max : (int32_t)v;
        if (wide)
            ((uint16_t *)y)[i] = (uint16_t)q;
        else
            ((uint8_t *)y)[i] = (uint8_t)q;
    }
}

const sw_int_isa sw_int_scalar = {.needs = SW_ISA_SCALAR,
                                  .load_x = load_x,
                                  .row_sums = row_sums,
                                  .dot = dot,
                                  .pack_rows = pack_rows,
                                  .pack_columns = pack_columns,
                                  .tile = tile,
                                  .tile_nibbles = tile_nibbles,
                                  .unpack_nibbles = unpack_nibbles,
                                  .requantize = requantize};

const sw_int_isa *const sw_int_variants[] = {
#if defined(__x86_64__)
    &sw_int_avx512, &sw_int_avx2,
#elif defined(__aarch64__)
    &sw_int_i8mm, &sw_int_dotprod, &sw_int_neon,
#endif
    &sw_int_scalar};
const size_t sw_int_variant_count = sizeof sw_int_variants / sizeof *sw_int_variants;

const sw_int_isa *sw_int_best(void) {
    size_t i = 0;
    while (!sw_cpu_has(sw_int_variants[i]->needs)) i++;
    return sw_int_variants[i];
}
