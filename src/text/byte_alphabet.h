/* byte_alphabet.h: how byte-level BPE writes bytes as visible characters in its vocabulary.
 *
 * Printable bytes (0x21-0x7E, 0xA1-0xAC, 0xAE-0xFF) are the character of that number; the other 68, in order,
 * are U+0100, U+0101, ...: a space is U+0120. Source: bytes_to_unicode in OpenAI's gpt-2 (src/encoder.py). */
#ifndef SW_TEXT_BYTE_ALPHABET_H
#define SW_TEXT_BYTE_ALPHABET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum { SW_BYTE_CHAR_MAX = 2 }; /* bytes of one of these characters in UTF-8, at most */

/* Writes the byte's character; returns its size, 1 or 2. */
size_t sw_byte_to_char(uint8_t byte, char out[SW_BYTE_CHAR_MAX]);

/* Turns text of these characters back into bytes at out (room for text.size); false, and *out_size
 * unspecified, where it has another character. */
bool sw_chars_to_bytes(sw_span text, char *out, size_t *out_size);

#endif
