/* --cache: what was compiled is taken again, to the byte, but only for the same graphs and options, and only
 * whole. */
#include <glob.h>

#include "cli/random_gguf.h"
#include "cli/run_program.h"
#include "cli/tiny_bundle.h"

#define QNN     SW_SOURCE_DIR "/external/qnn/onnxruntime_qnn"
#define COMPILE "compile", "-m", "SM8750", "--qnn_lib", QNN, "--artifact"
#define TINY    "--model", gguf, "--max_seq_len", "96", "--prefill_ar_len", "16", "--num_sharding", "2"

static char gguf[128];
static sw_error err;

static int set_up(void **state) {
    bytes b = {0};
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    snprintf(gguf, sizeof gguf, "%s", write_file("tiny.gguf", b.data, b.size));
    free(b.data);
    return 0;
}

static void assert_same_contexts(const char *path, const char *other) {
    sw_bundle a, b;
    BUNDLE_OK(sw_bundle_open(&a, path, &err));
    BUNDLE_OK(sw_bundle_open(&b, other, &err));
    for (uint32_t i = 0; i < 2; i++)
        assert_string_equal(sw_bundle_part(&a, SW_PART_CONTEXT, i)->sha256,
                            sw_bundle_part(&b, SW_PART_CONTEXT, i)->sha256);
    for (uint32_t i = 0; i < 4; i++) {
        const sw_manifest_graph *x = &a.manifest.graphs[i], *y = &b.manifest.graphs[i];
        assert_int_equal(x->vtcm_bytes, y->vtcm_bytes);
        assert_int_equal(x->ddr.read, y->ddr.read);
        assert_string_equal(x->slc_reason, y->slc_reason);
    }
    sw_bundle_close(&a);
    sw_bundle_close(&b);
}

static void damage(const char *cache) {
    char pattern[256];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/contexts/*.bin", cache);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *f = fopen(found.gl_pathv[i], "r+b");
        assert_non_null(f);
        fseek(f, 1000, SEEK_SET);
        const int byte = fgetc(f);
        fseek(f, 1000, SEEK_SET);
        fputc(byte ^ 1, f);
        assert_int_equal(fclose(f), 0);
    }
    globfree(&found);
}

static void taken_again_when_nothing_changed(void **state) {
    (void)state;
    const char *first = in_folder("first"), *second = in_folder("second"), *cache = in_folder("cache");
    ran r = RUN(COMPILE, first, TINY, "--cache", cache);
    check_ran(&r, 0, "compiled into");
    assert_null(strstr(r.err, "from the cache"));
    ran_free(&r);
    r = RUN(COMPILE, second, TINY, "--cache", cache);
    check_ran(&r, 0, "context binaries: 2 of 2 from the cache");
    ran_free(&r);
    assert_same_contexts(first, second);

    r = RUN(COMPILE, second, TINY, "--cache", cache, "--vtcm_mb", "4");
    check_ran(&r, 0, "compiled into");
    assert_null(strstr(r.err, "from the cache"));
    ran_free(&r);

    damage(cache);
    r = RUN(COMPILE, second, TINY, "--cache", cache);
    check_ran(&r, 0, "not taken from the cache, compiled again");
    ran_free(&r);
    assert_same_contexts(first, second);
}

/* The float weights are gone when the bundle is written, whose graphs with a head in pieces are looked at. */
static void heads_in_pieces(void **state) {
    (void)state;
    const sw_hparams h = {.n_layers = 1,
                          .hidden = 64,
                          .n_heads = 2,
                          .n_kv_heads = 1,
                          .head_dim = 32,
                          .ffn = 64,
                          .vocab = 128256,
                          .context_max = 128,
                          .tied_embeddings = true};
    const char *path = in_folder("head.gguf"), *bundle = in_folder("head"), *cache = in_folder("cache");
    random_gguf_write(path, &h);
    for (int i = 0; i < 2; i++) {
        ran r = RUN(COMPILE, bundle, "--model", path, "--max_seq_len", "64", "--calib_samples", "3",
                    "--cache", cache);
        check_ran(&r, 0, i == 0 ? "compiled into" : "context binaries: 1 of 1 from the cache");
        ran_free(&r);
    }
    sw_bundle b;
    BUNDLE_OK(sw_bundle_open(&b, bundle, &err));
    assert_int_equal(b.manifest.graphs[0].head_pieces, 2);
    sw_bundle_close(&b);
}

int main(void) {
    if (access(QNN "/libQnnHtp.so", R_OK) != 0) {
        printf("skipped: needs Qualcomm's libraries (scripts/fetch.sh)\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(taken_again_when_nothing_changed, set_up, remove_folder),
        cmocka_unit_test_setup_teardown(heads_in_pieces, set_up, remove_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
