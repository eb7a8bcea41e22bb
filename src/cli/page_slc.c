/* page_slc.c: the SLC advisor's table: a model's figures, with all it assumes. */
#include <string.h>

#include "cli/page.h"

/* likely, and its bounds behind it. */
static void put_interval(const sw_page *page, sw_figure figure, size_t g, const char *key, const char *unit) {
    FILE *f = page->stream;
    char path[96];
    fputs("<td class=n>", f);
    snprintf(path, sizeof path, "slc_model.graphs.%zu.model.%s", g, key);
    if (!json_is_object(sw_page_find(page, path))) {
        fputs("unknown", f);
        return;
    }
    sw_page_figure(page, figure, "%s.likely", path);
    fprintf(f, "%s<br><span class=soft>", unit);
    sw_page_figure(page, figure, "%s.low", path);
    fputs(" to ", f);
    sw_page_figure(page, figure, "%s.high", path);
    fputs("</span>", f);
}

static void put_graph(const sw_page *page, size_t g) {
    FILE *f = page->stream;
    char path[64];
    snprintf(path, sizeof path, "graphs.%zu.slc_allocator", g);
    fputs("<tr><td>", f);
    sw_page_graph_name(page, g);
    fprintf(f, "<td>%s<td><b>", json_is_true(sw_page_find(page, path)) ? "on" : "off");
    sw_page_text(page, sw_page_string(page, "slc_model.graphs.%zu.verdict", g));
    fputs("</b>", f);
    if (sw_page_number(page, "graphs.%zu.ddr.fill", g) > 0)
        put_interval(page, SW_FIGURE_PERCENT, g, "hit_rate", "");
    else
        fputs("<td class=n>no fills", f);
    put_interval(page, SW_FIGURE_BYTES, g, "saved_bytes", "");
    put_interval(page, SW_FIGURE_DECIMAL, g, "tokens_per_second_off", "");
    put_interval(page, SW_FIGURE_DECIMAL, g, "tokens_per_second_on", "");
    put_interval(page, SW_FIGURE_MILLI, g, "joules_per_token_off", " mJ");
    put_interval(page, SW_FIGURE_MILLI, g, "joules_per_token_on", " mJ");
}

static void put_assumptions(const sw_page *page) {
    FILE *f = page->stream;
    fputs("<details><summary>What the model assumes</summary><div class=wide><table><tr><th>name<th "
          "class=n>value<th class=n>from<th class=n>to<th>unit<th>what it is<th>source",
          f);
    for (size_t i = 0; i < sw_page_count(page, "slc_model.assumptions"); i++) {
        fputs("<tr><td><code>", f);
        sw_page_text(page, sw_page_string(page, "slc_model.assumptions.%zu.name", i));
        fputs("</code><td class=n>", f);
        sw_page_figure(page, SW_FIGURE_NUMBER, "slc_model.assumptions.%zu.value", i);
        fputs("<td class=n>", f);
        sw_page_figure(page, SW_FIGURE_NUMBER, "slc_model.assumptions.%zu.low", i);
        fputs("<td class=n>", f);
        sw_page_figure(page, SW_FIGURE_NUMBER, "slc_model.assumptions.%zu.high", i);
        fputs("<td>", f);
        sw_page_text(page, sw_page_string(page, "slc_model.assumptions.%zu.unit", i));
        fputs("<td>", f);
        sw_page_text(page, sw_page_string(page, "slc_model.assumptions.%zu.what", i));
        fputs("<td>", f);
        sw_page_text(page, sw_page_string(page, "slc_model.assumptions.%zu.source", i));
    }
    fputs("</table></div></details>", f);
}

void sw_page_slc(const sw_page *page) {
    FILE *f = page->stream;
    size_t n = sw_page_count(page, "slc_model.graphs");
    fputs(
        "<h2 id=slc>System-level cache: would it help?</h2><p>Between the HTP and DRAM lies a cache of the "
        "SoC (SLC, LLCC). The compiler's SLC allocator can keep the spill-fill buffer there. Whether that "
        "saves anything is a model's answer, from the figures above: nothing here was measured on a "
        "device.</p><div class=wide><table><tr><th>graph<th>allocator<th>advice<th class=n>fills that hit<th "
        "class=n>DDR saved a call<th class=n>tokens/s by DRAM, off<th class=n>on<th class=n>energy a token, "
        "off<th class=n>on",
        f);
    for (size_t g = 0; g < n; g++) put_graph(page, g);
    fputs("</table></div><ul>", f);
    for (size_t g = 0; g < n; g++) {
        fputs("<li>", f);
        sw_page_graph_name(page, g);
        fputs(": ", f);
        sw_page_text(page, sw_page_string(page, "slc_model.graphs.%zu.reason", g));
    }
    fputs("</ul>", f);
    put_assumptions(page);
}
