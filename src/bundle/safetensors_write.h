/* safetensors_write.h: writes a safetensors file tensor by tensor, with nothing known ahead but how much room
 * the header may need: the header is filled in last, padded with spaces so that data begin at a multiple of
 * 64 bytes. The file appears at commit, whole; whoever keeps it flushes it (sw_file_flush). */
#ifndef SW_BUNDLE_SAFETENSORS_WRITE_H
#define SW_BUNDLE_SAFETENSORS_WRITE_H

#include <jansson.h>

#include "model/safetensors.h"

typedef struct sw_safetensors_writer {
    sw_file_writer file;
    uint64_t header_bytes, data_bytes;
    json_t *header;
} sw_safetensors_writer;

/* Room that a tensor of that name takes in the header, at most. */
uint64_t sw_safetensors_header_room(const char *name);

/* header_room: sum over the tensors to come. */
sw_code sw_safetensors_writer_open(sw_safetensors_writer *w, const char *path, uint64_t header_room,
                                   sw_error *err) SW_MUST_CHECK;

/* Appends a tensor; data is dense and of its whole size. Errors: SW_INVALID_ARGUMENT (a name twice), SW_IO.
 */
sw_code sw_safetensors_writer_put(sw_safetensors_writer *w, const char *name, sw_st_dtype dtype,
                                  uint32_t rank, const uint32_t *dims, const void *data,
                                  sw_error *err) SW_MUST_CHECK;

sw_code sw_safetensors_writer_commit(sw_safetensors_writer *w, sw_error *err) SW_MUST_CHECK;
void sw_safetensors_writer_discard(sw_safetensors_writer *w); /* no-op after commit */

#endif
