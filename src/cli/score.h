/* score.h: how well logits foretell a text, and how near they are to other logits for it. */
#ifndef SW_CLI_SCORE_H
#define SW_CLI_SCORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/threads.h"

/* Sums over scored positions, so that windows add up. */
typedef struct sw_score {
    uint32_t positions;
    double nll, nll_squares; /* -ln of the probability given to the token that followed */
    /* Against reference logits, of the same positions: */
    uint32_t compared, same_top; /* compared is 0 without a reference, else positions */
    double kl;                   /* KL(reference || these), nats */
    double signal, noise;        /* power of the reference logits, and of the difference */
} sw_score;

/* The rows of logits [n, vocab] from `first` on, each against the id behind it: row t against ids[t + 1], so
 * the last row isn't scored. reference [n, vocab] or NULL. The same sums for every number of threads.
 * Errors: SW_NO_MEMORY. */
sw_code sw_score_window(const float *logits, const float *reference, const int32_t *ids, uint32_t n,
                        uint32_t first, size_t vocab, sw_pool *pool, sw_score *out,
                        sw_error *err) SW_MUST_CHECK;

/* Where llama.cpp's perplexity begins to score a window of n tokens: at n / 2, so that no token is judged
 * without context. */
static inline uint32_t sw_score_first(uint32_t n) {
    return n / 2;
}

/* One row of logits against the reference's: the places of the greatest, first one on a tie, and compared,
 * same_top, kl, signal and noise of *out; the rest of it is 0. */
void sw_score_compare(const float *reference, const float *row, size_t vocab, size_t *reference_top,
                      size_t *top, sw_score *out);

void sw_score_add(sw_score *sum, const sw_score *more);

/* e^(mean nll); its standard error, to first order; NaN without positions. */
double sw_score_perplexity(const sw_score *s);
double sw_score_perplexity_error(const sw_score *s);
/* 10 log10(signal / noise), 999 without noise. */
double sw_decibels(double signal, double noise);

/* ln of the probability that a row gives to id. */
double sw_log_probability(const float *row, size_t vocab, int32_t id);

#endif
