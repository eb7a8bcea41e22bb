/* manifest.h: manifest.json, what a bundle says of itself: "format": "spillway-bundle", "version": 1.
 * A plain struct with a writer and a reader; every key but `tuning` is needed, and every unknown one refused.
 */
#ifndef SW_BUNDLE_MANIFEST_H
#define SW_BUNDLE_MANIFEST_H

#include "base/sha256.h"
#include "graph/json.h"
#include "soc/slc_advisor.h"
#include "soc/soc.h"

#define SW_MANIFEST_FORMAT "spillway-bundle"

enum {
    SW_MANIFEST_VERSION = 1,
    SW_MANIFEST_MAX_BYTES = 4 << 20,
    SW_MAX_PARTS = 256,
    SW_MAX_PART_PATH_BYTES = 200
};

/* Kinds of parts: enumerator, name, fewest, most. */
#define SW_PART_KINDS(X)                                                                                     \
    X(SW_PART_GRAPH, "graph", 1, 1)         /* the decoder: graph/json.h */                                  \
    X(SW_PART_WEIGHTS, "weights", 1, 1)     /* safetensors: the constants and their scales */                \
    X(SW_PART_TOKENIZER, "tokenizer", 0, 4) /* text's formats; the first one is the tokenizer itself */      \
    X(SW_PART_CONTEXT, "context", 0, 64)    /* QNN context binaries, in the order of the layers */           \
    X(SW_PART_SINK, "sink", 0, 1)           /* safetensors: K and V of every context's first tokens */       \
    X(SW_PART_OTHER, "other", 0, 64)        /* carried along: a licence, a note */

typedef enum sw_part_kind {
#define SW_PART_KIND_ENUM(id, name, least, most) id,
    SW_PART_KINDS(SW_PART_KIND_ENUM)
#undef SW_PART_KIND_ENUM
        SW_PART_KIND_COUNT
} sw_part_kind;

const char *sw_part_kind_name(sw_part_kind kind);

typedef struct sw_part {
    sw_part_kind kind;
    const char *path; /* a file name in the bundle's folder: no '/', not hidden */
    uint64_t bytes;
    char sha256[SW_SHA256_HEX_BYTES];
} sw_part;

typedef enum sw_model_mode { SW_MODE_HYBRID, SW_MODE_KV, SW_MODE_COUNT } sw_model_mode; /* llama.py's words */
const char *sw_model_mode_name(sw_model_mode mode);                                     /* "hybrid", "kv" */
bool sw_model_mode_from_name(const char *name, sw_model_mode *out);

/* The compiler's DDR summary of one graph, bytes a call. */
typedef struct sw_ddr {
    bool known;
    uint64_t spill, fill, read, write;
} sw_ddr;

typedef struct sw_manifest_graph { /* in the order of the decoder's graphs */
    const char *name;
    uint32_t shard;
    uint32_t ar_len;
    sw_attention_form attention; /* which form the builder made, so that a phone can decide between forms */
    uint32_t head_pieces;        /* in which a row of logits is computed; 1, or not said: whole */
    bool slc_allocator;
    sw_slc_verdict slc_verdict;            /* the advisor's, see soc/slc_advisor.h */
    const char *slc_reason;                /* in one sentence; NULL where it was not asked */
    uint64_t spill_fill_bytes, vtcm_bytes; /* as the context binary says; 0 where none was compiled */
    sw_ddr ddr;
    uint32_t op_counts[SW_OP_COUNT];
    double finalize_seconds;
} sw_manifest_graph;

typedef struct sw_manifest {
    const char *tool_version; /* "0.1.0" */
    sw_hparams hparams;
    const char *recipe; /* "16a8w" */
    sw_dtype kv_type;
    sw_model_mode mode;
    uint32_t context_len, prefill_ar_len; /* prefill_ar_len: hybrid only, else 0 */
    const char *soc_name;                 /* "SM8750" */
    uint32_t soc_id, htp_arch;            /* 69, 79 */
    uint32_t vtcm_mb, opt_level;
    const char *qnn_build_id; /* of the library that compiled the contexts; NULL: there are none */
    bool weight_sharing;
    uint32_t n_shards; /* also the number of context parts, where there are any */
    sw_manifest_graph graphs[SW_MAX_GRAPHS];
    uint32_t n_graphs;
    uint64_t spill_fill_buffer_bytes; /* what a load asks for: the largest of the graphs' */
    double compile_seconds;           /* of the whole command up to here */
    uint64_t peak_memory_bytes;       /* of the compiling process */
    const char *calibration;          /* a JSON object, free in form; NULL for {} */
    const char *tuning; /* what compile --tune tried (cli/tune.h), free in form; NULL: nothing */
    sw_part *parts;
    uint32_t n_parts;
} sw_manifest;

/* The SoC that a bundle is for: the table's, or as it was given to the compile. Its name is the manifest's.
 */
sw_soc sw_manifest_soc(const sw_manifest *m);

/* What follows from a decoder: hparams, kv_type, context_len, shards, graphs with names, AR lengths, op
 * counts. The rest is zero for the caller to fill. Texts are borrowed from the decoder. */
void sw_manifest_init(sw_manifest *m, const sw_decoder *decoder);

/* To text in the arena, checked as a reader would: a manifest that can't be read is not written. */
sw_code sw_manifest_write(const sw_manifest *m, sw_arena *arena, char **text, size_t *size,
                          sw_error *err) SW_MUST_CHECK;

/* From text; strings, parts and calibration in the arena. file is for messages.
 * Errors: SW_BAD_DATA with the key's path and value, SW_UNSUPPORTED (version), SW_NO_MEMORY. */
sw_code sw_manifest_read(sw_manifest *m, sw_arena *arena, const char *file, const char *text, size_t size,
                         sw_error *err) SW_MUST_CHECK;

/* Before a context goes to Qualcomm's loader: was it compiled for this SoC, with a library not newer than the
 * one that loads? soc_id and htp_arch 0: not known, not compared. library_build_id: "v2.51.0.260929181845".
 * vtcm_mb: the SoC's, 0 not known. Errors: SW_INVALID_ARGUMENT with both values and what to compile again
 * with. */
sw_code sw_manifest_check_target(const sw_manifest *m, uint32_t soc_id, uint32_t htp_arch, uint32_t vtcm_mb,
                                 const char *library_build_id, sw_error *err) SW_MUST_CHECK;

/* What the context binary says of itself, and of a graph, against what the manifest says. SW_BAD_DATA with
 * both values. soc_id and htp_arch 0: the binary doesn't say. */
sw_code sw_manifest_check_binary(const sw_manifest *m, const char *build_id, uint32_t soc_id,
                                 uint32_t htp_arch, sw_error *err) SW_MUST_CHECK;
sw_code sw_manifest_check_spill(const sw_manifest *m, uint32_t shard, const char *graph,
                                uint64_t binary_spill_fill_bytes, sw_error *err) SW_MUST_CHECK;

/* "shard 1 prefill_forward"; the bare name where there is one shard. Returns out. */
enum { SW_GRAPH_LABEL_BYTES = SW_NAME_BYTES + 24 };
const char *sw_manifest_graph_label(const sw_manifest *m, const sw_manifest_graph *g,
                                    char out[SW_GRAPH_LABEL_BYTES]);

#endif
