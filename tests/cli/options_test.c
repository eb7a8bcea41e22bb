/* The command line: defaults, every option's legal and illegal values, and what the sentences name. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/options.h"

static sw_options options;
static sw_error err;

/* Words up to NULL. */
static sw_code parse(const char *const *words) {
    char *argv[256] = {(char *)(uintptr_t) "spillway"};
    int argc = 1;
    for (; words[argc - 1] != NULL; argc++) argv[argc] = (char *)(uintptr_t)words[argc - 1];
    err = (sw_error){SW_OK, ""};
    return sw_options_parse(&options, argc, argv, &err);
}

#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})
#define PARSES(...)                                                                                          \
    do {                                                                                                     \
        if (PARSE(__VA_ARGS__) != SW_OK) fail_msg("%s", err.message);                                        \
    } while (0)

static void names(const char *part) {
    if (strstr(err.message, part) == NULL) fail_msg("`%s` doesn't name `%s`", err.message, part);
}

/* Wrong use, and the sentence has both parts. */
static void refused(const char *option, const char *value, const char *part) {
    if (PARSE("llama", option, value) != SW_INVALID_ARGUMENT) fail_msg("%s %s is taken", option, value);
    names(option);
    names(part);
}

static void defaults_are_llama_py_s(void **state) {
    (void)state;
    PARSES("llama");
    assert_int_equal(options.command, SW_CMD_LLAMA);
    assert_float_equal(options.temperature, 0.8, 1e-6);
    assert_int_equal(options.max_seq_len, 512);
    assert_int_equal(options.prefill_ar_len, 32);
    assert_string_equal(options.model_mode, "hybrid");
    assert_int_equal(options.max_context_len, 0); /* as max_seq_len */
    assert_string_equal(options.quant, "16a8w");
    assert_string_equal(options.run_on, "cpu");
    assert_int_equal(options.opt_level, 0); /* 3, or what --tune finds */
    assert_int_equal(options.vtcm_mb, 0);   /* the SoC's */
    assert_false(options.slc_given);
    assert_false(options.compile_only);
    assert_int_equal(options.n_prompts, 0);
    assert_null(options.soc); /* no SoC is guessed */
    assert_null(options.model);
    assert_float_equal(options.top_p, 1, 0);
    assert_int_equal(options.top_k, 0);
    assert_int_equal(options.seed, 0);
}

static void the_main_job(void **state) {
    (void)state;
    PARSES("llama", "-b", "build-android", "-H", "HOST", "-s", "SERIAL", "-m", "SM8750", "--temperature", "0",
           "--model_mode", "hybrid", "--max_seq_len", "128", "--prefill_ar_len", "32", "--decoder_model",
           "smollm2_135m", "--use_slc_allocator", "--prompt", "I would like", "--artifact", "out/");
    assert_string_equal(options.build_folder, "build-android");
    assert_string_equal(options.host, "HOST");
    assert_string_equal(options.serial, "SERIAL");
    assert_string_equal(options.soc, "SM8750");
    assert_float_equal(options.temperature, 0, 0);
    assert_int_equal(options.max_seq_len, 128);
    assert_string_equal(options.decoder_model, "smollm2_135m");
    assert_true(options.slc_given);
    assert_string_equal(options.slc, "");
    assert_int_equal(options.n_prompts, 1);
    assert_string_equal(options.prompts[0], "I would like");
    assert_string_equal(options.artifact, "out/");
}

static void letters_and_attached_values(void **state) {
    (void)state;
    PARSES("llama", "-mSM8750", "-bB", "-HH", "-sS", "-v");
    assert_string_equal(options.soc, "SM8750");
    assert_string_equal(options.build_folder, "B");
    assert_string_equal(options.host, "H");
    assert_string_equal(options.serial, "S");
    assert_true(options.verbose);
    PARSES("llama", "--soc_model=SM8650", "--build_folder", "B", "--host=a=b", "--device", "S", "--seed=7");
    assert_string_equal(options.soc, "SM8650");
    assert_string_equal(options.host, "a=b");
    assert_string_equal(options.serial, "S");
    assert_int_equal(options.seed, 7);
}

static void numbers(void **state) {
    (void)state;
    static const struct {
        const char *option;
        const char *good[5], *bad[12];
        const char *least, *most;
    } rows[] = {
        {"--prefill_ar_len",
         {"2", "127", "128", "65536"},
         {"-1", "0", "1", "65537", "1e9", "1000000000", "abc", "32x", "", " 32", "+32"},
         "2",
         "65536"},
        {"--max_seq_len",
         {"1", "512", "1048576"},
         {"0", "-1", "1048577", "4294967297", "0x20", "1.5"},
         "1",
         "1048576"},
        {"--max_context_len", {"2", "1048576"}, {"0", "1", "1048577", "abc"}, "2", "1048576"},
        {"--kv_bits", {"8", "16"}, {"0", "7", "17", "eight"}, "8", "16"},
        {"--calib_samples", {"1", "65536"}, {"0", "65537", "-5"}, "1", "65536"},
        {"--vtcm_mb", {"1", "8", "64"}, {"0", "65", "8MB"}, "1", "64"},
        {"--opt_level", {"1", "2", "3"}, {"0", "4", "O3"}, "1", "3"},
        {"--threads", {"1", "64"}, {"0", "65", "-2"}, "1", "64"},
        {"--top_k", {"0", "1", "1073741824"}, {"-1", "1073741825", "1e3"}, "0", "1073741824"},
        {"--seed",
         {"0", "18446744073709551615"},
         {"18446744073709551616", "99999999999999999999", "-1", "1.0", "abc"},
         "0",
         "18446744073709551615"},
        {"--temperature",
         {"0", "1e-38", "1e-6", "0.8", "1000"},
         {"nan", "inf", "-inf", "-1", "-1e-9", "1001", "1e39", "hot", "0.8x"},
         "0",
         "1000"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (const char *const *v = rows[i].good; v < rows[i].good + 5 && *v != NULL; v++)
            PARSES("llama", rows[i].option, *v);
        for (const char *const *v = rows[i].bad; v < rows[i].bad + 12 && *v != NULL; v++) {
            refused(rows[i].option, *v, rows[i].least);
            names(rows[i].most);
            names(*v);
        }
    }
    PARSES("llama", "--seed", "18446744073709551615");
    assert_true(options.seed == UINT64_MAX);
    PARSES("llama", "--temperature", "1e-38");
    assert_true(options.temperature > 0);
    PARSES("compare", "out", "--tokens", "4096");
    assert_int_equal(PARSE("compare", "out", "--tokens", "0"), SW_INVALID_ARGUMENT);
    names("4096");
}

static void top_p(void **state) {
    (void)state;
    static const char *const bad[] = {"0", "-0.1", "1.5", "nan", "inf", "1e-60", "p"};
    PARSES("generate", "out", "--top_p", "1");
    PARSES("generate", "out", "--top_p", "0.05");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (PARSE("generate", "out", "--top_p", bad[i]) != SW_INVALID_ARGUMENT)
            fail_msg("--top_p %s is taken", bad[i]);
        names("--top_p: ");
        names("1");
    }
}

static void words(void **state) {
    (void)state;
    static const struct {
        const char *option, *good, *bad, *list[3];
    } rows[] = {
        {"--model_mode", "kv", "Hybrid", {"hybrid", "kv", "kv"}},
        {"--attention", "per_head", "flash", {"auto", "grouped, per_kv_head", "per_head"}},
        {"--run_on", "htp-emulator", "gpu", {"cpu", "htp-emulator", "adb"}},
        {"--log_level", "debug", "loud", {"error", "info", "verbose"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        PARSES("llama", rows[i].option, rows[i].good);
        for (int k = 0; k < 3; k++) refused(rows[i].option, rows[i].bad, rows[i].list[k]);
        refused(rows[i].option, "", rows[i].option);
    }
}

static void empty_and_missing_values(void **state) {
    (void)state;
    static const char *const texts[] = {
        "--soc_model",      "--model",         "--decoder_model", "--calib_text", "--artifact", "--device",
        "--pre_gen_bundle", "--system_prompt", "--build_folder",  "--qnn_lib",    "--host"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        refused(texts[i], "", "empty");
        char attached[64];
        snprintf(attached, sizeof attached, "%s=", texts[i]);
        assert_int_equal(PARSE("llama", attached), SW_INVALID_ARGUMENT);
        names(texts[i]);
        assert_int_equal(PARSE("llama", texts[i]), SW_INVALID_ARGUMENT); /* at the end */
        names("wants a value");
        assert_int_equal(PARSE("llama", texts[i], "--raw"), SW_INVALID_ARGUMENT); /* another option follows */
        names("--raw");
    }
    assert_int_equal(PARSE("llama", "-m"), SW_INVALID_ARGUMENT);
    names("--soc_model: wants a value: SOC");
    assert_int_equal(PARSE("llama", "--temperature"), SW_INVALID_ARGUMENT);
    assert_int_equal(PARSE("llama", "--prompt"), SW_INVALID_ARGUMENT);
    assert_int_equal(PARSE("llama", "--prompt", "--raw"), SW_INVALID_ARGUMENT);
    names("--prompt=--raw");
    PARSES("llama", "--prompt=--raw");
    assert_string_equal(options.prompts[0], "--raw");
    assert_false(options.raw);
    PARSES("llama", "--prompt", "--- a rule of dashes", "--prompt", "- an item");
    assert_int_equal(options.n_prompts, 2);
}

static void several_prompts(void **state) {
    (void)state;
    PARSES("llama", "--prompt", "one", "two", "--raw", "--prompt", "three", "--prompt=four", "--prompt", "");
    assert_int_equal(options.n_prompts, 5);
    assert_string_equal(options.prompts[0], "one");
    assert_string_equal(options.prompts[1], "two");
    assert_string_equal(options.prompts[2], "three");
    assert_string_equal(options.prompts[3], "four");
    assert_string_equal(options.prompts[4], "");
    assert_true(options.raw);
    /* With = the value is one: what follows is an operand, and llama has none. */
    assert_int_equal(PARSE("llama", "--prompt=a", "b"), SW_INVALID_ARGUMENT);
    names("`b`");
    PARSES("generate", "out", "--prompt", "a", "b");
    assert_string_equal(options.operand, "out");
    assert_int_equal(options.n_prompts, 2);

    const char *many[2 + SW_MAX_PROMPTS + 2] = {"llama", "--prompt"};
    for (int i = 0; i < SW_MAX_PROMPTS; i++) many[2 + i] = "p";
    assert_int_equal(parse(many), SW_OK);
    many[2 + SW_MAX_PROMPTS] = "p";
    assert_int_equal(parse(many), SW_INVALID_ARGUMENT);
    names("64");
}

static void forms_of_the_slc_option(void **state) {
    (void)state;
    PARSES("compile", "--use_slc_allocator");
    assert_true(options.slc_given);
    assert_string_equal(options.slc, "");
    PARSES("compile", "--use_slc_allocator=none");
    assert_string_equal(options.slc, "none");
    PARSES("compile", "--use_slc_allocator=prefill_forward,kv_forward");
    assert_string_equal(options.slc, "prefill_forward,kv_forward");
    /* It takes no word after a space: that word would be silently lost elsewhere. */
    assert_int_equal(PARSE("compile", "--use_slc_allocator", "kv_forward"), SW_INVALID_ARGUMENT);
    names("`kv_forward`");
    assert_int_equal(PARSE("compile", "--use_slc_allocator="), SW_INVALID_ARGUMENT);
    names("--use_slc_allocator=");
    PARSES("compile", "--use_slc_allocator", "-m", "SM8750");
    assert_string_equal(options.soc, "SM8750");
}

static void unknown_things(void **state) {
    (void)state;
    assert_int_equal(PARSE("llama", "--no_such"), SW_INVALID_ARGUMENT);
    names("--no_such");
    names("spillway llama --help");
    assert_int_equal(PARSE("llama", "--promptx", "a"), SW_INVALID_ARGUMENT); /* no abbreviations, no tails */
    assert_int_equal(PARSE("llama", "--promp", "a"), SW_INVALID_ARGUMENT);
    assert_int_equal(PARSE("llama", "-q"), SW_INVALID_ARGUMENT);
    assert_int_equal(PARSE("llama", "--"), SW_INVALID_ARGUMENT);
    assert_int_equal(PARSE("llama", "-"), SW_INVALID_ARGUMENT);
    assert_int_equal(PARSE("verify", "out", "-m", "SM8750"), SW_INVALID_ARGUMENT); /* another command's */
    assert_int_equal(PARSE("llama", "--raw=yes"), SW_INVALID_ARGUMENT);
    names("--raw takes no value");
    assert_int_equal(PARSE("llamas"), SW_INVALID_ARGUMENT);
    names("`llamas`");
    names("llama, compile, generate, inspect, verify, compare, tokenize, logits");
    assert_int_equal(PARSE(""), SW_INVALID_ARGUMENT);
    assert_int_equal(parse((const char *const[]){NULL}), SW_INVALID_ARGUMENT);
    names("--help");
    assert_int_equal(PARSE("verify"), SW_INVALID_ARGUMENT);
    names("BUNDLE");
    assert_int_equal(PARSE("verify", "a", "b"), SW_INVALID_ARGUMENT);
    names("`b`");
    assert_int_equal(PARSE("tokenize", "a"), SW_INVALID_ARGUMENT);
}

static void asking_for_help(void **state) {
    (void)state;
    static const char *const forms[] = {"--help", "-h", "help"};
    for (int i = 0; i < 3; i++) {
        PARSES(forms[i]);
        assert_true(options.help);
        assert_int_equal(options.command, SW_CMD_COUNT);
    }
    PARSES("verify", "--help"); /* no operand needed */
    assert_true(options.help);
    assert_int_equal(options.command, SW_CMD_VERIFY);
}

/* What sw_options_help prints; the caller frees it. */
static char *help_of(sw_command_id command) {
    fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    FILE *file = tmpfile();
    assert_non_null(file);
    dup2(fileno(file), STDOUT_FILENO);
    sw_options_help(command);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    long size = ftell(file);
    if (fseek(file, 0, SEEK_END) == 0) size = ftell(file);
    rewind(file);
    char *text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    fclose(file);
    return text;
}

/* Every option that a command's help lists is taken by it, and every one that it takes is listed: asked of
 * the parser with names from all helps together. */
static void help_lists_what_is_taken(void **state) {
    (void)state;
    static const char *const names_of[SW_CMD_COUNT] = {"llama",  "compile", "generate", "inspect",
                                                       "verify", "compare", "tokenize", "logits",
                                                       "eval",   "plan",    "advise",   "traffic"};
    char *help[SW_CMD_COUNT], *program = help_of(SW_CMD_COUNT);
    unsigned listed_in_all = 0;
    for (unsigned c = 0; c < SW_CMD_COUNT; c++) {
        help[c] = help_of((sw_command_id)c);
        assert_non_null(strstr(help[c], names_of[c]));
        assert_non_null(strstr(program, names_of[c]));
    }
    for (unsigned from = 0; from < SW_CMD_COUNT; from++) {
        for (const char *at = help[from]; (at = strstr(at, "--")) != NULL;) {
            char option[64], listed[80];
            size_t n = strspn(at + 2, "abcdefghijklmnopqrstuvwxyz_");
            snprintf(option, sizeof option, "%.*s", (int)n + 2, at);
            at += n + 2;
            for (unsigned c = 0; c < SW_CMD_COUNT; c++) {
                /* An unknown option is refused as such whatever the value. */
                sw_code code = PARSE(names_of[c], option);
                bool taken = code == SW_OK || strstr(err.message, "unknown option") == NULL;
                snprintf(listed, sizeof listed, " %s", option);
                const char *hit = strstr(help[c], listed);
                while (hit != NULL && strchr(" [\n", hit[strlen(listed)]) == NULL)
                    hit = strstr(hit + 1, listed);
                if (taken != (hit != NULL))
                    fail_msg("%s: %s is %staken but %slisted", names_of[c], option, taken ? "" : "not ",
                             hit != NULL ? "" : "not ");
                listed_in_all++;
            }
        }
    }
    assert_true(listed_in_all > 300);
    for (unsigned c = 0; c < SW_CMD_COUNT; c++) free(help[c]);
    free(program);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_llama_py_s),
        cmocka_unit_test(the_main_job),
        cmocka_unit_test(letters_and_attached_values),
        cmocka_unit_test(numbers),
        cmocka_unit_test(top_p),
        cmocka_unit_test(words),
        cmocka_unit_test(empty_and_missing_values),
        cmocka_unit_test(several_prompts),
        cmocka_unit_test(forms_of_the_slc_option),
        cmocka_unit_test(unknown_things),
        cmocka_unit_test(asking_for_help),
        cmocka_unit_test(help_lists_what_is_taken),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
