/* Encodings against exact arithmetic, recipes, and names. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/border.h"
#include "quant/encoding.h"
#include "quant/names.h"
#include "quant/quant.h"

static void ranges_have_exact_encodings(void **state) {
    (void)state;
    const struct {
        double min, max;
        sw_dtype type;
        double scale;
        int32_t offset;
    } cases[] = {
        {0, 255, SW_U8, 1, 0},
        {-128, 127, SW_U8, 1, -128},
        {-1, 3, SW_U8, 4 / 255.0, -64}, /* 63.75 */
        {5, 10, SW_U8, 10 / 255.0, 0},  /* widened to hold 0 */
        {-3, -1, SW_U8, 3 / 255.0, -255},
        {-128, 127, SW_S8, 1, 0},
        {0, 255, SW_S8, 1, 128},
        {-16384, 49151, SW_U16, 1, -16384},
        {-2, 0, SW_U16, 2 / 65535.0, -65535},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_encoding e = sw_encoding_of_range(cases[i].min, cases[i].max, cases[i].type);
        assert_true(e.scale == (float)cases[i].scale);
        assert_int_equal(e.offset, cases[i].offset);
    }
}

/* Whatever the range: 0 is a grid point, the ends are at most half a step off, all is finite. */
static void any_range_holds_zero_and_its_ends(void **state) {
    (void)state;
    const double ends[] = {0, 1e-30, 1e-7, 1e-3, 0.7, 1, 33.3, 12345, 1e9};
    const sw_dtype types[] = {SW_U8, SW_S8, SW_U16};
    for (size_t a = 0; a < sizeof ends / sizeof *ends; a++)
        for (size_t b = 0; b < sizeof ends / sizeof *ends; b++)
            for (size_t t = 0; t < 3; t++) {
                float min = (float)-ends[a], max = (float)ends[b];
                sw_encoding e = sw_encoding_of_range((double)min, (double)max, types[t]);
                assert_true(e.scale > 1e-12f && isfinite(e.scale));
                assert_in_range(-e.offset - sw_dtype_min(types[t]), 0,
                                sw_dtype_max(types[t]) - sw_dtype_min(types[t]));
                int32_t zero = sw_quantize_value(0, types[t], e);
                assert_true(sw_dequantize_value(zero, e) == 0.0f);
                float low = sw_dequantize_value(sw_quantize_value(min, types[t], e), e);
                float high = sw_dequantize_value(sw_quantize_value(max, types[t], e), e);
                double slack = 0.501 * (double)e.scale + 1e-6 * (ends[a] + ends[b]);
                assert_true(fabs((double)low - (double)min) <= slack);
                assert_true(fabs((double)high - (double)max) <= slack);
            }
}

static void unit_encodings(void **state) {
    (void)state;
    assert_true(sw_encoding_of_unit(SW_U8).scale == 1 / 256.0f);
    assert_true(sw_encoding_of_unit(SW_U16).scale == 1 / 65536.0f);
    assert_int_equal(sw_encoding_of_unit(SW_U16).offset, 0);
}

static void recipes_and_their_errors(void **state) {
    (void)state;
    sw_recipe r;
    sw_error err = {0};
    assert_int_equal(sw_recipe_find(&r, "16a8w", 0, &err), SW_OK);
    assert_int_equal(r.activation, SW_U16);
    assert_int_equal(r.kv, SW_U8);
    assert_int_equal(r.weight, SW_S8);
    assert_int_equal(r.gamma, SW_U16);
    assert_int_equal(sw_recipe_find(&r, "16a8w", 16, &err), SW_OK);
    assert_int_equal(r.kv, SW_U16);
    assert_int_equal(sw_recipe_find(&r, "8a8w", 8, &err), SW_OK);
    assert_int_equal(r.gamma, SW_U8);
    assert_int_equal(sw_recipe_find(&r, "f16", 16, &err), SW_OK);
    assert_int_equal(r.kv, SW_F16);

    assert_int_equal(sw_recipe_find(&r, "8a8w", 16, &err), SW_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "it has 8"));
    assert_int_equal(sw_recipe_find(&r, "f16", 8, &err), SW_INVALID_ARGUMENT);
    assert_int_equal(sw_recipe_find(&r, "16a8w", 4, &err), SW_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "8 or 16"));
    assert_int_equal(sw_recipe_find(&r, "4a4w", 0, &err), SW_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "16a8w, 8a8w, 16a4w, 16a4w_block32, f16, "));
    assert_int_equal(sw_recipe_find(&r, "", 0, NULL), SW_INVALID_ARGUMENT);
}

static void names_keep_their_index(void **state) {
    (void)state;
    enum { N = 3000 }; /* grows several times */
    sw_names table = SW_NAMES_EMPTY;
    char name[32];
    assert_int_equal(sw_names_find(&table, "absent"), UINT32_MAX);
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < N; i++) {
            snprintf(name, sizeof name, "layer_%u.k", i);
            assert_int_equal(sw_names_add(&table, name), i);
        }
    assert_int_equal(table.count, N);
    assert_int_equal(sw_names_find(&table, "layer_2999.k"), 2999);
    assert_int_equal(sw_names_find(&table, "layer_3000.k"), UINT32_MAX);
    sw_names_free(&table);
}

static void default_text_is_many_documents(void **state) {
    (void)state;
    sw_span rest, document;
    rest.data = sw_calibration_default_text(&rest.size);
    size_t bad, documents = 0, chats = 0, bytes = 0, limit = rest.size;
    assert_true(sw_utf8_valid(rest.data, rest.size, &bad));
    assert_in_range(rest.size, 14000, 20000);
    while (sw_calibration_next_document(&rest, &document)) {
        documents++;
        bytes += document.size;
        chats += document.size > 12 && memcmp(document.data, "<|im_start|>", 12) == 0;
        assert_null(memchr(document.data, '\f', document.size));
    }
    assert_int_equal(bytes + 2 * (documents - 1), limit); /* nothing is lost but the separators */
    assert_true(documents >= 20 && 3 * chats >= documents);
}

static void documents_are_cut_at_lone_form_feeds(void **state) {
    (void)state;
    static const char text[] = "\f\none\f\n\f x\n\f\r\n \n\f\n\f\ntwo";
    sw_span rest = {text, sizeof text - 1}, d;
    assert_true(sw_calibration_next_document(&rest, &d));
    assert_int_equal(d.size, strlen("one\f\n\f x\n"));
    assert_memory_equal(d.data, "one\f\n\f x\n", d.size);
    assert_true(sw_calibration_next_document(&rest, &d));
    assert_int_equal(d.size, 3);
    assert_false(sw_calibration_next_document(&rest, &d));
    rest = (sw_span){NULL, 0};
    assert_false(sw_calibration_next_document(&rest, &d));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_have_exact_encodings),
        cmocka_unit_test(any_range_holds_zero_and_its_ends),
        cmocka_unit_test(unit_encodings),
        cmocka_unit_test(recipes_and_their_errors),
        cmocka_unit_test(names_keep_their_index),
        cmocka_unit_test(default_text_is_many_documents),
        cmocka_unit_test(documents_are_cut_at_lone_form_feeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
