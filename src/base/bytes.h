/* bytes.h: sizes and bytes from outside. Every + and x on a file's numbers goes through these. */
#ifndef SW_BASE_BYTES_H
#define SW_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* *out = a + b, a * b; false where the result doesn't fit (then *out is unspecified). */
static inline bool sw_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}
static inline bool sw_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

/* *out = value rounded up to a multiple of alignment (a power of two); false where it doesn't fit. */
static inline bool sw_align_u64(uint64_t value, uint64_t alignment, uint64_t *out) {
    if (!sw_add_u64(value, alignment - 1, out)) return false;
    *out &= ~(alignment - 1);
    return true;
}

/* Borrowed bytes; not terminated. */
typedef struct sw_span {
    const char *data;
    size_t size;
} sw_span;

/* Reads little-endian values from bytes [pos, size); never past the end. */
typedef struct sw_cursor {
    const uint8_t *data;
    uint64_t size, pos;
} sw_cursor;

static inline uint64_t sw_cursor_left(const sw_cursor *c) {
    return c->pos < c->size ? c->size - c->pos : 0;
}

/* Next n bytes, or NULL (and no move) where fewer are left, or where data is NULL. */
const uint8_t *sw_cursor_take(sw_cursor *c, uint64_t n);
bool sw_cursor_u8(sw_cursor *c, uint8_t *out);
bool sw_cursor_u16(sw_cursor *c, uint16_t *out);
bool sw_cursor_u32(sw_cursor *c, uint32_t *out);
bool sw_cursor_u64(sw_cursor *c, uint64_t *out);

/* True where the bytes are valid UTF-8 (no surrogates, no overlong forms); else *bad is the first bad byte.
 */
bool sw_utf8_valid(const char *text, size_t size, size_t *bad);

/* Bytes of the character at text, which ends with a zero byte; 0 where it is no UTF-8, or the end. */
size_t sw_utf8_size(const char *text);

#endif
