/* A bundle on a phone, through the program and a stand-in for adb: what is checked before anything is sent,
 * what is sent, what comes back, and every way to fail with its sentence. In place of the phone's runner this
 * machine's build runs on its CPU device. */
#include <signal.h>
#include <sys/prctl.h>

#include "cli/fake_phone.h"
#include "cli/tiny_bundle.h"
#include "deploy/failure.h"

#define ROOT "data/local/tmp/spillway/"

static char bundle[128], cpu_bundle[128], sdk_variable[200];
static run_setting with_sdk;

static int set_up(void **state) {
    bytes b = {0};
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    char gguf[128];
    snprintf(gguf, sizeof gguf, "%s", write_file("tiny.gguf", b.data, b.size));
    free(b.data);
    snprintf(bundle, sizeof bundle, "%s/bundle", folder);
    snprintf(cpu_bundle, sizeof cpu_bundle, "%s/cpu_bundle", folder);
    tiny_bundle_write_with(gguf, bundle, NULL, (tiny_context){"no real binary", 14, FAKE_BUILD_ID});
    tiny_bundle_write(gguf, cpu_bundle, NULL);
    fake_phone_make();
    snprintf(sdk_variable, sizeof sdk_variable, "QNN_SDK_ROOT=%s/sdk", folder);
    with_sdk.environment = sdk_variable;
    return 0;
}

static int fresh_device(void **state) {
    (void)state;
    char device[200];
    snprintf(device, sizeof device, "%s/device", folder);
    remove_all(device);
    unsetenv("FAKE_ADB_FAIL"), unsetenv("FAKE_ADB_OLD"), unsetenv("FAKE_ADB_MODEL"),
        unsetenv("FAKE_ADB_MACHINE");
    free(adb_log());
    return mkdir(device, 0777);
}

#define PHONE(...)                                                                                           \
    RUN_WITH(with_sdk, "generate", bundle, "-s", "FAKE1", "--max_seq_len", "64", "--temperature", "0",       \
             __VA_ARGS__)
#define ANDROID "-b", in_folder("android")
#define LINUX   "-b", in_folder("linux")

static void refused(int status, const char *says, ran r) {
    check_ran(&r, status, says);
    size_t errors = count_text(r.err, "\nerror: ") + (strncmp(r.err, "error: ", 7) == 0);
    if (r.out_size != 0 || errors != 1) fail_msg("stdout %s, stderr %s", r.out, r.err);
    ran_free(&r);
}

static void nothing_was_sent(void) {
    char *log = adb_log();
    if (strstr(log, "push\n") != NULL) fail_msg("something was sent: %s", log);
    free(log);
}

/* The reply is the CPU device's here; the second run sends the prompt alone. */
static void reply_and_second_run(void **state) {
    (void)state;
    ran here = RUN("generate", bundle, "--max_seq_len", "64", "--temperature", "0", "--prompt", "abc");
    check_ran(&here, 0, NULL);
    ran r = PHONE("--prompt", "abc", ANDROID, "-H", "phonehost");
    check_ran(&r, 0, "files pushed");
    assert_string_equal(r.out, here.out);
    if (strstr(r.err, "generated: ") == NULL) fail_msg("the runner's figures aren't shown: %s", r.err);
    char *log = adb_log();
    if (strstr(log, "adb\n-H\nphonehost\n-s\nFAKE1\nget-state\n") == NULL) fail_msg("%s", log);
    if (strstr(log, "ADSP_LIBRARY_PATH=/data/local/tmp/spillway/lib ") == NULL) fail_msg("%s", log);
    if (strstr(log, "LD_LIBRARY_PATH=/data/local/tmp/spillway/lib ") == NULL) fail_msg("%s", log);
    size_t all = count_text(log, "push\n");
    free(log), ran_free(&r);
    r = PHONE("--prompt", "abc", ANDROID);
    check_ran(&r, 0, "0 of");
    assert_string_equal(r.out, here.out);
    log = adb_log();
    assert_int_equal(count_text(log, "push\n"), 1);
    assert_true(all > 10);
    free(log), ran_free(&r), ran_free(&here);
}

/* What the runner measured and said is in the bundle's folder. */
static void log_and_figures(void **state) {
    (void)state;
    ran r = PHONE("--prompt", "abc", LINUX);
    check_ran(&r, 0, NULL);
    ran_free(&r);
    json_t *stats = json_load_file(in_folder("bundle/device_stats.json"), 0, NULL);
    assert_non_null(stats);
    json_t *turn = json_array_get(json_object_get(stats, "turns"), 0);
    assert_true(json_integer_value(json_object_get(turn, "prompt_tokens")) > 0);
    assert_true(json_real_value(json_object_get(turn, "prefill_seconds")) > 0);
    json_decref(stats);
    FILE *f = fopen(in_folder("bundle/device.log"), "r");
    assert_non_null(f);
    size_t size;
    char *text = run_read_back(f, &size);
    if (strstr(text, "generated: ") == NULL) fail_msg("device.log: %s", text);
    free(text);
    assert_true(device_has("var/tmp/spillway/bin/spillway")); /* Linux has another default folder */
    assert_true(device_has("var/tmp/spillway/lib/libQnnHtpV79Skel.so"));
}

/* Prompts arrive byte for byte. */
static void prompts_arrive(void **state) {
    (void)state;
    static char long_text[100001];
    for (size_t i = 0; i < sizeof long_text - 1; i++) long_text[i] = "'\"$`\\ \n;&|x"[i * i % 11];
    static const char *const texts[] = {"it's \"quoted\" $HOME `id` $(id)",
                                        "line 1\nline 2\r\n\n",
                                        "\xF0\x9F\xA6\x99",
                                        "C:\\a b\\c",
                                        "--raw",
                                        long_text};
    enum { N = sizeof texts / sizeof *texts };
    for (size_t i = 0; i < N; i++) {
        char value[100100];
        snprintf(value, sizeof value, "--prompt=%s", texts[i]);
        ran r = PHONE(value, ANDROID); /* may be too long for the model: it has arrived all the same */
        ran_free(&r);
        size_t size;
        char *got = device_file(ROOT "run/prompt-0", &size);
        assert_int_equal(size, strlen(texts[i]));
        assert_memory_equal(got, texts[i], size);
        free(got);
    }
    /* Files, turns in order, and a system prompt. */
    const char *file = write_file("prompt.txt",
                                  "\xEF\xBB\xBF"
                                  "a\r\n",
                                  6);
    ran r = PHONE("--prompt", "one", "--prompt_file", file, "--system_prompt", "you're $1", ANDROID);
    ran_free(&r);
    static const struct {
        const char *name, *text;
    } rows[] = {{ROOT "run/prompt-0", "one"},
                {ROOT "run/prompt-1", "\xEF\xBB\xBF"
                                      "a\r\n"},
                {ROOT "run/system_prompt", "you're $1"}};
    for (size_t i = 0; i < 3; i++) {
        size_t size;
        char *got = device_file(rows[i].name, &size);
        assert_string_equal(got, rows[i].text);
        free(got);
    }
}

/* A file of another build, a half file, a part of an older bundle: replaced or gone after the next run. */
static void stale_files(void **state) {
    (void)state;
    ran r = PHONE("--prompt", "abc", ANDROID);
    check_ran(&r, 0, NULL);
    ran_free(&r);
    fake_elf("device/" ROOT "lib/libQnnHtpV79Stub.so", ELF_AARCH64, NULL, "libc.so v2.40.0.250101000000");
    write_file("device/" ROOT "lib/libQnnHtpV73Stub.so", "old", 3);
    write_file("device/" ROOT "bundle/context-00000000.bin", "old", 3);
    write_file("device/" ROOT "lib/libQnnHtp.so.spillway-part", "half", 4);
    free(adb_log());
    r = PHONE("--prompt", "abc", ANDROID);
    check_ran(&r, 0, "1 of");
    ran_free(&r);
    assert_false(device_has(ROOT "lib/libQnnHtpV73Stub.so"));
    assert_false(device_has(ROOT "bundle/context-00000000.bin"));
    assert_false(device_has(ROOT "lib/libQnnHtp.so.spillway-part"));
    size_t size;
    char *stub = device_file(ROOT "lib/libQnnHtpV79Stub.so", &size);
    assert_non_null(memmem(stub, size, FAKE_BUILD_ID, sizeof FAKE_BUILD_ID));
    free(stub);
}

/* A push that breaks off leaves nothing that counts, and the next run completes it. */
static void half_push(void **state) {
    (void)state;
    setenv("FAKE_ADB_FAIL", "disconnected", 1);
    refused(1, "look at the cable", PHONE("--prompt", "abc", ANDROID));
    assert_false(device_has(ROOT "bin/spillway"));
    setenv("FAKE_ADB_FAIL", "damaged", 1);
    refused(1, "SHA-256", PHONE("--prompt", "abc", ANDROID));
    assert_false(device_has(ROOT "bin/spillway"));
    unsetenv("FAKE_ADB_FAIL");
    ran r = PHONE("--prompt", "abc", ANDROID);
    check_ran(&r, 0, NULL);
    ran_free(&r);
}

static void clean_device(void **state) {
    (void)state;
    ran r = PHONE("--prompt", "abc", ANDROID, "--clean_device");
    check_ran(&r, 0, NULL);
    ran_free(&r);
    assert_false(device_has("data/local/tmp/spillway"));
    /* Another's folder is neither used nor removed. */
    fake_folder("device/data/local/tmp/photos");
    write_file("device/data/local/tmp/photos/cat.jpg", "x", 1);
    refused(2, "other things",
            PHONE("--prompt", "a", ANDROID, "--clean_device", "--device_dir", "/data/local/tmp/photos"));
    assert_true(device_has("data/local/tmp/photos/cat.jpg"));
    static const char *const bad[] = {
        "/data/local/tmp/a:b", "/data/local/tmp/a;b", "/", "/data", "data/x", "/data/../x", "//x", "/data/"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(2, "--device_dir", PHONE("--prompt", "a", ANDROID, "--device_dir", bad[i]));
    r = PHONE("--prompt", "abc", ANDROID, "--device_dir", "/data/local/tmp/my 'own' $dir");
    check_ran(&r, 0, NULL);
    ran_free(&r);
    assert_true(device_has("data/local/tmp/my 'own' $dir/bin/spillway"));
}

/* An adbd of before Android 7: one stream, "\r\n", no exit status. */
static void old_adbd(void **state) {
    (void)state;
    ran here = RUN("generate", bundle, "--max_seq_len", "64", "--temperature", "0", "--prompt", "abc");
    setenv("FAKE_ADB_OLD", "1", 1);
    for (int i = 0; i < 2; i++) {
        ran r = PHONE("--prompt", "abc", ANDROID);
        check_ran(&r, 0, i == 0 ? "generated: " : "0 of");
        assert_string_equal(r.out, here.out);
        ran_free(&r);
    }
    refused(2, "no room for a reply",
            PHONE("--prompt",
                  "a far too long prompt, longer than the context of the tiny model is, "
                  "by far and then some more of it all",
                  ANDROID));
    ran_free(&here);
}

/* Each needed file, missing in turn: named, with the architecture, before anything is sent. */
static void missing_libraries(void **state) {
    (void)state;
    static const char *const files[] = {
        "sdk/lib/aarch64-android/libQnnHtp.so", "sdk/lib/aarch64-android/libQnnSystem.so",
        "sdk/lib/aarch64-android/libQnnHtpV79Stub.so", "sdk/lib/hexagon-v79/unsigned/libQnnHtpV79Skel.so"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(rename(in_folder(files[i]), in_folder("aside")), 0);
        ran r = PHONE("--prompt", "a", ANDROID);
        assert_int_equal(rename(in_folder("aside"), in_folder(files[i])), 0);
        if (strstr(r.err, "V79") == NULL) fail_msg("no architecture: %s", r.err);
        refused(1, files[i], r);
        nothing_was_sent();
    }
    refused(1, "Qualcomm's SDK alone",
            RUN_WITH(SETTING(.environment = "QNN_SDK_ROOT"), "generate", bundle, "-s", "FAKE1", "--prompt",
                     "a", ANDROID));
    refused(1, "QNN_SDK_ROOT=/nowhere/qnn", RUN("generate", bundle, "-s", "FAKE1", "--prompt", "a", LINUX));
    refused(1, "QNN_SDK_ROOT=/nowhere/qnn", RUN("generate", bundle, "-s", "FAKE1", "--prompt", "a", ANDROID));
}

/* Libraries of two builds, of another system or processor, older than the bundle. */
static void wrong_libraries(void **state) {
    (void)state;
    static const struct {
        const char *file;
        int machine;
        const char *text, *says;
    } rows[] = {
        {"sdk/lib/aarch64-android/libQnnHtpV79Stub.so", ELF_AARCH64, "v2.40.0.250101000000",
         "v2.40.0.250101000000"},
        {"sdk/lib/hexagon-v79/unsigned/libQnnHtpV79Skel.so", ELF_HEXAGON, "v2.40.0.250101000000", "one SDK"},
        {"sdk/lib/aarch64-android/libQnnSystem.so", ELF_AARCH64, "libc.so.6 " FAKE_BUILD_ID,
         "the runner is for Android"},
        {"sdk/lib/aarch64-android/libQnnSystem.so", ELF_X86_64, FAKE_BUILD_ID,
         "for x86-64, wanted one for 64-bit ARM"},
        {"sdk/lib/hexagon-v79/unsigned/libQnnHtpV79Skel.so", ELF_AARCH64, FAKE_BUILD_ID,
         "wanted one for Hexagon"},
        {"sdk/lib/aarch64-android/libQnnHtp.so", ELF_AARCH64, "no id: v2.51.0.1", "no build id"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(rename(in_folder(rows[i].file), in_folder("aside")), 0);
        fake_elf(rows[i].file, rows[i].machine, NULL, rows[i].text);
        ran r = PHONE("--prompt", "a", ANDROID);
        assert_int_equal(rename(in_folder("aside"), in_folder(rows[i].file)), 0);
        refused(1, rows[i].says, r);
        nothing_was_sent();
    }
}

static void wrong_runners(void **state) {
    (void)state;
    fake_folder("other");
    refused(1, "no program `spillway` in it", PHONE("--prompt", "a", "-b", in_folder("other")));
    fake_elf("other/spillway", ELF_X86_64, "/lib64/ld-linux-x86-64.so.2", "");
    refused(1, "for x86-64, wanted a program for 64-bit ARM",
            PHONE("--prompt", "a", "-b", in_folder("other")));
    fake_elf("other/spillway", ELF_AARCH64, NULL, "");
    refused(1, "static", PHONE("--prompt", "a", "-b", in_folder("other")));
    write_file("other/spillway", "#!/bin/sh\n", 10);
    refused(1, "no ELF file", PHONE("--prompt", "a", "-b", in_folder("other")));
    /* Every cut of a good header, and a table that points outside. */
    unsigned char data[512];
    FILE *f = fopen(in_folder("linux/spillway"), "rb");
    assert_int_equal(fread(data, 1, sizeof data, f), sizeof data);
    fclose(f);
    for (size_t size = 0; size < 150; size += 7) {
        write_file("other/spillway", data, size);
        refused(1, "other/spillway", PHONE("--prompt", "a", "-b", in_folder("other")));
    }
    for (int byte = 32; byte < 40; byte++) data[byte] = 0xff;
    write_file("other/spillway", data, sizeof data);
    refused(1, "other/spillway", PHONE("--prompt", "a", "-b", in_folder("other")));
    nothing_was_sent();
}

static void other_socs(void **state) {
    (void)state;
    setenv("FAKE_ADB_MODEL", "SM8650", 1);
    refused(2, "compile again with -m SM8650", PHONE("--prompt", "a", ANDROID));
    nothing_was_sent();
    setenv("FAKE_ADB_MODEL", "SXR2330P", 1); /* another V79 */
    ran r = PHONE("--prompt", "abc", ANDROID);
    check_ran(&r, 0, "same architecture V79");
    ran_free(&r);
    static const char *const unknown[] = {"", "SM8750P", "SM9999"};
    for (size_t i = 0; i < 3; i++) {
        setenv("FAKE_ADB_MODEL", unknown[i], 1);
        r = PHONE("--prompt", "abc", ANDROID);
        check_ran(&r, 0, NULL);
        if (strstr(r.err, "warning") != NULL) fail_msg("%s", r.err);
        ran_free(&r);
    }
    setenv("FAKE_ADB_MACHINE", "armv7l", 1);
    refused(1, "armv7l", PHONE("--prompt", "a", ANDROID));
}

/* A bundle without a context runs on the phone's CPU only. */
static void cpu_of_the_phone(void **state) {
    (void)state;
    refused(2, "adb-cpu",
            RUN_WITH(with_sdk, "generate", cpu_bundle, "-s", "FAKE1", "--prompt", "a", ANDROID));
    ran here = RUN("generate", cpu_bundle, "--max_seq_len", "64", "--temperature", "0", "--prompt", "abc");
    ran r = RUN("generate", cpu_bundle, "--run_on", "adb-cpu", "--max_seq_len", "64", "--temperature", "0",
                "--prompt", "abc", ANDROID);
    check_ran(&r, 0, NULL);
    assert_string_equal(r.out, here.out);
    assert_false(device_has(ROOT "lib/libQnnHtp.so"));
    ran_free(&r), ran_free(&here);
}

/* Every failure that the stand-in can show, and what the program says. */
static void failures(void **state) {
    static const struct {
        const char *name, *says;
    } rows[] = {{"no_device", "no device is connected"},
                {"unauthorized", "allow USB debugging in the dialog"},
                {"authorizing", "waits for your permission"},
                {"offline", "adb reconnect offline"},
                {"no_permissions", "udev"},
                {"wrong_state", "`recovery`"},
                {"host_unknown", "-H has no address"},
                {"server_refuses", "adb -a nodaemon server start"},
                {"host_unreachable", "port 5037"},
                {"server_version", "different versions"},
                {"protocol", "isn't an adb server"},
                {"no_server", "adb start-server"},
                {"no_space", "storage is full"},
                {"full", "are free"},
                {"read_only", "can't be written to"},
                {"denied", "/data/local/tmp is the shell user's"},
                {"disconnected", "look at the cable"},
                {"disconnected_running", "the connection to the device broke off"},
                {"wrong_machine", "isn't for this device's processor"},
                {"linker", "needs a library"},
                {"no_loader", "another system"},
                {"killed", "want of memory"},
                {"crash", "signal 11"},
                {"dsp_noise_and_error", "on the device: creating the context: QNN error 1002"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fresh_device(state);
        setenv("FAKE_ADB_FAIL", rows[i].name, 1);
        ran r = PHONE("--prompt", "abc", ANDROID);
        check_ran(&r, 1, rows[i].says);
        if (count_text(r.err, "error: ") == 0 || strstr(r.err, "open_shell") != NULL) fail_msg("%s", r.err);
        bool replied = strcmp(rows[i].name, "disconnected_running") == 0;
        assert_string_equal(r.out, replied ? "Once upon\n" : "");
        ran_free(&r);
    }
    fresh_device(state);
    setenv("FAKE_ADB_FAIL", "several_devices", 1);
    refused(1, "name one with -s SERIAL",
            RUN_WITH(with_sdk, "generate", bundle, "--run_on", "adb", "--prompt", "a", ANDROID));
    refused(1, "has that serial",
            RUN_WITH(with_sdk, "generate", bundle, "-s", "OTHER", "--prompt", "a", ANDROID));
    refused(1, "install adb", PHONE("--prompt", "a", ANDROID, "--adb", "/nowhere/adb"));
    /* Every row of the list that the program has is shown here. */
    for (size_t k = 0; k < sw_n_adb_failures; k++) {
        const char *name = sw_adb_failures[k].name;
        bool found = strcmp(name, "several_devices") == 0 || strcmp(name, "unknown_serial") == 0;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            found = found || strcmp(name, rows[i].name) == 0;
        if (!found) fail_msg("no test for %s", name);
    }
}

/* Noise of the DSP's libraries in a good run is shown to who asks for it. */
static void dsp_noise(void **state) {
    (void)state;
    setenv("FAKE_ADB_FAIL", "dsp_noise", 1);
    ran r = PHONE("--prompt", "abc", ANDROID);
    check_ran(&r, 0, NULL);
    if (strstr(r.err, "open_shell") != NULL) fail_msg("%s", r.err);
    ran_free(&r);
    r = PHONE("--prompt", "abc", ANDROID, "-v");
    check_ran(&r, 0, "open_shell failed");
    ran_free(&r);
}

static void no_sha256sum_there(void **state) {
    (void)state;
    setenv("FAKE_ADB_FAIL", "no_hash", 1);
    ran r = PHONE("--prompt", "abc", ANDROID);
    check_ran(&r, 0, "no sha256sum");
    ran_free(&r);
}

/* llama says before the compile what will go wrong with the device, and after it that the bundle is there. */
static void llama_checks_the_device_first(void **state) {
    (void)state;
    setenv("FAKE_ADB_FAIL", "offline", 1);
    ran r = RUN_WITH(with_sdk, "llama", "-m", "SM8750", "--model", in_folder("tiny.gguf"), "--max_seq_len",
                     "64", "--prompt", "a", "-s", "FAKE1", ANDROID, "--artifact", in_folder("never"));
    check_ran(&r, 1, "warning: the device: looking for the device: the device doesn't answer");
    ran_free(&r);
    r = RUN_WITH(with_sdk, "llama", "-m", "SM8750", "--model", in_folder("tiny.gguf"), "--prompt", "a",
                 "--run_on", "htp-emulator", "-s", "FAKE1", ANDROID);
    refused(2, "wanted one of them", r);
    r = RUN_WITH(with_sdk, "llama", "--pre_gen_bundle", bundle, "--max_seq_len", "64", "--prompt", "a", "-s",
                 "FAKE1", ANDROID);
    refused(1, "doesn't answer", r);
}

static unsigned prompt_files(void) {
    unsigned n = 0;
    FILE *f = popen("ls /tmp | grep -c '^spillway-prompt-'", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%u", &n), 1);
    pclose(f);
    return n;
}

/* Ctrl-C while the phone computes: adb is told to end too, and no prompt is left in /tmp. */
static void ended_by_a_signal(void **state) {
    (void)state;
#ifdef SW_EMULATOR
    skip(); /* the signal would be the emulator's */
#endif
    char script[300], *old = strdup(getenv("FAKE_ADB_RUN"));
    int n = snprintf(script, sizeof script, "#!/bin/sh\necho $$ >%s/started\nexec sleep 100\n", folder);
    setenv("FAKE_ADB_RUN", write_file("sleeper", script, (size_t)n), 1);
    assert_int_equal(chmod(in_folder("sleeper"), 0755), 0);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* what the program leaves becomes ours */
    unsigned prompts = prompt_files();
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1), dup2(null, 2);
        putenv(sdk_variable);
        execl(SW_PROGRAM, "spillway", "generate", bundle, "-s", "FAKE1", "--prompt", "abc", ANDROID,
              (char *)NULL);
        _exit(126);
    }
    int pid = 0, status;
    for (int i = 0; i < 1000 && pid == 0; i++) {
        FILE *f = fopen(in_folder("started"), "r");
        if (f != NULL && fscanf(f, "%d", &pid) != 1) pid = 0;
        if (f != NULL) fclose(f);
        usleep(10000);
    }
    assert_true(pid > 0);
    kill(child, SIGINT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGINT);
    assert_int_equal(prompt_files(), prompts);
    kill(pid, SIGKILL); /* the phone's; a real one ends with its connection */
    pid_t got = 0;
    for (int i = 0; i < 500 && got >= 0; i++)
        if ((got = waitpid(-1, NULL, WNOHANG)) == 0) usleep(10000);
    assert_int_equal(got, -1); /* nobody is left */
    setenv("FAKE_ADB_RUN", old, 1);
    free(old);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(reply_and_second_run, fresh_device),
        cmocka_unit_test_setup(log_and_figures, fresh_device),
        cmocka_unit_test_setup(prompts_arrive, fresh_device),
        cmocka_unit_test_setup(stale_files, fresh_device),
        cmocka_unit_test_setup(half_push, fresh_device),
        cmocka_unit_test_setup(clean_device, fresh_device),
        cmocka_unit_test_setup(old_adbd, fresh_device),
        cmocka_unit_test_setup(missing_libraries, fresh_device),
        cmocka_unit_test_setup(wrong_libraries, fresh_device),
        cmocka_unit_test_setup(wrong_runners, fresh_device),
        cmocka_unit_test_setup(other_socs, fresh_device),
        cmocka_unit_test_setup(cpu_of_the_phone, fresh_device),
        cmocka_unit_test_setup(failures, fresh_device),
        cmocka_unit_test_setup(dsp_noise, fresh_device),
        cmocka_unit_test_setup(no_sha256sum_there, fresh_device),
        cmocka_unit_test_setup(ended_by_a_signal, fresh_device),
        cmocka_unit_test_setup(llama_checks_the_device_first, fresh_device),
    };
    return cmocka_run_group_tests_name("phone", tests, set_up, remove_folder);
}
