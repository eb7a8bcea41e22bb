/* spill_fill.c: one wording for compile and load. */
#include "soc/spill_fill.h"

#include <stdio.h>

/* 1,835,008 */
static const char *grouped_digits(uint64_t value, char out[32]) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value), at = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

const char *sw_spill_fill_line(uint64_t bytes, uint32_t n_contexts, const char *largest_graph,
                               char out[SW_SPILL_FILL_LINE_BYTES]) {
    char text[32];
    const char *s = n_contexts == 1 ? "" : "s";
    if (bytes == 0)
        snprintf(out, SW_SPILL_FILL_LINE_BYTES, "spill-fill buffer: none for %u context%s: no graph spills",
                 n_contexts, s);
    else
        snprintf(out, SW_SPILL_FILL_LINE_BYTES, "spill-fill buffer: %s B for %u context%s, largest: %.100s",
                 grouped_digits(bytes, text), n_contexts, s, largest_graph);
    return out;
}
