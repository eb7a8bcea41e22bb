/* What the program writes where something is in its way: no room, names that aren't text, arguments longer
 * than a sentence, and options that say two things. */
#include <jansson.h>

#include "cli/run_program.h"
#include "cli/tiny_bundle.h"

static char gguf[128], bundle[128], kv_recipe[128];

static int set_up(void **state) {
    static const char kv[] = "{\"base\": \"16a8w\", \"default\": {\"kv\": \"u8\"}}";
    bytes b = {0};
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    snprintf(gguf, sizeof gguf, "%s", write_file("tiny.gguf", b.data, b.size));
    free(b.data);
    snprintf(kv_recipe, sizeof kv_recipe, "%s", write_file("kv.json", kv, sizeof kv - 1));
    snprintf(bundle, sizeof bundle, "%s/bundle", folder);
    tiny_bundle_write(gguf, bundle, NULL);
    return 0;
}

/* The text of a key in what was printed, which must be JSON. */
static void check_json(const ran *r, const char *key, const char *wanted) {
    check_ran(r, 0, NULL);
    json_error_t where;
    json_t *document = json_loadb(r->out, r->out_size, JSON_REJECT_DUPLICATES, &where);
    if (document == NULL) fail_msg("line %d: %s", where.line, where.text);
    const char *text = key != NULL ? json_string_value(json_object_get(document, key)) : NULL;
    if (key != NULL && (text == NULL || strstr(text, wanted) == NULL))
        fail_msg("`%s` is %s, wanted %s", key, text, wanted);
    json_decref(document);
}

static void json_takes_any_file_name(void **state) {
    (void)state;
    static const struct {
        const char *name, *shown;
    } rows[] = {{"\xff\xfe", "\\xff\\xfe"},
                {"a\xc3", "a\\xc3"},
                {"\xed\xa0\x80", "\\xed\\xa0\\x80"}, /* half of a surrogate pair */
                {"\x01\"\\\n", "\x01\"\\\n"},
                {"\xe6\xa8\xa1 \xf0\x9f\x98\x80", "\xe6\xa8\xa1 \xf0\x9f\x98\x80"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char file[200], copy[200], text[64], page[200];
        snprintf(file, sizeof file, "%s/%s.gguf", folder, rows[i].name);
        snprintf(copy, sizeof copy, "%s/%s", folder, rows[i].name);
        snprintf(page, sizeof page, "%s/%s.html", folder, rows[i].name);
        snprintf(text, sizeof text, "%s.gguf", rows[i].shown);
        assert_int_equal(link(gguf, file), 0);
        ran r = RUN("plan", file, "-m", "SM8750", "--max_seq_len", "128", "--json");
        check_json(&r, "model", text);
        ran_free(&r);
        r = RUN("eval", "--model", file, "--quant", "f32", "--text", SW_TEST_DATA "/persuasion_start.txt",
                "--context", "64", "--chunks", "1", "--json");
        check_json(&r, "model", text);
        ran_free(&r);
        assert_int_equal(rename(bundle, copy), 0);
        r = RUN("inspect", copy, "--json");
        check_json(&r, "format", "spillway-bundle");
        ran_free(&r);
        r = RUN("inspect", copy, "--report", page);
        check_ran(&r, 0, NULL);
        ran_free(&r);
        assert_int_equal(rename(copy, bundle), 0);
    }
    REFUSED(2, "not UTF-8", "plan", gguf, "-m", "S\xff", "--soc_id", "65000", "--htp_arch", "79", "--vtcm_mb",
            "8", "--json");
}

/* What failed is named with the file and the system's reason, and nothing is left there. */
static void no_room(void **state) {
    (void)state;
    const char *out = in_folder("out");
    char stats[128];
    snprintf(stats, sizeof stats, "%s/out", folder);
    const char *const full[][10] = {
        {"generate", bundle, "--prompt", "hello", "--max_seq_len", "90", "--trace", out},
        {"inspect", bundle, "--report", out},
        {"logits", "--model", bundle, "--ids", "1,2,3,4", "--out", out},
    };
    for (size_t i = 0; i < sizeof full / sizeof *full; i++) { /* at `ulimit -f`, as at a disk's end */
        ran r = run_words(SETTING(.file_bytes = 1000), full[i]);
        char wanted[200];
        snprintf(wanted, sizeof wanted, "error: %s: can't write: File too large", stats);
        check_ran(&r, 1, wanted);
        ran_free(&r);
        assert_int_not_equal(access(stats, F_OK), 0);
    }
    const char *const printed[][8] = {{"plan", gguf, "-m", "SM8750", "--max_seq_len", "128", "--json"},
                                      {"plan", gguf, "-m", "SM8750", "--max_seq_len", "128"},
                                      {"inspect", bundle, "--json"},
                                      {"inspect", bundle},
                                      {"inspect", bundle, "--dot", "kv_forward"},
                                      {"advise", bundle, "--json"},
                                      {"verify", bundle},
                                      {"tokenize", "--help"}};
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++) {
        ran r = run_words(SETTING(.output = "/dev/full"), printed[i]);
        check_ran(&r, 1, ": No space left on device");
        assert_int_equal(count_lines(r.err), 1);
        ran_free(&r);
    }
}

/* The reason stands at the end of the line, whatever was before it. */
static void long_arguments(void **state) {
    (void)state;
    static char text[100001], path[100100];
    for (size_t size = 900; size <= 100000; size *= 3) {
        memset(text, 'x', size);
        text[size] = '\0';
        snprintf(path, sizeof path, "%s/%s", folder, text);
        const char *too_long = size >= 4096 || size > 255 ? "File name too long" : NULL;
        REFUSED(1, too_long, "generate", path, "--prompt", "a");
        REFUSED(1, too_long, "compile", "-m", "SM8750", "--model", path);
        REFUSED(1, too_long, "plan", path, "-m", "SM8750");
        REFUSED(1, too_long, "logits", "--model", bundle, "--ids", "1", "--out", path);
        REFUSED(1, too_long, "generate", bundle, "--prompt_file", path);
        REFUSED(2, "SM8750", "compile", "--model", gguf, "-m", text);
        REFUSED(2, "wanted one of: cpu, htp-emulator", "generate", bundle, "--prompt", "a", "--run_on", text);
        REFUSED(2, "wanted a whole number from", "generate", bundle, "--prompt", "a", "--seed", text);
        REFUSED(2, "is no command, wanted one of: llama", text);
        REFUSED(2, "unexpected", "generate", bundle, text);
    }
}

static void options_that_say_two_things(void **state) {
    (void)state;
    static const char *const on[] = {"cpu", "htp-emulator", "htp"};
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        char wanted[100];
        snprintf(wanted, sizeof wanted, "--run_on %s runs here, -s and -H run on a device", on[i]);
        REFUSED(2, wanted, "generate", bundle, "--prompt", "a", "-b", folder, "-s", "1", "--run_on", on[i]);
        REFUSED(2, wanted, "generate", bundle, "--prompt", "a", "-b", folder, "-H", "h", "--run_on", on[i]);
        REFUSED(2, wanted, "llama", "--model", gguf, "-m", "SM8750", "--prompt", "a", "-b", folder, "-s", "1",
                "--run_on", on[i], "--artifact", in_folder("new"));
    }
    assert_int_not_equal(access(in_folder("new"), F_OK), 0);
    const char *const doors[][12] = {
        {"plan", gguf, "-m", "SM8750", "--max_seq_len", "128", "--quant", kv_recipe, "--kv_bits", "16"},
        {"compile", "--model", gguf, "-m", "SM8750", "--quant", kv_recipe, "--kv_bits", "16"},
        {"eval", "--model", gguf, "--text", gguf, "--quant", kv_recipe, "--kv_bits", "16"}};
    for (size_t i = 0; i < sizeof doors / sizeof *doors; i++) {
        ran r = run_words((run_setting){0}, doors[i]);
        check_refused(&r, 2, "kv.json says that K and V are u8: wanted one of them");
        assert_non_null(strstr(r.err, "--kv_bits 16"));
        ran_free(&r);
    }
    REFUSED(2, "-m SM8650, but ", "llama", "--pre_gen_bundle", bundle, "-m", "SM8650", "--prompt", "a");
    REFUSED(2, "--tune is of a compile", "llama", "--pre_gen_bundle", bundle, "--tune", "--prompt", "a");
    REFUSED(2, "--raw feeds prompts as they are", "generate", bundle, "--prompt", "a", "--raw",
            "--system_prompt", "b");
    REFUSED(2, "--verbose and --log_level error", "inspect", bundle, "-v", "--log_level", "error");
    REFUSED(2, "--json and --dot", "inspect", bundle, "--json", "--dot", "kv_forward");
    REFUSED(2, "--kv_bits: 12, wanted 8 or 16", "plan", gguf, "-m", "SM8750", "--quant", kv_recipe,
            "--kv_bits", "12");
    ran r = RUN("plan", gguf, "-m", "SM8750", "--max_seq_len", "128", "--quant", kv_recipe, "--kv_bits",
                "8"); /* the same, twice */
    check_ran(&r, 0, NULL);
    ran_free(&r);
}

/* A start looks at the sizes of a bundle's parts, so that it stays instant; `verify` reads them. */
static void a_start_reads_no_hash(void **state) {
    (void)state;
    char command[600];
    snprintf(command, sizeof command,
             "cp -r %s %s/damaged && f=$(ls %s/damaged/weights-*) && n=$(stat -c %%s $f) && "
             "printf '\\x5a' | dd of=$f bs=1 seek=$((n - 9)) conv=notrunc status=none",
             bundle, folder, folder);
    assert_int_equal(system(command), 0);
    const char *damaged = in_folder("damaged");
    ran r = RUN("generate", damaged, "--prompt", "hello", "--temperature", "0", "--max_seq_len", "60");
    check_ran(&r, 0, NULL);
    ran_free(&r);
    r = RUN("logits", "--model", damaged, "--ids", "1,2", "--out", in_folder("l.f32"));
    check_ran(&r, 0, NULL);
    ran_free(&r);
    REFUSED(1, "the part is damaged", "verify", damaged);
}

/* Wherever memory ends, it ends in an error and not in a crash, and files stay as they are. */
static void memory_ends_anywhere(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(SW_EMULATOR) /* both take more addresses than the program */
    skip();
#endif
    const char *const doors[][8] = {{"generate", bundle, "--prompt", "hello", "--max_seq_len", "60"},
                                    {"inspect", bundle, "--json"},
                                    {"verify", bundle},
                                    {"plan", gguf, "-m", "SM8750", "--max_seq_len", "64", "--json"},
                                    {"tokenize", "--model", gguf},
                                    {"logits", "--model", gguf, "--ids", "1,2", "--out", in_folder("l.f32")}};
    unsigned failed = 0, done = 0;
    for (size_t d = 0; d < sizeof doors / sizeof *doors; d++)
        for (rlim_t kb = 3000; kb < 300000; kb += kb / 9) {
            const char *words[9] = {0};
            memcpy(words, doors[d], sizeof doors[d]);
            ran r = run_words(SETTING(.memory_bytes = kb << 10), words);
            if (r.status == 127) { /* the system's loader has no memory for the program itself */
                ran_free(&r);
                continue;
            }
            if (r.status != 0) check_ran(&r, 1, "error: ");
            failed += r.status != 0, done += r.status == 0;
            ran_free(&r);
        }
    print_message("%u runs without memory enough, %u with\n", failed, done);
    assert_true(failed > 20 && done > 20);
    ran r = RUN("verify", bundle);
    check_ran(&r, 0, NULL);
    ran_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_takes_any_file_name), cmocka_unit_test(no_room),
        cmocka_unit_test(long_arguments),           cmocka_unit_test(options_that_say_two_things),
        cmocka_unit_test(a_start_reads_no_hash),    cmocka_unit_test(memory_ends_anywhere),
    };
    return cmocka_run_group_tests_name("outputs", tests, set_up, remove_folder);
}
