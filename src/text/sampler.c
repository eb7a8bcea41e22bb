/* sampler.c: greedy, temperature, top-k and top-p (nucleus) sampling.
 *
 * A candidate's weight is exp((logit - largest) / temperature), in double: no difference overflows it, so a
 * tiny temperature ends as greedy. The largest are taken off a heap only as far as top-k and top-p ask.
 * Random numbers: SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
 * Nucleus: Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020. */
#include "text/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

typedef struct candidate {
    double weight;
    float logit;
    int32_t id;
} candidate;

static sw_code check(const sw_sampler_params *p, sw_error *err) {
    if (!isfinite(p->temperature) || p->temperature < 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "temperature is %g, wanted a finite number >= 0 (0: greedy)",
                       (double)p->temperature);
    if (p->top_k < 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "top_k is %lld, wanted >= 0 (0: all tokens)",
                       (long long)p->top_k);
    if (!(p->top_p > 0 && p->top_p <= 1))
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "top_p is %g, wanted > 0 and <= 1 (1: all tokens)",
                       (double)p->top_p);
    return SW_OK;
}

sw_code sw_sampler_init(sw_sampler *s, const sw_sampler_params *params, sw_error *err) {
    SW_TRY(check(params, err));
    *s = (sw_sampler){.params = *params, .state = params->seed};
    return SW_OK;
}

void sw_sampler_deinit(sw_sampler *s) {
    free(s->scratch);
    *s = (sw_sampler){0};
}

/* Uniform in [0, 1), 53 bits. */
static double next_uniform(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

/* exp(x) for x <= 0, the same bits everywhere, which libm doesn't promise: x = k ln 2 + r with |r| <= ln 2 /
 * 2, and Taylor's series to r^13 / 13!, whose rest is below 2^-53. */
static double exp_of_negative(double x) {
    if (!(x > -700)) return 0; /* below any weight that could be drawn */
    double k = floor(x * 1.4426950408889634 + 0.5);
    double r = (x - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33; /* ln 2, high and low part */
    static const double inverse[] = {0,      1,      1. / 2, 1. / 3,  1. / 4,  1. / 5,  1. / 6,
                                     1. / 7, 1. / 8, 1. / 9, 1. / 10, 1. / 11, 1. / 12, 1. / 13};
    double sum = 1;
    for (int n = 13; n > 0; n--) sum = 1 + r * inverse[n] * sum;
    return ldexp(sum, (int)k);
}

/* True where a stands before b: larger logit, then lower id. */
static bool is_before(const candidate *a, const candidate *b) {
    return a->logit != b->logit ? a->logit > b->logit : a->id < b->id;
}

/* A binary heap in list[0, count), the first candidate at its root. */
static void sift_down(candidate *list, size_t count, size_t i) {
    if (count == 0) return;
    candidate moved = list[i];
    for (size_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && is_before(&list[child + 1], &list[child])) child++;
        if (!is_before(&list[child], &moved)) break;
        list[i] = list[child];
    }
    list[i] = moved;
}

static double sum_of_weights(const candidate *list, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += list[i].weight;
    return sum;
}

/* Takes the first candidates off list[0, *count), at least one, until there are most of them or they weigh
 * enough. They end up at the list's end, the first one last; returns where, and *count becomes their number.
 */
static candidate *take_first(candidate *list, size_t *count, size_t most, double enough) {
    size_t left = *count, taken = 0;
    double weight = 0;
    for (size_t i = left / 2; i-- > 0;) sift_down(list, left, i);
    do {
        candidate first = list[0];
        list[0] = list[--left];
        list[left] = first;
        sift_down(list, left, 0);
        weight += first.weight;
    } while (++taken < most && weight < enough);
    *count = taken;
    return list + left;
}

static sw_code check_logits(const float *logits, const int32_t *ids, size_t count, uint64_t step,
                            size_t *best, sw_error *err) {
    if (count == 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "step %llu: no candidates", (unsigned long long)step);
    for (size_t i = 0; i < count; i++) {
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return SW_FAIL(err, SW_BAD_DATA, "step %llu: the logit of token %lld is %s",
                           (unsigned long long)step, ids != NULL ? (long long)ids[i] : (long long)i,
                           isnan(logits[i]) ? "NaN" : "+inf");
        bool lower_id = ids != NULL && ids[i] < ids[*best];
        if (logits[i] > logits[*best] || (logits[i] == logits[*best] && lower_id)) *best = i;
    }
    if (logits[*best] == -INFINITY)
        return SW_FAIL(err, SW_BAD_DATA, "step %llu: all %zu logits are -inf", (unsigned long long)step,
                       count);
    return SW_OK;
}

sw_code sw_sampler_next(sw_sampler *s, const float *logits, const int32_t *ids, size_t count, uint64_t step,
                        int32_t *out_id, sw_error *err) {
    size_t best = 0;
    SW_TRY(check_logits(logits, ids, count, step, &best, err));
    if (s->params.temperature == 0) {
        *out_id = ids != NULL ? ids[best] : (int32_t)best;
        return SW_OK;
    }
    if (count > s->capacity) {
        candidate *bigger = count <= SIZE_MAX / sizeof *bigger ? malloc(count * sizeof *bigger) : NULL;
        if (bigger == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory for %zu candidates", count);
        free(s->scratch);
        s->scratch = bigger;
        s->capacity = count;
    }
    candidate *list = s->scratch;
    for (size_t i = 0; i < count; i++)
        list[i] = (candidate){.logit = logits[i], .id = ids != NULL ? ids[i] : (int32_t)i};

    const sw_sampler_params *p = &s->params;
    double largest = (double)logits[best], temperature = (double)p->temperature;
    if (p->top_k > 0 && (uint64_t)p->top_k < count)
        list = take_first(list, &count, (size_t)p->top_k, INFINITY);
    for (size_t i = 0; i < count; i++)
        list[i].weight = exp_of_negative(((double)list[i].logit - largest) / temperature);
    if (p->top_p < 1) list = take_first(list, &count, count, (double)p->top_p * sum_of_weights(list, count));

    double drawn = next_uniform(&s->state) * sum_of_weights(list, count);
    size_t chosen = 0;
    for (size_t i = 0; i < count; i++) { /* weight 0 is never chosen, not even by rounding at the end */
        if (list[i].weight == 0) continue;
        chosen = i;
        drawn -= list[i].weight;
        if (drawn < 0) break;
    }
    *out_id = list[chosen].id;
    return SW_OK;
}
