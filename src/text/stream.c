/* stream.c: bytes wait in `held` until they can't become a stop string any more and are whole characters.
 *
 * Stops are looked for after each byte, so that the result doesn't depend on how tokens cut the text.
 * U+FFFD stands for maximal parts of ill-formed text, as The Unicode Standard, 3.9, recommends. */
#include "text/stream.h"

#include <stdlib.h>
#include <string.h>

sw_code sw_stream_init(sw_stream *s, const sw_span *stops, size_t n_stops, sw_error *err) {
    *s = (sw_stream){.stops = stops, .n_stops = n_stops};
    for (size_t i = 0; i < n_stops; i++)
        if (stops[i].size == 0)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "stop string %zu is empty, wanted 1 byte or more", i);
    return SW_OK;
}

void sw_stream_deinit(sw_stream *s) {
    free(s->held);
    free(s->shown);
    *s = (sw_stream){0};
}

static sw_code reserve(char **buffer, size_t *capacity, size_t need, sw_error *err) {
    if (need <= *capacity) return SW_OK;
    size_t bigger_capacity = need < 128 ? 128 : need <= SIZE_MAX / 2 ? 2 * need : need;
    char *bigger = realloc(*buffer, bigger_capacity);
    if (bigger == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory for %zu bytes of text", need);
    *buffer = bigger;
    *capacity = bigger_capacity;
    return SW_OK;
}

static bool ends_with(const char *text, size_t size, sw_span end) {
    return size >= end.size && memcmp(text + size - end.size, end.data, end.size) == 0;
}

/* The longest stop that the text ends with, or 0. */
static size_t stop_at_end(const sw_stream *s) {
    size_t longest = 0;
    for (size_t i = 0; i < s->n_stops; i++)
        if (s->stops[i].size > longest && ends_with(s->held, s->held_size, s->stops[i]))
            longest = s->stops[i].size;
    return longest;
}

/* How many bytes at the end may be the start of a stop. */
static size_t partial_stop(const sw_stream *s) {
    size_t longest = 0;
    for (size_t i = 0; i < s->n_stops; i++) {
        size_t n = s->stops[i].size - 1 < s->held_size ? s->stops[i].size - 1 : s->held_size;
        for (; n > longest; n--)
            if (ends_with(s->held, s->held_size, (sw_span){s->stops[i].data, n})) longest = n;
    }
    return longest;
}

/* Looks at the character that text begins with. Returns the bytes of it, or of its well-formed start; *whole
 * tells which. *cut: it is fine so far, but the text ends inside it. */
static size_t read_character(const char *text, size_t size, bool *whole, bool *cut) {
    unsigned char c = (unsigned char)text[0];
    size_t length = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    *whole = *cut = false;
    if (length == 0) return 1;
    /* The second byte's range keeps out overlong forms, surrogates and what lies above U+10FFFF. */
    unsigned low = c == 0xe0   ? 0xa0
                   : c == 0xf0 ? 0x90
                               : 0x80,
             high = c == 0xed   ? 0x9f
                    : c == 0xf4 ? 0x8f
                                : 0xbf;
    for (size_t i = 1; i < length; i++, low = 0x80, high = 0xbf) {
        if (i == size) {
            *cut = true;
            return i;
        }
        unsigned char next = (unsigned char)text[i];
        if (next < low || next > high) return i;
    }
    *whole = true;
    return length;
}

/* Moves the first n held bytes out as characters (*out is empty before); unless at the end of all text, a cut
 * one stays. */
static sw_code show(sw_stream *s, size_t n, bool at_end, sw_span *out, sw_error *err) {
    if (n == 0) return SW_OK;
    static const char replacement[] = {'\xef', '\xbf', '\xbd'};
    if (n > SIZE_MAX / sizeof replacement)
        return SW_FAIL(err, SW_NO_MEMORY, "no memory for %zu bytes of text", n);
    SW_TRY(reserve(&s->shown, &s->shown_capacity, n * sizeof replacement, err));
    s->shown_size = 0;
    size_t at = 0;
    while (at < n) {
        bool whole, cut;
        size_t size = read_character(s->held + at, n - at, &whole, &cut);
        if (cut && !at_end) break;
        memcpy(s->shown + s->shown_size, whole ? s->held + at : replacement,
               whole ? size : sizeof replacement);
        s->shown_size += whole ? size : sizeof replacement;
        at += size;
    }
    s->held_size -= at;
    if (s->held_size > 0) memmove(s->held, s->held + at, s->held_size);
    *out = (sw_span){s->shown, s->shown_size};
    return SW_OK;
}

sw_code sw_stream_feed(sw_stream *s, sw_span bytes, sw_span *out, sw_error *err) {
    *out = (sw_span){"", 0};
    if (s->stopped || bytes.size == 0) return SW_OK;
    size_t need;
    if (__builtin_add_overflow(s->held_size, bytes.size, &need))
        return SW_FAIL(err, SW_NO_MEMORY, "no memory for %zu bytes of text", bytes.size);
    SW_TRY(reserve(&s->held, &s->held_capacity, need, err));
    for (size_t i = 0; i < bytes.size && !s->stopped; i++) {
        s->held[s->held_size++] = bytes.data[i];
        size_t stop = stop_at_end(s);
        s->held_size -= stop;
        s->stopped = stop > 0;
    }
    return show(s, s->held_size - (s->stopped ? 0 : partial_stop(s)), s->stopped, out, err);
}

sw_code sw_stream_finish(sw_stream *s, sw_span *out, sw_error *err) {
    *out = (sw_span){"", 0};
    return s->held_size > 0 ? show(s, s->held_size, true, out, err) : SW_OK;
}
