/* Compiles that are killed, interrupted, or whose calls fail, at every step: mkdir, open, rename, unlink,
 * fsync and their like are this file's own; they count, and end the process or fail at a chosen call, or do
 * it and get SIGINT. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/interrupt.h"
#include "bundle/fixture.h"

static int calls_left = -1; /* calls that still succeed; -1: all */
static enum { FAIL, STOP, INTERRUPT } then;

static bool blocked(void) {
    if (calls_left < 0 || then == INTERRUPT) return false;
    if (calls_left > 0) {
        calls_left--;
        return false;
    }
    if (then == STOP) _exit(9);
    errno = EIO;
    return true;
}

static int done(long result) {
    int reason = errno;
    if (then == INTERRUPT && calls_left >= 0 && calls_left-- == 0) raise(SIGINT);
    errno = reason;
    return (int)result;
}

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
    va_end(more);
    return blocked() ? -1 : done(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int rename(const char *from, const char *to) {
    return blocked() ? -1 : done(renameat(AT_FDCWD, from, AT_FDCWD, to));
}
int unlink(const char *path) {
    return blocked() ? -1 : done(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
int unlinkat(int fd, const char *path, int flags) {
    return blocked() ? -1 : done(syscall(SYS_unlinkat, fd, path, flags));
}
int rmdir(const char *path) {
    return blocked() ? -1 : done(syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}
int mkdir(const char *path, mode_t mode) {
    return blocked() ? -1 : done(mkdirat(AT_FDCWD, path, mode));
}
int fsync(int fd) {
    (void)fd; /* counted, not done: the tests don't cut the power */
    return blocked() ? -1 : done(0);
}

/* After any stop or failure the folder holds the old bundle or the new one, and the next compile leaves
 * nothing of the stopped one behind. */
static void stop_everywhere(bool with_old, bool stop) {
    then = stop ? STOP : FAIL;
    bool finished = false;
    for (int n = 0; !finished; n++) {
        assert_true(n < 500);
        empty_folder(folder);
        put_file("notes.txt", "mine", 4);
        if (with_old) assert_int_equal(compile("old", 2), SW_OK);
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            calls_left = n;
            sw_code code = compile("new", 3);
            _exit(calls_left > 0 ? 0 : code == SW_OK ? 1 : 2);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        finished = WEXITSTATUS(status) == 0;

        sw_bundle b;
        sw_code code = sw_bundle_open(&b, folder, &err);
        if (code == SW_OK) {
            bool is_new = strcmp(b.manifest.recipe, "new") == 0;
            if (!stop && WEXITSTATUS(status) == 1) assert_true(is_new); /* success was reported */
            if (finished) assert_true(is_new);
            if (sw_bundle_verify(&b, &err) != SW_OK) fail_msg("%d: %s", n, err.message);
        } else if (with_old || finished) {
            fail_msg("%d: %s", n, err.message);
        } else if (strstr(err.message, "incomplete bundle") == NULL &&
                   strstr(err.message, "is no bundle") == NULL) {
            fail_msg("%d: %s", n, err.message);
        }
        sw_bundle_close(&b);

        assert_int_equal(compile("next", 1), SW_OK);
        assert_opens(&b);
        assert_string_equal(b.manifest.recipe, "next");
        sw_bundle_close(&b);
        if (count_files() != 1 + 1 + 4) fail_msg("%d: %u files are left", n, count_files());
    }
}

static void a_stopped_compile_leaves_a_whole_bundle(void **state) {
    (void)state;
    stop_everywhere(true, true);
    stop_everywhere(false, true);
}

static void a_failed_compile_leaves_a_whole_bundle(void **state) {
    (void)state;
    stop_everywhere(true, false);
    stop_everywhere(false, false);
}

/* SIGINT once the n-th call is done: the old bundle, the new one, or where there was none nothing at all. */
static void interrupt_everywhere(bool with_old) {
    bool finished = false;
    unsigned interrupted = 0;
    then = INTERRUPT;
    for (int n = 0; !finished; n++) {
        assert_true(n < 500);
        mkdir(folder, 0777); /* may be there */
        empty_folder(folder);
        if (with_old)
            assert_int_equal(compile("old", 2), SW_OK);
        else
            rmdir(folder);
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            sw_interrupt_catch();
            calls_left = n;
            sw_code code = compile("new", 3);
            _exit(code == SW_OK && calls_left >= 0 ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        finished = WIFEXITED(status);
        if (finished)
            assert_int_equal(WEXITSTATUS(status), 0);
        else
            assert_int_equal(WTERMSIG(status), SIGINT);
        if (!with_old && !finished && access(folder, F_OK) != 0) {
            interrupted++;
            continue;
        }
        sw_bundle b;
        if (sw_bundle_open(&b, folder, &err) != SW_OK) fail_msg("%d: %s", n, err.message);
        const bool is_new = strcmp(b.manifest.recipe, "new") == 0;
        interrupted += !is_new;
        if (finished || !with_old) assert_true(is_new);
        if (sw_bundle_verify(&b, &err) != SW_OK) fail_msg("%d: %s", n, err.message);
        sw_bundle_close(&b);
        const unsigned files = is_new ? 7 : 6; /* a context each, and four more */
        if (count_files() != files) fail_msg("%d: %u files", n, count_files());
    }
    assert_true(interrupted > 10); /* the rest came when it was done */
}

static void an_interrupted_compile_leaves_nothing_else(void **state) {
    (void)state;
    interrupt_everywhere(true);
    interrupt_everywhere(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_stopped_compile_leaves_a_whole_bundle),
        TEST(a_failed_compile_leaves_a_whole_bundle),
        TEST(an_interrupted_compile_leaves_nothing_else),
    };
    return cmocka_run_group_tests(tests, make_all, remove_all);
}
