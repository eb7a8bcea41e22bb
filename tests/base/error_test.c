/* error_test.c: one sentence, always terminated, that can't write to a terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "spillway/error.h"

static void a_failure_keeps_code_and_sentence(void **state) {
    (void)state;
    sw_error err = {0};
    assert_int_equal(SW_FAIL(&err, SW_BAD_DATA, "%s: %d tensors", "a.gguf", 7), SW_BAD_DATA);
    assert_int_equal(err.code, SW_BAD_DATA);
    assert_string_equal(err.message, "a.gguf: 7 tensors");
    assert_int_equal(SW_FAIL(NULL, SW_IO, "nobody asks"), SW_IO);
}

static void what_could_steer_a_terminal_is_escaped(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"a\x1b[2Jb", "a\\x1b[2Jb"},
        {"\x01\x1f\x7f", "\\x01\\x1f\\x7f"},
        {"one\nerror: two\r\tthree", "one\\x0aerror: two\\x0d\\x09three"}, /* no second line */
        {"gr\xc3\xbc\xc3\x9f \xe6\xbc\xa2 \xf0\x9f\x98\x80",
         "gr\xc3\xbc\xc3\x9f \xe6\xbc\xa2 \xf0\x9f\x98\x80"},
        {"\xc2\x9b"
         "2J",
         "\\xc2\\x9b2J"}, /* U+009B, the other CSI */
        {"\xc2\xa0", "\xc2\xa0"},
        {"\xff\xc3", "\\xff\\xc3"}, /* no UTF-8 */
        {"\xe2\x82", "\\xe2\\x82"},
        {"\xc3\x1b", "\\xc3\\x1b"}, /* a cut character does not swallow what follows */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sw_error err = {0};
        sw_fail(&err, SW_BAD_DATA, "%s", rows[i].in);
        assert_string_equal(err.message, rows[i].out);
        sw_fail(&err, SW_BAD_DATA, "%s", ""); /* and on the way up */
        sw_error_prefix(&err, "%s", rows[i].in);
        assert_memory_equal(err.message, rows[i].out, strlen(rows[i].out));
    }
}

static void a_prefix_gives_context(void **state) {
    (void)state;
    sw_error err = {0};
    sw_fail(&err, SW_NOT_FOUND, "no tensor");
    assert_int_equal(sw_error_prefix(&err, "layer %d", 3), SW_NOT_FOUND);
    assert_int_equal(sw_error_prefix(&err, "%s", "a.gguf"), SW_NOT_FOUND);
    assert_string_equal(err.message, "a.gguf: layer 3: no tensor");
}

static void long_texts_are_cut_between_characters(void **state) {
    (void)state;
    char text[3 * SW_ERROR_MESSAGE_BYTES];
    for (size_t shift = 0; shift < 4; shift++) {
        sw_error err;
        memset(&err, 'z', sizeof err);
        memset(text, 'a', shift);
        for (size_t i = shift; i + 4 < sizeof text; i += 4) memcpy(text + i, "\xf0\x9f\x98\x80", 5);
        sw_fail(&err, SW_BAD_DATA, "%s", text);
        size_t n = strnlen(err.message, sizeof err.message);
        assert_in_range(n, SW_ERROR_MESSAGE_BYTES - 8, SW_ERROR_MESSAGE_BYTES - 1);
        assert_true(sw_utf8_valid(err.message, n, NULL));
    }
    /* A prefix too long is cut, and the sentence is still there. */
    sw_error err;
    sw_fail(&err, SW_BAD_DATA, "the sentence");
    memset(text, 'p', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(sw_error_prefix(&err, "%s", text), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "pp...pp"));
    assert_non_null(strstr(err.message, "pp: the sentence"));
    /* All escapes: 1024 bytes in, four times as many out. */
    memset(text, '\x1b', sizeof text - 1);
    sw_fail(&err, SW_BAD_DATA, "%s", text);
    assert_in_range(strnlen(err.message, sizeof err.message), 1, SW_ERROR_MESSAGE_BYTES - 1);
}

/* What was wrong stands behind the path or value it was wrong with, however long that is. */
static void long_words_leave_the_reason(void **state) {
    (void)state;
    enum { LONG = 200000 };
    char *text = malloc(LONG + 1);
    assert_non_null(text);
    static const char *const fills[] = {"p", "\xf0\x9f\x98\x80", "\xff", "\x1b"};
    for (size_t f = 0; f < sizeof fills / sizeof *fills; f++) {
        const size_t n = strlen(fills[f]);
        for (size_t i = 0; i + n <= LONG; i += n) memcpy(text + i, fills[f], n);
        text[LONG] = '\0';
        for (size_t length = 900 / n * n; length <= LONG; length = (length + length / 5) / n * n) {
            sw_error err;
            sw_fail(&err, SW_IO, "%.*s: can't rename to %.*s: %s", (int)length, text, (int)length, text,
                    "File name too long");
            assert_non_null(strstr(err.message, ": can't rename to "));
            assert_non_null(strstr(err.message, ": File name too long"));
            assert_non_null(strstr(err.message, "..."));
            assert_true(sw_utf8_valid(err.message, strlen(err.message), NULL));
            assert_in_range(strlen(err.message), 400, SW_ERROR_MESSAGE_BYTES - 1);
            sw_fail(&err, SW_IO, "can't open it");
            sw_error_prefix(&err, "--model %.*s", (int)length, text);
            assert_memory_equal(err.message, "--model ", 8);
            assert_string_equal(err.message + strlen(err.message) - 15, ": can't open it");
        }
    }
    free(text);
}

static void every_code_has_a_text(void **state) {
    (void)state;
    for (int code = 0; code < SW_CODE_COUNT; code++) {
        assert_true(strlen(sw_code_text((sw_code)code)) > 0);
        assert_string_not_equal(sw_code_text((sw_code)code), sw_code_text(SW_CODE_COUNT));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_keeps_code_and_sentence),
        cmocka_unit_test(what_could_steer_a_terminal_is_escaped),
        cmocka_unit_test(a_prefix_gives_context),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(long_words_leave_the_reason),
        cmocka_unit_test(every_code_has_a_text),
    };
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
