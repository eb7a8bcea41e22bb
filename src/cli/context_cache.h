/* context_cache.h: context binaries of compiles before, by what they were made from.
 *
 *   CACHE/contexts/<64 hex>.bin    a shard's context binary
 *   CACHE/contexts/<64 hex>.json   its SHA-256 and what the compiler said of its graphs; written last
 *
 * The 64 digits are the SHA-256 of graphs, weights, options, SoC and library. */
#ifndef SW_CLI_CONTEXT_CACHE_H
#define SW_CLI_CONTEXT_CACHE_H

#include "base/sha256.h"
#include "bundle/bundle.h"
#include "graph/decoder.h"

typedef struct sw_context_entry {
    const char *folder; /* CACHE/contexts, borrowed */
    char key[SW_SHA256_HEX_BYTES];
} sw_context_entry;

/* What a shard's context is made from: manifest says SoC, options and graphs, weights_sha256 the decoder's
 * constants, build_id the library. */
sw_code sw_context_entry_find(sw_context_entry *out, const char *folder, const sw_decoder *decoder,
                              const sw_manifest *manifest, uint32_t shard, bool slc_auto,
                              const char *weights_sha256, const char *build_id, sw_error *err) SW_MUST_CHECK;

/* Where the cache has it whole: writes the binary to path and the figures into the shard's graphs[n]; texts
 * are in the arena. *found is false where it isn't there, and with a warning where it is damaged. */
sw_code sw_context_entry_take(const sw_context_entry *entry, const char *path, sw_manifest_graph *graphs,
                              uint32_t n, sw_arena *arena, bool *found, sw_error *err) SW_MUST_CHECK;

/* Puts the binary at path (sw_file_share), of that hash, and the graphs' figures there. */
sw_code sw_context_entry_keep(const sw_context_entry *entry, const char *path, const char *sha256,
                              const sw_manifest_graph *graphs, uint32_t n, sw_error *err) SW_MUST_CHECK;

#endif
