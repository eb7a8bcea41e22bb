/* Errands: done beside the caller, with their result and sentence; none started is fine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/errand.h"

typedef struct job {
    pthread_t caller, runner;
    int wanted, done;
} job;

static sw_code work(void *context, sw_error *err) {
    job *j = context;
    j->runner = pthread_self();
    j->done++;
    if (j->wanted == SW_OK) return SW_OK;
    return SW_FAIL(err, (sw_code)j->wanted, "errand: %d", j->done);
}

static void results_come_back(void **state) {
    (void)state;
    sw_errand e = {0};
    sw_error err = {0};
    assert_int_equal(sw_errand_finish(&e, &err), SW_OK); /* none */
    job j = {.caller = pthread_self()};
    for (int i = 0; i < 3; i++) {
        sw_errand_start(&e, work, &j);
        assert_int_equal(sw_errand_finish(&e, &err), SW_OK);
        assert_int_equal(j.done, i + 1);
        assert_false(pthread_equal(j.caller, j.runner));
    }
    j.wanted = SW_IO;
    sw_errand_start(&e, work, &j);
    assert_int_equal(sw_errand_finish(&e, &err), SW_IO);
    assert_string_equal(err.message, "errand: 4");
    assert_int_equal(err.code, SW_IO);
    assert_int_equal(sw_errand_finish(&e, &err), SW_OK); /* told once */
    sw_errand_start(&e, work, &j);
    assert_int_equal(sw_errand_finish(&e, NULL), SW_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_come_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
