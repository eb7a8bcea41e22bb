/* A file under two names, by a copy or shared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_copy.h"

static char folder[] = "/tmp/spillway-file-copy-test-XXXXXX";
static char from[128], to[128];
static sw_error err;

static int make_folder(void **state) {
    (void)state;
    strcpy(strrchr(folder, '-'), "-XXXXXX");
    if (mkdtemp(folder) == NULL) return 1;
    snprintf(from, sizeof from, "%s/from", folder);
    snprintf(to, sizeof to, "%s/to", folder);
    return 0;
}

/* Nothing but the two names is left. */
static int remove_folder(void **state) {
    (void)state;
    unlink(from), unlink(to);
    return rmdir(folder);
}

static void put(const char *path, const char *text) {
    assert_int_equal(sw_file_replace(path, text, strlen(text), &err), SW_OK);
}

static void assert_content(const char *path, const char *want) {
    sw_file_map map;
    assert_int_equal(sw_file_map_open(&map, path, &err), SW_OK);
    assert_int_equal(map.size, strlen(want));
    assert_memory_equal(map.data, want, strlen(want));
    sw_file_map_close(&map);
}

static ino_t inode(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_ino;
}

/* SHA-256 of "abc": FIPS 180-4, the example of its appendix. */
static void a_copy_is_another_file_and_tells_its_hash(void **state) {
    (void)state;
    char sha256[SW_SHA256_HEX_BYTES];
    put(from, "abc");
    assert_int_equal(sw_file_copy(from, to, sha256, &err), SW_OK);
    assert_content(to, "abc");
    assert_string_equal(sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_true(inode(from) != inode(to));
}

static void a_shared_file_outlives_either_name(void **state) {
    (void)state;
    put(from, "new");
    put(to, "old");
    for (int again = 0; again < 2; again++) { /* the second time both are one file already */
        assert_int_equal(sw_file_share(from, to, &err), SW_OK);
        assert_content(to, "new");
        assert_true(inode(from) == inode(to));
    }
    put(from, "newer"); /* replaced, not written through */
    assert_content(to, "new");
    unlink(from);
    assert_content(to, "new");
}

static void between_file_systems_it_is_a_copy(void **state) {
    (void)state;
    struct stat here, there;
    char other[] = "/dev/shm/spillway-file-copy-test-XXXXXX";
    const int fd = mkstemp(other);
    if (fd < 0 || stat(folder, &here) != 0 || fstat(fd, &there) != 0 || here.st_dev == there.st_dev) {
        if (fd >= 0) close(fd), unlink(other);
        print_message("skipped: /dev/shm is no other file system\n");
        skip();
    }
    close(fd);
    put(from, "abc");
    const sw_code code = sw_file_share(from, other, &err);
    if (code == SW_OK) assert_content(other, "abc");
    unlink(other);
    assert_int_equal(code, SW_OK);
}

static void what_is_not_there_is_named(void **state) {
    (void)state;
    assert_int_equal(sw_file_share(from, to, &err), SW_NOT_FOUND);
    assert_non_null(strstr(err.message, from));
    assert_true(access(to, F_OK) != 0);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(a_copy_is_another_file_and_tells_its_hash), TEST(a_shared_file_outlives_either_name),
        TEST(between_file_systems_it_is_a_copy), TEST(what_is_not_there_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
