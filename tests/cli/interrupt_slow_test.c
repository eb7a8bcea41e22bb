/* What ends a compile from outside: Ctrl-C and `kill` at any moment, the end of Qualcomm's compiler, too
 * little memory. The bundle that was there before is there afterwards, nothing else is, and no process is
 * left. */
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

#define COMPILE_AGAIN                                                                                        \
    "compile", "-m", "SM8750", "--model", gguf, "--max_seq_len", "64", "--prefill_ar_len", "16", "--quant",  \
        "16a8w", "--artifact", out, "--qnn_lib", QNN

static pid_t start(const char *types, const char *log) {
    pid_t child = fork();
    if (child != 0) return child;
    int file = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(file, 1), dup2(file, 2);
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
        pid_t child = start(types, "/dev/null");
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

/* ---- Memory ---- */

/* The first child of a process, once there is one; 0: it ended before. */
static pid_t child_of(pid_t parent) {
    char path[64];
    int pid = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    for (;;) {
        FILE *f = fopen(path, "r");
        if (f == NULL) return 0;
        int n = fscanf(f, "%d", &pid);
        fclose(f);
        if (n == 1) return pid;
        siginfo_t ended = {0};
        if (waitid(P_PID, (id_t)parent, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid != 0)
            return 0;
    }
}

/* Qualcomm's compiler, in a process of its own, is ended: by the system's killer of processes that take too
 * much memory, by an exception that nobody caught, by a fault. */
static void the_compiler_is_killed(void **state) {
    (void)state;
    static const struct {
        int number;
        const char *says;
    } rows[] = {{SIGKILL, "ended by signal 9 (Killed), most likely for want of memory"},
                {SIGABRT, "ended by signal 6 (Aborted), most likely for want of memory"},
                {SIGSEGV, "ended by signal 11 (Segmentation fault)"}};
    char before[4096], after[4096];
    list(before);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *log = in_folder("log");
        int status = 0;
        for (int tries = 0; tries < 20 && status == 0;
             tries++) { /* on a busy machine it may be done before */
            pid_t child = start("16a8w", log), compiler = child_of(child);
            assert_true(compiler > 0);
            usleep(5000); /* until it is on its way */
            kill(compiler, rows[i].number);
            assert_int_equal(waitpid(child, &status, 0), child);
            assert_true(all_ended());
            assert_true(WIFEXITED(status));
            if (status == 0) list(before);
        }
        assert_int_equal(WEXITSTATUS(status), 1);
        size_t size;
        char *text = run_read_back(fopen(log, "rb"), &size);
        const char *error = strstr(text, "error: ");
        if (error == NULL || strstr(error, rows[i].says) == NULL || strstr(error + 1, "\nerror: ") != NULL)
            fail_msg("not one error with `%s`: %s", rows[i].says, text);
        free(text);
        list(after);
        assert_string_equal(after, before); /* the bundle of before */
    }
}

/* With half the memory that the plan promises, one sentence with the number; with twice as much, a bundle. */
static void memory_as_promised(void **state) {
    (void)state;
    ran r = RUN("plan", gguf, "-m", "SM8750", "--max_seq_len", "64", "--prefill_ar_len", "16", "--json");
    check_ran(&r, 0, NULL);
    const char *at = strstr(r.out, "\"compile_memory_bytes\": ");
    assert_non_null(at);
    const rlim_t needed = (rlim_t)strtoull(strchr(at, ':') + 1, NULL, 10);
    assert_true(needed > 100000000);
    ran_free(&r);
    char before[4096], after[4096], says[100];
    list(before);
    snprintf(says, sizeof says, "this compile needs about %.2f GB of memory", (double)needed / 1e9);
    for (rlim_t part = 10; part <= 90; part += 20) {
        r = RUN_WITH(SETTING(.memory_bytes = needed / 100 * part), COMPILE_AGAIN);
        check_refused(&r, 1, says);
        ran_free(&r);
        list(after);
        assert_string_equal(after, before);
    }
    r = RUN_WITH(SETTING(.memory_bytes = 2 * needed), COMPILE_AGAIN);
    check_ran(&r, 0, "compiled into");
    if ((uint64_t)r.peak_kb * 1024 > needed)
        fail_msg("%ld kB, promised %llu B", r.peak_kb, (unsigned long long)needed);
    ran_free(&r);
}

int main(void) {
#ifdef SW_EMULATOR /* Qualcomm's compiler is for this machine, the program isn't */
    printf("skipped: needs Qualcomm's compiler\n");
    return 77;
#endif
    if (access(QNN "/libQnnHtp.so", R_OK) != 0) {
        printf("skipped: no " QNN "/libQnnHtp.so\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_compile_is_done_or_not_done),
                                       cmocka_unit_test(the_compiler_is_killed),
                                       cmocka_unit_test(memory_as_promised)};
    return cmocka_run_group_tests_name("interrupt", tests, set_up, remove_folder);
}
