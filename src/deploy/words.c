/* words.c: quoting by single quotes, inside which a POSIX shell takes every byte as it is but the quote
 * itself. */
#include "deploy/words.h"

#include <stdbool.h>
#include <string.h>

static bool is_plain(const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+-%@";
    return text[0] != '\0' && text[strspn(text, plain)] == '\0';
}

char *sw_shell_word(sw_arena *arena, const char *text) {
    static const char quote[] = "'\\''"; /* end, a quote, begin again */
    if (is_plain(text)) return sw_arena_strdup(arena, text);
    size_t quotes = 0, size = strlen(text);
    for (const char *c = text; *c != '\0'; c++) quotes += *c == '\'';
    char *out = sw_arena_alloc(arena, size + quotes * (sizeof quote - 2) + 3), *to = out;
    if (out == NULL) return NULL;
    *to++ = '\'';
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\'') {
            memcpy(to, quote, sizeof quote - 1);
            to += sizeof quote - 1;
        } else {
            *to++ = *c;
        }
    }
    *to++ = '\'';
    *to = '\0';
    return out;
}
