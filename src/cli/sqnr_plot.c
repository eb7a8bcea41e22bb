/* sqnr_plot.c: the table as a picture: layers to the right, decibels upwards, a line for each kind of tensor.
 * gnuplot is a program of its own, called with a script on its stdin. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/file.h"
#include "cli/sqnr.h"

enum { COLOURS = 8 }; /* of gnuplot's default palette; further lines are dashed */

/* A gnuplot string: in single quotes only the quote itself has to be doubled. */
static void put_string(FILE *script, const char *text) {
    fputc('\'', script);
    for (; *text != '\0'; text++) {
        if (*text == '\'') fputc('\'', script);
        fputc(*text, script);
    }
    fputc('\'', script);
}

static bool first_of_its_kind(const sw_sqnr_table *table, uint32_t row) {
    for (uint32_t i = 0; i < row; i++)
        if (table->rows[i].layer >= 0 && strcmp(table->rows[i].kind, table->rows[row].kind) == 0)
            return false;
    return table->rows[row].layer >= 0;
}

static const sw_tensor_sqnr *find(const sw_sqnr_table *table, int layer, const char *kind) {
    for (uint32_t i = 0; i < table->count; i++)
        if (table->rows[i].layer == layer && strcmp(table->rows[i].kind, kind) == 0) return &table->rows[i];
    return NULL;
}

static void write_script(const sw_sqnr_table *table, const char *title, const char *path, FILE *script) {
    int n_layers = 0;
    for (uint32_t i = 0; i < table->count; i++)
        if (table->rows[i].layer >= n_layers) n_layers = table->rows[i].layer + 1;
    fprintf(script, "set terminal svg size 1000,600 background rgb 'white'\nset output ");
    put_string(script, path);
    fprintf(script, "\nset title ");
    put_string(script, title);
    fprintf(script, " noenhanced\nset xlabel 'layer'\nset ylabel 'SQNR (dB)'\nset grid\n"
                    "set key outside right noenhanced\n");
    if (n_layers > 0) fprintf(script, "set xrange [-0.5:%d.5]\n", n_layers - 1);
    unsigned lines = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        if (!first_of_its_kind(table, i)) continue;
        fprintf(script, "$line%u << EOD\n", lines++);
        for (int layer = 0; layer < n_layers; layer++) {
            const sw_tensor_sqnr *row = find(table, layer, table->rows[i].kind);
            if (row != NULL) fprintf(script, "%d %.4f\n", layer, row->sqnr_db);
        }
        fprintf(script, "EOD\n");
    }
    fprintf(script, "plot ");
    lines = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        if (!first_of_its_kind(table, i)) continue;
        fprintf(script, "%s$line%u with linespoints pointsize 0.4 linecolor %u title ", lines > 0 ? ", " : "",
                lines, lines + 1);
        put_string(script, table->rows[i].kind);
        lines++;
    }
    fprintf(script, "%s\n", lines > 0 ? "" : "NaN notitle");
}

sw_code sw_sqnr_plot_check(const char *path, sw_error *err) {
    if (strpbrk(path, "\n\r") != NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--plot: a file name with a line break, which gnuplot can't take");
    if (system("command -v gnuplot >/dev/null 2>&1") != 0)
        return SW_FAIL(
            err, SW_NOT_FOUND,
            "--plot: gnuplot isn't installed (Debian: apt-get install gnuplot-nox); the table needs none");
    sw_file_writer w;
    SW_TRY(sw_file_writer_open(&w, path, err));
    sw_file_writer_discard(&w);
    return SW_OK;
}

static sw_code draw(const sw_sqnr_table *table, const char *title, const sw_file_writer *w, sw_error *err) {
    void (*before)(int) = signal(SIGPIPE, SIG_IGN); /* a gnuplot that gives up shows in its status */
    FILE *script = popen("gnuplot", "w");
    int status = -1;
    if (script != NULL) {
        write_script(table, title, w->temporary, script);
        status = pclose(script);
    }
    signal(SIGPIPE, before);
    if (script == NULL) return SW_FAIL(err, SW_IO, "gnuplot: can't start: %s", strerror(errno));
    if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return SW_FAIL(err, SW_IO, "%s: gnuplot couldn't draw it", w->path);
    return SW_OK;
}

sw_code sw_sqnr_plot(const sw_sqnr_table *table, const char *title, const char *path, sw_error *err) {
    SW_TRY(sw_sqnr_plot_check(path, err));
    sw_file_writer w; /* a file that gnuplot can't open is one that it draws to its stdout */
    SW_TRY(sw_file_writer_open(&w, path, err));
    sw_code code = draw(table, title, &w, err);
    if (code == SW_OK) return sw_file_writer_commit(&w, err);
    sw_file_writer_discard(&w);
    return code;
}
