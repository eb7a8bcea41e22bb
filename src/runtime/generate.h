/* generate.h: a chat over a session: prompts in, text out as it comes. */
#ifndef SW_RUNTIME_GENERATE_H
#define SW_RUNTIME_GENERATE_H

#include "runtime/session.h"
#include "text/chat_template.h"
#include "text/sampler.h"
#include "text/stream.h"
#include "text/tokenizer.h"

/* Times and counts of one turn. */
typedef struct sw_turn_stats {
    uint64_t prompt_tokens, generated_tokens; /* the token that ends the text counts as generated */
    uint64_t prefill_us;                      /* from the first prompt token to the first new one */
    uint64_t decode_us;                       /* from the first new token to the last */
    bool ended;                               /* by an end token or a stop; else by max_seq_len */
} sw_turn_stats;

/* Where text goes; called with whole UTF-8 characters, not empty. */
typedef sw_code sw_text_sink(void *context, sw_span text, sw_error *err);

typedef struct sw_chat {
    sw_session *session; /* borrowed, as the two below */
    const sw_tokenizer *tokenizer;
    sw_sampler *sampler;
    uint64_t max_seq_len; /* prompt and generated tokens of all turns together */
    bool raw;             /* no chat template: prompts are fed as they are */
    bool keep_ids;        /* collect generated ids in `generated` */
    bool show_progress;
    /* The chat so far; init with {0}. */
    sw_arena arena;
    sw_chat_message *messages;
    size_t n_messages, capacity;
    sw_ids generated;
    int32_t pending; /* the last token of a reply cut by its length, not fed yet */
    bool has_pending;
    float *logits;
} sw_chat;

/* A system message of the user's own; before the first turn. */
sw_code sw_chat_set_system(sw_chat *chat, const char *text, sw_error *err) SW_MUST_CHECK;

/* One turn: feeds the prompt, samples until an end token or max_seq_len.
 * Errors: SW_INVALID_ARGUMENT where prompt and history leave no room for a token, with the numbers: then the
 * chat is as before. */
sw_code sw_chat_turn(sw_chat *chat, const char *prompt, sw_text_sink *sink, void *sink_context,
                     sw_turn_stats *stats, sw_error *err) SW_MUST_CHECK;

void sw_chat_free(sw_chat *chat);

#endif
