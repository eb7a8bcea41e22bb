/* text_file.c: text files as people's editors leave them, brought to one form: UTF-8, no byte-order mark,
 * lines that end in LF. Byte-order marks: The Unicode Standard, section 23.8. */
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"

static bool starts_with(const char *text, size_t size, const char *mark, size_t mark_size) {
    return size >= mark_size && memcmp(text, mark, mark_size) == 0;
}

/* In place; the zero byte behind the text moves with it. Returns the new size. */
static size_t join_line_ends(char *text, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++)
        if (text[i] != '\r' || i + 1 == size || text[i + 1] != '\n') text[n++] = text[i];
    text[n] = '\0';
    return n;
}

sw_code sw_file_read_text(const char *path, uint64_t limit, sw_arena *arena, char **out, size_t *size,
                          sw_error *err) {
    char *text;
    size_t n, bad;
    SW_TRY(sw_file_read(path, limit, arena, &text, &n, err));
    if (starts_with(text, n, "\xff\xfe", 2) || starts_with(text, n, "\xfe\xff", 2))
        return SW_FAIL(err, SW_BAD_DATA, "%s: is UTF-16, by its byte-order mark: wanted text in UTF-8", path);
    if (!sw_utf8_valid(text, n, &bad))
        return SW_FAIL(err, SW_BAD_DATA, "%s: byte %zu (0x%02x) is not UTF-8: wanted text in UTF-8", path,
                       bad, (unsigned)(uint8_t)text[bad]);
    size_t mark = starts_with(text, n, "\xef\xbb\xbf", 3) ? 3 : 0;
    *size = join_line_ends(text + mark, n - mark);
    *out = text + mark;
    return SW_OK;
}
