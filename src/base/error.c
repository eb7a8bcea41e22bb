/* error.c: sentences for sw_error. */
#include "spillway/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

const char *sw_code_text(sw_code code) {
    static const char *const texts[] = {
#define SW_CODE_TEXT(name, text) text,
        SW_CODES(SW_CODE_TEXT)
#undef SW_CODE_TEXT
    };
    return (unsigned)code < SW_CODE_COUNT ? texts[code] : "unknown code";
}

/* Copies text into out, control characters as \xNN; always terminates. Bytes from 0x80 on pass: UTF-8. */
static void copy_visible(char *out, size_t capacity, const char *text) {
    size_t n = 0;
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        bool control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
        size_t need = control ? 4 : 1;
        if (n + need >= capacity) break;
        if (control) {
            static const char hex[] = "0123456789abcdef";
            out[n] = '\\', out[n + 1] = 'x', out[n + 2] = hex[c >> 4], out[n + 3] = hex[c & 15];
        } else {
            out[n] = (char)c;
        }
        n += need;
    }
    out[n] = '\0';
}

sw_code sw_fail(sw_error *err, sw_code code, const char *format, ...) {
    if (err == NULL) return code;
    char text[SW_ERROR_MESSAGE_BYTES];
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
    char text[2 * SW_ERROR_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, SW_ERROR_MESSAGE_BYTES / 2, format, args);
    va_end(args);
    if (n < 0 || n >= SW_ERROR_MESSAGE_BYTES / 2) return err->code;
    snprintf(text + n, sizeof text - (size_t)n, ": %s", err->message);
    copy_visible(err->message, sizeof err->message, text);
    return err->code;
}
