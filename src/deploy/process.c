/* process.c: posix_spawn with an argument vector, two pipes, and poll over both. A program may leave a daemon
 * behind that keeps the pipes open (adb starts its server so), hence the end is the program's, not the
 * pipes'. */
#include "deploy/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"

extern char **environ;

enum { N_PIPES = 2, LOOK_MS = 50 };

static sw_code spawn(const char *const *argv, int write_ends[N_PIPES], pid_t *pid, sw_error *err) {
    posix_spawn_file_actions_t actions;
    int e = posix_spawn_file_actions_init(&actions);
    if (e != 0) return SW_FAIL(err, SW_IO, "%s: can't start: %s", argv[0], strerror(e));
    e = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (e == 0) e = posix_spawn_file_actions_adddup2(&actions, write_ends[0], STDOUT_FILENO);
    if (e == 0) e = posix_spawn_file_actions_adddup2(&actions, write_ends[1], STDERR_FILENO);
    if (e == 0) e = posix_spawnp(pid, argv[0], &actions, NULL, (char **)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (e == 0) return SW_OK;
    return SW_FAIL(err, e == ENOENT || e == ENOTDIR ? SW_NOT_FOUND : SW_IO, "%s: can't start: %s", argv[0],
                   strerror(e));
}

/* What a pipe has now. *open turns false at its end. */
static sw_code drain(int fd, bool *open, sw_process_sink *sink, void *context, sw_error *err) {
    char data[16384];
    for (;;) {
        ssize_t n = read(fd, data, sizeof data);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return SW_OK;
        if (n < 0) return SW_FAIL(err, SW_IO, "reading from a pipe: %s", strerror(errno));
        if (n == 0) {
            *open = false;
            return SW_OK;
        }
        SW_TRY(sink(context, data, (size_t)n, err));
    }
}

static sw_code wait_for(const sw_process *p, pid_t pid, const int read_ends[N_PIPES], int *wait_status,
                        bool *ended, sw_error *err) {
    bool open[N_PIPES] = {true, true};
    sw_process_sink *const sinks[N_PIPES] = {p->out, p->err};
    for (;;) {
        struct pollfd polled[N_PIPES];
        for (int i = 0; i < N_PIPES; i++)
            polled[i] = (struct pollfd){.fd = open[i] ? read_ends[i] : -1, .events = POLLIN};
        if (poll(polled, N_PIPES, LOOK_MS) < 0 && errno != EINTR)
            return SW_FAIL(err, SW_IO, "poll: %s", strerror(errno));
        pid_t got = waitpid(pid, wait_status, WNOHANG); /* before the last look at the pipes */
        for (int i = 0; i < N_PIPES; i++)
            if (open[i]) SW_TRY(drain(read_ends[i], &open[i], sinks[i], p->context, err));
        if (got == pid) {
            *ended = true;
            return SW_OK;
        }
        if (got < 0 && errno != EINTR) return SW_FAIL(err, SW_IO, "waitpid: %s", strerror(errno));
        if (!open[0] && !open[1]) { /* nothing left but its end */
            while (waitpid(pid, wait_status, 0) < 0)
                if (errno != EINTR) return SW_FAIL(err, SW_IO, "waitpid: %s", strerror(errno));
            *ended = true;
            return SW_OK;
        }
    }
}

sw_code sw_process_run(const sw_process *p, int *status, sw_error *err) {
    int ends[N_PIPES][2] = {{-1, -1}, {-1, -1}};
    pid_t pid = 0;
    int wait_status = 0;
    bool ended = false;
    sw_code code = SW_OK;
    for (int i = 0; i < N_PIPES && code == SW_OK; i++)
        if (pipe2(ends[i], O_CLOEXEC) != 0 || fcntl(ends[i][0], F_SETFL, O_NONBLOCK) != 0)
            code = SW_FAIL(err, SW_IO, "can't make a pipe: %s", strerror(errno));
    sw_interrupt_hold();
    if (code == SW_OK) code = spawn(p->argv, (int[N_PIPES]){ends[0][1], ends[1][1]}, &pid, err);
    bool started = code == SW_OK;
    int interrupt = started ? sw_interrupt_add_process(pid) : 0;
    sw_interrupt_release();
    for (int i = 0; i < N_PIPES; i++)
        if (ends[i][1] >= 0) close(ends[i][1]);
    if (started) code = wait_for(p, pid, (int[N_PIPES]){ends[0][0], ends[1][0]}, &wait_status, &ended, err);
    if (started && !ended) {
        kill(pid, SIGTERM);
        while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) continue;
    }
    sw_interrupt_drop(interrupt);
    for (int i = 0; i < N_PIPES; i++)
        if (ends[i][0] >= 0) close(ends[i][0]);
    *status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    return code;
}
