/* tokenize.c: text on stdin to ids on stdout. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "runtime/load_tokenizer.h"

/* All of stdin; the caller frees it. */
static sw_code read_stdin(char **out, size_t *size, sw_error *err) {
    enum { MOST_BYTES = 256 << 20 };
    size_t capacity = 0;
    *out = NULL, *size = 0;
    for (;;) {
        if (*size == MOST_BYTES)
            return SW_FAIL(err, SW_BAD_DATA, "stdin: has %d bytes or more, wanted less", MOST_BYTES);
        if (*size == capacity) {
            capacity = capacity == 0 ? 1 << 16 : 2 * capacity;
            char *bigger = realloc(*out, capacity);
            if (bigger == NULL) return SW_FAIL(err, SW_NO_MEMORY, "stdin: no memory for %zu bytes", capacity);
            *out = bigger;
        }
        size_t n = fread(*out + *size, 1, capacity - *size, stdin);
        *size += n;
        if (n == 0 && ferror(stdin)) return SW_FAIL(err, SW_IO, "stdin: can't read: %s", strerror(errno));
        if (n == 0) return SW_OK;
    }
}

static sw_code open_tokenizer(const char *path, sw_tokenizer **out, sw_error *err) {
    if (sw_cli_is_folder(path)) {
        sw_bundle bundle;
        SW_TRY(sw_bundle_open(&bundle, path, err));
        sw_code code = sw_cli_bundle_tokenizer(&bundle, out, err);
        sw_bundle_close(&bundle);
        return code;
    }
    sw_gguf *gguf;
    SW_TRY(sw_gguf_open(&gguf, path, err));
    sw_code code = sw_tokenizer_from_gguf(out, gguf, err);
    sw_gguf_close(gguf);
    return code;
}

static sw_code print_ids(const sw_options *options, const sw_tokenizer *tokenizer, sw_span text,
                         sw_error *err) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_ids ids = {0};
    sw_code code = SW_OK;
    unsigned flags = SW_ENCODE_SPECIAL | SW_ENCODE_START;
    if (options->chat) {
        const sw_chat_message message = {sw_span_of("user"), text};
        sw_chat_warn_of_marks(tokenizer);
        code = sw_chat_render(sw_tokenizer_description(tokenizer)->chat_template, &message, 1, 0, true,
                              &arena, &text, err);
    }
    if (code == SW_OK) code = sw_tokenizer_encode(tokenizer, text, flags, &ids, err);
    if (code == SW_OK) {
        putchar('[');
        for (size_t i = 0; i < ids.count; i++) printf("%s%d", i > 0 ? ", " : "", ids.data[i]);
        puts("]");
    }
    sw_ids_free(&ids);
    sw_arena_free(&arena);
    return code;
}

sw_code sw_cmd_tokenize(const sw_options *options, sw_error *err) {
    if (options->model == NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "tokenize: wants --model FILE|BUNDLE");
    sw_tokenizer *tokenizer = NULL;
    char *text = NULL;
    size_t size;
    sw_code code = open_tokenizer(options->model, &tokenizer, err);
    if (code == SW_OK) code = read_stdin(&text, &size, err);
    if (code == SW_OK) code = print_ids(options, tokenizer, (sw_span){text, size}, err);
    free(text);
    sw_tokenizer_destroy(tokenizer);
    return code;
}
