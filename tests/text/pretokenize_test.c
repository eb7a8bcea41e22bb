/* pretokenize_test.c: words as Hugging Face's tokenizers cuts them (tests/data/pretokenize.json), and bytes
 * that are no UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "text/pretokenize.h"
#include "text/tokenizer.h"

typedef struct words {
    const json_t *wanted;
    size_t n;
    const char *rule, *text;
} words;

static sw_code check_word(void *context, sw_span word, sw_error *err) {
    (void)err;
    words *w = context;
    const json_t *wanted = json_array_get(w->wanted, w->n++);
    if (wanted == NULL || json_string_length(wanted) != word.size ||
        memcmp(json_string_value(wanted), word.data, word.size) != 0)
        fail_msg("%s on \"%s\": word %zu is \"%.*s\", wanted \"%s\"", w->rule, w->text, w->n - 1,
                 (int)word.size, word.data, wanted != NULL ? json_string_value(wanted) : "none");
    return SW_OK;
}

static sw_pretokenizer *create(const char *name) {
    sw_error err;
    sw_pretokenizer *p = NULL;
    const sw_pretokenizer_rule *rule = sw_pretokenizer_rule_find(sw_span_of(name));
    assert_non_null(rule);
    if (sw_pretokenizer_create(&p, rule, &err) != SW_OK) fail_msg("%s", err.message);
    return p;
}

static void cuts_as_the_original_tokenizers(void **state) {
    (void)state;
    json_error_t e;
    json_t *cases = json_load_file(SW_TEST_DATA "/pretokenize.json", JSON_ALLOW_NUL, &e);
    assert_non_null(cases);
    assert_true(json_array_size(cases) == 28);
    for (const sw_pretokenizer_rule *rule = sw_pretokenizer_rules(); rule->name != NULL; rule++) {
        sw_pretokenizer *p = create(rule->name);
        for (size_t i = 0; i < json_array_size(cases); i++) {
            const json_t *c = json_array_get(cases, i), *text = json_object_get(c, "text");
            words w = {.wanted = json_object_get(c, rule->name),
                       .rule = rule->name,
                       .text = json_string_value(text)};
            if (strcmp(rule->name, "qwen2") == 0 && json_object_get(c, "composed") != NULL)
                w.wanted = json_object_get(c, "composed");
            sw_error err;
            sw_span span = {json_string_value(text), json_string_length(text)};
            if (sw_pretokenize(p, span, check_word, &w, &err) != SW_OK) fail_msg("%s", err.message);
            assert_int_equal(w.n, json_array_size(w.wanted));
        }
        sw_pretokenizer_destroy(p);
    }
    json_decref(cases);
}

static void bytes_that_are_no_text_are_words_of_their_own(void **state) {
    (void)state;
    static const char text[] = "ab\xff\xfe c\xc3 d\xed\xa0\x80";
    json_t *wanted = json_array();
    const char *const parts[] = {"ab", "\xff\xfe", " c", "\xc3", " d", "\xed\xa0\x80"};
    for (size_t i = 0; i < 6; i++) json_array_append_new(wanted, json_string_nocheck(parts[i]));
    const char *const names[] = {"smollm", "gpt-2", "llama-bpe", "qwen2"};
    for (size_t i = 0; i < 4; i++) {
        sw_pretokenizer *p = create(names[i]);
        words w = {.wanted = wanted, .rule = names[i], .text = "bytes"};
        sw_error err;
        assert_int_equal(sw_pretokenize(p, (sw_span){text, sizeof text - 1}, check_word, &w, &err), SW_OK);
        assert_int_equal(w.n, 6);
        sw_pretokenizer_destroy(p);
    }
    json_decref(wanted);
}

static void a_bad_regex_is_told_with_its_place(void **state) {
    (void)state;
    sw_error err;
    assert_int_equal(sw_regex_check(sw_span_of("ab+"), &err), SW_OK);
    assert_int_equal(sw_regex_check(sw_span_of("a(?<"), &err), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "at byte 4"));
}

static void names_are_those_of_the_rules(void **state) {
    (void)state;
    for (const sw_pretokenizer_rule *rule = sw_pretokenizer_rules(); rule->name != NULL; rule++)
        assert_non_null(strstr(sw_pretokenizer_names(), rule->name));
    assert_null(sw_pretokenizer_rule_find(sw_span_of("gpt-")));
    assert_null(sw_pretokenizer_rule_find(sw_span_of("")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_as_the_original_tokenizers),
        cmocka_unit_test(bytes_that_are_no_text_are_words_of_their_own),
        cmocka_unit_test(a_bad_regex_is_told_with_its_place),
        cmocka_unit_test(names_are_those_of_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
