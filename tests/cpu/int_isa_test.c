/* Every variant of the integer inner loops that this processor can run gives the integers of exact
 * arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/int_isa.h"

static uint32_t seed = 1;

static uint32_t draw(void) {
    seed = seed * 1664525 + 1013904223;
    return seed >> 8;
}

static void *block(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(p);
    return p;
}

typedef enum content { RANDOM, TOP_NEGATIVE, TOP_POSITIVE, ZERO } content;

/* Rows of x and of w. w is in a block of exactly its size, so that AddressSanitizer sees a read past it. */
typedef struct problem {
    size_t n_x, n_w, k;
    bool wide;
    uint8_t flip;
    uint16_t *x;
    int8_t *w;
} problem;

static problem draw_problem(size_t n_x, size_t n_w, size_t k, bool wide, unsigned flip, content c,
                            bool four_bit) {
    problem p = {n_x, n_w, k, wide, (uint8_t)flip, malloc(n_x * k * 2), malloc(n_w * k)};
    assert_true(p.x != NULL && p.w != NULL);
    const uint16_t top = wide ? 65535 : 255;
    for (size_t i = 0; i < n_x * k; i++)
        p.x[i] = (uint16_t)(c == RANDOM ? draw() & top : c == ZERO ? 0 : top);
    for (size_t i = 0; i < n_w * k; i++) {
        int q = c == RANDOM ? (int)(draw() & 255) - 128 : c == TOP_NEGATIVE ? -128 : 127;
        if (four_bit) q = c == RANDOM ? (q & 15) - 8 : c == TOP_NEGATIVE ? -8 : 7;
        p.w[i] = (int8_t)q;
    }
    return p;
}

static int32_t value_of_w(const problem *p, size_t j, size_t t) {
    return (int8_t)((uint8_t)p->w[j * p->k + t] ^ p->flip);
}

static int64_t exact(const problem *p, size_t i, size_t j) {
    int64_t sum = 0;
    for (size_t t = 0; t < p->k; t++) sum += p->x[i * p->k + t] * (int64_t)value_of_w(p, j, t);
    if (!p->wide) return sum;
    return sum >= 0 ? sum / 256 : -((-sum + 255) / 256);
}

/* x in the variant's form. */
static void *loaded_x(const sw_int_isa *isa, const problem *p) {
    char *rows = block(p->n_x * sw_int_x_bytes(p->k));
    memset(rows, 0x5a, p->n_x * sw_int_x_bytes(p->k));
    for (size_t i = 0; i < p->n_x; i++) {
        uint8_t *narrow = malloc(p->k);
        assert_non_null(narrow);
        for (size_t t = 0; t < p->k; t++) narrow[t] = (uint8_t)p->x[i * p->k + t];
        isa->load_x(p->k, p->wide, p->wide ? (const void *)(p->x + i * p->k) : narrow,
                    rows + i * sw_int_x_bytes(p->k));
        free(narrow);
    }
    return rows;
}

static void expect(const sw_int_isa *isa, const char *loop, const problem *p, const int32_t *out,
                   size_t stride) {
    for (size_t i = 0; i < p->n_x; i++)
        for (size_t j = 0; j < p->n_w; j++)
            if (out[i * stride + j] != exact(p, i, j))
                fail_msg("%s %s: %zu x %zu rows of %zu, wide %d, flip %d, row %zu, %zu: %d, wanted %lld",
                         sw_isa_name(isa->needs), loop, p->n_x, p->n_w, p->k, p->wide, p->flip, i, j,
                         out[i * stride + j], (long long)exact(p, i, j));
}

static int32_t *sums_of_w(const sw_int_isa *isa, const problem *p) {
    int32_t *sums = calloc(SW_INT_COLS, sizeof *sums);
    assert_non_null(sums);
    isa->row_sums(p->n_w, p->k, p->w, p->k, p->flip, sums);
    for (size_t j = 0; j < p->n_w; j++) {
        int32_t want = 0;
        for (size_t t = 0; t < p->k; t++) want += value_of_w(p, j, t);
        assert_int_equal(sums[j], want);
    }
    return sums;
}

static void check_dot(const sw_int_isa *isa, size_t n_x, size_t n_w, size_t k, bool wide, uint8_t flip,
                      content c) {
    problem p = draw_problem(n_x, n_w, k, wide, flip, c, false);
    void *x = loaded_x(isa, &p);
    int32_t *sums = sums_of_w(isa, &p);
    const size_t stride = n_w + 3;
    int32_t *out = malloc(n_x * stride * sizeof *out);
    assert_non_null(out);
    isa->dot(n_x, x, wide, n_w, k, p.w, k, p.flip, sums, out, stride);
    expect(isa, "dot", &p, out, stride);
    free(p.x), free(p.w), free(x), free(sums), free(out);
}

/* A panel of nibbles, with steps for blocks of terms or without (block 0): one row of x, and unpacked. */
static void check_nibbles(const sw_int_isa *isa, size_t n_w, size_t k, size_t block_terms, bool wide,
                          content c) {
    problem p = draw_problem(1, n_w, k, wide, 0, c, true);
    const size_t blocks = block_terms > 0 ? k / block_terms : 0;
    uint8_t *steps = calloc(blocks + 1, SW_INT_COLS), *nibbles = block(sw_nibbles_bytes(k, block_terms));
    int8_t *panel = block(sw_int_panel_bytes(k)), *unpacked = block(sw_int_panel_bytes(k));
    assert_non_null(steps);
    sw_int_scalar.pack_rows(n_w, k, p.w, k, 0, panel);
    for (size_t j = 0; j < n_w; j++)
        for (size_t b = 0; b < blocks; b++) {
            const uint8_t step = c == RANDOM ? (uint8_t)(1 + draw() % 16) : 16;
            steps[b * SW_INT_COLS + j] = step;
            for (size_t t = b * block_terms; t < (b + 1) * block_terms; t++)
                p.w[j * k + t] = (int8_t)(p.w[j * k + t] * step);
        }
    sw_nibbles_pack(k, block_terms, panel, steps, nibbles);
    void *x = loaded_x(isa, &p);
    int32_t out[SW_INT_COLS];
    if (isa->tile_nibbles != NULL) {
        isa->tile_nibbles(x, wide, k, block_terms, nibbles, out);
        expect(isa, block_terms > 0 ? "tile of nibbles with steps" : "tile of nibbles", &p, out, SW_INT_COLS);
    }
    memset(unpacked, 0x5a, sw_int_panel_bytes(k));
    isa->unpack_nibbles(k, block_terms, nibbles, unpacked);
    sw_int_scalar.pack_rows(n_w, k, p.w, k, 0, panel);
    for (size_t j = 0; j < n_w; j++)
        for (size_t t = 0; t < k; t++) {
            const size_t at = t / 4 * 4 * SW_INT_COLS + 4 * j + t % 4;
            assert_int_equal(unpacked[at], panel[at]);
        }
    free(p.x), free(p.w), free(x), free(steps), free(nibbles), free(panel), free(unpacked);
}

/* Panels from rows, and from columns of the transposed matrix. */
static void check_tile(const sw_int_isa *isa, size_t n_x, size_t n_w, size_t k, bool wide, uint8_t flip,
                       content c) {
    problem p = draw_problem(n_x, n_w, k, wide, flip, c, false);
    void *x = loaded_x(isa, &p);
    int32_t *sums = sums_of_w(isa, &p), *out = malloc(n_x * SW_INT_COLS * sizeof *out);
    int8_t *panel = block(sw_int_panel_bytes(k));
    uint8_t *columns = malloc(n_w * k);
    assert_true(out != NULL && columns != NULL);
    for (size_t t = 0; t < k; t++)
        for (size_t j = 0; j < n_w; j++) columns[t * n_w + j] = (uint8_t)p.w[j * k + t];
    memset(panel, 0x5a, sw_int_panel_bytes(k));
    isa->pack_columns(n_w, k, columns, n_w, p.flip, panel);
    isa->tile(n_x, x, wide, k, panel, sums, out);
    expect(isa, "tile of columns", &p, out, SW_INT_COLS);
    memset(panel, 0x5a, sw_int_panel_bytes(k));
    isa->pack_rows(n_w, k, p.w, k, p.flip, panel);
    isa->tile(n_x, x, wide, k, panel, sums, out);
    expect(isa, "tile of rows", &p, out, SW_INT_COLS);
    if (isa->panel_sums != NULL) {
        int32_t panel_sums[SW_INT_COLS];
        isa->panel_sums(k, panel, panel_sums);
        assert_memory_equal(panel_sums, sums, n_w * sizeof *sums);
    }
    free(p.x), free(p.w), free(x), free(sums), free(out), free(panel), free(columns);
}

typedef void for_variant(const sw_int_isa *isa);

static void for_each_variant(for_variant *check) {
    for (size_t v = 0; v < sw_int_variant_count; v++) {
        const sw_int_isa *isa = sw_int_variants[v];
        if (sw_cpu_has(isa->needs))
            check(isa);
        else
            printf("%s: not on this processor\n", sw_isa_name(isa->needs));
    }
}

static const size_t lengths[] = {1, 3, 4, 15, 16, 33, 63, 64, 65, 127, 576, 577, 1023, 1536, 4100};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

static void dots(const sw_int_isa *isa) {
    for (size_t l = 0; l < N_LENGTHS; l++)
        for (size_t n_x = 1; n_x <= 5; n_x++)
            for (size_t n_w = 1; n_w <= 9; n_w += n_w < 5 ? 1 : 2)
                for (content c = RANDOM; c <= ZERO; c++) {
                    check_dot(isa, n_x, n_w, lengths[l], true, n_w % 2 ? 0x80u : 0u, c);
                    check_dot(isa, n_x, n_w, lengths[l], false, n_w % 2 ? 0u : 0x80u, c);
                }
}

static void tiles(const sw_int_isa *isa) {
    static const size_t widths[] = {1, 31, 32};
    for (size_t l = 0; l < N_LENGTHS; l++)
        for (size_t w = 0; w < 3; w++)
            for (content c = RANDOM; c <= ZERO; c++)
                for (size_t n_x = 1; n_x <= SW_INT_ROWS; n_x++) {
                    check_tile(isa, n_x, widths[w], lengths[l], false, n_x % 2 ? 0x80u : 0u, c);
                    if (n_x <= SW_INT_ROWS / 2)
                        check_tile(isa, n_x, widths[w], lengths[l], true, n_x % 2 ? 0u : 0x80u, c);
                }
}

static void nibble_panels(const sw_int_isa *isa) {
    static const size_t widths[] = {1, 31, 32};
    static const size_t blocks[][2] = {{8, 8},    {16, 48},   {32, 64},    {32, 1536},
                                       {40, 120}, {64, 4096}, {512, 1536}, {504, 4032}};
    for (size_t w = 0; w < 3; w++)
        for (content c = RANDOM; c <= ZERO; c++)
            for (int wide = 0; wide <= 1; wide++) {
                for (size_t l = 0; l < N_LENGTHS; l++) check_nibbles(isa, widths[w], lengths[l], 0, wide, c);
                for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
                    check_nibbles(isa, widths[w], blocks[b][1], blocks[b][0], wide, c);
            }
}

/* The longest sums that are promised. */
static void longest(const sw_int_isa *isa) {
    for (content c = TOP_NEGATIVE; c <= TOP_POSITIVE; c++)
        for (int wide = 0; wide <= 1; wide++) {
            check_dot(isa, 3, 5, SW_INT_MAX_TERMS, wide, 0, c);
            check_nibbles(isa, 5, SW_INT_MAX_TERMS, 0, wide, c);
            check_nibbles(isa, 5, SW_INT_MAX_TERMS / 32 * 32, 32, wide, c);
            check_tile(isa, 5, 32, SW_INT_MAX_TERMS, wide, 0, c);
        }
}

/* Sums over the whole range, scales of all sizes: every variant as the scalar one, whose rule
 * quantized_linear_test.c checks. */
static void requantized(const sw_int_isa *isa) {
    enum { N = 77 };
    for (int round = 0; round < 200; round++) {
        int32_t sums[N], shift[N], share[N];
        float step[N], half[N];
        uint16_t got[N + 1], want[N + 1];
        for (size_t i = 0; i < N; i++) {
            sums[i] = (int32_t)(draw() << 8 ^ draw()) >> (draw() % 31);
            shift[i] = (int32_t)(draw() % 32);
            share[i] = (int32_t)(draw() << 8) >> (8 + draw() % 20);
            if ((int64_t)sums[i] + share[i] != (int32_t)((uint32_t)sums[i] + (uint32_t)share[i]))
                share[i] = 0;
            half[i] = draw() % 4 > 0 ? 0.5f : 0.5f / (float)(1u << (draw() % 30));
            step[i] = (float)(draw() & 0x3fffff) / (float)(1u << (draw() % 31));
        }
        const sw_int_scaling s = {step, half, shift, share};
        const size_t n = 1 + draw() % N;
        const bool wide = round % 2;
        const int32_t offset = -(int32_t)(draw() & (wide ? 65535 : 255));
        memset(got, 0x5a, sizeof got), memset(want, 0x5a, sizeof want);
        isa->requantize(n, sums, s, wide, offset, got);
        sw_int_scalar.requantize(n, sums, s, wide, offset, want);
        assert_memory_equal(got, want, sizeof got);
    }
}

static void dots_are_exact(void **state) {
    (void)state;
    for_each_variant(dots);
}
static void tiles_are_exact(void **state) {
    (void)state;
    for_each_variant(tiles);
}

static void nibbles_are_exact(void **state) {
    (void)state;
    for_each_variant(nibble_panels);
}
static void the_longest_sums_fit(void **state) {
    (void)state;
    for_each_variant(longest);
}
static void requantization_is_the_same(void **state) {
    (void)state;
    for_each_variant(requantized);
}

static void scalar_is_last(void **state) {
    (void)state;
    assert_ptr_equal(sw_int_variants[sw_int_variant_count - 1], &sw_int_scalar);
    setenv("SPILLWAY_ISA", "scalar", 1);
    assert_ptr_equal(sw_int_best(), &sw_int_scalar);
    unsetenv("SPILLWAY_ISA");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(dots_are_exact),
                                       cmocka_unit_test(tiles_are_exact),
                                       cmocka_unit_test(nibbles_are_exact),
                                       cmocka_unit_test(the_longest_sums_fit),
                                       cmocka_unit_test(requantization_is_the_same),
                                       cmocka_unit_test(scalar_is_last)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
