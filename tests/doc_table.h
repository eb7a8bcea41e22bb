/* doc_table.h: a table of docs/troubleshooting.md that is made from a list of the source. */
#ifndef TESTS_DOC_TABLE_H
#define TESTS_DOC_TABLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DOC_TABLE_FILE SW_SOURCE_DIR "/docs/troubleshooting.md"

static inline char *doc_table_read(void) {
    FILE *f = fopen(DOC_TABLE_FILE, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    rewind(f);
    char *text = calloc(1, size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, size, f), size);
    fclose(f);
    return text;
}

/* Between the lines "<!-- NAME: begin -->" and "<!-- NAME: end -->" stands what `put` writes. With
 * SW_UPDATE_DOCS=1 in the environment it is written there instead. list: the file it is made from. */
static inline void doc_table_check(const char *name, void (*put)(FILE *f), const char *list) {
    char first[100], last[100], *table = NULL, *document = doc_table_read();
    size_t size;
    snprintf(first, sizeof first, "<!-- %s: begin -->\n", name);
    snprintf(last, sizeof last, "<!-- %s: end -->\n", name);
    FILE *stream = open_memstream(&table, &size);
    assert_non_null(stream);
    put(stream);
    assert_int_equal(fclose(stream), 0);
    char *begin = strstr(document, first), *end = strstr(document, last);
    assert_non_null(begin);
    assert_non_null(end);
    begin += strlen(first);
    bool same = size == (size_t)(end - begin) && memcmp(table, begin, size) == 0;
    if (!same && getenv("SW_UPDATE_DOCS") != NULL) {
        FILE *f = fopen(DOC_TABLE_FILE, "wb");
        assert_non_null(f);
        fprintf(f, "%.*s%s%s", (int)(begin - document), document, table, end);
        assert_int_equal(fclose(f), 0);
        same = true;
    }
    if (!same) fail_msg("%s: `%s` differs from %s; SW_UPDATE_DOCS=1 mends it", DOC_TABLE_FILE, name, list);
    free(document);
    free(table);
}

#endif
