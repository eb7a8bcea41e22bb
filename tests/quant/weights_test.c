/* Constants: integers and scales worked out by hand, from views of F32 rows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/f16.h"
#include "quant/quant.h"

typedef struct fixture {
    sw_decoder decoder; /* its arena only */
    sw_weight view;
    sw_tensor tensor;
    sw_error err;
} fixture;

static fixture of_rows(const float *values, uint32_t rows, uint32_t cols, sw_dtype type) {
    fixture f = {.view = {.file_name = "w", .data = (const uint8_t *)values, .rows = rows, .cols = cols}};
    f.view.row_bytes = cols * sizeof(float);
    f.view.storage = SW_STORE_F32;
    f.tensor = (sw_tensor){.name = "layer_0.w", .kind = SW_TENSOR_CONSTANT, .dtype = type, .rank = 2};
    f.tensor.dims[0] = rows, f.tensor.dims[1] = cols;
    return f;
}

static sw_code quantize(fixture *f, void *data, sw_pool *pool) {
    f->tensor.weight = &f->view; /* the fixture has its address now */
    return sw_quantize_constant(&f->decoder, &f->tensor, data, pool, NULL, &f->err);
}

static void matrices_have_a_scale_a_row(void **state) {
    (void)state;
    const float values[12] = {127, -1, 0.5f, -0.5f, /* scale 1: ties away from zero */
                              0,   0,  0,    0,     /* some scale */
                              -2,  1,  2,    0.01f};
    const int8_t want[12] = {127, -1, 1, -1, 0, 0, 0, 0, -127, 64, 127, 1};
    fixture f = of_rows(values, 3, 4, SW_S8);
    int8_t data[12];
    assert_int_equal(quantize(&f, data, NULL), SW_OK);
    assert_memory_equal(data, want, sizeof want);
    assert_true(f.tensor.channel_scales[0] == 1.0f);
    assert_true(f.tensor.channel_scales[1] > 0.0f);
    assert_true(f.tensor.channel_scales[2] == 2.0f / 127);
    sw_arena_free(&f.decoder.arena);
}

/* The cut into tasks changes nothing, and every value is within half a step. */
static void threads_give_the_same(void **state) {
    (void)state;
    enum { ROWS = 203, COLS = 37 };
    static float values[ROWS * COLS];
    static int8_t one[ROWS * COLS], many[ROWS * COLS];
    uint32_t seed = 1;
    for (int i = 0; i < ROWS * COLS; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = ((float)(seed >> 8) / (float)(1 << 24) - 0.5f) * (float)(i / COLS % 7);
    }
    fixture f = of_rows(values, ROWS, COLS, SW_S8), g = f;
    sw_pool *pool;
    assert_int_equal(sw_pool_create(&pool, 2, NULL), SW_OK);
    assert_int_equal(quantize(&f, one, NULL), SW_OK);
    assert_int_equal(quantize(&g, many, pool), SW_OK);
    assert_memory_equal(one, many, sizeof one);
    for (int i = 0; i < ROWS * COLS; i++) {
        double scale = (double)f.tensor.channel_scales[i / COLS];
        assert_true(one[i] != -128);
        assert_true(fabs(one[i] * scale - (double)values[i]) <= 0.5001 * scale);
    }
    sw_pool_destroy(pool);
    sw_arena_free(&f.decoder.arena);
    sw_arena_free(&g.decoder.arena);
}

static void vectors_are_affine_with_zero(void **state) {
    (void)state;
    const float values[4] = {0.25f, 1, 2.55f, 0.5f};
    fixture f = of_rows(values, 1, 4, SW_U8);
    f.tensor.role = SW_ROLE_GAMMA, f.tensor.rank = 1, f.tensor.dims[0] = 4;
    uint8_t u8[4];
    assert_int_equal(quantize(&f, u8, NULL), SW_OK);
    assert_null(f.tensor.channel_scales);
    assert_true(f.tensor.encoding.scale == (float)((double)2.55f / 255));
    assert_int_equal(f.tensor.encoding.offset, 0); /* the range is [0, 2.55] */
    assert_memory_equal(u8, "\x19\x64\xff\x32", 4);

    f.tensor.dtype = SW_U16;
    uint16_t u16[4];
    assert_int_equal(quantize(&f, u16, NULL), SW_OK);
    const uint16_t want[4] = {6425, 25700, 65535, 12850}; /* v / 2.55 x 65535 = v x 25700 */
    assert_memory_equal(u16, want, sizeof want);
}

static void halves_are_nearest_even_and_finite(void **state) {
    (void)state;
    float values[4] = {1, 2049, 2051, -65519}; /* 2049, 2051: ties between even neighbours */
    fixture f = of_rows(values, 2, 2, SW_F16);
    uint16_t data[4];
    assert_int_equal(quantize(&f, data, NULL), SW_OK);
    const float want[4] = {1, 2048, 2052, -65504};
    for (int i = 0; i < 4; i++) assert_true(sw_f16_to_f32(data[i]) == want[i]);
    values[3] = 65520;
    assert_int_equal(quantize(&f, data, NULL), SW_UNSUPPORTED);
    assert_non_null(strstr(f.err.message, "layer_0.w"));
    assert_non_null(strstr(f.err.message, "65504"));
}

static void bad_values_and_shapes_are_refused(void **state) {
    (void)state;
    const sw_dtype types[] = {SW_S8, SW_U8, SW_U16, SW_F16, SW_F32};
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t t = 0; t < 5; t++)
        for (size_t b = 0; b < 3; b++) {
            const float values[4] = {1, 2, bad[b], 3};
            uint32_t data[4];
            fixture f = of_rows(values, 2, 2, types[t]);
            assert_int_equal(quantize(&f, data, NULL), SW_BAD_DATA);
            assert_non_null(strstr(f.err.message, "layer_0.w"));
            f.tensor.dims[0] = 3;
            assert_int_equal(quantize(&f, data, NULL), SW_INVALID_ARGUMENT);
            sw_arena_free(&f.decoder.arena);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_have_a_scale_a_row),
        cmocka_unit_test(threads_give_the_same),
        cmocka_unit_test(vectors_are_affine_with_zero),
        cmocka_unit_test(halves_are_nearest_even_and_finite),
        cmocka_unit_test(bad_values_and_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
