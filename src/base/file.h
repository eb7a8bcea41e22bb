/* file.h: read, map and replace files. */
#ifndef SW_BASE_FILE_H
#define SW_BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"

/* A read-only map of a whole regular file. */
typedef struct sw_file_map {
    const uint8_t *data; /* NULL for an empty file */
    uint64_t size;
    char *path; /* as opened, for messages; owned */
} sw_file_map;

/* Errors: SW_NOT_FOUND, SW_IO (folder, fifo, device, permission), each with the path. */
sw_code sw_file_map_open(sw_file_map *map, const char *path, sw_error *err) SW_MUST_CHECK;
void sw_file_map_close(sw_file_map *map);

/* Gives the map's resident pages back; the content stays and is read again when touched. */
void sw_file_map_drop_pages(const sw_file_map *map, uint64_t offset, uint64_t size);

/* The same for a part of a map that is known by its place alone: it must lie in one. */
void sw_file_drop_mapped(const void *data, size_t size);

/* For programs: a file that shrinks while mapped raises SIGBUS. After this call the process then says which
 * file it was and exits with status 1 (the kernel leaves no other way to go on). */
void sw_file_report_shrinking(void);

/* For programs, first of all: a standard descriptor that is closed leads to /dev/null from now on. Else the
 * next file to be opened would take its number, and what is printed would land in that file. Reading from
 * such a stdin and writing to such a stdout still fail; stderr takes everything. Errors: SW_IO. */
sw_code sw_file_fill_standard_descriptors(sw_error *err) SW_MUST_CHECK;

/* The whole file, with a zero byte behind it, in the arena; *size without that byte.
 * Errors: as sw_file_map_open; SW_BAD_DATA where it is larger than limit bytes. */
sw_code sw_file_read(const char *path, uint64_t limit, sw_arena *arena, char **out, size_t *size,
                     sw_error *err) SW_MUST_CHECK;

/* The same for text that people write: UTF-8. A byte-order mark in front is left out, and every CR LF becomes
 * LF, so that a text gives the same tokens whatever editor saved it. Errors also: SW_BAD_DATA for another
 * encoding, with the place of the first byte that isn't UTF-8. */
sw_code sw_file_read_text(const char *path, uint64_t limit, sw_arena *arena, char **out, size_t *size,
                          sw_error *err) SW_MUST_CHECK;

/* A file written beside `path` and renamed to it at commit: a reader, or a crash, sees the old file or the
 * new one. */
typedef struct sw_file_writer {
    FILE *stream;
    char *path, *temporary; /* owned */
    int interrupt;          /* the temporary file's entry (base/interrupt.h) */
    bool later; /* set it after open: commit starts what flushes to disk, but doesn't wait for it */
} sw_file_writer;

/* Errors: SW_IO where path is a folder, fifo, device or link, or where its folder can't be written to. */
sw_code sw_file_writer_open(sw_file_writer *w, const char *path, sw_error *err) SW_MUST_CHECK;
sw_code sw_file_writer_write(sw_file_writer *w, const void *data, size_t size, sw_error *err) SW_MUST_CHECK;
sw_code sw_file_writer_commit(sw_file_writer *w, sw_error *err) SW_MUST_CHECK; /* closes in every case */
void sw_file_writer_discard(sw_file_writer *w);                                /* no-op after commit */

/* open, write, commit at once. */
sw_code sw_file_replace(const char *path, const void *data, size_t size, sw_error *err) SW_MUST_CHECK;

/* The same, `later`: for a part of what is flushed as a whole in the end, by sw_file_flush of each, and for
 * what is checked by its hash whenever it is read. */
sw_code sw_file_put(const char *path, const void *data, size_t size, sw_error *err) SW_MUST_CHECK;
sw_code sw_file_flush(const char *path, sw_error *err) SW_MUST_CHECK;

/* Makes the folder and its parents; no error where it is there. */
sw_code sw_folder_make(const char *path, sw_error *err) SW_MUST_CHECK;

/* folder + "/" + name in the arena; NULL without memory. */
char *sw_path_join(sw_arena *arena, const char *folder, const char *name);

#endif
