/* q4_0.h: GGUF files with blocks around 0: the tiny model in Q4_0 with a Q8_0 table, of random blocks; and
 * any file's Q4_1 tensors as Q4_0 by ggml's rule (src/ggml-quants.c, quantize_row_q4_0_ref): d is the signed
 * value of greatest magnitude / -8, q = min(15, x / d + 8.5 cut). */
#ifndef TESTS_CLI_Q4_0_H
#define TESTS_CLI_Q4_0_H

#include "base/f16.h"
#include "cli/tiny_gguf.h"
#include "model/gguf.h"

enum { Q4_0_BYTES = 18, Q8_0_BYTES = 34, GGUF_F32 = 0, GGUF_Q4_0 = 2, GGUF_Q4_1 = 3, GGUF_Q8_0 = 8 };

static inline void q4_0_block(const float x[32], bytes *out) {
    float greatest = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(x[i]) > fabsf(greatest)) greatest = x[i];
    float d = greatest / -8, inverse = d != 0 ? 1 / d : 0;
    uint8_t q[32];
    for (int i = 0; i < 32; i++) {
        int v = (int8_t)(x[i] * inverse + 8.5f);
        q[i] = (uint8_t)(v > 15 ? 15 : v);
    }
    put_le(out, sw_f32_to_f16(d), 2);
    for (int i = 0; i < 16; i++) put_le(out, (uint64_t)(q[i] | q[i + 16] << 4), 1);
}

/* Where the keys of a GGUF file end. The file is a valid one. */
static inline size_t q4_0_end_of_keys(const uint8_t *data, uint64_t n_keys) {
    static const size_t widths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    size_t at = 24;
    for (uint64_t k = 0; k < n_keys; k++) {
        uint64_t length, count = 1;
        uint32_t type;
        memcpy(&length, data + at, 8);
        at += 8 + length;
        memcpy(&type, data + at, 4);
        at += 4;
        if (type == 9) {
            memcpy(&type, data + at, 4);
            memcpy(&count, data + at + 4, 8);
            at += 12;
        }
        if (type != 8) at += widths[type] * count;
        for (uint64_t i = 0; type == 8 && i < count; i++) {
            memcpy(&length, data + at, 8);
            at += 8 + length;
        }
    }
    return at;
}

static inline uint64_t q4_0_tensor_bytes(const sw_weight *w, bool requantized) {
    return requantized ? (uint64_t)w->rows * w->cols / 32 * Q4_0_BYTES : w->row_bytes * w->rows;
}

/* Writes the file at `from` to `to` with its Q4_1 tensors as Q4_0; all else stays. */
static inline bool q4_0_convert(const char *from, const char *to, sw_error *err) {
    sw_file_map map;
    sw_gguf *gguf;
    if (sw_file_map_open(&map, from, err) != SW_OK || sw_gguf_open(&gguf, from, err) != SW_OK) return false;
    FILE *f = fopen(to, "wb");
    uint64_t n_keys, offset = 0;
    memcpy(&n_keys, map.data + 16, 8);
    size_t n = sw_gguf_n_tensors(gguf), end = q4_0_end_of_keys(map.data, n_keys);
    bytes b = {0};
    put(&b, map.data, end);
    for (size_t i = 0; i < n; i++) {
        const sw_weight *w = sw_gguf_tensor_at(gguf, i);
        bool changes = w->storage == SW_STORE_Q4_1;
        put_tensor_info(&b, w->file_name, strlen(w->file_name), w->cols, w->rows,
                        changes ? GGUF_Q4_0 : sw_storage_infos[w->storage].gguf_type, offset);
        offset = (offset + q4_0_tensor_bytes(w, changes) + 31) / 32 * 32;
    }
    float *row = malloc(sizeof *row << 16);
    for (size_t i = 0; i < n && f != NULL && row != NULL; i++) {
        const sw_weight *w = sw_gguf_tensor_at(gguf, i);
        put_zeros(&b, (32 - b.size % 32) % 32);
        if (w->storage != SW_STORE_Q4_1)
            put(&b, w->data, q4_0_tensor_bytes(w, false));
        else
            for (uint32_t r = 0; r < w->rows; r++) {
                sw_weight_row(w, r, row); /* as the file has them: nothing here knows of heads */
                for (uint32_t c = 0; c < w->cols; c += 32) q4_0_block(row + c, &b);
            }
    }
    put_zeros(&b, (32 - b.size % 32) % 32);
    bool ok = f != NULL && row != NULL && fwrite(b.data, 1, b.size, f) == b.size;
    if (f != NULL && fclose(f) != 0) ok = false;
    free(row), free(b.data);
    sw_gguf_close(gguf);
    sw_file_map_close(&map);
    if (!ok) sw_fail(err, SW_IO, "%s: can't write it", to);
    return ok;
}

/* The tiny model: matrices of random Q4_0 blocks, the table of Q8_0 blocks, norms of ones. Scales of both
 * signs, and some 0. */
static inline void q4_0_tiny_build(bytes *b) {
    bytes keys = {0};
    tiny_shape shapes[32];
    size_t n = tiny_shapes(shapes);
    uint64_t n_keys = tiny_put_keys(&keys), offset = 0, state = 9;
    put_header(b, n, n_keys);
    put(b, keys.data, keys.size);
    free(keys.data);
    for (size_t i = 0; i < n; i++) {
        uint64_t blocks = (uint64_t)shapes[i].cols * shapes[i].rows / 32;
        uint32_t type = shapes[i].rows == 1 ? GGUF_F32 : i == 0 ? GGUF_Q8_0 : GGUF_Q4_0;
        uint64_t size = type == GGUF_F32 ? 128 : type == GGUF_Q8_0 ? Q8_0_BYTES : Q4_0_BYTES;
        put_tensor_info(b, shapes[i].name, strlen(shapes[i].name), shapes[i].cols, shapes[i].rows, type,
                        offset);
        offset = (offset + blocks * size + 31) / 32 * 32;
    }
    for (size_t i = 0; i < n; i++) {
        put_zeros(b, (32 - b->size % 32) % 32);
        size_t blocks = (size_t)shapes[i].cols * shapes[i].rows / 32;
        for (size_t k = 0; k < 32 * blocks && shapes[i].rows == 1; k++) put_le(b, 0x3f800000, 4);
        for (size_t k = 0; k < blocks && shapes[i].rows > 1; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            float d = (float)(int32_t)(state >> 32) / 2147483648.0f * (i == 0 ? 0.01f : 0.05f);
            put_le(b, k % 11 == 3 ? 0 : sw_f32_to_f16(d), 2);
            for (size_t at = 2; at < (i == 0 ? Q8_0_BYTES : Q4_0_BYTES); at++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                put_le(b, state >> 56, 1);
            }
        }
    }
    put_zeros(b, (32 - b->size % 32) % 32);
}

#endif
