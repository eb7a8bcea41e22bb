/* stream.h: text as it is generated. Bytes of tokens go in, whole characters come out: the output is always
 * valid UTF-8. Stop strings are looked for in the text, however tokens cut them. */
#ifndef SW_TEXT_STREAM_H
#define SW_TEXT_STREAM_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/bytes.h"

typedef struct sw_stream {
    const sw_span *stops; /* borrowed */
    size_t n_stops;
    char *held, *shown; /* owned: bytes that wait, and the text given out last */
    size_t held_size, held_capacity, shown_size, shown_capacity;
    bool stopped;
} sw_stream;

/* stops are borrowed as long as the stream lives. SW_INVALID_ARGUMENT: an empty stop string. */
sw_code sw_stream_init(sw_stream *s, const sw_span *stops, size_t n_stops, sw_error *err) SW_MUST_CHECK;
void sw_stream_deinit(sw_stream *s);

/* Takes a token's bytes; *out is the text that is complete now, maybe empty, valid until the next call. Held
 * back are a character's first bytes and what may become a stop string. The stop string that ends first wins;
 * it and all behind it is not given out, and s->stopped is true from then on. Bytes that aren't UTF-8 come
 * out as U+FFFD, one for each maximal part of a character. */
sw_code sw_stream_feed(sw_stream *s, sw_span bytes, sw_span *out, sw_error *err) SW_MUST_CHECK;

/* The end: gives out what was held back; a cut character becomes U+FFFD. */
sw_code sw_stream_finish(sw_stream *s, sw_span *out, sw_error *err) SW_MUST_CHECK;

#endif
