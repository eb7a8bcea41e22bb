/* binary_report.h: what a QNN context binary says of itself, as text and as JSON. */
#ifndef SW_CLI_BINARY_REPORT_H
#define SW_CLI_BINARY_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "cli/options.h"
#include "qnn/binary_info.h"

/* A context binary in a file: its own, or one that holds it. */
typedef struct sw_binary_source {
    const char *file;
    const uint8_t *data;
    uint64_t offset, bytes; /* of the binary in the file */
    const char *methods;    /* of the ExecuTorch program that holds it; NULL elsewhere */
} sw_binary_source;

/* Reads it in a process of its own. A record of the HTP's that this build doesn't know is refused by its
 * version. Errors: those of the library's opening and of sw_binary_info_read_apart, SW_UNSUPPORTED. */
sw_code sw_binary_report_read(const sw_options *options, const sw_binary_source *source, sw_arena *arena,
                              sw_binary_info *out, sw_error *err) SW_MUST_CHECK;

/* Whether a graph uses the SLC allocator stands in no context binary: a bundle's manifest has it. */
void sw_binary_report_print(const sw_binary_info *info, bool tensors, FILE *stream);

/* A new object, or NULL without memory. Keys: docs/inspect.md. */
json_t *sw_binary_report_json(const sw_binary_source *source, const sw_binary_info *info);

/* JSON to a stream, indented, with a newline behind. Gives the document free; NULL is "out of memory". */
sw_code sw_json_print(json_t *document, FILE *stream, sw_error *err) SW_MUST_CHECK;

#endif
