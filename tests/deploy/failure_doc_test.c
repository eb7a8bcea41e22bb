/* docs/troubleshooting.md has every row of the list of adb's failures, as it is. */
#include "deploy/failure.h"
#include "doc_table.h"

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

static void put_table(FILE *f) {
    fputs("\n| adb or the device says | it means | next |\n|---|---|---|\n", f);
    for (size_t i = 0; i < sw_n_adb_failures; i++) {
        const sw_adb_failure *row = &sw_adb_failures[i];
        fputs("| ", f);
        put_patterns(f, row->says);
        fprintf(f, " | %s | %s |\n", row->means, row->next);
    }
    fputs("\n", f);
}

static void the_table_is_up_to_date(void **state) {
    (void)state;
    doc_table_check("table of adb's failures", put_table, "src/deploy/failures.inc");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_table_is_up_to_date)};
    return cmocka_run_group_tests_name("failure doc", tests, NULL, NULL);
}
