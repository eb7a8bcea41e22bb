/* Borders: values worked out by hand, in every type. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/f16.h"
#include "device/border.h"
#include "graph/decoder.h"

static void rounds_half_away_and_saturates(void **state) {
    (void)state;
    const sw_encoding e = {0.5f, -10}; /* real = 0.5 (q - 10) */
    const struct {
        float value;
        int32_t q;
    } cases[] = {{0, 10},      {0.25f, 11}, {-0.25f, 9},     {0.24f, 10},    {-0.24f, 10},
                 {0.75f, 12},  {-0.75f, 8}, {-5, 0},         {-6, 0},        {122.5f, 255},
                 {1e30f, 255}, {-1e30f, 0}, {INFINITY, 255}, {-INFINITY, 0}, {NAN, 10}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(sw_quantize_value(cases[i].value, SW_U8, e), cases[i].q);
    assert_int_equal(sw_quantize_value(1e9f, SW_S8, (sw_encoding){1, 0}), 127);
    assert_int_equal(sw_quantize_value(-1e9f, SW_S8, (sw_encoding){1, 0}), -128);
    assert_int_equal(sw_quantize_value(1e9f, SW_U16, (sw_encoding){1, 0}), 65535);
    assert_true(sw_dequantize_value(7, e) == -1.5f);
}

static void rows_of_every_type(void **state) {
    (void)state;
    const float values[3] = {-1, 0, 1.5f};
    float back[3];
    const sw_dtype types[] = {SW_F32, SW_F16, SW_U8, SW_S8, SW_U16};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        unsigned char out[16] = {0};
        sw_tensor t = {.dtype = types[i], .encoding = {0.5f, types[i] == SW_S8 ? 0 : -4}};
        sw_quantize_row(&t, values, 3, out);
        assert_int_equal(out[3 * sw_dtype_bytes(types[i])], 0); /* nothing behind the row */
        sw_dequantize_row(&t, out, 3, back);
        assert_memory_equal(values, back, sizeof values); /* all are on the grid */
        if (types[i] == SW_U8) assert_memory_equal(out, "\x02\x04\x07", 3);
    }
}

static void rotary_of_positions(void **state) {
    (void)state;
    sw_tensor c = {.dtype = SW_F32, .rank = 3, .dims = {1, 3, 2}}, s = c;
    float cosines[6], sines[6];
    sw_border_fill_rotary(&c, &s, 10000, (uint32_t[]){0, 2}, 2, cosines, sines);
    /* head_dim 4: frequencies 1 and 10000^(-1/2) = 0.01. Row 2 is padding and repeats position 2. */
    const double angles[6] = {0, 0, 2, 0.02, 2, 0.02};
    for (int i = 0; i < 6; i++) {
        assert_float_equal(cosines[i], (float)cos(angles[i]), 1e-7);
        assert_float_equal(sines[i], (float)sin(angles[i]), 1e-7);
    }
    c.dtype = SW_U8, c.encoding = (sw_encoding){1 / 128.0f, -128};
    s.dtype = SW_F16;
    uint8_t cos8[6];
    uint16_t sin16[6];
    sw_border_fill_rotary(&c, &s, 10000, (uint32_t[]){0, 2}, 2, cos8, sin16);
    assert_int_equal(cos8[0], 255);      /* 1 saturates */
    assert_int_equal(cos8[2], 128 - 53); /* cos 2 = -0.41615, x 128 = -53.27 */
    assert_int_equal(sin16[0], 0);
    assert_int_equal(sin16[2], sw_f32_to_f16(0.9092974268f));
}

static void mask_sees_the_past(void **state) {
    (void)state;
    /* n = 2 new tokens, C = 5: three cache columns, two of them filled. '1' = seen. */
    const char *want = "11010"
                       "11011";
    sw_tensor t = {.dtype = SW_F32, .rank = 4, .dims = {1, 1, 2, 5}};
    float f[10];
    sw_border_fill_mask(&t, 2, f);
    t.dtype = SW_U8, t.encoding = (sw_encoding){0.25f, -255};
    uint8_t q[10];
    sw_border_fill_mask(&t, 2, q);
    t.dtype = SW_U16, t.encoding = (sw_encoding){0.25f, -65535};
    uint16_t w[10];
    sw_border_fill_mask(&t, 2, w);
    for (int i = 0; i < 10; i++) {
        assert_true(f[i] == (want[i] == '1' ? 0.0f : SW_MASK_BLOCKED));
        assert_int_equal(q[i], want[i] == '1' ? 255 : 0);
        assert_int_equal(w[i], want[i] == '1' ? 65535 : 0);
    }
}

static void hidden_rows_come_from_any_table(void **state) {
    (void)state;
    sw_error err = {0};
    const int8_t s8[6] = {4, -2, 8, 6, 2, -4}; /* [3, 2] */
    const float scales[3] = {0.5f, 0.25f, 1}, f32[6] = {2, -1, 2, 1.5f, 2, -4};
    uint16_t f16[6];
    for (int i = 0; i < 6; i++) f16[i] = sw_f32_to_f16(f32[i]);
    const sw_weight view = {.data = (const uint8_t *)f32, .row_bytes = 8, .rows = 3, .cols = 2};
    const sw_tensor tables[] = {
        {.dtype = SW_S8, .rank = 2, .dims = {3, 2}, .data = s8, .channel_scales = scales},
        {.dtype = SW_F32, .rank = 2, .dims = {3, 2}, .data = f32},
        {.dtype = SW_F16, .rank = 2, .dims = {3, 2}, .data = f16},
        {.dtype = SW_S8, .rank = 2, .dims = {3, 2}, .weight = &view}, /* not quantized yet */
    };
    sw_tensor hidden = {.name = "hidden_in", .dtype = SW_U8, .rank = 2, .dims = {3, 2}};
    hidden.encoding = (sw_encoding){0.5f, -100};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        uint8_t out[6];
        memset(out, 9, sizeof out);
        assert_int_equal(sw_border_fill_hidden(&hidden, &tables[i], (int32_t[]){2, 1}, 2, out, &err), SW_OK);
        const uint8_t want[6] = {104, 92, 104, 103, 100, 100};
        assert_memory_equal(out, want, 6);
    }
    uint8_t out[6];
    assert_int_equal(sw_border_fill_hidden(&hidden, &tables[0], (int32_t[]){3}, 1, out, &err),
                     SW_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "id 3"));
    assert_int_equal(sw_border_fill_hidden(&hidden, &tables[0], (int32_t[]){-1}, 1, out, &err),
                     SW_INVALID_ARGUMENT);
    assert_int_equal(sw_border_fill_hidden(&hidden, &tables[0], (int32_t[]){0, 0, 0, 0}, 4, out, &err),
                     SW_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_half_away_and_saturates),
        cmocka_unit_test(rows_of_every_type),
        cmocka_unit_test(rotary_of_positions),
        cmocka_unit_test(mask_sees_the_past),
        cmocka_unit_test(hidden_rows_come_from_any_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
