/* error.c: sentences for sw_error. */
#include "spillway/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

const char *sw_code_text(sw_code code) {
    static const char *const texts[] = {
#define SW_CODE_TEXT(name, text) text,
        SW_CODES(SW_CODE_TEXT)
#undef SW_CODE_TEXT
    };
    return (unsigned)code < SW_CODE_COUNT ? texts[code] : "unknown code";
}

/* Bytes of the character at text that may be shown as it is; 0 where the first byte must be escaped: control
 * characters of ASCII and of Latin-1 (U+0080 to U+009F, some terminals obey these), and what is no UTF-8. */
static size_t visible_bytes(const char *text) {
    unsigned char c = (unsigned char)text[0];
    if (c < 0x80) return c >= 0x20 && c != 0x7f;
    return c == 0xc2 && (unsigned char)text[1] < 0xa0 ? 0 : sw_utf8_size(text);
}

static bool inside_character(char c) {
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Puts "..." in the place of the middle of text[begin, begin + size), so that at most `keep` bytes of it are
 * left, and no part of a character. Returns the new length of text. */
static size_t cut_middle(char *text, size_t length, size_t begin, size_t size, size_t keep) {
    size_t from = begin + (keep - 3) / 2, to = begin + size - (keep - 3) / 2;
    while (from > begin && inside_character(text[from])) from--;
    while (to < length && inside_character(text[to])) to++;
    memcpy(text + from, "...", 3);
    memmove(text + from + 3, text + to, length - to + 1);
    return length - (to - from) + 3;
}

/* A sentence that is too long loses the middles of its longest words, which are paths and values of options:
 * what was wrong with them stands behind. Where no word is long, it loses its own middle. */
static void shorten(char *text) {
    enum { MOST = SW_ERROR_MESSAGE_BYTES - 1, LEAST_WORD = 200 };
    size_t length = strlen(text);
    while (length > MOST) {
        size_t begin = 0, size = 0;
        for (size_t at = 0, n; at < length; at += n + 1)
            if ((n = strcspn(text + at, " ")) > size) begin = at, size = n;
        const size_t over = length - MOST;
        if (size <= LEAST_WORD)
            length = cut_middle(text, length, 0, length, MOST);
        else
            length =
                cut_middle(text, length, begin, size, size > over + LEAST_WORD ? size - over : LEAST_WORD);
    }
}

/* Sets the message to text, which is shortened for it; what may not be shown as \xNN. */
static void set_message(sw_error *err, char *text) {
    char visible[4 * SW_ERROR_MESSAGE_BYTES];
    size_t n = 0;
    shorten(text);
    while (*text != '\0') {
        size_t size = visible_bytes(text);
        if (size > 0)
            memcpy(visible + n, text, size);
        else
            snprintf(visible + n, 5, "\\x%02x", (unsigned)(unsigned char)*text);
        n += size > 0 ? size : 4;
        text += size > 0 ? size : 1;
    }
    visible[n] = '\0';
    shorten(visible);
    memcpy(err->message, visible, strlen(visible) + 1);
}

/* The text in `small`, or in memory for free() where that is too short and there is memory. */
static char *print(char small[SW_ERROR_MESSAGE_BYTES], const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(small, SW_ERROR_MESSAGE_BYTES, format, args);
    if (n < 0) small[0] = '\0';
    char *large = n >= SW_ERROR_MESSAGE_BYTES ? malloc((size_t)n + 1) : NULL;
    if (large != NULL) vsnprintf(large, (size_t)n + 1, format, again);
    va_end(again);
    return large != NULL ? large : small;
}

sw_code sw_vfail(sw_error *err, sw_code code, const char *format, va_list args) {
    if (err == NULL) return code;
    char small[SW_ERROR_MESSAGE_BYTES], *text = print(small, format, args);
    err->code = code;
    set_message(err, text);
    if (text != small) free(text);
    return code;
}

sw_code sw_fail(sw_error *err, sw_code code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    sw_vfail(err, code, format, args);
    va_end(args);
    return code;
}

sw_code sw_error_prefix(sw_error *err, const char *format, ...) {
    if (err == NULL) return SW_INTERNAL;
    char small[SW_ERROR_MESSAGE_BYTES], whole[2 * SW_ERROR_MESSAGE_BYTES + 2];
    va_list args;
    va_start(args, format);
    char *text = print(small, format, args);
    va_end(args);
    shorten(text);
    snprintf(whole, sizeof whole, "%s: %s", text, err->message);
    set_message(err, whole);
    if (text != small) free(text);
    return err->code;
}
