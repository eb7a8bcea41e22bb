/* page_traffic.c: DDR traffic of a call: bars of what is read and written, and of what it consists. */
#include "cli/page.h"
#include "cli/report.h"

enum { LEFT = 210, WIDTH = 1000, BAR = 20, ROW = 30 };

typedef struct piece {
    const char *class, *what;
    double bytes;
} piece;

/* The compiler tells sums; what they consist of is the plan's, and the rest is tiles read again and what else
 * the plan doesn't know. */
static void put_bar(const sw_page *page, int row, const char *what, double total, double most,
                    const piece *pieces, size_t n) {
    FILE *f = page->stream;
    char text[32];
    double x = LEFT, scale = (WIDTH - LEFT - 110) / most, left = total;
    int y = row * ROW + 4;
    fprintf(f, "<text x=%d y=%d text-anchor=end>", LEFT - 8, y + 15);
    sw_page_text(page, what);
    fputs("</text>", f);
    for (size_t i = 0; i < n; i++) {
        double bytes = pieces[i].bytes < left ? pieces[i].bytes : left;
        if (bytes <= 0) continue;
        fprintf(f, "<rect class=%s x=%.2f y=%d width=%.2f height=%d><title>%s: %s</title></rect>",
                pieces[i].class, x, y, bytes * scale, BAR, pieces[i].what,
                sw_bytes_text((uint64_t)bytes, text));
        x += bytes * scale, left -= bytes;
    }
    if (left > 0)
        fprintf(f,
                "<rect class=elementwise x=%.2f y=%d width=%.2f height=%d><title>the rest: %s</title></rect>",
                x, y, left * scale, BAR, sw_bytes_text((uint64_t)left, text));
    fprintf(f, "<text x=%.2f y=%d>%s</text>", LEFT + total * scale + 8, y + 15,
            sw_bytes_text((uint64_t)total, text));
}

static bool known(const sw_page *page, size_t g) {
    char path[64];
    snprintf(path, sizeof path, "graphs.%zu.ddr.read", g);
    return json_is_integer(sw_page_find(page, path));
}

#define OF(figure) sw_page_number(page, "memory.graphs.%zu." figure, g)

static double read_of(const sw_page *page, size_t g) {
    return known(page, g) ? sw_page_number(page, "graphs.%zu.ddr.read", g)
                          : OF("weight_bytes") + OF("kv_in_bytes") + OF("other_in_bytes");
}

static double write_of(const sw_page *page, size_t g) {
    return known(page, g) ? sw_page_number(page, "graphs.%zu.ddr.write", g)
                          : OF("kv_out_bytes") + OF("other_out_bytes");
}

/* Reads or writes of all graphs: each has a scale of its own, as they differ by orders of magnitude. */
static void put_bars(const sw_page *page, bool reads, size_t n) {
    double most = 1;
    for (size_t g = 0; g < n; g++) {
        double bytes = reads ? read_of(page, g) : write_of(page, g);
        if (bytes > most) most = bytes;
    }
    fprintf(page->stream,
            "<figure><div class=wide><svg class=traffic viewBox=\"0 0 %d %zu\" role=img aria-label=\"%s\">",
            WIDTH, n * ROW + 4, reads ? "Bytes read by each graph" : "Bytes written by each graph");
    for (size_t g = 0; g < n; g++) {
        char what[96], shard[32] = "";
        const piece in[] = {{"linear", "weights", OF("weight_bytes")},
                            {"kv", "KV cache", OF("kv_in_bytes")},
                            {"other", "other inputs", OF("other_in_bytes")},
                            {"spill", "fill", sw_page_number(page, "graphs.%zu.ddr.fill", g)}};
        const piece out[] = {{"spill", "spill", sw_page_number(page, "graphs.%zu.ddr.spill", g)},
                             {"kv", "new KV entries", OF("kv_out_bytes")},
                             {"other", "other outputs", OF("other_out_bytes")}};
        if (sw_page_number(page, "shards") > 1)
            snprintf(shard, sizeof shard, ", shard %.0f", sw_page_number(page, "graphs.%zu.shard", g));
        snprintf(what, sizeof what, "%.40s%s", sw_page_string(page, "graphs.%zu.name", g), shard);
        if (reads)
            put_bar(page, (int)g, what, read_of(page, g), most, in, 4);
        else
            put_bar(page, (int)g, what, write_of(page, g), most, out, 3);
    }
    fputs("</svg></div></figure>", page->stream);
}

void sw_page_traffic(const sw_page *page) {
    static const struct {
        const char *head, *from, *leaf;
    } columns[] = {{"read", "graphs", "ddr.read"},
                   {"write", "graphs", "ddr.write"},
                   {"of these fill", "graphs", "ddr.fill"},
                   {"and spill", "graphs", "ddr.spill"},
                   {"least that must move", "memory.graphs", "least_ddr_bytes"},
                   {"weights", "memory.graphs", "weight_bytes"},
                   {"KV in", "memory.graphs", "kv_in_bytes"},
                   {"KV out", "memory.graphs", "kv_out_bytes"},
                   {"other in", "memory.graphs", "other_in_bytes"},
                   {"other out", "memory.graphs", "other_out_bytes"}};
    enum { COLUMNS = sizeof columns / sizeof *columns };
    FILE *f = page->stream;
    size_t n = sw_page_count(page, "graphs");
    fputs(
        "<h2 id=traffic>Traffic: what a call moves</h2><p>A decoder on the HTP is bound by DRAM: a call "
        "can't "
        "be faster than its bytes. Read, write, spill and fill are what Qualcomm's compiler reports for one "
        "call of the graph",
        f);
    fputs(n > 0 && known(page, 0) ? "" : " (it has not compiled these: the bars show the least)", f);
    fputs("; the parts and the least come from the shapes: every weight, input and output moved once.</p>",
          f);
    fputs(
        "<p><span class=key><i class=linear></i>weights</span><span class=key><i class=kv></i>KV cache</span>"
        "<span class=key><i class=other></i>other inputs and outputs</span><span class=key><i "
        "class=spill></i>"
        "spill and fill</span><span class=key><i class=elementwise></i>the rest: padding of tiles, and what "
        "is moved again</span></p>"
        "<h3>Read</h3>",
        f);
    put_bars(page, true, n);
    fputs("<h3>Written, at another scale</h3>", f);
    put_bars(page, false, n);
    fputs("<div class=wide><table><tr><th>a call of", f);
    for (size_t c = 0; c < COLUMNS; c++) fprintf(f, "<th class=n>%s", columns[c].head);
    for (size_t g = 0; g < n; g++) {
        fputs("<tr><td>", f);
        sw_page_graph_name(page, g);
        for (size_t c = 0; c < COLUMNS; c++) {
            fputs("<td class=n>", f);
            sw_page_figure(page, SW_FIGURE_BYTES, "%s.%zu.%s", columns[c].from, g, columns[c].leaf);
        }
    }
    fputs("</table></div>", f);
}
