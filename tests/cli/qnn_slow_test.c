/* The whole way through Qualcomm's library with a model of two layers: compile, inspect, verify, answer on
 * both devices, compare. */
#include <dirent.h>
#include <jansson.h>

#include "cli/run_program.h"
#include "cli/tiny_bundle.h"

#define QNN     SW_SOURCE_DIR "/external/qnn/onnxruntime_qnn"
#define COMPILE "compile", "-m", "SM8750", "--max_seq_len", "96", "--prefill_ar_len", "16", "--qnn_lib", QNN
#define GREEDY  "--prompt", "hello", "--temperature", "0", "--max_seq_len", "60"

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

static void open_bundle(sw_bundle *b, const char *path) {
    BUNDLE_OK(sw_bundle_open(b, path, &err));
}

static void compile(const char *path, const char *quant) {
    ran r = RUN(COMPILE, "--model", gguf, "--artifact", path, "--quant", quant);
    check_ran(&r, 0, "compiled into");
    if (r.out_size != 0) fail_msg("text on stdout: %.300s", r.out);
    ran_free(&r);
}

static const char *answer(const char *path, const char *device) {
    static char text[4096];
    ran r = RUN("generate", path, GREEDY, "--run_on", device, "--qnn_lib", QNN);
    check_ran(&r, 0, device);
    snprintf(text, sizeof text, "%s", r.out);
    ran_free(&r);
    return text;
}

/* By rule: a Convert where widths meet, so two a layer (K and V) with 8-bit KV beside 16-bit activations. */
static void converts(void **state) {
    (void)state;
    static const struct {
        const char *quant;
        uint32_t converts;
    } rows[] = {{"16a8w", 2 * TINY_LAYERS}, {"8a8w", 0}, {"f16", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *path = in_folder(rows[i].quant);
        sw_bundle b;
        compile(path, rows[i].quant);
        open_bundle(&b, path);
        assert_int_equal(b.manifest.n_graphs, 2);
        for (uint32_t g = 0; g < 2; g++) {
            assert_int_equal(b.manifest.graphs[g].op_counts[SW_OP_CONVERT], rows[i].converts);
            assert_true(b.manifest.graphs[g].op_counts[SW_OP_FULLY_CONNECTED] == 7 * TINY_LAYERS + 1);
            assert_true(b.manifest.graphs[g].vtcm_bytes == 8u << 20);
            assert_true(b.manifest.graphs[g].ddr.known);
        }
        assert_true(b.manifest.weight_sharing);
        sw_bundle_close(&b);
        ran r = RUN("verify", path, "--run", "--run_on", "htp-emulator", "--qnn_lib", QNN);
        check_ran(&r, 0, NULL);
        assert_non_null(strstr(r.out, "two prompts, two answers on htp-emulator"));
        ran_free(&r);
        r = RUN("inspect", path, "--qnn_lib", QNN);
        check_ran(&r, 0, NULL);
        assert_non_null(strstr(r.out, "for SM8750, V79"));
        assert_non_null(strstr(r.out, "graph prefill_forward"));
        assert_non_null(strstr(r.out, "graph kv_forward"));
        ran_free(&r);
    }
}

/* Both devices answer; step by step with the same tokens their logits are near each other, and they choose
 * the same token where the second one isn't close. Single ops: matrix products of 8 bits are exact. Rows as
 * short as this model's follow rules of their own in Softmax and RmsNorm (docs/numerics.md); real models are
 * equal. */
static void cpu_and_emulator(void **state) {
    (void)state;
    static const struct {
        const char *quant;
        double least_sqnr_db, worst_linear; /* steps of the output */
    } rows[] = {{"16a8w", 50, 0}, {"8a8w", 12, 0}, {"f16", 35, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *path = in_folder(rows[i].quant);
        compile(path, rows[i].quant);
        assert_true(strlen(answer(path, "cpu")) > 4);
        assert_true(strlen(answer(path, "htp-emulator")) > 4);

        ran r = RUN("compare", path, "--prompt", "hi", "--tokens", "3", "--json", "--qnn_lib", QNN);
        check_ran(&r, 0, NULL);
        json_error_t where;
        json_t *all = json_loads(r.out, 0, &where), *one;
        if (all == NULL) fail_msg("%s: %s", where.text, r.out);
        size_t k, n_linear = 0;
        const double least = json_number_value(json_object_get(all, "least_sqnr_db"));
        if (least < rows[i].least_sqnr_db) fail_msg("%s: SQNR %g dB", rows[i].quant, least);
        assert_true(json_equal(json_object_get(all, "clear"), json_object_get(all, "clear_same_top")));
        assert_int_equal(json_array_size(json_object_get(all, "steps")), 4);
        json_array_foreach(json_object_get(all, "steps"), k, one) {
            assert_true(json_number_value(json_object_get(one, "sqnr_db")) >= least);
            if (json_number_value(json_object_get(one, "gap")) < 0.3) continue;
            assert_true(json_equal(json_object_get(one, "cpu_top"), json_object_get(one, "emulator_top")));
        }
        json_array_foreach(json_object_get(all, "ops"), k, one) {
            const char *name = json_string_value(json_object_get(one, "op"));
            double worst = json_number_value(json_object_get(one, "worst"));
            if (strcmp(name, "FullyConnected") != 0 && strcmp(name, "MatMul") != 0) continue;
            n_linear++;
            if (worst > rows[i].worst_linear) fail_msg("%s: %s differs by %g", rows[i].quant, name, worst);
        }
        assert_int_equal(n_linear, 2);
        json_decref(all);
        ran_free(&r);
    }
}

/* Qualcomm's own log says for which graph the allocator was on. */
static void slc_for_one_graph(void **state) {
    (void)state;
    static const char *const on[] = {"prefill_forward", "kv_forward"};
    for (int i = 0; i < 2; i++) {
        char option[64], line[128], off[128];
        snprintf(option, sizeof option, "--use_slc_allocator=%s", on[i]);
        ran r = RUN(COMPILE, "--model", gguf, "--artifact", in_folder("slc"), "--verbose", option);
        check_ran(&r, 0, NULL);
        assert_int_equal(r.out_size, 0);
        snprintf(line, sizeof line, "Graph %s with init graph option: slc_allocate = 1", on[i]);
        snprintf(off, sizeof off, "Graph %s with init graph option: slc_allocate = 0", on[1 - i]);
        check_ran(&r, 0, line);
        check_ran(&r, 0, off);
        ran_free(&r);
        sw_bundle b;
        open_bundle(&b, in_folder("slc"));
        assert_int_equal(b.manifest.graphs[0].slc_allocator, i == 0);
        assert_int_equal(b.manifest.graphs[1].slc_allocator, i == 1);
        sw_bundle_close(&b);
    }
}

/* The likeliest tokens alone leave the graph: the same text. */
static void best_candidates(void **state) {
    (void)state;
    sw_bundle best;
    char path[160], text[4096];
    snprintf(path, sizeof path, "%s", in_folder("best"));
    compile(in_folder("all"), "16a8w");
    snprintf(text, sizeof text, "%s", answer(in_folder("all"), "cpu"));
    ran r = RUN(COMPILE, "--model", gguf, "--artifact", path, "--logits", "topk:8");
    check_ran(&r, 0, "compiled into");
    ran_free(&r);
    open_bundle(&best, path);
    assert_int_equal(sw_decoder_candidates(&best.decoder), 8);
    for (uint32_t g = 0; g < 2; g++) assert_int_equal(best.manifest.graphs[g].op_counts[SW_OP_TOP_K], 1);
    sw_bundle_close(&best);
    assert_string_equal(answer(path, "cpu"), text);
    assert_true(strlen(answer(path, "htp-emulator")) > 1);
    r = RUN("generate", path, "--prompt", "hello", "--seed", "3");
    check_ran(&r, 0, "tokens are drawn from the 8 likeliest");
    snprintf(text, sizeof text, "%s", r.out);
    ran_free(&r);
    r = RUN("generate", in_folder("all"), "--prompt", "hello", "--seed", "3", "--top_k", "8");
    check_ran(&r, 0, NULL);
    assert_string_equal(r.out, text);
    ran_free(&r);
    r = RUN("generate", path, "--prompt", "hello", "--top_k", "9");
    check_ran(&r, 2, "--top_k: 9, wanted at most 8");
    ran_free(&r);
    r = RUN("compare", path, "--prompt", "hello", "--tokens", "2", "--qnn_lib", QNN);
    check_ran(&r, 0, NULL);
    ran_free(&r);
    r = RUN(COMPILE, "--model", gguf, "--artifact", path, "--logits", "topk:1000000");
    check_ran(&r, 2, "--logits: topk:1000000, wanted at most topk:");
    ran_free(&r);
}

/* Everything that the main job's command does, on a phone that isn't there. */
static void the_main_job(void **state) {
    (void)state;
    const char *path = in_folder("job");
    ran r = RUN("llama", "-b", "build-android", "-H", "HOST", "-s", "SERIAL", "-m", "SM8750", "--temperature",
                "0", "--model_mode", "hybrid", "--max_seq_len", "96", "--prefill_ar_len", "16", "--model",
                gguf, "--use_slc_allocator", "--prompt", "hello", "--artifact", path, "--qnn_lib", QNN);
    check_ran(&r, 1, "warning: the device: -b build-android: no program `spillway` in it");
    check_ran(&r, 1, "the bundle is in");
    assert_int_equal(r.out_size, 0);
    ran_free(&r);
    sw_bundle b;
    open_bundle(&b, path);
    assert_true(b.manifest.graphs[0].slc_allocator && b.manifest.graphs[1].slc_allocator);
    sw_bundle_close(&b);
    r = RUN("llama", "--pre_gen_bundle", path, "--prompt", "hello", "--temperature", "0", "--max_seq_len",
            "96");
    check_ran(&r, 0, NULL);
    assert_true(r.out_size > 1);
    ran_free(&r);
    r = RUN("llama", "-m", "SM8750", "--max_seq_len", "96", "--prefill_ar_len", "16", "--model", gguf,
            "--artifact", path, "--qnn_lib", QNN, "--compile_only", "--model_mode", "kv");
    check_ran(&r, 0, "compiled into");
    assert_int_equal(r.out_size, 0);
    ran_free(&r);
    open_bundle(&b, path);
    assert_int_equal(b.manifest.n_graphs, 1);
    /* The new bundle's parts are all that is left of two compiles. */
    DIR *dir = opendir(path);
    assert_non_null(dir);
    size_t n_files = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) n_files += e->d_name[0] != '.';
    closedir(dir);
    assert_int_equal(n_files, b.manifest.n_parts + 1);
    sw_bundle_close(&b);
}

static void folders_that_cant_be_written(void **state) {
    (void)state;
    const char *const folders[] = {"/dev/null/out", gguf, "/proc/spillway"};
    for (int i = 0; i < 3; i++) {
        ran r = RUN(COMPILE, "--model", gguf, "--artifact", folders[i]);
        check_refused(&r, 1, folders[i]); /* one line: before the calibration says a word */
        ran_free(&r);
    }
    sw_bundle_writer *w;
    const char *busy = in_folder("busy");
    BUNDLE_OK(sw_bundle_writer_begin(&w, busy, &err));
    ran r = RUN(COMPILE, "--model", gguf, "--artifact", busy);
    check_refused(&r, 1, "another compile");
    ran_free(&r);
    sw_bundle_writer_free(w);
    compile(busy, "16a8w");
}

/* Unset and empty are the same: what setup fetched is taken. */
static void no_qnn_sdk_root(void **state) {
    (void)state;
    static const char *const forms[] = {"QNN_SDK_ROOT", "QNN_SDK_ROOT="};
    if (chdir(SW_SOURCE_DIR) != 0) fail();
    for (int i = 0; i < 2; i++) {
        ran r = RUN_WITH(SETTING(.environment = forms[i]), "compile", "-m", "SM8750", "--model", gguf,
                         "--max_seq_len", "64", "--artifact", in_folder("unset"));
        check_ran(&r, 0, "compiled into");
        ran_free(&r);
    }
}

/* A flipped bit is found before Qualcomm's loader sees the binary. */
static void a_damaged_context(void **state) {
    (void)state;
    const char *path = in_folder("damaged");
    compile(path, "8a8w");
    sw_bundle b;
    open_bundle(&b, path);
    const char *part = sw_bundle_part_path(&b, sw_bundle_part(&b, SW_PART_CONTEXT, 0));
    ran r = RUN("inspect", part, "--qnn_lib", QNN);
    check_ran(&r, 0, NULL);
    assert_non_null(strstr(r.out, "layer_0.k_cache"));
    ran_free(&r);
    FILE *f = fopen(part, "r+b");
    assert_non_null(f);
    fseek(f, 5000, SEEK_SET);
    int byte = fgetc(f);
    fseek(f, 5000, SEEK_SET);
    fputc(byte ^ 4, f);
    fclose(f);
    REFUSED(1, "context", "verify", path);
    r = RUN("inspect", path, "--qnn_lib", QNN);
    check_ran(&r, 1, "context");
    ran_free(&r);
    sw_bundle_close(&b);
}

int main(void) {
    if (access(QNN "/libQnnHtp.so", R_OK) != 0) {
        printf("skipped: external/qnn/onnxruntime_qnn/libQnnHtp.so is not there (make setup)\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(converts),          cmocka_unit_test(cpu_and_emulator),
        cmocka_unit_test(slc_for_one_graph), cmocka_unit_test(best_candidates),
        cmocka_unit_test(the_main_job),      cmocka_unit_test(folders_that_cant_be_written),
        cmocka_unit_test(no_qnn_sdk_root),   cmocka_unit_test(a_damaged_context),
    };
    return cmocka_run_group_tests_name("through Qualcomm's library", tests, set_up, remove_folder);
}
