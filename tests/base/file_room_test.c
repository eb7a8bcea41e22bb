/* A file that is written as memory: what others find of it, and where it can't be made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_room.h"

static char folder[] = "/tmp/spillway-file-room-test-XXXXXX";
static char path[128];

static int make_folder(void **state) {
    (void)state;
    strcpy(strrchr(folder, '-'), "-XXXXXX");
    if (mkdtemp(folder) == NULL) return 1;
    snprintf(path, sizeof path, "%s/room.bin", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

/* Larger than a page, not whole pages; what was in the file before is gone. */
static void others_find_the_used_bytes(void **state) {
    (void)state;
    enum { SIZE = 100000, USED = 70001 };
    sw_error err;
    sw_file_room room;
    sw_file_map map;
    char old[2 * SIZE];
    memset(old, 'o', sizeof old);
    assert_int_equal(sw_file_replace(path, old, sizeof old, &err), SW_OK);
    assert_int_equal(sw_file_room_open(&room, path, SIZE, &err), SW_OK);
    assert_int_equal(room.size, SIZE);
    for (uint32_t i = 0; i < SIZE; i++) {
        assert_int_equal(room.data[i], 0);
        room.data[i] = (uint8_t)(i % 251);
    }
    assert_int_equal(sw_file_room_finish(&room, USED, &err), SW_OK);
    for (int closed = 0; closed < 2; closed++) { /* before, the data is still the writer's to read */
        if (!closed) assert_int_equal(room.data[USED - 1], (USED - 1) % 251);
        assert_int_equal(sw_file_map_open(&map, path, &err), SW_OK);
        assert_int_equal(map.size, USED);
        for (uint32_t i = 0; i < USED; i++) assert_int_equal(map.data[i], i % 251);
        sw_file_map_close(&map);
        sw_file_room_close(&room);
    }
    assert_null(room.data);
    sw_file_room_close(&room); /* no-op */
}

/* As on a full disk: at once, in words, and not by a signal when the memory is touched. */
static void too_little_room_shows_at_once(void **state) {
    (void)state;
    sw_error err;
    sw_file_room room;
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before, small.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    const sw_code code = sw_file_room_open(&room, path, 1 << 20, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(code, SW_IO);
    char want[200];
    snprintf(want, sizeof want, "%s: can't write: File too large", path);
    assert_string_equal(err.message, want);
    sw_file_room_close(&room); /* no-op */
}

static void a_path_that_can_not_be_is_named(void **state) {
    (void)state;
    sw_error err;
    sw_file_room room;
    assert_int_equal(sw_file_room_open(&room, "/proc/none/room.bin", 100, &err), SW_IO);
    assert_string_equal(err.message, "/proc/none/room.bin: can't create: No such file or directory");
    assert_int_equal(sw_file_room_open(&room, folder, 100, &err), SW_IO);
    assert_null(room.data);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {TEST(others_find_the_used_bytes), TEST(too_little_room_shows_at_once),
                                       TEST(a_path_that_can_not_be_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
