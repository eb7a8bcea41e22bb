/* prepared_cache.h: what compiles before made of a checkpoint, by what they made it from: ranges, the sink,
 * quantized weights, the report on accuracy. SoC, shapes and the compiler's options take no part in it.
 *
 *   CACHE/prepared/<64 hex>.json          all but the weights, their SHA-256 and its own; written last
 *   CACHE/prepared/<64 hex>.safetensors   quantized weights, named by their SHA-256
 *
 * The first 64 digits are the SHA-256 of the checkpoint's bytes, the recipe's content, the calibration's
 * tokens, the options that change what is made of them, and the program itself. Whole files appear by
 * renaming, and what doesn't have its hash is made anew: processes may share the folder. */
#ifndef SW_CLI_PREPARED_CACHE_H
#define SW_CLI_PREPARED_CACHE_H

#include "base/sha256.h"
#include "cli/evaluate.h"

typedef struct sw_prepared_encoding {
    const char *constant;
    sw_encoding encoding;
} sw_prepared_encoding;

typedef struct sw_prepared {
    sw_arena *arena;    /* borrowed: of all that is found */
    const char *folder; /* CACHE/prepared; NULL: no cache */
    char key[SW_SHA256_HEX_BYTES], weights_sha256[SW_SHA256_HEX_BYTES];
    bool found;
    bool lacks_texts;    /* not found for that alone: it is of traffic, which makes no report on accuracy */
    const char *weights; /* their file */
    sw_ranges *ranges;   /* NULL where the recipe needs none; owned until sw_prepared_free */
    sw_sink sink;        /* f32 */
    uint64_t n_calibrated, n_windows;
    sw_prepared_encoding *encodings; /* [n_encodings] of constants that have one for all their values */
    size_t n_encodings;
    sw_evaluation_texts texts;
} sw_prepared;

/* Looks up what a compile with that recipe wants. cache: the folder, made where it is missing. What is
 * damaged is named in a warning and not found. wants_texts: an entry without a report on accuracy won't do.
 * Errors: SW_IO (the folder can't be made, the checkpoint can't be read), SW_NO_MEMORY. */
sw_code sw_prepared_find(sw_prepared *out, const char *cache, const sw_checkpoint *checkpoint,
                         const sw_calibration *calibration, const sw_recipe *recipe,
                         const sw_options *options, bool wants_texts, sw_arena *arena,
                         sw_error *err) SW_MUST_CHECK;

/* A found entry's encodings, into the decoder's constants, whose types are there. Errors: SW_BAD_DATA where
 * it lacks one. */
sw_code sw_prepared_encode(const sw_prepared *p, sw_decoder *decoder, sw_error *err) SW_MUST_CHECK;

/* Puts there what was made: q's ranges and sink, the decoder's encodings, the weights' file, and the texts
 * (empty ones are allowed). */
sw_code sw_prepared_keep(const sw_prepared *p, const sw_quantized_model *q, const sw_decoder *decoder,
                         const char *weights, const sw_evaluation_texts *texts, sw_error *err) SW_MUST_CHECK;
void sw_prepared_free(sw_prepared *p);

#endif
