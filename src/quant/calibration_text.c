/* calibration_text.c: the default text, data/calibration.txt, which cmake/embed.cmake puts into the library;
 * and how such a text is cut into documents. */
#include <string.h>

#include "quant/quant.h"

extern const unsigned char sw_calibration_text[];
extern const size_t sw_calibration_text_size;

const char *sw_calibration_default_text(size_t *size) {
    *size = sw_calibration_text_size;
    return (const char *)sw_calibration_text;
}

/* The first line that is a form feed alone, from the text's start: where it begins, and where the next line
 * does. Without one, both are the text's end. */
static void find_separator(sw_span text, size_t *begin, size_t *end) {
    for (size_t line = 0; line < text.size;) {
        const char *newline = memchr(text.data + line, '\n', text.size - line);
        size_t next = newline ? (size_t)(newline - text.data) + 1 : text.size;
        size_t length = next - line;
        while (length > 1 && (text.data[line + length - 1] == '\n' || text.data[line + length - 1] == '\r'))
            length--;
        if (length == 1 && text.data[line] == '\f') {
            *begin = line;
            *end = next;
            return;
        }
        line = next;
    }
    *begin = *end = text.size;
}

static bool is_blank(sw_span text) {
    for (size_t i = 0; i < text.size; i++)
        if (!strchr(" \t\r\n\f", text.data[i]) || text.data[i] == '\0') return false;
    return true;
}

bool sw_calibration_next_document(sw_span *rest, sw_span *document) {
    while (rest->size > 0) {
        size_t begin, end;
        find_separator(*rest, &begin, &end);
        *document = (sw_span){rest->data, begin};
        rest->data += end;
        rest->size -= end;
        if (!is_blank(*document)) return true;
    }
    return false;
}
