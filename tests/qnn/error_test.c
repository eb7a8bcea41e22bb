/* Every error of QNN's headers has its name, reason and next step; unknown ones print in both bases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "qnn/error.h"
#include "qnn/log.h"

static void every_enumerator_of_the_headers_is_known(void **state) {
    (void)state;
    FILE *f = fopen(SW_TEST_DATA "/qnn_errors.csv", "r");
    assert_non_null(f);
    unsigned number, last = 0, numbers = 0;
    char name[128];
    bool named = true; /* of several names of one number the table has one */
    while (fscanf(f, "%u,%127s", &number, name) == 2) {
        const sw_qnn_error_info *info = sw_qnn_error_find(number);
        if (info == NULL) fail_msg("no row for %u %s", number, name);
        if (number != last) {
            if (!named) fail_msg("the name of %u is none of the headers'", last);
            named = false;
            numbers++;
        }
        last = number;
        named |= strcmp(info->name, name) == 0;
        assert_true(strlen(info->reason) > 10 && strlen(info->next) > 5);
        assert_int_equal(info->number, number);
    }
    fclose(f);
    assert_true(named);
    assert_int_equal(numbers, 114);
}

static void the_number_is_in_the_low_16_bits(void **state) {
    (void)state;
    assert_ptr_equal(sw_qnn_error_find(0x0003000000001773), sw_qnn_error_find(6003));
    assert_null(sw_qnn_error_find(6999));
    assert_null(sw_qnn_error_find(0));
}

static void say(const char *format, ...) SW_PRINTF(1, 2);
static void say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    sw_qnn_log_callback(format, QNN_LOG_ERROR, 0, args);
    va_end(args);
}

static void errors_say_all_that_is_known(void **state) {
    (void)state;
    sw_error err;
    sw_log_set_level(SW_LOG_ERROR);
    sw_qnn_log_reset();
    say(" <E> op wants 0x%x bytes of VTCM", 0x2400000);
    assert_int_equal(sw_qnn_fail(&err, 1002, "compiling graph %s", "kv_forward"), SW_LIBRARY);
    assert_int_equal(err.code, SW_LIBRARY);
    assert_ptr_equal(strstr(err.message,
                            "compiling graph kv_forward: QNN error 1002 "
                            "(QNN_COMMON_ERROR_MEM_ALLOC); the library says \"op wants 0x2400000 "
                            "bytes of VTCM\"; likely: "),
                     err.message);
    assert_non_null(strstr(err.message, "; next: "));

    sw_qnn_log_reset();
    sw_qnn_fail(&err, 0x1b57, "step"); /* 6999 */
    assert_string_equal(err.message, "step: unknown QNN error 6999 (0x1b57)");
    assert_int_equal(sw_qnn_fail(NULL, 1002, "nobody listens"), SW_LIBRARY);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_enumerator_of_the_headers_is_known),
                                       cmocka_unit_test(the_number_is_in_the_low_16_bits),
                                       cmocka_unit_test(errors_say_all_that_is_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
