/* adb.c: argument vectors for adb, and its answers. An old adbd gives no exit status, so commands print their
 * own behind a marker. */
#include "deploy/adb.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "deploy/failure.h"

#define MARKER "\nspillway-status:"

enum { MAX_WORDS = 12, MAX_TEXT = 4 << 20 };

typedef struct text {
    char *data;
    size_t size, capacity;
} text;

static sw_code append(text *t, const char *data, size_t size, sw_error *err) {
    if (size > MAX_TEXT - t->size) return SW_FAIL(err, SW_IO, "adb: more than %d bytes of output", MAX_TEXT);
    if (t->size + size + 1 > t->capacity) {
        size_t capacity = 2 * (t->size + size + 1);
        char *grown = realloc(t->data, capacity);
        if (grown == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        t->data = grown, t->capacity = capacity;
    }
    memcpy(t->data + t->size, data, size);
    t->size += size;
    t->data[t->size] = '\0';
    return SW_OK;
}

typedef struct answer {
    text out, err;
    int status;
} answer;

static sw_code take_out(void *context, const char *data, size_t size, sw_error *err) {
    return append(&((answer *)context)->out, data, size, err);
}
static sw_code take_err(void *context, const char *data, size_t size, sw_error *err) {
    return append(&((answer *)context)->err, data, size, err);
}

static void answer_free(answer *a) {
    free(a->out.data), free(a->err.data);
}

static sw_code run(const sw_adb *adb, const char *const *words, sw_process_sink *out, sw_process_sink *errors,
                   void *context, int *status, sw_error *err) {
    const char *argv[MAX_WORDS];
    int n = 0;
    argv[n++] = adb->program;
    if (adb->host != NULL) argv[n++] = "-H", argv[n++] = adb->host;
    if (adb->serial != NULL) argv[n++] = "-s", argv[n++] = adb->serial;
    while (*words != NULL) argv[n++] = *words++;
    argv[n] = NULL;
    sw_process process = {.argv = argv, .out = out, .err = errors, .context = context};
    sw_code code = sw_process_run(&process, status, err);
    if (code == SW_NOT_FOUND)
        return SW_FAIL(
            err, SW_NOT_FOUND,
            "%s: no such program; install adb (Debian: `apt install adb`, else Google's platform-tools), or "
            "name it with --adb or $ADB",
            adb->program);
    return code;
}

/* What adb said, stderr first: its own errors are there, but for those of push and pull in old versions. */
static sw_code fail(answer *a, const char *doing, sw_error *err) {
    sw_error ignored;
    if (a->out.size > 0 && (append(&a->err, "\n", 1, &ignored) != SW_OK ||
                            append(&a->err, a->out.data, a->out.size, &ignored) != SW_OK))
        return SW_FAIL(err, SW_IO, "%s: adb failed", doing);
    return sw_adb_fail(err, a->err.data != NULL ? a->err.data : "", "%s", doing);
}

/* adb with words, all of its output kept. A status other than 0 is an error. */
static sw_code ask(const sw_adb *adb, const char *const *words, const char *doing, answer *a, sw_error *err) {
    *a = (answer){.status = -1};
    sw_code code = run(adb, words, take_out, take_err, a, &a->status, err);
    if (code == SW_OK && a->status != 0) code = fail(a, doing, err);
    return code;
}

static sw_code check_state(const sw_adb *adb, sw_error *err) {
    answer a;
    sw_code code = ask(adb, (const char *const[]){"get-state", NULL}, "looking for the device", &a, err);
    if (code == SW_OK) {
        char *state = a.out.data != NULL ? a.out.data : "";
        if (a.out.data != NULL) state[strcspn(state, "\r\n")] = '\0';
        char said[100];
        snprintf(said, sizeof said, "the device is in state `%.60s`", state);
        if (strcmp(state, "device") != 0) code = sw_adb_fail(err, said, "looking for the device");
    }
    answer_free(&a);
    return code;
}

sw_code sw_adb_open(sw_adb *adb, const char *program, const char *host, const char *serial, sw_error *err) {
    const char *variable = getenv("ADB");
    if (program == NULL) program = variable != NULL && *variable != '\0' ? variable : "adb";
    *adb = (sw_adb){.program = program, .host = host, .serial = serial};
    SW_TRY(check_state(adb, err));
    answer a; /* an old adb doesn't know the word: then it is an old shell too */
    sw_error ignored;
    adb->shell_v2 = ask(adb, (const char *const[]){"features", NULL}, "", &a, &ignored) == SW_OK &&
                    a.out.data != NULL && strstr(a.out.data, "shell_v2") != NULL;
    answer_free(&a);
    return SW_OK;
}

void sw_adb_close(sw_adb *adb) {
    sw_arena_free(&adb->arena);
}

/* Cuts the marker and the status behind it off. */
static bool take_status(text *out, int *status) {
    char *at = NULL;
    for (char *next = out->data; next != NULL && (next = strstr(next, MARKER)) != NULL; next++) at = next;
    if (at == NULL) return false;
    char *end;
    long value = strtol(at + sizeof MARKER - 1, &end, 10);
    if (end == at + sizeof MARKER - 1 || value < 0 || value > 255) return false;
    *at = '\0';
    *status = (int)value;
    return true;
}

static sw_code shell(sw_adb *adb, const char *command, const char *doing, bool must_succeed, const char **out,
                     int *status, sw_error *err) {
    const char *line = sw_arena_printf(&adb->arena, "{ %s\n}; s=$?; echo; echo spillway-status:$s", command);
    if (line == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    sw_log(SW_LOG_DEBUG, "adb shell %s", command);
    answer a = {.status = -1};
    sw_code code =
        run(adb, (const char *const[]){"shell", line, NULL}, take_out, take_err, &a, &a.status, err);
    if (code == SW_OK && !take_status(&a.out, status)) code = fail(&a, doing, err);
    if (code == SW_OK && must_succeed && *status != 0) code = fail(&a, doing, err);
    if (code == SW_OK && out != NULL) {
        *out = sw_arena_strdup(&adb->arena, a.out.data);
        if (*out == NULL) code = SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    }
    answer_free(&a);
    return code;
}

sw_code sw_adb_shell(sw_adb *adb, const char *command, const char **out, int *status, sw_error *err) {
    return shell(adb, command, "running a command on the device", false, out, status, err);
}

sw_code sw_adb_shell_ok(sw_adb *adb, const char *command, const char *doing, const char **out,
                        sw_error *err) {
    int status;
    return shell(adb, command, doing, true, out, &status, err);
}

sw_code sw_adb_stream(sw_adb *adb, const char *command, sw_process_sink *out, sw_process_sink *errors,
                      void *context, int *adb_status, sw_error *err) {
    /* exec-out: stdout byte for byte from an old adbd too, whose shell is a terminal */
    const char *words[] = {adb->shell_v2 ? "shell" : "exec-out", command, NULL};
    sw_log(SW_LOG_DEBUG, "adb %s %s", words[0], command);
    return run(adb, words, out, errors, context, adb_status, err);
}

static sw_code copy(sw_adb *adb, const char *word, const char *from, const char *to, sw_error *err) {
    answer a;
    char doing[300];
    snprintf(doing, sizeof doing, "%s %.120s to %.120s", word, from, to);
    sw_log(SW_LOG_VERBOSE, "adb %s", doing);
    sw_code code = ask(adb, (const char *const[]){word, from, to, NULL}, doing, &a, err);
    answer_free(&a);
    return code;
}

sw_code sw_adb_push(sw_adb *adb, const char *local, const char *remote, sw_error *err) {
    return copy(adb, "push", local, remote, err);
}

sw_code sw_adb_pull(sw_adb *adb, const char *remote, const char *local, sw_error *err) {
    return copy(adb, "pull", remote, local, err);
}
