/* Ctrl-C and `kill` at any moment of a compile: the bundle that was there before is there afterwards, nothing
 * else is, no process is left, and the exit status is the signal's. */
#include <signal.h>
#include <sys/prctl.h>

#include "cli/run_program.h"
#include "cli/tiny_bundle.h"

#define QNN SW_SOURCE_DIR "/external/qnn/onnxruntime_qnn"

static char gguf[128], out[128];

static int set_up(void **state) {
    bytes b = {0};
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    snprintf(gguf, sizeof gguf, "%s", write_file("tiny.gguf", b.data, b.size));
    snprintf(out, sizeof out, "%s/out", folder);
    free(b.data);
    return prctl(PR_SET_CHILD_SUBREAPER, 1); /* what a process leaves becomes ours */
}

static pid_t start(const char *types) {
    pid_t child = fork();
    if (child != 0) return child;
    int null = open("/dev/null", O_WRONLY);
    dup2(null, 1), dup2(null, 2);
    execl(SW_PROGRAM, "spillway", "compile", "-m", "SM8750", "--model", gguf, "--max_seq_len", "64",
          "--prefill_ar_len", "16", "--num_sharding", "2", "--quant", types, "--artifact", out, "--qnn_lib",
          QNN, (char *)NULL);
    _exit(126);
}

/* Waits for all that is left; false: something is still there after seconds. */
static bool all_ended(void) {
    for (int i = 0; i < 500; i++) {
        pid_t got;
        while ((got = waitpid(-1, NULL, WNOHANG)) > 0) continue;
        if (got < 0) return true;
        usleep(10000);
    }
    return false;
}

/* Names and hashes of all in the folder. */
static void list(char text[4096]) {
    char command[600];
    snprintf(command, sizeof command, "test ! -e %s || (cd %s && find . -type f | sort | xargs sha256sum)",
             out, out);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, 4095, f);
    text[n] = '\0';
    assert_int_equal(pclose(f), 0);
}

/* Interrupts compiles later and later, until one gets through; returns how many were. */
static unsigned interrupt_all(const char *types, int number, const char *before) {
    char after[4096];
    unsigned n = 0;
    for (useconds_t wait = 2000;; wait += wait / 2) {
        int status;
        pid_t child = start(types);
        usleep(wait);
        kill(child, number);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(all_ended());
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            return n;
        }
        n++;
        assert_int_equal(WTERMSIG(status), number);
        list(after);
        if (strcmp(before, after) != 0) { /* told to end when it was done */
            ran r = RUN("verify", out);
            check_ran(&r, 0, NULL);
            ran_free(&r);
            return n;
        }
        if (before[0] == '\0') assert_int_not_equal(access(out, F_OK), 0); /* nor an empty folder */
    }
}

static void a_compile_is_done_or_not_done(void **state) {
    (void)state;
    char before[4096];
    list(before);
    assert_string_equal(before, "");
    unsigned n = interrupt_all("8a8w", SIGINT, before);
    ran r = RUN("verify", out);
    check_ran(&r, 0, NULL);
    ran_free(&r);
    list(before);
    n += interrupt_all("16a8w", SIGTERM, before);
    printf("%u compiles were ended in their midst\n", n);
    assert_true(n >= 12);
    r = RUN("verify", out);
    check_ran(&r, 0, NULL);
    ran_free(&r);
}

int main(void) {
    if (access(QNN "/libQnnHtp.so", R_OK) != 0) {
        printf("skipped: no " QNN "/libQnnHtp.so\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_compile_is_done_or_not_done)};
    return cmocka_run_group_tests_name("interrupt", tests, set_up, remove_folder);
}
