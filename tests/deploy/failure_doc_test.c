/* docs/troubleshooting.md has every row of the list of adb's failures, as it is. With SW_UPDATE_DOCS=1 in the
 * environment the table is written anew instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "deploy/failure.h"

#define DOCUMENT SW_SOURCE_DIR "/docs/troubleshooting.md"
#define BEGIN    "<!-- table of adb's failures: begin -->\n"
#define END      "<!-- table of adb's failures: end -->\n"

static char *read_document(void) {
    FILE *f = fopen(DOCUMENT, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    rewind(f);
    char *text = calloc(1, size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, size, f), size);
    fclose(f);
    return text;
}

/* "a|b*c" as "`a`, `b` ... `c`"; a pattern's own ` becomes '. */
static void put_patterns(FILE *f, const char *says) {
    fputc('`', f);
    for (; *says != '\0'; says++) {
        if (*says == '|')
            fputs("`, `", f);
        else if (*says == '*')
            fputs("` ... `", f);
        else
            fputc(*says == '`' ? '\'' : *says, f);
    }
    fputc('`', f);
}

static char *make_table(void) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    fputs("\n| adb or the device says | it means | next |\n|---|---|---|\n", f);
    for (size_t i = 0; i < sw_n_adb_failures; i++) {
        const sw_adb_failure *row = &sw_adb_failures[i];
        fputs("| ", f);
        put_patterns(f, row->says);
        fprintf(f, " | %s | %s |\n", row->means, row->next);
    }
    fputs("\n", f);
    fclose(f);
    return text;
}

static void the_table_is_up_to_date(void **state) {
    (void)state;
    char *document = read_document(), *table = make_table();
    char *begin = strstr(document, BEGIN), *end = strstr(document, END);
    assert_non_null(begin);
    assert_non_null(end);
    begin += strlen(BEGIN);
    bool same = strlen(table) == (size_t)(end - begin) && memcmp(table, begin, strlen(table)) == 0;
    if (!same && getenv("SW_UPDATE_DOCS") != NULL) {
        FILE *f = fopen(DOCUMENT, "wb");
        assert_non_null(f);
        fprintf(f, "%.*s%s%s", (int)(begin - document), document, table, end);
        assert_int_equal(fclose(f), 0);
        same = true;
    }
    if (!same)
        fail_msg("%s: its table differs from src/deploy/failures.inc; SW_UPDATE_DOCS=1 mends it", DOCUMENT);
    free(document);
    free(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_table_is_up_to_date)};
    return cmocka_run_group_tests_name("failure doc", tests, NULL, NULL);
}
