/* Finding the library: every wrong QNN_SDK_ROOT and --qnn_lib is named; versions; stdout stays clean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "qnn/load.h"

static char folder[] = "/tmp/sw_load_testXXXXXX";
static sw_error err;
static sw_qnn_library library;

static const char *below(const char *name) {
    static char path[4][512];
    static unsigned turn;
    char *out = path[turn++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static void write_file(const char *path) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("not a library\n", f);
    fclose(f);
}

static int setup(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL) return 1;
    mkdir(below("empty"), 0755);
    mkdir(below("lib"), 0755);
    mkdir(below("lib/x86_64-linux-clang"), 0755);
    write_file(below("file"));
    write_file(below("lib/x86_64-linux-clang/libQnnHtp.so"));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    static const char *const files[] = {"lib/x86_64-linux-clang/libQnnSystem.so",
                                        "lib/x86_64-linux-clang/libQnnHtp.so", "file"};
    static const char *const folders[] = {"lib/x86_64-linux-clang", "lib", "empty", ""};
    for (size_t i = 0; i < 3; i++) unlink(below(files[i]));
    for (size_t i = 0; i < 4; i++) rmdir(below(folders[i]));
    return 0;
}

static void refuse(const char *root, const char *path, sw_code code, const char *text) {
    if (root != NULL)
        setenv("QNN_SDK_ROOT", root, 1);
    else
        unsetenv("QNN_SDK_ROOT");
    err.message[0] = '\0';
    assert_int_equal(sw_qnn_library_open(&library, path, (const char *[]){below("empty"), NULL}, &err), code);
    if (strstr(err.message, text) == NULL) fail_msg("\"%s\" not in \"%s\"", text, err.message);
}

static void wrong_places_are_named(void **state) {
    (void)state;
    char text[700];
    /* QNN_SDK_ROOT unset and empty are the same: the given folders are looked at. */
    snprintf(text, sizeof text,
             "no libQnnHtp.so in: %s/empty; set QNN_SDK_ROOT or --qnn_lib, or run `make setup`", folder);
    refuse(NULL, NULL, SW_NOT_FOUND, text);
    refuse("", NULL, SW_NOT_FOUND, text);
    snprintf(text, sizeof text, "QNN_SDK_ROOT=%s/none: No such file or directory", folder);
    refuse(below("none"), NULL, SW_NOT_FOUND, text);
    snprintf(text, sizeof text, "QNN_SDK_ROOT=%s/file: not a folder", folder);
    refuse(below("file"), NULL, SW_NOT_FOUND, text);
    snprintf(text, sizeof text, "QNN_SDK_ROOT=%s/empty: no lib/x86_64-linux-clang/libQnnHtp.so below it",
             folder);
    refuse(below("empty"), NULL, SW_NOT_FOUND, text);
    /* There, but without its sister; then not a library at all. */
    refuse(folder, NULL, SW_NOT_FOUND, "libQnnHtp.so: no libQnnSystem.so beside it");
    write_file(below("lib/x86_64-linux-clang/libQnnSystem.so"));
    refuse(folder, NULL, SW_LIBRARY, "libQnnHtp.so: can't load: ");

    snprintf(text, sizeof text, "--qnn_lib %s/none: No such file", folder);
    refuse(below("none"), below("none"), SW_NOT_FOUND, text);
    refuse(NULL, below("empty"), SW_NOT_FOUND, "empty: no libQnnHtp.so in that folder");
    refuse(NULL, "/dev/null", SW_NOT_FOUND, "--qnn_lib /dev/null: neither a file nor a folder");
    refuse(NULL, below("file"), SW_NOT_FOUND, "file: no libQnnSystem.so beside it");
    refuse(NULL, below("lib/x86_64-linux-clang"), SW_LIBRARY, "can't load: ");
    char longest[6000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    refuse(longest, NULL, SW_INVALID_ARGUMENT, "QNN_SDK_ROOT: aaa");
    refuse(NULL, longest, SW_NOT_FOUND, "--qnn_lib aaa");
    unsetenv("QNN_SDK_ROOT");
}

static void versions_are_checked_before_any_slot(void **state) {
    (void)state;
    static const struct {
        uint32_t id, major, minor;
        sw_code code;
    } cases[] = {{6, 2, 27, SW_OK},          {6, 2, 40, SW_OK},          {6, 2, 26, SW_UNSUPPORTED},
                 {6, 3, 40, SW_UNSUPPORTED}, {6, 1, 40, SW_UNSUPPORTED}, {7, 2, 40, SW_LIBRARY}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        QnnInterface_t one = {.backendId = cases[i].id,
                              .coreApiVersion = {cases[i].major, cases[i].minor, 0}};
        const QnnInterface_t *list[] = {NULL, &one}, *chosen;
        assert_int_equal(sw_qnn_choose_htp("x.so", list, 2, &chosen, &err), cases[i].code);
        if (cases[i].code == SW_OK) assert_ptr_equal(chosen, &one);
    }
    assert_non_null(strstr(err.message, "x.so: not the library of the HTP"));
    QnnSystemInterface_t system = {.systemApiVersion = {1, 3, 0}};
    const QnnSystemInterface_t *list[] = {&system}, *chosen;
    assert_int_equal(sw_qnn_choose_system("y.so", list, 1, &chosen, &err), SW_UNSUPPORTED);
    assert_string_equal(err.message, "y.so: system API 1.3.0, wanted 1.4 or a later 1.x (SDK 2.36 or newer)");
    system.systemApiVersion.minor = 4;
    assert_int_equal(sw_qnn_choose_system("y.so", list, 1, &chosen, &err), SW_OK);
    assert_int_equal(sw_qnn_choose_system("y.so", list, 0, &chosen, &err), SW_UNSUPPORTED);
}

/* In a child: fd 1 is a pipe; prints before and after loading, ends by exit, which flushes all buffers. */
static void run_child(bool protect, int out) {
    dup2(out, STDOUT_FILENO);
    close(out);
    if (protect && (sw_qnn_protect_stdout(&err) != SW_OK || sw_qnn_protect_stdout(&err) != SW_OK)) _exit(3);
    printf("first result\n");
    static const char *const folders[] = {SW_SOURCE_DIR "/external/qnn/onnxruntime_qnn", NULL};
    if (sw_qnn_library_open(&library, NULL, folders, &err) != SW_OK) _exit(4);
    if (strncmp(library.build_id, "v2.", 3) != 0) _exit(5);
    if (protect) { /* what goes to descriptor 1 behind our back */
        static const char stray[] = "stray\n";
        if (write(STDOUT_FILENO, stray, sizeof stray - 1) < 0) _exit(6);
    }
    printf("second result\n");
    exit(0);
}

static void stdout_holds_results_only(void **state) {
    (void)state;
    if (access(SW_SOURCE_DIR "/external/qnn/onnxruntime_qnn/libQnnHtp.so", R_OK) != 0) skip();
    for (int protect = 0; protect < 2; protect++) {
        int pipes[2], status;
        assert_int_equal(pipe(pipes), 0);
        fflush(stdout);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            close(pipes[0]);
            run_child(protect, pipes[1]);
        }
        close(pipes[1]);
        char text[4096];
        size_t n = 0;
        ssize_t got;
        while ((got = read(pipes[0], text + n, sizeof text - 1 - n)) > 0) n += (size_t)got;
        text[n] = '\0';
        close(pipes[0]);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_string_equal(text, "first result\nsecond result\n");
    }
}

/* In a child: status 1 and one line. */
static void an_abort_is_an_error(void **state) {
    (void)state;
    int pipes[2], status;
    char text[256];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        sw_qnn_report_abort();
        abort();
    }
    close(pipes[1]);
    ssize_t n = read(pipes[0], text, sizeof text - 1);
    assert_true(n > 0);
    text[n] = '\0';
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_ptr_equal(strstr(text, "error: Qualcomm's library"), text);
    assert_ptr_equal(strchr(text, '\n'), text + n - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_places_are_named), cmocka_unit_test(versions_are_checked_before_any_slot),
        cmocka_unit_test(stdout_holds_results_only), cmocka_unit_test(an_abort_is_an_error)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
