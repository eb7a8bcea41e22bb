/* sha256_test.c: the examples that NIST publishes for FIPS 180-4, cut in all ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/sha256.h"

static const struct {
    const char *text, *hex;
} vectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrs"
     "t"
     "nopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};
enum { VECTOR_COUNT = sizeof vectors / sizeof *vectors };

static void the_published_examples(void **state) {
    (void)state;
    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        size_t n = strlen(vectors[i].text);
        for (size_t cut = 0; cut <= n; cut++) { /* in two parts */
            sw_sha256 s;
            char hex[SW_SHA256_HEX_BYTES];
            sw_sha256_init(&s);
            sw_sha256_update(&s, vectors[i].text, cut);
            sw_sha256_update(&s, vectors[i].text + cut, n - cut);
            sw_sha256_final(&s, hex);
            assert_string_equal(hex, vectors[i].hex);
        }
    }
}

static void one_million_times_a(void **state) {
    (void)state;
    char a[1009]; /* no divisor of anything here: all fill levels of the block occur */
    memset(a, 'a', sizeof a);
    for (size_t part = 1; part <= sizeof a; part = part * 3 + 1) {
        sw_sha256 s;
        sw_sha256_init(&s);
        for (size_t left = 1000000; left > 0;) {
            size_t n = part < left ? part : left;
            sw_sha256_update(&s, a, n);
            left -= n;
        }
        char hex[SW_SHA256_HEX_BYTES];
        sw_sha256_final(&s, hex);
        assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}

/* The instructions and plain C, on the same blocks: the rest of the tests runs by one of them. */
static void the_instructions_are_the_standards(void **state) {
    (void)state;
    static char text[64 * 40];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * i * 31 + i / 7);
    char hex[2][SW_SHA256_HEX_BYTES];
    for (int i = 0; i < 2; i++) {
        sw_sha256 s;
        sw_sha256_init(&s);
        for (size_t at = 0; at < sizeof text;) {
            size_t n = i == 0 ? sizeof text : at + 61 < sizeof text ? 61 : sizeof text - at;
            sw_sha256_update(&s, text + at, n); /* all blocks at once, or each through the buffer */
            at += n;
        }
        sw_sha256_final(&s, hex[i]);
    }
    assert_string_equal(hex[0], hex[1]);
    assert_string_equal(hex[0], "292be542bb6dddbbcdf841121b02b0a90ce271b9231c0ec78cb870befd39025f");
}

static void nothing_may_be_added(void **state) {
    (void)state;
    sw_sha256 s;
    char hex[SW_SHA256_HEX_BYTES];
    sw_sha256_init(&s);
    sw_sha256_update(&s, NULL, 0);
    sw_sha256_final(&s, hex);
    assert_string_equal(hex, vectors[0].hex);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_examples),
        cmocka_unit_test(one_million_times_a),
        cmocka_unit_test(the_instructions_are_the_standards),
        cmocka_unit_test(nothing_may_be_added),
    };
    return cmocka_run_group_tests_name("sha256", tests, NULL, NULL);
}
