/* file_test.c: files are read whole or refused, replaced whole or left as they were. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

static char folder[] = "/tmp/spillway-file-test-XXXXXX";
static char path[128];

static const char *in_folder(const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Entries in the folder, without . and .. */
static int entries(void) {
    DIR *d = opendir(folder);
    assert_non_null(d);
    int n = -2;
    while (readdir(d) != NULL) n++;
    closedir(d);
    return n;
}

static void assert_content(const char *name, const char *want) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_error err = {0};
    char *text;
    size_t size;
    assert_int_equal(sw_file_read(in_folder(name), 1000, &arena, &text, &size, &err), SW_OK);
    assert_int_equal(size, strlen(want));
    assert_memory_equal(text, want, size + 1); /* the zero byte too */
    sw_arena_free(&arena);
}

static void put(const char *name, const char *text) {
    sw_error err = {0};
    assert_int_equal(sw_file_replace(in_folder(name), text, strlen(text), &err), SW_OK);
}

static int make_folder(void **state) {
    (void)state;
    strcpy(strrchr(folder, '-'), "-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    (void)state;
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static void a_reader_sees_the_old_file_until_commit(void **state) {
    (void)state;
    put("a", "old");
    sw_file_writer w;
    sw_error err = {0};
    assert_int_equal(sw_file_writer_open(&w, in_folder("a"), &err), SW_OK);
    assert_int_equal(sw_file_writer_write(&w, "ne", 2, &err), SW_OK);
    assert_int_equal(fflush(w.stream), 0);
    assert_content("a", "old");
    assert_int_equal(sw_file_writer_write(&w, "w", 1, &err), SW_OK);
    assert_int_equal(sw_file_writer_write(&w, NULL, 0, &err), SW_OK);
    assert_content("a", "old");
    assert_int_equal(sw_file_writer_commit(&w, &err), SW_OK);
    assert_content("a", "new");
    assert_int_equal(entries(), 1);
    sw_file_writer_discard(&w); /* a no-op */
    assert_content("a", "new");
}

static void a_replaced_file_has_the_mode_of_a_new_one(void **state) {
    (void)state;
    mode_t old = umask(027);
    put("a", "x");
    umask(old);
    struct stat st;
    assert_int_equal(stat(in_folder("a"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
}

static void discard_leaves_nothing(void **state) {
    (void)state;
    sw_file_writer w;
    sw_error err = {0};
    assert_int_equal(sw_file_writer_open(&w, in_folder("a"), &err), SW_OK);
    assert_int_equal(sw_file_writer_write(&w, "half", 4, &err), SW_OK);
    sw_file_writer_discard(&w);
    assert_int_equal(entries(), 0);
    put("a", "old");
    assert_int_equal(sw_file_writer_open(&w, in_folder("a"), &err), SW_OK);
    sw_file_writer_discard(&w);
    sw_file_writer_discard(&w);
    assert_int_equal(entries(), 1);
    assert_content("a", "old");
}

static void two_writers_do_not_meet(void **state) {
    (void)state;
    sw_file_writer one, two;
    sw_error err = {0};
    assert_int_equal(sw_file_writer_open(&one, in_folder("a"), &err), SW_OK);
    assert_int_equal(sw_file_writer_open(&two, in_folder("a"), &err), SW_OK);
    assert_int_equal(sw_file_writer_write(&one, "one", 3, &err), SW_OK);
    assert_int_equal(sw_file_writer_write(&two, "two", 3, &err), SW_OK);
    assert_int_equal(sw_file_writer_commit(&two, &err), SW_OK);
    assert_content("a", "two");
    assert_int_equal(sw_file_writer_commit(&one, &err), SW_OK);
    assert_content("a", "one");
    assert_int_equal(entries(), 1);
}

/* A full disk may hit an fprintf on the stream that nobody looked at, and have room again at commit: the file
 * would have a hole. The limit on file sizes stands in for the disk. */
static void a_failed_write_is_not_committed(void **state) {
    (void)state;
    put("a", "old");
    sw_file_writer w;
    sw_error err = {0};
    assert_int_equal(sw_file_writer_open(&w, in_folder("a"), &err), SW_OK);
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 100;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 10000; i++) fprintf(w.stream, "line %d\n", i);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, handler);
    fprintf(w.stream, "and room again\n");
    assert_int_equal(sw_file_writer_commit(&w, &err), SW_IO);
    assert_non_null(strstr(err.message, in_folder("a")));
    assert_content("a", "old");
    assert_int_equal(entries(), 1);
}

/* Also where the stream has nothing left to write by then: it drops what it couldn't. */
static void a_failed_write_tells_the_systems_reason(void **state) {
    (void)state;
    struct rlimit limit, small;
    sw_error err = {0};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 100;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (size_t n = 4000; n < 9000; n += n % 4096 < 16 || n % 4096 > 4080 ? 1 : 16) {
        sw_file_writer w;
        assert_int_equal(sw_file_writer_open(&w, in_folder("a"), &err), SW_OK);
        setrlimit(RLIMIT_FSIZE, &small);
        for (size_t i = 0; i < n; i++) fputc('x', w.stream);
        assert_int_equal(sw_file_writer_commit(&w, &err), SW_IO);
        setrlimit(RLIMIT_FSIZE, &limit);
        if (strstr(err.message, strerror(EFBIG)) == NULL) fail_msg("%zu bytes: %s", n, err.message);
    }
    signal(SIGXFSZ, handler);
    assert_int_equal(entries(), 0);
}

static void only_regular_files_are_read_or_replaced(void **state) {
    (void)state;
    sw_error err = {0};
    assert_int_equal(sw_folder_make(in_folder("folder"), &err), SW_OK);
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    assert_int_equal(symlink("/dev/null", in_folder("link")), 0);
    static const struct {
        const char *name, *kind, *kind_to_write;
    } rows[] = {{"folder", "a folder", "a folder"},
                {"fifo", "a fifo", "a fifo"},
                {"link", "a device", "a symbolic link"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *name = in_folder(rows[i].name);
        sw_arena arena = SW_ARENA_EMPTY;
        sw_file_map map;
        char *text = NULL;
        size_t size = 1;
        assert_int_equal(sw_file_map_open(&map, name, &err), SW_IO);
        assert_non_null(strstr(err.message, rows[i].kind));
        assert_non_null(strstr(err.message, name));
        assert_int_equal(sw_file_read(name, 1000, &arena, &text, &size, &err), SW_IO);
        assert_non_null(strstr(err.message, rows[i].kind));
        assert_null(text);
        assert_int_equal(size, 0);
        assert_int_equal(sw_file_replace(name, "x", 1, &err), SW_IO);
        assert_non_null(strstr(err.message, rows[i].kind_to_write));
    }
    assert_int_equal(entries(), 3); /* nothing beside them */
    put("file", "mine");
    assert_int_equal(symlink("file", in_folder("to_file")), 0);
    assert_int_equal(symlink("nowhere", in_folder("to_nothing")), 0);
    assert_int_equal(sw_file_replace(in_folder("to_file"), "x", 1, &err), SW_IO);
    assert_int_equal(sw_file_replace(in_folder("to_nothing"), "x", 1, &err), SW_IO);
    assert_int_equal(entries(), 6);
    assert_int_equal(sw_file_replace("", "x", 1, &err), SW_INVALID_ARGUMENT);
    assert_int_equal(sw_file_replace(in_folder("missing/a"), "x", 1, &err), SW_IO);
}

static void what_is_missing_is_not_found(void **state) {
    (void)state;
    sw_error err = {0};
    sw_file_map map;
    assert_int_equal(sw_file_map_open(&map, in_folder("no"), &err), SW_NOT_FOUND);
    assert_non_null(strstr(err.message, in_folder("no")));
    sw_file_map_close(&map); /* empty: allowed */
}

static void a_file_over_the_limit_is_refused(void **state) {
    (void)state;
    put("a", "12345");
    sw_arena arena = SW_ARENA_EMPTY;
    sw_error err = {0};
    char *text;
    size_t size;
    assert_int_equal(sw_file_read(in_folder("a"), 4, &arena, &text, &size, &err), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "5 bytes"));
    assert_int_equal(sw_file_read(in_folder("a"), 5, &arena, &text, &size, &err), SW_OK);
    put("empty", "");
    assert_int_equal(sw_file_read(in_folder("empty"), 0, &arena, &text, &size, &err), SW_OK);
    assert_string_equal(text, "");
    sw_arena_free(&arena);
}

static void a_map_has_the_content_also_after_its_pages_were_dropped(void **state) {
    (void)state;
    enum { SIZE = 20000 };
    static char data[SIZE];
    for (int i = 0; i < SIZE; i++) data[i] = (char)(i * 7);
    sw_error err = {0};
    assert_int_equal(sw_file_replace(in_folder("a"), data, SIZE, &err), SW_OK);
    sw_file_map map;
    assert_int_equal(sw_file_map_open(&map, in_folder("a"), &err), SW_OK);
    assert_int_equal(map.size, SIZE);
    static const uint64_t ranges[][2] = {
        {0, SIZE},   {1, 5000},       {0, 0},          {SIZE, 0},
        {SIZE, 1},   {UINT64_MAX, 1}, {1, UINT64_MAX}, {4096, UINT64_MAX - 4095},
        {4095, 4097}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        sw_file_map_drop_pages(&map, ranges[i][0], ranges[i][1]);
        assert_memory_equal(map.data, data, SIZE);
    }
    sw_file_map_close(&map);
    put("empty", "");
    assert_int_equal(sw_file_map_open(&map, in_folder("empty"), &err), SW_OK);
    assert_int_equal(map.size, 0);
    sw_file_map_drop_pages(&map, 0, 0);
    sw_file_map_close(&map);
}

/* In a child: touching a page that the file no longer has must end in a sentence and status 1. */
static void a_file_that_shrinks_is_named(void **state) {
    (void)state;
    static char data[3 * 65536];
    sw_error err = {0};
    assert_int_equal(sw_file_replace(in_folder("a"), data, sizeof data, &err), SW_OK);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        sw_file_map map;
        if (sw_file_map_open(&map, path, &err) != SW_OK || truncate(path, 10) != 0) _exit(3);
        sw_file_report_shrinking();
        _exit(*(const volatile uint8_t *)(map.data + 2 * 65536) == 0 ? 4 : 5);
    }
    close(ends[1]);
    char said[300] = "";
    size_t n = 0;
    for (ssize_t got; (got = read(ends[0], said + n, sizeof said - 1 - n)) > 0;) n += (size_t)got;
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_non_null(strstr(said, path));
    assert_non_null(strstr(said, "shorter"));
}

static void folders_are_made_with_their_parents(void **state) {
    (void)state;
    sw_error err = {0};
    struct stat st;
    assert_int_equal(sw_folder_make(in_folder("x/y//z/"), &err), SW_OK);
    assert_int_equal(stat(in_folder("x/y/z"), &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(sw_folder_make(in_folder("x/y"), &err), SW_OK);
    put("file", "");
    assert_int_equal(sw_folder_make(in_folder("file"), &err), SW_IO);
    assert_int_equal(sw_folder_make(in_folder("file/below"), &err), SW_IO);
    assert_non_null(strstr(err.message, in_folder("file")));
    assert_int_equal(sw_folder_make("", &err), SW_IO);
    assert_int_equal(sw_folder_make("/", &err), SW_OK);
}

static void paths_join_with_one_slash(void **state) {
    (void)state;
    sw_arena arena = SW_ARENA_EMPTY;
    assert_string_equal(sw_path_join(&arena, "out", "a.bin"), "out/a.bin");
    assert_string_equal(sw_path_join(&arena, "out/", "a.bin"), "out/a.bin");
    sw_arena_free(&arena);
}

#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        FILE_TEST(a_reader_sees_the_old_file_until_commit),
        FILE_TEST(a_replaced_file_has_the_mode_of_a_new_one),
        FILE_TEST(discard_leaves_nothing),
        FILE_TEST(two_writers_do_not_meet),
        FILE_TEST(a_failed_write_is_not_committed),
        FILE_TEST(a_failed_write_tells_the_systems_reason),
        FILE_TEST(only_regular_files_are_read_or_replaced),
        FILE_TEST(what_is_missing_is_not_found),
        FILE_TEST(a_file_over_the_limit_is_refused),
        FILE_TEST(a_map_has_the_content_also_after_its_pages_were_dropped),
        FILE_TEST(a_file_that_shrinks_is_named),
        FILE_TEST(folders_are_made_with_their_parents),
        FILE_TEST(paths_join_with_one_slash),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
