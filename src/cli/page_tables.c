/* page_tables.c: op counts, layers with their weights and encodings, and the bundle's files. */
#include <string.h>

#include "cli/page.h"
#include "cli/report.h"

enum { LEFT = 180, WIDTH = 1000, ROW = 22 };

/* ---- Ops ---- */

static void put_op_bars(const sw_page *page, size_t g) {
    FILE *f = page->stream;
    char path[64];
    const char *type;
    json_t *count;
    double most = 1;
    int row = 0;
    snprintf(path, sizeof path, "graphs.%zu.ops", g);
    json_t *ops = (json_t *)(uintptr_t)sw_page_find(page, path); /* jansson's loop wants it so; only read */
    json_object_foreach(ops, type, count) if (json_number_value(count) > most) most =
        json_number_value(count);
    fprintf(
        f,
        "<figure><div class=wide><svg class=ops viewBox=\"0 0 %d %zu\" role=img aria-label=\"Ops by type\">",
        WIDTH, json_object_size(ops) * ROW + 4);
    json_object_foreach(ops, type, count) {
        double n = json_number_value(count), width = n / most * (WIDTH - LEFT - 70);
        int y = row++ * ROW + 3;
        fprintf(f,
                "<text x=%d y=%d text-anchor=end>%s</text><rect class=%s x=%d y=%d width=%.2f height=%d />"
                "<text x=%.2f y=%d>%.0f</text>",
                LEFT - 8, y + 12, type, sw_page_op_class(type), LEFT, y, width, ROW - 6, LEFT + width + 7,
                y + 12, n);
    }
    fputs("</svg></div></figure>", f);
}

void sw_page_ops(const sw_page *page) {
    FILE *f = page->stream;
    fputs(
        "<h2 id=ops>Ops: what the graphs consist of</h2><p>By QNN's names. A Convert stands where tensors of "
        "different types meet; Transposes and Reshapes move data and compute nothing.</p>",
        f);
    for (size_t g = 0; g < sw_page_count(page, "graphs"); g++) {
        fputs("<h3>", f);
        sw_page_graph_name(page, g);
        fputs("</h3><p>", f);
        sw_page_figure(page, SW_FIGURE_COUNT, "memory.graphs.%zu.n_ops", g);
        fputs(" ops, ", f);
        sw_page_figure(page, SW_FIGURE_COUNT, "graphs.%zu.ar_len", g);
        fputs(" tokens a call, attention ", f);
        sw_page_text(page, sw_page_string(page, "graphs.%zu.attention", g));
        if (sw_page_number(page, "graphs.%zu.head_pieces", g) > 1) {
            fputs(", head in ", f);
            sw_page_figure(page, SW_FIGURE_COUNT, "graphs.%zu.head_pieces", g);
            fputs(" pieces", f);
        }
        fputs("; Qualcomm's finalize took ", f);
        sw_page_figure(page, SW_FIGURE_DECIMAL, "graphs.%zu.finalize_seconds", g);
        fputs(" s.</p>", f);
        put_op_bars(page, g);
    }
}

/* ---- Layers ---- */

static void put_layer_bars(const sw_page *page, size_t n) {
    FILE *f = page->stream;
    double most = 1, width = (WIDTH - 80.0) / (double)n;
    enum { TALL = 140 };
    char text[32];
    for (size_t i = 0; i < n; i++) {
        double bytes = sw_page_number(page, "layers.%zu.weight_bytes", i);
        if (bytes > most) most = bytes;
    }
    fprintf(f,
            "<figure><div class=wide><svg class=layers viewBox=\"0 0 %d %d\" role=img aria-label=\"Bytes of "
            "weights by layer\"><line class=grid x1=70 x2=%d y1=%d y2=%d /><text class=axis x=64 y=16 "
            "text-anchor=end>%s</text><text class=axis x=64 y=%d text-anchor=end>0</text>",
            WIDTH, TALL + 40, WIDTH - 10, TALL + 12, TALL + 12, sw_bytes_text((uint64_t)most, text),
            TALL + 14);
    for (size_t i = 0; i < n; i++) {
        double bytes = sw_page_number(page, "layers.%zu.weight_bytes", i), tall = bytes / most * TALL;
        bool outside = i + 1 == n;
        double x = 72 + width * (double)i;
        fprintf(f, "<rect class=%s x=%.2f y=%.2f width=%.2f height=%.2f><title>",
                outside ? "other" : "linear", x, 12 + TALL - tall, width * 0.82, tall);
        if (outside)
            fputs("outside of the layers", f);
        else
            fprintf(f, "layer %zu", i);
        fprintf(f, ": %s</title></rect>", sw_bytes_text((uint64_t)bytes, text));
        if (outside || n <= 12 || i % 5 == 0)
            fprintf(f, "<text class=axis x=%.2f y=%d text-anchor=middle>", x + width * 0.41, TALL + 30);
        if (outside)
            fputs("rest</text>", f);
        else if (n <= 12 || i % 5 == 0)
            fprintf(f, "%zu</text>", i);
    }
    fputs(
        "</svg></div><figcaption>Bytes of weights by layer, as a context binary stores them; \"rest\" is the "
        "head, the last norm and what else belongs to no layer.</figcaption></figure>",
        f);
}

static void put_weights(const sw_page *page, size_t layer) {
    FILE *f = page->stream;
    size_t n = sw_page_count(page, "layers.%zu.weights", layer);
    fputs("<div class=wide><table><tr><th>weight<th>shape<th>type<th>form<th class=n>bytes<th class=n>least "
          "scale<th class=n>greatest scale",
          f);
    for (size_t i = 0; i < n; i++) {
        fputs("<tr><td><code>", f);
        sw_page_text(page, sw_page_string(page, "layers.%zu.weights.%zu.name", layer, i));
        fputs("</code><td>", f);
        size_t rank = sw_page_count(page, "layers.%zu.weights.%zu.dims", layer, i);
        for (size_t k = 0; k < rank; k++) {
            if (k > 0) fputs(" &times; ", f);
            sw_page_figure(page, SW_FIGURE_COUNT, "layers.%zu.weights.%zu.dims.%zu", layer, i, k);
        }
        fputs("<td>", f);
        sw_page_text(page, sw_page_string(page, "layers.%zu.weights.%zu.type", layer, i));
        fputs("<td>", f);
        sw_page_text(page, sw_page_string(page, "layers.%zu.weights.%zu.form", layer, i));
        fputs("<td class=n>", f);
        sw_page_figure(page, SW_FIGURE_BYTES, "layers.%zu.weights.%zu.bytes", layer, i);
        fputs("<td class=n>", f);
        const char *const ends[] = {"least_scale", "greatest_scale"};
        for (size_t k = 0; k < 2; k++) {
            char path[96];
            snprintf(path, sizeof path, "layers.%zu.weights.%zu.%s", layer, i, ends[k]);
            if (json_is_number(sw_page_find(page, path)))
                sw_page_figure(page, SW_FIGURE_NUMBER, "%s", path);
            else
                fputs("none", f);
            if (k == 0) fputs("<td class=n>", f);
        }
    }
    fputs("</table></div>", f);
}

static void put_activations(const sw_page *page, size_t layer) {
    FILE *f = page->stream;
    size_t n = sw_page_count(page, "layers.%zu.activations", layer);
    if (n == 0) return;
    fputs("<div class=wide><table><tr><th>activation<th>type<th class=n>scale<th class=n>offset<th "
          "class=n>from<th "
          "class=n>to",
          f);
    for (size_t i = 0; i < n; i++) {
        char path[96];
        fputs("<tr><td><code>", f);
        sw_page_text(page, sw_page_string(page, "layers.%zu.activations.%zu.name", layer, i));
        fputs("</code><td>", f);
        sw_page_text(page, sw_page_string(page, "layers.%zu.activations.%zu.type", layer, i));
        snprintf(path, sizeof path, "layers.%zu.activations.%zu.scale", layer, i);
        if (!json_is_number(sw_page_find(page, path))) {
            fputs("<td class=n>none<td><td><td>", f);
            continue;
        }
        fputs("<td class=n>", f);
        sw_page_figure(page, SW_FIGURE_NUMBER, "%s", path);
        fputs("<td class=n>", f);
        sw_page_figure(page, SW_FIGURE_COUNT, "layers.%zu.activations.%zu.offset", layer, i);
        fputs("<td class=n>", f);
        sw_page_figure(page, SW_FIGURE_NUMBER, "layers.%zu.activations.%zu.low", layer, i);
        fputs("<td class=n>", f);
        sw_page_figure(page, SW_FIGURE_NUMBER, "layers.%zu.activations.%zu.high", layer, i);
    }
    fputs("</table></div>", f);
}

void sw_page_layers(const sw_page *page) {
    FILE *f = page->stream;
    size_t n = sw_page_count(page, "layers");
    fputs(
        "<h2 id=layers>Layers: weights and encodings</h2><p>An integer q stands for scale &times; (q + "
        "offset); "
        "matrices have offset 0 and a scale a row or a block, of which the least and the greatest are shown. "
        "\"From\" and \"to\" are the ends of what a tensor can hold.</p>",
        f);
    put_layer_bars(page, n);
    for (size_t i = 0; i < n; i++) {
        fputs("<details><summary>", f);
        if (i + 1 < n)
            fprintf(f, "Layer %zu", i);
        else
            fputs("Outside of the layers", f);
        fputs(": ", f);
        sw_page_figure(page, SW_FIGURE_BYTES, "layers.%zu.weight_bytes", i);
        fputs(" of weights</summary>", f);
        put_weights(page, i);
        put_activations(page, i);
        fputs("</details>", f);
    }
}

/* ---- Files ---- */

static void put_contexts(const sw_page *page) {
    static const struct {
        const char *head, *leaf;
        sw_figure figure;
    } columns[] = {{"VTCM", "vtcm_bytes", SW_FIGURE_MIB},
                   {"spill-fill", "spill_fill_bytes", SW_FIGURE_BYTES},
                   {"inputs and outputs", "io_bytes", SW_FIGURE_BYTES},
                   {"ops", "op_data_bytes", SW_FIGURE_BYTES},
                   {"constants of its own", "const_bytes", SW_FIGURE_BYTES},
                   {"tensors in DDR", "ddr_tensor_bytes", SW_FIGURE_BYTES},
                   {"weights shared by the graphs", "shared_weights_bytes", SW_FIGURE_BYTES}};
    enum { COLUMNS = sizeof columns / sizeof *columns };
    FILE *f = page->stream;
    size_t n = sw_page_count(page, "contexts");
    if (n == 0) return;
    fputs("<h3>What the context binaries say of themselves</h3><div class=wide><table><tr><th>graph", f);
    for (size_t c = 0; c < COLUMNS; c++) fprintf(f, "<th class=n>%s", columns[c].head);
    for (size_t i = 0; i < n; i++)
        for (size_t g = 0; g < sw_page_count(page, "contexts.%zu.graphs", i); g++) {
            fputs("<tr><td>", f);
            sw_page_text(page, sw_page_string(page, "contexts.%zu.graphs.%zu.name", i, g));
            if (n > 1) fprintf(f, ", shard %zu", i);
            for (size_t c = 0; c < COLUMNS; c++) {
                fputs("<td class=n>", f);
                sw_page_figure(page, columns[c].figure, "contexts.%zu.graphs.%zu.%s", i, g, columns[c].leaf);
            }
        }
    fputs("</table></div>", f);
}

void sw_page_parts(const sw_page *page) {
    FILE *f = page->stream;
    fputs("<h2 id=parts>Files</h2><div class=wide><table><tr><th>part<th>file<th class=n>size", f);
    for (size_t i = 0; i < sw_page_count(page, "parts"); i++) {
        fputs("<tr><td>", f);
        sw_page_text(page, sw_page_string(page, "parts.%zu.kind", i));
        fputs("<td><code>", f);
        sw_page_text(page, sw_page_string(page, "parts.%zu.path", i));
        fputs("</code><td class=n>", f);
        sw_page_figure(page, SW_FIGURE_BYTES, "parts.%zu.bytes", i);
    }
    fputs("</table></div><p>A context binary that is loaded may have at most ", f);
    sw_page_figure(page, SW_FIGURE_BYTES, "memory.context_limit_bytes");
    fputs(".</p>", f);
    put_contexts(page);
}
