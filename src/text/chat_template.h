/* chat_template.h: a chat as the text that the model was trained on.
 *
 * There is no Jinja engine: the template is recognized by what it contains. ChatML (SmolLM2, Qwen2 and many
 * others) frames each message as <|im_start|>role\ncontent<|im_end|>\n; where the template holds a default
 * system message, it is inserted before a chat that has none. */
#ifndef SW_TEXT_CHAT_TEMPLATE_H
#define SW_TEXT_CHAT_TEMPLATE_H

#include <stdbool.h>

#include "text/tokenizer.h"

typedef struct sw_chat_message {
    sw_span role; /* "system", "user", "assistant" */
    sw_span content;
} sw_chat_message;

/* Renders messages [first, count) of a chat into the arena, with a zero byte behind the text; encode it with
 * SW_ENCODE_SPECIAL.
 *
 * first 0 gives the whole chat. For the next turn of a session keep the list, append the model's reply and
 * the new message, and pass the new message's index: what lies before it is in the KV cache, the reply
 * without the token that ended it (a sampled end is not fed). So the text then begins with the end of that
 * reply. add_generation_prompt opens the assistant's turn at the end.
 *
 * Errors: SW_UNSUPPORTED for a template that isn't recognized, with what was looked for (the caller may go on
 * with raw text); SW_INVALID_ARGUMENT for no messages or first >= count. */
sw_code sw_chat_render(sw_span chat_template, const sw_chat_message *messages, size_t count, size_t first,
                       bool add_generation_prompt, sw_arena *arena, sw_span *out,
                       sw_error *err) SW_MUST_CHECK;

/* Warns, a line each, where a mark of the frame is no token of its own: it is spelled out then, which no
 * model was trained on. Nothing for a template that isn't recognized. */
void sw_chat_warn_of_marks(const sw_tokenizer *tokenizer);

#endif
