/* bundle.h: a compiled model on disk: a folder with
 *
 *   manifest.json                    what there is, with sizes and SHA-256: bundle/manifest.h
 *   graph-<8 hex>.json               the decoder: graph/json.h
 *   weights-<8 hex>.safetensors      its constants; a scale a row as "<name>.scale", F32; a scale a
 *                                    block as "<name>.block_scale", F16, or steps of the row's scale, U8
 *   sink-<8 hex>.safetensors         K and V of the first tokens, where the recipe wants that
 *   <name>-<8 hex>.<ending>          tokenizer, context binaries
 *
 * The 8 digits begin the part's SHA-256. So a new compile into the same folder never touches what an older
 * manifest names: until the new manifest is renamed over it the older bundle loads, from then on the new one
 * does. Other files in the folder are left alone. */
#ifndef SW_BUNDLE_BUNDLE_H
#define SW_BUNDLE_BUNDLE_H

#include "bundle/manifest.h"
#include "graph/decoder.h"
#include "model/safetensors.h"

#define SW_MANIFEST_NAME "manifest.json"

/* ---- Reading ---- */

typedef struct sw_bundle {
    sw_arena arena;
    const char *folder; /* as opened */
    sw_manifest manifest;
    sw_decoder decoder;                  /* constants' data and scales point into weights */
    sw_safetensors weights;              /* mapped */
    sw_safetensors sink;                 /* mapped; empty where the decoder has none */
    sw_file_map contexts[SW_MAX_SHARDS]; /* those that sw_bundle_map_context has mapped */
} sw_bundle;

/* Opens a bundle: manifest, graph and weights are read and checked against each other; every part is looked
 * up and its size compared. Nothing is hashed, so that it is instant. What is no bundle is named where it is
 * known: a .pte, a GGUF file, a context binary, a checkpoint, a compile that was stopped.
 * Errors: SW_NOT_FOUND, SW_IO, SW_BAD_DATA, SW_UNSUPPORTED (a later version), SW_NO_MEMORY. On failure *out
 * is empty. */
sw_code sw_bundle_open(sw_bundle *out, const char *folder, sw_error *err) SW_MUST_CHECK;

/* The same in two steps, for who has use for the parts while the graph, which takes longest, is read: the
 * manifest and the look for every part; then the rest. After a failed first step *out is empty; after a
 * failed second one close it. */
sw_code sw_bundle_open_manifest(sw_bundle *out, const char *folder, sw_error *err) SW_MUST_CHECK;
sw_code sw_bundle_read_graph(sw_bundle *bundle, sw_error *err) SW_MUST_CHECK;

void sw_bundle_close(sw_bundle *bundle); /* an empty one is allowed */

/* The index-th part of a kind, or NULL; and its path, in the bundle's arena (NULL without memory). */
const sw_part *sw_bundle_part(const sw_bundle *bundle, sw_part_kind kind, uint32_t index);
const char *sw_bundle_part_path(sw_bundle *bundle, const sw_part *part);

/* Maps a shard's context binary for as long as the bundle is open, and checks its hash on that map:
 * Qualcomm's loader crashes on flipped bytes. Errors: SW_NOT_FOUND (the bundle has none), those of
 * sw_bundle_check_part. */
sw_code sw_bundle_map_context(sw_bundle *bundle, uint32_t shard, const sw_file_map **out,
                              sw_error *err) SW_MUST_CHECK;

/* Hashes one part. Errors: SW_BAD_DATA with part and both checksums, SW_IO, SW_NOT_FOUND. */
sw_code sw_bundle_check_part(const sw_bundle *bundle, const sw_part *part, sw_error *err) SW_MUST_CHECK;

/* Hashes all parts; the first that differs is named. */
sw_code sw_bundle_verify(const sw_bundle *bundle, sw_error *err) SW_MUST_CHECK;

/* ---- Writing ---- */

/* Life: begin; parts in any order; commit; free. Parts gather in a hidden folder inside and are moved up by
 * commit. Not thread-safe. */
typedef struct sw_bundle_writer sw_bundle_writer;

/* Makes the folder, locks it (a second compile into it is refused with a sentence) and clears what a stopped
 * compile left. A manifest.json that is no bundle's is refused, not replaced. */
sw_code sw_bundle_writer_begin(sw_bundle_writer **out, const char *folder, sw_error *err) SW_MUST_CHECK;

/* The decoder's constants, one by one as they get quantized: begin; put each once, in any order, with
 * its scales already set; end. `data` is only borrowed for the call, so one buffer as
 * large as the largest constant does. end then maps what was written and points every constant's data and
 * scales at the map: valid until sw_bundle_writer_free, pages come and go as needed. */
sw_code sw_bundle_writer_begin_weights(sw_bundle_writer *w, sw_decoder *decoder, sw_error *err) SW_MUST_CHECK;
sw_code sw_bundle_writer_put_constant(sw_bundle_writer *w, const sw_tensor *t, const void *data,
                                      sw_error *err) SW_MUST_CHECK;
sw_code sw_bundle_writer_end_weights(sw_bundle_writer *w, sw_error *err) SW_MUST_CHECK;

/* Instead of begin, put and end: a copy of a file of weights that another writer wrote for the same constants
 * in the same types; sha256 is its hash. Errors also: SW_BAD_DATA where it has another hash. */
sw_code sw_bundle_writer_take_weights(sw_bundle_writer *w, sw_decoder *decoder, const char *file,
                                      const char *sha256, sw_error *err) SW_MUST_CHECK;

/* Makes the weights a part, which takes the time of their hash. Once is enough: more do nothing, commit does
 * it if nobody has. */
sw_code sw_bundle_writer_hash_weights(sw_bundle_writer *w, sw_error *err) SW_MUST_CHECK;

/* Gives the map's resident pages back; they are read again when touched. */
void sw_bundle_writer_drop_pages(const sw_bundle_writer *w);

/* A part from memory. name: "tokenizer.json", "prefill_forward.bin": letters, digits,
 * '.', '_', '-'; other characters are replaced. Context parts stand in the manifest in the order of the
 * calls. */
sw_code sw_bundle_writer_add(sw_bundle_writer *w, sw_part_kind kind, const char *name, const void *data,
                             uint64_t size, sw_error *err) SW_MUST_CHECK;

/* The same for a part that the caller, or a process of its own, writes as a file: to *path, in the writer's
 * arena; once it is whole, adopt makes it a part: *out, borrowed, which the writer has at *path of its own
 * path until the commit. NULL: not asked for. */
sw_code sw_bundle_writer_path(sw_bundle_writer *w, const char *name, const char **path,
                              sw_error *err) SW_MUST_CHECK;
sw_code sw_bundle_writer_adopt(sw_bundle_writer *w, sw_part_kind kind, const char *name, const sw_part **out,
                               sw_error *err) SW_MUST_CHECK;

/* The hash of the first part of a kind, or NULL; borrowed. And where it is until the commit: in the writer's
 * arena, NULL where there is none. Weights are one from sw_bundle_writer_hash_weights or take_weights on. */
const char *sw_bundle_writer_sha256(const sw_bundle_writer *w, sw_part_kind kind);
const char *sw_bundle_writer_file(sw_bundle_writer *w, sw_part_kind kind);

/* Writes graph.json, the decoder's sink if it has one, and the manifest (its parts and
 * spill_fill_buffer_bytes are filled here), makes the whole the folder's bundle, and deletes the parts of the
 * one before. The same checks as when opening come first.
 */
sw_code sw_bundle_writer_commit(sw_bundle_writer *w, sw_manifest *manifest, sw_error *err) SW_MUST_CHECK;

/* Without a commit before, removes what was written. NULL is allowed. */
void sw_bundle_writer_free(sw_bundle_writer *w);

#endif
