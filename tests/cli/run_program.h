/* run_program.h: runs the built program as a process of its own and keeps what it printed. */
#ifndef TESTS_CLI_RUN_PROGRAM_H
#define TESTS_CLI_RUN_PROGRAM_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct ran {
    int status; /* exit status; a signal fails the test */
    char *out, *err;
    size_t out_size, err_size;
    double seconds;
    long peak_kb;
} ran;

typedef struct run_setting {
    const char *input;       /* stdin; NULL: nothing */
    size_t input_size;       /* 0: strlen */
    const char *output;      /* stdout goes to this file instead */
    const char *environment; /* "NAME=value"; "NAME": unset */
    const char *closed;      /* "02": descriptors 0 and 2 are closed */
    rlim_t file_bytes;       /* no file may grow beyond; 0: no limit */
    rlim_t memory_bytes;     /* of addresses; 0: no limit */
} run_setting;

#ifdef SW_EMULATOR /* the program is for another machine */
static const char *const run_prefix[] = {SW_EMULATOR, SW_PROGRAM, NULL};
#else
static const char *const run_prefix[] = {SW_PROGRAM, NULL};
#endif

static char folder[64]; /* the test's own, temporary */

static inline char *run_read_back(FILE *file, size_t *size) {
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *text = calloc(1, *size + 1);
    if (text == NULL || fread(text, 1, *size, file) != *size) abort();
    fclose(file);
    return text;
}

/* words: the arguments up to NULL. */
static inline ran run_words(run_setting setting, const char *const *words) {
    char *argv[64] = {NULL};
    int argc = 0;
    for (int i = 0; run_prefix[i] != NULL; i++) argv[argc++] = (char *)(uintptr_t)run_prefix[i];
    for (int i = 0; words[i] != NULL; i++) argv[argc++] = (char *)(uintptr_t)words[i];
    FILE *in = tmpfile(), *out = tmpfile(), *err = tmpfile();
    if (in == NULL || out == NULL || err == NULL) abort();
    if (setting.input != NULL)
        fwrite(setting.input, 1, setting.input_size > 0 ? setting.input_size : strlen(setting.input), in);
    fflush(in);
    rewind(in);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int output = setting.output != NULL ? open(setting.output, O_WRONLY) : fileno(out);
        dup2(fileno(in), 0), dup2(output, 1), dup2(fileno(err), 2);
        setenv("QNN_SDK_ROOT", "/nowhere/qnn", 1); /* tests that want Qualcomm's library say so */
        if (setting.environment != NULL && strchr(setting.environment, '=') != NULL)
            putenv((char *)(uintptr_t)setting.environment);
        else if (setting.environment != NULL)
            unsetenv(setting.environment);
        for (const char *fd = setting.closed; fd != NULL && *fd != '\0'; fd++) close(*fd - '0');
        if (setting.file_bytes != 0)
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){setting.file_bytes, setting.file_bytes});
        if (setting.memory_bytes != 0)
            setrlimit(RLIMIT_AS, &(struct rlimit){setting.memory_bytes, setting.memory_bytes});
        alarm(500);
        execvp(argv[0], argv);
        _exit(126);
    }
    int status = 0;
    struct rusage usage;
    ran r = {0};
    if (child < 0 || wait4(child, &status, 0, &usage) != child) abort();
    clock_gettime(CLOCK_MONOTONIC, &end);
    r.seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
    r.peak_kb = usage.ru_maxrss;
    r.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    r.out = run_read_back(out, &r.out_size), r.err = run_read_back(err, &r.err_size);
    fclose(in);
    return r;
}

#define SETTING(...)           ((run_setting){__VA_ARGS__})
#define RUN_WITH(setting, ...) run_words(setting, (const char *const[]){__VA_ARGS__, NULL})
#define RUN(...)               run_words((run_setting){0}, (const char *const[]){__VA_ARGS__, NULL})

static inline void ran_free(ran *r) {
    free(r->out), free(r->err);
}

static inline size_t count_lines(const char *text) {
    size_t n = 0;
    for (; *text != '\0'; text++) n += *text == '\n';
    return n;
}

/* The exit status, and a text on stderr (NULL: any). */
static inline void check_ran(const ran *r, int status, const char *says) {
    if (r->status != status)
        fail_msg("exit status %d, wanted %d; stderr: %s; stdout: %.300s", r->status, status, r->err, r->out);
    if (says != NULL && strstr(r->err, says) == NULL) fail_msg("stderr lacks `%s`: %s", says, r->err);
}

/* A failure as it should be: nothing on stdout, one line on stderr. */
static inline void check_refused(const ran *r, int status, const char *says) {
    check_ran(r, status, says);
    if (r->out_size != 0) fail_msg("text on stdout: %s", r->out);
    if (count_lines(r->err) != 1) fail_msg("not one line: %s", r->err);
}

#define REFUSED(status, says, ...)                                                                           \
    do {                                                                                                     \
        ran refused_ = RUN(__VA_ARGS__);                                                                     \
        check_refused(&refused_, status, says);                                                              \
        ran_free(&refused_);                                                                                 \
    } while (0)

/* folder/name; 4 texts are valid at a time. */
static inline const char *in_folder(const char *name) {
    static char text[4][5000];
    static unsigned next;
    char *out = text[next++ % 4];
    snprintf(out, sizeof text[0], "%s/%s", folder, name);
    return out;
}

static inline const char *write_file(const char *name, const void *data, size_t size) {
    const char *path = in_folder(name);
    FILE *f = fopen(path, "wb");
    if (f == NULL) fail_msg("%s: %s", path, strerror(errno));
    if (size > 0) assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline int run_remove(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)type, (void)at;
    return remove(path);
}

static inline void remove_all(const char *path) {
    nftw(path, run_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/spillway-test-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static inline int remove_folder(void **state) {
    (void)state;
    remove_all(folder);
    return 0;
}

#endif
