/* What a compile needs of memory against what there is: what is refused before it begins, and which errors
 * are told as its want. A process of its own has each limit. */
#include <sys/resource.h>

#include "cli/compile_memory.h"
#include "cli/run_program.h"

static const sw_compile_memory needs = {.own_bytes = 600000000,
                                        .shard_bytes = 1500000000,
                                        .needed_bytes = 1760000000,
                                        .address_bytes = 2420000000};

#define NEEDS "this compile needs about 1.76 GB of memory (1.50 GB for Qualcomm's compiler)"

typedef struct explained {
    sw_code code;
    sw_error err;
} explained;

typedef enum limited {
    ADDRESSES,
    DATA
} limited; /* libraries have a type of their own for RLIMIT_ names, or int */

/* With a limit (0: none) on a resource, sentence NULL: the check before a compile; else what is made of that
 * error. */
static explained with_limit(limited resource, rlim_t bytes, sw_code code, const char *sentence) {
    explained out = {.err = {SW_OK, ""}};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {bytes, bytes};
        if (bytes > 0 && resource == ADDRESSES) setrlimit(RLIMIT_AS, &limit);
        if (bytes > 0 && resource == DATA) setrlimit(RLIMIT_DATA, &limit);
        if (sentence == NULL) {
            out.code = sw_compile_memory_check(&needs, &out.err);
        } else {
            sw_fail(&out.err, code, "%s", sentence);
            out.code = sw_compile_memory_explain(&needs, code, &out.err);
        }
        ssize_t n = write(ends[1], &out, sizeof out);
        _exit(n == (ssize_t)sizeof out ? 0 : 1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &out, sizeof out), sizeof out);
    close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return out;
}

static void too_little_is_refused_before(void **state) {
    (void)state;
    static const struct {
        limited resource;
        rlim_t bytes;
        const char *says; /* NULL: enough */
    } rows[] = {
        {ADDRESSES, 880000000, NEEDS " and 2.42 GB of addresses, and `ulimit -v` allows 0.88 GB"},
        {ADDRESSES, 2419999999, NEEDS " and 2.42 GB of addresses, and `ulimit -v` allows 2.42 GB"},
        {ADDRESSES, 2420000000, NULL},
        {ADDRESSES, 3520000000, NULL}, /* twice what is told */
        {DATA, 1759999999, NEEDS ", and `ulimit -d` allows 1.76 GB"},
        {DATA, 1760000000, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        explained e = with_limit(rows[i].resource, rows[i].bytes, SW_OK, NULL);
        assert_int_equal(e.code, rows[i].says != NULL ? SW_NO_MEMORY : SW_OK);
        if (rows[i].says != NULL) assert_string_equal(e.err.message, rows[i].says);
    }
}

static void errors_are_explained(void **state) {
    (void)state;
    static const struct {
        rlim_t bytes; /* of addresses; 0: no limit */
        sw_code code;
        const char *sentence, *before;
        sw_code then;
    } rows[] = {
        {0, SW_NO_MEMORY, "a: out of memory", NEEDS ": ", SW_NO_MEMORY},
        {0, SW_IO, "a: can't start: Cannot allocate memory", NEEDS ": ", SW_NO_MEMORY},
        {0, SW_LIBRARY, "libc: failed to map: cannot allocate memory", NEEDS ": ", SW_NO_MEMORY},
        {3000000000, SW_NO_MEMORY, "a: out of memory",
         NEEDS " and 2.42 GB of addresses, and `ulimit -v` allows 3.00 GB: ", SW_NO_MEMORY},
        /* The library may mean memory where there is little. */
        {3000000000, SW_LIBRARY, "QNN error 1002",
         NEEDS " and 2.42 GB of addresses, and `ulimit -v` allows 3.00 GB: ", SW_LIBRARY},
        {9000000000, SW_LIBRARY, "QNN error 1002", "", SW_LIBRARY},
        {0, SW_LIBRARY, "QNN error 1002", "", SW_LIBRARY},
        {3000000000, SW_BAD_DATA, "a: wrong", "", SW_BAD_DATA},
        {0, SW_NO_MEMORY, NEEDS ", and the control group allows 1.00 GB", "",
         SW_NO_MEMORY}, /* said already */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char wanted[400];
        snprintf(wanted, sizeof wanted, "%s%s", rows[i].before, rows[i].sentence);
        explained e = with_limit(ADDRESSES, rows[i].bytes, rows[i].code, rows[i].sentence);
        assert_int_equal(e.code, rows[i].then);
        assert_string_equal(e.err.message, wanted);
    }
    /* Nothing is known yet: nothing is said. */
    const sw_compile_memory unknown = {0};
    sw_error err;
    sw_fail(&err, SW_NO_MEMORY, "out of memory");
    assert_int_equal(sw_compile_memory_explain(&unknown, SW_NO_MEMORY, &err), SW_NO_MEMORY);
    assert_string_equal(err.message, "out of memory");
}

int main(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(SW_EMULATOR)
    printf("skipped: the limits of addresses are this program's alone\n");
    return 77;
#endif
    const struct CMUnitTest tests[] = {cmocka_unit_test(too_little_is_refused_before),
                                       cmocka_unit_test(errors_are_explained)};
    return cmocka_run_group_tests_name("compile memory", tests, NULL, NULL);
}
