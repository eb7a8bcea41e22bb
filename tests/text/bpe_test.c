/* bpe_test.c: the heap against the definition done slowly: look at all pairs, join the best, again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/bpe.h"

enum { LETTERS = 3, MAX_TOKENS = 40, MAX_TEXT = 64, MAX_WORD = 60 };

/* A random vocabulary: letters, then joins of tokens that are there, each with its merge. */
typedef struct vocabulary {
    char texts[MAX_TOKENS][MAX_TEXT], merges[MAX_TOKENS][2 * MAX_TEXT];
    int32_t left[MAX_TOKENS], right[MAX_TOKENS], merged[MAX_TOKENS];
    sw_span tokens[MAX_TOKENS], merge_spans[MAX_TOKENS];
    size_t n_tokens, n_merges;
} vocabulary;

static uint64_t random_state = 1;

static size_t random_below(size_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(random_state >> 33) % n;
}

static void fill(vocabulary *v) {
    memset(v, 0, sizeof *v);
    for (; v->n_tokens < LETTERS; v->n_tokens++) v->texts[v->n_tokens][0] = (char)('a' + v->n_tokens);
    while (v->n_tokens < MAX_TOKENS) {
        size_t l = random_below(v->n_tokens), r = random_below(v->n_tokens), at = v->n_tokens, i = 0;
        if (strlen(v->texts[l]) + strlen(v->texts[r]) > 12) continue;
        strcat(strcpy(v->texts[at], v->texts[l]), v->texts[r]);
        while (strcmp(v->texts[i], v->texts[at]) != 0) i++;
        if (i < at) continue; /* is there */
        strcat(strcat(strcpy(v->merges[v->n_merges], v->texts[l]), " "), v->texts[r]);
        v->left[v->n_merges] = (int32_t)l;
        v->right[v->n_merges] = (int32_t)r;
        v->merged[v->n_merges++] = (int32_t)at;
        v->n_tokens++;
    }
    for (size_t i = 0; i < v->n_tokens; i++) v->tokens[i] = (sw_span){v->texts[i], strlen(v->texts[i])};
    for (size_t i = 0; i < v->n_merges; i++)
        v->merge_spans[i] = (sw_span){v->merges[i], strlen(v->merges[i])};
}

static size_t encode_slowly(const vocabulary *v, const char *word, size_t size, int32_t *ids) {
    for (size_t i = 0; i < size; i++) ids[i] = word[i] - 'a';
    for (;;) {
        size_t best = v->n_merges, at = 0;
        for (size_t i = 0; i + 1 < size; i++)
            for (size_t m = 0; m < best; m++)
                if (ids[i] == v->left[m] && ids[i + 1] == v->right[m]) best = m, at = i;
        if (best == v->n_merges) return size;
        ids[at] = v->merged[best];
        memmove(ids + at + 1, ids + at + 2, (size - at - 2) * sizeof *ids);
        size--;
    }
}

static void agrees_with_the_definition(void **state) {
    (void)state;
    sw_error err;
    sw_bpe_scratch scratch = {0};
    sw_ids ids = {0};
    for (int round = 0; round < 50; round++) {
        static vocabulary v;
        sw_arena arena = SW_ARENA_EMPTY;
        sw_token_map map;
        sw_bpe bpe;
        fill(&v);
        assert_int_equal(sw_token_map_init(&map, v.tokens, v.n_tokens, &arena, &err), SW_OK);
        if (sw_bpe_init(&bpe, &map, v.merge_spans, v.n_merges, &arena, &err) != SW_OK)
            fail_msg("%s", err.message);
        for (int i = 0; i < 200; i++) {
            char word[MAX_WORD];
            int32_t wanted[MAX_WORD];
            size_t size = 1 + random_below(MAX_WORD);
            uint64_t dropped = 0;
            for (size_t k = 0; k < size; k++) word[k] = (char)('a' + random_below(LETTERS));
            size_t n = encode_slowly(&v, word, size, wanted);
            ids.count = 0;
            assert_int_equal(sw_bpe_encode(&bpe, (sw_span){word, size}, &scratch, &ids, &dropped, &err),
                             SW_OK);
            assert_int_equal(ids.count, n);
            assert_memory_equal(ids.data, wanted, n * sizeof *wanted);
            assert_int_equal(dropped, 0);
        }
        sw_arena_free(&arena);
    }
    sw_bpe_scratch_free(&scratch);
    sw_ids_free(&ids);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_the_definition)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
