/* sha256.h: SHA-256 (FIPS 180-4), for the parts of a bundle. Our own, so that a phone needs no OpenSSL. */
#ifndef SW_BASE_SHA256_H
#define SW_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sw_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} sw_sha256;

enum { SW_SHA256_HEX_BYTES = 65 };

void sw_sha256_init(sw_sha256 *s);
void sw_sha256_update(sw_sha256 *s, const void *data, size_t size);
/* 64 lower-case digits and a zero byte. */
void sw_sha256_final(sw_sha256 *s, char hex[SW_SHA256_HEX_BYTES]);

/* Blocks of 64 bytes by the processor's own instructions, and whether it has them (sha256_shani.c); k is the
 * standard's table. */
#if defined(__x86_64__)
bool sw_sha256_has_instructions(void);
void sw_sha256_blocks_by_instructions(uint32_t state[8], const uint32_t k[64], const uint8_t *data,
                                      size_t n_blocks);
#endif

#endif
