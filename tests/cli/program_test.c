/* The program as a process: exit statuses, what goes to stdout and what to stderr, and every input that a
 * shell can hand over, without Qualcomm's library and without the real model. */
#include <jansson.h>

#include "bundle/pte_builder.h"
#include "cli/run_program.h"
#include "cli/tiny_bundle.h"

static const char *gguf, *bundle; /* in the folder: the tiny model, and a bundle of it */
static char gguf_path[128], bundle_path[128];
static sw_error err;

static int set_up(void **state) {
    bytes b = {0};
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    snprintf(gguf_path, sizeof gguf_path, "%s", write_file("tiny.gguf", b.data, b.size));
    snprintf(bundle_path, sizeof bundle_path, "%s/bundle", folder);
    free(b.data);
    gguf = gguf_path, bundle = bundle_path;
    tiny_bundle_write(gguf, bundle, NULL);
    return 0;
}

static void wrong_use_is_2(void **state) {
    (void)state;
    ran r = run_words((run_setting){0}, (const char *const[]){NULL});
    check_refused(&r, 2, "--help");
    ran_free(&r);
    REFUSED(2, "`frobnicate`", "frobnicate");
    REFUSED(2, "--no_such", "llama", "--no_such");
    REFUSED(2, "--temperature", "llama", "--temperature", "nan");
    REFUSED(2, "BUNDLE", "generate");
    REFUSED(2, "--prompt", "generate", bundle);
    REFUSED(2, "--prompt_file: empty", "generate", bundle, "--prompt_file", "");
    REFUSED(2, "--prompt", "llama", "-m", "SM8750", "--model", gguf);
    REFUSED(2, "no token", "generate", bundle, "--prompt", "", "--raw", "--max_seq_len", "64");
    REFUSED(2, "no token", "compare", bundle, "--prompt", "", "--raw");
    REFUSED(2, "no token", "llama", "-m", "SM8750", "--model", gguf, "--max_seq_len", "64", "--prompt", "",
            "--raw", "--artifact", in_folder("never"));
    REFUSED(2, "wanted at most one", "compare", bundle, "--prompt", "a", "b");
    REFUSED(2, "--compile_only", "llama", "--pre_gen_bundle", bundle, "--compile_only");
    REFUSED(2, "--model", "tokenize");
    REFUSED(2, "--ids", "logits", "--model", gguf);
    REFUSED(2, "prefill_forward, kv_forward", "inspect", bundle, "--dot", "no_such");
    REFUSED(2, "--dot: is for bundles", "inspect", gguf, "--dot", "kv_forward");
    if (access("build/aarch64", F_OK) != 0) /* a runner that is found by itself */
        REFUSED(2, "-b FOLDER", "generate", bundle, "--prompt", "a", "--run_on", "adb");
    REFUSED(2, "-s and -H", "generate", bundle, "--prompt", "a", "--run_on", "htp-emulator", "-s", "X");
}

static void wrong_targets(void **state) {
    (void)state;
    REFUSED(2, "--soc_model", "compile", "--model", gguf);
    REFUSED(2, "SM8750", "compile", "--model", gguf, "-m", "SM8751"); /* near names */
    REFUSED(2, "`SM8750` is a SoC", "compile", "--model", "SM8750", "-m", "SM8750");
    REFUSED(2, "smollm2_135m", "compile", "-m", "SM8750", "--decoder_model", "llama3_2");
    REFUSED(2, "--model FILE", "compile", "-m", "SM8750");
    REFUSED(2, "8 MB", "compile", "-m", "SM8750", "--model", gguf, "--vtcm_mb", "9");
    REFUSED(2, "--soc_id: 57, but SM8750 is 69", "compile", "-m", "SM8750", "--model", gguf, "--soc_id",
            "57");
    REFUSED(2, "--htp_arch: 81, but SM8750 has a V79", "compile", "--model", gguf, "--soc_id", "69",
            "--htp_arch", "81");
    REFUSED(2, "--soc_id: 4711 is no SoC that this build knows: wanted its --htp_arch and --vtcm_mb",
            "compile", "--model", gguf, "--soc_id", "4711", "--htp_arch", "79");
    REFUSED(1, "a KV cache of 16 bits needs a V73 or later", "compile", "-m", "SM8450", "--model", gguf,
            "--kv_bits", "16");
    REFUSED(1, "blockwise weights need a V69 or later, SM8350 has a V68", "compile", "-m", "SM8350",
            "--model", gguf, "--quant", "16a4w_block32");
    REFUSED(1, "blocks of weights with f16 scales need a V69 or later", "compile", "-m", "SM8350", "--model",
            gguf, "--quant", "f16a4w_block32");
    REFUSED(2, "lookahead", "compile", "-m", "SM8750", "--model", gguf, "--model_mode", "lookahead");
    REFUSED(2, "8 or 16", "compile", "-m", "SM8750", "--model", gguf, "--kv_bits", "12");
    REFUSED(2, "8a8w", "compile", "-m", "SM8750", "--model", gguf, "--quant", "8a8w", "--kv_bits", "16");
    REFUSED(2, "256 positions", "compile", "-m", "SM8750", "--model", gguf, "--max_seq_len", "257");
    REFUSED(2, "2 layers of width 64", "compile", "-m", "SM8750", "--model", gguf, "--decoder_model",
            "smollm2_135m", "--max_seq_len", "64");
    REFUSED(2, "--max_context_len 32", "compile", "-m", "SM8750", "--model", gguf, "--max_seq_len", "33",
            "--max_context_len", "32");
    REFUSED(2, "kv_forward", "compile", "-m", "SM8750", "--model", gguf, "--use_slc_allocator=decode");
    REFUSED(2, "prefill_forward", "compile", "-m", "SM8750", "--model", gguf, "--model_mode", "kv",
            "--use_slc_allocator=prefill_forward");
    REFUSED(2, "``", "compile", "-m", "SM8750", "--model", gguf, "--use_slc_allocator=,kv_forward");
}

/* Not refused: they get as far as Qualcomm's library, which isn't there. */
static void targets_with_limits(void **state) {
    (void)state;
#define LIMITED "compile", "--model", gguf, "--max_seq_len", "64", "--artifact", in_folder("never")
    ran r = RUN(LIMITED, "-m", "SXR2330P", "--use_slc_allocator");
    check_ran(&r, 1,
              "warning: --use_slc_allocator: the system-level cache of SXR2330P has no part for the HTP");
    check_ran(&r, 1, "QNN_SDK_ROOT");
    ran_free(&r);
    r = RUN(LIMITED, "-m", "SM8450");
    check_ran(&r, 1, "warning: SM8450 has a V69: graphs can share weights from V73 on, so each gets a copy");
    check_ran(&r, 1, "QNN_SDK_ROOT");
    ran_free(&r);
    REFUSED(1, "QNN_SDK_ROOT", LIMITED, "-m", "SM9999", "--soc_id", "4711", "--htp_arch", "79", "--vtcm_mb",
            "8");
    REFUSED(1, "QNN_SDK_ROOT", LIMITED, "--soc_id", "69");
#undef LIMITED
}

/* The legal ones get as far as Qualcomm's library, which isn't there. */
static void prefill_ar_lengths(void **state) {
    (void)state;
    static const struct {
        const char *value;
        bool legal;
    } rows[] = {{"-1", false}, {"0", false},  {"1", false},   {"2", true},           {"63", true},
                {"64", false}, {"65", false}, {"1e9", false}, {"1000000000", false}, {"abc", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ran r = RUN("compile", "-m", "SM8750", "--model", gguf, "--max_seq_len", "64", "--prefill_ar_len",
                    rows[i].value, "--artifact", in_folder("never"));
        check_refused(&r, rows[i].legal ? 1 : 2, rows[i].legal ? "QNN_SDK_ROOT" : "--prefill_ar_len");
        if (!rows[i].legal) check_ran(&r, 2, "2 to 6");
        ran_free(&r);
    }
    REFUSED(2, "--model_mode kv", "compile", "-m", "SM8750", "--model", gguf, "--max_seq_len", "2");
    assert_int_not_equal(access(in_folder("never"), F_OK), 0);
}

/* Each form names the variable and its value, before any work, and leaves no folder behind. */
static void qnn_sdk_root(void **state) {
    (void)state;
    char file[200], empty[200];
    snprintf(file, sizeof file, "QNN_SDK_ROOT=%s", gguf);
    snprintf(empty, sizeof empty, "QNN_SDK_ROOT=%s", folder);
    const char *const forms[] = {"QNN_SDK_ROOT=/nowhere/qnn", file, empty, "QNN_SDK_ROOT=relative/qnn"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        ran r = RUN_WITH(SETTING(.environment = forms[i]), "compile", "-m", "SM8750", "--model", gguf,
                         "--max_seq_len", "64", "--artifact", in_folder("none"));
        check_refused(&r, 1, forms[i]);
        assert_true(r.seconds < 5);
        ran_free(&r);
    }
    REFUSED(1, "--qnn_lib /nowhere", "compile", "-m", "SM8750", "--model", gguf, "--max_seq_len", "64",
            "--qnn_lib", "/nowhere");
    REFUSED(1, "libQnnHtp.so", "compile", "-m", "SM8750", "--model", gguf, "--max_seq_len", "64", "--qnn_lib",
            folder);
    REFUSED(1, "libQnnSystem.so", "compile", "-m", "SM8750", "--model", gguf, "--max_seq_len", "64",
            "--qnn_lib", gguf);
    assert_int_not_equal(access(in_folder("none"), F_OK), 0);
}

static void help_and_results_on_stdout(void **state) {
    (void)state;
    static const char *const commands[] = {"llama",  "compile", "generate", "inspect",
                                           "verify", "compare", "tokenize", "logits"};
    ran r = RUN("--help");
    check_ran(&r, 0, NULL);
    assert_int_equal(r.err_size, 0);
    for (int i = 0; i < 8; i++) {
        assert_non_null(strstr(r.out, commands[i]));
        ran h = RUN(commands[i], "--help");
        check_ran(&h, 0, NULL);
        assert_int_equal(h.err_size, 0);
        assert_non_null(strstr(h.out, "usage: spillway"));
        assert_null(strstr(h.out, " \n"));
        ran_free(&h);
    }
    ran_free(&r);

    /* A result that can't be written is a failure. */
    r = RUN_WITH(SETTING(.output = "/dev/full"), "--help");
    check_refused(&r, 1, "stdout");
    ran_free(&r);
    r = RUN_WITH(SETTING(.output = "/dev/full", .input = "hello"), "tokenize", "--model", gguf);
    check_refused(&r, 1, "stdout");
    ran_free(&r);
    r = RUN_WITH(SETTING(.output = "/dev/full"), "generate", bundle, "--prompt", "hello", "--temperature",
                 "0", "--log_level", "error");
    check_refused(&r, 1, "stdout");
    ran_free(&r);
}

static void check_tokens(const char *input, size_t size, const char *wanted, const char *model) {
    ran r = RUN_WITH(SETTING(.input = input, .input_size = size), "tokenize", "--model", model);
    check_ran(&r, 0, NULL);
    assert_string_equal(r.out, wanted);
    ran_free(&r);
}

/* Ids by hand: byte b is 3 + b; he, ll, _t, in, hell are 259 to 263. The bundle's tokenizer says the same. */
static void tokenize(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *model = i == 0 ? gguf : bundle;
        check_tokens("hello in the hall", 0, "[263, 114, 35, 262, 261, 259, 35, 107, 100, 260]\n", model);
        check_tokens("<|im_start|>x<|im_end|>", 0, "[1, 123, 2]\n", model);
        check_tokens("a\0\xff\xc3", 4, "[100, 3, 258, 198]\n", model);
        check_tokens(NULL, 0, "[]\n", model);
        ran r = RUN_WITH(SETTING(.input = "x"), "tokenize", "--chat", "--model", model);
        check_ran(&r, 0, NULL);
        assert_int_equal(strncmp(r.out, "[1, 118, 124, 118, ", 19), 0); /* start, s y s */
        ran_free(&r);
    }
}

/* A text without an end is no reason to take all memory. */
static void an_endless_text(void **state) {
    (void)state;
    char command[1200] = "head -c 300000000 /dev/zero |";
    for (int i = 0; run_prefix[i] != NULL; i++) {
        size_t used = strlen(command);
        snprintf(command + used, sizeof command - used, " '%s'", run_prefix[i]);
    }
    size_t used = strlen(command);
    snprintf(command + used, sizeof command - used, " tokenize --model '%s' 2>&1", gguf);
    FILE *pipe = popen(command, "r");
    char said[512];
    assert_non_null(pipe);
    said[fread(said, 1, sizeof said - 1, pipe)] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_non_null(strstr(said, "error: stdin: has 268435456 bytes or more"));
}

/* The float model's logits through the API, token by token. */
static void reference_logits(const int32_t *ids, size_t n, float *logits) {
    sw_model model;
    sw_device *cpu;
    sw_decoder d;
    sw_session *s;
    const sw_graph_options graph = {"kv_forward", 1, SW_ATTENTION_PER_KV_HEAD, SW_HEAD_LAST};
    BUNDLE_OK(sw_model_open(&model, gguf, &err));
    BUNDLE_OK(sw_cpu_device_create(&cpu, NULL, &err));
    BUNDLE_OK(sw_decoder_build(&d, &model, 16, &graph, 1, &err));
    BUNDLE_OK(sw_session_create(&s, &d, cpu, &err));
    BUNDLE_OK(sw_session_feed(s, ids, n, logits, NULL, &err));
    sw_session_destroy(s);
    sw_decoder_free(&d);
    cpu->ops->destroy(cpu);
    sw_model_close(&model);
}

static void read_floats(const char *path, float *out, size_t n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(out, 4, n + 1, f), n);
    fclose(f);
}

static void logits(void **state) {
    (void)state;
    static const int32_t ids[] = {1, 200, 3, 263, 9, 9, 0};
    float wanted[N_VOCAB], got[N_VOCAB + 1], quantized[N_VOCAB + 1];
    const char *out = in_folder("logits.f32");
    ran r = RUN("logits", "--model", gguf, "--ids", "1,200,3,263,9,9,0", "--out", out);
    check_ran(&r, 0, NULL);
    assert_int_equal(r.out_size, 0);
    ran_free(&r);
    reference_logits(ids, 7, wanted);
    read_floats(out, got, N_VOCAB);
    for (int i = 0; i < N_VOCAB; i++) assert_float_equal(got[i], wanted[i], 1e-4);
    r = RUN("logits", "--model", bundle, "--ids", "1,200,3,263,9,9,0", "--out", out);
    check_ran(&r, 0, NULL);
    ran_free(&r);
    read_floats(out, quantized, N_VOCAB);
    double signal = 0, noise = 0;
    for (int i = 0; i < N_VOCAB; i++) {
        double difference = (double)wanted[i] - (double)quantized[i];
        signal += (double)wanted[i] * (double)wanted[i], noise += difference * difference;
    }
    assert_true(signal > 100 * noise); /* 20 dB: 8-bit weights, random */
    assert_true(noise > 0);

    static const char *const bad[] = {"1,,2", "a", "1,2x", "-1", "264", "99999999999", ",", "1;2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        REFUSED(2, NULL, "logits", "--model", gguf, "--ids", bad[i], "--out", out);
        REFUSED(2, NULL, "logits", "--model", bundle, "--ids", bad[i], "--out", out);
    }
    char many[257 * 2 + 1];
    for (int i = 0; i < 257; i++) memcpy(many + 2 * i, "5,", 3);
    REFUSED(2, "256 positions", "logits", "--model", gguf, "--ids", many, "--out", out);
    REFUSED(2, "96", "logits", "--model", bundle, "--ids", many, "--out", out);
    REFUSED(2, "CPU device", "logits", "--model", gguf, "--ids", "1", "--out", out, "--run_on",
            "htp-emulator");
    REFUSED(1, "phone", "logits", "--model", bundle, "--ids", "1", "--out", out, "--run_on", "adb");
    REFUSED(1, "/nowhere/x", "logits", "--model", gguf, "--ids", "1", "--out", "/nowhere/x");
    REFUSED(1, folder, "logits", "--model", gguf, "--ids", "1", "--out", folder);
}

/* Closed descriptors: no file takes their numbers, so nothing that is printed lands in a file. */
static void closed_descriptors(void **state) {
    (void)state;
    static const char *const closed[] = {"0", "1", "2", "01", "02", "12", "012"};
    float wanted[N_VOCAB + 1], got[N_VOCAB + 1];
    const char *out = in_folder("closed.f32");
    ran r = RUN("logits", "--model", bundle, "--ids", "1,2,3", "--out", out);
    check_ran(&r, 0, NULL);
    ran_free(&r);
    read_floats(out, wanted, N_VOCAB);
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
        bool out_closed = strchr(closed[i], '1') != NULL, err_closed = strchr(closed[i], '2') != NULL;
        unlink(out);
        r = RUN_WITH(SETTING(.closed = closed[i]), "logits", "--model", bundle, "--ids", "1,2,3", "--out",
                     out, "--log_level", "debug");
        check_ran(&r, 0, NULL);
        ran_free(&r);
        read_floats(out, got, N_VOCAB);
        assert_memory_equal(got, wanted, N_VOCAB * sizeof *got);
        r = RUN_WITH(SETTING(.closed = closed[i]), "frobnicate");
        check_ran(&r, 2, err_closed ? NULL : "frobnicate");
        ran_free(&r);
        r = RUN_WITH(SETTING(.closed = closed[i]), "inspect", gguf);
        check_ran(&r, out_closed ? 1 : 0, out_closed && !err_closed ? "stdout" : NULL);
        ran_free(&r);
        r = RUN_WITH(SETTING(.closed = closed[i], .input = "hello"), "tokenize", "--model", gguf);
        check_ran(&r, closed[i][0] == '0' || out_closed ? 1 : 0, NULL);
        if (r.status == 0) assert_string_equal(r.out, "[263, 114]\n");
        ran_free(&r);
    }
}

/* ulimit -f: an error of the write, not a signal, and nothing is left. */
static void file_size_limit(void **state) {
    (void)state;
    const char *out = in_folder("limited.f32");
    ran r = RUN_WITH(SETTING(.file_bytes = 64), "logits", "--model", bundle, "--ids", "1", "--out", out);
    check_ran(&r, 1, NULL); /* the sentence itself is longer than the limit */
    ran_free(&r);
    assert_int_not_equal(access(out, F_OK), 0);
}

/* What is written never takes the place of what is read, nor of a bundle's part. */
static void outputs_spare_inputs(void **state) {
    (void)state;
    char manifest[200], linked[200], same_manifest[200];
    snprintf(manifest, sizeof manifest, "%s/manifest.json", bundle);
    snprintf(same_manifest, sizeof same_manifest, "%s/../bundle/manifest.json", bundle);
    snprintf(linked, sizeof linked, "%s", in_folder("linked.gguf"));
    assert_int_equal(link(gguf, linked), 0);
    const char *prompt = write_file("prompt.txt", "hi", 2), *both = in_folder("both.json");
    REFUSED(2, "--model reads", "compile", "-m", "SM8750", "--model", gguf, "--report", gguf);
    REFUSED(2, "--model reads", "compile", "-m", "SM8750", "--model", gguf, "--report", linked);
    REFUSED(2, "--model reads", "logits", "--model", gguf, "--ids", "1", "--out", gguf);
    REFUSED(2, "--model reads", "traffic", "--model", gguf, "--jobs", gguf);
    REFUSED(2, "--prompt_file reads", "generate", bundle, "--prompt_file", prompt, "--stats", prompt);
    REFUSED(2, "the command reads", "inspect", gguf, "--report", gguf);
    REFUSED(2, "part of a bundle", "inspect", bundle, "--report", manifest);
    REFUSED(2, "part of a bundle", "generate", bundle, "--prompt", "a", "--trace", same_manifest);
    REFUSED(2, "part of a bundle", "logits", "--model", gguf, "--ids", "1", "--out", manifest);
    REFUSED(2, "part of a bundle", "compile", "-m", "SM8750", "--model", gguf, "--artifact",
            in_folder("never"), "--report", in_folder("never/manifest.json"));
    REFUSED(2, "a folder's name", "compile", "-m", "SM8750", "--model", gguf, "--artifact",
            in_folder("never"), "--report", in_folder("never"));
    REFUSED(2, "a folder's name", "compile", "-m", "SM8750", "--model", gguf, "--artifact",
            in_folder("never"), "--report", in_folder("never/"));
    REFUSED(2, "wanted two files", "generate", bundle, "--prompt", "a", "--stats", both, "--trace", both);
    REFUSED(1, "is a folder", "generate", bundle, "--prompt", "a", "--stats", folder);
    REFUSED(1, "is a folder", "compile", "-m", "SM8750", "--model", gguf, "--report", folder);
    assert_int_not_equal(access(in_folder("never"), F_OK), 0);
    ran r = RUN("verify", bundle);
    check_ran(&r, 0, NULL);
    ran_free(&r);
    r = RUN("inspect", gguf);
    check_ran(&r, 0, NULL);
    ran_free(&r);
}

static void a_bundle_answers(void **state) {
    (void)state;
    ran r = RUN("generate", bundle, "--prompt", "hello", "--temperature", "0", "--max_seq_len", "90");
    check_ran(&r, 0, "generated: ");
    assert_null(strstr(r.out, "tokens/s"));
    assert_true(r.out_size > 1);
    /* The same through llama, on one thread, and with nothing said beside it. */
    ran again = RUN("llama", "--pre_gen_bundle", bundle, "--prompt", "hello", "--temperature", "0",
                    "--max_seq_len", "90", "--threads", "1", "--log_level", "error");
    check_ran(&again, 0, NULL);
    assert_string_equal(again.out, r.out);
    assert_int_equal(again.err_size, 0);
    ran_free(&again);
    /* What is meant for a phone or the HTP is said to do nothing here. */
    again = RUN("generate", bundle, "--prompt", "hello", "--temperature", "0", "--max_seq_len", "90", "-b",
                folder, "--profile");
    check_ran(&again, 0, "warning: -b: does nothing here, where cpu answers: wanted -s SERIAL");
    check_ran(&again, 0, "warning: --profile: does nothing here");
    assert_string_equal(again.out, r.out);
    ran_free(&again);
    /* A seed is a text; another one is another text. */
    char *texts[3];
    for (int i = 0; i < 3; i++) {
        ran sampled =
            RUN("generate", bundle, "--prompt", "hello", "--temperature", "1", "--seed", i < 2 ? "3" : "4");
        check_ran(&sampled, 0, NULL);
        texts[i] = strdup(sampled.out);
        ran_free(&sampled);
    }
    assert_string_equal(texts[0], texts[1]);
    assert_string_not_equal(texts[0], texts[2]);
    for (int i = 0; i < 3; i++) free(texts[i]);
    ran_free(&r);

    REFUSED(2, "max_seq_len is 20", "generate", bundle, "--prompt", "hello", "--max_seq_len", "20",
            "--log_level", "error");
}

static void inspect_and_verify(void **state) {
    (void)state;
    ran r = RUN("inspect", gguf);
    check_ran(&r, 0, NULL);
    assert_non_null(strstr(
        r.out, "2 layers of width 64, feed-forward 96, 2 heads of 32 on 1 KV heads, vocabulary 264, tied"));
    assert_int_equal(r.err_size, 0);
    ran_free(&r);
    r = RUN("inspect", gguf, "--json", "--tensors");
    check_ran(&r, 0, NULL);
    json_t *o = json_loads(r.out, 0, NULL), *tensor;
    assert_non_null(o);
    assert_string_equal(json_string_value(json_object_get(o, "kind")), "gguf_checkpoint");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "model"), "hidden")), 64);
    json_int_t sum = 0, of_storages = 0;
    size_t i;
    json_array_foreach(json_object_get(o, "tensors"), i, tensor) sum +=
        json_integer_value(json_object_get(tensor, "bytes"));
    assert_int_equal(i, 2 + 9 * 2); /* embedding, final norm, nine a layer; the head is tied */
    json_array_foreach(json_object_get(o, "storages"), i, tensor) of_storages +=
        json_integer_value(json_object_get(tensor, "bytes"));
    assert_int_equal(sum, of_storages);
    assert_true(sum > 0 && sum < json_integer_value(json_object_get(o, "bytes")));
    json_decref(o);
    ran_free(&r);
    r = RUN("inspect", bundle);
    check_ran(&r, 0, NULL);
    assert_non_null(strstr(r.out, "16a8w, KV cache u8; hybrid mode, context 96, prefill AR 16"));
    assert_non_null(strstr(r.out, "4 Convert (2 a layer)"));
    ran_free(&r);
    r = RUN("inspect", bundle, "--json");
    check_ran(&r, 0, NULL);
    assert_non_null(strstr(r.out, "\"spillway-bundle\""));
    ran_free(&r);
    r = RUN("inspect", bundle, "--dot", "kv_forward");
    check_ran(&r, 0, NULL);
    assert_int_equal(strncmp(r.out, "digraph", 7), 0);
    ran_free(&r);
    r = RUN("verify", bundle);
    check_ran(&r, 0, NULL);
    assert_non_null(strstr(r.out, "4 parts"));
    assert_null(strstr(r.out, "two prompts"));
    ran_free(&r);
    r = RUN("verify", bundle, "--run");
    check_ran(&r, 0, NULL);
    assert_non_null(strstr(r.out, "two prompts, two answers on cpu"));
    ran_free(&r);
    REFUSED(2, "without --run", "verify", bundle, "--run_on", "htp-emulator");
    REFUSED(1, "--run_on", "verify", bundle, "--run", "--run_on", "adb");
}

/* A tokenizer of another size than the graphs' logits. */
static void another_tokenizer_is_refused(void **state) {
    (void)state;
    byte_vocab v;
    sw_tokenizer *smaller;
    byte_vocab_fill(&v);
    v.desc.n_tokens--, v.desc.n_merges--; /* without `hell` */
    BUNDLE_OK(sw_tokenizer_create(&smaller, &v.desc, &err));
    const char *other = in_folder("other");
    tiny_bundle_write(gguf, other, smaller);
    sw_tokenizer_destroy(smaller);
    REFUSED(1, "263 tokens", "generate", other, "--prompt", "hello");
    REFUSED(1, "264", "tokenize", "--model", other);
    REFUSED(1, "264", "compare", other);
}

/* Every malformed GGUF through every door: status 1, one line, at once and in little memory. */
static void malformed_gguf(void **state) {
    (void)state;
    ran empty = RUN("--help");
    double worst_seconds = 0;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        if (recipes[i].code == SW_OK) continue;
        bytes b = {0};
        make_recipe(&recipes[i], &b);
        const char *path = write_file("bad.gguf", b.data, b.size), *out = in_folder("bad_out");
        free(b.data);
        for (int door = 0; door < 4; door++) {
            if (door == 0 && memcmp(recipes[i].id, "G01", 3) == 0)
                continue; /* inspect takes other files too */
            ran r = door == 0   ? RUN("inspect", path)
                    : door == 1 ? RUN("tokenize", "--model", path)
                    : door == 2 ? RUN("logits", "--model", path, "--ids", "1", "--out", out)
                                : RUN("compile", "-m", "SM8750", "--model", path, "--artifact", out);
            if (r.status != 1)
                fail_msg("%s, door %d: exit status %d: %s", recipes[i].id, door, r.status, r.err);
            check_refused(&r, 1, "bad.gguf");
            for (int k = 0; k < 4 && recipes[i].says[k] != NULL; k++) check_ran(&r, 1, recipes[i].says[k]);
            if (r.peak_kb > empty.peak_kb + 65536) fail_msg("%s: %ld kB", recipes[i].id, r.peak_kb);
            if (r.seconds > worst_seconds) worst_seconds = r.seconds;
            ran_free(&r);
        }
        assert_int_not_equal(access(out, F_OK), 0);
    }
    assert_true(worst_seconds < 5); /* 1 s on a quiet machine */
    ran_free(&empty);
}

/* A file that is something else is named, whatever door it comes to. */
static void other_files_are_named(void **state) {
    (void)state;
    pte_file pte;
    pte_build(&pte);
    pte_put(&pte, PTE_BASE + 12, PTE_BINARY + 1, 8); /* so that inspect refuses it, too */
    const struct {
        const char *name, *data;
        size_t size;
        const char *says;
    } files[] = {{"a.pte", (const char *)pte.data, PTE_SIZE, "an ExecuTorch program"},
                 {"old.pte", "\x40\0\0\0ET11eh00\x20\0\0\0\0\0\0\0\0\0\0\0", 24, "ExecuTorch program"},
                 {"short.pte", "\x40\0\0\0ET12eh", 10, "ExecuTorch program"},
                 {"empty.bin", "", 0, "empty file"},
                 {"a.png", "\x89PNG\r\n\x1a\n", 8, "a PNG picture"},
                 {"a.zip", "PK\3\4PK\3\4", 8, "ZIP archive"},
                 {"tokenizer.json", "{\"added_tokens\": []}", 20, "tokenizer.json"},
                 {"so.bin", "\177ELF\2\1\1\0\0\0\0\0", 12, "program or library"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = write_file(files[i].name, files[i].data, files[i].size);
        REFUSED(1, files[i].says, "inspect", path);
        REFUSED(1, files[i].says, "generate", path, "--prompt", "a");
        REFUSED(1, files[i].says, "verify", path);
        REFUSED(1, files[i].says, "llama", "--pre_gen_bundle", path, "--prompt", "a");
        REFUSED(1, files[i].size == 0 ? "is empty" : "not a GGUF file", "compile", "-m", "SM8750", "--model",
                path);
        REFUSED(1, files[i].name, "tokenize", "--model", path);
        unlink(path);
    }
    REFUSED(1, "GGUF checkpoint", "generate", gguf, "--prompt", "a");
    REFUSED(1, "no manifest.json", "inspect", folder);
    REFUSED(1, "no manifest.json", "tokenize", "--model", folder);
    REFUSED(1, "is a folder", "compile", "-m", "SM8750", "--model", folder);
    char manifest[200];
    snprintf(manifest, sizeof manifest, "%s/manifest.json", bundle);
    REFUSED(1, "JSON text", "inspect", manifest);
}

/* Paths that a shell can hand over. Nothing waits: a fifo has no writer. */
static void odd_paths(void **state) {
    (void)state;
    static const char *const doors[][8] = {
        {"inspect", "PATH"},
        {"verify", "PATH"},
        {"generate", "PATH", "--prompt", "a"},
        {"tokenize", "--model", "PATH"},
        {"logits", "--model", "PATH", "--ids", "1", "--out", "/dev/null/x"},
        {"compile", "-m", "SM8750", "--model", "PATH"}};
    const char *fifo = in_folder("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    static char longest[4200];
    memset(longest, 'x', sizeof longest - 1);
    longest[0] = '/';
    char missing[200];
    snprintf(missing, sizeof missing, "%s/not there.gguf", folder);
    const char *const paths[] = {"/dev/null",      "/dev/zero",      fifo, missing, longest,
                                 "/proc/self/mem", "/nowhere/at/all"};
    for (size_t p = 0; p < sizeof paths / sizeof *paths; p++)
        for (size_t d = 0; d < sizeof doors / sizeof *doors; d++) {
            const char *words[8] = {0};
            for (int i = 0; i < 7; i++)
                words[i] = doors[d][i] != NULL && strcmp(doors[d][i], "PATH") == 0 ? paths[p] : doors[d][i];
            ran r = run_words((run_setting){0}, words);
            check_refused(&r, 1, NULL);
            ran_free(&r);
        }

    static const char *const names[] = {"with space.gguf",     "it's \"quoted\".gguf",
                                        "two\nlines.gguf",     "\xc3\xa4\xe6\xa8\xa1\xf0\x9f\x98\x80.gguf",
                                        "$(id);&.gguf",        "-dash.gguf",
                                        "%s%n.gguf",           "\xff\xfe.gguf",
                                        "C:\\back\\slash.gguf"};
    bytes b = {0};
    tiny_gguf_build(&b);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = write_file(names[i], b.data, b.size);
        ran r = RUN("inspect", path);
        check_ran(&r, 0, NULL);
        ran_free(&r);
        check_tokens("hello", 0, "[263, 114]\n", path);
        path = write_file(names[i], b.data, 100); /* cut: the name stands in the sentence, in one line */
        REFUSED(1, ".gguf", "inspect", path);
        REFUSED(1, ".gguf", "compile", "-m", "SM8750", "--model", path);
        char odd_folder[200];
        snprintf(odd_folder, sizeof odd_folder, "%s/%s.bundle", folder, names[i]);
        tiny_bundle_write(gguf, odd_folder, NULL);
        r = RUN("generate", odd_folder, "--prompt", "hello", "--temperature", "0");
        check_ran(&r, 0, NULL);
        ran_free(&r);
    }
    free(b.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_use_is_2),
        cmocka_unit_test(wrong_targets),
        cmocka_unit_test(targets_with_limits),
        cmocka_unit_test(prefill_ar_lengths),
        cmocka_unit_test(qnn_sdk_root),
        cmocka_unit_test(help_and_results_on_stdout),
        cmocka_unit_test(tokenize),
        cmocka_unit_test(an_endless_text),
        cmocka_unit_test(logits),
        cmocka_unit_test(closed_descriptors),
        cmocka_unit_test(file_size_limit),
        cmocka_unit_test(outputs_spare_inputs),
        cmocka_unit_test(a_bundle_answers),
        cmocka_unit_test(inspect_and_verify),
        cmocka_unit_test(another_tokenizer_is_refused),
        cmocka_unit_test(malformed_gguf),
        cmocka_unit_test(other_files_are_named),
        cmocka_unit_test(odd_paths),
    };
    return cmocka_run_group_tests_name("program", tests, set_up, remove_folder);
}
