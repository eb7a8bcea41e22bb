/* The account of a compile's seconds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/report.h"

/* Numbers that doubles hold exactly. */
static void check(double total, double beside, double finalize, double calls, double want_finalize,
                  double want_calls, double want_own) {
    const sw_compile_seconds s = sw_compile_seconds_of(total, 0, beside, finalize, calls);
    assert_true(s.total == total && s.finalize == want_finalize);
    assert_true(s.calls == want_calls && s.own == want_own);
}

static void a_compile_is_finalize_other_calls_and_ours(void **state) {
    (void)state;
    check(24, 22, 20, 1.5, 20, 1.5, 2.5);
    check(8, 0.25, 0, 0, 0, 0, 8); /* from the cache */
}

/* Two at once, 10 s each: no more than the 11 s that the compiler was at work. */
static void shards_side_by_side_count_what_they_took(void **state) {
    (void)state;
    check(14, 11, 18, 1.5, 11, 0, 3);
    check(14, 11, 10, 1.5, 10, 1, 3);
}

static void the_line_has_the_share_of_finalize(void **state) {
    (void)state;
    char line[SW_LINE_BYTES];
    sw_compile_seconds s = sw_compile_seconds_of(24.125, 0, 22, 20, 1.5);
    assert_string_equal(
        sw_compile_seconds_line(&s, line),
        "24.1 s: Qualcomm's finalize 20.0 s, its other calls 1.5 s, ours 2.6 s (13 % of finalize)");
    s = sw_compile_seconds_of(1.25, 0, 0, 0, 0);
    assert_string_equal(sw_compile_seconds_line(&s, line),
                        "1.2 s: Qualcomm's finalize 0.0 s, its other calls 0.0 s, ours 1.2 s");
}

/* Its compiles are Qualcomm's for the most part. */
static void tuning_is_not_ours(void **state) {
    (void)state;
    char line[SW_LINE_BYTES];
    const sw_compile_seconds s = sw_compile_seconds_of(33.125, 9, 22, 20, 1.5);
    assert_true(s.tuning == 9 && s.own == 2.625);
    assert_string_equal(sw_compile_seconds_line(&s, line),
                        "33.1 s: tuning 9.0 s, Qualcomm's finalize 20.0 s, its other calls 1.5 s, ours 2.6 s "
                        "(13 % of finalize)");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_compile_is_finalize_other_calls_and_ours),
                                       cmocka_unit_test(shards_side_by_side_count_what_they_took),
                                       cmocka_unit_test(the_line_has_the_share_of_finalize),
                                       cmocka_unit_test(tuning_is_not_ours)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
