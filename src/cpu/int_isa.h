/* int_isa.h: the inner loops of the integer matrix products, one variant an instruction set. All give the
 * same integers.
 *
 * A sum here is S = sum over t < k of x[t] * w[t] for u8 x, and floor(that / 256) for u16 x, which is all
 * that HTP's rule wants of it (cpu/requantize.h). k <= SW_INT_MAX_TERMS, so that S fits int32.
 *
 * Rows of x are first brought into the variant's own form, sw_int_isa.load_x: bytes in planes, or 16 bits.
 * w are s8 values, or u8 values with `flip` 0x80, which turns q into q - 128; flip is 0 for s8. */
#ifndef SW_CPU_INT_ISA_H
#define SW_CPU_INT_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu_features.h"

enum {
    SW_INT_MAX_TERMS = 65535, /* 255 * 128 * 65535 < 2^31 */
    SW_INT_COLS = 32,         /* columns of a panel */
    SW_INT_ROWS = 12,         /* most rows of a tile of u8; of u16 half of it */
    SW_INT_MOST_BLOCK = 512,  /* terms of a block of nibbles */
    SW_INT_X_PAD = 64         /* k is padded to a multiple of it in the form of x */
};

/* From sums to outputs, for `n` channels. share: what the input's offset adds to S. */
typedef struct sw_int_scaling {
    const float *step, *half; /* y = floor(((S + share) >> shift) + half) * step + 1/2) - offset */
    const int32_t *shift, *share;
} sw_int_scaling;

typedef struct sw_int_isa {
    sw_isa needs;

    /* A row of x in this variant's form; `out` has sw_int_x_bytes(k) bytes, aligned to 64. */
    void (*load_x)(size_t k, bool wide, const void *x, void *out);

    /* out[j] = sum of w row j, j < n; rows w_stride bytes apart. */
    void (*row_sums)(size_t n, size_t k, const int8_t *w, size_t w_stride, uint8_t flip, int32_t *out);

    /* Few rows of x: out[i * out_stride + j] = S of x row i and w row j. w_sums: what row_sums gives. Nothing
     * is read past the ends of w's rows. */
    void (*dot)(size_t n_x, const void *x, bool wide, size_t n_w, size_t k, const int8_t *w, size_t w_stride,
                uint8_t flip, const int32_t *w_sums, int32_t *out, size_t out_stride);

    /* A panel (see sw_int_panel_bytes) of n <= SW_INT_COLS rows of w; aligned to 64. */
    void (*pack_rows)(size_t n, size_t k, const int8_t *w, size_t w_stride, uint8_t flip, int8_t *panel);

    /* A panel of n <= SW_INT_COLS columns of w [k rows, w_stride bytes apart]. */
    void (*pack_columns)(size_t n, size_t k, const uint8_t *w, size_t w_stride, uint8_t flip, int8_t *panel);

    /* The sums of a panel's columns. NULL in a variant whose loops don't look at w_sums. */
    void (*panel_sums)(size_t k, const int8_t *panel, int32_t *out);

    /* Rows of x and a panel: out[r * SW_INT_COLS + c] = S of x row r and panel column c. rows <= SW_INT_ROWS,
     * half of it if wide. w_sums [SW_INT_COLS]. */
    void (*tile)(size_t rows, const void *x, bool wide, size_t k, const int8_t *panel, const int32_t *w_sums,
                 int32_t *out);

    /* One row of x and a panel of nibbles: out[c], as of the unpacked panel. NULL in a variant that has no
     * loop for it. */
    void (*tile_nibbles)(const void *x, bool wide, size_t k, size_t block, const uint8_t *nibbles,
                         int32_t *out);

    /* Nibbles as a panel of bytes, times their steps. */
    void (*unpack_nibbles)(size_t k, size_t block, const uint8_t *nibbles, int8_t *panel);

    /* y of n sums, each of the next channel, as u16 if wide, else u8. */
    void (*requantize)(size_t n, const int32_t *sums, sw_int_scaling scaling, bool wide, int32_t offset,
                       void *y);
} sw_int_isa;

/* Bytes of a row of x in any variant's form, a multiple of 64. */
static inline size_t sw_int_x_bytes(size_t k) {
    return 2 * ((k + SW_INT_X_PAD - 1) / SW_INT_X_PAD * SW_INT_X_PAD);
}

/* A panel [k / 4, rounded up][SW_INT_COLS][4]: panel[t / 4][c][t % 4] = w row c, term t, zeros elsewhere. */
static inline size_t sw_int_panel_bytes(size_t k) {
    return (k + 3) / 4 * 4 * SW_INT_COLS;
}

/* A panel of values of -8..7, [k / 8, rounded up][SW_INT_COLS][4]: byte [g][c][i] has term 8 g + i, plus 8,
 * in its low half and term 8 g + 4 + i in its high half. Blocks of terms may have a factor of 1 to 16 a
 * column, such that products fit s8; block 0 for none. Two blocks' steps stand before their nibbles, so that
 * a panel is read in memory's order:
 *
 *   [steps of block 0: SW_INT_COLS][steps of block 1][nibbles of block 0][nibbles of block 1][steps of block
 * 2]... */
static inline size_t sw_nibbles_at(size_t t, size_t block) {
    const size_t steps = block > 0 ? (t / block / 2 + 1) * 2 * SW_INT_COLS : 0;
    return steps + t / 8 * 4 * SW_INT_COLS;
}
static inline size_t sw_nibble_steps_at(size_t b, size_t block) {
    return b / 2 * (2 + block) * SW_INT_COLS + b % 2 * SW_INT_COLS;
}
static inline size_t sw_nibbles_bytes(size_t k, size_t block) {
    const size_t steps = block > 0 ? (k / block + 1) / 2 * 2 * SW_INT_COLS : 0;
    return steps + (k + 7) / 8 * 4 * SW_INT_COLS;
}
/* steps [k / block][SW_INT_COLS], NULL for block 0. */
void sw_nibbles_pack(size_t k, size_t block, const int8_t *panel, const uint8_t *steps, uint8_t *out);

/* True for blocks that panels of nibbles can have. */
static inline bool sw_nibbles_fit(size_t block) {
    return block > 0 && block % 8 == 0 && block <= SW_INT_MOST_BLOCK;
}

extern const sw_int_isa sw_int_scalar;
#if defined(__x86_64__)
extern const sw_int_isa sw_int_avx2, sw_int_avx512;
#elif defined(__aarch64__)
extern const sw_int_isa sw_int_neon, sw_int_dotprod, sw_int_i8mm;
#endif

/* Best first; the last is scalar. */
extern const sw_int_isa *const sw_int_variants[];
extern const size_t sw_int_variant_count;

/* The first variant that this processor can run and SPILLWAY_ISA allows. */
const sw_int_isa *sw_int_best(void);

#endif
