/* gguf_recipes.h: GGUF files byte by byte: base G, which is valid, and recipes that make one thing in it
 * wrong. Used by the tests, and as the fuzzer's first inputs. */
#ifndef SW_TESTS_GGUF_RECIPES_H
#define SW_TESTS_GGUF_RECIPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "spillway/error.h"

/* Bytes that grow. */
typedef struct bytes {
    uint8_t *data;
    size_t size, capacity;
} bytes;

static inline void put(bytes *b, const void *data, size_t size) {
    if (b->size + size > b->capacity) {
        b->capacity = 2 * (b->size + size);
        b->data = realloc(b->data, b->capacity);
        if (b->data == NULL) abort();
    }
    if (size > 0) memcpy(b->data + b->size, data, size);
    b->size += size;
}

static inline void put_le(bytes *b, uint64_t value, unsigned width) {
    uint8_t le[8];
    for (unsigned i = 0; i < 8; i++) le[i] = (uint8_t)(value >> (8 * i));
    put(b, le, width);
}

static inline void put_zeros(bytes *b, size_t count) {
    static const uint8_t zeros[64];
    for (; count > sizeof zeros; count -= sizeof zeros) put(b, zeros, sizeof zeros);
    put(b, zeros, count);
}

static inline void put_string_n(bytes *b, const char *text, size_t size) {
    put_le(b, size, 8);
    put(b, text, size);
}

static inline void put_string(bytes *b, const char *text) {
    put_string_n(b, text, strlen(text));
}

static inline void put_header(bytes *b, uint64_t n_tensors, uint64_t n_keys) {
    put(b, "GGUF", 4);
    put_le(b, 3, 4);
    put_le(b, n_tensors, 8);
    put_le(b, n_keys, 8);
}

static inline void put_tensor_info(bytes *b, const char *name, size_t name_size, uint64_t cols, uint64_t rows,
                                   uint32_t type, uint64_t offset) {
    put_string_n(b, name, name_size);
    put_le(b, 2, 4);
    put_le(b, cols, 8);
    put_le(b, rows, 8);
    put_le(b, type, 4);
    put_le(b, offset, 8);
}

/* Base G with other names for key 3 and tensor 1. With its own names: 608 bytes. */
static inline void base_g_named(bytes *b, const char *key, size_t key_size, const char *tensor,
                                size_t tensor_size) {
    put_header(b, 2, 4);
    put_string(b, "general.architecture"); /* byte 24 */
    put_le(b, 8, 4);
    put_string(b, "llama");
    put_string(b, "general.alignment"); /* 69 */
    put_le(b, 4, 4);
    put_le(b, 32, 4);
    put_string(b, "tokenizer.ggml.scores"); /* 102 */
    put_le(b, 9, 4);
    put_le(b, 6, 4);
    put_le(b, 4, 8);
    put_zeros(b, 16);
    put_string_n(b, key, key_size); /* 163 */
    put_le(b, 4, 4);
    put_le(b, 1, 4);
    put_tensor_info(b, "token_embd.weight", 17, 8, 4, 0, 0); /* 196 */
    put_tensor_info(b, tensor, tensor_size, 32, 4, 8, 128);  /* 253 */
    put_zeros(b, (32 - b->size % 32) % 32);                  /* 312 */
    for (unsigned i = 0; i < 128; i++) put_le(b, i, 1);      /* 320 */
    put_zeros(b, 136 + 24);                                  /* 448 */
}

static inline void base_g(bytes *b) {
    base_g_named(b, "llama.block_count", 17, "blk.0.attn_q.weight", 19);
}

/* What patches of fixed places can't do. */
static inline void make_empty(bytes *b) {
    (void)b;
}
static inline void make_magic_only(bytes *b) {
    put(b, "GGUF", 4);
}
static inline void make_png(bytes *b) {
    put(b, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
}
static inline void make_zip(bytes *b) {
    put(b, "PK\x03\x04\x14\0\0\0archive/data.pkl", 24);
}
static inline void make_pte(bytes *b) {
    put(b, "\x3c\0\0\0ET12eh00\x18\0\0\0", 16);
}
static inline void make_tokenizer(bytes *b) {
    const char *text = "{\"version\": \"1.0\", \"added_tokens\": [], \"model\": {}}";
    put(b, text, strlen(text));
}
static inline void make_safetensors(bytes *b) {
    const char *text = "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    put_le(b, strlen(text), 8);
    put(b, text, strlen(text));
    put_zeros(b, 4);
}
static inline void make_same_tensor(bytes *b) {
    base_g_named(b, "llama.block_count", 17, "token_embd.weight", 17);
}
static inline void make_same_key(bytes *b) {
    base_g_named(b, "general.alignment", 17, "blk.0.attn_q.weight", 19);
}
static inline void make_zero_in_tensor(bytes *b) {
    base_g_named(b, "llama.block_count", 17, "blk.0\0attn_q.weight", 19);
}
static inline void make_zero_in_key(bytes *b) {
    base_g_named(b, "llama\0block_count", 17, "blk.0.attn_q.weight", 19);
}
static inline void make_ff_in_tensor(bytes *b) {
    base_g_named(b, "llama.block_count", 17, "blk.0.attn_\xff.weight", 19);
}
static inline void make_ff_in_key(bytes *b) {
    base_g_named(b, "llama.block_coun\xff", 17, "blk.0.attn_q.weight", 19);
}
static inline void make_newline_in_tensor(bytes *b) {
    base_g_named(b, "llama.block_count", 17, "blk.0.attn_q.wei\nht", 19);
}
static inline void make_long_tensor(bytes *b, size_t size) {
    char *name = malloc(size);
    if (name == NULL) abort();
    memset(name, 'n', size);
    base_g_named(b, "llama.block_count", 17, name, size);
    free(name);
}
static inline void make_tensor_of_64(bytes *b) {
    make_long_tensor(b, 64);
}
static inline void make_tensor_of_65(bytes *b) {
    make_long_tensor(b, 65);
}
static inline void make_tensor_of_2_20(bytes *b) {
    make_long_tensor(b, (size_t)1 << 20);
}
static inline void make_key_of_65536(bytes *b) {
    char *name = malloc(65536);
    if (name == NULL) abort();
    memset(name, 'k', 65536);
    base_g_named(b, name, 65536, "blk.0.attn_q.weight", 19);
    free(name);
}
static inline void make_extra_bytes(bytes *b) {
    base_g(b);
    put(b, "PK\x03\x04", 4);
    put_zeros(b, 60);
}
static inline void make_no_tensors(bytes *b) {
    put_header(b, 0, 0);
}

/* [4, 65536, 65536, 65537]: each dimension is legal, the number of rows is over 2^32. */
static inline void make_many_rows(bytes *b) {
    put_header(b, 1, 0);
    put_string(b, "t");
    put_le(b, 4, 4);
    put_le(b, 4, 8);
    for (int i = 0; i < 3; i++) put_le(b, (i == 2 ? 1u : 0u) + 65536, 8);
    put_le(b, 0, 4);
    put_le(b, 0, 8);
    put_zeros(b, 64);
}

/* Overwrites width bytes at `at`. width 0: no patch. */
typedef struct patch {
    size_t at;
    unsigned width;
    uint64_t value;
} patch;

typedef struct recipe {
    const char *id;
    void (*make)(bytes *b); /* NULL: base G */
    patch patches[2];
    sw_code code;
    const char *says[4]; /* what the sentence must name */
} recipe;

#define U64_MAX_TEXT "18446744073709551615"
static const recipe recipes[] = {
    {"base", NULL, {{0}}, SW_OK, {0}},
    {"v2", NULL, {{4, 4, 2}}, SW_OK, {0}},
    {"G01-magic", NULL, {{3, 1, 'f'}}, SW_BAD_DATA, {"not a GGUF file", "`47 47 55 66`", "wanted `GGUF`"}},
    {"G01-empty", make_empty, {{0}}, SW_BAD_DATA, {"is empty"}},
    {"G01-four-bytes", make_magic_only, {{0}}, SW_BAD_DATA, {"has 4 bytes", "24"}},
    {"G01-png", make_png, {{0}}, SW_BAD_DATA, {"not a GGUF file", "PNG", "`89 50 4e 47`"}},
    {"G01-zip", make_zip, {{0}}, SW_BAD_DATA, {"not a GGUF file", "ZIP", "`50 4b 03 04`"}},
    {"G01-pte", make_pte, {{0}}, SW_BAD_DATA, {"not a GGUF file", "ExecuTorch", "`3c 00 00 00`"}},
    {"G01-tokenizer", make_tokenizer, {{0}}, SW_BAD_DATA, {"not a GGUF file", "tokenizer.json"}},
    {"G01-safetensors", make_safetensors, {{0}}, SW_BAD_DATA, {"not a GGUF file", "safetensors"}},
    {"G02-version-0", NULL, {{4, 4, 0}}, SW_UNSUPPORTED, {"version 0,", "reads 2 and 3", "byte 4"}},
    {"G02-version-1", NULL, {{4, 4, 1}}, SW_UNSUPPORTED, {"version 1,", "reads 2 and 3"}},
    {"G02-version-99", NULL, {{4, 4, 99}}, SW_UNSUPPORTED, {"version 99,", "reads 2 and 3"}},
    {"G02-big-endian", NULL, {{4, 4, 0x03000000}}, SW_UNSUPPORTED, {"big-endian", "00 00 00 03"}},
    {"G03-max", NULL, {{8, 8, UINT64_MAX}}, SW_BAD_DATA, {"tensor count " U64_MAX_TEXT, "584 bytes left"}},
    {"G03-2^62", NULL, {{8, 8, 1ull << 62}}, SW_BAD_DATA, {"tensor count 4611686018427387904", "584"}},
    {"G03-one-more", NULL, {{8, 8, 3}}, SW_BAD_DATA, {"tensor 2", "byte 312", "name of 0 bytes", "1 to 64"}},
    {"G04-2^63", NULL, {{16, 8, 1ull << 63}}, SW_BAD_DATA, {"key count 9223372036854775808", "584"}},
    {"G04-one-more", NULL, {{16, 8, 5}}, SW_BAD_DATA, {"tensor 0", "byte 227", "beyond the end", "608"}},
    {"G05-2^63", NULL, {{24, 8, 1ull << 63}}, SW_BAD_DATA, {"byte 24", "9223372036854775808", "(608)"}},
    {"G05-max", NULL, {{24, 8, UINT64_MAX}}, SW_BAD_DATA, {"byte 24", U64_MAX_TEXT, "(608)"}},
    {"G05-value",
     NULL,
     {{56, 8, 1ull << 30}},
     SW_BAD_DATA,
     {"byte 56", "general.architecture", "1073741824", "(608)"}},
    {"G07-13", NULL, {{52, 4, 13}}, SW_BAD_DATA, {"byte 52", "general.architecture", "type 13", "0 to 12"}},
    {"G07-max", NULL, {{52, 4, UINT32_MAX}}, SW_BAD_DATA, {"general.architecture", "type 4294967295"}},
    {"G07-element", NULL, {{135, 4, 13}}, SW_BAD_DATA, {"byte 135", "tokenizer.ggml.scores", "type 13"}},
    {"nested-array", NULL, {{135, 4, 9}}, SW_UNSUPPORTED, {"tokenizer.ggml.scores", "array of arrays"}},
    {"array-count",
     NULL,
     {{139, 8, 1ull << 62}},
     SW_BAD_DATA,
     {"byte 139", "tokenizer.ggml.scores", "4611686018427387904", "461 bytes left"}},
    {"G09",
     NULL,
     {{135, 4, 0}, {139, 8, 16}},
     SW_BAD_DATA,
     {"tokenizer.ggml.scores", "array of u8", "wanted array of f32"}},
    {"G10-0", NULL, {{98, 4, 0}}, SW_BAD_DATA, {"general.alignment", "is 0,", "power of two", "8 to 65536"}},
    {"G10-3", NULL, {{98, 4, 3}}, SW_BAD_DATA, {"general.alignment", "is 3,", "8 to 65536", "byte 98"}},
    {"G10-4", NULL, {{98, 4, 4}}, SW_BAD_DATA, {"general.alignment", "is 4,", "8 to 65536"}},
    {"G10-131072", NULL, {{98, 4, 131072}}, SW_BAD_DATA, {"general.alignment", "is 131072,"}},
    {"G10-2^31", NULL, {{98, 4, 1u << 31}}, SW_BAD_DATA, {"general.alignment", "is 2147483648,"}},
    {"G10-i32", NULL, {{94, 4, 5}}, SW_BAD_DATA, {"general.alignment", "type i32", "wanted u32"}},
    {"G10-string", NULL, {{94, 4, 8}}, SW_BAD_DATA, {"general.alignment", "type string", "wanted u32"}},
    {"alignment-16", NULL, {{98, 4, 16}}, SW_OK, {0}}, /* 312 rounds to 320 as well */
    {"G11-max",
     NULL,
     {{221, 4, UINT32_MAX}},
     SW_BAD_DATA,
     {"byte 221", "token_embd.weight", "n_dims 4294967295", "1 to 4"}},
    {"G11-5", NULL, {{221, 4, 5}}, SW_BAD_DATA, {"token_embd.weight", "n_dims 5", "1 to 4"}},
    {"G11-0", NULL, {{221, 4, 0}}, SW_BAD_DATA, {"token_embd.weight", "n_dims 0", "1 to 4"}},
    {"G12-0", NULL, {{225, 8, 0}}, SW_BAD_DATA, {"byte 225", "token_embd.weight", "dimension 0 is 0,"}},
    {"G12-negative",
     NULL,
     {{225, 8, UINT64_MAX}},
     SW_BAD_DATA,
     {"token_embd.weight", "dimension 0 is " U64_MAX_TEXT, "2147483647"}},
    {"G12-rows",
     NULL,
     {{292, 8, 1ull << 31}},
     SW_BAD_DATA,
     {"blk.0.attn_q.weight", "dimension 1 is 2147483648"}},
    {"rows-product", make_many_rows, {{0}}, SW_BAD_DATA, {"tensor 0 `t`", "4294967296 rows", "2147483647"}},
    {"G14", NULL, {{284, 8, 33}}, SW_BAD_DATA, {"blk.0.attn_q.weight", "row of 33", "Q8_0's 32"}},
    {"G15-9999",
     NULL,
     {{241, 4, 9999}},
     SW_BAD_DATA,
     {"byte 241", "token_embd.weight", "type 9999 is unknown", "F32, F16"}},
    {"G15-max",
     NULL,
     {{241, 4, UINT32_MAX}},
     SW_BAD_DATA,
     {"token_embd.weight", "type 4294967295 is unknown"}},
    {"G15-removed", NULL, {{241, 4, 4}}, SW_UNSUPPORTED, {"token_embd.weight", "type 4", "Q4_2", "removed"}},
    {"G15-known", NULL, {{241, 4, 12}}, SW_UNSUPPORTED, {"type 12", "Q4_K", "not supported", "Q8_0"}},
    {"size-over-end", NULL, {{292, 8, 5}}, SW_BAD_DATA, {"blk.0.attn_q.weight", "170 bytes", "128", "(608)"}},
    {"size-max",
     NULL,
     {{225, 8, INT32_MAX}, {233, 8, INT32_MAX}},
     SW_BAD_DATA,
     {"token_embd.weight", "18446744056529682436", "(608)"}},
    {"offset-over-end",
     NULL,
     {{304, 8, 160}},
     SW_BAD_DATA,
     {"blk.0.attn_q.weight", "136 bytes", "160", "(608)"}},
    {"offset-far",
     NULL,
     {{304, 8, 1ull << 40}},
     SW_BAD_DATA,
     {"blk.0.attn_q.weight", "1099511627776", "(608)"}},
    {"offset-wraps",
     NULL,
     {{304, 8, UINT64_MAX - 31}},
     SW_BAD_DATA,
     {"blk.0.attn_q.weight", "18446744073709551584", "(608)"}},
    {"offset-wraps-with-size",
     NULL,
     {{304, 8, UINT64_MAX - 383}},
     SW_BAD_DATA,
     {"blk.0.attn_q.weight", "(608)"}},
    {"offset-unaligned",
     NULL,
     {{304, 8, 129}},
     SW_BAD_DATA,
     {"blk.0.attn_q.weight", "offset 129", "multiple of the alignment 32"}},
    {"overlap", NULL, {{304, 8, 96}}, SW_BAD_DATA, {"blk.0.attn_q.weight", "overlaps", "token_embd.weight"}},
    {"same-data", NULL, {{304, 8, 0}}, SW_BAD_DATA, {"overlaps", "offset 0"}},
    {"G18-tensor",
     make_same_tensor,
     {{0}},
     SW_BAD_DATA,
     {"duplicate tensor", "token_embd.weight", "byte 253", "byte 196"}},
    {"G18-key",
     make_same_key,
     {{0}},
     SW_BAD_DATA,
     {"duplicate key", "general.alignment", "byte 163", "byte 69"}},
    {"G18-zero-tensor",
     make_zero_in_tensor,
     {{0}},
     SW_BAD_DATA,
     {"tensor 1", "zero byte", "byte 5", "byte 266"}},
    {"G18-zero-key", make_zero_in_key, {{0}}, SW_BAD_DATA, {"key 3", "zero byte", "byte 5", "byte 176"}},
    {"G18-ff-tensor", make_ff_in_tensor, {{0}}, SW_BAD_DATA, {"tensor 1", "UTF-8", "byte 11", "byte 272"}},
    {"G18-ff-key", make_ff_in_key, {{0}}, SW_BAD_DATA, {"key 3", "UTF-8", "byte 16", "byte 187"}},
    {"newline-tensor", make_newline_in_tensor, {{0}}, SW_BAD_DATA, {"tensor 1", "control character 0x0a"}},
    {"G18-64", make_tensor_of_64, {{0}}, SW_OK, {0}},
    {"G18-65",
     make_tensor_of_65,
     {{0}},
     SW_BAD_DATA,
     {"tensor 1", "name of 65 bytes", "1 to 64", "byte 253"}},
    {"G18-2^20", make_tensor_of_2_20, {{0}}, SW_BAD_DATA, {"tensor 1", "name of 1048576 bytes", "1 to 64"}},
    {"G18-key-65536", make_key_of_65536, {{0}}, SW_BAD_DATA, {"key 3", "name of 65536 bytes", "1 to 65535"}},
    {"G20", make_extra_bytes, {{0}}, SW_OK, {0}},
    {"no-tensors", make_no_tensors, {{0}}, SW_OK, {0}},
};

enum { RECIPE_COUNT = sizeof recipes / sizeof *recipes };

/* The recipe's file; the caller frees b->data. */
static inline void make_recipe(const recipe *r, bytes *b) {
    *b = (bytes){0};
    if (r->make != NULL)
        r->make(b);
    else
        base_g(b);
    for (size_t i = 0; i < sizeof r->patches / sizeof *r->patches; i++)
        for (unsigned k = 0; k < r->patches[i].width; k++)
            b->data[r->patches[i].at + k] = (uint8_t)(r->patches[i].value >> (8 * k));
}

#endif
