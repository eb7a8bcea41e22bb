/* tokenizer_test.c: a vocabulary small enough to be worked out by hand, and descriptions that must be
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "small_vocab.h"

static sw_error err;
static small_vocab vocab;

static sw_tokenizer *create(void) {
    sw_tokenizer *t = NULL;
    if (sw_tokenizer_create(&t, &vocab.desc, &err) != SW_OK) fail_msg("%s", err.message);
    return t;
}

static void check(const sw_tokenizer *t, const char *text, size_t size, unsigned flags, const int32_t *wanted,
                  size_t n) {
    sw_ids ids = {0};
    if (sw_tokenizer_encode(t, (sw_span){text, size}, flags, &ids, &err) != SW_OK)
        fail_msg("%s", err.message);
    assert_int_equal(ids.count, n);
    for (size_t i = 0; i < n; i++) assert_int_equal(ids.data[i], wanted[i]);
    sw_ids_free(&ids);
}

#define CHECK(t, text, flags, ...)                                                                           \
    do {                                                                                                     \
        const int32_t wanted_[] = {__VA_ARGS__};                                                             \
        check(t, text, sizeof(text) - 1, flags, wanted_, sizeof wanted_ / sizeof *wanted_);                  \
    } while (0)

static void encodes_by_hand(void **state) {
    (void)state;
    small_vocab_fill(&vocab);
    sw_tokenizer *t = create();
    CHECK(t, "ab a 12<|end|>", SW_ENCODE_SPECIAL, 3, 2, 0, 2, 4, 5, 6);
    CHECK(t, "ba<tool>b", SW_ENCODE_PLAIN, 1, 0, 7, 1); /* user-defined: always */
    CHECK(t, "a<tool><tool>", SW_ENCODE_SPECIAL, 0, 7, 7);
    check(t, "", 0, SW_ENCODE_SPECIAL, NULL, 0);
    check(t, NULL, 0, SW_ENCODE_SPECIAL, NULL, 0);
    /* Bytes without a token are left out: here all but these. */
    CHECK(t, "<|end|>ab", SW_ENCODE_PLAIN, 3);
    CHECK(t, "a\0b", SW_ENCODE_PLAIN, 0, 1);
    CHECK(t, "ab\xff\r\n\xe2\x82", SW_ENCODE_PLAIN, 3);
    sw_tokenizer_destroy(t);
}

static void keeps_what_was_in_the_list(void **state) {
    (void)state;
    small_vocab_fill(&vocab);
    sw_tokenizer *t = create();
    sw_ids ids = {0};
    assert_int_equal(sw_tokenizer_encode(t, sw_span_of("ab"), 0, &ids, &err), SW_OK);
    assert_int_equal(sw_tokenizer_encode(t, sw_span_of("1"), 0, &ids, &err), SW_OK);
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.data[0], 3);
    assert_int_equal(ids.data[1], 4);
    sw_ids_free(&ids);
    sw_tokenizer_destroy(t);
}

/* A template may write bos itself: there must be one, at the start of the session. */
static void puts_one_bos_at_the_start(void **state) {
    (void)state;
    small_vocab_fill(&vocab);
    vocab.desc.bos = 6;
    vocab.desc.add_bos = true;
    sw_tokenizer *t = create();
    CHECK(t, "a", SW_ENCODE_SPECIAL | SW_ENCODE_START, 6, 0);
    CHECK(t, "<|end|>a", SW_ENCODE_SPECIAL | SW_ENCODE_START, 6, 0);
    CHECK(t, "", SW_ENCODE_START, 6);
    CHECK(t, "a", SW_ENCODE_SPECIAL, 0); /* a second turn */
    sw_tokenizer_destroy(t);
    vocab.desc.add_bos = false;
    t = create();
    CHECK(t, "<|end|>a", SW_ENCODE_SPECIAL | SW_ENCODE_START, 6, 0);
    CHECK(t, "a", SW_ENCODE_SPECIAL | SW_ENCODE_START, 0);
    sw_tokenizer_destroy(t);
}

static void decodes(void **state) {
    (void)state;
    small_vocab_fill(&vocab);
    sw_tokenizer *t = create();
    sw_arena arena = SW_ARENA_EMPTY;
    sw_span text;
    const int32_t ids[] = {3, 2, 6, 7, 0};
    assert_int_equal(sw_tokenizer_decode_all(t, ids, 5, true, &arena, &text, &err), SW_OK);
    assert_string_equal(text.data, "ab <|end|><tool>a");
    assert_int_equal(sw_tokenizer_decode_all(t, ids, 5, false, &arena, &text, &err), SW_OK);
    assert_string_equal(text.data, "ab <tool>a");
    assert_int_equal(sw_tokenizer_decode(t, SMALL_TOKENS, true, &text, &err), SW_INVALID_ARGUMENT);
    assert_int_equal(sw_tokenizer_decode(t, INT64_MAX, true, &text, &err), SW_INVALID_ARGUMENT);
    assert_int_equal(sw_tokenizer_find(t, sw_span_of("ab")), 3);
    assert_int_equal(sw_tokenizer_find(t, sw_span_of("abc")), -1);
    assert_int_equal(sw_tokenizer_find(t, sw_span_of("")), -1);
    sw_arena_free(&arena);
    sw_tokenizer_destroy(t);
}

static void ends_are_the_union_of_all_that_is_declared(void **state) {
    (void)state;
    small_vocab_fill(&vocab);
    const int64_t more[] = {4, 0};
    vocab.desc.eos = 1;
    vocab.desc.eot = 2;
    vocab.desc.ends = more;
    vocab.desc.n_ends = 2;
    sw_tokenizer *t = create();
    static const bool wanted[SMALL_TOKENS] = {[0] = true, [1] = true, [2] = true, [4] = true, [6] = true};
    for (int i = 0; i < SMALL_TOKENS; i++) assert_int_equal(sw_tokenizer_is_end(t, i), wanted[i]);
    assert_false(sw_tokenizer_is_end(t, -1));
    assert_false(sw_tokenizer_is_end(t, SMALL_TOKENS));
    sw_tokenizer_destroy(t);
    vocab.types[6] = SW_TOKEN_USER_DEFINED; /* known by its text, but no control token */
    t = create();
    assert_false(sw_tokenizer_is_end(t, 6));
    sw_tokenizer_destroy(t);
}

/* Merges by rank, not from the left; among equal ones the leftmost. */
static void merges_in_order(void **state) {
    (void)state;
    const char *const texts[] = {"a", "b", "c", "ab", "bc", "aa", "aaa"};
    const char *const merges[] = {"b c", "a b", "a a", "aa a"};
    sw_span tokens[7], pairs[4];
    for (int i = 0; i < 7; i++) tokens[i] = sw_span_of(texts[i]);
    for (int i = 0; i < 4; i++) pairs[i] = sw_span_of(merges[i]);
    small_vocab_fill(&vocab);
    vocab.desc.tokens = tokens;
    vocab.desc.token_types = NULL;
    vocab.desc.n_tokens = 7;
    vocab.desc.merges = pairs;
    vocab.desc.n_merges = 4;
    sw_tokenizer *t = create();
    CHECK(t, "abc", 0, 0, 4);
    CHECK(t, "abab", 0, 3, 3);
    CHECK(t, "aaa", 0, 6);
    CHECK(t, "aaaa", 0, 5, 5);
    CHECK(t, "aaaaa", 0, 5, 6);
    sw_tokenizer_destroy(t);

    /* With Llama 3's rule a word that is a token needs no merges, but only as a whole. */
    vocab.desc.pre = sw_span_of("llama-bpe");
    vocab.desc.n_merges = 1;
    t = create();
    CHECK(t, "aaa", 0, 6);
    CHECK(t, "aaaa", 0, 0, 0, 0, 0);
    sw_tokenizer_destroy(t);
}

static void matches_special_tokens_literally_and_longest_first(void **state) {
    (void)state;
    const char *const texts[] = {"a", "b", "ab", ".*(", "<x>", "<x>>", "<", "\xc3\xa9[\\d]"};
    const int32_t types[] = {1, 1, 1, 3, 3, 4, 4, 3};
    sw_span tokens[8];
    for (int i = 0; i < 8; i++) tokens[i] = sw_span_of(texts[i]);
    small_vocab_fill(&vocab);
    vocab.desc.tokens = tokens;
    vocab.desc.token_types = types;
    sw_tokenizer *t = create();
    CHECK(t, "a.*(b", SW_ENCODE_SPECIAL, 0, 3, 1);
    CHECK(t, "<x>><x><<x", SW_ENCODE_SPECIAL, 5, 4, 6, 6);
    CHECK(t, "a<x>>a<x>", SW_ENCODE_PLAIN, 0, 5, 0, 6);
    CHECK(t, "\xc3\xa9[\\d]\xc3\xa9[1]", SW_ENCODE_SPECIAL, 7);
    sw_tokenizer_destroy(t);
}

static void loads_20000_special_tokens_fast(void **state) {
    (void)state;
    enum { COUNT = 20000, TEXT = 1 << 16 };
    sw_span *tokens = calloc(COUNT + 4, sizeof *tokens);
    int32_t *types = calloc(COUNT + 4, sizeof *types);
    char(*texts)[32] = calloc(COUNT, sizeof *texts);
    char *text = malloc(TEXT);
    small_vocab_fill(&vocab);
    for (int i = 0; i < 4; i++) tokens[i] = vocab.tokens[i], types[i] = SW_TOKEN_NORMAL;
    for (int i = 0; i < COUNT; i++) {
        snprintf(texts[i], sizeof texts[i], "<|extra_%d|>", i);
        tokens[i + 4] = sw_span_of(texts[i]);
        types[i + 4] = SW_TOKEN_CONTROL;
    }
    vocab.desc.tokens = tokens;
    vocab.desc.token_types = types;
    vocab.desc.n_tokens = COUNT + 4;
    uint64_t start = sw_now_us();
    sw_tokenizer *t = create();
    CHECK(t, "a<|extra_19999|><|extra_1|>b<|extra_20000|>", SW_ENCODE_SPECIAL, 0, 20003, 5, 1, 0);
    for (size_t i = 0; i < TEXT; i++) text[i] = "<|extra_"[i % 8];
    sw_ids ids = {0};
    assert_int_equal(sw_tokenizer_encode(t, (sw_span){text, TEXT}, SW_ENCODE_SPECIAL, &ids, &err), SW_OK);
    assert_int_equal(ids.count, TEXT / 8); /* of each "<|extra_" only the a */
    uint64_t time_us = sw_now_us() - start;
    print_message("%.1f ms\n", (double)time_us / 1e3);
    assert_true(time_us < 1000000);
    sw_ids_free(&ids);
    sw_tokenizer_destroy(t);
    free(tokens), free(types), free(texts), free(text);
}

static void refuse(sw_code code, const char *part) {
    sw_tokenizer *t = (sw_tokenizer *)&vocab;
    assert_int_equal(sw_tokenizer_create(&t, &vocab.desc, &err), code);
    assert_null(t);
    if (strstr(err.message, part) == NULL) fail_msg("\"%s\" lacks \"%s\"", err.message, part);
    small_vocab_fill(&vocab);
}

static void refuses_bad_descriptions(void **state) {
    (void)state;
    small_vocab_fill(&vocab);
    vocab.desc.source = "x.gguf";
    vocab.desc.model = sw_span_of("llama");
    refuse(SW_UNSUPPORTED, "x.gguf: tokenizer model \"llama\"");
    vocab.desc.pre = sw_span_of("tekken");
    refuse(SW_UNSUPPORTED, "\"tekken\" is not supported, supported: smollm");
    vocab.desc.pre = (sw_span){0};
    refuse(SW_UNSUPPORTED, "pre-tokenizer \"\"");
    vocab.desc.n_tokens = 0;
    refuse(SW_BAD_DATA, "no token");
    vocab.desc.n_tokens = (size_t)INT32_MAX + 1;
    refuse(SW_BAD_DATA, "limit is 2147483647");
    vocab.tokens[3] = (sw_span){"", 0};
    refuse(SW_BAD_DATA, "token 3 has no text");
    vocab.tokens[3] = (sw_span){"a\0b", 3};
    refuse(SW_BAD_DATA, "token 3 has a zero byte");
    vocab.tokens[3] = sw_span_of("a\xff");
    refuse(SW_BAD_DATA, "token 3 is not UTF-8 at byte 1");
    vocab.tokens[3] = sw_span_of("b");
    refuse(SW_BAD_DATA, "token 3 has the text of token 1");
    vocab.types[5] = 0;
    refuse(SW_BAD_DATA, "token 5 has type 0");
    vocab.types[5] = 7;
    refuse(SW_BAD_DATA, "token 5 has type 7");
    vocab.desc.n_merges = 0;
    refuse(SW_BAD_DATA, "no merges");
    const char *const merges[] = {"ab", " ab", "ab ", "a b b", "", " ", "a  b"};
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) {
        vocab.merges[0] = sw_span_of(merges[i]);
        refuse(SW_BAD_DATA, "is not two tokens");
    }
    vocab.merges[0] = sw_span_of("a c");
    refuse(SW_BAD_DATA, "merge 0, \"a c\": \"c\" is not a token");
    vocab.merges[0] = sw_span_of("b a");
    refuse(SW_BAD_DATA, "\"ba\" is not a token");
    vocab.desc.bos = SMALL_TOKENS;
    refuse(SW_BAD_DATA, "the bos token has id 8, the vocabulary has 0 to 7");
    vocab.desc.eos = -2;
    refuse(SW_BAD_DATA, "the eos token has id -2");
    vocab.desc.eot = INT64_MAX;
    refuse(SW_BAD_DATA, "the eot token has id 9223372036854775807");
    vocab.desc.unk = INT64_MIN;
    refuse(SW_BAD_DATA, "the unknown token");
    const int64_t ends[] = {1, -1};
    vocab.desc.ends = ends;
    vocab.desc.n_ends = 2;
    refuse(SW_BAD_DATA, "the end token has id -1");
    vocab.desc.add_bos = true;
    refuse(SW_BAD_DATA, "a bos token is to be added");
    vocab.desc.chat_template = (sw_span){"ab\xc3", 3};
    refuse(SW_BAD_DATA, "the chat template is not UTF-8 at byte 2");
    char *large = calloc(1, 10u << 20);
    memset(large, 'x', 10u << 20);
    vocab.desc.chat_template = (sw_span){large, 10u << 20};
    refuse(SW_BAD_DATA, "the chat template has 10485760 bytes, the limit is 1048576");
    free(large);
}

int main(void) {
    sw_log_set_level(SW_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_by_hand),
        cmocka_unit_test(keeps_what_was_in_the_list),
        cmocka_unit_test(puts_one_bos_at_the_start),
        cmocka_unit_test(decodes),
        cmocka_unit_test(ends_are_the_union_of_all_that_is_declared),
        cmocka_unit_test(merges_in_order),
        cmocka_unit_test(matches_special_tokens_literally_and_longest_first),
        cmocka_unit_test(loads_20000_special_tokens_fast),
        cmocka_unit_test(refuses_bad_descriptions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
