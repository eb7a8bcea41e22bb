/* traffic_jobs.c: a point as a command of its own: to run here, or on whatever machines the user has: a list
 * for GNU parallel, an array script for Slurm. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/traffic.h"

enum { MOST_WORDS = 64 };

typedef struct words {
    sw_traffic *t;
    const char **list;
    uint32_t count;
    bool failed; /* out of memory: sticky */
} words;

static void add(words *w, const char *word) {
    if (word == NULL || w->count + 1 == MOST_WORDS)
        w->failed = true;
    else
        w->list[w->count++] = word;
}

/* An option that is given. */
static void add_text(words *w, const char *option, const char *value) {
    if (value == NULL) return;
    add(w, option);
    add(w, value);
}

static void add_number(words *w, const char *option, uint32_t value) {
    if (value != 0) add_text(w, option, sw_arena_printf(&w->t->arena, "%u", value));
}

/* A path as another folder's process can use it. */
static const char *absolute(words *w, const char *path) {
    char *real = path != NULL ? realpath(path, NULL) : NULL;
    const char *copy = real != NULL ? sw_arena_strdup(&w->t->arena, real) : path;
    free(real);
    return copy;
}

sw_code sw_traffic_command(sw_traffic *t, const sw_traffic_point *p, const char *const **out, sw_error *err) {
    const sw_options *o = t->options;
    words w = {.t = t, .list = sw_arena_array(&t->arena, MOST_WORDS, sizeof *w.list)};
    if (w.list == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    sw_recipe named;
    const char *recipe = t->recipes[p->recipe].name;
    bool is_file = sw_recipe_find(&named, recipe, o->kv_bits, NULL) != SW_OK;
    add(&w, absolute(&w, "/proc/self/exe"));
    add(&w, "traffic");
    add_text(&w, "--only", p->graph);
    add_text(&w, "--model", absolute(&w, t->checkpoint));
    add_text(&w, "--soc_model", p->soc->name);
    add_text(&w, "--quant", is_file ? absolute(&w, recipe) : recipe);
    if (p->ar_len > 1) add_number(&w, "--prefill_ar_len", p->ar_len);
    add_number(&w, "--max_seq_len", p->context_len);
    add_number(&w, "--vtcm_mb", p->vtcm_mb);
    add_number(&w, "--opt_level", p->opt_level);
    add_text(&w, "--slc", p->slc ? "on" : "off");
    add_text(&w, "--attention", sw_attention_form_name(p->attention));
    add_text(&w, "--logits", p->top_k > 0 ? sw_arena_printf(&t->arena, "topk:%u", p->top_k) : "all");
    add_number(&w, "--layers", p->layers);
    add_text(&w, "--model_mode", o->model_mode);
    add_number(&w, "--kv_bits", o->kv_bits);
    add_text(&w, "--rotate", o->rotate);
    add_text(&w, "--rounding", o->rounding);
    add_text(&w, "--calib_text", absolute(&w, o->calib_text));
    add_number(&w, "--calib_samples", o->calib_samples);
    add_number(&w, "--threads", o->threads);
    add_text(&w, "--qnn_lib", absolute(&w, o->qnn_lib));
    add_text(&w, "--cache", absolute(&w, t->cache));
    add_text(&w, "--log_level", o->verbose ? "verbose" : o->log_level != NULL ? o->log_level : "warn");
    if (w.failed) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    *out = w.list;
    return SW_OK;
}

/* Ends with its parent: a measurement that nobody waits for only costs time. */
static void run_child(const char *const *command, pid_t parent) {
    sw_interrupt_forget();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(126);
    execv(command[0], (char *const *)(uintptr_t)command);
    _exit(127);
}

sw_code sw_traffic_spawn(sw_traffic *t, const sw_traffic_point *p, sw_error *err) {
    const char *const *command;
    char text[SW_TRAFFIC_POINT_BYTES];
    SW_TRY(sw_traffic_command(t, p, &command, err));
    pid_t parent = getpid(), child = fork();
    if (child < 0) return SW_FAIL(err, SW_IO, "can't start a process: %s", strerror(errno));
    if (child == 0) run_child(command, parent);
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return SW_FAIL(err, SW_IO, "can't wait for a process: %s", strerror(errno));
    sw_traffic_point_text(t, p, text);
    if (WIFSIGNALED(status))
        return SW_FAIL(err, SW_LIBRARY, "%s: the process was ended by signal %d (%s)", text, WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        return SW_FAIL(err, SW_LIBRARY, "%s: failed with exit status %d", text, WEXITSTATUS(status));
    return SW_OK;
}

/* A word for a POSIX shell: in single quotes, where only the quote itself needs care. */
static void put_word(FILE *stream, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        fputs(word, stream);
        return;
    }
    fputc('\'', stream);
    for (; *word != '\0'; word++)
        if (*word == '\'')
            fputs("'\\''", stream);
        else
            fputc(*word, stream);
    fputc('\'', stream);
}

static sw_code put_command(sw_traffic *t, const sw_traffic_point *p, FILE *stream, sw_error *err) {
    const char *const *command;
    SW_TRY(sw_traffic_command(t, p, &command, err));
    for (uint32_t i = 0; command[i] != NULL; i++) {
        if (strpbrk(command[i], "\n\r") != NULL)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "a path with a line break can't stand in a job list");
        if (i > 0) fputc(' ', stream);
        put_word(stream, command[i]);
    }
    return SW_OK;
}

static sw_code finish(sw_file_writer *w, sw_code code, sw_error *err) {
    if (code == SW_OK) return sw_file_writer_commit(w, err);
    sw_file_writer_discard(w);
    return code;
}

sw_code sw_traffic_write_jobs(sw_traffic *t, const char *path, sw_error *err) {
    sw_file_writer w;
    sw_code code = SW_OK;
    SW_TRY(sw_file_writer_open(&w, path, err));
    for (uint32_t i = 0; i < t->n_points && code == SW_OK; i++) {
        code = put_command(t, &t->points[i], w.stream, err);
        fputc('\n', w.stream);
    }
    return finish(&w, code, err);
}

sw_code sw_traffic_write_slurm(sw_traffic *t, const char *path, sw_error *err) {
    sw_file_writer w;
    sw_code code = SW_OK;
    SW_TRY(sw_file_writer_open(&w, path, err));
    fprintf(w.stream,
            "#!/bin/bash\n"
            "# One point of the grid a task; submit with sbatch. What is done already ends at once.\n"
            "#SBATCH --job-name=spillway-traffic\n"
            "#SBATCH --array=0-%u\n"
            "#SBATCH --cpus-per-task=1\n"
            "set -eu\n"
            "case ${SLURM_ARRAY_TASK_ID:?is set by sbatch} in\n",
            t->n_points - 1);
    for (uint32_t i = 0; i < t->n_points && code == SW_OK; i++) {
        fprintf(w.stream, "%u) exec ", i);
        code = put_command(t, &t->points[i], w.stream, err);
        fputs(" ;;\n", w.stream);
    }
    fputs("*) echo \"no task $SLURM_ARRAY_TASK_ID\" >&2; exit 2 ;;\nesac\n", w.stream);
    return finish(&w, code, err);
}
