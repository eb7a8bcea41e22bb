/* Chats: what three turns leave in the session is what one run over the whole conversation leaves, and the
 * counts are kept. The spy makes the model say its end token when the test wants it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/byte_vocab.h"
#include "cli/spy_device.h"
#include "cpu/cpu.h"
#include "quant/sink.h"
#include "runtime/generate.h"
#include "tiny_model.h"

enum { CONTEXT = 320, PREFILL = 16 };

static byte_vocab vocab;
static tiny_model tiny;
static sw_device *cpu;
static spy_device spy;
static sw_decoder decoder;
static sw_tokenizer *tokenizer;
static sw_session *session;
static sw_sampler sampler;
static sw_error err;
static char said[4096];

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static int set_up(void **state) {
    (void)state;
    sw_hparams h = tiny_hparams();
    h.vocab = N_VOCAB, h.context_max = CONTEXT;
    tiny_model_create(&tiny, &h);
    byte_vocab_fill(&vocab);
    OK(sw_tokenizer_create(&tokenizer, &vocab.desc, &err));
    OK(sw_cpu_device_create(&cpu, NULL, &err));
    const sw_graph_options graphs[] = {{"prefill_forward", PREFILL, SW_ATTENTION_GROUPED, SW_HEAD_LAST},
                                       {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST}};
    OK(sw_decoder_build(&decoder, &tiny.model, CONTEXT, graphs, 2, &err));
    spy_create(&spy, cpu);
    OK(sw_session_create(&session, &decoder, &spy.base, &err));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    sw_session_destroy(session);
    sw_decoder_free(&decoder);
    cpu->ops->destroy(cpu);
    sw_tokenizer_destroy(tokenizer);
    tiny_model_free(&tiny);
    return 0;
}

static sw_code collect(void *context, sw_span text, sw_error *e) {
    (void)context, (void)e;
    assert_true(text.size > 0);
    assert_true(strlen(said) + text.size < sizeof said);
    strncat(said, text.data, text.size);
    return SW_OK;
}

static sw_chat new_chat(uint64_t max_seq_len, bool raw) {
    const sw_sampler_params greedy = {.temperature = 0, .top_p = 1};
    sw_session_reset(session);
    spy.filled = 0, spy.boosted = 0, spy.left = 0, said[0] = '\0';
    OK(sw_sampler_init(&sampler, &greedy, &err));
    return (sw_chat){.session = session,
                     .tokenizer = tokenizer,
                     .sampler = &sampler,
                     .max_seq_len = max_seq_len,
                     .raw = raw,
                     .keep_ids = true};
}

static void append_text(sw_ids *ids, const char *text, unsigned flags) {
    OK(sw_tokenizer_encode(tokenizer, sw_span_of(text), flags, ids, &err));
}

/* Says the end token in place of the n-th token of the reply: calls are counted from the prompt's last chunk.
 */
static void end_after(size_t prompt_tokens, uint32_t n) {
    spy.boosted = BYTE_VOCAB_END;
    spy.boost_in = (uint32_t)((prompt_tokens + PREFILL - 1) / PREFILL) + n;
}

static void three_turns_are_one_conversation(void **state) {
    (void)state;
    static const char *const prompts[3] = {"hello", "tell me more, in some detail and at length", "bye"};
    static const uint32_t reply_tokens[3] = {4, 1, 7};
    sw_chat chat = new_chat(CONTEXT, false);
    sw_ids wanted = {0};
    for (int turn = 0; turn < 3; turn++) {
        /* The frame by hand. After a reply come its end token, which was sampled but not fed, and a newline.
         */
        sw_ids frame = {0};
        char text[256];
        snprintf(text, sizeof text, "%s<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n",
                 turn == 0 ? "<|im_start|>system\nBe kind.<|im_end|>\n" : "<|im_end|>\n", prompts[turn]);
        append_text(&frame, text, SW_ENCODE_SPECIAL);
        OK(sw_ids_append(&wanted, frame.data, frame.count, &err));
        end_after(frame.count, reply_tokens[turn]);
        size_t before = chat.generated.count;
        sw_turn_stats stats;
        OK(sw_chat_turn(&chat, prompts[turn], collect, NULL, &stats, &err));
        assert_int_equal(stats.prompt_tokens, frame.count);
        assert_int_equal(stats.generated_tokens, reply_tokens[turn] + 1u); /* the end token counts */
        assert_true(stats.ended);
        assert_int_equal(chat.generated.count - before, reply_tokens[turn] + 1u);
        assert_int_equal(chat.generated.data[chat.generated.count - 1], BYTE_VOCAB_END);
        OK(sw_ids_append(&wanted, chat.generated.data + before, reply_tokens[turn], &err));
        assert_int_equal(sw_session_filled(session), wanted.count);
        sw_ids_free(&frame);
    }
    assert_null(strstr(said, "<|im_end|>"));

    /* One run over all of it, each token alone: the logits that ended the chat, but for the spy's. */
    sw_session *plain;
    static float logits[N_VOCAB];
    OK(sw_session_create(&plain, &decoder, cpu, &err));
    for (size_t i = 0; i < wanted.count; i++)
        OK(sw_session_feed(plain, wanted.data + i, 1, logits, NULL, &err));
    for (int i = 0; i < N_VOCAB; i++)
        if (i != BYTE_VOCAB_END) assert_float_equal(chat.logits[i], logits[i], 1e-4);
    sw_session_destroy(plain);
    sw_ids_free(&wanted);
    sw_chat_free(&chat);
}

/* max_seq_len counts prompts and replies; the last token is not fed, and the next turn has no room. */
static void the_length_is_exact(void **state) {
    (void)state;
    sw_ids frame = {0};
    append_text(
        &frame,
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
        SW_ENCODE_SPECIAL);
    uint64_t prompt = frame.count;
    for (uint64_t room = 1; room <= 3; room++) {
        sw_chat chat = new_chat(prompt + room, false);
        sw_turn_stats stats;
        OK(sw_chat_turn(&chat, "hi", collect, NULL, &stats, &err));
        assert_int_equal(stats.generated_tokens, room);
        assert_false(stats.ended);
        assert_int_equal(sw_session_filled(session), prompt + room - 1);
        assert_int_equal(sw_chat_turn(&chat, "and", collect, NULL, &stats, &err), SW_INVALID_ARGUMENT);
        char number[24];
        snprintf(number, sizeof number, "%llu", (unsigned long long)(prompt + room));
        assert_non_null(strstr(err.message, number));
        assert_int_equal(sw_session_filled(session), prompt + room - 1);
        sw_chat_free(&chat);
    }
    sw_chat chat = new_chat(prompt, false); /* no room for one token */
    sw_turn_stats stats;
    assert_int_equal(sw_chat_turn(&chat, "hi", collect, NULL, &stats, &err), SW_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "max_seq_len"));
    assert_int_equal(sw_session_filled(session), 0);
    sw_chat_free(&chat);
    sw_ids_free(&frame);
}

/* A reply that was cut: its last token goes first in the next turn, once; a refused turn changes nothing. */
static void a_cut_reply_goes_on(void **state) {
    (void)state;
    sw_ids wanted = {0};
    sw_turn_stats stats;
    sw_chat chat = new_chat(0, false);
    append_text(
        &wanted,
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
        SW_ENCODE_SPECIAL);
    assert_int_equal(sw_chat_turn(&chat, "hi", collect, NULL, &stats, &err), SW_INVALID_ARGUMENT);
    chat.max_seq_len = wanted.count + 3;
    OK(sw_chat_turn(&chat, "hi", collect, NULL, &stats, &err));
    assert_false(stats.ended);
    OK(sw_ids_append(&wanted, chat.generated.data, 3, &err));
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(sw_chat_turn(&chat, "and", collect, NULL, &stats, &err), SW_INVALID_ARGUMENT);
        append_text(&wanted, "<|im_end|>\n<|im_start|>user\nand<|im_end|>\n<|im_start|>assistant\n",
                    SW_ENCODE_SPECIAL);
        chat.max_seq_len = wanted.count + 2;
        size_t before = chat.generated.count;
        OK(sw_chat_turn(&chat, "and", collect, NULL, &stats, &err));
        assert_int_equal(chat.generated.count - before, 2);
        OK(sw_ids_append(&wanted, chat.generated.data + before, 2, &err));
    }
    assert_int_equal(sw_session_filled(session), wanted.count - 1); /* the last one is not fed yet */
    sw_session *plain;
    static float logits[N_VOCAB];
    OK(sw_session_create(&plain, &decoder, cpu, &err));
    OK(sw_session_feed(plain, wanted.data, wanted.count - 1, logits, NULL, &err));
    for (int i = 0; i < N_VOCAB; i++) assert_float_equal(chat.logits[i], logits[i], 1e-4);
    sw_session_destroy(plain);
    sw_ids_free(&wanted);
    sw_chat_free(&chat);
}

/* The first token of all is the end. */
static void an_end_at_once_is_an_empty_reply(void **state) {
    (void)state;
    sw_chat chat = new_chat(CONTEXT, true);
    sw_turn_stats stats;
    end_after(3, 0);
    OK(sw_chat_turn(&chat, "abc", collect, NULL, &stats, &err));
    assert_string_equal(said, "");
    assert_int_equal(stats.prompt_tokens, 3);
    assert_int_equal(stats.generated_tokens, 1);
    assert_true(stats.ended);
    sw_chat_free(&chat);
}

static void raw_text_and_system(void **state) {
    (void)state;
    sw_turn_stats stats;
    sw_chat chat = new_chat(20, true);
    OK(sw_chat_turn(&chat, "<|im_start|>hello", collect, NULL, &stats, &err)); /* start, hell, o */
    assert_int_equal(stats.prompt_tokens, 3);
    assert_true(stats.ended || stats.generated_tokens == 17);
    sw_chat_free(&chat);
    chat = new_chat(20, true);
    assert_int_equal(sw_chat_turn(&chat, "", collect, NULL, &stats, &err), SW_INVALID_ARGUMENT); /* no ids */
    sw_chat_free(&chat);

    chat = new_chat(CONTEXT, false);
    sw_ids frame = {0};
    append_text(
        &frame,
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n",
        SW_ENCODE_SPECIAL);
    OK(sw_chat_set_system(&chat, "Be brief.", &err));
    end_after(frame.count, 2);
    OK(sw_chat_turn(&chat, "", collect, NULL, &stats, &err));
    assert_int_equal(stats.prompt_tokens, frame.count);
    assert_int_equal(sw_chat_set_system(&chat, "Be long.", &err), SW_INVALID_ARGUMENT);
    sw_ids_free(&frame);
    sw_chat_free(&chat);
}

static sw_code broken_sink(void *context, sw_span text, sw_error *e) {
    (void)context, (void)text;
    return SW_FAIL(e, SW_IO, "the pipe is gone");
}

static void a_failing_sink_ends_the_turn(void **state) {
    (void)state;
    sw_turn_stats stats;
    sw_chat chat = new_chat(CONTEXT, true);
    assert_int_equal(sw_chat_turn(&chat, "abc", broken_sink, NULL, &stats, &err), SW_IO);
    assert_string_equal(err.message, "the pipe is gone");
    sw_chat_free(&chat);
}

/* Replies are the same with and without a chunked prompt, and after other chats: the state is the session's
 * and nowhere else. */
static void the_same_chat_twice(void **state) {
    (void)state;
    char first[sizeof said];
    sw_turn_stats stats;
    for (int i = 0; i < 2; i++) {
        sw_chat chat = new_chat(100, false);
        OK(sw_chat_turn(&chat, "hello there", collect, NULL, &stats, &err));
        sw_chat_free(&chat);
        if (i == 0) memcpy(first, said, sizeof said);
    }
    assert_string_equal(first, said);
    sw_chat other = new_chat(100, false);
    OK(sw_chat_turn(&other, "quite another question?", collect, NULL, &stats, &err));
    assert_string_not_equal(first, said);
    sw_chat_free(&other);
}

/* A chat whose first token stands in the cache from the start says the same, with the same counts. */
static void behind_a_sink(void **state) {
    (void)state;
    sw_arena arena = SW_ARENA_EMPTY;
    sw_session *const with_spy = session;
    const int32_t start = BYTE_VOCAB_START;
    sw_ids generated[2] = {{0}};
    sw_turn_stats stats[2];
    for (int with = 0; with < 2; with++) {
        if (with) {
            sw_sink sink;
            OK(sw_sink_compute(&sink, &tiny.model, cpu, &start, 1, &arena, &err));
            OK(sw_sink_attach(&decoder, &sink, &err));
        }
        OK(sw_session_create(&session, &decoder, cpu, &err));
        for (int round = 0; round < 2; round++) { /* again after a reset */
            sw_chat chat = new_chat(80, false);
            assert_int_equal(sw_session_filled(session), with);
            OK(sw_chat_turn(&chat, "hi", collect, NULL, &stats[with], &err));
            assert_int_equal(sw_session_filled(session), 79);
            sw_turn_stats none;
            assert_int_equal(sw_chat_turn(&chat, "and", collect, NULL, &none, &err), SW_INVALID_ARGUMENT);
            if (round == 0)
                OK(sw_ids_append(&generated[with], chat.generated.data, chat.generated.count, &err));
            sw_chat_free(&chat);
        }
        sw_session_destroy(session);
    }
    assert_int_equal(stats[0].prompt_tokens, stats[1].prompt_tokens);
    assert_int_equal(stats[0].generated_tokens, stats[1].generated_tokens);
    assert_int_equal(generated[0].count, generated[1].count);
    assert_memory_equal(generated[0].data, generated[1].data, generated[0].count * sizeof(int32_t));
    decoder.sink = (sw_sink){0};
    session = with_spy;
    sw_ids_free(&generated[0]), sw_ids_free(&generated[1]);
    sw_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_turns_are_one_conversation),
        cmocka_unit_test(the_length_is_exact),
        cmocka_unit_test(a_cut_reply_goes_on),
        cmocka_unit_test(an_end_at_once_is_an_empty_reply),
        cmocka_unit_test(raw_text_and_system),
        cmocka_unit_test(a_failing_sink_ends_the_turn),
        cmocka_unit_test(the_same_chat_twice),
        cmocka_unit_test(behind_a_sink),
    };
    return cmocka_run_group_tests_name("chat", tests, set_up, tear_down);
}
