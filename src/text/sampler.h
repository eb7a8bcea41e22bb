/* sampler.h: the next token from logits. The same logits, parameters and seed give the same token on every
 * machine: the random numbers and the exponential are our own, and all sums run in one order. */
#ifndef SW_TEXT_SAMPLER_H
#define SW_TEXT_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "spillway/error.h"

typedef struct sw_sampler_params {
    float temperature; /* 0: the largest logit, lowest id on a tie; else finite and > 0 */
    int64_t top_k;     /* only the k largest; 0: all */
    float top_p;       /* only the largest that together reach this probability, in (0, 1]; 1: all */
    uint64_t seed;
} sw_sampler_params;

typedef struct sw_sampler {
    sw_sampler_params params;
    uint64_t state;  /* of the random numbers */
    void *scratch;   /* owned */
    size_t capacity; /* of scratch, candidates */
} sw_sampler;

/* Allocates nothing; deinit frees what sampling took. SW_INVALID_ARGUMENT with the parameter, its value and
 * the legal range. */
sw_code sw_sampler_init(sw_sampler *s, const sw_sampler_params *params, sw_error *err) SW_MUST_CHECK;
void sw_sampler_deinit(sw_sampler *s);

/* Chooses one of count candidates. ids NULL: candidate i is token i; else token ids[i] (a graph that hands
 * out its best N). step is for messages: which token of the text this is. -inf forbids a token. Order:
 * temperature, then top-k, then top-p. At temperature 0 no random number is used, else one. Errors:
 * SW_INVALID_ARGUMENT (count 0), SW_BAD_DATA (a logit is NaN or +inf, or all are -inf; names the step and the
 * token), SW_NO_MEMORY. */
sw_code sw_sampler_next(sw_sampler *s, const float *logits, const int32_t *ids, size_t count, uint64_t step,
                        int32_t *out_id, sw_error *err) SW_MUST_CHECK;

#endif
