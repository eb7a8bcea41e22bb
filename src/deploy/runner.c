/* runner.c: the command line for the device, and what comes back. The reply is stdout's bytes as they are. Of
 * stderr each line is shown and kept in a log; the runner's own sentence on why it failed becomes ours. */
#include "deploy/runner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/log.h"
#include "deploy/failure.h"
#include "deploy/words.h"

enum { LINE_BYTES = 2000, TAIL_BYTES = 4000, WRONG_USE = 2, KILLED = 128 + 9 };

typedef struct stream {
    const sw_deploy_options *options;
    FILE *log; /* NULL: can't be written */
    char line[LINE_BYTES];
    size_t line_size;
    char cause[SW_ERROR_MESSAGE_BYTES]; /* behind the runner's own last "error: " */
    char tail[TAIL_BYTES];              /* the last lines */
    size_t tail_size;
} stream;

static sw_code take_reply(void *context, const char *data, size_t size, sw_error *err) {
    stream *s = context;
    return s->options->reply(s->options->reply_context, data, size, err);
}

static void keep_in_tail(stream *s, const char *line) {
    size_t size = strlen(line) + 1;          /* and a newline */
    if (s->tail_size + size >= TAIL_BYTES) { /* the older half goes */
        size_t half = s->tail_size / 2;
        memmove(s->tail, s->tail + half, s->tail_size - half);
        s->tail_size -= half;
    }
    if (s->tail_size + size >= TAIL_BYTES) return;
    s->tail_size += (size_t)snprintf(s->tail + s->tail_size, TAIL_BYTES - s->tail_size, "%s\n", line);
}

static void end_line(stream *s) {
    static const char error[] = "error: ";
    s->line[s->line_size] = '\0';
    while (s->line_size > 0 && s->line[s->line_size - 1] == '\r') s->line[--s->line_size] = '\0';
    s->line_size = 0;
    const char *line = s->line;
    if (s->log != NULL) fprintf(s->log, "%s\n", line);
    keep_in_tail(s, line);
    if (strncmp(line, error, sizeof error - 1) == 0)
        snprintf(s->cause, sizeof s->cause, "%s", line + sizeof error - 1);
    else if (s->cause[0] != '\0' && strncmp(line, "[QNN]", 5) == 0)
        sw_log_below("%s", line);
    else if (sw_adb_line_is_harmless(line) || strncmp(line, "* daemon ", 9) == 0)
        sw_log(SW_LOG_VERBOSE, "%s", line);
    else if (line[0] != '\0')
        sw_log(SW_LOG_INFO, "%s", line);
}

static sw_code take_lines(void *context, const char *data, size_t size, sw_error *err) {
    (void)err;
    stream *s = context;
    for (size_t i = 0; i < size; i++) {
        if (data[i] != '\n' && data[i] != '\0') s->line[s->line_size++] = data[i];
        if (data[i] == '\n' || s->line_size == LINE_BYTES - 1) end_line(s);
    }
    return SW_OK;
}

/* ---- Prompts ---- */

/* Sends text as a file: through a file here, as adb has no other way that keeps every byte with every adbd.
 */
static sw_code push_text(sw_adb *adb, const char *text, const char *remote, sw_error *err) {
    char path[] = "/tmp/spillway-prompt-XXXXXX";
    sw_interrupt_hold();
    int fd = mkstemp(path), interrupt = sw_interrupt_add_file(path);
    sw_interrupt_release();
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (file == NULL) {
        sw_code code = SW_FAIL(err, SW_IO, "%s: can't create: %s", path, strerror(errno));
        if (fd >= 0) close(fd), unlink(path);
        sw_interrupt_drop(interrupt);
        return code;
    }
    bool written = fwrite(text, 1, strlen(text), file) == strlen(text);
    written = fclose(file) == 0 && written;
    sw_code code = written ? sw_adb_push(adb, path, remote, err)
                           : SW_FAIL(err, SW_IO, "%s: can't write: %s", path, strerror(errno));
    unlink(path);
    sw_interrupt_drop(interrupt);
    return code;
}

static sw_code push_prompts(sw_adb *adb, const char *device_dir, const sw_deploy_options *o, sw_error *err) {
    for (uint32_t i = 0; i < o->n_prompts; i++) {
        const char *remote = sw_arena_printf(&adb->arena, "%s/run/prompt-%u", device_dir, i);
        if (remote == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        SW_TRY(push_text(adb, o->prompts[i], remote, err));
    }
    if (o->system_prompt == NULL) return SW_OK;
    const char *remote = sw_path_join(&adb->arena, device_dir, "run/system_prompt");
    if (remote == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    return push_text(adb, o->system_prompt, remote, err);
}

/* ---- The command ---- */

/* ADSP_LIBRARY_PATH is taken as one folder's name: a list with ':' is a folder that doesn't exist, and then
 * the skel isn't found. */
static const char *command_line(sw_adb *adb, const char *device_dir, const sw_deploy_options *o) {
    sw_arena *arena = &adb->arena;
    const char *dir = sw_shell_word(arena, device_dir);
    if (dir == NULL) return NULL;
    const char *line =
        sw_arena_printf(arena,
                        "cd %s && { LD_LIBRARY_PATH=%s/lib ADSP_LIBRARY_PATH=%s/lib ./bin/spillway generate "
                        "bundle --run_on %s%s "
                        "--stats run/stats.json",
                        dir, dir, dir, o->run_on, strcmp(o->run_on, "htp") == 0 ? " --qnn_lib lib" : "");
    for (const char *const *word = o->arguments; word != NULL && *word != NULL && line != NULL; word++) {
        const char *quoted = sw_shell_word(arena, *word);
        line = quoted != NULL ? sw_arena_printf(arena, "%s %s", line, quoted) : NULL;
    }
    if (o->system_prompt != NULL && line != NULL)
        line = sw_arena_printf(arena, "%s --system_prompt_file run/system_prompt", line);
    for (uint32_t i = 0; i < o->n_prompts && line != NULL; i++)
        line = sw_arena_printf(arena, "%s --prompt_file run/prompt-%u", line, i);
    return line != NULL ? sw_arena_printf(arena, "%s%s; echo $? >run/status; }", line,
                                          adb->shell_v2 ? "" : " 2>run/stderr")
                        : NULL;
}

/* The runner's exit status, as it left it in a file; false: it never ended, or adb can't tell. */
static bool read_status(sw_adb *adb, const char *dir, int *status) {
    sw_error ignored;
    const char *out;
    int shell_status;
    const char *command = sw_arena_printf(&adb->arena, "cat %s/run/status", dir);
    return command != NULL && sw_adb_shell(adb, command, &out, &shell_status, &ignored) == SW_OK &&
           shell_status == 0 && sscanf(out, "%d", status) == 1;
}

static sw_code fail(const stream *s, bool ended, int status, sw_error *err) {
    if (!ended) return sw_adb_fail(err, s->tail, "running on the device"); /* then "error: " is adb's */
    if (s->cause[0] != '\0')
        return sw_fail(err, status == WRONG_USE ? SW_INVALID_ARGUMENT : SW_LIBRARY, "on the device: %s",
                       s->cause);
    if (status == KILLED)
        return sw_fail(
            err, SW_LIBRARY,
            "on the device: the runner was killed, most likely for want of memory; close other programs, "
            "or compile a smaller model or context");
    return sw_adb_fail(err, s->tail, "on the device: the runner ended with %s %d",
                       status > 128 ? "signal" : "exit status", status > 128 ? status - 128 : status);
}

/* An old adbd's runner left its stderr in a file. */
static void fetch_stderr(sw_adb *adb, const char *dir, stream *s) {
    sw_error ignored;
    const char *out;
    int status;
    const char *command = sw_arena_printf(&adb->arena, "cat %s/run/stderr", dir);
    if (command != NULL && sw_adb_shell(adb, command, &out, &status, &ignored) == SW_OK && status == 0)
        (void)!take_lines(s, out, strlen(out), &ignored);
}

sw_code sw_deploy_start_runner(sw_adb *adb, const char *device_dir, const sw_deploy_options *o,
                               const char *log_folder, sw_error *err) {
    sw_arena *arena = &adb->arena;
    const char *dir = sw_shell_word(arena, device_dir),
               *log_path = sw_path_join(arena, log_folder, "device.log"),
               *stats_path = sw_path_join(arena, log_folder, "device_stats.json"),
               *remote_stats = sw_path_join(arena, device_dir, "run/stats.json"),
               *clear = dir != NULL ? sw_arena_printf(arena, "rm -f %s/run/*", dir) : NULL;
    const char *command = command_line(adb, device_dir, o);
    if (log_path == NULL || stats_path == NULL || remote_stats == NULL || clear == NULL || command == NULL)
        return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    SW_TRY(sw_adb_shell_ok(adb, clear, "clearing the device's folder", NULL, err));
    SW_TRY(push_prompts(adb, device_dir, o, err));
    stream s = {.options = o, .log = fopen(log_path, "w")};
    if (s.log == NULL) sw_log(SW_LOG_WARN, "%s: can't write the device's log: %s", log_path, strerror(errno));
    int adb_status = 0, status = -1;
    sw_code code = sw_adb_stream(adb, command, take_reply, take_lines, &s, &adb_status, err);
    bool ended = code == SW_OK && read_status(adb, dir, &status);
    if (code == SW_OK && !adb->shell_v2) fetch_stderr(adb, dir, &s);
    if (s.line_size > 0) end_line(&s);
    if (s.log != NULL) fclose(s.log);
    if (code == SW_OK && (!ended || status != 0)) code = fail(&s, ended, status, err);
    if (code == SW_OK) code = sw_adb_pull(adb, remote_stats, stats_path, err);
    return code;
}
