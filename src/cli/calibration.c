/* calibration.c: documents to ids, ids to windows, and what makes a text useless.
 *
 * Bounds. Ranges are the least and greatest of what the text shows, so a text fails by showing little: few
 * tokens, few distinct ones, or a script that the vocabulary has to spell byte by byte. In SmolLM2's a token
 * is 4 characters of English, 1.4 of Russian, 0.6 of Chinese. */
#include "cli/calibration.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"

enum {
    WINDOW_TOKENS = 512, /* longest run of text that calibration looks at as one */
    LEAST_TOKENS = 32,
    FEW_TOKENS = 1000,
    LEAST_DISTINCT = 8,
    FEW_DISTINCT = 64,
    LEAST_HELD_OUT = 32
};

typedef struct text_size {
    size_t bytes, characters;
} text_size;

/* Where document d's ids end. */
typedef struct document_ends {
    size_t *data, count, capacity; /* data in the checkpoint's arena */
} document_ends;

static sw_code add_end(document_ends *ends, size_t end, sw_arena *arena, sw_error *err) {
    if (ends->count == ends->capacity) {
        size_t capacity = ends->capacity > 0 ? 2 * ends->capacity : 64;
        size_t *bigger = sw_arena_array(arena, capacity, sizeof *bigger);
        if (bigger == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        if (ends->count > 0) memcpy(bigger, ends->data, ends->count * sizeof *bigger);
        ends->data = bigger, ends->capacity = capacity;
    }
    ends->data[ends->count++] = end;
    return SW_OK;
}

/* Adds the documents that were taken to *taken. */
static sw_code encode(sw_calibration *c, const sw_options *options, sw_checkpoint *checkpoint,
                      document_ends *ends, text_size *taken, sw_error *err) {
    sw_span rest, document;
    if (options->calib_text != NULL) {
        char *text;
        SW_TRY(sw_file_read_text(c->name, 64u << 20, &checkpoint->arena, &text, &rest.size, err));
        rest.data = text;
    } else {
        rest.data = sw_calibration_default_text(&rest.size);
    }
    while ((options->calib_samples == 0 || ends->count < options->calib_samples) &&
           sw_calibration_next_document(&rest, &document)) {
        SW_TRY(sw_tokenizer_encode(checkpoint->tokenizer, document, SW_ENCODE_SPECIAL, &c->text, err));
        SW_TRY(add_end(ends, c->text.count, &checkpoint->arena, err));
        taken->bytes += document.size;
        for (size_t i = 0; i < document.size; i++) taken->characters += (document.data[i] & 0xc0) != 0x80;
    }
    if (options->calib_samples > ends->count)
        sw_log(SW_LOG_WARN, "--calib_samples %u, but %s has %zu documents: all are taken",
               options->calib_samples, c->name, ends->count);
    return SW_OK;
}

/* Counts distinct ids, and the bytes that all ids stand for. */
static sw_code survey(const sw_calibration *c, sw_checkpoint *checkpoint, size_t *distinct, size_t *known,
                      sw_error *err) {
    uint32_t vocab = checkpoint->model.hparams.vocab;
    int64_t unknown = sw_tokenizer_description(checkpoint->tokenizer)->unk;
    bool *seen = sw_arena_array(&checkpoint->arena, vocab, sizeof *seen);
    if (seen == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < c->text.count; i++) {
        sw_span bytes;
        SW_TRY(sw_tokenizer_decode(checkpoint->tokenizer, c->text.data[i], true, &bytes, err));
        if (c->text.data[i] != unknown) *known += bytes.size;
        *distinct += !seen[c->text.data[i]];
        seen[c->text.data[i]] = true;
    }
    return SW_OK;
}

static sw_code check(const sw_calibration *c, sw_checkpoint *checkpoint, text_size size, sw_error *err) {
    size_t n = c->text.count, distinct = 0, known = 0;
    SW_TRY(survey(c, checkpoint, &distinct, &known, err));
    if (size.bytes > 0 && known < size.bytes / 2)
        return SW_FAIL(err, SW_BAD_DATA,
                       "%s: the vocabulary has tokens for only %zu of its %zu bytes: wanted text in a "
                       "language that the model knows",
                       c->name, known, size.bytes);
    if (n < LEAST_TOKENS)
        return SW_FAIL(err, SW_BAD_DATA,
                       "%s: %zu tokens to calibrate with, wanted at least %d: ranges seen on less don't hold",
                       c->name, n, LEAST_TOKENS);
    if (distinct < LEAST_DISTINCT)
        return SW_FAIL(err, SW_BAD_DATA,
                       "%s: its %zu tokens are the same %zu again and again, wanted at least %d distinct "
                       "ones: ranges seen on them don't hold for others",
                       c->name, n, distinct, LEAST_DISTINCT);
    if (n < FEW_TOKENS)
        sw_log(SW_LOG_WARN, "%s: %zu tokens to calibrate with; below about %d the ranges are a guess",
               c->name, n, FEW_TOKENS);
    if (distinct < FEW_DISTINCT && n >= 2 * FEW_DISTINCT)
        sw_log(SW_LOG_WARN, "%s: only %zu distinct tokens among %zu: the ranges may not hold for others",
               c->name, distinct, n);
    if (size.characters < n)
        sw_log(
            SW_LOG_WARN,
            "%s: %.1f characters a token: the vocabulary hardly knows this script; take text in a language "
            "that the model was trained on",
            c->name, (double)size.characters / (double)n);
    return SW_OK;
}

static sw_code cut(sw_calibration *c, const document_ends *ends, sw_checkpoint *checkpoint, sw_error *err) {
    size_t most = checkpoint->model.hparams.context_max;
    if (most > WINDOW_TOKENS) most = WINDOW_TOKENS;
    c->windows = sw_arena_array(&checkpoint->arena, ends->count + c->n_used / most + 1, sizeof *c->windows);
    if (c->windows == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    c->beginnings = sw_arena_array(&checkpoint->arena, ends->count, sizeof *c->beginnings);
    if (c->beginnings == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    size_t begin = 0;
    for (size_t d = 0; d < ends->count; d++) {
        const size_t first = c->n_windows;
        while (begin < ends->data[d] && begin < c->n_used) {
            size_t end = ends->data[d] < c->n_used ? ends->data[d] : c->n_used;
            size_t n = end - begin < most ? end - begin : most;
            c->windows[c->n_windows++] = (sw_window){c->text.data + begin, (uint32_t)n};
            begin += n;
        }
        if (c->n_windows > first) c->beginnings[c->n_beginnings++] = c->windows[first];
    }
    return SW_OK;
}

sw_code sw_calibration_read(sw_calibration *c, const sw_options *options, sw_checkpoint *checkpoint,
                            size_t held_out_most, sw_error *err) {
    document_ends ends = {0};
    text_size size = {0};
    *c = (sw_calibration){.name = options->calib_text != NULL ? options->calib_text
                                                              : "the built-in calibration text",
                          .built_in = options->calib_text == NULL};
    SW_TRY(encode(c, options, checkpoint, &ends, &size, err));
    SW_TRY(check(c, checkpoint, size, err));
    c->n_used = c->text.count - c->text.count / 10;
    SW_TRY(cut(c, &ends, checkpoint, err));
    size_t held_out = c->text.count - c->n_used;
    if (held_out > held_out_most) held_out = held_out_most;
    c->held_out = (sw_window){c->text.data + c->text.count - held_out, (uint32_t)held_out};
    if (held_out < LEAST_HELD_OUT && held_out < held_out_most)
        sw_log(SW_LOG_WARN, "%s: %zu tokens held out: what is measured on them says little", c->name,
               held_out);
    return SW_OK;
}

void sw_calibration_free(sw_calibration *c) {
    sw_ids_free(&c->text);
}
