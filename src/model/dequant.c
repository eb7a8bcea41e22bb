/* dequant.c: one row of a weight as floats. Blocks and formulas are ggml's (src/ggml-quants.c), 32 values
 * each:
 *
 *   Q8_0   d f16, q int8 [32]                             d * q
 *   Q4_0   d f16, q u4 [32]                               d * (q - 8)
 *   Q4_1   d f16, m f16, q u4 [32]                        d * q + m
 *   Q5_0   d f16, high bits u32, q u4 [32]                d * (q - 16), bit j of the u32 is value j's bit 4
 *   Q5_1   d f16, m f16, high bits u32, q u4 [32]         d * q + m
 *
 * u4 [32]: byte j holds value j in its low half and value j + 16 in its high half. Product and sum round
 * apart (no fma): the values are the ones every other reader of these files has. Nothing in a file is
 * aligned, so all is read by bytes; the inner loops have no branches, which compilers turn into vectors. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/f16.h"
#include "model/model.h"

enum { BLOCK = 32, HALF = BLOCK / 2 };

static uint16_t load_u16(const uint8_t *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t load_u32(const uint8_t *p) {
    return (uint32_t)load_u16(p) | (uint32_t)load_u16(p + 2) << 16;
}

static void row_f32(const uint8_t *restrict p, uint32_t cols, float *restrict out) {
    for (uint32_t i = 0; i < cols; i++) out[i] = sw_bits_to_f32(load_u32(p + 4 * (size_t)i));
}

static void row_f16(const uint8_t *restrict p, uint32_t cols, float *restrict out) {
    for (uint32_t i = 0; i < cols; i++) out[i] = sw_f16_to_f32(load_u16(p + 2 * (size_t)i));
}

static void row_bf16(const uint8_t *restrict p, uint32_t cols, float *restrict out) {
    for (uint32_t i = 0; i < cols; i++) out[i] = sw_bf16_to_f32(load_u16(p + 2 * (size_t)i));
}

static void row_q8_0(const uint8_t *restrict p, uint32_t cols, float *restrict out) {
    for (uint32_t b = 0; b < cols / BLOCK; b++, p += 2 + BLOCK, out += BLOCK) {
        float d = sw_f16_to_f32(load_u16(p));
        for (int j = 0; j < BLOCK; j++) out[j] = d * (float)(int8_t)p[2 + j];
    }
}

static void row_q4_0(const uint8_t *restrict p, uint32_t cols, float *restrict out) {
    for (uint32_t b = 0; b < cols / BLOCK; b++, p += 2 + HALF, out += BLOCK) {
        float d = sw_f16_to_f32(load_u16(p));
        for (int j = 0; j < HALF; j++) {
            out[j] = d * (float)((p[2 + j] & 15) - 8);
            out[j + HALF] = d * (float)((p[2 + j] >> 4) - 8);
        }
    }
}

static void row_q4_1(const uint8_t *restrict p, uint32_t cols, float *restrict out) {
    for (uint32_t b = 0; b < cols / BLOCK; b++, p += 4 + HALF, out += BLOCK) {
        float d = sw_f16_to_f32(load_u16(p)), m = sw_f16_to_f32(load_u16(p + 2));
        for (int j = 0; j < HALF; j++) {
            out[j] = d * (float)(p[4 + j] & 15) + m;
            out[j + HALF] = d * (float)(p[4 + j] >> 4) + m;
        }
    }
}

/* The 32 five-bit values of a block. */
static void unpack_u5(const uint8_t *restrict p, uint8_t *restrict q) {
    uint32_t high = load_u32(p);
    for (int j = 0; j < HALF; j++) {
        q[j] = (uint8_t)((p[4 + j] & 15) | (high >> j & 1) << 4);
        q[j + HALF] = (uint8_t)(p[4 + j] >> 4 | (high >> (j + HALF) & 1) << 4);
    }
}

static void row_q5_0(const uint8_t *restrict p, uint32_t cols, float *restrict out) {
    for (uint32_t b = 0; b < cols / BLOCK; b++, p += 2 + 4 + HALF, out += BLOCK) {
        float d = sw_f16_to_f32(load_u16(p));
        uint8_t q[BLOCK];
        unpack_u5(p + 2, q);
        for (int j = 0; j < BLOCK; j++) out[j] = d * (float)(q[j] - 16);
    }
}

static void row_q5_1(const uint8_t *restrict p, uint32_t cols, float *restrict out) {
    for (uint32_t b = 0; b < cols / BLOCK; b++, p += 4 + 4 + HALF, out += BLOCK) {
        float d = sw_f16_to_f32(load_u16(p)), m = sw_f16_to_f32(load_u16(p + 2));
        uint8_t q[BLOCK];
        unpack_u5(p + 4, q);
        for (int j = 0; j < BLOCK; j++) out[j] = d * (float)q[j] + m;
    }
}

/* Where row r of a head in halves order is stored: pair i of a head is at its rows 2i and 2i + 1, wanted at i
 * and i + d / 2. */
static const uint8_t *stored_row(const sw_weight *w, uint32_t r) {
    uint32_t d = w->interleaved_head_dim, i = d != 0 ? r % d : 0;
    if (d != 0) r = r - i + (i < d / 2 ? 2 * i : 2 * (i - d / 2) + 1);
    return w->data + r * w->row_bytes;
}

bool sw_weight_row_blocks(const sw_weight *w, uint32_t r, int8_t *q, uint16_t *d) {
    const uint8_t *p = stored_row(w, r);
    if (!sw_weight_has_blocks(w)) return false;
    for (uint32_t b = 0; b < w->cols / BLOCK; b++, q += BLOCK) {
        d[b] = load_u16(p);
        p += 2;
        if (w->storage == SW_STORE_Q8_0) {
            memcpy(q, p, BLOCK);
            p += BLOCK;
            continue;
        }
        for (int j = 0; j < HALF; j++, p++) {
            q[j] = (int8_t)((*p & 15) - 8);
            q[j + HALF] = (int8_t)((*p >> 4) - 8);
        }
    }
    return true;
}

void sw_weight_drop_rows(const sw_weight *w, uint32_t begin, uint32_t end) {
    if (!w->mapped || w->data == NULL) return;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), data = (uintptr_t)w->data;
    uintptr_t from = data + (uintptr_t)(begin * w->row_bytes), to = data + (uintptr_t)(end * w->row_bytes);
    from = (from + page - 1) / page * page, to = to / page * page; /* a page at the edge is shared */
    if (to > from) madvise((void *)from, to - from, MADV_DONTNEED);
}

void sw_weight_drop_pages(const sw_weight *w) {
    sw_weight_drop_rows(w, 0, w->rows);
}

void sw_weight_row(const sw_weight *w, uint32_t r, float *out) {
    static void (*const rows[SW_STORE_COUNT])(const uint8_t *restrict, uint32_t, float *restrict) = {
        [SW_STORE_F32] = row_f32,   [SW_STORE_F16] = row_f16,   [SW_STORE_BF16] = row_bf16,
        [SW_STORE_Q4_0] = row_q4_0, [SW_STORE_Q4_1] = row_q4_1, [SW_STORE_Q5_0] = row_q5_0,
        [SW_STORE_Q5_1] = row_q5_1, [SW_STORE_Q8_0] = row_q8_0};
    rows[w->storage](stored_row(w, r), w->cols, out);
}
