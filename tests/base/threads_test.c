/* threads_test.c: each index is covered once, whatever the count, the grain and the number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>

#include "base/threads.h"

enum { MAX_COUNT = 1000 };

typedef struct job {
    size_t count, grain;
    atomic_uint visits[MAX_COUNT];
    atomic_uint bad_ranges;
} job;

static void visit(void *context, size_t begin, size_t end) {
    job *j = context;
    /* Whole grains, but for the last. cmocka's asserts belong to the main thread: count here, assert there.
     */
    if (begin >= end || end > j->count || begin % j->grain != 0 || (end != j->count && end % j->grain != 0)) {
        atomic_fetch_add(&j->bad_ranges, 1);
        return;
    }
    for (size_t i = begin; i < end; i++) atomic_fetch_add(&j->visits[i], 1);
}

static void check(sw_pool *pool, size_t count, size_t grain) {
    static job j;
    memset(&j, 0, sizeof j);
    j.count = count;
    j.grain = grain;
    sw_pool_for(pool, count, grain, visit, &j);
    assert_int_equal(atomic_load(&j.bad_ranges), 0);
    for (size_t i = 0; i < MAX_COUNT; i++) assert_int_equal(atomic_load(&j.visits[i]), i < count ? 1 : 0);
}

static void each_index_once(void **state) {
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 999, 1000},
                        grains[] = {1, 2, 7, 64, 1000, 5000};
    for (unsigned n_threads = 0; n_threads <= 5; n_threads++) {
        sw_pool *pool = NULL;
        sw_error err = {0};
        if (n_threads > 0) assert_int_equal(sw_pool_create(&pool, n_threads, &err), SW_OK);
        assert_int_equal(sw_pool_threads(pool), n_threads > 0 ? n_threads : 1);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) check(pool, counts[c], grains[g]);
        sw_pool_destroy(pool);
    }
}

/* A worker that sleeps through a loop, or runs one twice, shows up among many short ones. */
static void many_short_loops(void **state) {
    (void)state;
    sw_pool *pool;
    sw_error err = {0};
    assert_int_equal(sw_pool_create(&pool, 4, &err), SW_OK);
    for (size_t round = 0; round < 2000; round++) check(pool, 1 + round % 40, 1);
    sw_pool_destroy(pool);
}

static void a_pool_may_die_unused(void **state) {
    (void)state;
    sw_pool *pool;
    sw_error err = {0};
    for (unsigned n = 1; n <= 64; n += 21) {
        assert_int_equal(sw_pool_create(&pool, n, &err), SW_OK);
        sw_pool_destroy(pool);
    }
    sw_pool_destroy(NULL);
}

static void thread_counts_have_limits(void **state) {
    (void)state;
    sw_pool *pool = (sw_pool *)&pool;
    sw_error err = {0};
    assert_int_equal(sw_pool_create(&pool, 65, &err), SW_INVALID_ARGUMENT);
    assert_null(pool);
    assert_non_null(strstr(err.message, "65"));
    assert_int_equal(sw_pool_create(&pool, 0, &err), SW_OK);
    assert_in_range(sw_pool_threads(pool), 1, 64);
    sw_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_index_once),
        cmocka_unit_test(many_short_loops),
        cmocka_unit_test(a_pool_may_die_unused),
        cmocka_unit_test(thread_counts_have_limits),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
