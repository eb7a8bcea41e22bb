/* checkpoint.h: the model that a command compiles or measures, opened: weights, tokenizer, and the CPU device
 * that its graphs run on. */
#ifndef SW_CLI_CHECKPOINT_H
#define SW_CLI_CHECKPOINT_H

#include "base/threads.h"
#include "cli/options.h"
#include "device/device.h"
#include "model/model.h"
#include "text/tokenizer.h"

typedef struct sw_checkpoint {
    sw_arena arena;
    const char *path;
    sw_model model;
    sw_tokenizer *tokenizer;
    sw_pool *pool;  /* of --threads */
    sw_device *cpu; /* runs on the pool */
} sw_checkpoint;

/* What --model or --decoder_model names. Errors: those of the readers; SW_BAD_DATA where tokenizer and
 * embedding differ in size; SW_INVALID_ARGUMENT where it isn't the model that --decoder_model promises. Close
 * it in every case. */
sw_code sw_checkpoint_open(sw_checkpoint *checkpoint, const sw_options *options, sw_error *err) SW_MUST_CHECK;
void sw_checkpoint_close(sw_checkpoint *checkpoint);

#endif
