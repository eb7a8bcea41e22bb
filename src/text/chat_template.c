/* chat_template.c: ChatML, and the default system message that a template writes down.
 *
 * Format: OpenAI's ChatML; the templates of SmolLM2, Qwen2 and Qwen2.5, whose default system message stands
 * in the template as a literal: <|im_start|>system\nTEXT<|im_end|> without a quote in it. */
#include "text/chat_template.h"

#include <string.h>

#include "base/log.h"

#define START "<|im_start|>"
#define END   "<|im_end|>"

typedef struct writer { /* counts first (data NULL), then writes */
    char *data;
    size_t size;
    bool overflow;
} writer;

static void put(writer *w, const char *data, size_t size) {
    if (w->data != NULL && size > 0) memcpy(w->data + w->size, data, size);
    w->overflow |= __builtin_add_overflow(w->size, size, &w->size);
}

static void put_text(writer *w, const char *text) {
    put(w, text, strlen(text));
}

static bool contains(sw_span text, const char *part) {
    return text.size > 0 && memmem(text.data, text.size, part, strlen(part)) != NULL;
}

static bool begins_with(const char *text, size_t size, const char *start) {
    return size >= strlen(start) && memcmp(text, start, strlen(start)) == 0;
}

static bool is_role(sw_span role, const char *name) {
    return role.size == strlen(name) && memcmp(role.data, name, role.size) == 0;
}

/* Jinja's escapes in a literal. */
static void put_literal(writer *w, sw_span text) {
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '\\' && i + 1 < text.size) {
            c = text.data[++i];
            if (c == 'n') c = '\n';
            if (c == 't') c = '\t';
        }
        put(w, &c, 1);
    }
}

/* The literal between START "system" newline and END, or empty. */
static sw_span default_system(sw_span template) {
    static const char *const openings[] = {START "system\n", START "system\\n"};
    for (size_t o = 0; o < 2; o++) {
        sw_span rest = template;
        for (const char *at; rest.size > 0; rest.size -= (size_t)(at - rest.data), rest.data = at) {
            at = memmem(rest.data, rest.size, openings[o], strlen(openings[o]));
            if (at == NULL) break;
            at += strlen(openings[o]);
            size_t left = rest.size - (size_t)(at - rest.data), n = 0;
            while (n < left && strchr("'\"{", at[n]) == NULL && !begins_with(at + n, left - n, START)) {
                if (begins_with(at + n, left - n, END)) return (sw_span){at, n};
                n += at[n] == '\\' && n + 1 < left ? 2 : 1;
            }
        }
    }
    return (sw_span){"", 0};
}

static void put_message(writer *w, const sw_chat_message *m) {
    put_text(w, START);
    put(w, m->role.data, m->role.size);
    put_text(w, "\n");
    put(w, m->content.data, m->content.size);
    put_text(w, END "\n");
}

static void put_chat(writer *w, sw_span template, const sw_chat_message *messages, size_t count, size_t first,
                     bool add_generation_prompt) {
    if (first == 0 && !is_role(messages[0].role, "system")) {
        sw_span text = default_system(template);
        if (text.size > 0) {
            put_text(w, START "system\n");
            put_literal(w, text);
            put_text(w, END "\n");
        }
    }
    if (first > 0 && is_role(messages[first - 1].role, "assistant")) put_text(w, END "\n");
    for (size_t i = first; i < count; i++) put_message(w, &messages[i]);
    if (add_generation_prompt) put_text(w, START "assistant\n");
}

/* Phi-4's format has other marks in between. */
static bool is_chatml(sw_span template) {
    return contains(template, START) && contains(template, END) && !contains(template, "<|im_sep|>");
}

void sw_chat_warn_of_marks(const sw_tokenizer *tokenizer) {
    static const char *const marks[] = {START, END};
    const sw_tokenizer_desc *d = sw_tokenizer_description(tokenizer);
    if (!is_chatml(d->chat_template)) return;
    for (size_t i = 0; i < 2; i++) {
        int32_t id = sw_tokenizer_find(tokenizer, sw_span_of(marks[i]));
        bool literal =
            id >= 0 && d->token_types != NULL &&
            (d->token_types[id] == SW_TOKEN_CONTROL || d->token_types[id] == SW_TOKEN_USER_DEFINED);
        if (!literal)
            sw_log(SW_LOG_WARN,
                   "the chat template frames messages with %s, which is no special token of this tokenizer "
                   "and is "
                   "spelled out: the model was hardly trained on that, expect worse replies",
                   marks[i]);
    }
}

sw_code sw_chat_render(sw_span chat_template, const sw_chat_message *messages, size_t count, size_t first,
                       bool add_generation_prompt, sw_arena *arena, sw_span *out, sw_error *err) {
    if (count == 0) return SW_FAIL(err, SW_INVALID_ARGUMENT, "a chat needs a message");
    if (first >= count)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "message %zu of a chat of %zu messages", first, count);
    if (chat_template.size == 0)
        return SW_FAIL(err, SW_UNSUPPORTED, "the model has no chat template; raw prompts work");
    if (!is_chatml(chat_template))
        return SW_FAIL(err, SW_UNSUPPORTED,
                       "the model's chat template is not supported: looked for ChatML (\"" START
                       "\" and \"" END "\", no \"<|im_sep|>\"); raw prompts work");
    writer w = {0};
    put_chat(&w, chat_template, messages, count, first, add_generation_prompt);
    char *text = w.overflow || w.size == SIZE_MAX ? NULL : sw_arena_alloc(arena, w.size + 1);
    if (text == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory for a chat of %zu bytes", w.size);
    w = (writer){.data = text};
    put_chat(&w, chat_template, messages, count, first, add_generation_prompt);
    *out = (sw_span){text, w.size};
    return SW_OK;
}
