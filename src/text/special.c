/* special.c: the tokens stand sorted; at a place of the text the range of those that begin with what stands
 * there is narrowed byte by byte. So the cost doesn't grow with their number, and no byte has a meaning of
 * its own, as it would in a regex. */
#include "text/special.h"

#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"

static int compare(const void *a, const void *b) {
    sw_span x = ((const sw_special *)a)->text, y = ((const sw_special *)b)->text;
    int order = memcmp(x.data, y.data, x.size < y.size ? x.size : y.size);
    return order != 0 ? order : (x.size > y.size) - (x.size < y.size);
}

static bool is_special(int32_t type) {
    return type == SW_TOKEN_CONTROL || type == SW_TOKEN_UNKNOWN || type == SW_TOKEN_USER_DEFINED;
}

sw_code sw_specials_init(sw_specials *s, const sw_span *tokens, const int32_t *token_types, size_t n_tokens,
                         sw_arena *arena, sw_error *err) {
    *s = (sw_specials){0};
    if (token_types == NULL) return SW_OK;
    size_t count = 0, n = 0;
    for (size_t i = 0; i < n_tokens; i++) count += is_special(token_types[i]);
    s->list = sw_arena_array(arena, count, sizeof *s->list);
    if (s->list == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory for %zu special tokens", count);
    for (size_t i = 0; i < n_tokens; i++) {
        if (!is_special(token_types[i])) continue;
        bool control = token_types[i] != SW_TOKEN_USER_DEFINED;
        s->list[n++] = (sw_special){tokens[i], (int32_t)i, control};
        s->any_always |= !control;
        s->first[(unsigned char)tokens[i].data[0] + 1]++;
    }
    for (size_t b = 0; b < 256; b++) s->first[b + 1] += s->first[b];
    qsort(s->list, count, sizeof *s->list, compare);
    return SW_OK;
}

/* First of list[low, high) whose byte at depth is >= byte; all are longer than depth. */
static size_t lower_bound(const sw_special *list, size_t low, size_t high, size_t depth, unsigned byte) {
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((unsigned char)list[middle].text.data[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token that text begins with, or NULL. */
static const sw_special *match(const sw_specials *s, const char *text, size_t size, bool parse_control) {
    const sw_special *best = NULL;
    size_t low = s->first[(unsigned char)text[0]], high = s->first[(unsigned char)text[0] + 1];
    for (size_t depth = 1; low < high; depth++) {
        if (s->list[low].text.size == depth) { /* the shortest of a range stands first */
            if (parse_control || !s->list[low].control) best = &s->list[low];
            low++;
        }
        if (depth == size) break;
        unsigned byte = (unsigned char)text[depth];
        low = lower_bound(s->list, low, high, depth, byte);
        high = lower_bound(s->list, low, high, depth, byte + 1);
    }
    return best;
}

int32_t sw_specials_next(const sw_specials *s, sw_span text, bool parse_control, size_t *at, size_t *size) {
    if (!parse_control && !s->any_always) return -1;
    for (size_t i = *at; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (s->first[byte] == s->first[byte + 1]) continue;
        const sw_special *found = match(s, text.data + i, text.size - i, parse_control);
        if (found == NULL) continue;
        *at = i;
        *size = found->text.size;
        return found->id;
    }
    return -1;
}
