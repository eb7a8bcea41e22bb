/* stream_test.c: the text must not depend on how tokens cut it; so every case is fed in every pair of cuts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "text/stream.h"

static sw_error err;

static void add(char *text, size_t *size, sw_span part) {
    assert_true(sw_utf8_valid(part.data, part.size, NULL)); /* whole characters only */
    memcpy(text + *size, part.data, part.size);
    *size += part.size;
}

static void check_cut(const char *text, size_t size, size_t a, size_t b, const sw_span *stops, size_t n_stops,
                      const char *wanted, bool stopped) {
    char out[256];
    size_t out_size = 0;
    sw_stream s;
    sw_span part;
    assert_int_equal(sw_stream_init(&s, stops, n_stops, &err), SW_OK);
    const sw_span parts[] = {{text, a}, {text + a, b - a}, {text + b, size - b}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sw_stream_feed(&s, parts[i], &part, &err), SW_OK);
        add(out, &out_size, part);
    }
    assert_int_equal(s.stopped, stopped);
    assert_int_equal(sw_stream_finish(&s, &part, &err), SW_OK);
    add(out, &out_size, part);
    out[out_size] = '\0';
    assert_string_equal(out, wanted);
    sw_stream_deinit(&s);
}

static void check(const char *text, const sw_span *stops, size_t n_stops, const char *wanted, bool stopped) {
    size_t size = strlen(text);
    for (size_t a = 0; a <= size; a++)
        for (size_t b = a; b <= size; b++) check_cut(text, size, a, b, stops, n_stops, wanted, stopped);
}

static void gives_whole_characters(void **state) {
    (void)state;
    check("", NULL, 0, "", false);
    check("plain", NULL, 0, "plain", false);
    check("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x91\x8d!", NULL, 0, "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x91\x8d!",
          false);
}

/* As in The Unicode Standard, table 3-8, and more. */
static void replaces_maximal_parts(void **state) {
    (void)state;
#define U "\xef\xbf\xbd"
    check("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64", NULL, 0, "a" U U U "b" U "c" U U "d",
          false);
    check("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", NULL, 0, U U U U U U U U "A", false);
    check("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", NULL, 0, U U U U U U U U "A", false);
    check("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", NULL, 0, U U U U U "A" U U "B", false);
    check("x\xf0\x9f\x91", NULL, 0, "x" U, false); /* cut at the end of all text */
}

static void stops_at_strings_over_token_edges(void **state) {
    (void)state;
    const sw_span end = {"<|end|>", 7}, newlines = {"\n\n", 2}, both[] = {end, newlines};
    check("hello<|end|>more", &end, 1, "hello", true);
    check("hello<|en", &end, 1, "hello<|en", false); /* a start only: given out at the end */
    check("a<|e<|end|>", &end, 1, "a<|e", true);
    check("one\ntwo\n\n<|end|>", both, 2, "one\ntwo", true);
    check("<|end|>", both, 2, "", true);
    check("\xc3\xa9\n\n", both, 2, "\xc3\xa9", true);
    check("\xc3\n\nx", both, 2, U, true);
    const sw_span inner[] = {{"abcd", 4}, {"bc", 2}}; /* bc is there first */
    check("xabcd", inner, 2, "xa", true);
    const sw_span ends[] = {{"c", 1}, {"abc", 3}}; /* both end at once: the longer one goes */
    check("xabcd", ends, 2, "x", true);
    const sw_span overlap = {"aab", 3};
    check("aaaab", &overlap, 1, "aa", true);
    const sw_span euro = {"\xe2\x82\xac", 3};
    check("5 \xe2\x82\xac", &euro, 1, "5 ", true);
    check("5 \xe2\x82\xad", &euro, 1, "5 \xe2\x82\xad", false);
}

static void holds_back_no_more_than_it_must(void **state) {
    (void)state;
    const sw_span stop = {"\n\n", 2};
    sw_stream s;
    sw_span out;
    assert_int_equal(sw_stream_init(&s, &stop, 1, &err), SW_OK);
    assert_int_equal(sw_stream_feed(&s, (sw_span){"ab\n", 3}, &out, &err), SW_OK);
    assert_int_equal(out.size, 2);
    assert_int_equal(sw_stream_feed(&s, (sw_span){"c\xc3", 2}, &out, &err), SW_OK);
    assert_int_equal(out.size, 2); /* "\nc" */
    assert_memory_equal(out.data, "\nc", 2);
    sw_stream_deinit(&s);
}

static void refuses_an_empty_stop(void **state) {
    (void)state;
    const sw_span stops[] = {{"a", 1}, {"", 0}};
    sw_stream s;
    assert_int_equal(sw_stream_init(&s, stops, 2, &err), SW_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "stop string 1 is empty"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_whole_characters),
        cmocka_unit_test(replaces_maximal_parts),
        cmocka_unit_test(stops_at_strings_over_token_edges),
        cmocka_unit_test(holds_back_no_more_than_it_must),
        cmocka_unit_test(refuses_an_empty_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
