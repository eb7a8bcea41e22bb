/* json.h: a decoder as text: JSON (there and back) and Graphviz.
 *
 * graph.json, "format": "spillway-graph", "version": 1. Constants stand once, without their values; each
 * graph lists its tensors in order (a constant by its name alone) and its ops in the order of execution,
 * operands by name; the graphs of the first of "shards" shards stand first, which layers are whose follows
 * from their number (sw_shard_layers). An s8 matrix has "per_channel" for a scale a row, "bits": 4 where its
 * values have 4 bits, and "scales": "float_block" or "blockwise" with "block": 32 where blocks of a row have
 * their own. Floats have 9 significant digits, so that they come back bit for bit. Keys that are not known
 * are refused: the format is ours, and a version is the way to extend it. */
#ifndef SW_GRAPH_JSON_H
#define SW_GRAPH_JSON_H

#include <stdio.h>

#include "base/json.h"
#include "graph/decoder.h"

enum {
    SW_GRAPH_JSON_VERSION = 1,
    SW_GRAPH_JSON_MAX_BYTES = 256 << 20 /* of a file that is read */
};

/* Writes the decoder: hparams, context_len, constants, graphs. One line a tensor or op.
 * Errors: SW_IO (errno's text, without a path: the caller has it), SW_NO_MEMORY. */
sw_code sw_decoder_write_json(const sw_decoder *decoder, FILE *stream, sw_error *err) SW_MUST_CHECK;

/* Reads what the above wrote. Constants come without data, scales and weight: the bundle sets them;
 * *per_channel (may be NULL; in the decoder's arena, [n_constants]) says which have a scale a row. Checks
 * every type, name, index, rank and dimension, not the ops' meaning: that is sw_decoder_verify's. file is for
 * messages. On failure *decoder is empty. Errors: SW_BAD_DATA, SW_UNSUPPORTED (version), SW_NO_MEMORY. */
sw_code sw_decoder_read_json(sw_decoder *decoder, const char *file, const char *text, size_t size,
                             bool **per_channel, sw_error *err) SW_MUST_CHECK;

/* The hyperparameters alone, as both graph.json and manifest.json hold them. A new object, or NULL without
 * memory; and back. */
json_t *sw_hparams_to_json(const sw_hparams *hparams);
sw_code sw_hparams_from_json(sw_hparams *hparams, const sw_json *at, sw_error *err) SW_MUST_CHECK;

/* One graph for Graphviz's dot: a colour a family of ops, types and dims on the edges, a cluster a layer.
 * Errors: SW_IO, as above. */
sw_code sw_graph_write_dot(const sw_graph *graph, FILE *stream, sw_error *err) SW_MUST_CHECK;

#endif
