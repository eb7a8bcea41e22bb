/* internal.h: what reading and writing a bundle share. */
#ifndef SW_BUNDLE_INTERNAL_H
#define SW_BUNDLE_INTERNAL_H

#include "bundle/bundle.h"

/* Where a compile gathers its parts, inside the bundle's folder. */
#define SW_PARTIAL_NAME ".spillway-partial"

/* Points every constant's data and scales at the file (misaligned ones at copies in the decoder's
 * arena); per_channel[n_constants] says which have a scale a row. Errors: SW_BAD_DATA with tensor, found and
 * wanted.
 */
sw_code sw_weights_attach(sw_decoder *decoder, const bool *per_channel, const sw_safetensors *file,
                          sw_error *err) SW_MUST_CHECK;

/* The safetensors type that holds a dtype. */
sw_st_dtype sw_weights_dtype(sw_dtype type);

/* Data of the file's tensor of that name, type and shape, at an address that its type can be read at: in the
 * map, or a copy in the decoder's arena. Errors: SW_BAD_DATA with what is there and what is wanted. */
sw_code sw_weights_find(sw_decoder *decoder, const sw_safetensors *file, const char *name, sw_st_dtype dtype,
                        uint32_t rank, const uint32_t *dims, const void **out, sw_error *err) SW_MUST_CHECK;

/* The decoder's sink as a safetensors file: "ids" I32 [n_tokens] and "kv" [layers, 2, kv_heads, n_tokens,
 * head_dim] in the KV type; and back from an open one, which then must outlive the decoder's use. The ids'
 * range and number are left to sw_decoder_verify. */
sw_code sw_bundle_sink_write(const sw_decoder *decoder, const char *path, sw_error *err) SW_MUST_CHECK;
sw_code sw_bundle_sink_attach(sw_decoder *decoder, const sw_safetensors *file, sw_error *err) SW_MUST_CHECK;

/* "<name>.scale" and "<name>.block_scale" into out. */
enum { SW_SCALE_NAME_BYTES = SW_NAME_BYTES + 16 };
void sw_weights_scale_name(char out[SW_SCALE_NAME_BYTES], const char *name);
void sw_weights_block_scale_name(char out[SW_SCALE_NAME_BYTES], const char *name);

/* How the block scales of that form are stored: type and shape. The form has blocks. */
sw_st_dtype sw_weights_block_scales(const sw_tensor *t, uint32_t dims[2]);

/* The manifest against the decoder it is about: hyperparameters, context length, graphs, KV type; and the
 * decoder's own rules. file is the manifest's, for messages. */
sw_code sw_manifest_check_decoder(const sw_manifest *m, const sw_decoder *decoder, const char *file,
                                  sw_error *err) SW_MUST_CHECK;

/* Fills err with what a path is that holds no manifest: a .pte, a GGUF file, ... Never SW_OK. */
sw_code sw_bundle_name_other(const char *path, sw_error *err);

/* SHA-256 of a mapped file; its pages are given back on the way, so that a large part costs no memory. */
void sw_hash_map(const sw_file_map *map, char hex[SW_SHA256_HEX_BYTES]);

#endif
