/* traffic_print.c: the grid's figures as a table for people, as tab-separated values, and as JSON. Points
 * without figures stand there too, with a dash or null. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/traffic.h"

enum { COLUMNS = 20, CELL_BYTES = 72 };

static const char *const tsv_heads[COLUMNS] = {"graph",   "SoC",    "recipe",       "attention",  "logits",
                                               "layers",  "AR",     "context",      "VTCM MB",    "opt level",
                                               "SLC",     "ops",    "spill-fill B", "spill B",    "fill B",
                                               "write B", "read B", "binary B",     "finalize s", "SLC idle"};

/* Ten and more columns side by side need short heads; sizes in MB there. */
static const char *const text_heads[COLUMNS] = {"graph",    "SoC",     "recipe",    "attention", "logits",
                                                "layers",   "AR",      "context",   "VTCM",      "O",
                                                "SLC",      "ops",     "buffer MB", "spill MB",  "fill MB",
                                                "write MB", "read MB", "binary MB", "seconds",   "idle"};

static void bytes_cell(char cell[CELL_BYTES], const sw_traffic_point *p, uint64_t bytes, bool text) {
    if (!p->known)
        snprintf(cell, CELL_BYTES, "-");
    else if (text)
        snprintf(cell, CELL_BYTES, "%.3f", (double)bytes / 1e6);
    else
        snprintf(cell, CELL_BYTES, "%llu", (unsigned long long)bytes);
}

static void fill_cells(const sw_traffic *t, const sw_traffic_point *p, bool text,
                       char cells[COLUMNS][CELL_BYTES]) {
    const sw_traffic_figures *f = &p->figures;
    const char *recipe = t->recipes[p->recipe].name;
    snprintf(cells[0], CELL_BYTES, "%s", p->graph);
    snprintf(cells[1], CELL_BYTES, "%s", p->soc->name);
    snprintf(cells[2], CELL_BYTES, "%.64s", recipe);
    snprintf(cells[3], CELL_BYTES, "%s", sw_attention_form_name(p->attention));
    sw_top_k_text(p->top_k, cells[4]);
    snprintf(cells[5], CELL_BYTES, "%u", p->layers);
    snprintf(cells[6], CELL_BYTES, "%u", p->ar_len);
    snprintf(cells[7], CELL_BYTES, "%u", p->context_len);
    snprintf(cells[8], CELL_BYTES, "%u", p->vtcm_mb);
    snprintf(cells[9], CELL_BYTES, "%u", p->opt_level);
    snprintf(cells[10], CELL_BYTES, "%s", p->slc ? "on" : "off");
    snprintf(cells[11], CELL_BYTES, p->known ? "%u" : "-", f->n_ops);
    const uint64_t bytes[] = {f->spill_fill_bytes, f->spill, f->fill, f->write, f->read, f->binary_bytes};
    for (unsigned i = 0; i < 6; i++) bytes_cell(cells[12 + i], p, bytes[i], text);
    snprintf(cells[18], CELL_BYTES, p->known ? "%.1f" : "-", f->finalize_seconds);
    snprintf(cells[19], CELL_BYTES, "%s", !p->known || !p->slc ? "-" : f->slc_idle ? "yes" : "no");
}

static void print_tsv(const sw_traffic *t, FILE *stream) {
    char cells[COLUMNS][CELL_BYTES];
    for (int c = 0; c < COLUMNS; c++) fprintf(stream, "%s%s", c > 0 ? "\t" : "", tsv_heads[c]);
    fputc('\n', stream);
    for (uint32_t i = 0; i < t->n_points; i++) {
        fill_cells(t, &t->points[i], false, cells);
        for (int c = 0; c < COLUMNS; c++) fprintf(stream, "%s%s", c > 0 ? "\t" : "", cells[c]);
        fputc('\n', stream);
    }
}

/* Numbers to the right, words to the left. */
static bool is_word(int column) {
    return column < 5 || column == 10;
}

static void print_text(const sw_traffic *t, FILE *stream) {
    char cells[COLUMNS][CELL_BYTES];
    int widths[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) widths[c] = (int)strlen(text_heads[c]);
    for (uint32_t i = 0; i < t->n_points; i++) {
        fill_cells(t, &t->points[i], true, cells);
        for (int c = 0; c < COLUMNS; c++)
            if ((int)strlen(cells[c]) > widths[c]) widths[c] = (int)strlen(cells[c]);
    }
    for (uint32_t i = 0; i <= t->n_points; i++) {
        if (i > 0) fill_cells(t, &t->points[i - 1], true, cells);
        for (int c = 0; c < COLUMNS; c++)
            fprintf(stream, "%s%*s", c > 0 ? "  " : "", is_word(c) ? -widths[c] : widths[c],
                    i == 0 ? text_heads[c] : cells[c]);
        fputc('\n', stream);
    }
    fprintf(stream, "Bytes a call of the graph, as Qualcomm's compiler (%s) tells them; no time, no cache.\n",
            t->library->build_id);
}

static json_t *point_to_json(const sw_traffic *t, const sw_traffic_point *p) {
    const sw_traffic_figures *f = &p->figures;
    char logits[SW_TOP_K_BYTES];
    json_t *figures = json_null();
    if (p->known)
        figures = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:f}", "spill_fill_bytes",
                            (json_int_t)f->spill_fill_bytes, "spill", (json_int_t)f->spill, "fill",
                            (json_int_t)f->fill, "write", (json_int_t)f->write, "read", (json_int_t)f->read,
                            "vtcm_bytes", (json_int_t)f->vtcm_bytes, "binary_bytes",
                            (json_int_t)f->binary_bytes, "ops", (json_int_t)f->n_ops, "slc_idle", f->slc_idle,
                            "finalize_seconds", f->finalize_seconds);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:o}", "graph", p->graph,
                     "soc", p->soc->name, "recipe", t->recipes[p->recipe].name, "attention",
                     sw_attention_form_name(p->attention), "logits", sw_top_k_text(p->top_k, logits),
                     "layers", (json_int_t)p->layers, "ar_len", (json_int_t)p->ar_len, "context_len",
                     (json_int_t)p->context_len, "vtcm_mb", (json_int_t)p->vtcm_mb, "opt_level",
                     (json_int_t)p->opt_level, "slc", p->slc, "key", p->key, "figures", figures);
}

static sw_code print_json(const sw_traffic *t, FILE *stream, sw_error *err) {
    json_t *points = json_array();
    for (uint32_t i = 0; i < t->n_points; i++) json_array_append_new(points, point_to_json(t, &t->points[i]));
    json_t *document = json_pack("{s:s, s:o}", "library", t->library->build_id, "points", points);
    char *text = document != NULL ? json_dumps(document, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(document);
    if (text == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    fprintf(stream, "%s\n", text);
    free(text);
    return SW_OK;
}

sw_code sw_traffic_print(const sw_traffic *t, sw_traffic_format format, FILE *stream, sw_error *err) {
    if (format == SW_TRAFFIC_JSON) return print_json(t, stream, err);
    if (format == SW_TRAFFIC_TSV)
        print_tsv(t, stream);
    else
        print_text(t, stream);
    return SW_OK;
}
