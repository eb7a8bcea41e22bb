/* What is handed over as a bundle and isn't one is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bundle/fixture.h"

static void put_u64(uint8_t *at, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static void assert_named(const void *data, size_t size, const char *message) {
    char path[600];
    sw_bundle b;
    put_file("thing", data, size);
    join(path, sizeof path, "thing");
    assert_int_equal(sw_bundle_open(&b, path, &err), SW_BAD_DATA);
    if (strstr(err.message, message) == NULL) fail_msg("wanted `%s`, is `%s`", message, err.message);
}

static void other_things_are_named(void **state) {
    (void)state;
    enum { PROGRAM = 64, WRAPPER = 256, BLOB = 100, SIZE = PROGRAM + WRAPPER + BLOB };
    uint8_t pte[SIZE] = {0};
    put_u64(pte, 36, 4);
    memcpy(pte + 4, "ET12eh00", 8);
    put_u64(pte + 12, 32, 4);
    put_u64(pte + 16, PROGRAM, 8);
    put_u64(pte + 24, PROGRAM, 8);
    put_u64(pte + 32, WRAPPER + BLOB, 8);
    put_u64(pte + PROGRAM, 0x5678abcd, 4);
    put_u64(pte + PROGRAM + 12, BLOB, 8);
    assert_named(pte, SIZE, "is an ExecuTorch program, not a bundle");
    assert_non_null(strstr(err.message, "give the checkpoint it was made from to `spillway llama`"));
    assert_non_null(strstr(err.message, "it holds a QNN context binary of 100 bytes at byte 320"));

    static const struct {
        size_t at;
        uint64_t value;
        unsigned bytes;
        const char *message;
    } fields[] = {
        {0, UINT32_MAX, 4, "the root table at byte 4294967295 is beyond the end (420)"},
        {7, '1', 1, "its version is `ET11`, known is `ET12`"},
        {11, '1', 1, "its extended header is `eh01`, known is `eh00`"},
        {12, 0, 4, "the extended header's length is 0, wanted 24 or 32"},
        {12, 23, 4, "the extended header's length is 23, wanted 24 or 32"},
        {12, UINT32_MAX, 4, "the extended header's length is 4294967295, wanted 24 or 32"},
        {16, UINT64_MAX, 8, "a program of 18446744073709551615 bytes"},
        {24, UINT64_MAX, 8, "at byte 18446744073709551615, in a file of 420"},
        {32, WRAPPER + BLOB + 1, 8, "segments of 357 at byte 64, in a file of 420"},
        {PROGRAM + 12, 0, 8, "wrapper at byte 64 claims 0 bytes, 100 are there"},
        {PROGRAM + 12, UINT64_MAX, 8, "wrapper at byte 64 claims 18446744073709551615 bytes, 100 are there"},
        {PROGRAM + 12, BLOB + 1, 8, "wrapper at byte 64 claims 101 bytes, 100 are there"},
        {PROGRAM, 0x5678abce, 4, "`spillway llama`"},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        uint8_t bad[SIZE];
        memcpy(bad, pte, SIZE);
        put_u64(bad + fields[i].at, fields[i].value, fields[i].bytes);
        assert_named(bad, SIZE, "is an ExecuTorch program, not a bundle");
        if (strstr(err.message, fields[i].message) == NULL) fail_msg("%s", err.message);
    }
    for (size_t n = 1; n < SIZE; n++)
        assert_named(pte, n, n < 8 ? "a bundle is a folder" : "ExecuTorch program");
    assert_named(pte, 39, "it ends inside the extended header");
    assert_named(pte, 0, "is an empty file");
    assert_named("GGUF\3\0\0\0", 8, "is a GGUF checkpoint, not a bundle; compile it with `spillway llama`");
    assert_named("PK\3\4....", 8, "is a ZIP archive");
    assert_named("hello, world", 12, "is a file; a bundle is a folder with a manifest.json");

    sw_bundle b;
    char path[600];
    put_file("context.bin", "\0\0\0\2", 4);
    join(path, sizeof path, "context.bin");
    assert_int_equal(sw_bundle_open(&b, path, &err), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "perhaps a QNN context binary, which is one part of a bundle"));
    assert_int_equal(sw_bundle_open(&b, "no such folder", &err), SW_NOT_FOUND);
    assert_int_equal(sw_bundle_open(&b, "", &err), SW_NOT_FOUND);
    assert_int_equal(sw_bundle_open(&b, "/dev/null", &err), SW_IO);
    assert_refused("is no bundle: it has no manifest.json");
    put_file("config.json", "{}", 2);
    assert_refused(
        "is a Hugging Face checkpoint, not a bundle, and this build reads checkpoints from GGUF files only");
    join(path, sizeof path, SW_PARTIAL_NAME);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_refused("is an incomplete bundle");
    rmdir(path);
    join(path, sizeof path, SW_MANIFEST_NAME);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_refused("manifest.json: is a folder, wanted a regular file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(other_things_are_named),
    };
    return cmocka_run_group_tests(tests, make_all, remove_all);
}
