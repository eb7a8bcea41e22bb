/* error.c: sentences for sw_error. */
#include "spillway/error.h"

#include <stdarg.h>
#include <stdio.h>
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
    size_t size = strnlen(text, c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2);
    if (!sw_utf8_valid(text, size, NULL)) return 0;
    return c == 0xc2 && (unsigned char)text[1] < 0xa0 ? 0 : size;
}

/* Copies text into out, what may not be shown as \xNN; always terminates, never inside a character. */
static void copy_visible(char *out, size_t capacity, const char *text) {
    size_t n = 0;
    while (*text != '\0') {
        size_t size = visible_bytes(text), need = size > 0 ? size : 4;
        if (n + need >= capacity) break;
        if (size > 0)
            memcpy(out + n, text, size);
        else
            snprintf(out + n, 5, "\\x%02x", (unsigned)(unsigned char)*text);
        n += need;
        text += size > 0 ? size : 1;
    }
    out[n] = '\0';
}

sw_code sw_fail(sw_error *err, sw_code code, const char *format, ...) {
    if (err == NULL) return code;
    char text[SW_ERROR_MESSAGE_BYTES] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    err->code = code;
    copy_visible(err->message, sizeof err->message, text);
    return code;
}

sw_code sw_error_prefix(sw_error *err, const char *format, ...) {
    if (err == NULL) return SW_INTERNAL;
    enum { MAX_PREFIX = SW_ERROR_MESSAGE_BYTES / 2 };
    char text[MAX_PREFIX + 2 + SW_ERROR_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, MAX_PREFIX, format, args);
    va_end(args);
    if (n < 0) return err->code;
    size_t at = n < MAX_PREFIX ? (size_t)n : MAX_PREFIX - 1;
    snprintf(text + at, sizeof text - at, ": %s", err->message);
    copy_visible(err->message, sizeof err->message, text);
    return err->code;
}
