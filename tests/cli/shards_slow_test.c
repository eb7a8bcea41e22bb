/* Shards through Qualcomm's compiler: a context binary each; the reply is that of one shard, on every device;
 * what the library for PCs can load runs from its binaries, and what it can't is said. */
#include "cli/run_program.h"
#include "cli/tiny_bundle.h"

#define QNN     SW_SOURCE_DIR "/external/qnn/onnxruntime_qnn"
#define MODEL   SW_SOURCE_DIR "/external/models/SmolLM2-135M-Instruct.Q4_1.gguf"
#define COMPILE "compile", "-m", "SM8750", "--qnn_lib", QNN, "--artifact"
#define TINY    "--model", gguf, "--max_seq_len", "96", "--prefill_ar_len", "16"

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

static char *answer(const char *path, const char *device, const char *prompt, const char *n_tokens) {
    ran r = RUN("generate", path, "--prompt", prompt, "--temperature", "0", "--max_seq_len", n_tokens,
                "--run_on", device, "--qnn_lib", QNN);
    char says[64];
    snprintf(says, sizeof says, "device: %s", device);
    check_ran(&r, 0, says);
    char *text = strdup(r.out);
    ran_free(&r);
    return text;
}

static void assert_answers(const char *path, const char *device, const char *wanted) {
    char *text = answer(path, device, "hello", "60");
    if (strcmp(text, wanted) != 0) fail_msg("%s: `%s`, wanted `%s`", device, text, wanted);
    free(text);
}

static void two_shards_answer_as_one(void **state) {
    (void)state;
    const char *one = in_folder("one"), *two = in_folder("two");
    ran r = RUN(COMPILE, one, TINY);
    check_ran(&r, 0, "compiled into");
    ran_free(&r);
    r = RUN(COMPILE, two, TINY, "--num_sharding", "2", "--log_level", "debug");
    check_ran(&r, 0, "compiled into");
    check_ran(&r, 0, "shard 1 kv_forward: SLC allocator off");
    ran_free(&r);
    char *wanted = answer(one, "cpu", "hello", "60");
    assert_answers(two, "cpu", wanted);
    free(wanted);
    wanted = answer(one, "htp-emulator", "hello", "60");
    assert_answers(two, "htp-emulator", wanted);
    free(wanted);

    sw_bundle b;
    BUNDLE_OK(sw_bundle_open(&b, two, &err));
    assert_int_equal(b.manifest.n_shards, 2);
    assert_int_equal(b.manifest.n_graphs, 4);
    assert_non_null(sw_bundle_part(&b, SW_PART_CONTEXT, 1));
    assert_null(sw_bundle_part(&b, SW_PART_CONTEXT, 2));
    sw_bundle_close(&b);
    r = RUN("inspect", two, "--qnn_lib", QNN);
    check_ran(&r, 0, NULL);
    assert_non_null(strstr(r.out, "shard 0 prefill_forward: SLC allocator off"));
    assert_non_null(strstr(r.out, "AR length 1, layers 1 to 1, attention"));
    ran_free(&r);
    r = RUN("compare", two, "--prompt", "hi", "--tokens", "2", "--qnn_lib", QNN);
    check_ran(&r, 0, NULL);
    assert_non_null(strstr(r.out, "top-1 agreement 3 of 3"));
    ran_free(&r);
    r = RUN("inspect", two, "--dot", "kv_forward:1");
    check_ran(&r, 0, NULL);
    assert_non_null(strstr(r.out, "layer_0.residual"));
    assert_null(strstr(r.out, "layer_0.q_proj"));
    ran_free(&r);
    REFUSED(
        1,
        "loads no context binary with shared weights: run it on a phone, or here with --run_on htp-emulator",
        "generate", two, "--prompt", "hello", "--run_on", "htp", "--qnn_lib", QNN);
}

/* The decode graph alone shares no weights: its binaries run on a PC too. */
static void binaries_run(void **state) {
    (void)state;
    const char *path = in_folder("kv");
    ran r = RUN(COMPILE, path, TINY, "--model_mode", "kv", "--num_sharding", "2");
    check_ran(&r, 0, "compiled into");
    ran_free(&r);
    char *wanted = answer(path, "htp-emulator", "hello", "60");
    assert_answers(path, "htp", wanted);
    free(wanted);
    r = RUN("generate", path, "--prompt", "hello", "--temperature", "0", "--max_seq_len", "40", "--run_on",
            "htp", "--qnn_lib", QNN, "--perf", "low_power", "--profile", "--log_level", "debug");
    check_ran(&r, 0, "spill-fill buffer: none for 2 contexts: no graph spills");
    check_ran(&r, 0, "profile of shard 1 kv_forward, means of ");
    check_ran(&r, 0, "  whole run  ");
    check_ran(&r, 0, "costliest of ");
    ran_free(&r);

    /* Another size in the manifest than in the binary. */
    sw_bundle b;
    BUNDLE_OK(sw_bundle_open(&b, path, &err));
    b.manifest.graphs[1].spill_fill_bytes = b.manifest.spill_fill_buffer_bytes = 4096;
    char *text;
    size_t size;
    BUNDLE_OK(sw_manifest_write(&b.manifest, &b.arena, &text, &size, &err));
    snprintf(folder + strlen(folder), 8, "/kv");
    write_file("manifest.json", text, size);
    folder[strlen(folder) - 3] = '\0';
    sw_bundle_close(&b);
    r = RUN("inspect", path, "--qnn_lib", QNN);
    check_ran(&r, 1, "shard 1 kv_forward: the manifest says 4096 spill-fill bytes, the context binary 0");
    ran_free(&r);
}

/* What is asked for and can't be had is said, and the manifest has what was done. */
static void weights_are_not_shared_before_v73(void **state) {
    (void)state;
    const char *path = in_folder("v69");
    sw_bundle b;
    ran r = RUN("compile", "-m", "SM8450", "--qnn_lib", QNN, "--artifact", path, TINY);
    check_ran(&r, 0, "warning: SM8450 has a V69: graphs can share weights from V73 on, so each gets a copy");
    ran_free(&r);
    BUNDLE_OK(sw_bundle_open(&b, path, &err));
    assert_false(b.manifest.weight_sharing);
    sw_bundle_close(&b);
    /* So this one loads on a PC too, both graphs. */
    char *wanted = answer(path, "htp-emulator", "hello", "60");
    assert_answers(path, "htp", wanted);
    free(wanted);
}

static void numbers_of_shards(void **state) {
    (void)state;
    REFUSED(2, "--num_sharding: `0`, wanted a whole number from 1 to 64", COMPILE, in_folder("none"), TINY,
            "--num_sharding", "0");
    REFUSED(2, "--num_sharding: 3, wanted 1 to 2: the model has 2 layers", COMPILE, in_folder("none"), TINY,
            "--num_sharding", "3");
}

static void smollm2_in_four(void **state) {
    (void)state;
    static const char *const shards[] = {"1", "4"};
    char *text[2];
    if (access(MODEL, R_OK) != 0) {
        printf("skipped: %s is not there (make setup)\n", MODEL);
        skip();
    }
    for (int i = 0; i < 2; i++) {
        const char *path = in_folder(shards[i]);
        ran r = RUN(COMPILE, path, "--model", MODEL, "--max_seq_len", "96", "--num_sharding", shards[i],
                    "--calib_samples", "1", "--rotate", "off");
        check_ran(&r, 0, "compiled into");
        ran_free(&r);
        text[i] = answer(path, "cpu", "What is the capital of France?", "96");
    }
    assert_true(strlen(text[0]) > 4);
    assert_string_equal(text[0], text[1]);
    free(text[0]), free(text[1]);
    sw_bundle b;
    BUNDLE_OK(sw_bundle_open(&b, in_folder("4"), &err));
    assert_int_equal(b.manifest.n_shards, 4);
    for (uint32_t i = 0; i < 4; i++)
        BUNDLE_OK(sw_bundle_check_part(&b, sw_bundle_part(&b, SW_PART_CONTEXT, i), &err));
    sw_bundle_close(&b);
}

int main(void) {
    if (access(QNN "/libQnnHtp.so", R_OK) != 0) {
        printf("skipped: external/qnn/onnxruntime_qnn/libQnnHtp.so is not there (make setup)\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_shards_answer_as_one), cmocka_unit_test(binaries_run),
        cmocka_unit_test(weights_are_not_shared_before_v73), cmocka_unit_test(numbers_of_shards),
        cmocka_unit_test(smollm2_in_four)};
    return cmocka_run_group_tests_name("shards", tests, set_up, remove_folder);
}
