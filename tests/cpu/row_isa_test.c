/* Every variant of the elementwise loops that this processor can run gives what the scalar one gives, at
 * every length; htp_rules_test.c and quantized_test.c have the rules themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/row_isa.h"

enum { N = 200, ROUNDS = 400 };

static uint32_t seed = 1;

static uint32_t draw(void) {
    seed = seed * 1664525 + 1013904223;
    return seed >> 8;
}

/* Values of a round: anything, or the ends of the range alone. */
static void fill(void *out, size_t bytes, bool ends) {
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)out)[i] = (uint8_t)(ends ? (i / 2 % 3 == 0 ? 0 : 255) : draw());
}

typedef struct rows {
    uint16_t a[N], b[N], c[N];
    size_t n;
} rows;

static void compare(const sw_row_isa *isa, int round) {
    rows r;
    uint16_t got[N], want[N];
    const sw_row_isa *scalar = &sw_row_scalar;
    fill(&r, sizeof r, round % 4 == 0);
    r.n = 1 + draw() % N;
    memset(got, 0x5a, sizeof got), memset(want, 0x5a, sizeof want);
#define CHECK()                                                                                              \
    do {                                                                                                     \
        if (memcmp(got, want, sizeof got) != 0)                                                              \
            fail_msg("%s, line %d, n = %zu", sw_isa_name(isa->needs), __LINE__, r.n);                        \
    } while (0)

    const sw_add_rule add16 = {draw() % 32768, draw() % 32768, -(int32_t)(draw() << 6), 65535, 1,
                               1 + draw() % 15};
    isa->add_u16(r.n, r.a, r.b, add16, got), scalar->add_u16(r.n, r.a, r.b, add16, want);
    CHECK();
    const sw_add_rule add8 = {draw() % 32768, draw() % 32768, -(int32_t)(draw() % 30000), 255, 8,
                              1 + draw() % 7};
    isa->add_u8(r.n, (uint8_t *)r.a, (uint8_t *)r.b, add8, (uint8_t *)got);
    scalar->add_u8(r.n, (uint8_t *)r.a, (uint8_t *)r.b, add8, (uint8_t *)want);
    CHECK();
    const int32_t za = -(int32_t)(draw() % 65536), zb = -(int32_t)(draw() % 65536);
    const int64_t bias = 32768 + (int64_t)za - (2 * (int64_t)za + 65535) * ((int64_t)zb + 32768);
    const sw_multiply_rule multiply = {za,
                                       zb,
                                       (int32_t)(uint32_t)(uint64_t)bias,
                                       (int32_t)draw(),
                                       (int32_t)draw() - (1 << 23),
                                       -(int32_t)(draw() % 65536)};
    isa->multiply_u16(r.n, r.a, r.b, multiply, got), scalar->multiply_u16(r.n, r.a, r.b, multiply, want);
    CHECK();
    const sw_rotary_rule rotary = {za,
                                   zb,
                                   zb,
                                   multiply.bias,
                                   (int32_t)draw(),
                                   multiply.bias,
                                   (int32_t)draw(),
                                   5,
                                   -7,
                                   -(int32_t)(draw() % 65536)};
    isa->rotary_u16(r.n / 2, r.a, r.b, r.c, rotary, got),
        scalar->rotary_u16(r.n / 2, r.a, r.b, r.c, rotary, want);
    CHECK();
    const sw_multiply8_rule multiply8 = {za / 256, zb / 256, draw() % 32768, draw() << 6, 16 + draw() % 7};
    isa->multiply_u8(r.n, (uint8_t *)r.a, (uint8_t *)r.b, multiply8, (uint8_t *)got);
    scalar->multiply_u8(r.n, (uint8_t *)r.a, (uint8_t *)r.b, multiply8, (uint8_t *)want);
    CHECK();
    const sw_rotary8_rule rotary8 = {.zx = za / 256,
                                     .zc = zb / 256,
                                     .zs = zb / 256,
                                     .half = 64,
                                     .offset = -(int32_t)(draw() % 256),
                                     .cosine = {draw() % 32768, draw() << 6, (int32_t)(draw() % 1000)},
                                     .sine = {draw() % 32768, draw() << 6, -(int32_t)(draw() % 1000)},
                                     .fraction = 7};
    isa->rotary_u8(r.n / 2, (uint8_t *)r.a, (uint8_t *)r.b, (uint8_t *)r.c, rotary8, (uint8_t *)got);
    scalar->rotary_u8(r.n / 2, (uint8_t *)r.a, (uint8_t *)r.b, (uint8_t *)r.c, rotary8, (uint8_t *)want);
    CHECK();
    const sw_silu_rule silu = {za,
                               zb,
                               (int32_t)(draw() << 8) / 2,
                               (int32_t)(draw() << (draw() % 7)),
                               (int32_t)draw(),
                               {draw() % 65537, draw() % 16}};
    isa->silu_u16(r.n, r.a, silu, got), scalar->silu_u16(r.n, r.a, silu, want);
    CHECK();
    const sw_narrow_rule narrow = {(int32_t)(draw() % 16384), (int32_t)(draw() << 4) - (1 << 27),
                                   draw() % 24};
    isa->narrow(r.n, r.a, narrow, (uint8_t *)got), scalar->narrow(r.n, r.a, narrow, (uint8_t *)want);
    CHECK();
    float mantissas[N], units[N];
    for (size_t i = 0; i < N; i++) {
        mantissas[i] = i % 7 == 0 ? 0 : 0x1p22f + (float)(draw() >> 2);
        units[i] = i % 7 == 0 ? 0x1p-126f : (draw() % 2 ? 1 : -1) / (float)(1 << (18 + draw() % 8));
    }
    const sw_norm_rule norm = {za, zb, 0.5 + (draw() & 0x7fffff) * 0x1p-24, 0x1p-10};
    isa->norm_u16(r.n, r.a, mantissas, units, norm, got),
        scalar->norm_u16(r.n, r.a, mantissas, units, norm, want);
    CHECK();
    assert_true(isa->squares_u16(r.n, r.a, za) == scalar->squares_u16(r.n, r.a, za));
    const sw_norm_rule norm_u8 = {za / 256, zb / 256, norm.factor, 0x1p-2};
    isa->norm_u8(r.n, (uint8_t *)r.a, mantissas, units, norm_u8, (uint8_t *)got);
    scalar->norm_u8(r.n, (uint8_t *)r.a, mantissas, units, norm_u8, (uint8_t *)want);
    CHECK();
    assert_true(isa->squares_u8(r.n, (uint8_t *)r.a, za / 256) ==
                scalar->squares_u8(r.n, (uint8_t *)r.a, za / 256));
    const uint16_t least = (uint16_t)draw(), top = isa->greatest(r.n, r.a, least);
    assert_int_equal(top, scalar->greatest(r.n, r.a, least));
    const int32_t to_log2 = (int32_t)(draw() % (round % 2 ? 32768 : 100));
    assert_true(isa->exp2(r.n, r.a, top, to_log2, got) == scalar->exp2(r.n, r.a, top, to_log2, want));
    CHECK();
    const uint32_t factor = draw() % 65537;
    const unsigned shift = draw() % 32;
    isa->scale(r.n, got, factor, shift, got), scalar->scale(r.n, want, factor, shift, want);
    CHECK();
}

static void every_variant_is_the_scalar_one(void **state) {
    (void)state;
    for (size_t v = 0; v < sw_row_variant_count; v++) {
        if (!sw_cpu_has(sw_row_variants[v]->needs)) {
            printf("%s: not on this processor\n", sw_isa_name(sw_row_variants[v]->needs));
            continue;
        }
        for (int round = 0; round < ROUNDS; round++) compare(sw_row_variants[v], round);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_variant_is_the_scalar_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
