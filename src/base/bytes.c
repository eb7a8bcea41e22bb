/* bytes.c: the cursor, and UTF-8's table of well-formed sequences (Unicode 15, table 3-7). */
#include "base/bytes.h"

#include <string.h>

const uint8_t *sw_cursor_take(sw_cursor *c, uint64_t n) {
    if (c->data == NULL || n > sw_cursor_left(c)) return NULL;
    const uint8_t *at = c->data + c->pos;
    c->pos += n;
    return at;
}

static bool take_le(sw_cursor *c, unsigned bytes, uint64_t *out) {
    const uint8_t *at = sw_cursor_take(c, bytes);
    if (at == NULL) return false;
    *out = 0;
    for (unsigned i = 0; i < bytes; i++) *out |= (uint64_t)at[i] << (8 * i);
    return true;
}

bool sw_cursor_u64(sw_cursor *c, uint64_t *out) {
    return take_le(c, 8, out);
}

bool sw_cursor_u32(sw_cursor *c, uint32_t *out) {
    uint64_t v;
    if (!take_le(c, 4, &v)) return false;
    *out = (uint32_t)v;
    return true;
}

bool sw_cursor_u16(sw_cursor *c, uint16_t *out) {
    uint64_t v;
    if (!take_le(c, 2, &v)) return false;
    *out = (uint16_t)v;
    return true;
}

bool sw_cursor_u8(sw_cursor *c, uint8_t *out) {
    uint64_t v;
    if (!take_le(c, 1, &v)) return false;
    *out = (uint8_t)v;
    return true;
}

bool sw_utf8_valid(const char *text, size_t size, size_t *bad) {
    const uint8_t *s = (const uint8_t *)text;
    for (size_t i = 0; i < size;) {
        uint8_t c = s[i], low = 0x80, high = 0xbf;
        size_t more;
        if (c < 0x80)
            more = 0;
        else if (c >= 0xc2 && c <= 0xdf)
            more = 1;
        else if (c >= 0xe0 && c <= 0xef)
            more = 2, low = c == 0xe0 ? 0xa0 : 0x80, high = c == 0xed ? 0x9f : 0xbf;
        else if (c >= 0xf0 && c <= 0xf4)
            more = 3, low = c == 0xf0 ? 0x90 : 0x80, high = c == 0xf4 ? 0x8f : 0xbf;
        else
            more = SIZE_MAX;
        bool ok = more <= size - i - 1;
        for (size_t k = 1; ok && k <= more; k++) {
            ok = s[i + k] >= low && s[i + k] <= high;
            low = 0x80, high = 0xbf;
        }
        if (!ok) {
            if (bad != NULL) *bad = i;
            return false;
        }
        i += more + 1;
    }
    return true;
}

size_t sw_utf8_size(const char *text) {
    unsigned char c = (unsigned char)*text;
    size_t size = strnlen(text, c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0x80 ? 2 : 1);
    return size > 0 && sw_utf8_valid(text, size, NULL) ? size : 0;
}
