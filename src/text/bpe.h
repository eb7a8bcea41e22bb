/* bpe.h: byte pair encoding of one word: bytes become tokens, then the pair of neighbours whose merge stands
 * first in the list is joined (the leftmost of equal ones), until none can be. */
#ifndef SW_TEXT_BPE_H
#define SW_TEXT_BPE_H

#include "text/token_map.h"
#include "text/tokenizer.h"

typedef struct sw_merge_slot {
    uint64_t pair; /* left id << 32 | right id */
    uint32_t rank;
    int32_t merged; /* -1: free */
} sw_merge_slot;

typedef struct sw_bpe {
    int32_t byte_ids[256]; /* -1: no token */
    sw_merge_slot *slots;  /* in the arena */
    size_t mask;
} sw_bpe;

/* Working memory of one encoding; {0} is empty. */
typedef struct sw_bpe_scratch {
    void *symbols;
    uint64_t *heap;
    size_t capacity; /* bytes of a word */
} sw_bpe_scratch;
void sw_bpe_scratch_free(sw_bpe_scratch *s);

/* Errors: SW_BAD_DATA with the merge's number (not "left right", or a part or the whole is no token), and
 * where no merge is there at all: such a model would spell every word in bytes. SW_NO_MEMORY. */
sw_code sw_bpe_init(sw_bpe *bpe, const sw_token_map *map, const sw_span *merges, size_t n_merges,
                    sw_arena *arena, sw_error *err) SW_MUST_CHECK;

/* Appends the word's ids; adds the number of bytes without a token to *n_dropped. Time n log n.
 * Errors: SW_NO_MEMORY, SW_UNSUPPORTED (4 GiB and more). */
sw_code sw_bpe_encode(const sw_bpe *bpe, sw_span word, sw_bpe_scratch *s, sw_ids *out, uint64_t *n_dropped,
                      sw_error *err) SW_MUST_CHECK;

#endif
