/* sha256.h: SHA-256 (FIPS 180-4), for the parts of a bundle. Our own, so that a phone needs no OpenSSL. */
#ifndef SW_BASE_SHA256_H
#define SW_BASE_SHA256_H

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

#endif
