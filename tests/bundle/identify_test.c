/* What is handed over as a bundle and isn't one is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bundle/fixture.h"
#include "bundle/pte_builder.h"

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
    pte_file pte;
    pte_build(&pte);
    assert_named(pte.data, PTE_SIZE, "is an ExecuTorch program, not a bundle");
    assert_non_null(strstr(err.message, "give the checkpoint it was made from to `spillway llama`"));
    assert_non_null(strstr(err.message, "it holds a QNN context binary of 100 bytes at byte 896"));
    for (size_t n = 1; n < PTE_SIZE; n++)
        assert_named(pte.data, n, n < 8 ? "a bundle is a folder" : "ExecuTorch program");
    assert_named(pte.data, 0, "is an empty file");
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
