/* The emulated phone: the 64-bit ARM build under qemu, behind the stand-in for adb.
 *
 * First with Qualcomm's own libraries for boards, up to the FastRPC border (tests/fake_phone/cdsprpc.c): what
 * they say where a piece is missing, and what we make of it. Then whole replies, with a stand-in for
 * libQnnHtp.so that computes on the CPU device (tests/fake_phone/htp_stand_in.c), and Qualcomm's real context
 * binaries and libQnnSystem.so. */
#include "cli/emulated_phone.h"
#include "cli/tiny_bundle.h"

static char bundle[128];
static const run_setting no_sdk = {.environment = "QNN_SDK_ROOT"};
static run_setting with_stand_in;

static int set_up(void **state) {
    bytes b = {0};
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    write_file("tiny.gguf", b.data, b.size);
    free(b.data);
    emulated_phone_make();
    fresh_phone(state);
    snprintf(bundle, sizeof bundle, "%s/bundle", folder);
    ran r = RUN("compile", "-m", "SM8750", "--model", in_folder("tiny.gguf"), "--max_seq_len", "96",
                "--prefill_ar_len", "16", "--use_slc_allocator", "--artifact", bundle, "--qnn_lib", HOST_QNN);
    check_ran(&r, 0, "compiled into");
    ran_free(&r);
    with_stand_in.environment = stand_in_sdk();
    return 0;
}

static char *phone_log(void) {
    FILE *f = fopen(in_folder("phone.log"), "rb");
    size_t size;
    return f != NULL ? run_read_back(f, &size) : calloc(1, 1);
}

static void phone_did(const char *what) {
    char *log = phone_log();
    if (strstr(log, what) == NULL) fail_msg("the phone's log lacks `%s`: %s", what, log);
    free(log);
}

#define PHONE(setting, ...)                                                                                  \
    RUN_WITH(setting, "generate", bundle, "-s", "FAKE1", "-b", CROSS, "--max_seq_len", "64",                 \
             "--temperature", "0", "--prompt", "abc", __VA_ARGS__)

/* ---- Qualcomm's libraries ---- */

/* One sentence of ours, and the library's own lines below it. */
static void fails_with(const char *says, const char *library_says) {
    ran r = PHONE(no_sdk, "--log_level", "info");
    check_ran(&r, 1, says);
    const char *line = strstr(r.err, "\nerror: "), *below = line != NULL ? strchr(line + 1, '\n') : NULL;
    if (below == NULL || strncmp(line, "\nerror: on the device: ", 23) != 0 ||
        strstr(below, "\n[QNN] ") == NULL || strstr(below, library_says) == NULL ||
        strstr(below, "\nerror: ") != NULL)
        fail_msg("not one sentence with the library's lines below it: %s", r.err);
    assert_int_equal(r.out_size, 0);
    ran_free(&r);
}

/* The SoC is found, the stub of its architecture loaded, the session opened and the skel found where the
 * runner said; then the DSP would have to answer. */
static void as_far_as_the_dsp(void **state) {
    (void)state;
    ran r = PHONE(no_sdk, "-v");
    check_ran(&r, 1, "the DSP's side doesn't answer");
    check_ran(&r, 1, "Attempting to open dynamically linked so: ");
    check_ran(&r, 1, "libQnnHtpV79Stub.so");
    check_ran(&r, 1, "First connection to QNN stub established!");
    ran_free(&r);
    phone_did("remote_handle64_open file:///libQnnHtpV79Skel.so?");
    phone_did("libQnnHtpV79Skel.so: found");
    phone_did("remote_handle64_invoke");
}

static void no_soc(void **state) {
    (void)state;
    remove(in_folder(SOC_ID));
    fails_with("can't tell which SoC this is", "No Snapdragon SOC detected");
}

static void another_soc(void **state) {
    (void)state;
    write_file(SOC_ID, "557\n", 4); /* SM8650 */
    ran r = PHONE(no_sdk, "-v");
    check_ran(&r, 2, "compiled for SM8750 (SoC 69), this is SoC 57");
    ran_free(&r);
}

static void no_cdsprpc(void **state) {
    (void)state;
    remove(in_folder("sysroot/usr/lib/libcdsprpc.so")), remove(in_folder("sysroot/usr/lib/libcdsprpc.so.1"));
    fails_with("no FastRPC library", "Failed in loading stub: libcdsprpc.so");
}

static void session_refused(void **state) {
    (void)state;
    setenv("FAKE_PHONE", "no_session", 1);
    fails_with("grants this process no session", "Fail to get effective domain id");
}

static void unsigned_code_refused(void **state) {
    (void)state;
    setenv("FAKE_PHONE", "no_unsigned", 1);
    fails_with("doesn't let unsigned code", "unable to load unsigned PD");
}

/* What deploy doesn't let happen, so by the runner alone: `folder`/lib with pieces missing. */
static void runner_fails_with(const char *adsp_library_path, const char *says, const char *library_says) {
    char command[3000], lib[200];
    snprintf(lib, sizeof lib, "%s/lib", folder);
    snprintf(
        command, sizeof command,
        "env -i PATH=\"$PATH\" LD_LIBRARY_PATH=%s ADSP_LIBRARY_PATH=%s%s qemu-aarch64 -L %s/sysroot " CROSS
        "spillway generate %s --run_on htp --qnn_lib %s --prompt abc >%s/runner.txt 2>&1",
        lib, lib, adsp_library_path, folder, bundle, lib, folder);
    int status = system(command);
    FILE *f = fopen(in_folder("runner.txt"), "rb");
    size_t size;
    char *text = run_read_back(f, &size);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 1 || strstr(text, says) == NULL ||
        strstr(text, library_says) == NULL)
        fail_msg("status %d, wanted `%s` and `%s`: %s", status, says, library_says, text);
    free(text);
}

static void make_lib(const char *missing) {
    static const char *const names[] = {"libQnnHtp.so", "libQnnSystem.so", "libQnnHtpV79Stub.so",
                                        "libQnnHtpV79Skel.so"};
    fake_folder("lib");
    for (size_t i = 0; i < 4; i++) {
        char name[100], target[300];
        snprintf(name, sizeof name, "lib/%s", names[i]);
        snprintf(target, sizeof target, "%s%s", BOARD, names[i]);
        remove(in_folder(name));
        if (missing == NULL || strcmp(missing, names[i]) != 0) link_to(name, target);
    }
}

static void pieces_missing_on_the_device(void **state) {
    (void)state;
    make_lib("libQnnHtpV79Stub.so");
    runner_fails_with("", "the stub for this HTP isn't beside the library",
                      "libQnnHtpV79Stub.so: cannot open");
    make_lib("libQnnHtpV79Skel.so");
    runner_fails_with("", "the DSP can't load the skel", "Unable to load lib 0x80000406");
    make_lib(NULL); /* a list is one folder's name */
    runner_fails_with(":/vendor/dsp", "exactly one folder", "Unable to load lib 0x80000406");
}

static void stub_of_another_build(void **state) {
    (void)state;
    make_lib("libQnnHtpV79Stub.so");
    FILE *f = fopen(BOARD "libQnnHtpV79Stub.so", "rb");
    size_t size;
    char *data = run_read_back(f, &size), *at;
    while ((at = memmem(data, size, FAKE_BUILD_ID, sizeof FAKE_BUILD_ID - 1)) != NULL)
        memcpy(at, "v2.40.0.250101000000", sizeof FAKE_BUILD_ID - 1);
    write_file("lib/libQnnHtpV79Stub.so", data, size);
    free(data);
    runner_fails_with("", "the stub is of another build", "Stub lib id mismatch");
}

/* ---- Whole replies ---- */

static char *reply_here(const char *const *words) {
    ran r = run_words((run_setting){0}, words);
    check_ran(&r, 0, NULL);
    char *out = strdup(r.out);
    ran_free(&r);
    return out;
}

/* The main job's command from the checkpoint to the reply; the same text as the CPU device's here. */
static void the_main_job(void **state) {
    (void)state;
    static const char prompt[] = "it's \"$HOME\"\n\xF0\x9F\xA6\x99";
    ran r = RUN_WITH(with_stand_in, "llama", "-b", CROSS, "-H", "HOST", "-s", "FAKE1", "-m", "SM8750",
                     "--temperature", "0", "--model_mode", "hybrid", "--max_seq_len", "96",
                     "--prefill_ar_len", "16", "--model", in_folder("tiny.gguf"), "--use_slc_allocator",
                     "--prompt", prompt, "--artifact", in_folder("job"), "--qnn_lib", HOST_QNN);
    check_ran(&r, 0, "files pushed");
    check_ran(&r, 0, "device: htp");
    char *here = reply_here((const char *const[]){"generate", in_folder("job"), "--prompt", prompt,
                                                  "--temperature", "0", "--max_seq_len", "96", NULL});
    assert_string_equal(r.out, here);
    assert_true(r.out_size > 2);
    free(here), ran_free(&r);
    phone_did("1 contexts, ");
    phone_did("2 votes for clocks"); /* the mode, and back at the end */
    phone_did("0 graphs with the SLC off");
}

/* Options reach the runner: the SLC allocator off at load, a profile, the sampler's. */
static void options_reach_the_runner(void **state) {
    (void)state;
    ran r = PHONE(with_stand_in, "--force_slc", "off", "--profile", "--perf", "balanced", "--raw");
    check_ran(&r, 0, "device: htp");
    char *here = reply_here((const char *const[]){"generate", bundle, "--prompt", "abc", "--temperature", "0",
                                                  "--raw", "--max_seq_len", "64", NULL});
    assert_string_equal(r.out, here);
    free(here), ran_free(&r);
    phone_did("2 graphs with the SLC off");
}

static void a_context_that_finds_no_room(void **state) {
    (void)state;
    setenv("FAKE_PHONE", "dead_context", 1);
    ran r = PHONE(with_stand_in, "-v");
    check_ran(&r, 1, "on the device: ");
    check_ran(&r, 1, "QNN error 1002");
    ran_free(&r);
}

/* The phone's CPU, without any of Qualcomm's libraries. */
static void the_phones_cpu(void **state) {
    (void)state;
    ran r = PHONE(no_sdk, "--run_on", "adb-cpu");
    check_ran(&r, 0, "device: cpu");
    char *here = reply_here((const char *const[]){"generate", bundle, "--prompt", "abc", "--temperature", "0",
                                                  "--max_seq_len", "64", NULL});
    assert_string_equal(r.out, here);
    free(here), ran_free(&r);
    assert_false(device_has(ROOT "lib/libQnnHtp.so"));
}

int main(void) {
    if (!can_run()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(as_far_as_the_dsp, fresh_phone),
        cmocka_unit_test_setup(no_soc, fresh_phone),
        cmocka_unit_test_setup(another_soc, fresh_phone),
        cmocka_unit_test_setup(no_cdsprpc, fresh_phone),
        cmocka_unit_test_setup(session_refused, fresh_phone),
        cmocka_unit_test_setup(unsigned_code_refused, fresh_phone),
        cmocka_unit_test_setup(pieces_missing_on_the_device, fresh_phone),
        cmocka_unit_test_setup(stub_of_another_build, fresh_phone),
        cmocka_unit_test_setup(the_main_job, fresh_phone),
        cmocka_unit_test_setup(options_reach_the_runner, fresh_phone),
        cmocka_unit_test_setup(a_context_that_finds_no_room, fresh_phone),
        cmocka_unit_test_setup(the_phones_cpu, fresh_phone),
    };
    return cmocka_run_group_tests_name("emulated phone", tests, set_up, remove_folder);
}
