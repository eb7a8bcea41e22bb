/* generate.c: prefill, then one token at a time. */
#include "runtime/generate.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static sw_code add_message(sw_chat *chat, const char *role, const char *content, size_t size, sw_error *err) {
    if (chat->n_messages == chat->capacity) {
        size_t bigger = chat->capacity == 0 ? 8 : 2 * chat->capacity;
        sw_chat_message *list = sw_arena_array(&chat->arena, bigger, sizeof *list);
        if (list == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        if (chat->n_messages > 0) memcpy(list, chat->messages, chat->n_messages * sizeof *list);
        chat->messages = list, chat->capacity = bigger;
    }
    char *copy = sw_arena_strndup(&chat->arena, content, size);
    if (copy == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    chat->messages[chat->n_messages++] = (sw_chat_message){sw_span_of(role), {copy, size}};
    return SW_OK;
}

sw_code sw_chat_set_system(sw_chat *chat, const char *text, sw_error *err) {
    if (chat->n_messages > 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "the system message comes before the first turn");
    return add_message(chat, "system", text, strlen(text), err);
}

/* The turn's ids: what is left of the last reply, then the new message in its frame. */
static sw_code encode_prompt(sw_chat *chat, const char *prompt, sw_ids *ids, sw_error *err) {
    bool first_turn = sw_session_is_fresh(chat->session);
    unsigned flags = SW_ENCODE_SPECIAL | (first_turn ? SW_ENCODE_START : 0u);
    if (chat->has_pending) SW_TRY(sw_ids_append(ids, &chat->pending, 1, err));
    chat->has_pending = false;
    sw_span text = {prompt, strlen(prompt)};
    size_t first = first_turn ? 0 : chat->n_messages;
    SW_TRY(add_message(chat, "user", prompt, strlen(prompt), err));
    if (!chat->raw) {
        const sw_tokenizer_desc *desc = sw_tokenizer_description(chat->tokenizer);
        SW_TRY(sw_chat_render(desc->chat_template, chat->messages, chat->n_messages, first, true,
                              &chat->arena, &text, err));
    }
    return sw_tokenizer_encode(chat->tokenizer, text, flags, ids, err);
}

typedef struct turn {
    sw_chat *chat;
    sw_text_sink *sink;
    void *sink_context;
    sw_stream stream;
    char *reply; /* all text given out, for the history */
    size_t reply_size, reply_capacity;
} turn;

static sw_code give_out(turn *t, sw_span text, sw_error *err) {
    if (text.size == 0) return SW_OK;
    if (t->reply_size + text.size > t->reply_capacity) {
        size_t bigger = 2 * (t->reply_size + text.size);
        char *reply = realloc(t->reply, bigger);
        if (reply == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        t->reply = reply, t->reply_capacity = bigger;
    }
    memcpy(t->reply + t->reply_size, text.data, text.size);
    t->reply_size += text.size;
    return t->sink(t->sink_context, text, err);
}

static sw_code decode_loop(turn *t, uint64_t budget, sw_turn_stats *stats, sw_error *err) {
    sw_chat *chat = t->chat;
    size_t vocab = sw_tokenizer_description(chat->tokenizer)->n_tokens;
    uint64_t first_us = sw_now_us();
    for (;;) {
        int32_t id;
        sw_span bytes, text;
        SW_TRY(sw_sampler_next(chat->sampler, chat->logits, NULL, vocab, stats->generated_tokens, &id, err));
        stats->generated_tokens++;
        stats->decode_us = sw_now_us() - first_us;
        if (chat->keep_ids) SW_TRY(sw_ids_append(&chat->generated, &id, 1, err));
        if (sw_tokenizer_is_end(chat->tokenizer, id)) {
            stats->ended = true;
            return SW_OK;
        }
        SW_TRY(sw_tokenizer_decode(chat->tokenizer, id, false, &bytes, err));
        SW_TRY(sw_stream_feed(&t->stream, bytes, &text, err));
        SW_TRY(give_out(t, text, err));
        if (stats->generated_tokens == budget) {
            chat->pending = id, chat->has_pending = true;
            return SW_OK;
        }
        SW_TRY(sw_session_feed(chat->session, &id, 1, chat->logits, NULL, err));
    }
}

sw_code sw_chat_turn(sw_chat *chat, const char *prompt, sw_text_sink *sink, void *sink_context,
                     sw_turn_stats *stats, sw_error *err) {
    *stats = (sw_turn_stats){0};
    size_t vocab = sw_tokenizer_description(chat->tokenizer)->n_tokens;
    if (chat->logits == NULL && (chat->logits = sw_arena_array(&chat->arena, vocab, sizeof(float))) == NULL)
        return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    sw_ids ids = {0};
    const size_t n_messages = chat->n_messages;
    const bool had_pending = chat->has_pending;
    turn t = {.chat = chat, .sink = sink, .sink_context = sink_context};
    sw_code code = sw_stream_init(&t.stream, NULL, 0, err);
    if (!chat->raw && sw_session_is_fresh(chat->session)) sw_chat_warn_of_marks(chat->tokenizer);
    if (code == SW_OK) code = encode_prompt(chat, prompt, &ids, err);
    if (code == SW_OK && ids.count == 0)
        code = SW_FAIL(err, SW_INVALID_ARGUMENT, "the prompt has no token, wanted at least one");
    uint64_t used =
        sw_session_filled(chat->session) + ids.count - sw_session_known(chat->session, ids.data, ids.count);
    if (code == SW_OK && used >= chat->max_seq_len)
        code = SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "the prompt%s has %llu tokens, which leaves no room for a reply: max_seq_len is %llu",
                       !sw_session_is_fresh(chat->session) ? " with what was said before" : "",
                       (unsigned long long)used, (unsigned long long)chat->max_seq_len);
    if (code != SW_OK) chat->n_messages = n_messages, chat->has_pending = had_pending; /* nothing was fed */
    if (code == SW_OK) {
        uint64_t start_us = sw_now_us();
        stats->prompt_tokens = ids.count;
        code = sw_session_feed(chat->session, ids.data, ids.count, chat->logits,
                               chat->show_progress ? "prefill" : NULL, err);
        stats->prefill_us = sw_now_us() - start_us;
    }
    if (code == SW_OK) code = decode_loop(&t, chat->max_seq_len - used, stats, err);
    sw_span rest;
    if (code == SW_OK) code = sw_stream_finish(&t.stream, &rest, err);
    if (code == SW_OK) code = give_out(&t, rest, err);
    if (code == SW_OK)
        code = add_message(chat, "assistant", t.reply != NULL ? t.reply : "", t.reply_size, err);
    sw_stream_deinit(&t.stream);
    sw_ids_free(&ids);
    free(t.reply);
    return code;
}

void sw_chat_free(sw_chat *chat) {
    sw_ids_free(&chat->generated);
    sw_arena_free(&chat->arena);
    *chat = (sw_chat){0};
}
