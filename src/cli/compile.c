/* compile.c: a checkpoint to a bundle: load, repair, build, calibrate, quantize, verify, lower,
 * write.
 *
 * Each step is a function of the job below, in this order in `steps`; the table at the end says what each
 * took. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "cli/advise.h"
#include "cli/cli.h"
#include "cli/evaluate.h"
#include "cli/lower.h"
#include "cli/plan.h"
#include "cli/prepared_cache.h"
#include "cli/report.h"
#include "cli/self_check.h"
#include "cli/target.h"
#include "cli/tune.h"
#include "graph/verify.h"
#include "qnn/binary_info.h"
#include "qnn/htp.h"
#include "quant/ranges_json.h"
#include "quant/sink.h"
#include "soc/soc.h"
#include "soc/spill_fill.h"

static const double least_seconds_shown = 0.005;

typedef struct job {
    const sw_options *options;
    uint64_t start_us;
    sw_target target;
    uint32_t n_shards; /* as asked for, or the fewest that a device can load */
    sw_compile_memory memory;
    sw_arena arena;
    sw_checkpoint checkpoint;
    sw_calibration calibration;
    sw_quantized_model quantized;
    bool is_prepare;      /* for the CPU device alone: no report on accuracy */
    sw_prepared prepared; /* of the cache; no folder: none */
    sw_evaluation_texts texts;
    bool slc[SW_MAX_KINDS]; /* of the target's kinds */
    bool slc_auto;          /* as the advisor says */
    sw_decoder decoder;
    sw_bundle_writer *writer;
    sw_manifest manifest;
    sw_lowering lowering;
    double tune_seconds;
    uint64_t peak_bytes;     /* of all steps so far, with the processes that compile */
    uint64_t own_peak_bytes; /* of this process alone */
} job;

/* --use_slc_allocator: bare is all; else all, none, auto, or names of graphs. */
static sw_code choose_slc(job *j, sw_error *err) {
    const char *list = j->options->slc;
    if (!j->options->slc_given || strcmp(list, "none") == 0) return SW_OK;
    j->slc_auto = strcmp(list, "auto") == 0; /* off first: the advisor needs the compiler's figures */
    if (j->slc_auto) return SW_OK;
    bool all = list[0] == '\0' || strcmp(list, "all") == 0;
    for (uint32_t i = 0; i < j->target.n_kinds; i++) j->slc[i] = all;
    for (const char *at = list; !all && *at != '\0';) {
        size_t n = strcspn(at, ",");
        bool found = false;
        for (uint32_t i = 0; i < j->target.n_kinds; i++)
            if (strlen(j->target.kinds[i].name) == n && strncmp(j->target.kinds[i].name, at, n) == 0)
                j->slc[i] = found = true;
        if (!found)
            return SW_FAIL(err, SW_INVALID_ARGUMENT,
                           "--use_slc_allocator: `%.*s`, wanted all, none, auto, or a list of %s%s", (int)n,
                           at, j->target.n_kinds > 1 ? "prefill_forward, " : "", "kv_forward");
        at += n + (at[n] == ',');
    }
    return SW_OK;
}

/* What can be said of the options together, before any file is touched. */
static sw_code check_options(job *j, sw_error *err) {
    SW_TRY(sw_target_read(&j->target, j->options, &j->arena, err));
    SW_TRY(choose_slc(j, err));
    bool slc = j->slc_auto;
    for (uint32_t i = 0; i < j->target.n_kinds; i++) slc = slc || j->slc[i];
    return sw_cli_check_target(j->target.soc, &j->target.recipe, j->target.n_kinds, slc, err);
}

/* A prompt that leaves no room for a reply is refused before the minutes are spent. */
static sw_code check_prompt(const job *j, sw_error *err) {
    const sw_options *o = j->options;
    if (o->n_prompts == 0) return SW_OK;
    sw_ids ids = {0};
    sw_code code = sw_cli_first_turn(o, j->checkpoint.tokenizer, o->prompts[0], &ids, err);
    if (code == SW_OK && ids.count >= o->max_seq_len)
        code = SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "the prompt has %zu tokens, which leaves no room for a reply: --max_seq_len is %u",
                       ids.count, o->max_seq_len);
    sw_ids_free(&ids);
    return code;
}

/* A context that no process of the HTP can load is cut into shards, or, where the number of shards was given,
 * refused before the minutes are spent. */
static sw_code check_plan(job *j, sw_error *err) {
    const sw_options *o = j->options;
    sw_planned *p = malloc(sizeof *p);
    if (p == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    sw_code code = sw_planned_make(p, j->options, &j->target, &j->checkpoint.model, err);
    if (code == SW_OK) {
        code = sw_planned_check(p, err);
        j->n_shards = p->plan.n_shards;
        j->memory = p->compile;
        if (code == SW_OK && j->options->num_sharding == 0 && j->n_shards > 1)
            sw_log(SW_LOG_INFO, "cut into %u shards: that many contexts %s, fewer %s", j->n_shards,
                   o->max_weight_buffer_mb > 0 ? "keep --max_weight_buffer_mb" : "can be loaded",
                   o->max_weight_buffer_mb > 0 ? "don't" : "can't");
        sw_log(SW_LOG_VERBOSE, "plan: %.1f MB of context binaries, the largest %.1f MB",
               (double)p->plan.context_bytes / 1e6, (double)p->plan.largest_context_bytes / 1e6);
        sw_planned_free(p);
    }
    free(p);
    return code;
}

static sw_code load(job *j, sw_error *err) {
    sw_checkpoint *c = &j->checkpoint;
    SW_TRY(sw_checkpoint_open(c, j->options, err));
    if (j->target.context_len > c->model.hparams.context_max)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--max_context_len: %u, but %s was trained for %u positions",
                       j->target.context_len, c->path, c->model.hparams.context_max);
    SW_TRY(sw_target_check_vocab(&j->target, c->model.hparams.vocab, err));
    uint32_t layers = c->model.hparams.n_layers;
    if (j->options->num_sharding > layers)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--num_sharding: %u, wanted 1 to %u: the model has %u layers",
                       j->options->num_sharding, layers < SW_MAX_SHARDS ? layers : SW_MAX_SHARDS, layers);
    SW_TRY(check_plan(j, err));
    SW_TRY(check_prompt(j, err));
    return sw_compile_memory_check(&j->memory, err);
}

/* What would end the work later, tried before the minutes are spent: Qualcomm's library and the folder. */
static sw_code open_target(job *j, sw_error *err) {
    const sw_qnn_library *library;
    SW_TRY(sw_cli_open_library(j->options, &library, err));
    return sw_bundle_writer_begin(&j->writer, j->options->artifact, err);
}

/* What compiles before have made of the same checkpoint, recipe and text. */
static sw_code look_up(job *j, sw_error *err) {
    const char *cache = j->options->grid.cache;
    if (cache == NULL) return SW_OK;
    SW_TRY(sw_prepared_find(&j->prepared, cache, &j->checkpoint, &j->calibration, &j->target.recipe,
                            j->options, !j->is_prepare, &j->arena, err));
    if (j->prepared.found)
        sw_log(SW_LOG_INFO, "cache: ranges of %llu tokens and quantized weights from %s",
               (unsigned long long)j->prepared.n_calibrated, j->prepared.folder);
    return SW_OK;
}

/* The text first: what is wrong with it shows at once. What is compared with in the end is the file's model.
 */
static sw_code repair(job *j, sw_error *err) {
    size_t most = j->checkpoint.model.hparams.context_max;
    if (most > SW_EVALUATE_MOST_TOKENS) most = SW_EVALUATE_MOST_TOKENS;
    SW_TRY(sw_calibration_read(&j->calibration, j->options, &j->checkpoint, most, err));
    SW_TRY(look_up(j, err));
    if (j->prepared.found)
        return sw_quantized_model_restore(&j->quantized, &j->target.recipe, j->options, &j->checkpoint,
                                          &j->prepared.sink, &j->prepared.ranges, err);
    return sw_quantized_model_begin(&j->quantized, &j->target.recipe, j->options, j->options->artifact,
                                    &j->checkpoint, err);
}

static sw_code build(job *j, sw_error *err) {
    sw_target_choose_forms(&j->target, j->options, &j->quantized.model->hparams);
    SW_TRY(sw_decoder_build_shards(&j->decoder, j->quantized.model, j->target.context_len, j->target.kinds,
                                   j->target.n_kinds, j->n_shards, err));
    return sw_decoder_verify(&j->decoder, err);
}

/* A model in shards is tuned by the layers of one. */
static sw_code tune(job *j, sw_error *err) {
    const uint32_t layers = j->checkpoint.model.hparams.n_layers;
    const uint32_t of_shard = j->n_shards > 1 ? (layers + j->n_shards - 1) / j->n_shards : 0;
    if (!j->options->tune) return SW_OK;
    const uint64_t start_us = sw_now_us();
    sw_code code = sw_tune(&j->target, j->options, of_shard, &j->arena, err);
    j->tune_seconds = (double)(sw_now_us() - start_us) / 1e6;
    return code;
}

static sw_code calibrate(job *j, sw_error *err) {
    if (j->prepared.found) {
        j->quantized.n_calibrated = (size_t)j->prepared.n_calibrated;
        j->quantized.n_windows = (size_t)j->prepared.n_windows;
        return SW_OK;
    }
    return sw_quantized_model_calibrate(&j->quantized, &j->calibration, &j->checkpoint, err);
}

static sw_code put_constant(void *writer, sw_tensor *t, const void *data, sw_error *err) {
    return sw_bundle_writer_put_constant(writer, t, data, err);
}

/* Types and encodings, then the constants one by one into the bundle's weights. */
static sw_code quantize(job *j, sw_error *err) {
    sw_recipe_warn_unmatched(&j->target.recipe, &j->decoder);
    SW_TRY(sw_quantize_types(&j->decoder, &j->target.recipe, j->quantized.ranges, err));
    SW_TRY(sw_sink_attach(&j->decoder, &j->quantized.sink, err));
    SW_TRY(sw_decoder_verify(&j->decoder, err)); /* a recipe that the HTP can't do ends here */
    if (j->prepared.found) {
        SW_TRY(sw_prepared_encode(&j->prepared, &j->decoder, err));
        SW_TRY(sw_bundle_writer_take_weights(j->writer, &j->decoder, j->prepared.weights,
                                             j->prepared.weights_sha256, err));
        return sw_decoder_verify(&j->decoder, err);
    }
    SW_TRY(sw_bundle_writer_begin_weights(j->writer, &j->decoder, err));
    SW_TRY(sw_quantize_constants(&j->decoder, &j->quantized, j->checkpoint.pool, true, put_constant,
                                 j->writer, err));
    SW_TRY(sw_bundle_writer_end_weights(j->writer, err));
    return sw_decoder_verify(&j->decoder, err);
}

/* How near the quantized graphs are to the float model, on the CPU device. */
static sw_code evaluate(job *j, sw_error *err) {
    const sw_calibration *c = &j->calibration;
    sw_code code = SW_OK;
    if (j->prepared.found) {
        j->texts = j->prepared.texts;
    } else if (c->held_out.n_tokens >= 3) { /* else no position has one before and one behind it */
        sw_evaluation e;
        code = sw_evaluate(&e, &j->quantized, &j->decoder, &j->checkpoint, &c->held_out, err);
        if (code == SW_OK) code = sw_evaluation_describe(&j->texts, &e, &j->target.recipe, &j->arena, err);
        sw_evaluation_free(&e);
    } else {
        j->texts.figures = "\"held_out_tokens\": 0";
    }
    SW_TRY(code);
    sw_evaluation_log(&j->texts);
    sw_quantize_report report;
    sw_quantize_get_report(&j->decoder, &report);
    j->manifest.calibration =
        sw_arena_printf(&j->arena,
                        "{\"tokens\": %zu, \"windows\": %zu, %s, \"smallest_u16_ratio\": %.6g, "
                        "\"smallest_u16_ratio_tensor\": \"%s\"}",
                        j->quantized.n_calibrated, j->quantized.n_windows, j->texts.figures,
                        report.smallest_u16_ratio, report.smallest_u16_ratio_tensor);
    return j->manifest.calibration != NULL ? SW_OK : SW_FAIL(err, SW_NO_MEMORY, "out of memory");
}

/* For compiles to come. A full disk of the cache's doesn't end a compile that is done. And with that, all
 * float weights have served. */
static sw_code keep(job *j, sw_error *err) {
    sw_error its = {SW_OK, ""};
    SW_TRY(sw_bundle_writer_hash_weights(j->writer, err)); /* late: the compiler didn't have to wait for it */
    if (j->prepared.folder != NULL && !j->prepared.found &&
        sw_prepared_keep(&j->prepared, &j->quantized, &j->decoder,
                         sw_bundle_writer_file(j->writer, SW_PART_WEIGHTS), &j->texts, &its) != SW_OK)
        sw_log(SW_LOG_WARN, "--cache: %s", its.message);
    if (!j->is_prepare) {
        for (uint32_t i = 0; i < j->decoder.n_constants; i++) /* they have the bundle's values by now */
            if (j->decoder.constants[i]->data != NULL) j->decoder.constants[i]->weight = NULL;
        sw_quantized_model_free(&j->quantized);
    }
    sw_bundle_writer_drop_pages(j->writer);
    sw_memory_trim(); /* Qualcomm's compiler needs its most in the end */
    return SW_OK;
}

/* While Qualcomm's compiler begins: what answers every prompt alike ends it at once. */
static sw_code self_check(job *j, sw_error *err) {
    return sw_self_check(&j->decoder, j->checkpoint.cpu, err);
}

static sw_code describe(job *j, sw_error *err) {
    (void)err;
    const sw_options *o = j->options;
    sw_manifest *m = &j->manifest;
    sw_manifest_init(m, &j->decoder);
    m->tool_version = SW_VERSION;
    m->recipe = j->target.recipe.name;
    m->mode = strcmp(o->model_mode, "hybrid") == 0 ? SW_MODE_HYBRID : SW_MODE_KV;
    m->prefill_ar_len = m->mode == SW_MODE_HYBRID ? o->prefill_ar_len : 0;
    m->soc_name = j->target.soc->name, m->soc_id = j->target.soc->model_id,
    m->htp_arch = j->target.soc->htp_arch;
    m->vtcm_mb = j->target.vtcm_mb;
    m->opt_level = j->target.opt_level;
    m->tuning = j->target.tuning;
    for (uint32_t i = 0; i < m->n_graphs; i++) {
        m->graphs[i].slc_allocator = j->slc[i % j->target.n_kinds];
        m->graphs[i].attention = j->target.kinds[i % j->target.n_kinds].attention;
    }
    return SW_OK;
}

/* From here on Qualcomm's compiler is at work beside this process. */
static sw_code lower(job *j, sw_error *err) {
    sw_lowering *l = &j->lowering;
    *l = (sw_lowering){.target = &j->target,
                       .decoder = &j->decoder,
                       .manifest = &j->manifest,
                       .writer = j->writer,
                       .arena = &j->arena,
                       .cache = j->options->grid.cache,
                       .compiler_bytes = j->memory.shard_bytes,
                       .slc_auto = j->slc_auto};
    SW_TRY(sw_cli_open_library(j->options, &l->library, err));
    j->manifest.weight_sharing = sw_cli_shares_weights(j->target.soc, j->target.n_kinds);
    return sw_lowering_start(l, err);
}

static sw_code finalize(job *j, sw_error *err) {
    return sw_lowering_finish(&j->lowering, err);
}

/* For compiles to come: what calibration saw. */
static sw_code keep_ranges(job *j, sw_error *err) {
    if (j->quantized.ranges == NULL) return SW_OK;
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    sw_code code = sw_ranges_write_json(j->quantized.ranges, stream, err);
    if (fclose(stream) != 0 && code == SW_OK) code = SW_FAIL(err, SW_NO_MEMORY, "ranges: out of memory");
    if (code == SW_OK) code = sw_bundle_writer_add(j->writer, SW_PART_OTHER, "ranges.json", text, size, err);
    free(text);
    return code;
}

typedef void json_writer(const sw_tokenizer *tokenizer, FILE *stream);

static sw_code add_tokenizer_part(job *j, const char *name, json_writer *writer, sw_error *err) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    writer(j->checkpoint.tokenizer, stream);
    bool failed = ferror(stream) != 0;
    sw_code code = SW_OK;
    if (fclose(stream) != 0 || failed) code = SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", name);
    if (code == SW_OK) code = sw_bundle_writer_add(j->writer, SW_PART_TOKENIZER, name, text, size, err);
    free(text);
    return code;
}

/* What a load will ask for. */
static void log_spill_fill(const sw_manifest *m) {
    char label[SW_GRAPH_LABEL_BYTES] = "", line[SW_SPILL_FILL_LINE_BYTES];
    for (uint32_t i = 0; i < m->n_graphs && label[0] == '\0'; i++)
        if (m->graphs[i].spill_fill_bytes == m->spill_fill_buffer_bytes)
            sw_manifest_graph_label(m, &m->graphs[i], label);
    sw_log(SW_LOG_DEBUG, "%s", sw_spill_fill_line(m->spill_fill_buffer_bytes, m->n_shards, label, line));
}

static sw_code write_bundle(job *j, sw_error *err) {
    SW_TRY(add_tokenizer_part(j, "tokenizer.json", sw_tokenizer_write_json, err));
    SW_TRY(add_tokenizer_part(j, "tokenizer_config.json", sw_tokenizer_write_config, err));
    sw_manifest *m = &j->manifest;
    m->compile_seconds = (double)(sw_now_us() - j->start_us) / 1e6;
    m->peak_memory_bytes = j->peak_bytes;
    SW_TRY(sw_bundle_writer_commit(j->writer, m, err));
    log_spill_fill(m);
    return SW_OK;
}

typedef struct step {
    const char *name;
    sw_code (*run)(job *j, sw_error *err);
    double seconds, cpu_seconds; /* on the clock; of this process's threads */
    uint64_t peak_bytes;         /* while it ran: of this process, and of those that compile beside it */
} step;

static void print_summary(const job *j, const step *steps, size_t n_steps, double total) {
    char line[SW_LINE_BYTES], advice[SW_ADVICE_LINE_BYTES];
    for (uint32_t i = 0; i < j->manifest.n_graphs; i++)
        sw_log(SW_LOG_INFO, "%s", sw_graph_line(&j->manifest, &j->manifest.graphs[i], line));
    for (uint32_t i = 0; i < j->manifest.n_graphs; i++)
        sw_log(SW_LOG_INFO, "%s", sw_advice_line(&j->manifest, &j->manifest.graphs[i], advice));
    sw_log(SW_LOG_INFO, "step        seconds   CPU here   peak memory");
    for (size_t i = 0; i < n_steps; i++)
        if (steps[i].seconds >= least_seconds_shown)
            sw_log(SW_LOG_INFO, "%-10s %8.2f s %8.2f s %8.0f MB", steps[i].name, steps[i].seconds,
                   steps[i].cpu_seconds, (double)steps[i].peak_bytes / 1e6);
    if (j->lowering.n_cached > 0)
        sw_log(SW_LOG_INFO, "context binaries: %u of %u from the cache, %s", j->lowering.n_cached,
               j->manifest.n_shards, j->options->grid.cache);
    const sw_lowering *l = &j->lowering;
    const sw_compile_seconds seconds =
        sw_compile_seconds_of(total, j->tune_seconds, l->seconds, l->finalize_seconds, l->call_seconds);
    sw_log(SW_LOG_INFO, "compiled into %s in %s; peak memory %.0f MB, of this process %.0f MB",
           j->options->artifact, sw_compile_seconds_line(&seconds, line), (double)j->peak_bytes / 1e6,
           (double)j->own_peak_bytes / 1e6);
}

static sw_code run_step(job *j, step *s, sw_error *err) {
    uint64_t start_us = sw_now_us();
    double cpu_seconds = sw_cpu_seconds();
    sw_peak_memory_restart();
    sw_code code = s->run(j, err);
    s->seconds = (double)(sw_now_us() - start_us) / 1e6;
    s->cpu_seconds = sw_cpu_seconds() - cpu_seconds;
    const uint64_t own = sw_peak_memory_bytes(), sum = sw_lowering_step_peak(&j->lowering);
    s->peak_bytes = sum > own ? sum : own;
    if (own > j->own_peak_bytes) j->own_peak_bytes = own;
    if (s->peak_bytes > j->peak_bytes) j->peak_bytes = s->peak_bytes;
    sw_log(SW_LOG_VERBOSE, "%s: %.2f s, CPU %.2f s, peak memory %.0f MB", s->name, s->seconds, s->cpu_seconds,
           (double)s->peak_bytes / 1e6);
    return code;
}

static sw_code run(const sw_options *options, step *steps, size_t n_steps, bool summary, sw_error *err) {
    job j = {.options = options, .is_prepare = !summary, .start_us = sw_now_us()};
    sw_code code = SW_OK;
    for (size_t i = 0; i < n_steps && code == SW_OK; i++) code = run_step(&j, &steps[i], err);
    sw_lowering_stop(&j.lowering);
    if (code != SW_OK) code = sw_compile_memory_explain(&j.memory, code, err);
    if (code == SW_OK && summary) print_summary(&j, steps, n_steps, (double)(sw_now_us() - j.start_us) / 1e6);
    sw_bundle_writer_free(j.writer);
    sw_decoder_free(&j.decoder);
    sw_quantized_model_free(&j.quantized);
    sw_prepared_free(&j.prepared);
    sw_calibration_free(&j.calibration);
    sw_checkpoint_close(&j.checkpoint);
    sw_arena_free(&j.arena);
    return code;
}

sw_code sw_cli_compile(const sw_options *options, sw_error *err) {
    step steps[] = {{.name = "check", .run = check_options},
                    {.name = "load", .run = load},
                    {.name = "tune", .run = tune},
                    {.name = "open", .run = open_target},
                    {.name = "repair", .run = repair},
                    {.name = "build", .run = build},
                    {.name = "calibrate", .run = calibrate},
                    {.name = "quantize", .run = quantize},
                    {.name = "describe", .run = describe},
                    {.name = "lower", .run = lower},
                    {.name = "self-check", .run = self_check},
                    {.name = "evaluate", .run = evaluate},
                    {.name = "keep", .run = keep},
                    {.name = "finalize", .run = finalize},
                    {.name = "write", .run = write_bundle}};
    return run(options, steps, sizeof steps / sizeof *steps, true, err);
}

sw_code sw_cli_prepare(const sw_options *options, sw_error *err) {
    step steps[] = {{.name = "check", .run = check_options}, {.name = "load", .run = load},
                    {.name = "open", .run = open_target},    {.name = "repair", .run = repair},
                    {.name = "build", .run = build},         {.name = "calibrate", .run = calibrate},
                    {.name = "quantize", .run = quantize},   {.name = "describe", .run = describe},
                    {.name = "keep", .run = keep},           {.name = "ranges", .run = keep_ranges},
                    {.name = "write", .run = write_bundle}};
    return run(options, steps, sizeof steps / sizeof *steps, false, err);
}
