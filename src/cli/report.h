/* report.h: lines about graphs that compile and inspect both print. */
#ifndef SW_CLI_REPORT_H
#define SW_CLI_REPORT_H

#include <stdio.h>

#include "bundle/manifest.h"

enum { SW_LINE_BYTES = 256 };

/* "prefill_forward: SLC allocator on, spill-fill 0 B, VTCM 8 MB, DDR read 142.2 MB, write 3.8 MB". DDR
 * figures are those of Qualcomm's compiler, bytes a call. Returns out. */
const char *sw_graph_line(const sw_manifest *m, const sw_manifest_graph *g, char out[SW_LINE_BYTES]);

/* "1098 ops, 36 a layer, 60 Convert (2 a layer)". */
const char *sw_ops_line(const sw_manifest_graph *g, uint32_t n_layers, char out[SW_LINE_BYTES]);

/* "8 MB", "3.8 MB", "512 B": decimal megabytes as in data rates; MiB that are whole are VTCM's. */
const char *sw_bytes_text(uint64_t bytes, char out[32]);

/* What Qualcomm's finalize took, all graphs together. */
double sw_finalize_seconds(const sw_manifest *m);

/* Where a compile's seconds went: total is the sum of the others. */
typedef struct sw_compile_seconds {
    double total, tuning, finalize, calls, own; /* calls: the library's others */
} sw_compile_seconds;

/* tuning: all of it, its compiles too. finalize and calls: of all shards together. beside: how long the
 * compiler was at work on them. Shards that are compiled side by side count no more than that, their finalize
 * first. */
sw_compile_seconds sw_compile_seconds_of(double total, double tuning, double beside, double finalize,
                                         double calls);

/* "24.1 s: Qualcomm's finalize 19.8 s, its other calls 1.7 s, ours 2.6 s (13 % of finalize)", with "tuning
 * 9.0 s, " before where there was any. Returns out. */
const char *sw_compile_seconds_line(const sw_compile_seconds *s, char out[SW_LINE_BYTES]);

/* The whole description of a compiled bundle. */
void sw_manifest_print(const sw_manifest *m, FILE *stream);

#endif
