/* file_kind.h: what a file looks like by its first bytes, for the sentence that refuses it. */
#ifndef SW_MODEL_FILE_KIND_H
#define SW_MODEL_FILE_KIND_H

#include <stddef.h>
#include <stdint.h>

/* "a PNG picture", "safetensors", ...; NULL where nothing is recognized. Static text. */
const char *sw_file_kind(const uint8_t *data, uint64_t size);

#endif
