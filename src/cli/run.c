/* run.c: a chat with a bundle: the reply to stdout as it comes, all figures to stderr. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/errand.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/trace.h"
#include "cli/cli.h"

/* Where a bundle's tokenizer is; in its arena. */
typedef struct tokenizer_files {
    const char *tokenizer, *config;
} tokenizer_files;

static sw_code find_tokenizer(sw_bundle *bundle, tokenizer_files *out, sw_error *err) {
    const sw_part *tokenizer = sw_bundle_part(bundle, SW_PART_TOKENIZER, 0);
    const sw_part *config = sw_bundle_part(bundle, SW_PART_TOKENIZER, 1);
    if (tokenizer == NULL || config == NULL)
        return SW_FAIL(err, SW_NOT_FOUND, "%s: the bundle has no tokenizer", bundle->folder);
    out->tokenizer = sw_bundle_part_path(bundle, tokenizer),
    out->config = sw_bundle_part_path(bundle, config);
    if (out->tokenizer != NULL && out->config != NULL) return SW_OK;
    return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
}

/* One that doesn't fit is destroyed. */
static sw_code check_tokenizer(const sw_bundle *bundle, const char *path, sw_tokenizer **tokenizer,
                               sw_error *err) {
    size_t n_tokens = sw_tokenizer_description(*tokenizer)->n_tokens;
    if (n_tokens == bundle->decoder.hparams.vocab) return SW_OK;
    sw_tokenizer_destroy(*tokenizer);
    *tokenizer = NULL;
    return SW_FAIL(err, SW_BAD_DATA, "%s: has %zu tokens, the bundle's graphs have %u", path, n_tokens,
                   bundle->decoder.hparams.vocab);
}

sw_code sw_cli_bundle_tokenizer(sw_bundle *bundle, sw_tokenizer **out, sw_error *err) {
    tokenizer_files files;
    SW_TRY(find_tokenizer(bundle, &files, err));
    SW_TRY(sw_tokenizer_load_files(out, files.tokenizer, files.config, err));
    return check_tokenizer(bundle, files.tokenizer, out, err);
}

sw_code sw_cli_first_turn(const sw_options *options, const sw_tokenizer *tokenizer, const char *prompt,
                          sw_ids *ids, sw_error *err) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_span text = sw_span_of(prompt);
    bool has_system = options->system_prompt != NULL;
    const sw_chat_message messages[2] = {
        {sw_span_of("system"), sw_span_of(has_system ? options->system_prompt : "")},
        {sw_span_of("user"), text}};
    sw_code code = SW_OK;
    if (!options->raw)
        code = sw_chat_render(sw_tokenizer_description(tokenizer)->chat_template, messages + !has_system,
                              1u + has_system, 0, true, &arena, &text, err);
    if (code == SW_OK)
        code = sw_tokenizer_encode(tokenizer, text, SW_ENCODE_SPECIAL | SW_ENCODE_START, ids, err);
    if (code == SW_OK && ids->count == 0)
        code = SW_FAIL(err, SW_INVALID_ARGUMENT, "the prompt has no token, wanted at least one");
    sw_arena_free(&arena);
    return code;
}

static sw_code print_text(void *context, sw_span text, sw_error *err) {
    (void)context;
    if (fwrite(text.data, 1, text.size, stdout) == text.size && fflush(stdout) == 0) return SW_OK;
    return SW_FAIL(err, SW_IO, "stdout: can't write: %s", strerror(errno));
}

static double per_second(uint64_t count, uint64_t us) {
    return us > 0 ? (double)count * 1e6 / (double)us : 0;
}

static void print_figures(const sw_turn_stats *stats, uint64_t load_us, const char *device) {
    uint64_t steps = stats->generated_tokens > 0 ? stats->generated_tokens - 1 : 0;
    sw_log(SW_LOG_INFO, "device: %s", device);
    sw_log(SW_LOG_INFO, "prompt: %llu tokens, prefill %.1f tokens/s",
           (unsigned long long)stats->prompt_tokens, per_second(stats->prompt_tokens, stats->prefill_us));
    sw_log(SW_LOG_INFO, "generated: %llu tokens, decode %.1f tokens/s%s",
           (unsigned long long)stats->generated_tokens, per_second(steps, stats->decode_us),
           stats->ended ? "" : ", up to max_seq_len");
    sw_log(SW_LOG_INFO, "time to first token %.3f s, load time %.3f s, peak memory %.1f MB",
           (double)stats->prefill_us / 1e6, (double)load_us / 1e6, (double)sw_peak_memory_bytes() / 1e6);
}

static sw_code chat(const sw_options *options, sw_chat *c, uint64_t load_us, const char *device,
                    sw_error *err) {
    sw_run_stats all = {.device = device, .load_us = load_us};
    if (options->system_prompt != NULL) SW_TRY(sw_chat_set_system(c, options->system_prompt, err));
    for (uint32_t i = 0; i < options->n_prompts; i++) {
        sw_turn_stats *stats = &all.turns[all.n_turns++];
        sw_trace_span span = sw_trace_begin("turn", "turn", NULL);
        sw_code code = sw_chat_turn(c, options->prompts[i], print_text, NULL, stats, err);
        sw_trace_end(span);
        SW_TRY(code);
        SW_TRY(print_text(NULL, (sw_span){"\n", 1}, err));
        print_figures(stats, load_us, device);
        if (options->stats != NULL) SW_TRY(sw_cli_write_stats(options->stats, &all, err));
    }
    return SW_OK;
}

sw_code sw_cli_check_top_k(const sw_options *options, uint32_t candidates, sw_error *err) {
    if (candidates == 0 || options->top_k <= candidates) return SW_OK;
    return SW_FAIL(err, SW_INVALID_ARGUMENT,
                   "--top_k: %llu, wanted at most %u: the graphs hand out no more (--logits topk:%u)",
                   (unsigned long long)options->top_k, candidates, candidates);
}

/* The tokenizer takes as long to read as the graph and the session to make, and knows nothing of them. */
typedef struct reading {
    sw_errand errand;
    tokenizer_files files;
    sw_tokenizer *tokenizer;
} reading;

static sw_code read_tokenizer(void *context, sw_error *err) {
    reading *r = context;
    return sw_tokenizer_load_files(&r->tokenizer, r->files.tokenizer, r->files.config, err);
}

static sw_code start_reading(reading *r, sw_bundle *bundle, sw_error *err) {
    SW_TRY(find_tokenizer(bundle, &r->files, err));
    sw_errand_start(&r->errand, read_tokenizer, r);
    return SW_OK;
}

static sw_code finish_reading(reading *r, const sw_bundle *bundle, sw_error *err) {
    SW_TRY(sw_errand_finish(&r->errand, err));
    return check_tokenizer(bundle, r->files.tokenizer, &r->tokenizer, err);
}

/* Answers options->prompts: text to stdout, figures to stderr. */
static sw_code run_chat(const sw_options *options, sw_bundle *bundle, reading *r, sw_error *err) {
    uint64_t start_us = sw_now_us();
    uint32_t context_len = bundle->decoder.context_len;
    sw_pool *pool = NULL;
    sw_device *device = NULL;
    sw_session *session = NULL;
    sw_sampler sampler = {0};
    sw_chat c = {.max_seq_len = options->max_seq_len < context_len ? options->max_seq_len : context_len,
                 .raw = options->raw,
                 .show_progress = true};
    sw_sampler_params params = {.temperature = options->temperature,
                                .top_k = (int64_t)options->top_k,
                                .top_p = options->top_p,
                                .seed = options->seed};
    const uint32_t candidates = sw_decoder_candidates(&bundle->decoder);
    sw_code code = sw_cli_check_top_k(options, candidates, err);
    if (params.top_k == 0 && candidates > 0) {
        params.top_k = candidates;
        if (params.temperature > 0)
            sw_log(SW_LOG_INFO, "tokens are drawn from the %u likeliest: the graphs hand out no more",
                   candidates);
    }
    if (code == SW_OK) code = sw_sampler_init(&sampler, &params, err);
    if (code == SW_OK) code = sw_pool_create(&pool, options->threads, err);
    if (code == SW_OK) code = sw_cli_open_device(options, bundle, options->run_on, pool, &device, err);
    if (code == SW_OK) code = sw_session_create(&session, &bundle->decoder, device, err);
    if (code == SW_OK) code = finish_reading(r, bundle, err);
    if (code == SW_OK && options->max_seq_len > context_len)
        sw_log(SW_LOG_VERBOSE, "max_seq_len %u is more than the bundle's context: %u tokens are the limit",
               options->max_seq_len, context_len);
    c.session = session, c.sampler = &sampler;
    if (code == SW_OK) c.tokenizer = r->tokenizer; /* else it may still be on its way */
    if (options->trace != NULL) sw_trace_start();
    if (code == SW_OK) code = chat(options, &c, sw_now_us() - start_us, device->ops->name, err);
    sw_code traced = sw_trace_write(code == SW_OK ? options->trace : NULL, code == SW_OK ? err : NULL);
    if (code == SW_OK) code = traced;
    if (device != NULL) sw_cli_print_profile(options, bundle, device);
    sw_chat_free(&c);
    sw_session_destroy(session);
    if (device != NULL) device->ops->destroy(device);
    sw_pool_destroy(pool);
    sw_sampler_deinit(&sampler);
    return code;
}

/* What can be said of --trace before any work; of its file, see outputs.c. */
sw_code sw_cli_check_trace(const sw_options *options, sw_error *err) {
    if (options->trace == NULL) return SW_OK;
    if (options->compile_only)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--trace: is of a run, and --compile_only runs nothing");
    if (sw_cli_on_device(options) || strcmp(options->run_on, "cpu") != 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--trace: the CPU device here tells what it does op by op, others don't: wanted "
                       "--run_on cpu (the HTP has --profile)");
    return SW_OK;
}

/* Options of a phone or of the HTP, given to a run that has neither: the reply would pass for theirs. */
static void warn_of_unused(const sw_options *o) {
    const struct {
        bool given, of_htp;
        const char *option, *wanted;
    } all[] = {
        {o->build_folder != NULL, false, "-b", "-s SERIAL, -H HOST or --run_on adb"},
        {o->adb != NULL, false, "--adb", "-s SERIAL, -H HOST or --run_on adb"},
        {o->device_dir != NULL, false, "--device_dir", "-s SERIAL, -H HOST or --run_on adb"},
        {o->clean_device, false, "--clean_device", "-s SERIAL, -H HOST or --run_on adb"},
        {o->profile, true, "--profile", "--run_on htp or adb (the CPU device has --trace)"},
        {o->force_slc != NULL, true, "--force_slc", "--run_on htp or adb"},
    };
    if (sw_cli_on_device(o)) return;
    bool htp = strcmp(o->run_on, "htp") == 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given && !(all[i].of_htp && htp))
            sw_log(SW_LOG_WARN, "%s: does nothing here, where %s answers: wanted %s too", all[i].option,
                   o->run_on, all[i].wanted);
}

sw_code sw_cli_answer(const sw_options *options, const char *folder, sw_error *err) {
    sw_bundle bundle;
    reading r = {0};
    const bool here = !sw_cli_on_device(options);
    SW_TRY(sw_cli_check_trace(options, err));
    warn_of_unused(options);
    SW_TRY(sw_bundle_open_manifest(&bundle, folder, err));
    sw_code code = here ? start_reading(&r, &bundle, err) : SW_OK;
    if (code == SW_OK) code = sw_bundle_read_graph(&bundle, err);
    if (code == SW_OK)
        code = here ? run_chat(options, &bundle, &r, err) : sw_cli_deploy(options, &bundle, err);
    (void)sw_errand_finish(&r.errand, NULL); /* where something else failed before */
    sw_tokenizer_destroy(r.tokenizer);
    sw_bundle_close(&bundle);
    return code;
}

sw_code sw_cmd_generate(const sw_options *options, sw_error *err) {
    if (options->n_prompts == 0) return SW_FAIL(err, SW_INVALID_ARGUMENT, "generate: wants --prompt TEXT");
    return sw_cli_answer(options, options->operand, err);
}
