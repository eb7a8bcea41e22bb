/* JSON where memory ends: the reader says so, where jansson leaves neither words nor a place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"

static size_t left; /* allocations that succeed */

static void *allocate(size_t bytes) {
    if (left == 0) return NULL;
    left--;
    return malloc(bytes);
}

static void no_memory_is_named(void **state) {
    (void)state;
    static const char text[] =
        "{\"a long enough key\": [1, -2.5, true, null, \"text\\u00e9 \\ud83d\\ude00\"], "
        "\"b\": {\"c\": [[], {}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]], \"d\": \"\"}, "
        "\"e\": 1, \"f\": 2, \"g\": 3, \"h\": 4, \"i\": 5, \"j\": 6, \"k\": 7}";
    sw_code code = SW_NO_MEMORY;
    size_t n = 0, n_said = 0, n_placeless = 0;
    json_set_alloc_funcs(allocate, free);
    for (; code != SW_OK && n < 1000; n++) {
        sw_error err = {SW_OK, ""};
        sw_json document;
        left = n;
        code = sw_json_parse(&document, "file.json", text, sizeof text - 1, &err);
        n_said += code == SW_NO_MEMORY && strcmp(err.message, "file.json: out of memory") == 0;
        n_placeless += strstr(err.message, "line -1") != NULL;
        sw_json_free(&document);
    }
    json_set_alloc_funcs(malloc, free);
    assert_int_equal(code, SW_OK);
    assert_true(n_said > n / 2); /* jansson's lexer calls some an invalid token */
    assert_int_equal(n_placeless, 0);
}

static void wrong_text_has_its_place(void **state) {
    (void)state;
    static const char *const texts[] = {"", "{", "[1,", "\"", "{\"a\": 1, \"a\": 2}", "[1] 2", "\xff", "nul"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sw_error err = {SW_OK, ""};
        sw_json document;
        assert_int_equal(sw_json_parse(&document, "file.json", texts[i], strlen(texts[i]), &err),
                         SW_BAD_DATA);
        assert_non_null(strstr(err.message, "file.json: not valid JSON at line 1"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_memory_is_named),
                                       cmocka_unit_test(wrong_text_has_its_place)};
    return cmocka_run_group_tests_name("JSON", tests, NULL, NULL);
}
