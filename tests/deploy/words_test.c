/* Quoting against the shell itself: what a word means there is the text that went in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "deploy/words.h"

static void shell_gives_back(const char *text) {
    sw_arena arena = SW_ARENA_EMPTY;
    char *word = sw_shell_word(&arena, text);
    assert_non_null(word);
    char *command = sw_arena_printf(&arena, "printf %%s %s", word);
    FILE *shell = popen(command, "r");
    char got[4096];
    size_t n = fread(got, 1, sizeof got - 1, shell);
    got[n] = '\0';
    assert_int_equal(pclose(shell), 0);
    assert_string_equal(got, text);
    sw_arena_free(&arena);
}

static void every_byte(void **state) {
    (void)state;
    char text[256] = "";
    for (int i = 1; i < 256; i++) text[i - 1] = (char)i;
    text[255] = '\0';
    shell_gives_back(text);
}

static void awkward_texts(void **state) {
    (void)state;
    static const char *const texts[] = {"",           "'",
                                        "''",         "a'b'c",
                                        "$HOME",      "`id`",
                                        "$(id)",      "a  b",
                                        "\\",         "\\\\'",
                                        "\n",         "\t ",
                                        "-n",         "!!",
                                        "\"x\"",      "* ? [a]",
                                        "~",          "a;b|c&d>e",
                                        "#x",         "{a,b}",
                                        "=",          "\xF0\x9F\xA6\x99 llama",
                                        "C:\\a b\\c", "\r\nend\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) shell_gives_back(texts[i]);
}

static void plain_words_stay(void **state) {
    (void)state;
    sw_arena arena = SW_ARENA_EMPTY;
    assert_string_equal(sw_shell_word(&arena, "/data/local/tmp/spillway"), "/data/local/tmp/spillway");
    assert_string_equal(sw_shell_word(&arena, "0.8"), "0.8");
    assert_string_equal(sw_shell_word(&arena, "a b"), "'a b'");
    sw_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_byte), cmocka_unit_test(awkward_texts),
                                       cmocka_unit_test(plain_words_stay)};
    return cmocka_run_group_tests_name("words", tests, NULL, NULL);
}
