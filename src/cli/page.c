/* page.c: the page's frame, its style, and how figures and texts get into it. */
#include "cli/page.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/report.h"

enum { PATH_BYTES = 256 };

static const char style[] =
    ":root{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--paper:#fff;--line:#d1d9e0;--panel:#f6f8fa;"
    "--linear:#4a7fb5;--attention:#c2803a;--norm:#5d9457;--elementwise:#8a6fb0;--movement:#9aa3ad;"
    "--spill:#d1242f;--kv:#c2803a;--other:#9aa3ad;--limit:#d1242f}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--paper:#0d1117;--line:#3d444d;"
    "--panel:#151b23;--linear:#5b94cf;--attention:#d99a50;--norm:#74b06d;--elementwise:#a78bd0;"
    "--movement:#757f8a;--spill:#ff6b6b;--kv:#d99a50;--other:#757f8a;--limit:#ff6b6b}}"
    "*{box-sizing:border-box}body{margin:0 auto;max-width:1080px;padding:24px 20px "
    "64px;background:var(--paper);"
    "color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
    "h1{font-size:1.6rem;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:1.2rem;margin:40px 0 4px;"
    "padding-top:16px;border-top:1px solid var(--line)}h3{font-size:1rem;margin:22px 0 4px}"
    "p{margin:4px 0 10px;max-width:78ch}.soft,figcaption,.note{color:var(--soft)}figcaption{font-size:.87rem}"
    "figure{margin:8px 0 18px}.wide{overflow-x:auto}svg{display:block;width:100%;height:auto;min-width:640px}"
    "table{border-collapse:collapse;margin:8px 0 14px;font-size:.9rem}th,td{padding:3px 12px 3px 0;"
    "border-bottom:1px solid var(--line);text-align:left;vertical-align:top}td.n,th.n{text-align:right;"
    "font-variant-numeric:tabular-nums}td.n{white-space:nowrap}th{font-weight:600;color:var(--soft)}"
    "code{font:.88em ui-monospace,'DejaVu Sans Mono',monospace}details{margin:6px 0}summary{cursor:pointer}"
    "nav a{margin-right:14px;color:var(--linear)}"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:10px;margin:16px 0}"
    ".tile{background:var(--panel);border:1px solid var(--line);border-radius:6px;padding:8px 12px}"
    ".tile b{display:block;font-size:1.15rem}.tile span{color:var(--soft);font-size:.85rem}"
    ".key{display:inline-block;margin:0 14px 4px 0;font-size:.87rem;white-space:nowrap}.key "
    "i{display:inline-block;"
    "width:11px;height:11px;border-radius:2px;margin-right:5px;vertical-align:-1px}"
    "svg text{font-family:inherit;font-size:12px;fill:var(--ink)}svg .axis{fill:var(--soft)}"
    "svg .grid{stroke:var(--line)}svg .limit{stroke:var(--limit);stroke-width:1.5;stroke-dasharray:7 4}"
    "svg .limit-text{fill:var(--limit)}svg .frame{fill:var(--panel)}svg .block{stroke:var(--paper);"
    "stroke-width:.6}svg .in{font-size:11px;fill:#fff;pointer-events:none}"
    ".linear{fill:var(--linear);background:var(--linear)}.attention{fill:var(--attention);"
    "background:var(--attention)}.norm{fill:var(--norm);background:var(--norm)}.elementwise{"
    "fill:var(--elementwise);background:var(--elementwise)}.movement{fill:var(--movement);"
    "background:var(--movement)}.spill{fill:var(--spill);background:var(--spill)}.kv{fill:var(--kv);"
    "background:var(--kv)}.other{fill:var(--other);background:var(--other)}"
    ".warn{border-left:4px solid var(--spill);background:var(--panel);padding:6px 12px;margin:8px 0}"
    ".good{border-left:4px solid var(--norm);background:var(--panel);padding:6px 12px;margin:8px 0}"
    "@media print{details{display:block}}";

/* ---- Values ---- */

const json_t *sw_page_find(const sw_page *page, const char *path) {
    const json_t *at = page->data;
    char word[PATH_BYTES];
    while (*path != '\0' && at != NULL) {
        size_t n = strcspn(path, ".");
        if (n >= sizeof word) return NULL;
        memcpy(word, path, n), word[n] = '\0';
        at = json_is_array(at) ? json_array_get(at, strtoul(word, NULL, 10)) : json_object_get(at, word);
        path += n + (path[n] == '.');
    }
    return at;
}

static const json_t *find(const sw_page *page, char path[PATH_BYTES], const char *format, va_list args) {
    vsnprintf(path, PATH_BYTES, format, args);
    return sw_page_find(page, path);
}

#define FIND(value)                                                                                          \
    char path[PATH_BYTES];                                                                                   \
    va_list args;                                                                                            \
    va_start(args, format);                                                                                  \
    const json_t *value = find(page, path, format, args);                                                    \
    va_end(args)

double sw_page_number(const sw_page *page, const char *format, ...) {
    FIND(value);
    return json_number_value(value);
}

const char *sw_page_string(const sw_page *page, const char *format, ...) {
    FIND(value);
    return json_is_string(value) ? json_string_value(value) : "";
}

size_t sw_page_count(const sw_page *page, const char *format, ...) {
    FIND(value);
    return json_array_size(value);
}

static void format_figure(sw_figure figure, double v, char out[64]) {
    switch (figure) {
    case SW_FIGURE_BYTES:
        sw_bytes_text((uint64_t)v, out);
        return;
    case SW_FIGURE_MIB:
        snprintf(out, 64, "%.4g MB", v / 1048576);
        return;
    case SW_FIGURE_COUNT:
        snprintf(out, 64, "%.0f", v);
        return;
    case SW_FIGURE_DECIMAL:
        snprintf(out, 64, "%.1f", v);
        return;
    case SW_FIGURE_PERCENT:
        snprintf(out, 64, "%.1f %%", 100 * v);
        return;
    case SW_FIGURE_MILLI:
        snprintf(out, 64, "%.3f", 1000 * v);
        return;
    default:
        snprintf(out, 64, "%.5g", v);
    }
}

void sw_page_figure(const sw_page *page, sw_figure figure, const char *format, ...) {
    FIND(value);
    char text[64];
    if (!json_is_number(value)) {
        fputs("unknown", page->stream);
        return;
    }
    format_figure(figure, json_number_value(value), text);
    if (json_is_integer(value))
        fprintf(page->stream, "<data value=\"%lld\"", (long long)json_integer_value(value));
    else
        fprintf(page->stream, "<data value=\"%.9g\"", json_real_value(value));
    fprintf(page->stream, " data-path=\"%s\">%s</data>", path, text);
}

void sw_page_text(const sw_page *page, const char *text) {
    for (; *text != '\0'; text++) {
        const char *escaped = *text == '&'    ? "&amp;"
                              : *text == '<'  ? "&lt;"
                              : *text == '>'  ? "&gt;"
                              : *text == '"'  ? "&quot;"
                              : *text == '\'' ? "&#39;"
                                              : NULL;
        if (escaped != NULL)
            fputs(escaped, page->stream);
        else
            fputc(*text, page->stream);
    }
}

void sw_page_graph_name(const sw_page *page, size_t graph) {
    sw_page_text(page, sw_page_string(page, "graphs.%zu.name", graph));
    if (sw_page_number(page, "shards") > 1)
        fprintf(page->stream, ", shard %.0f", sw_page_number(page, "graphs.%zu.shard", graph));
}

const char *sw_page_op_class(const char *op_type) {
    static const char *const classes[][2] = {
        {"FullyConnected", "linear"}, {"MatMul", "attention"},         {"Softmax", "attention"},
        {"RmsNorm", "norm"},          {"Transpose", "movement"},       {"Reshape", "movement"},
        {"Concat", "movement"},       {"Gather", "movement"},          {"StridedSlice", "movement"},
        {"Convert", "movement"},      {"RotaryEmbedding", "attention"}};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(classes[i][0], op_type) == 0) return classes[i][1];
    return "elementwise";
}

/* ---- Head ---- */

static void put_tile(const sw_page *page, sw_figure figure, const char *path, const char *what) {
    fputs("<div class=tile><b>", page->stream);
    sw_page_figure(page, figure, "%s", path);
    fprintf(page->stream, "</b><span>%s</span></div>", what);
}

static void put_head(const sw_page *page) {
    FILE *f = page->stream;
    const char *name = sw_page_string(page, "model.name");
    fputs("<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport "
          "content=\"width=device-width,initial-scale=1\"><title>",
          f);
    sw_page_text(page, name[0] != '\0' ? name : "A bundle");
    fprintf(f, " - Spillway report</title><style>%s</style></head><body><h1>", style);
    sw_page_text(page, name[0] != '\0' ? name : "Unnamed model");
    fputs("</h1><p class=soft>Recipe <b>", f);
    sw_page_text(page, sw_page_string(page, "recipe"));
    fputs("</b>, ", f);
    sw_page_text(page, sw_page_string(page, "model_mode"));
    fputs(" mode, for <b>", f);
    sw_page_text(page, sw_page_string(page, "soc_name"));
    fputs("</b> (V", f);
    sw_page_figure(page, SW_FIGURE_COUNT, "htp_arch");
    fputs(", VTCM ", f);
    sw_page_figure(page, SW_FIGURE_COUNT, "vtcm_mb");
    fputs(" MB, optimization level ", f);
    sw_page_figure(page, SW_FIGURE_COUNT, "opt_level");
    fputs("), compiled by Qualcomm's compiler ", f);
    const char *build = sw_page_string(page, "qnn_build_id");
    sw_page_text(page, build[0] != '\0' ? build : "not yet: the graphs are quantized only");
    fputs(". Where the bytes of each graph go, what each call moves, and what the graphs consist of. "
          "<code>prefill_forward</code> takes in a prompt, several tokens a call; <code>kv_forward</code> "
          "makes "
          "one token a call.</p>",
          f);
    fputs("<nav><a href=#memory>Memory</a><a href=#traffic>Traffic</a><a href=#slc>System-level cache</a>"
          "<a href=#ops>Ops</a><a href=#layers>Layers</a><a href=#parts>Files</a></nav><div class=tiles>",
          f);
    put_tile(page, SW_FIGURE_COUNT, "model.n_layers", "layers");
    put_tile(page, SW_FIGURE_COUNT, "context_len", "positions of context");
    put_tile(page, SW_FIGURE_COUNT, "graphs.0.ar_len", "tokens a call of the first graph");
    put_tile(page, SW_FIGURE_BYTES, "memory.graphs.0.weight_bytes", "weights that a call reads");
    put_tile(page, SW_FIGURE_BYTES, "memory.kv_cache_bytes", "KV cache of a session");
    put_tile(page, SW_FIGURE_BYTES, "spill_fill_buffer_bytes", "spill-fill buffer that a load asks for");
    fputs("</div>", f);
}

sw_code sw_page_write(const sw_options *options, sw_bundle *bundle, const char *path, sw_error *err) {
    json_t *data;
    sw_file_writer w;
    SW_TRY(sw_describe_bundle(options, bundle, true, &data, err));
    sw_code code = sw_file_writer_open(&w, path, err);
    if (code == SW_OK) {
        const sw_page page = {w.stream, data};
        put_head(&page);
        sw_page_memory(&page);
        sw_page_traffic(&page);
        sw_page_tuning(&page);
        sw_page_slc(&page);
        sw_page_ops(&page);
        sw_page_layers(&page);
        sw_page_parts(&page);
        fputs("<p class=soft>Made by Spillway ", w.stream);
        sw_page_text(&page, sw_page_string(&page, "tool_version"));
        fputs(". Every figure of this page is also in <code>spillway inspect BUNDLE --json "
              "--tensors</code>.</p>"
              "</body></html>\n",
              w.stream);
        code = sw_file_writer_commit(&w, err);
    }
    json_decref(data);
    return code;
}
