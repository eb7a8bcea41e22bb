/* checkpoint.c: opens model and tokenizer, starts the threads and the CPU device. */
#include "cli/checkpoint.h"

#include "cli/cli.h"
#include "cpu/cpu.h"
#include "runtime/load_tokenizer.h"

sw_code sw_checkpoint_open(sw_checkpoint *c, const sw_options *options, sw_error *err) {
    *c = (sw_checkpoint){0};
    SW_TRY(sw_cli_find_model(options, &c->arena, &c->path, err));
    SW_TRY(sw_model_open(&c->model, c->path, err));
    SW_TRY(sw_cli_check_model(options, &c->model, c->path, err));
    SW_TRY(sw_tokenizer_from_gguf(&c->tokenizer, c->model.gguf, err));
    size_t n_tokens = sw_tokenizer_description(c->tokenizer)->n_tokens;
    if (n_tokens != c->model.hparams.vocab)
        return SW_FAIL(err, SW_BAD_DATA, "%s: its tokenizer has %zu tokens, its embedding %u rows", c->path,
                       n_tokens, c->model.hparams.vocab);
    SW_TRY(sw_pool_create(&c->pool, options->threads, err));
    return sw_cpu_device_create(&c->cpu, c->pool, err);
}

void sw_checkpoint_close(sw_checkpoint *c) {
    if (c->cpu != NULL) c->cpu->ops->destroy(c->cpu);
    sw_pool_destroy(c->pool);
    sw_tokenizer_destroy(c->tokenizer);
    sw_model_close(&c->model);
    sw_arena_free(&c->arena);
}
