/* memory_test.c: what is counted, against what is taken here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"

enum { MB = 1 << 20, TAKEN = 64 * MB };

static void *take(void) {
    void *memory = mmap(NULL, TAKEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    memset(memory, 1, TAKEN);
    return memory;
}

static void a_peak_stays_until_it_starts_anew(void **state) {
    (void)state;
    munmap(take(), TAKEN);
    const uint64_t peak = sw_peak_memory_bytes(), now = sw_process_memory_bytes(getpid());
    assert_true(now > 0 && peak >= now + TAKEN / 2);
    sw_peak_memory_restart();
    if (sw_peak_memory_bytes() == peak) skip(); /* a system that can't */
    assert_true(sw_peak_memory_bytes() < peak - TAKEN / 2);
}

static void a_process_that_is_gone_has_none(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(sw_process_memory_bytes(child), 0);
}

/* A child that holds its memory until it is told to end: what both have is the peak. */
static void a_watch_adds_up_processes(void **state) {
    (void)state;
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        take();
        if (write(ready[1], "1", 1) == 1) pause();
        _exit(0);
    }
    void *own = take();
    assert_int_equal(read(ready[0], &byte, 1), 1);
    sw_memory_watch *watch = sw_memory_watch_start();
    assert_non_null(watch);
    sw_memory_watch_add(watch, child);
    uint64_t peak = 0;
    for (int i = 0; i < 500 && peak == 0; i++) {
        usleep(10000);
        peak = sw_memory_watch_take_peak(watch);
    }
    assert_true(peak >= 2 * (uint64_t)TAKEN);
    sw_memory_watch_remove(watch, child);
    sw_memory_watch_stop(watch);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    munmap(own, TAKEN);
    close(ready[0]), close(ready[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_peak_stays_until_it_starts_anew),
                                       cmocka_unit_test(a_process_that_is_gone_has_none),
                                       cmocka_unit_test(a_watch_adds_up_processes)};
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
