/* chat_template_test.c: what the models' own templates give, written out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "text/chat_template.h"
#include "text/small_vocab.h"
#include "text/tokenizer.h"

static sw_error err;

#define SMOLLM2                                                                                              \
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "                \
    "'<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "                  \
    "Face<|im_end|>\n' "                                                                                     \
    "}}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"    \
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
#define PLAIN                                                                                                \
    "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n'}}"    \
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
/* The parts of Qwen2.5's that matter here, with the message's own system text before the default one. */
#define QWEN25                                                                                               \
    "{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\\n' + messages[0]['content'] + "       \
    "'<|im_end|>\\n' }}{%- else %}{{- '<|im_start|>system\\nYou are Qwen. It\\'s you.<|im_end|>\\n' }}"      \
    "{%- endif %}"

static void check(const char *template, const sw_chat_message *m, size_t count, size_t first, bool prompt,
                  const char *wanted) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_span text;
    if (sw_chat_render(sw_span_of(template), m, count, first, prompt, &arena, &text, &err) != SW_OK)
        fail_msg("%s", err.message);
    assert_string_equal(text.data, wanted);
    assert_int_equal(text.size, strlen(wanted));
    sw_arena_free(&arena);
}

static sw_chat_message message(const char *role, const char *content) {
    return (sw_chat_message){sw_span_of(role), sw_span_of(content)};
}

static void inserts_the_default_system_message(void **state) {
    (void)state;
    const sw_chat_message user = message("user", "Hi"), own[] = {message("system", "Be brief."), user};
    check(
        SMOLLM2, &user, 1, 0, true,
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    check(SMOLLM2, own, 2, 0, false,
          "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
    check(PLAIN, &user, 1, 0, true, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    check(QWEN25, &user, 1, 0, false,
          "<|im_start|>system\nYou are Qwen. It's you.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
}

/* Turn by turn gives the same text as the whole chat at once; replies are in the KV cache without their end.
 */
static void turns_add_up_to_the_whole_chat(void **state) {
    (void)state;
    const sw_chat_message m[] = {message("user", "A?"), message("assistant", "B."), message("user", "C?"),
                                 message("assistant", ""), message("user", "D?")};
    sw_arena arena = SW_ARENA_EMPTY;
    sw_span whole, part;
    assert_int_equal(sw_chat_render(sw_span_of(SMOLLM2), m, 5, 0, true, &arena, &whole, &err), SW_OK);
    char text[1024] = "";
    for (size_t turn = 0; turn < 5; turn += 2) {
        assert_int_equal(sw_chat_render(sw_span_of(SMOLLM2), m, turn + 1, turn, true, &arena, &part, &err),
                         SW_OK);
        strcat(text, part.data);
        if (turn + 1 < 5) strcat(text, m[turn + 1].content.data);
    }
    assert_string_equal(text, whole.data);
    sw_arena_free(&arena);
}

static void content_is_bytes(void **state) {
    (void)state;
    const sw_chat_message m = {sw_span_of("user"), {"a\0\xff", 3}};
    sw_arena arena = SW_ARENA_EMPTY;
    sw_span text;
    assert_int_equal(sw_chat_render(sw_span_of(PLAIN), &m, 1, 0, false, &arena, &text, &err), SW_OK);
    static const char wanted[] = "<|im_start|>user\na\0\xff<|im_end|>\n";
    assert_int_equal(text.size, sizeof wanted - 1);
    assert_memory_equal(text.data, wanted, text.size);
    sw_arena_free(&arena);
}

static void refuses_other_templates(void **state) {
    (void)state;
    const sw_chat_message m = message("user", "Hi");
    sw_arena arena = SW_ARENA_EMPTY;
    sw_span text;
    const char *const templates[] = {"", "{{ bos_token }}[INST] {{ content }} [/INST]", "<|im_start|>",
                                     "<|im_start|>user<|im_sep|>x<|im_end|>"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(sw_chat_render(sw_span_of(templates[i]), &m, 1, 0, true, &arena, &text, &err),
                         SW_UNSUPPORTED);
        assert_non_null(strstr(err.message, i == 0 ? "no chat template" : "<|im_start|>"));
    }
    assert_int_equal(sw_chat_render(sw_span_of(PLAIN), &m, 0, 0, true, &arena, &text, &err),
                     SW_INVALID_ARGUMENT);
    assert_int_equal(sw_chat_render(sw_span_of(PLAIN), &m, 1, 1, true, &arena, &text, &err),
                     SW_INVALID_ARGUMENT);
    sw_arena_free(&arena);
}

/* Openings without an end, and a backslash as the last byte. */
static void odd_templates_have_no_default(void **state) {
    (void)state;
    const sw_chat_message m = message("user", "Hi");
    const char *const wanted = "<|im_start|>user\nHi<|im_end|>\n";
    check("<|im_end|><|im_start|>system\nopen", &m, 1, 0, false, wanted);
    check("<|im_end|><|im_start|>system\n<|im_start|>system\n", &m, 1, 0, false, wanted);
    check("<|im_end|><|im_start|>system\\nopen\\", &m, 1, 0, false, wanted);
    check("<|im_start|>system\n<|im_end|>", &m, 1, 0, false, wanted); /* empty: as none */
}

/* What is said on stderr of a tokenizer whose tokens 6 and 7 are these. */
static const char *said_of(const char *template, const char *six, const char *seven, int32_t type) {
    static char said[2048];
    small_vocab v;
    sw_tokenizer *t;
    FILE *file = tmpfile();
    small_vocab_fill(&v);
    v.tokens[6] = sw_span_of(six), v.tokens[7] = sw_span_of(seven);
    v.types[7] = type;
    v.desc.chat_template = sw_span_of(template);
    if (sw_tokenizer_create(&t, &v.desc, &err) != SW_OK) fail_msg("%s", err.message);
    assert_non_null(file);
    fflush(stderr);
    int before = dup(2);
    dup2(fileno(file), 2);
    sw_chat_warn_of_marks(t);
    fflush(stderr);
    dup2(before, 2);
    close(before);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
    sw_tokenizer_destroy(t);
    return said;
}

/* A frame of another family's marks is spelled out; as plain text they aren't matched either. */
static void marks_are_tokens(void **state) {
    (void)state;
    assert_string_equal(said_of(SMOLLM2, "<|im_start|>", "<|im_end|>", SW_TOKEN_CONTROL), "");
    assert_string_equal(said_of(SMOLLM2, "<|im_start|>", "<|im_end|>", SW_TOKEN_USER_DEFINED), "");
    const char *said = said_of(SMOLLM2, "<|im_start|>", "<|im_end|>", SW_TOKEN_UNUSED);
    assert_non_null(strstr(said, "frames messages with <|im_end|>, which is no special token"));
    assert_null(strstr(said, "<|im_start|>"));
    said = said_of(PLAIN, "<|begin|>", "<|end|>", SW_TOKEN_CONTROL);
    assert_non_null(strstr(said, "<|im_start|>"));
    assert_non_null(strstr(said, "<|im_end|>"));
    assert_string_equal(said_of("", "<|begin|>", "<|end|>", SW_TOKEN_CONTROL), "");
    assert_string_equal(said_of("[INST]", "<|begin|>", "<|end|>", SW_TOKEN_CONTROL), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inserts_the_default_system_message),
        cmocka_unit_test(turns_add_up_to_the_whole_chat),
        cmocka_unit_test(content_is_bytes),
        cmocka_unit_test(refuses_other_templates),
        cmocka_unit_test(odd_templates_have_no_default),
        cmocka_unit_test(marks_are_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
