/* What a signal leaves: nothing that was half written, no program that was started, and its own exit status.
 * Each case is a process that sends the signal to itself. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/interrupt.h"

static char folder[64], path[128], part[128], made[128];
static int pipe_ends[2];
static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/spillway-test-XXXXXX");
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(made, sizeof made, "%s/made", folder);
    snprintf(part, sizeof part, "%s/made/part", folder);
    return pipe(pipe_ends);
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path), rmdir(folder);
    close(pipe_ends[0]);
    return 0;
}

/* The wait status of a process that does this and then gets the signal. */
static int run(void (*before)(void), int number) {
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sw_interrupt_catch();
        before();
        raise(number);
        _exit(7);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static size_t files_left(void) { /* in the folder */
    char command[160];
    size_t n = 0;
    snprintf(command, sizeof command, "ls -A %s | wc -l", folder);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%zu", &n), 1);
    pclose(f);
    return n;
}

static void write_half(void) {
    static sw_file_writer w;
    if (sw_file_writer_open(&w, path, NULL) != SW_OK) _exit(1);
    fputs("half", w.stream);
    fflush(w.stream);
}

static void write_whole(void) {
    write_half();
    if (sw_file_replace(path, "whole", 5, NULL) != SW_OK) _exit(1);
}

static void make_folders(void) {
    char name[200];
    mkdir(made, 0777), mkdir(part, 0777);
    sw_interrupt_add_empty_folder(made);
    sw_interrupt_add_folder(part);
    for (int i = 0; i < 300; i++) { /* more than one call gives */
        snprintf(name, sizeof name, "%s/a name that is not quite short %d", part, i);
        fclose(fopen(name, "w"));
    }
}

static void start_a_program(void) {
    pid_t child = fork();
    if (child == 0) {
        sw_interrupt_forget();
        close(pipe_ends[0]); /* the other end stays open as long as this lives */
        for (;;) pause();
    }
    sw_interrupt_add_process(child);
}

static void nothing_half_written_is_left(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int status = run(write_half, numbers[i]);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), numbers[i]);
        assert_int_equal(files_left(), 0);
        status = run(write_whole, numbers[i]); /* one of them is whole: it stays */
        assert_true(WIFSIGNALED(status));
        assert_int_equal(files_left(), 1);
        unlink(path);
        assert_int_equal(WTERMSIG(run(make_folders, numbers[i])), numbers[i]);
        assert_int_equal(files_left(), 0);
    }
}

static void programs_are_ended(void **state) {
    (void)state;
    char byte;
    assert_int_equal(WTERMSIG(run(start_a_program, SIGTERM)), SIGTERM);
    close(pipe_ends[1]);
    assert_int_equal(read(pipe_ends[0], &byte, 1), 0); /* waits for the last writer's end */
}

static void ignore_and_write(void) {
    signal(SIGHUP, SIG_IGN);
    sw_interrupt_catch();
    write_half();
}

/* As under nohup: the program goes on. */
static void what_was_ignored_stays_so(void **state) {
    (void)state;
    int status;
    pid_t child = fork();
    if (child == 0) {
        ignore_and_write();
        raise(SIGHUP);
        _exit(files_left() == 1 ? 7 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_int_equal(files_left(), 1);
    char command[160];
    snprintf(command, sizeof command, "rm %s/*", folder);
    assert_int_equal(system(command), 0);
}

static void hold_and_write(void) {
    write_half();
    sw_interrupt_hold();
    raise(SIGINT);
    if (files_left() != 1) _exit(8); /* not yet */
    sw_interrupt_release();
    _exit(9); /* not reached */
}

static void a_step_is_done_or_not_done(void **state) {
    (void)state;
    int status = run(hold_and_write, SIGTERM);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGINT);
    assert_int_equal(files_left(), 0);
}

static void *make_and_remove(void *argument) {
    char name[200];
    snprintf(name, sizeof name, "%s/thread %p", folder, argument);
    for (;;) {
        sw_interrupt_hold();
        mkdir(name, 0777);
        sw_interrupt_hold();
        int entry = sw_interrupt_add_empty_folder(name);
        sw_interrupt_release();
        sw_interrupt_release();
        usleep(50);
        sw_interrupt_hold();
        rmdir(name);
        sw_interrupt_drop(entry);
        sw_interrupt_release();
    }
    return NULL;
}

static void make_in_threads(void) {
    static char of[3];
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        if (pthread_create(&thread, NULL, make_and_remove, &of[i]) != 0) _exit(1);
    usleep(2000);
    raise(SIGTERM);
    sleep(20); /* where a thread holds, its release ends the process */
}

static void no_thread_goes_on_behind_the_end(void **state) {
    (void)state;
    for (int i = 0; i < 60; i++) {
        assert_true(WIFSIGNALED(run(make_in_threads, SIGTERM)));
        assert_int_equal(files_left(), 0);
    }
}

static void forget_in_a_child(void) {
    write_half();
    pid_t child = fork();
    if (child == 0) {
        sw_interrupt_forget();
        raise(SIGINT);
    }
    waitpid(child, NULL, 0);
    _exit(files_left() == 1 ? 7 : 1); /* its parent's file is there */
}

static void a_child_undoes_nothing_of_its_parent(void **state) {
    (void)state;
    assert_int_equal(WEXITSTATUS(run(forget_in_a_child, SIGINT)), 7);
    char command[160];
    snprintf(command, sizeof command, "rm %s/*", folder);
    assert_int_equal(system(command), 0);
}

static void a_full_list_is_no_error(void **state) {
    (void)state;
    int entries[100];
    for (int i = 0; i < 100; i++) entries[i] = sw_interrupt_add_file(path);
    assert_int_not_equal(entries[0], 0);
    assert_int_equal(entries[99], 0);
    for (int i = 0; i < 100; i++) sw_interrupt_drop(entries[i]);
    int entry = sw_interrupt_add_file(path);
    assert_int_not_equal(entry, 0);
    sw_interrupt_drop(entry);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_half_written_is_left),
        cmocka_unit_test(programs_are_ended),
        cmocka_unit_test(what_was_ignored_stays_so),
        cmocka_unit_test(a_step_is_done_or_not_done),
        cmocka_unit_test(no_thread_goes_on_behind_the_end),
        cmocka_unit_test(a_child_undoes_nothing_of_its_parent),
        cmocka_unit_test(a_full_list_is_no_error),
    };
    return cmocka_run_group_tests_name("interrupt", tests, make_folder, remove_folder);
}
