/* score.c: log-softmax in double, a row a task; rows are added up in their order. */
#include "cli/score.h"

#include <math.h>
#include <stdlib.h>

static size_t argmax(const float *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static double log_sum_exp(const float *x, size_t n, size_t top) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += exp((double)x[i] - (double)x[top]);
    return (double)x[top] + log(sum);
}

double sw_log_probability(const float *row, size_t vocab, int32_t id) {
    return (double)row[id] - log_sum_exp(row, vocab, argmax(row, vocab));
}

typedef struct job {
    const float *logits, *reference;
    const int32_t *ids;
    uint32_t first;
    size_t vocab;
    sw_score *rows; /* one a scored row */
} job;

/* A row and what its softmax needs. */
typedef struct row_view {
    const float *logits;
    size_t top;
    double log_sum;
} row_view;

static row_view view_row(const float *logits, size_t vocab) {
    size_t top = argmax(logits, vocab);
    return (row_view){logits, top, log_sum_exp(logits, vocab, top)};
}

static void compare_rows(const row_view *a, const row_view *b, size_t vocab, sw_score *s) {
    s->compared = 1, s->same_top = a->top == b->top;
    for (size_t i = 0; i < vocab; i++) {
        double x = (double)a->logits[i], y = (double)b->logits[i], difference = x - y;
        s->kl += exp(x - a->log_sum) * (difference - (a->log_sum - b->log_sum));
        s->signal += x * x, s->noise += difference * difference;
    }
}

void sw_score_compare(const float *reference, const float *row, size_t vocab, size_t *reference_top,
                      size_t *top, sw_score *out) {
    row_view a = view_row(reference, vocab), b = view_row(row, vocab);
    *out = (sw_score){0};
    compare_rows(&a, &b, vocab, out);
    *reference_top = a.top, *top = b.top;
}

static void score_row(const job *j, uint32_t t, sw_score *s) {
    row_view b = view_row(j->logits + t * j->vocab, j->vocab);
    *s = (sw_score){.positions = 1, .nll = b.log_sum - (double)b.logits[j->ids[t + 1]]};
    s->nll_squares = s->nll * s->nll;
    if (j->reference == NULL) return;
    row_view a = view_row(j->reference + t * j->vocab, j->vocab);
    compare_rows(&a, &b, j->vocab, s);
}

static void score_rows(void *context, size_t begin, size_t end) {
    job *j = context;
    for (size_t i = begin; i < end; i++) score_row(j, j->first + (uint32_t)i, &j->rows[i]);
}

void sw_score_add(sw_score *sum, const sw_score *more) {
    sum->positions += more->positions;
    sum->nll += more->nll, sum->nll_squares += more->nll_squares;
    sum->compared += more->compared, sum->same_top += more->same_top;
    sum->kl += more->kl;
    sum->signal += more->signal, sum->noise += more->noise;
}

sw_code sw_score_window(const float *logits, const float *reference, const int32_t *ids, uint32_t n,
                        uint32_t first, size_t vocab, sw_pool *pool, sw_score *out, sw_error *err) {
    *out = (sw_score){0};
    if (first + 1 >= n) return SW_OK;
    uint32_t n_rows = n - 1 - first;
    job j = {logits, reference, ids, first, vocab, calloc(n_rows, sizeof *j.rows)};
    if (j.rows == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory for the scores of %u rows", n_rows);
    sw_pool_for(pool, n_rows, 1, score_rows, &j);
    for (uint32_t i = 0; i < n_rows; i++) sw_score_add(out, &j.rows[i]);
    free(j.rows);
    return SW_OK;
}

double sw_score_perplexity(const sw_score *s) {
    return s->positions > 0 ? exp(s->nll / s->positions) : NAN;
}

double sw_score_perplexity_error(const sw_score *s) {
    if (s->positions < 2) return NAN;
    double mean = s->nll / s->positions, variance = s->nll_squares / s->positions - mean * mean;
    return variance > 0 ? exp(mean) * sqrt(variance / (s->positions - 1)) : 0;
}

double sw_decibels(double signal, double noise) {
    return noise > 0 ? 10 * log10(signal / noise) : 999;
}
