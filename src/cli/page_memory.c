/* page_memory.c: the memory plan as a lifetime chart: ops to the right, offset in one buffer upwards, a block
 * for each tensor from the op that makes it to the last that reads it, and a line where VTCM ends. */
#include <string.h>

#include "cli/page.h"
#include "cli/report.h"

enum { LEFT = 66, WIDTH = 1000, HEIGHT = 250, TOP = 34, BOTTOM = 30 };

/* One chart: ops [first, last], bytes [0, most]. */
typedef struct chart {
    const sw_page *page;
    size_t graph;
    double first, last, most;
    bool names;
} chart;

static double x_of(const chart *c, double op) {
    return LEFT + (op - c->first) / (c->last + 1 - c->first) * (WIDTH - LEFT - 10);
}

static double y_of(const chart *c, double bytes) {
    return TOP + HEIGHT - bytes / c->most * HEIGHT;
}

static void put_axes(const chart *c) {
    FILE *f = c->page->stream;
    char text[32];
    fprintf(f, "<rect class=frame x=%d y=%d width=%d height=%d />", LEFT, TOP, WIDTH - LEFT - 10, HEIGHT);
    for (int i = 0; i <= 4; i++) {
        double bytes = c->most * i / 4;
        fprintf(f,
                "<line class=grid x1=%d x2=%d y1=%.1f y2=%.1f /><text class=axis x=%d y=%.1f "
                "text-anchor=end>%s</text>",
                LEFT, WIDTH - 10, y_of(c, bytes), y_of(c, bytes), LEFT - 6, y_of(c, bytes) + 4,
                sw_bytes_text((uint64_t)bytes, text));
    }
    for (int i = 0; i <= 5; i++) {
        double op = c->first + (c->last - c->first) * i / 5;
        fprintf(f, "<text class=axis x=%.1f y=%d text-anchor=%s>%s%.0f</text>", x_of(c, op),
                TOP + HEIGHT + 18,
                i == 0   ? "start"
                : i == 5 ? "end"
                         : "middle",
                i == 0 ? "op " : "", op);
    }
}

/* Where VTCM ends; a chart of blocks far below it has the line on top, behind a break of the axis. */
static void put_limit(const chart *c, double vtcm) {
    FILE *f = c->page->stream;
    char text[32];
    if (vtcm <= c->most) {
        fprintf(f,
                "<line class=limit x1=%d x2=%d y1=%.1f y2=%.1f /><text class=limit-text x=%d y=%.1f "
                ">VTCM ends: %.4g MB</text>",
                LEFT, WIDTH - 10, y_of(c, vtcm), y_of(c, vtcm), LEFT + 6, y_of(c, vtcm) - 5, vtcm / 1048576);
        return;
    }
    fprintf(
        f,
        "<line class=limit x1=%d x2=%d y1=12 y2=12 /><path class=grid fill=none d=\"M%d %d l4 -5 l8 10 l4 "
        "-5\" /><text class=limit-text x=%d y=27>VTCM ends: %.4g MB, %.1f times the "
        "top of this chart (%s)</text>",
        LEFT, WIDTH - 10, LEFT - 8, TOP - 11, LEFT + 6, vtcm / 1048576, vtcm / c->most,
        sw_bytes_text((uint64_t)c->most, text));
}

static void put_block(const chart *c, const json_t *b, double vtcm) {
    FILE *f = c->page->stream;
    double first = json_number_value(json_object_get(b, "first_op"));
    double last = json_number_value(json_object_get(b, "last_op"));
    double offset = json_number_value(json_object_get(b, "offset"));
    double bytes = json_number_value(json_object_get(b, "bytes"));
    if (last < c->first || first > c->last) return;
    const char *type = json_string_value(json_object_get(b, "op_type"));
    const char *tensor = json_string_value(json_object_get(b, "tensor"));
    double x = x_of(c, first > c->first ? first : c->first);
    double width = x_of(c, (last < c->last ? last : c->last) + 1) - x;
    double y = y_of(c, offset + bytes), height = y_of(c, offset) - y;
    char text[32];
    fprintf(f, "<rect class=\"block %s\" x=%.2f y=%.2f width=%.2f height=%.2f><title>",
            offset + bytes > vtcm ? "spill" : sw_page_op_class(type), x, y, width,
            height > 0.5 ? height : 0.5);
    sw_page_text(c->page, tensor);
    fprintf(f, " (%s): %s at offset %.0f, ops %.0f to %.0f</title></rect>", type,
            sw_bytes_text((uint64_t)bytes, text), offset, first, last);
    const char *dot = strchr(tensor, '.');
    const char *name = dot != NULL ? dot + 1 : tensor;
    if (c->names && height >= 13 && width > 6.6 * (double)strlen(name) + 8) {
        fprintf(f, "<text class=in x=%.1f y=%.1f>", x + 4, y + height / 2 + 4);
        sw_page_text(c->page, name);
        fputs("</text>", f);
    }
}

static void put_chart(const chart *c, double vtcm, const char *label) {
    const json_t *blocks, *b;
    char path[64];
    size_t i;
    snprintf(path, sizeof path, "memory.graphs.%zu.blocks", c->graph);
    blocks = sw_page_find(c->page, path);
    fprintf(c->page->stream,
            "<figure><div class=wide><svg viewBox=\"0 0 %d %d\" role=img class=lifetimes aria-label=\"%s\">",
            WIDTH, TOP + HEIGHT + BOTTOM, label);
    put_axes(c);
    json_array_foreach(blocks, i, b) put_block(c, b, vtcm);
    put_limit(c, vtcm);
    fputs("</svg></div>", c->page->stream);
}

/* First and last op of the layer in which most is alive; where that is in none, of the first. */
static void find_layer(const sw_page *page, size_t graph, double *first, double *last) {
    const char *op = sw_page_string(page, "memory.graphs.%zu.activation_op", graph);
    const char *dot = strncmp(op, "layer_", 6) == 0 ? strchr(op, '.') : NULL;
    const char *prefix = dot != NULL ? op : "layer_0.";
    char path[64];
    const json_t *b;
    size_t i, n = dot != NULL ? (size_t)(dot - op) + 1 : strlen(prefix);
    snprintf(path, sizeof path, "memory.graphs.%zu.blocks", graph);
    const json_t *blocks = sw_page_find(page, path);
    *first = -1;
    json_array_foreach(blocks, i, b) {
        if (strncmp(json_string_value(json_object_get(b, "op")), prefix, n) != 0) continue;
        double at = json_number_value(json_object_get(b, "first_op"));
        if (*first < 0 || at < *first) *first = at;
        if (at > *last) *last = at;
    }
}

static void put_words(const sw_page *page, size_t g) {
    FILE *f = page->stream;
    double over = sw_page_number(page, "memory.graphs.%zu.blocks_over_vtcm", g);
    double spill_fill = sw_page_number(page, "graphs.%zu.spill_fill_bytes", g);
    fputs("<p>At most ", f);
    sw_page_figure(page, SW_FIGURE_BYTES, "memory.graphs.%zu.activation_bytes", g);
    fputs(" are alive at once, at op <code>", f);
    sw_page_text(page, sw_page_string(page, "memory.graphs.%zu.activation_op", g));
    fputs("</code>; ", f);
    sw_page_figure(page, SW_FIGURE_COUNT, "memory.graphs.%zu.n_blocks", g);
    fputs(" blocks of ", f);
    sw_page_figure(page, SW_FIGURE_COUNT, "memory.graphs.%zu.n_ops", g);
    fputs(" ops fit into a buffer of ", f);
    sw_page_figure(page, SW_FIGURE_BYTES, "memory.graphs.%zu.placed_bytes", g);
    fputs(", of ", f);
    sw_page_figure(page, SW_FIGURE_MIB, "memory.graphs.%zu.vtcm_bytes", g);
    fputs(" of VTCM.</p>", f);
    if (over > 0) {
        fputs("<p class=warn>", f);
        sw_page_figure(page, SW_FIGURE_COUNT, "memory.graphs.%zu.blocks_over_vtcm", g);
        fputs(" blocks of ", f);
        sw_page_figure(page, SW_FIGURE_BYTES, "memory.graphs.%zu.bytes_over_vtcm", g);
        fputs(" in all lie above the line (red): as whole tensors they would have to spill.</p>", f);
    }
    if (sw_page_string(page, "qnn_build_id")[0] == '\0') return;
    fprintf(f, "<p class=%s>Qualcomm's compiler: ", spill_fill > 0 ? "warn" : "good");
    if (spill_fill > 0) {
        fputs("spills ", f);
        sw_page_figure(page, SW_FIGURE_BYTES, "graphs.%zu.ddr.spill", g);
        fputs(" and fills ", f);
        sw_page_figure(page, SW_FIGURE_BYTES, "graphs.%zu.ddr.fill", g);
        fputs(" a call, through a buffer of ", f);
        sw_page_figure(page, SW_FIGURE_BYTES, "graphs.%zu.spill_fill_bytes", g);
        fputs(" in DRAM.</p>", f);
    } else {
        fputs("no spill-fill buffer (", f);
        sw_page_figure(page, SW_FIGURE_BYTES, "graphs.%zu.spill_fill_bytes", g);
        fputs("): nothing leaves VTCM only to come back.</p>", f);
    }
}

static void put_graph(const sw_page *page, size_t g) {
    double placed = sw_page_number(page, "memory.graphs.%zu.placed_bytes", g);
    double vtcm = sw_page_number(page, "memory.graphs.%zu.vtcm_bytes", g), first = -1, last = 0;
    fputs("<h3>", page->stream);
    sw_page_graph_name(page, g);
    fputs("</h3>", page->stream);
    put_words(page, g);
    if (placed <= 0) return;
    chart c = {.page = page,
               .graph = g,
               .last = sw_page_number(page, "memory.graphs.%zu.n_ops", g) - 1,
               .most = vtcm < 2 * placed && vtcm > placed ? 1.05 * vtcm : 1.05 * placed};
    put_chart(&c, vtcm, "Offset over time of every activation");
    fputs("<figcaption>All ops. A block is a tensor; its colour says what makes it. Point at one for its "
          "name.</figcaption></figure>",
          page->stream);
    find_layer(page, g, &first, &last);
    if (first < 0 || last <= first) return;
    c.first = first, c.last = last, c.names = true;
    put_chart(&c, vtcm, "The same for one layer");
    fputs("<figcaption>One layer of them, with names.</figcaption></figure>", page->stream);
}

void sw_page_memory(const sw_page *page) {
    FILE *f = page->stream;
    fputs(
        "<h2 id=memory>Memory: what is alive when</h2><p>The HTP computes in VTCM, memory on the chip; what "
        "doesn't fit there goes out to DRAM and back (spill and fill). The charts place every activation in "
        "one buffer: from left to right the ops in their order, upwards the offset in the buffer. It is "
        "Spillway's own placement of whole tensors, best fit by size. Qualcomm's compiler cuts tensors into "
        "tiles and tells no placement, but it does tell what it spills: that stands below each name.</p>"
        "<p><span class=key><i class=linear></i>linear layers</span><span class=key><i "
        "class=attention></i>attention and rotary embedding</span><span class=key><i class=norm></i>"
        "norms</span><span class=key><i class=elementwise></i>elementwise</span><span class=key><i "
        "class=movement></i>movement and converts</span><span class=key><i class=spill></i>beyond VTCM</span>"
        "</p>",
        f);
    for (size_t g = 0; g < sw_page_count(page, "graphs"); g++) put_graph(page, g);
}
