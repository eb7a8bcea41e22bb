/* load_tokenizer.c: GGUF's tokenizer keys as a tokenizer's description. Key names: ggml's docs/gguf.md. */
#include "runtime/load_tokenizer.h"

#include <string.h>

#define LLAMA3 "llama-bpe"

/* An id that may be missing: -1. More than the vocabulary holds is for sw_tokenizer_create to refuse. */
static sw_code get_id(const sw_gguf *gguf, const char *key, int64_t *out, sw_error *err) {
    uint64_t id;
    *out = -1;
    if (!sw_gguf_has(gguf, key)) return SW_OK;
    SW_TRY(sw_gguf_get_u64(gguf, key, &id, err));
    *out = id < INT64_MAX ? (int64_t)id : INT64_MAX;
    return SW_OK;
}

static sw_code describe(const sw_gguf *gguf, sw_arena *arena, sw_tokenizer_desc *d, sw_error *err) {
    /* Where pre or merges are missing it may be another kind of tokenizer: sw_tokenizer_create says which. */
    sw_span *spans;
    const char *key = "tokenizer.ggml.pre";
    SW_TRY(sw_gguf_get_string(gguf, "tokenizer.ggml.model", &d->model, err));
    if (sw_gguf_has(gguf, key)) SW_TRY(sw_gguf_get_string(gguf, key, &d->pre, err));
    SW_TRY(sw_gguf_get_strings(gguf, "tokenizer.ggml.tokens", arena, &spans, &d->n_tokens, err));
    d->tokens = spans;
    key = "tokenizer.ggml.merges";
    if (sw_gguf_has(gguf, key)) SW_TRY(sw_gguf_get_strings(gguf, key, arena, &spans, &d->n_merges, err));
    d->merges = spans;

    key = "tokenizer.ggml.token_type";
    if (sw_gguf_has(gguf, key)) {
        int32_t *types;
        size_t count;
        SW_TRY(sw_gguf_get_i32s(gguf, key, arena, &types, &count, err));
        if (count != d->n_tokens)
            return SW_FAIL(err, SW_BAD_DATA, "%s: %s has %zu values, there are %zu tokens",
                           sw_gguf_path(gguf), key, count, d->n_tokens);
        d->token_types = types;
    }
    SW_TRY(get_id(gguf, "tokenizer.ggml.bos_token_id", &d->bos, err));
    SW_TRY(get_id(gguf, "tokenizer.ggml.eos_token_id", &d->eos, err));
    SW_TRY(get_id(gguf, "tokenizer.ggml.eot_token_id", &d->eot, err));
    SW_TRY(get_id(gguf, "tokenizer.ggml.unknown_token_id", &d->unk, err));
    SW_TRY(get_id(gguf, "tokenizer.ggml.padding_token_id", &d->pad, err));

    /* Files older than the key: Llama 3 is trained with bos, the others of this family without. */
    key = "tokenizer.ggml.add_bos_token";
    d->add_bos =
        d->bos >= 0 && d->pre.size == strlen(LLAMA3) && memcmp(d->pre.data, LLAMA3, d->pre.size) == 0;
    if (sw_gguf_has(gguf, key)) SW_TRY(sw_gguf_get_bool(gguf, key, &d->add_bos, err));
    key = "tokenizer.chat_template";
    if (sw_gguf_has(gguf, key)) SW_TRY(sw_gguf_get_string(gguf, key, &d->chat_template, err));
    return SW_OK;
}

sw_code sw_tokenizer_from_gguf(sw_tokenizer **out, const sw_gguf *gguf, sw_error *err) {
    *out = NULL;
    sw_tokenizer_desc desc = {.source = sw_gguf_path(gguf)};
    sw_arena arena = SW_ARENA_EMPTY;
    sw_code code = describe(gguf, &arena, &desc, err);
    if (code == SW_OK) code = sw_tokenizer_create(out, &desc, err);
    sw_arena_free(&arena);
    return code;
}
