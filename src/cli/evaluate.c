/* evaluate.c: f32 logits of every position from one call, quantized ones from a session. */
#include "cli/evaluate.h"

#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "runtime/session.h"

enum { STEP_TOKENS = 8 }; /* an eighth of the positions says as much as all, at an eighth of the time */

static size_t argmax(const float *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* Row t of `wanted` [n, vocab] stands behind token t. */
static sw_code compare(sw_session *quantized, const sw_window *window, const float *wanted, size_t vocab,
                       float *logits, sw_evaluation *out, sw_error *err) {
    double signal = 0, noise = 0;
    sw_progress progress;
    sw_progress_start(&progress, "evaluate", window->n_tokens);
    sw_code code = SW_OK;
    for (uint32_t begin = 0; begin < window->n_tokens && code == SW_OK;) {
        uint32_t n = window->n_tokens - begin < STEP_TOKENS ? window->n_tokens - begin : STEP_TOKENS;
        code = sw_session_feed(quantized, window->ids + begin, n, logits, NULL, err);
        begin += n;
        const float *row = wanted + (begin - 1) * vocab;
        for (size_t i = 0; i < vocab && code == SW_OK; i++) {
            double a = (double)row[i], difference = a - (double)logits[i];
            signal += a * a, noise += difference * difference;
        }
        out->positions++;
        out->same_top += argmax(row, vocab) == argmax(logits, vocab);
        sw_progress_update(&progress, begin);
    }
    sw_progress_end(&progress);
    out->sqnr_db = noise > 0 ? 10 * log10(signal / noise) : 999;
    return code;
}

sw_code sw_evaluate(const sw_model *model, const sw_decoder *decoder, sw_device *device,
                    const sw_window *window, sw_evaluation *out, sw_error *err) {
    *out = (sw_evaluation){0};
    size_t vocab = model->hparams.vocab;
    sw_graph_options whole = {"held_out", window->n_tokens, SW_ATTENTION_GROUPED, SW_HEAD_ALL};
    sw_decoder reference = {0};
    sw_session *quantized = NULL, *exact = NULL;
    float *wanted = malloc(window->n_tokens * vocab * sizeof *wanted),
          *logits = malloc(vocab * sizeof *logits);
    sw_code code = SW_OK;
    if (wanted == NULL || logits == NULL) code = SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    if (code == SW_OK) code = sw_decoder_build(&reference, model, window->n_tokens, &whole, 1, err);
    if (code == SW_OK) code = sw_session_create(&exact, &reference, device, err);
    if (code == SW_OK) code = sw_session_feed_all(exact, window->ids, window->n_tokens, wanted, err);
    sw_session_destroy(exact);
    if (code == SW_OK) code = sw_session_create(&quantized, decoder, device, err);
    if (code == SW_OK) code = compare(quantized, window, wanted, vocab, logits, out, err);
    sw_session_destroy(quantized);
    sw_decoder_free(&reference);
    free(wanted);
    free(logits);
    return code;
}
