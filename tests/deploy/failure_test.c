/* The list of failures: complete rows, texts of real adb servers and devices, and lines that are no reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "deploy/failure.h"

static void rows_are_whole(void **state) {
    (void)state;
    for (size_t i = 0; i < sw_n_adb_failures; i++) {
        const sw_adb_failure *f = &sw_adb_failures[i];
        if (f->name[0] == '\0' || f->says[0] == '\0' || strlen(f->means) < 10 || strlen(f->next) < 10)
            fail_msg("row %zu, %s: something is missing", i, f->name);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(f->name, sw_adb_failures[k].name);
    }
}

/* As adb 29.0.6 of Debian 12 prints them, and for devices as users reported them. */
static void texts_are_recognized(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"no_device", "* daemon started successfully\nerror: no devices/emulators found\n"},
        {"no_device", "adb: error: failed to get feature set: no devices/emulators found\n"},
        {"several_devices", "error: more than one device/emulator"},
        {"unknown_serial", "error: device 'ABC' not found\n"},
        {"unauthorized", "error: device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set\n"},
        {"host_unknown",
         "* cannot start server on remote host\nerror: cannot connect to daemon at "
         "tcp:nosuch.invalid:5037: failed to resolve host: 'nosuch.invalid': Name or service not known"},
        {"server_refuses",
         "error: cannot connect to daemon at tcp:127.0.0.1:9: failed to connect to '127.0.0.1:9': "
         "Connection refused\r\n"},
        {"protocol", "error: protocol fault (status 48 54 54 50?!)"},
        {"no_space", "adb: error: failed to copy 'a' to 'b': remote write failed: No space left on device"},
        {"denied", "mkdir: '/data/spillway': Permission denied"},
        {"wrong_machine", "/system/bin/sh: ./bin/spillway: not executable: 64-bit ELF file"},
        {"linker",
         "./bin/spillway: /lib/libc.so.6: version `GLIBC_2.34' not found (required by ./bin/spillway)"},
        {"disconnected", "adb: error: failed to copy 'a' to 'b': couldn't read from device"},
        {"offline", "the device is in state `offline`"},
        {"wrong_state", "the device is in state `recovery`"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const sw_adb_failure *f = sw_adb_failure_find(rows[i][1]);
        if (f == NULL || strcmp(f->name, rows[i][0]) != 0)
            fail_msg("`%s` is taken for %s, wanted %s", rows[i][1], f != NULL ? f->name : "nothing",
                     rows[i][0]);
    }
    assert_null(sw_adb_failure_find("all went well"));
    assert_null(sw_adb_failure_find(""));
    /* Parts of a pattern must be in one line, and in order. */
    assert_null(sw_adb_failure_find("device 'x'\nfile not found"));
    assert_null(sw_adb_failure_find("not found: device 'x"));
}

static void the_sentence(void **state) {
    (void)state;
    sw_error err;
    assert_int_equal(sw_adb_fail(&err, "noise\nerror: device offline\n", "pushing %s", "x"), SW_IO);
    assert_string_equal(
        err.message,
        "pushing x: the device doesn't answer; plug it in again, or run `adb reconnect offline`; a "
        "phone over Wi-Fi may have fallen asleep (\"error: device offline\")");
    assert_int_equal(sw_adb_fail(&err, "one\ntwo\n\n", "pushing"), SW_IO);
    assert_string_equal(err.message, "pushing: \"two\"");
    assert_int_equal(sw_adb_fail(&err, "\r\n", "pushing"), SW_IO);
    assert_non_null(strstr(err.message, "no reason was given"));
}

/* Lines that Qualcomm's libraries write in good runs: not taken for denied access. */
static void harmless_lines(void **state) {
    (void)state;
    static const char noise[] = "Error 0xd: open_shell failed for domain 3 (errno Permission denied)";
    assert_true(sw_adb_line_is_harmless(noise));
    assert_false(sw_adb_line_is_harmless("error: no space"));
    assert_null(sw_adb_failure_find(noise));
    sw_error err;
    (void)!sw_adb_fail(&err, "the real one\nError 0xd: open_shell failed (errno Permission denied)\n",
                       "running");
    assert_string_equal(err.message, "running: \"the real one\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_whole),
                                       cmocka_unit_test(texts_are_recognized), cmocka_unit_test(the_sentence),
                                       cmocka_unit_test(harmless_lines)};
    return cmocka_run_group_tests_name("failure", tests, NULL, NULL);
}
