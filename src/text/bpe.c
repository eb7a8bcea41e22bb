/* bpe.c: the word is a linked list of symbols; a binary heap holds the pairs that can merge, ordered by
 * (rank, place). Pairs that changed since they were put there are recognized when taken out, by their rank.
 * Source of the method: Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword
 * Units", 2016; ids and order as the GPT-2 family's tokenizers. */
#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "text/byte_alphabet.h"

#define NO_RANK   UINT32_MAX
#define NO_SYMBOL UINT32_MAX

typedef struct symbol {
    int32_t id;
    uint32_t rank; /* of the merge with the next symbol; NO_RANK: none, or this symbol is gone */
    uint32_t prev, next;
} symbol;

static sw_merge_slot *find_slot(const sw_bpe *bpe, uint64_t pair) {
    uint64_t h = pair * 0x9e3779b97f4a7c15u; /* Fibonacci hashing, Knuth vol. 3, 6.4 */
    for (size_t i = (size_t)(h ^ h >> 32) & bpe->mask;; i = (i + 1) & bpe->mask)
        if (bpe->slots[i].merged < 0 || bpe->slots[i].pair == pair) return &bpe->slots[i];
}

static uint64_t pair_of(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* Reads "left right" into three ids. buffer has room for the merge's text. */
static sw_code read_merge(const sw_token_map *map, sw_span merge, char *buffer, int32_t ids[3],
                          sw_error *err) {
    const char *space = memchr(merge.data, ' ', merge.size);
    size_t left = space != NULL ? (size_t)(space - merge.data) : 0;
    size_t right = space != NULL ? merge.size - left - 1 : 0;
    if (left == 0 || right == 0 || memchr(space + 1, ' ', right) != NULL)
        return SW_FAIL(err, SW_BAD_DATA, "is not two tokens with one space between");
    memcpy(buffer, merge.data, left);
    memcpy(buffer + left, space + 1, right);
    const sw_span parts[3] = {{buffer, left}, {buffer + left, right}, {buffer, left + right}};
    for (int i = 0; i < 3; i++) {
        ids[i] = sw_token_map_find(map, parts[i]);
        if (ids[i] < 0)
            return SW_FAIL(err, SW_BAD_DATA, "\"%.*s\" is not a token",
                           (int)(parts[i].size < 60 ? parts[i].size : 60), parts[i].data);
    }
    return SW_OK;
}

static sw_code fill_merges(sw_bpe *bpe, const sw_token_map *map, const sw_span *merges, size_t n_merges,
                           char *buffer, sw_error *err) {
    for (size_t i = 0; i < n_merges; i++) {
        int32_t ids[3];
        if (read_merge(map, merges[i], buffer, ids, err) != SW_OK)
            return sw_error_prefix(err, "merge %zu, \"%.*s\"", i,
                                   (int)(merges[i].size < 60 ? merges[i].size : 60), merges[i].data);
        sw_merge_slot *slot = find_slot(bpe, pair_of(ids[0], ids[1]));
        if (slot->merged < 0) *slot = (sw_merge_slot){pair_of(ids[0], ids[1]), (uint32_t)i, ids[2]};
    }
    return SW_OK;
}

sw_code sw_bpe_init(sw_bpe *bpe, const sw_token_map *map, const sw_span *merges, size_t n_merges,
                    sw_arena *arena, sw_error *err) {
    if (n_merges == 0)
        return SW_FAIL(err, SW_BAD_DATA,
                       "no merges: a BPE tokenizer needs them, or each byte would be a token");
    if (n_merges >= NO_RANK)
        return SW_FAIL(err, SW_BAD_DATA, "%zu merges, the limit is %u", n_merges, NO_RANK - 1);
    size_t n_slots = 2, longest = 0;
    while (n_slots < 2 * n_merges) n_slots *= 2;
    for (size_t i = 0; i < n_merges; i++)
        if (merges[i].size > longest) longest = merges[i].size;

    bpe->mask = n_slots - 1;
    bpe->slots = sw_arena_array(arena, n_slots, sizeof *bpe->slots);
    char *buffer = malloc(longest + 1);
    sw_code code = bpe->slots != NULL && buffer != NULL
                       ? SW_OK
                       : SW_FAIL(err, SW_NO_MEMORY, "no memory for %zu merges", n_merges);
    if (code == SW_OK) {
        for (size_t i = 0; i < n_slots; i++) bpe->slots[i].merged = -1;
        code = fill_merges(bpe, map, merges, n_merges, buffer, err);
    }
    free(buffer);
    for (unsigned b = 0; b < 256; b++) {
        char text[SW_BYTE_CHAR_MAX];
        size_t size = sw_byte_to_char((uint8_t)b, text);
        bpe->byte_ids[b] = sw_token_map_find(map, (sw_span){text, size});
    }
    return code;
}

void sw_bpe_scratch_free(sw_bpe_scratch *s) {
    free(s->symbols);
    free(s->heap);
    *s = (sw_bpe_scratch){0};
}

/* Each symbol enters the heap once at first, and each of at most n - 1 merges puts two pairs there. */
enum { HEAP_PER_BYTE = 3 };

static sw_code reserve(sw_bpe_scratch *s, size_t size, sw_error *err) {
    if (size <= s->capacity) return SW_OK;
    if (size >= NO_SYMBOL)
        return SW_FAIL(err, SW_UNSUPPORTED, "a word of %zu bytes; the limit is %u", size, NO_SYMBOL - 1);
    sw_bpe_scratch_free(s);
    size_t capacity = size < 256 ? 256 : size;
    s->symbols = calloc(capacity, sizeof(symbol));
    s->heap = calloc(capacity, HEAP_PER_BYTE * sizeof *s->heap);
    if (s->symbols == NULL || s->heap == NULL)
        return SW_FAIL(err, SW_NO_MEMORY, "no memory to encode a word of %zu bytes", size);
    s->capacity = capacity;
    return SW_OK;
}

/* A binary heap, least key first: rank << 32 | place. */
static void heap_push(uint64_t *heap, size_t *count, uint64_t key) {
    size_t i = (*count)++;
    for (; i > 0 && heap[(i - 1) / 2] > key; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = key;
}

static uint64_t heap_pop(uint64_t *heap, size_t *count) {
    uint64_t least = heap[0], key = heap[--*count];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < *count) {
        if (child + 1 < *count && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= key) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = key;
    return least;
}

/* Finds the merge of symbol i with its next one, and puts it into the heap. */
static void note_pair(const sw_bpe *bpe, symbol *symbols, uint32_t i, uint64_t *heap, size_t *n_heap) {
    symbols[i].rank = NO_RANK;
    if (symbols[i].next == NO_SYMBOL) return;
    const sw_merge_slot *slot = find_slot(bpe, pair_of(symbols[i].id, symbols[symbols[i].next].id));
    if (slot->merged < 0) return;
    symbols[i].rank = slot->rank;
    heap_push(heap, n_heap, (uint64_t)slot->rank << 32 | i);
}

sw_code sw_bpe_encode(const sw_bpe *bpe, sw_span word, sw_bpe_scratch *s, sw_ids *out, uint64_t *n_dropped,
                      sw_error *err) {
    SW_TRY(reserve(s, word.size, err));
    symbol *symbols = s->symbols;
    uint32_t n = 0;
    for (size_t i = 0; i < word.size; i++) {
        int32_t id = bpe->byte_ids[(unsigned char)word.data[i]];
        if (id < 0)
            ++*n_dropped;
        else {
            symbols[n] = (symbol){id, NO_RANK, n > 0 ? n - 1 : NO_SYMBOL, n + 1};
            n++;
        }
    }
    if (n == 0) return SW_OK;
    symbols[n - 1].next = NO_SYMBOL;

    size_t n_heap = 0;
    for (uint32_t i = 0; i < n; i++) note_pair(bpe, symbols, i, s->heap, &n_heap);
    while (n_heap > 0) {
        uint64_t key = heap_pop(s->heap, &n_heap);
        uint32_t i = (uint32_t)key;
        if (symbols[i].rank != (uint32_t)(key >> 32)) continue; /* changed since */
        symbol *left = &symbols[i], *right = &symbols[left->next];
        left->id = find_slot(bpe, pair_of(left->id, right->id))->merged;
        left->next = right->next;
        right->rank = NO_RANK;
        if (left->next != NO_SYMBOL) symbols[left->next].prev = i;
        note_pair(bpe, symbols, i, s->heap, &n_heap);
        if (left->prev != NO_SYMBOL) note_pair(bpe, symbols, left->prev, s->heap, &n_heap);
    }
    for (uint32_t i = 0; i != NO_SYMBOL; i = symbols[i].next)
        SW_TRY(sw_ids_append(out, &symbols[i].id, 1, err));
    return SW_OK;
}
