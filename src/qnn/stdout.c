/* stdout.c: which of the C library's streams leads where. */
#include "qnn/stdout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"

/* The stream that libraries get as stdout while they are loaded: a C++ library keeps it for its cout. It is
 * the one that was there first, on descriptor 1. */
static FILE *first_stdout;

sw_code sw_qnn_protect_stdout(sw_error *err) {
    if (first_stdout != NULL) return SW_OK;
    fflush(stdout);
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    if (flags < 0 ? errno == EBADF : (flags & O_ACCMODE) == O_RDONLY)
        return SW_OK; /* closed, or a file to read: no result can be written, so there is nothing to protect
                       */
    int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) return SW_FAIL(err, SW_IO, "stdout: can't copy descriptor 1: %s", strerror(errno));
    FILE *results = fdopen(fd, "w");
    if (results == NULL || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        sw_code code = SW_FAIL(err, SW_IO, "stdout: can't keep it apart: %s", strerror(errno));
        if (results != NULL)
            fclose(results);
        else
            close(fd);
        return code;
    }
    first_stdout = stdout;
    stdout = results; /* a variable in glibc, by its manual */
    return SW_OK;
}

typedef struct diversion {
    int file, saved; /* what is printed; where descriptor 1 led */
    FILE *results;
} diversion;

void *sw_qnn_divert_stdout(void) {
    diversion *d = malloc(sizeof *d);
    if (d == NULL) return NULL;
    fflush(stdout);
    *d = (diversion){.file = memfd_create("stdout", MFD_CLOEXEC),
                     .saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3),
                     .results = stdout};
    if (d->file < 0 || d->saved < 0 || dup2(d->file, STDOUT_FILENO) < 0) {
        if (d->file >= 0) close(d->file);
        if (d->saved >= 0) close(d->saved);
        free(d);
        return NULL;
    }
    if (first_stdout != NULL) stdout = first_stdout;
    return d;
}

static void log_lines(int file) {
    char text[4096];
    ssize_t n = pread(file, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        if (strstr(line, "<E>") != NULL)
            sw_log_below("[QNN] %s", line);
        else
            sw_log(SW_LOG_DEBUG, "[QNN] %s", line);
}

void sw_qnn_restore_stdout(void *diverted) {
    diversion *d = diverted;
    if (d == NULL) return;
    fflush(stdout); /* what waits in the buffer must not come out later */
    stdout = d->results;
    dup2(d->saved, STDOUT_FILENO);
    log_lines(d->file);
    close(d->file);
    close(d->saved);
    free(d);
}
