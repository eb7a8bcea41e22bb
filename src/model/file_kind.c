/* file_kind.c: magic numbers of the files that people hand over as a model, then two looks at structure:
 * safetensors (a header length that fits, then an object) and JSON (told apart by keys near its beginning).
 */
#include "model/file_kind.h"

#include <stdbool.h>
#include <string.h>

static const struct {
    uint64_t at;
    const char *magic;
    const char *kind;
} magics[] = {
    {4, "ET1", "an ExecuTorch program (.pte)"},
    {0, "PK\x03\x04", "a ZIP archive (a PyTorch checkpoint is one)"},
    {0, "\x89PNG", "a PNG picture"},
    {0, "\x80\x02", "a Python pickle (an old PyTorch checkpoint)"},
    {0, "lmgg", "a GGML file from before GGUF"},
    {0, "tjgg", "a GGML file from before GGUF"},
    {0, "\x1f\x8b", "a gzip archive"},
    {0,
     "\x7f"
     "ELF",
     "a program or library (ELF)"},
    {0, "\xff\xd8\xff", "a JPEG picture"},
    {0, "%PDF", "a PDF document"},
    {0, "version https://git-lfs", "a Git LFS pointer: the file itself was not downloaded"},
    {0, "<!DOCTYPE html", "a web page: the download went wrong"},
    {0, "FUGG", "a GGUF file with its bytes swapped"},
};

static bool starts_with(const uint8_t *data, uint64_t size, uint64_t at, const char *magic) {
    size_t n = strlen(magic);
    return size >= at && size - at >= n && memcmp(data + at, magic, n) == 0;
}

static bool mentions(const uint8_t *data, uint64_t size, const char *text) {
    enum { LOOK_BYTES = 65536 };
    return memmem(data, size < LOOK_BYTES ? (size_t)size : LOOK_BYTES, text, strlen(text)) != NULL;
}

const char *sw_file_kind(const uint8_t *data, uint64_t size) {
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (starts_with(data, size, magics[i].at, magics[i].magic)) return magics[i].kind;
    if (size > 8 && data[8] == '{') {
        uint64_t header = 0;
        for (unsigned i = 0; i < 8; i++) header |= (uint64_t)data[i] << (8 * i);
        if (header >= 2 && header <= size - 8) return "safetensors";
    }
    uint64_t i = 0;
    while (i < size && i < 256 && strchr(" \t\r\n", data[i]) != NULL && data[i] != 0) i++;
    if (i == size || (data[i] != '{' && data[i] != '[')) return NULL;
    if (mentions(data, size, "\"added_tokens\"") || mentions(data, size, "\"pre_tokenizer\""))
        return "a tokenizer.json";
    if (mentions(data, size, "\"model_type\"")) return "a config.json";
    return "JSON text";
}
