/* sha256.c: FIPS 180-4, sections 4.1.2, 4.2.2, 5 and 6.2. */
#include "base/sha256.h"

#include <stdatomic.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes (4.2.2). */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate_right(uint32_t x, unsigned n) {
    return x >> n | x << (32 - n);
}

/* Round t, with k[t] + w[t]. The eight variables a..h are never moved: variable i stands in v[(i - t) & 7],
 * so that with t known to the compiler all of them stay in registers. */
static inline void one_round(uint32_t v[8], unsigned t, uint32_t kw) {
    uint32_t a = v[(0 - t) & 7], b = v[(1 - t) & 7], c = v[(2 - t) & 7];
    uint32_t e = v[(4 - t) & 7], f = v[(5 - t) & 7], g = v[(6 - t) & 7];
    uint32_t *d = &v[(3 - t) & 7], *h = &v[(7 - t) & 7];
    uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
    uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
    uint32_t t1 = *h + s1 + ((e & f) ^ (~e & g)) + kw;
    *d += t1;
    *h = t1 + s0 + ((a & b) ^ (a & c) ^ (b & c));
}

static void compress_block(uint32_t state[8], const uint8_t block[64]) {
    uint32_t w[64], v[8];
    for (unsigned t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
               (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
    for (unsigned t = 16; t < 64; t++) {
        uint32_t s0 = rotate_right(w[t - 15], 7) ^ rotate_right(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotate_right(w[t - 2], 17) ^ rotate_right(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
    memcpy(v, state, sizeof v);
    for (unsigned t = 0; t < 64; t += 8) {
        one_round(v, 0, k[t] + w[t]);
        one_round(v, 1, k[t + 1] + w[t + 1]);
        one_round(v, 2, k[t + 2] + w[t + 2]);
        one_round(v, 3, k[t + 3] + w[t + 3]);
        one_round(v, 4, k[t + 4] + w[t + 4]);
        one_round(v, 5, k[t + 5] + w[t + 5]);
        one_round(v, 6, k[t + 6] + w[t + 6]);
        one_round(v, 7, k[t + 7] + w[t + 7]);
    }
    for (unsigned i = 0; i < 8; i++) state[i] += v[i];
}

#if defined(__x86_64__)
static bool has_instructions(void) {
    static atomic_int known; /* 1: no, 2: yes */
    int has = atomic_load(&known);
    if (has == 0) {
        has = sw_sha256_has_instructions() ? 2 : 1;
        atomic_store(&known, has);
    }
    return has == 2;
}
#endif

static void compress(uint32_t state[8], const uint8_t *blocks, size_t n_blocks) {
#if defined(__x86_64__)
    if (has_instructions()) {
        sw_sha256_blocks_by_instructions(state, k, blocks, n_blocks);
        return;
    }
#endif
    for (size_t i = 0; i < n_blocks; i++) compress_block(state, blocks + 64 * i);
}

void sw_sha256_init(sw_sha256 *s) {
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->state, initial, sizeof initial);
    s->bytes = 0;
}

void sw_sha256_update(sw_sha256 *s, const void *data, size_t size) {
    const uint8_t *at = data;
    while (size > 0) {
        size_t filled = (size_t)(s->bytes % 64), n = 64 - filled < size ? 64 - filled : size;
        if (filled == 0 && n == 64) {
            n = size / 64 * 64;
            compress(s->state, at, n / 64);
        } else {
            memcpy(s->block + filled, at, n);
            if (filled + n == 64) compress(s->state, s->block, 1);
        }
        s->bytes += n, at += n, size -= n;
    }
}

void sw_sha256_final(sw_sha256 *s, char hex[SW_SHA256_HEX_BYTES]) {
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = s->bytes * 8;
    size_t filled = (size_t)(s->bytes % 64);
    sw_sha256_update(s, padding, filled < 56 ? 56 - filled : 120 - filled);
    uint8_t length[8];
    for (unsigned i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sw_sha256_update(s, length, sizeof length);
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < 64; i++) hex[i] = digits[s->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[64] = '\0';
}
