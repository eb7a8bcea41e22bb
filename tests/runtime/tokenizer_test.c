/* tokenizer_test.c: real vocabularies give the ids of the reference (tests/data/README.md), and do so fast.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/file.h"
#include "base/log.h"
#include "runtime/load_tokenizer.h"
#include "text/chat_template.h"

#define MODEL SW_SOURCE_DIR "/external/models/SmolLM2-135M-Instruct.Q4_1.gguf"
#define VOCAB SW_SOURCE_DIR "/external/vocabs/ggml-vocab-%s.gguf"

static sw_error err;
static sw_tokenizer *smollm2;

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s", err.message);                                                    \
    } while (0)

static sw_tokenizer *open_gguf(const char *path) {
    sw_gguf *gguf;
    sw_tokenizer *t = NULL;
    OK(sw_gguf_open(&gguf, path, &err));
    OK(sw_tokenizer_from_gguf(&t, gguf, &err));
    sw_gguf_close(gguf); /* the tokenizer keeps nothing of it */
    return t;
}

static json_t *load_json(const char *name) {
    char path[512];
    snprintf(path, sizeof path, SW_TEST_DATA "/%s", name);
    json_error_t e;
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &e);
    if (root == NULL) fail_msg("%s: %s", path, e.text);
    return root;
}

static sw_span text_of(const json_t *value) {
    assert_true(json_is_string(value));
    return (sw_span){json_string_value(value), json_string_length(value)};
}

static void check_ids(const sw_tokenizer *t, const char *name, sw_span text, unsigned flags,
                      const json_t *wanted) {
    sw_ids ids = {0};
    OK(sw_tokenizer_encode(t, text, flags, &ids, &err));
    for (size_t i = 0; i < ids.count && i < json_array_size(wanted); i++)
        if (ids.data[i] != json_integer_value(json_array_get(wanted, i)))
            fail_msg("%s: id %zu is %d, wanted %lld", name, i, ids.data[i],
                     (long long)json_integer_value(json_array_get(wanted, i)));
    if (ids.count != json_array_size(wanted))
        fail_msg("%s: %zu ids, wanted %zu", name, ids.count, json_array_size(wanted));

    sw_arena arena = SW_ARENA_EMPTY;
    sw_span back;
    OK(sw_tokenizer_decode_all(t, ids.data, ids.count, true, &arena, &back, &err));
    assert_int_equal(back.size, text.size);
    assert_memory_equal(back.data, text.data, text.size);
    sw_arena_free(&arena);
    sw_ids_free(&ids);
}

static void check_reference(const sw_tokenizer *t) {
    json_t *root = load_json("smollm2_tokens.json"), *cases = json_object_get(root, "cases");
    assert_int_equal(json_array_size(cases), 48);
    for (size_t i = 0; i < 48; i++) {
        const json_t *c = json_array_get(cases, i), *ids = json_object_get(c, "ids");
        const json_t *plain = json_object_get(c, "ids_no_special_parse");
        const char *name = json_string_value(json_object_get(c, "name"));
        sw_span text = text_of(json_object_get(c, "text"));
        check_ids(t, name, text, SW_ENCODE_SPECIAL | SW_ENCODE_START, ids);
        check_ids(t, name, text, SW_ENCODE_PLAIN, plain != NULL ? plain : ids);
    }
    json_decref(root);
}

static void gives_the_reference_ids(void **state) {
    (void)state;
    check_reference(smollm2);
}

static void gives_the_reference_ids_after_save_and_load(void **state) {
    (void)state;
    char folder[] = "/tmp/spillway-tokenizer-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    sw_tokenizer *again;
    OK(sw_tokenizer_save(smollm2, folder, &err));
    OK(sw_tokenizer_load(&again, folder, &err));
    check_reference(again);

    const sw_tokenizer_desc *a = sw_tokenizer_description(smollm2), *b = sw_tokenizer_description(again);
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_int_equal(a->n_merges, b->n_merges);
    assert_int_equal(a->bos, b->bos);
    assert_int_equal(a->eos, b->eos);
    assert_int_equal(a->unk, b->unk);
    assert_int_equal(a->pad, b->pad);
    assert_int_equal(a->add_bos, b->add_bos);
    assert_int_equal(a->chat_template.size, b->chat_template.size);
    assert_memory_equal(a->chat_template.data, b->chat_template.data, a->chat_template.size);
    for (int32_t id = 0; id < (int32_t)a->n_tokens; id++) {
        assert_int_equal(a->token_types[id], b->token_types[id]);
        assert_int_equal(sw_tokenizer_is_end(smollm2, id), sw_tokenizer_is_end(again, id));
    }
    sw_tokenizer_destroy(again);
    const char *const files[] = {"tokenizer.json", "tokenizer_config.json"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

static void renders_and_encodes_the_reference_prompts(void **state) {
    (void)state;
    json_t *root = load_json("smollm2_prompts.json");
    sw_chat_message user = {sw_span_of("user"), text_of(json_object_get(root, "chat_user"))};
    sw_span wanted = text_of(json_object_get(root, "chat_text")), text;
    sw_arena arena = SW_ARENA_EMPTY;
    OK(sw_chat_render(sw_tokenizer_description(smollm2)->chat_template, &user, 1, 0, true, &arena, &text,
                      &err));
    assert_string_equal(text.data, wanted.data);
    assert_int_equal(text.size, wanted.size);
    check_ids(smollm2, "chat", text, SW_ENCODE_SPECIAL | SW_ENCODE_START, json_object_get(root, "chat_ids"));
    check_ids(smollm2, "plain", text_of(json_object_get(root, "plain_text")), SW_ENCODE_START,
              json_object_get(root, "plain_ids"));
    sw_arena_free(&arena);
    json_decref(root);
}

static void knows_all_ends(void **state) {
    (void)state;
    unsigned ends = 0;
    for (int32_t id = -1; id <= 49152; id++) ends += sw_tokenizer_is_end(smollm2, id);
    assert_int_equal(ends, 2);
    assert_true(sw_tokenizer_is_end(smollm2, 0)); /* <|endoftext|> */
    assert_true(sw_tokenizer_is_end(smollm2, 2)); /* <|im_end|> */
    assert_int_equal(sw_tokenizer_find(smollm2, sw_span_of("<|im_end|>")), 2);
    sw_span text;
    assert_int_equal(sw_tokenizer_decode(smollm2, 49152, true, &text, &err), SW_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "49152"));
    assert_int_equal(sw_tokenizer_decode(smollm2, -1, true, &text, &err), SW_INVALID_ARGUMENT);
    OK(sw_tokenizer_decode(smollm2, 2, false, &text, &err));
    assert_int_equal(text.size, 0);
}

/* Of this thread, so that a busy machine doesn't count; the least of three. */
static double cpu_seconds_to_encode(const char *text, size_t size) {
    double least = 0;
    for (int i = 0; i < 3; i++) {
        sw_ids ids = {0};
        struct timespec a, b;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        OK(sw_tokenizer_encode(smollm2, (sw_span){text, size}, SW_ENCODE_SPECIAL, &ids, &err));
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        sw_ids_free(&ids);
        double seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
        if (i == 0 || seconds < least) least = seconds;
    }
    return least;
}

/* Work grows as the length does: 16 times the text is about 16 times the work, not 256 times. */
static void long_texts_take_linear_work(void **state) {
    (void)state;
    enum { SIZE = 1 << 20, TIMES = 16 };
    char *text = malloc(SIZE);
    const char *const units[] = {
        "a", " ", "\n", "<", "<|im_end|>", "1", "don't stop\r\n\r\n", "\xff", "\xf0\x9f\x91\x8d", "  \n"};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        for (size_t i = 0; i < SIZE; i++) text[i] = units[u][i % strlen(units[u])];
        double part = cpu_seconds_to_encode(text, SIZE / TIMES), whole = cpu_seconds_to_encode(text, SIZE);
        print_message("unit %zu: %d times the text, %.1f times the work\n", u, TIMES, whole / part);
        assert_true(whole < 4 * TIMES * part);
    }
    free(text);
}

/* As llama.cpp's own test files: texts with a separator line, and a line of ids for each. */
static void check_vocab(const char *name) {
    char path[512];
    snprintf(path, sizeof path, VOCAB, name);
    if (access(path, R_OK) != 0) {
        print_message("%s is missing: skipped\n", path);
        skip();
    }
    sw_tokenizer *t = open_gguf(path);
    sw_arena arena = SW_ARENA_EMPTY;
    char *texts, *lines;
    size_t size, n = 0;
    OK(sw_file_read(SW_TEST_DATA "/vocab_texts.txt", 1 << 20, &arena, &texts, &size, &err));
    snprintf(path, sizeof path, SW_TEST_DATA "/vocab_ids_%s.txt", name);
    OK(sw_file_read(path, 1 << 20, &arena, &lines, &size, &err));
    static const char separator[] = "\n__ggml_vocab_test__\n";
    for (char *end; (end = strstr(texts, separator)) != NULL; texts = end + strlen(separator), n++) {
        char *line_end = strchr(lines, '\n'), *at = lines;
        assert_non_null(line_end);
        json_t *wanted = json_array();
        for (char *next; at < line_end; at = next) {
            long id = strtol(at, &next, 10);
            if (next == at || next > line_end) break;
            json_array_append_new(wanted, json_integer(id));
        }
        check_ids(t, name, (sw_span){texts, (size_t)(end - texts)}, SW_ENCODE_PLAIN, wanted);
        json_decref(wanted);
        lines = line_end + 1;
    }
    assert_int_equal(n, 46);
    sw_arena_free(&arena);
    sw_tokenizer_destroy(t);
}

static void gpt_2(void **state) {
    (void)state;
    check_vocab("gpt-2");
}
static void llama_bpe(void **state) {
    (void)state;
    check_vocab("llama-bpe");
}
static void qwen2(void **state) {
    (void)state;
    check_vocab("qwen2");
}

int main(void) {
    if (access(MODEL, R_OK) != 0) {
        printf("%s is missing: skipped (make fetch brings it)\n", MODEL);
        return 77;
    }
    uint64_t start = sw_now_us();
    smollm2 = open_gguf(MODEL);
    printf("loaded in %.1f ms\n", (double)(sw_now_us() - start) / 1e3);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_reference_ids),
        cmocka_unit_test(gives_the_reference_ids_after_save_and_load),
        cmocka_unit_test(renders_and_encodes_the_reference_prompts),
        cmocka_unit_test(knows_all_ends),
        cmocka_unit_test(long_texts_take_linear_work),
        cmocka_unit_test(gpt_2),
        cmocka_unit_test(llama_bpe),
        cmocka_unit_test(qwen2),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sw_tokenizer_destroy(smollm2);
    return failed;
}
