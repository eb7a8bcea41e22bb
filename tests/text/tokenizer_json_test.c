/* tokenizer_json_test.c: a tokenizer.json of a few lines, changed in one place at a time; and back and forth.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "small_vocab.h"

static sw_error err;
static char folder[] = "/tmp/spillway-json-XXXXXX";
static char tokenizer_path[64], config_path[64];

/* Written by hand in Hugging Face's shape. */
static const char *const base_tokenizer =
    "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 6, \"content\": \"<|end|>\", \"single_word\": false, "
    "\"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true}], \"normalizer\": null, "
    "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", "
    "\"individual_digits\": true}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": "
    "true}]}, "
    "\"post_processor\": null, \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", "
    "\"vocab\": "
    "{\"a\": 0, \"b\": 1, \"\xc4\xa0\": 2, \"ab\": 3, \"1\": 4, \"2\": 5}, \"merges\": [\"a b\"]}}";
static const char *const base_config = "{\"bos_token\": null, \"eos_token\": \"<|end|>\"}";

/* text with its first `old` replaced; freed by the caller. */
static char *replaced(const char *text, const char *old, const char *new) {
    const char *at = strstr(text, old);
    assert_non_null(at);
    char *out = malloc(strlen(text) + strlen(new) + 1);
    size_t head = (size_t)(at - text);
    memcpy(out, text, head);
    strcpy(out + head, new);
    strcat(out, at + strlen(old));
    return out;
}

static void put(const char *path, const char *text, size_t size) {
    if (sw_file_replace(path, text, size, &err) != SW_OK) fail_msg("%s", err.message);
}

static void check_ids(const sw_tokenizer *t) {
    static const int32_t wanted[] = {3, 2, 0, 2, 4, 5, 6};
    sw_ids ids = {0};
    assert_int_equal(sw_tokenizer_encode(t, sw_span_of("ab a 12<|end|>"), SW_ENCODE_SPECIAL, &ids, &err),
                     SW_OK);
    assert_int_equal(ids.count, 7);
    assert_memory_equal(ids.data, wanted, sizeof wanted);
    sw_ids_free(&ids);
}

static void accept(const char *tokenizer, const char *config) {
    put(tokenizer_path, tokenizer, strlen(tokenizer));
    put(config_path, config, strlen(config));
    sw_tokenizer *t;
    if (sw_tokenizer_load(&t, folder, &err) != SW_OK) fail_msg("%s", err.message);
    check_ids(t);
    sw_tokenizer_destroy(t);
}

static void refuse(const char *tokenizer, const char *config, sw_code code, const char *part) {
    put(tokenizer_path, tokenizer, strlen(tokenizer));
    put(config_path, config, strlen(config));
    sw_tokenizer *t = NULL;
    sw_code found = sw_tokenizer_load(&t, folder, &err);
    if (found == SW_OK) fail_msg("accepted, wanted \"%s\"", part);
    if (strstr(err.message, part) == NULL) fail_msg("\"%s\" lacks \"%s\"", err.message, part);
    assert_int_equal(found, code);
    assert_null(t);
}

static void reads_both_spellings_of_merges(void **state) {
    (void)state;
    accept(base_tokenizer, base_config);
    char *pairs = replaced(base_tokenizer, "\"a b\"", "[\"a\", \"b\"]");
    accept(pairs, base_config);
    free(pairs);
    char *named = replaced(base_config, "{", "{\"spillway_pre\": \"smollm\", ");
    accept(base_tokenizer, named);
    free(named);
}

static void refuses_what_it_does_not_know(void **state) {
    (void)state;
    static const struct {
        const char *old, *new, *part;
    } cases[] = {
        {"\"id\": 6", "\"id\": 3", "id 3 of \"<|end|>\" belongs to \"ab\""},
        {"\"id\": 6", "\"id\": 7", "$.added_tokens[0].id: is 7, wanted 0 to 6"},
        {"\"id\": 6", "\"id\": -1", "is -1, wanted 0 to 6"},
        {"\"id\": 6", "\"id\": 9223372036854775808", "id"},
        {"\"id\": 6", "\"id\": \"6\"", "id"},
        {"\"id\": 6, \"content\": \"<|end|>\"", "\"id\": 6, \"content\": \"\"", "content: is empty"},
        {"\"id\": 6, \"content\": \"<|end|>\"", "\"id\": 6, \"content\": 5", "content: is not text"},
        {"\"special\": true}]", "\"special\": true}, {\"id\": 7, \"content\": \"ab\", \"special\": true}]",
         "token 7 has the text of token 3"},
        {"\"id\": 6, \"content\": \"<|end|>\"", "\"id\": 6, \"content\": \"a\\u0000\"", "JSON"},
        {"\"lstrip\": false", "\"lstrip\": true", "lstrip: is true, supported is false"},
        {"\"special\": true", "\"x\": 1", "`special` is missing"},
        {"\"special\": true}]", "\"special\": true}, 5]", "added_tokens[1]"},
        {"\"b\": 1", "\"b\": 0", "$.model.vocab.b: is 0, the id of \"a\""},
        {"\"b\": 1", "\"b\": 1.0", "$.model.vocab.b"},
        {"\"2\": 5", "\"2\": 6", "belongs to \"2\""},
        {", \"2\": 5", "", "wanted 0 to 5"},
        {"\"2\": 5}", "\"2\": 5, \"\": 7}", "no token has id 7 of 0 to 7"}, /* "" is none */
        {"{\"type\": \"ByteLevel\", \"add", "{\"type\": \"Foo\", \"add",
         "type Foo is not supported, supported: Sequence, Digits, Split, ByteLevel"},
        {"{\"type\": \"Digits\", \"individual_digits\": true}", "{\"type\": \"Split\"}",
         "`pattern` is missing"},
        {"{\"type\": \"Digits\", \"individual_digits\": true}",
         "{\"type\": \"Split\", \"pattern\": {\"String\": \"\\\\d\"}, \"behavior\": \"Isolated\"}",
         "has no Regex"},
        {"{\"type\": \"Digits\", \"individual_digits\": true}",
         "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(?<\"}, \"behavior\": \"Isolated\"}", "at byte 3"},
        {"{\"type\": \"Digits\", \"individual_digits\": true}",
         "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[0-9]\"}, \"behavior\": \"Isolated\"}",
         "none of the supported pre-tokenizers: smollm"},
        {"\"individual_digits\": true", "\"individual_digits\": false", "individual_digits: is false"},
        {"\"add_prefix_space\": false", "\"add_prefix_space\": true", "add_prefix_space: is true"},
        {"[{\"type\": \"Digits\", \"individual_digits\": true}, ", "[5, ", "pretokenizers[0]"},
        {"\"normalizer\": null", "\"normalizer\": {\"type\": \"NFKC\"}", "normalizer is NFKC"},
        {"\"post_processor\": null", "\"post_processor\": {\"type\": \"TemplateProcessing\"}",
         "`add_bos_token` is missing"},
        {"\"post_processor\": null", "\"post_processor\": {\"type\": \"RobertaProcessing\"}",
         "type RobertaProcessing is not supported, supported: ByteLevel, TemplateProcessing, Sequence"},
        {"\"post_processor\": null", "\"post_processor\": {}", "`type` is missing"},
        {"\"decoder\": {\"type\": \"ByteLevel\"}", "\"decoder\": {\"type\": \"Metaspace\"}", "Metaspace"},
        {"\"type\": \"BPE\"", "\"type\": \"Unigram\"", "type Unigram is not supported, supported: BPE"},
        {"\"type\": \"BPE\"", "\"type\": \"BPE\", \"byte_fallback\": true", "byte_fallback: is true"},
        {"\"type\": \"BPE\"", "\"type\": \"BPE\", \"ignore_merges\": true", "ignore_merges: is true"},
        {"\"type\": \"BPE\"", "\"type\": \"BPE\", \"end_of_word_suffix\": \"</w>\"",
         "end_of_word_suffix: is set"},
        {"\"a b\"", "", "no merges"},
        {"\"a b\"", "[\"a\"]", "merges[0]"},
        {"\"a b\"", "[\"a\", \"b\", \"c\"]", "merges[0]"},
        {"\"a b\"", "[\"a\", \"b a\"]", "is not two tokens"},
        {"\"a b\"", "5", "merges[0]: is not text"},
        {"\"merges\"", "\"mergers\"", "`merges` is missing"},
        {"\"version\"", "\"vers", "JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = replaced(base_tokenizer, cases[i].old, cases[i].new);
        refuse(text, base_config, SW_BAD_DATA, cases[i].part);
        free(text);
    }
    refuse("[]", base_config, SW_BAD_DATA, "an array");
    refuse("", base_config, SW_BAD_DATA, "JSON");
}

static void refuses_bad_configs(void **state) {
    (void)state;
    refuse(base_tokenizer, "{\"eos_token\": \"<|none|>\"}", SW_BAD_DATA, "\"<|none|>\" is not a token");
    refuse(base_tokenizer, "{\"eos_token\": 5}", SW_BAD_DATA, "eos_token: is not text");
    refuse(base_tokenizer, "{\"add_bos_token\": true}", SW_BAD_DATA, "a bos token is to be added");
    refuse(base_tokenizer, "{\"spillway_pre\": \"gpt-2\"}", SW_BAD_DATA,
           "is gpt-2, but tokenizer.json has that of smollm");
    refuse(base_tokenizer, "{\"spillway_end_ids\": [7]}", SW_BAD_DATA, "is 7, wanted 0 to 6");
    refuse(base_tokenizer, "{\"spillway_end_ids\": [-1]}", SW_BAD_DATA, "is -1");
    refuse(base_tokenizer, "[]", SW_BAD_DATA, "tokenizer_config.json");
    refuse(base_tokenizer, "{\"chat_template\": 5}", SW_BAD_DATA, "chat_template: is not text");
    static char large[SW_CHAT_TEMPLATE_BYTES_MAX + 64] = "{\"chat_template\": \"";
    memset(large + 19, 'x', SW_CHAT_TEMPLATE_BYTES_MAX + 1);
    strcpy(large + 19 + SW_CHAT_TEMPLATE_BYTES_MAX + 1, "\"}");
    refuse(base_tokenizer, large, SW_BAD_DATA, "tokenizer_config.json: $.chat_template: has 1048577 bytes");
    sw_tokenizer *t;
    static const char *const without[] = {"{}", "{\"chat_template\": null}", "{\"chat_template\": \"\"}"};
    for (int i = 0; i < 3; i++) { /* raw prompts still work */
        put(config_path, without[i], strlen(without[i]));
        assert_int_equal(sw_tokenizer_load(&t, folder, &err), SW_OK);
        assert_int_equal(sw_tokenizer_description(t)->chat_template.size, 0);
        sw_tokenizer_destroy(t);
    }
    assert_int_equal(unlink(config_path), 0);
    assert_int_equal(sw_tokenizer_load(&t, folder, &err), SW_NOT_FOUND);
}

static void names_other_formats(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *part;
    } cases[] = {
        {"GGUF\3\0\0\0\0\0\0\0", 12, "a GGUF file"},
        {"\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\2", 16, "a SentencePiece model"},
        {"IQ== 0\nIg== 1\n", 14, "a tiktoken vocabulary"},
        {"\x1b\0\0\0\0\0\0\0\5\0\0\0<unk>", 17, "a tokenizer of llama2.c"},
    };
    put(config_path, base_config, strlen(base_config));
    for (size_t i = 0; i < 4; i++) {
        put(tokenizer_path, cases[i].bytes, cases[i].size);
        sw_tokenizer *t;
        assert_int_equal(sw_tokenizer_load(&t, folder, &err), SW_BAD_DATA);
        if (strstr(err.message, cases[i].part) == NULL) fail_msg("%s", err.message);
    }
}

/* All rules, odd texts: what is written reads back the same. */
static void saves_and_loads(void **state) {
    (void)state;
    const char *const names[] = {"smollm", "gpt-2", "llama-bpe", "qwen2"};
    for (size_t i = 0; i < 4; i++) {
        small_vocab v;
        small_vocab_fill(&v);
        v.tokens[7] = sw_span_of("\"\\\n\x01\x7f\xf0\x9f\x91\x8d");
        v.desc.pre = sw_span_of(names[i]);
        v.desc.chat_template = sw_span_of("{{ '\n\\n\t\"' }}");
        v.desc.bos = 6;
        v.desc.eot = 1;
        v.desc.add_bos = i % 2 == 0;
        sw_tokenizer *t, *again;
        assert_int_equal(sw_tokenizer_create(&t, &v.desc, &err), SW_OK);
        if (sw_tokenizer_save(t, folder, &err) != SW_OK) fail_msg("%s", err.message);
        if (sw_tokenizer_load(&again, folder, &err) != SW_OK) fail_msg("%s: %s", names[i], err.message);
        check_ids(again);
        const sw_tokenizer_desc *d = sw_tokenizer_description(again);
        assert_memory_equal(d->pre.data, names[i], d->pre.size);
        assert_int_equal(d->chat_template.size, v.desc.chat_template.size);
        assert_memory_equal(d->chat_template.data, v.desc.chat_template.data, d->chat_template.size);
        assert_int_equal(d->bos, 6);
        assert_int_equal(d->eos, -1);
        assert_int_equal(d->add_bos, v.desc.add_bos);
        for (int32_t id = 0; id < SMALL_TOKENS; id++) {
            assert_int_equal(d->tokens[id].size, v.tokens[id].size);
            assert_memory_equal(d->tokens[id].data, v.tokens[id].data, v.tokens[id].size);
            assert_int_equal(d->token_types[id], v.types[id]);
            assert_int_equal(sw_tokenizer_is_end(again, id), id == 1 || id == 6);
        }
        sw_tokenizer_destroy(t);
        sw_tokenizer_destroy(again);
    }
}

static int make_folder(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(tokenizer_path, sizeof tokenizer_path, "%s/tokenizer.json", folder);
    snprintf(config_path, sizeof config_path, "%s/tokenizer_config.json", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(tokenizer_path);
    unlink(config_path);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_both_spellings_of_merges),
        cmocka_unit_test(refuses_what_it_does_not_know),
        cmocka_unit_test(refuses_bad_configs),
        cmocka_unit_test(names_other_formats),
        cmocka_unit_test(saves_and_loads),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
