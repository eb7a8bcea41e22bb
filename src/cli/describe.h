/* describe.h: all that is known of a bundle as one JSON document: what `inspect --json` prints and what
 * --report draws, so that both have the same figures. */
#ifndef SW_CLI_DESCRIBE_H
#define SW_CLI_DESCRIBE_H

#include "bundle/bundle.h"
#include "cli/binary_report.h"

typedef struct sw_context {
    sw_binary_source source;
    sw_binary_info info;
} sw_context;

/* The bundle's context binaries, hashed, read and compared with the manifest; in the bundle's arena. None
 * with a warning where Qualcomm's library isn't there and wasn't named. Errors: those of the hashing, the
 * library and the reading; SW_BAD_DATA where binary and manifest differ. */
sw_code sw_read_contexts(const sw_options *options, sw_bundle *bundle, const sw_context **out,
                         uint32_t *count, sw_error *err) SW_MUST_CHECK;

/* A new document: the manifest's keys, and beside them "contexts", "memory", "slc_model", "layers":
 * docs/inspect.md. details: with every tensor. Give it to json_decref. */
sw_code sw_describe_bundle(const sw_options *options, sw_bundle *bundle, bool details, json_t **out,
                           sw_error *err) SW_MUST_CHECK;

/* Of these: what each graph holds and moves by the memory plan, and how its activations can be placed in one
 * buffer; what the placement is, with details, block by block. */
sw_code sw_describe_memory(const sw_options *options, const sw_bundle *bundle, bool details, json_t **out,
                           sw_error *err) SW_MUST_CHECK;

/* Each layer's weights; with details its activations' encodings. NULL without memory. */
json_t *sw_describe_layers(const sw_decoder *decoder, bool details);

/* `inspect` of a GGUF file of that size, options->operand: hyperparameters, and how weights are stored;
 * --tensors: one by one. As text or JSON on stdout. Errors: sw_model_open's. */
sw_code sw_inspect_checkpoint(const sw_options *options, uint64_t file_bytes, sw_error *err) SW_MUST_CHECK;

#endif
