/* f16_test.c: halves and bfloat16 against values computed by definition, with ldexp. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/f16.h"

/* The value of a finite half by IEEE 754's definition; for 0x7c00 the 65536 that follows the largest. */
static double value_of(uint16_t h) {
    int exponent = h >> 10 & 31, fraction = h & 0x3ff;
    double v = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return h & 0x8000 ? -v : v;
}

static void every_half_has_its_value_and_comes_back(void **state) {
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float f = sw_f16_to_f32((uint16_t)h);
        if ((h & 0x7fff) > 0x7c00) { /* NaN stays NaN, with its sign */
            assert_true(isnan(f));
            uint16_t back = sw_f32_to_f16(f);
            assert_true((back & 0x7fff) > 0x7c00 && (back & 0x8000) == (h & 0x8000));
            continue;
        }
        if ((h & 0x7fff) == 0x7c00)
            assert_true(isinf(f) && (f < 0) == (h >> 15));
        else
            assert_true((double)f == value_of((uint16_t)h));
        assert_int_equal(sw_f32_to_f16(f), h); /* tells -0 from 0 too */
    }
}

/* Between each half and the next: the midpoint goes to the even one, its float neighbours to theirs. */
static void rounding_is_to_nearest_even(void **state) {
    (void)state;
    for (unsigned h = 0; h < 0x7c00; h++) {
        float middle =
            (float)((value_of((uint16_t)h) + value_of((uint16_t)(h + 1))) / 2); /* exact in float */
        unsigned even = h % 2 == 0 ? h : h + 1;
        assert_int_equal(sw_f32_to_f16(middle), even);
        assert_int_equal(sw_f32_to_f16(-middle), even | 0x8000);
        assert_int_equal(sw_f32_to_f16(nextafterf(middle, 0.0f)), h);
        assert_int_equal(sw_f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
    }
}

static void what_is_out_of_range_overflows_or_vanishes(void **state) {
    (void)state;
    assert_int_equal(sw_f32_to_f16(65504.0f), 0x7bff);
    assert_int_equal(sw_f32_to_f16(nextafterf(65520.0f, 0.0f)), 0x7bff);
    assert_int_equal(sw_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(sw_f32_to_f16(3.4e38f), 0x7c00);
    assert_int_equal(sw_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(sw_f32_to_f16(ldexpf(1, -25)), 0); /* half of the smallest: a tie, to 0 */
    assert_int_equal(sw_f32_to_f16(nextafterf(ldexpf(1, -25), 1)), 1);
    assert_int_equal(sw_f32_to_f16(-ldexpf(1, -149)), 0x8000);
}

static void bfloat16_is_the_upper_half_of_a_float(void **state) {
    (void)state;
    assert_true(sw_bf16_to_f32(0x3f80) == 1.0f);
    assert_true(sw_bf16_to_f32(0xc049) == -3.140625f);
    assert_true(sw_bf16_to_f32(0x0001) == ldexpf(1, -133)); /* the smallest, subnormal */
    assert_true(isinf(sw_bf16_to_f32(0x7f80)));
    assert_true(isnan(sw_bf16_to_f32(0x7fc0)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_has_its_value_and_comes_back),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(what_is_out_of_range_overflows_or_vanishes),
        cmocka_unit_test(bfloat16_is_the_upper_half_of_a_float),
    };
    return cmocka_run_group_tests_name("f16", tests, NULL, NULL);
}
