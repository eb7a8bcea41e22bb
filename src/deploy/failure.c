/* failure.c: looks up a failure by what was said. */
#include "deploy/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const sw_adb_failure sw_adb_failures[] = {
#define SW_ADB_FAILURE(name, says, means, next) {name, says, means, next},
#include "deploy/failures.inc"
#undef SW_ADB_FAILURE
};
const size_t sw_n_adb_failures = sizeof sw_adb_failures / sizeof *sw_adb_failures;

/* Qualcomm's FastRPC library looks for its files in every folder it knows and logs each miss as an error
 * (pytorch/executorch issues 7614 and 15387 show it in runs that went well). */
static const char *const harmless[] = {
    "open_shell failed",
    "Unable to add watcher for folder",
    "Non-domain usage of FastRPC will be deprecated",
    "apps_std_fopen_with_env failed",
    "fastrpc_apps_user_init done",
};

/* Where a part of a pattern ends in a line that ends at `end`; NULL: it isn't there. */
static const char *find_part(const char *line, const char *end, const char *part, size_t size) {
    for (; (size_t)(end - line) >= size; line++)
        if (strncasecmp(line, part, size) == 0) return line + size;
    return NULL;
}

static bool is_harmless(const char *line, const char *end) {
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (find_part(line, end, harmless[i], strlen(harmless[i])) != NULL) return true;
    return false;
}

bool sw_adb_line_is_harmless(const char *line) {
    return is_harmless(line, line + strlen(line));
}

/* Do the parts of a pattern, divided by '*', occur in the line in this order? */
static bool pattern_fits(const char *pattern, size_t pattern_size, const char *line, const char *end) {
    for (;;) {
        const char *star = memchr(pattern, '*', pattern_size);
        size_t size = star != NULL ? (size_t)(star - pattern) : pattern_size;
        line = find_part(line, end, pattern, size);
        if (line == NULL) return false;
        if (star == NULL) return true;
        pattern += size + 1, pattern_size -= size + 1;
    }
}

static bool row_fits(const sw_adb_failure *row, const char *line, const char *end) {
    for (const char *pattern = row->says;;) {
        size_t size = strcspn(pattern, "|");
        if (pattern_fits(pattern, size, line, end)) return true;
        if (pattern[size] == '\0') return false;
        pattern += size + 1;
    }
}

/* The last line of the text that fits the row or, for row NULL, that isn't empty; harmless ones don't count.
 * Its end is *end; NULL: there is none. */
static const char *find_line(const char *text, const sw_adb_failure *row, const char **end) {
    const char *found = NULL;
    while (*text != '\0') {
        const char *stop = text + strcspn(text, "\r\n");
        bool wanted = row != NULL ? row_fits(row, text, stop) : stop > text;
        if (wanted && !is_harmless(text, stop)) found = text, *end = stop;
        text = *stop == '\0' ? stop : stop + 1;
    }
    return found;
}

const sw_adb_failure *sw_adb_failure_find(const char *text) {
    const char *end;
    for (size_t i = 0; i < sw_n_adb_failures; i++)
        if (find_line(text, &sw_adb_failures[i], &end) != NULL) return &sw_adb_failures[i];
    return NULL;
}

sw_code sw_adb_fail(sw_error *err, const char *text, const char *format, ...) {
    sw_error doing;
    va_list args;
    va_start(args, format);
    sw_vfail(&doing, SW_IO, format, args);
    va_end(args);
    const sw_adb_failure *row = sw_adb_failure_find(text);
    const char *end = NULL, *line = find_line(text, row, &end);
    if (line == NULL)
        return sw_fail(err, SW_IO, "%s: no reason was given; try `adb shell true` by hand", doing.message);
    int size = end - line < 300 ? (int)(end - line) : 300;
    if (row == NULL) return sw_fail(err, SW_IO, "%s: \"%.*s\"", doing.message, size, line);
    return sw_fail(err, SW_IO, "%s: %s; %s (\"%.*s\")", doing.message, row->means, row->next, size, line);
}
