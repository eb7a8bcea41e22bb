/* bytes_test.c: checked sizes, the cursor's edges, and UTF-8 against a second definition of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

static void sizes_that_do_not_fit_are_refused(void **state) {
    (void)state;
    uint64_t out;
    assert_true(sw_add_u64(UINT64_MAX - 1, 1, &out));
    assert_true(out == UINT64_MAX);
    assert_false(sw_add_u64(UINT64_MAX, 1, &out));
    assert_true(sw_mul_u64(UINT64_C(0xffffffff), UINT64_C(0x100000001), &out));
    assert_true(out == UINT64_MAX);
    assert_false(sw_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    assert_true(sw_mul_u64(UINT64_MAX, 0, &out));
    assert_true(out == 0);
}

static void alignment_rounds_up_or_refuses(void **state) {
    (void)state;
    static const struct {
        uint64_t value, alignment, want;
    } rows[] = {{0, 32, 0}, {1, 32, 32}, {31, 32, 32}, {32, 32, 32}, {33, 32, 64}, {7, 1, 7}};
    uint64_t out;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(sw_align_u64(rows[i].value, rows[i].alignment, &out));
        assert_int_equal(out, rows[i].want);
    }
    assert_true(sw_align_u64(UINT64_MAX - 31, 32, &out));
    assert_true(out == UINT64_MAX - 31);
    assert_false(sw_align_u64(UINT64_MAX - 30, 32, &out));
}

static void the_cursor_reads_little_endian_and_stops_at_the_end(void **state) {
    (void)state;
    static const uint8_t data[] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                   0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32};
    sw_cursor c = {.data = data, .size = sizeof data};
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    assert_true(sw_cursor_u64(&c, &u64));
    assert_true(u64 == UINT64_C(0xefcdab8967452301));
    assert_false(sw_cursor_u64(&c, &u64)); /* 7 left: no move */
    assert_int_equal(sw_cursor_left(&c), 7);
    assert_true(sw_cursor_u32(&c, &u32));
    assert_int_equal(u32, 0x98badcfe);
    assert_false(sw_cursor_u32(&c, &u32));
    assert_true(sw_cursor_u16(&c, &u16));
    assert_int_equal(u16, 0x5476);
    assert_false(sw_cursor_u16(&c, &u16));
    assert_true(sw_cursor_u8(&c, &u8));
    assert_int_equal(u8, 0x32);
    assert_false(sw_cursor_u8(&c, &u8));
    assert_ptr_equal(sw_cursor_take(&c, 0), data + sizeof data);
    assert_null(sw_cursor_take(&c, 1));
}

static void the_cursor_withstands_hostile_numbers(void **state) {
    (void)state;
    static const uint8_t data[4] = {0};
    sw_cursor c = {.data = data, .size = sizeof data, .pos = 1};
    assert_null(sw_cursor_take(&c, UINT64_MAX)); /* pos + n would wrap to 0 */
    assert_null(sw_cursor_take(&c, UINT64_MAX - 1));
    assert_int_equal(c.pos, 1);
    c.pos = 5; /* moved past the end by its owner */
    assert_int_equal(sw_cursor_left(&c), 0);
    assert_null(sw_cursor_take(&c, 1));
    sw_cursor empty = {0};
    assert_null(sw_cursor_take(&empty, 0));
    assert_null(sw_cursor_take(&empty, 1));
}

/* UTF-8 by its other definition (RFC 3629): decode by bit counts, then refuse what has a shorter form, a
 * surrogate, or more than U+10FFFF. Returns the length of the first character, 0 where it is bad. */
static size_t decode(const uint8_t *s, size_t size) {
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (s[0] < 0x80) return 1;
    size_t n = 0;
    while (n < 8 && s[0] & 0x80u >> n) n++;
    if (n < 2 || n > 4 || n > size) return 0;
    uint32_t code = s[0] & 0x7fu >> n;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (s[i] & 0x3fu);
    }
    return code < smallest[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

static void check_text(const uint8_t *s, size_t size) {
    size_t at = 0, n;
    while (at < size && (n = decode(s + at, size - at)) > 0) at += n;
    /* On the heap to the byte, so that AddressSanitizer sees a read past the end. */
    char *exact = malloc(size);
    assert_non_null(exact);
    memcpy(exact, s, size);
    size_t bad = SIZE_MAX;
    assert_int_equal(sw_utf8_valid(exact, size, &bad), at == size);
    assert_int_equal(bad, at == size ? SIZE_MAX : at);
    free(exact);
}

/* All pairs, and all triples and quadruples of the bytes at which the rules change. */
static void utf8_agrees_with_its_other_definition(void **state) {
    (void)state;
    static const uint8_t edges[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                    0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
                                    0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf8, 0xff};
    enum { N = sizeof edges };
    uint8_t s[4];
    for (unsigned i = 0; i < 65536; i++) {
        s[0] = (uint8_t)(i >> 8), s[1] = (uint8_t)i;
        check_text(s, 2);
    }
    for (unsigned i = 0; i < N * N * N * N; i++) {
        for (unsigned k = 0, rest = i; k < 4; k++, rest /= N) s[k] = edges[rest % N];
        if (i < N * N * N) check_text(s, 3);
        check_text(s, 4);
    }
}

static void utf8_names_the_first_bad_byte(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t bad;
    } rows[] = {
        {"ok \xc3\xa4 \xff", 6},         {"cut \xe2\x82", 4},     {"\xed\xa0\x80", 0}, /* a surrogate */
        {"a\xc0\x80", 1} /* overlong */, {"\xf4\x90\x80\x80", 0},                      /* above U+10FFFF */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t bad = SIZE_MAX;
        assert_false(sw_utf8_valid(rows[i].text, strlen(rows[i].text), &bad));
        assert_int_equal(bad, rows[i].bad);
        assert_false(sw_utf8_valid(rows[i].text, strlen(rows[i].text), NULL));
    }
    assert_true(sw_utf8_valid(NULL, 0, NULL));
    assert_true(sw_utf8_valid("a\0b", 3, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
        cmocka_unit_test(alignment_rounds_up_or_refuses),
        cmocka_unit_test(the_cursor_reads_little_endian_and_stops_at_the_end),
        cmocka_unit_test(the_cursor_withstands_hostile_numbers),
        cmocka_unit_test(utf8_agrees_with_its_other_definition),
        cmocka_unit_test(utf8_names_the_first_bad_byte),
    };
    return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
