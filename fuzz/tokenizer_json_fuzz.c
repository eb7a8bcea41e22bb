/* tokenizer_json_fuzz.c: any bytes as tokenizer.json and, behind a zero byte, tokenizer_config.json: what is
 * read can be written and reads the same again, encodes any text to ids that it has, and decodes them. Seeds:
 * (cat B/tokenizer-*.json; printf '\0'; cat B/tokenizer_config-*.json) >SEEDS/1 with a bundle B. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file in memory with a name. */
typedef struct memory_file {
    int fd;
    char path[32];
} memory_file;

static memory_file make_file(const void *data, size_t size) {
    memory_file f = {memfd_create("fuzz", MFD_CLOEXEC), ""};
    if (f.fd < 0 || (size > 0 && write(f.fd, data, size) != (ssize_t)size)) abort();
    snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.fd);
    return f;
}

static sw_tokenizer *load(const void *tokenizer, size_t tokenizer_size, const void *config,
                          size_t config_size) {
    memory_file a = make_file(tokenizer, tokenizer_size), b = make_file(config, config_size);
    sw_tokenizer *t = NULL;
    sw_error err = {0};
    if (sw_tokenizer_load_files(&t, a.path, b.path, &err) == SW_OK) {
        if (t == NULL) abort();
    } else if (err.code == SW_OK || err.message[0] == '\0' || t != NULL) {
        abort(); /* every failure has its sentence */
    }
    close(a.fd), close(b.fd);
    return t;
}

static char *print(const sw_tokenizer *t, void (*writer)(const sw_tokenizer *, FILE *), size_t *size) {
    char *text = NULL;
    FILE *stream = open_memstream(&text, size);
    if (stream == NULL) abort();
    writer(t, stream);
    fclose(stream);
    return text;
}

static void check_written(const sw_tokenizer *t) {
    size_t size[2], again_size;
    char *text[2] = {print(t, sw_tokenizer_write_json, &size[0]),
                     print(t, sw_tokenizer_write_config, &size[1])};
    sw_tokenizer *again = load(text[0], size[0], text[1], size[1]);
    if (again == NULL) abort();
    char *more = print(again, sw_tokenizer_write_json, &again_size);
    if (again_size != size[0] || memcmp(more, text[0], again_size) != 0) abort();
    free(text[0]), free(text[1]), free(more);
    sw_tokenizer_destroy(again);
}

static void check_text(const sw_tokenizer *t, sw_span text) {
    const sw_chat_message message = {sw_span_of("user"), text};
    const sw_tokenizer_desc *d = sw_tokenizer_description(t);
    sw_arena arena = SW_ARENA_EMPTY;
    sw_ids ids = {0};
    sw_span out;
    sw_code code = sw_chat_render(d->chat_template, &message, 1, 0, true, &arena, &text, NULL);
    if (code != SW_OK && code != SW_UNSUPPORTED) abort();
    if (sw_tokenizer_encode(t, text, SW_ENCODE_SPECIAL | SW_ENCODE_START, &ids, NULL) != SW_OK) abort();
    for (size_t i = 0; i < ids.count; i++)
        if (ids.data[i] < 0 || (size_t)ids.data[i] >= d->n_tokens) abort();
    if (sw_tokenizer_decode_all(t, ids.data, ids.count, true, &arena, &out, NULL) != SW_OK) abort();
    sw_ids_free(&ids);
    sw_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sw_log_set_level(SW_LOG_ERROR);
    const uint8_t *zero = size > 0 ? memchr(data, '\0', size) : NULL;
    size_t first = zero != NULL ? (size_t)(zero - data) : size;
    const void *config = zero != NULL ? (const void *)(zero + 1) : "{}";
    sw_tokenizer *t = load(data, first, config, zero != NULL ? size - first - 1 : 2);
    if (t == NULL) return 0;
    check_written(t);
    check_text(t, (sw_span){(const char *)data, size < 200 ? size : 200});
    check_text(t, sw_span_of("Hello <|im_start|> 123\n\t\xff"));
    sw_tokenizer_destroy(t);
    return 0;
}
