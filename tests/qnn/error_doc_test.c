/* docs/troubleshooting.md has every row of the list of QNN's errors, as it is. */
#include "doc_table.h"
#include "qnn/error.h"

static void put_table(FILE *f) {
    fputs("\n| number | name | likely | next |\n|---|---|---|---|\n", f);
    for (uint32_t number = 1; number < 65536; number++) {
        const sw_qnn_error_info *e = sw_qnn_error_find(number);
        if (e != NULL) fprintf(f, "| %u | `%s` | %s | %s |\n", number, e->name, e->reason, e->next);
    }
    fputs("\n", f);
}

static void the_table_is_up_to_date(void **state) {
    (void)state;
    doc_table_check("table of QNN's errors", put_table, "src/qnn/errors.inc");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_table_is_up_to_date)};
    return cmocka_run_group_tests_name("error doc", tests, NULL, NULL);
}
