/* file_room.h: a new file as memory, for what a library writes to a place of the caller's: it goes into the
 * file's own pages and is copied nowhere. */
#ifndef SW_BASE_FILE_ROOM_H
#define SW_BASE_FILE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "spillway/error.h"

typedef struct sw_file_room {
    uint8_t *data; /* [size], zeros at first */
    uint64_t size;
    const char *path; /* borrowed */
    int fd;
    bool mapped; /* else plain memory, which finish writes: some file systems have no shared maps */
} sw_file_room;

/* size > 0. Replaces a file that is there. What the file needs of the disk is taken at once: that the disk is
 * full shows here, not when `data` is written to. Errors: SW_IO, SW_NO_MEMORY; the file may be left. */
sw_code sw_file_room_open(sw_file_room *room, const char *path, uint64_t size, sw_error *err) SW_MUST_CHECK;

/* `data` is written: from here on others find the file, of `used` bytes. Errors: SW_IO. */
sw_code sw_file_room_finish(sw_file_room *room, uint64_t used, sw_error *err) SW_MUST_CHECK;

/* Begins to flush the file to disk without waiting for it (sw_file_flush does); `data` is gone. No-op on a
 * zeroed or closed one. */
void sw_file_room_close(sw_file_room *room);

#endif
