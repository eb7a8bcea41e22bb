/* text_file_test.c: the same text whatever editor saved it; other encodings are named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static void one_form(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t size;
        const char *want; /* or, in front of it, the error */
        sw_code code;
    } rows[] = {
        {"", 0, "", SW_OK},
        {"a\nb", 3, "a\nb", SW_OK},
        {"a\r\nb\r\n", 6, "a\nb\n", SW_OK},
        {"\r\r\n\r", 4, "\r\n\r", SW_OK}, /* a CR alone is the text's own */
        {"\xef\xbb\xbf", 3, "", SW_OK},
        {"\xef\xbb\xbf\r\n\xef\xbb\xbf", 8, "\n\xef\xbb\xbf", SW_OK}, /* only the one in front is a mark */
        {"\xef\xbb", 2, "byte 0 (0xef) is not UTF-8", SW_BAD_DATA},
        {"ab\xff", 3, "byte 2 (0xff) is not UTF-8", SW_BAD_DATA},
        {"\xff\xfe", 2, "is UTF-16", SW_BAD_DATA},
        {"\xfe\xff\0a", 4, "is UTF-16", SW_BAD_DATA},
        {"\xff\xfe\0\0a\0\0\0", 8, "is UTF-16", SW_BAD_DATA},
    };
    char path[] = "/tmp/spillway-text-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sw_arena arena = SW_ARENA_EMPTY;
        sw_error err = {0};
        char *text = NULL;
        size_t size = 99;
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, rows[i].data, rows[i].size, 0), rows[i].size);
        assert_int_equal(sw_file_read_text(path, 100, &arena, &text, &size, &err), rows[i].code);
        if (rows[i].code != SW_OK) {
            if (strstr(err.message, rows[i].want) == NULL) fail_msg("%s", err.message);
        } else {
            assert_int_equal(size, strlen(rows[i].want));
            assert_memory_equal(text, rows[i].want, size + 1); /* the zero byte too */
        }
        sw_arena_free(&arena);
    }
    close(fd);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_form)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
