/* file_copy.h: a copy of a file, and what was copied. */
#ifndef SW_BASE_FILE_COPY_H
#define SW_BASE_FILE_COPY_H

#include "base/file.h"
#include "base/sha256.h"

/* Copies `from` to `to` as sw_file_put writes; sha256 is that of the bytes that were written. Takes a few MB
 * of memory whatever the size. Errors: as sw_file_map_open and sw_file_put. */
sw_code sw_file_copy(const char *from, const char *to, char sha256[SW_SHA256_HEX_BYTES],
                     sw_error *err) SW_MUST_CHECK;

/* The content of `from` under another name: the same file by a second name, or else a copy. A file that was
 * at `to` is replaced. Neither name must be written through from now on, only replaced. Errors: as
 * sw_file_copy. */
sw_code sw_file_share(const char *from, const char *to, sw_error *err) SW_MUST_CHECK;

/* The hash alone. */
sw_code sw_file_hash(const char *path, char sha256[SW_SHA256_HEX_BYTES], sw_error *err) SW_MUST_CHECK;

/* Adds a file's bytes to a hash. */
sw_code sw_file_add_to_hash(const char *path, sw_sha256 *s, sw_error *err) SW_MUST_CHECK;

#endif
