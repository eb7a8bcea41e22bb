/* Compiles that are killed, or whose calls fail, at every step: mkdir, rename, unlink, fsync and their like
 * are this file's own; they count, and end the process or fail at a chosen call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/syscall.h>
#include <sys/wait.h>

#include "bundle/fixture.h"

static int calls_left = -1; /* calls that still succeed; -1: all */
static bool exit_then;      /* end the process, or fail with EIO */

static bool blocked(void) {
    if (calls_left < 0) return false;
    if (calls_left > 0) {
        calls_left--;
        return false;
    }
    if (exit_then) _exit(9);
    errno = EIO;
    return true;
}

int rename(const char *from, const char *to) {
    return blocked() ? -1 : renameat(AT_FDCWD, from, AT_FDCWD, to);
}
int unlink(const char *path) {
    return blocked() ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
int unlinkat(int fd, const char *path, int flags) {
    return blocked() ? -1 : (int)syscall(SYS_unlinkat, fd, path, flags);
}
int rmdir(const char *path) {
    return blocked() ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}
int mkdir(const char *path, mode_t mode) {
    return blocked() ? -1 : mkdirat(AT_FDCWD, path, mode);
}
int fsync(int fd) {
    (void)fd; /* counted, not done: the tests don't cut the power */
    return blocked() ? -1 : 0;
}

/* After any stop or failure the folder holds the old bundle or the new one, and the next compile leaves
 * nothing of the stopped one behind. */
static void stop_everywhere(bool with_old, bool stop) {
    bool finished = false;
    for (int n = 0; !finished; n++) {
        assert_true(n < 500);
        empty_folder(folder);
        put_file("notes.txt", "mine", 4);
        if (with_old) assert_int_equal(compile("old", 2), SW_OK);
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            calls_left = n, exit_then = stop;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_stopped_compile_leaves_a_whole_bundle),
        TEST(a_failed_compile_leaves_a_whole_bundle),
    };
    return cmocka_run_group_tests(tests, make_all, remove_all);
}
