/* byte_alphabet.c: bytes to visible characters and back. */
#include "text/byte_alphabet.h"

enum { FIRST_MOVED = 0x100, MOVED_COUNT = 68 };

static bool is_moved(unsigned byte) {
    return byte <= 0x20 || (byte >= 0x7f && byte <= 0xa0) || byte == 0xad;
}

/* The i-th moved byte: 33 of 0x00-0x20, 34 of 0x7F-0xA0, then 0xAD. */
static unsigned moved_byte(unsigned i) {
    return i <= 0x20 ? i : i < MOVED_COUNT - 1 ? 0x7f + (i - 0x21) : 0xad;
}

static unsigned moved_index(unsigned byte) {
    return byte <= 0x20 ? byte : byte <= 0xa0 ? byte - 0x7f + 0x21 : MOVED_COUNT - 1;
}

size_t sw_byte_to_char(uint8_t byte, char out[SW_BYTE_CHAR_MAX]) {
    unsigned c = is_moved(byte) ? FIRST_MOVED + moved_index(byte) : byte;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3f));
    return 2;
}

bool sw_chars_to_bytes(sw_span text, char *out, size_t *out_size) {
    size_t n = 0;
    for (size_t i = 0; i < text.size; i++) {
        unsigned c = (unsigned char)text.data[i];
        if (c >= 0x80) {
            if (c < 0xc2 || c > 0xdf || i + 1 == text.size) return false;
            unsigned low = (unsigned char)text.data[++i];
            if ((low & 0xc0) != 0x80) return false;
            c = (c & 0x1f) << 6 | (low & 0x3f);
        }
        if (c >= FIRST_MOVED + MOVED_COUNT) return false;
        if (c < FIRST_MOVED && is_moved(c)) return false;
        out[n++] = (char)(c < FIRST_MOVED ? c : moved_byte(c - FIRST_MOVED));
    }
    *out_size = n;
    return true;
}
