/* self_check.c: two prompts through every kind of graph. */
#include "cli/self_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session.h"

enum { LEAST_CANDIDATES = 8 }; /* fewer may be alike by chance */

static bool tells(uint32_t candidates) {
    return candidates == 0 || candidates >= LEAST_CANDIDATES;
}

sw_code sw_check_logits(const float *logits, size_t vocab, uint32_t candidates, const char *behind,
                        sw_error *err) {
    bool constant = vocab > 1;
    size_t n = 0;
    float first = 0;
    for (size_t i = 0; i < vocab; i++) {
        if (candidates > 0 && logits[i] == -INFINITY) continue;
        if (!isfinite(logits[i]))
            return SW_FAIL(err, SW_BAD_DATA, "the logit of token %zu %s is %g, wanted a finite number", i,
                           behind, (double)logits[i]);
        if (n++ == 0) first = logits[i];
        constant = constant && logits[i] == first;
    }
    if (candidates > 0 && n != candidates)
        return SW_FAIL(err, SW_BAD_DATA, "%zu tokens %s have a logit, wanted %u candidates", n, behind,
                       candidates);
    if (!constant || !tells(candidates)) return SW_OK;
    return SW_FAIL(err, SW_BAD_DATA, "all %zu logits %s are %g: the graph says nothing", n, behind,
                   (double)first);
}

/* Ids from all over the vocabulary; those of the two runs differ at each place. */
static void fill_ids(int32_t *ids, uint32_t n, uint32_t run, uint32_t vocab) {
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)(((uint64_t)i * 31 + 7 + run * (vocab / 2)) % vocab);
}

/* logits [2][vocab]: behind the run, and behind one token more. */
static sw_code run_prompt(sw_session *session, const int32_t *ids, uint32_t n, int32_t next,
                          const sw_decoder *decoder, float *logits, sw_error *err) {
    const size_t vocab = decoder->hparams.vocab;
    const uint32_t candidates = sw_decoder_candidates(decoder);
    char behind[64];
    sw_session_reset(session);
    SW_TRY(sw_session_feed(session, ids, n, logits, NULL, err));
    snprintf(behind, sizeof behind, "behind %u tokens", n);
    SW_TRY(sw_check_logits(logits, vocab, candidates, behind, err));
    SW_TRY(sw_session_feed(session, &next, 1, logits + vocab, NULL, err));
    snprintf(behind, sizeof behind, "behind %u tokens and one more", n);
    return sw_check_logits(logits + vocab, vocab, candidates, behind, err);
}

static sw_code check(sw_session *session, const sw_decoder *decoder, uint32_t n, int32_t *ids, float *logits,
                     sw_error *err) {
    uint32_t vocab = decoder->hparams.vocab;
    float *other = logits + 2 * (size_t)vocab;
    size_t bytes = vocab * sizeof *logits;
    fill_ids(ids, n, 0, vocab);
    SW_TRY(run_prompt(session, ids, n, 3 % (int32_t)vocab, decoder, logits, err));
    fill_ids(ids, n, 1, vocab);
    SW_TRY(run_prompt(session, ids, n, 3 % (int32_t)vocab, decoder, other, err));
    if (!tells(sw_decoder_candidates(decoder))) return SW_OK;
    if (memcmp(logits, other, bytes) == 0)
        return SW_FAIL(
            err, SW_BAD_DATA,
            "two prompts of %u other tokens have the same logits, byte for byte: the graph doesn't "
            "look at its input",
            n);
    if (memcmp(logits + vocab, other + vocab, bytes) == 0)
        return SW_FAIL(
            err, SW_BAD_DATA,
            "one token behind two prompts of %u other tokens has the same logits, byte for byte: the "
            "graph doesn't look at its KV cache",
            n);
    return SW_OK;
}

sw_code sw_self_check(const sw_decoder *decoder, sw_device *device, sw_error *err) {
    uint32_t n = 1, taken = decoder->sink.n_tokens + 1; /* by the sink, and by the token behind the run */
    uint32_t room = decoder->context_len > taken ? decoder->context_len - taken : 0;
    for (uint32_t i = 0; i < decoder->n_graphs; i++)
        if (decoder->graphs[i]->ar_len > n) n = decoder->graphs[i]->ar_len;
    if (n > room) n = room;
    if (n == 0 || decoder->hparams.vocab < 2) return SW_OK; /* nothing that could differ */
    int32_t *ids = malloc(n * sizeof *ids);
    float *logits = malloc(4 * (size_t)decoder->hparams.vocab * sizeof *logits);
    sw_session *session = NULL;
    sw_code code = SW_OK;
    if (ids == NULL || logits == NULL) code = SW_FAIL(err, SW_NO_MEMORY, "no memory for a self-check");
    if (code == SW_OK) code = sw_session_create(&session, decoder, device, err);
    if (code == SW_OK) code = check(session, decoder, n, ids, logits, err);
    if (code == SW_BAD_DATA) sw_error_prefix(err, "self-check on %s", device->ops->name);
    sw_session_destroy(session);
    free(ids), free(logits);
    return code;
}
