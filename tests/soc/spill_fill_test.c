/* The line about the spill-fill buffer: digits in groups, one context or several, none needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "soc/spill_fill.h"

static void lines(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        uint32_t n;
        const char *label, *line;
    } rows[] = {
        {1835008, 4, "shard 1 prefill_forward",
         "spill-fill buffer: 1,835,008 B for 4 contexts, largest: shard 1 prefill_forward"},
        {999, 1, "kv_forward", "spill-fill buffer: 999 B for 1 context, largest: kv_forward"},
        {1000, 2, "shard 0 kv_forward",
         "spill-fill buffer: 1,000 B for 2 contexts, largest: shard 0 kv_forward"},
        {UINT64_MAX, 1, "x", "spill-fill buffer: 18,446,744,073,709,551,615 B for 1 context, largest: x"},
        {0, 1, "", "spill-fill buffer: none for 1 context: no graph spills"},
        {0, 3, "", "spill-fill buffer: none for 3 contexts: no graph spills"},
    };
    char out[SW_SPILL_FILL_LINE_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(sw_spill_fill_line(rows[i].bytes, rows[i].n, rows[i].label, out), rows[i].line);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
