/* encode.c: text to ids: special tokens are cut out, what is between is split into words, each word is
 * merged. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer_parts.h"

typedef struct encoding {
    const sw_tokenizer *t;
    sw_ids *out;
    sw_bpe_scratch scratch;
    uint64_t n_dropped;
} encoding;

/* The id of a normal token that is the whole word, or -1. */
static int32_t whole_word(const sw_tokenizer *t, sw_span word) {
    char text[SW_BYTE_CHAR_MAX * 256];
    if (word.size > sizeof text / SW_BYTE_CHAR_MAX) return -1; /* no vocabulary has such a token */
    size_t size = 0;
    for (size_t i = 0; i < word.size; i++) size += sw_byte_to_char((uint8_t)word.data[i], text + size);
    int32_t id = sw_token_map_find(&t->map, (sw_span){text, size});
    if (id >= 0 && t->desc.token_types != NULL && t->desc.token_types[id] != SW_TOKEN_NORMAL) return -1;
    return id;
}

static sw_code encode_word(void *context, sw_span word, sw_error *err) {
    encoding *e = context;
    if (e->t->rule->ignore_merges) {
        int32_t id = whole_word(e->t, word);
        if (id >= 0) return sw_ids_append(e->out, &id, 1, err);
    }
    return sw_bpe_encode(&e->t->bpe, word, &e->scratch, e->out, &e->n_dropped, err);
}

static sw_code encode_text(encoding *e, sw_span text, bool parse_control, sw_error *err) {
    for (size_t at = 0; at < text.size;) {
        size_t special_at = at, special_size = 0;
        int32_t id = sw_specials_next(&e->t->specials, text, parse_control, &special_at, &special_size);
        size_t end = id >= 0 ? special_at : text.size;
        if (end > at)
            SW_TRY(sw_pretokenize(e->t->pre, (sw_span){text.data + at, end - at}, encode_word, e, err));
        if (id >= 0) SW_TRY(sw_ids_append(e->out, &id, 1, err));
        at = end + special_size;
    }
    return SW_OK;
}

sw_code sw_tokenizer_encode(const sw_tokenizer *t, sw_span text, unsigned flags, sw_ids *out, sw_error *err) {
    encoding e = {.t = t, .out = out};
    size_t start = out->count;
    int32_t bos = (int32_t)t->desc.bos;
    bool add_bos = (flags & SW_ENCODE_START) != 0 && t->desc.add_bos;
    sw_code code = add_bos ? sw_ids_append(out, &bos, 1, err) : SW_OK;
    if (code == SW_OK) code = encode_text(&e, text, (flags & SW_ENCODE_SPECIAL) != 0, err);
    if (code != SW_OK)
        out->count = start;
    else if (add_bos && out->count > start + 1 &&
             out->data[start + 1] == bos) { /* the text brought its own */
        out->count--;
        memmove(out->data + start, out->data + start + 1, (out->count - start) * sizeof *out->data);
    }
    if (e.n_dropped > 0)
        sw_log(SW_LOG_WARN, "left out %llu byte(s) of the text that this vocabulary has no token for",
               (unsigned long long)e.n_dropped);
    sw_bpe_scratch_free(&e.scratch);
    return code;
}
