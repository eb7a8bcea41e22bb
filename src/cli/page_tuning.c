/* page_tuning.c: what compile --tune tried, and what it took; nothing where it wasn't asked for. */
#include "cli/page.h"

static void put_taken(const sw_page *page, const char *list, size_t i) {
    char path[64];
    snprintf(path, sizeof path, "tuning.%s.%zu.chosen", list, i);
    fputs(json_is_true(sw_page_find(page, path)) ? "<td><b>taken</b>" : "<td>", page->stream);
}

static void put_levels(const sw_page *page) {
    FILE *f = page->stream;
    fputs("<div class=wide><table><tr><th>optimization level<th class=n>bytes a token<th>", f);
    for (size_t i = 0; i < sw_page_count(page, "tuning.levels"); i++) {
        fputs("<tr><td>O", f);
        sw_page_figure(page, SW_FIGURE_COUNT, "tuning.levels.%zu.opt_level", i);
        fputs("<td class=n>", f);
        sw_page_figure(page, SW_FIGURE_BYTES, "tuning.levels.%zu.bytes_a_token", i);
        put_taken(page, "levels", i);
    }
    fputs("</table></div>", f);
}

static void put_tried(const sw_page *page) {
    static const struct {
        const char *head, *leaf;
    } columns[] = {{"read", "read"},
                   {"write", "write"},
                   {"of these fill", "fill"},
                   {"and spill", "spill"},
                   {"spill-fill buffer", "spill_fill_bytes"}};
    enum { COLUMNS = sizeof columns / sizeof *columns };
    FILE *f = page->stream;
    size_t n = sw_page_count(page, "tuning.tried");
    fprintf(f, "<details><summary>All %zu that were tried</summary><div class=wide><table><tr><th>a call of",
            n);
    fputs("<th>level<th>attention", f);
    for (size_t c = 0; c < COLUMNS; c++) fprintf(f, "<th class=n>%s", columns[c].head);
    fputs("<th>", f);
    for (size_t i = 0; i < n; i++) {
        fputs("<tr><td>", f);
        sw_page_text(page, sw_page_string(page, "tuning.tried.%zu.graph", i));
        fputs("<td>O", f);
        sw_page_figure(page, SW_FIGURE_COUNT, "tuning.tried.%zu.opt_level", i);
        fputs("<td>", f);
        sw_page_text(page, sw_page_string(page, "tuning.tried.%zu.attention", i));
        for (size_t c = 0; c < COLUMNS; c++) {
            fputs("<td class=n>", f);
            sw_page_figure(page, SW_FIGURE_BYTES, "tuning.tried.%zu.%s", i, columns[c].leaf);
        }
        put_taken(page, "tried", i);
    }
    fputs("</table></div></details>", f);
}

void sw_page_tuning(const sw_page *page) {
    if (sw_page_find(page, "tuning") == NULL) return;
    fputs("<h3>What <code>--tune</code> tried</h3><p>Each graph alone, at each level and in each form, by "
          "Qualcomm's compiler. A token is read once and answered once: bytes a token are those of each "
          "graph's best form, divided by the tokens of its call. The level of the fewest bytes is taken; "
          "these are bytes, not time.</p>",
          page->stream);
    put_levels(page);
    put_tried(page);
}
