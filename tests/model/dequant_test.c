/* Blocks written by hand, against exact arithmetic: d * q is exact in float (11 + 8 bits), d * q + m is the
 * exact sum, which a double holds for the scales below, rounded once. Data stands at odd addresses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/model.h"

/* f16 bits with their values, from IEEE 754's definition. */
static const struct {
    uint16_t bits;
    double value;
} halves[] = {
    {0x3c00, 1.0},
    {0x3800, 0.5},
    {0xbd00, -1.25},
    {0x2e66, 1638.0 / 16384.0},
    {0x0001, 1.0 / 16777216.0},
    {0x03ff, 1023.0 / 16777216.0},
    {0x7bff, 65504.0},
    {0x8000, -0.0},
};
enum { HALVES = sizeof halves / sizeof *halves };

static void store_u16(uint8_t *p, uint16_t v) {
    p[0] = (uint8_t)v, p[1] = (uint8_t)(v >> 8);
}

/* Value i of a test block, 0 .. 2^bits - 1; over `turn` each place sees each value. */
static unsigned value_at(unsigned i, unsigned turn, unsigned bits) {
    return (i * 7 + turn) & ((1u << bits) - 1);
}

/* Packs a block at an odd address and compares its 32 values. */
static void check_block(sw_storage storage, size_t scale, size_t minimum, unsigned turn) {
    uint8_t memory[64] = {0}, *block = memory + 1;
    unsigned bits = storage == SW_STORE_Q8_0                               ? 8
                    : storage == SW_STORE_Q4_0 || storage == SW_STORE_Q4_1 ? 4
                                                                           : 5;
    bool has_minimum = storage == SW_STORE_Q4_1 || storage == SW_STORE_Q5_1;
    uint8_t *p = block;
    store_u16(p, halves[scale].bits), p += 2;
    if (has_minimum) store_u16(p, halves[minimum].bits), p += 2;
    if (bits == 8) {
        for (unsigned i = 0; i < 32; i++) p[i] = (uint8_t)value_at(i, turn, 8);
    } else {
        uint8_t *high = p;
        if (bits == 5) p += 4;
        for (unsigned i = 0; i < 32; i++) {
            unsigned q = value_at(i, turn, bits);
            p[i % 16] = (uint8_t)(p[i % 16] | (q & 15) << (i < 16 ? 0 : 4));
            if (q & 16) high[i / 8] = (uint8_t)(high[i / 8] | 1u << (i % 8));
        }
    }
    sw_weight w = {.file_name = "w", .data = block, .rows = 1, .cols = 32, .storage = storage};
    w.row_bytes = sw_storage_infos[storage].block_bytes;
    float out[32];
    sw_weight_row(&w, 0, out);
    for (unsigned i = 0; i < 32; i++) {
        double q = value_at(i, turn, bits);
        if (storage == SW_STORE_Q8_0 && q > 127) q -= 256;
        if (storage == SW_STORE_Q4_0) q -= 8;
        if (storage == SW_STORE_Q5_0) q -= 16;
        double exact = halves[scale].value * q + (has_minimum ? halves[minimum].value : 0);
        if (out[i] != (float)exact)
            fail_msg("%s value %u: %a, wanted %a", sw_storage_infos[storage].name, i, (double)out[i], exact);
    }
}

static void test_blocks(void **state) {
    (void)state;
    static const sw_storage kinds[] = {SW_STORE_Q8_0, SW_STORE_Q4_0, SW_STORE_Q4_1, SW_STORE_Q5_0,
                                       SW_STORE_Q5_1};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t scale = 0; scale < HALVES; scale++)
            for (size_t minimum = 0; minimum < HALVES; minimum++)
                for (unsigned turn = 0; turn < 256; turn += k == 0 ? 1 : 8)
                    check_block(kinds[k], scale, minimum, turn + turn / 32);
}

/* Literal bytes, so that packing and unpacking can't share a mistake. */
static void test_literal_blocks(void **state) {
    (void)state;
    static const uint8_t q4_0[18] = {0x00, 0x38, 0x0f, 0xf0, 0x98}; /* d 0.5; values 15,0,8.. | 0,15,9.. */
    static const uint8_t q5_1[24] = {0x00, 0x40, 0x00, 0xbc, 0x01, 0x00, 0x02, 0x80, 0x21, 0x43};
    sw_weight w = {.data = q4_0, .row_bytes = 18, .rows = 1, .cols = 32, .storage = SW_STORE_Q4_0};
    float out[32];
    sw_weight_row(&w, 0, out);
    assert_true(out[0] == 3.5f && out[1] == -4.0f && out[2] == 0.0f && out[3] == -4.0f);
    assert_true(out[16] == -4.0f && out[17] == 3.5f && out[18] == 0.5f && out[31] == -4.0f);
    /* d 2, m -1, high bits of values 0, 17 and 31; low halves 1, 3, high halves 2, 4 */
    w = (sw_weight){.data = q5_1, .row_bytes = 24, .rows = 1, .cols = 32, .storage = SW_STORE_Q5_1};
    sw_weight_row(&w, 0, out);
    assert_true(out[0] == 2.0f * 17 - 1 && out[1] == 2.0f * 3 - 1 && out[2] == -1.0f);
    assert_true(out[16] == 2.0f * 2 - 1 && out[17] == 2.0f * 20 - 1 && out[31] == 2.0f * 16 - 1);
}

static void test_floats(void **state) {
    (void)state;
    static const uint8_t f32[9] = {0, 0x00, 0x00, 0xc0, 0x3f, 0x01, 0x00, 0x00, 0x80}; /* 1.5, -2^-149 */
    static const uint8_t f16[5] = {0, 0x66, 0x2e, 0xff, 0xfb};                         /* -65504 */
    static const uint8_t bf16[5] = {0, 0xc0, 0x3f, 0x80, 0xc0};                        /* 1.5, -4 */
    float out[2];
    sw_weight w = {.data = f32 + 1, .row_bytes = 8, .rows = 1, .cols = 2, .storage = SW_STORE_F32};
    sw_weight_row(&w, 0, out);
    assert_true(out[0] == 1.5f && out[1] == -0x1p-149f);
    w = (sw_weight){.data = f16 + 1, .row_bytes = 4, .rows = 1, .cols = 2, .storage = SW_STORE_F16};
    sw_weight_row(&w, 0, out);
    assert_true(out[0] == 1638.0f / 16384.0f && out[1] == -65504.0f);
    w = (sw_weight){.data = bf16 + 1, .row_bytes = 4, .rows = 1, .cols = 2, .storage = SW_STORE_BF16};
    sw_weight_row(&w, 0, out);
    assert_true(out[0] == 1.5f && out[1] == -4.0f);
}

/* Two heads of six rows: the file has pairs 0,3 1,4 2,5 of each head as neighbours. */
static void test_interleaved_rows(void **state) {
    (void)state;
    static const float stored[12] = {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11};
    uint8_t data[sizeof stored];
    memcpy(data, stored, sizeof stored);
    sw_weight w = {.data = data, .row_bytes = 4, .rows = 12, .cols = 1, .storage = SW_STORE_F32};
    for (uint32_t r = 0; r < 12; r++) {
        float out;
        w.interleaved_head_dim = 6;
        sw_weight_row(&w, r, &out);
        assert_true(out == (float)r);
        w.interleaved_head_dim = 0;
        sw_weight_row(&w, r, &out);
        assert_true(out == stored[r]);
    }
}

/* One bad float anywhere in 5000 blocks is found and placed; the greatest finite values pass. */
static void test_check_values(void **state) {
    (void)state;
    enum { ROWS = 2500, BLOCKS_A_ROW = 2 };
    static const struct {
        sw_storage storage;
        unsigned at, width;
        uint32_t nan, infinite, finite;
        const char *part;
    } cases[] = {
        {SW_STORE_F32, 0, 4, 0x7f800001, 0xff800000, 0x7f7fffff, "row"},
        {SW_STORE_F16, 0, 2, 0x7c01, 0xfc00, 0x7bff, "row"},
        {SW_STORE_BF16, 0, 2, 0x7f81, 0xff80, 0x7f7f, "row"},
        {SW_STORE_Q4_0, 0, 2, 0x7e00, 0x7c00, 0xfbff, "scale"},
        {SW_STORE_Q4_1, 0, 2, 0x7e00, 0x7c00, 0xfbff, "scale"},
        {SW_STORE_Q4_1, 2, 2, 0xfe00, 0xfc00, 0xfbff, "minimum"},
        {SW_STORE_Q5_0, 0, 2, 0x7e00, 0x7c00, 0xfbff, "scale"},
        {SW_STORE_Q5_1, 0, 2, 0x7e00, 0x7c00, 0xfbff, "scale"},
        {SW_STORE_Q5_1, 2, 2, 0x7c01, 0x7c00, 0xfbff, "minimum"},
        {SW_STORE_Q8_0, 0, 2, 0x7e00, 0x7c00, 0xfbff, "scale"},
    };
    static const unsigned places[] = {0, 1, 4095, 4096, ROWS * BLOCKS_A_ROW - 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sw_storage_info *info = &sw_storage_infos[cases[i].storage];
        size_t size = (size_t)ROWS * BLOCKS_A_ROW * info->block_bytes;
        uint8_t *data = malloc(size + 1);
        assert_non_null(data);
        /* Packed values of all ones are no floats and must not be looked at. */
        memset(data, info->block_values == 1 ? 0 : 0xff, size + 1);
        for (size_t b = 0; info->block_values > 1 && b < ROWS * BLOCKS_A_ROW; b++)
            memset(data + 1 + b * info->block_bytes, 0, 4);
        if (info->block_values > 1 && cases[i].storage != SW_STORE_Q4_1 && cases[i].storage != SW_STORE_Q5_1)
            for (size_t b = 0; b < ROWS * BLOCKS_A_ROW; b++)
                memset(data + 1 + b * info->block_bytes + 2, 0xff, 2);
        sw_weight w = {.file_name = "t", .data = data + 1, .rows = ROWS, .storage = cases[i].storage};
        w.cols = BLOCKS_A_ROW * info->block_values;
        w.row_bytes = BLOCKS_A_ROW * info->block_bytes;
        sw_error err = {0};
        assert_int_equal(sw_weight_check_values(&w, &err), SW_OK);
        for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
            uint8_t *p = data + 1 + places[k] * (size_t)info->block_bytes + cases[i].at, saved[4];
            memcpy(saved, p, cases[i].width);
            for (int bad = 0; bad < 3; bad++) {
                uint32_t bits = bad == 0 ? cases[i].finite : bad == 1 ? cases[i].nan : cases[i].infinite;
                for (unsigned n = 0; n < cases[i].width; n++) p[n] = (uint8_t)(bits >> (8 * n));
                sw_code code = sw_weight_check_values(&w, &err);
                if (code != (bad == 0 ? SW_OK : SW_BAD_DATA))
                    fail_msg("%s at %u: %d", info->name, places[k], code);
                if (bad == 0) continue;
                char place[64];
                if (info->block_values == 1)
                    snprintf(place, sizeof place, "row %u, column %u is", places[k] / 2, places[k] % 2);
                else
                    snprintf(place, sizeof place, "block %u (row %u)", places[k], places[k] / 2);
                assert_non_null(strstr(err.message, place));
                assert_non_null(strstr(err.message, cases[i].part));
                assert_non_null(strstr(err.message, bad == 1 ? "is NaN" : "is infinite"));
                assert_non_null(strstr(err.message, "`t`"));
            }
            memcpy(p, saved, cases[i].width);
        }
        free(data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),       cmocka_unit_test(test_literal_blocks),
        cmocka_unit_test(test_floats),       cmocka_unit_test(test_interleaved_rows),
        cmocka_unit_test(test_check_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
