/* eval.c: perplexity, agreement and tasks, for the float model and for quantized ones on the CPU device.
 *
 * A window goes through each recipe before the next window does, so that the float model's logits are
 * computed once and never stored. Each result goes to the record at once. */
#include "cli/eval.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"

enum { OF_WINDOWS, OF_TASKS };

static sw_code add_recipe(sw_eval *e, const char *name, sw_error *err) {
    if (e->n_recipes == SW_EVAL_MOST_RECIPES)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--quant: more than %d recipes", SW_EVAL_MOST_RECIPES);
    for (uint32_t i = 0; i < e->n_recipes; i++)
        if (strcmp(e->recipes[i].name, name) == 0)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "--quant: `%s` twice", name);
    SW_TRY(sw_options_check_name("quant", name, err));
    sw_eval_recipe *r = &e->recipes[e->n_recipes];
    r->name = name, r->is_f32 = strcmp(name, "f32") == 0;
    if (!r->is_f32) {
        sw_code code = sw_recipe_load(&r->recipe, name, e->options->kv_bits, &e->arena, err);
        if (code != SW_OK) return sw_error_prefix(err, "--quant (f32 or a recipe)");
    }
    e->n_recipes++;
    if (r->is_f32) e->f32 = r;
    return SW_OK;
}

/* What can be said of the options before a file is opened. */
static sw_code check_options(sw_eval *e, sw_error *err) {
    const sw_options *o = e->options;
    if (o->text == NULL && o->tasks == NULL && !o->sqnr && o->plot == NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "eval: nothing to measure: wanted --text FILE, --tasks FILE or --sqnr");
    for (const char *at = o->recipes; *at != '\0' || at == o->recipes;) {
        size_t n = strcspn(at, ",");
        const char *name = sw_arena_strndup(&e->arena, at, n);
        if (name == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        SW_TRY(add_recipe(e, name, err));
        at += n;
        if (*at == ',' && *++at == '\0')
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "--quant: `%s` ends with a comma", o->recipes);
    }
    if ((o->sqnr || o->plot != NULL) && e->n_recipes == (e->f32 != NULL))
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--sqnr: compares with f32: wanted a quantized recipe in --quant");
    if (o->plot != NULL) SW_TRY(sw_sqnr_plot_check(o->plot, err));
    return SW_OK;
}

static sw_code read_text(sw_eval *e, sw_error *err) {
    if (e->options->text == NULL) return SW_OK;
    sw_arena arena = SW_ARENA_EMPTY;
    char *text;
    size_t size;
    sw_code code = sw_file_read_text(e->options->text, 256u << 20, &arena, &text, &size, err);
    if (code == SW_OK)
        code = sw_tokenizer_encode(e->checkpoint.tokenizer, (sw_span){text, size}, SW_ENCODE_START, &e->text,
                                   err);
    sw_arena_free(&arena);
    SW_TRY(code);
    size_t n = e->text.count / e->context;
    if (n == 0)
        return SW_FAIL(err, SW_BAD_DATA, "%s: %zu tokens, wanted at least --context %u", e->options->text,
                       e->text.count, e->context);
    if (e->options->chunks > n)
        sw_log(SW_LOG_WARN, "--chunks %u, but %s has %zu windows", e->options->chunks, e->options->text, n);
    else if (e->options->chunks > 0)
        n = e->options->chunks;
    e->n_windows = (uint32_t)n;
    return SW_OK;
}

static sw_code open_inputs(sw_eval *e, sw_error *err) {
    SW_TRY(sw_checkpoint_open(&e->checkpoint, e->options, err));
    uint32_t most = e->checkpoint.model.hparams.context_max;
    e->context = e->options->context != 0 ? e->options->context : most < 512 ? most : 512;
    if (e->context > most)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--context: %u, but %s was trained for %u positions",
                       e->context, e->checkpoint.path, most);
    SW_TRY(read_text(e, err));
    if (e->options->tasks != NULL)
        SW_TRY(sw_tasks_read(&e->tasks, e->options->tasks, e->checkpoint.tokenizer, most, err));
    return SW_OK;
}

static sw_code add_file(sw_sha256 *s, const char *path, sw_error *err) {
    sw_file_map map;
    SW_TRY(sw_file_map_open(&map, path, err));
    sw_sha256_update(s, map.data, (size_t)map.size);
    sw_file_map_close(&map);
    return SW_OK;
}

/* What calibration and recipe add to what a quantized result depends on. */
static sw_code add_quantization(sw_sha256 *s, const sw_options *o, const sw_eval_recipe *r, sw_error *err) {
    char text[128];
    snprintf(text, sizeof text, "|%u|%u|%s|%s|", o->kv_bits, o->calib_samples,
             o->rotate != NULL ? o->rotate : "", o->rounding != NULL ? o->rounding : "");
    sw_sha256_update(s, text, strlen(text));
    if (strchr(r->name, '.') != NULL) SW_TRY(add_file(s, r->name, err)); /* a recipe file */
    if (o->calib_text != NULL) return add_file(s, o->calib_text, err);
    size_t size;
    const char *built_in = sw_calibration_default_text(&size);
    sw_sha256_update(s, built_in, size);
    return SW_OK;
}

static sw_code make_digests(sw_eval *e, sw_error *err) {
    const sw_options *o = e->options;
    if (o->resume == NULL) return SW_OK;
    sw_sha256 model, of_kind;
    char text[64];
    sw_sha256_init(&model);
    SW_TRY(add_file(&model, e->checkpoint.path, err));
    for (int kind = 0; kind < 2; kind++) {
        const char *file = kind == OF_WINDOWS ? o->text : o->tasks;
        if (file == NULL) continue;
        of_kind = model;
        SW_TRY(add_file(&of_kind, file, err));
        snprintf(text, sizeof text, "|%s|%u", SW_VERSION, kind == OF_WINDOWS ? e->context : 0);
        sw_sha256_update(&of_kind, text, strlen(text));
        for (uint32_t i = 0; i < e->n_recipes; i++) {
            sw_sha256 s = of_kind;
            if (!e->recipes[i].is_f32) SW_TRY(add_quantization(&s, o, &e->recipes[i], err));
            sw_sha256_final(&s, e->recipes[i].digests[kind]);
        }
    }
    return SW_OK;
}

static sw_eval_key key_of(const sw_eval_recipe *r, int kind, uint32_t number) {
    return (sw_eval_key){kind == OF_WINDOWS ? "window" : "task", r->name, number, r->digests[kind]};
}

/* The first recipe that needs integers brings the calibration; the others share what they can of it. */
static sw_code quantize(sw_eval *e, sw_eval_recipe *r, sw_error *err) {
    for (uint32_t i = 0; i < e->n_recipes; i++) {
        const sw_eval_recipe *other = &e->recipes[i];
        if (other->ready && !other->is_f32 &&
            sw_quantized_model_share(&r->quantized, &r->recipe, e->options, &other->quantized))
            return sw_window_decoder_quantize(&r->decoder, &r->quantized, e->context, NULL,
                                              e->checkpoint.pool, err);
    }
    if (e->calibration.name == NULL)
        SW_TRY(sw_calibration_read(&e->calibration, e->options, &e->checkpoint, e->context, err));
    const char *scratch = getenv("TMPDIR");
    if (scratch == NULL || scratch[0] == '\0') scratch = "/var/tmp";
    SW_TRY(sw_quantized_model_begin(&r->quantized, &r->recipe, e->options, scratch, &e->checkpoint, err));
    SW_TRY(sw_quantized_model_calibrate(&r->quantized, &e->calibration, &e->checkpoint, err));
    return sw_window_decoder_quantize(&r->decoder, &r->quantized, e->context, NULL, e->checkpoint.pool, err);
}

static sw_code prepare(sw_eval *e, sw_eval_recipe *r, sw_error *err) {
    if (r->ready) return SW_OK;
    if (r->is_f32)
        SW_TRY(sw_window_decoder_build(&r->decoder, &e->checkpoint.model, NULL, e->context, err));
    else
        SW_TRY(quantize(e, r, err));
    r->ready = true;
    return SW_OK;
}

static json_t *score_to_json(const sw_score *s) {
    return json_pack("{s:i, s:f, s:f, s:i, s:i, s:f, s:f, s:f}", "positions", (int)s->positions, "nll",
                     s->nll, "nll_squares", s->nll_squares, "compared", (int)s->compared, "same_top",
                     (int)s->same_top, "kl", s->kl, "signal", s->signal, "noise", s->noise);
}

static bool score_from_json(const json_t *values, sw_score *s) {
    int positions, compared, same_top;
    if (values == NULL ||
        json_unpack((json_t *)(uintptr_t)values, "{s:i, s:F, s:F, s:i, s:i, s:F, s:F, s:F}", "positions",
                    &positions, "nll", &s->nll, "nll_squares", &s->nll_squares, "compared", &compared,
                    "same_top", &same_top, "kl", &s->kl, "signal", &s->signal, "noise", &s->noise) != 0)
        return false;
    s->positions = (uint32_t)positions, s->compared = (uint32_t)compared, s->same_top = (uint32_t)same_top;
    return positions >= 0 && compared >= 0 && same_top >= 0;
}

/* A recorded score serves where it was compared with f32, or needn't be. */
static bool have_window(const sw_eval *e, const sw_eval_recipe *r, uint32_t window, sw_score *s) {
    sw_eval_key key = key_of(r, OF_WINDOWS, window);
    if (!score_from_json(sw_eval_record_find(e->record, &key), s)) return false;
    return r->is_f32 || e->f32 == NULL || s->compared == s->positions;
}

/* Runs one recipe over one window. reference NULL: not compared. */
static sw_code run_window(sw_eval *e, sw_eval_recipe *r, const int32_t *ids, float *logits,
                          const float *reference, sw_score *s, sw_error *err) {
    SW_TRY(prepare(e, r, err));
    if (r->session == NULL) SW_TRY(sw_session_create(&r->session, &r->decoder, e->checkpoint.cpu, err));
    uint64_t start_us = sw_now_us();
    sw_session_reset(r->session);
    SW_TRY(sw_session_feed_all(r->session, ids, e->context, logits, err));
    r->seconds += (double)(sw_now_us() - start_us) / 1e6, r->n_run++;
    return sw_score_window(logits, reference, ids, e->context, sw_score_first(e->context),
                           e->checkpoint.model.hparams.vocab, e->checkpoint.pool, s, err);
}

static sw_code keep_window(sw_eval *e, sw_eval_recipe *r, uint32_t window, const sw_score *s, sw_error *err) {
    sw_eval_key key = key_of(r, OF_WINDOWS, window);
    sw_log(SW_LOG_VERBOSE, "window %u, %s: perplexity %.4f", window, r->name, sw_score_perplexity(s));
    return sw_eval_record_put(e->record, &key, score_to_json(s), err);
}

/* What of a window is missing; f32 comes first, and again where others need its logits. */
static sw_code measure_window(sw_eval *e, uint32_t window, int32_t *ids, float *exact, float *logits,
                              sw_error *err) {
    const sw_tokenizer_desc *tokenizer = sw_tokenizer_description(e->checkpoint.tokenizer);
    sw_score scores[SW_EVAL_MOST_RECIPES];
    bool have[SW_EVAL_MOST_RECIPES], all = true;
    for (uint32_t i = 0; i < e->n_recipes; i++) {
        have[i] = have_window(e, &e->recipes[i], window, &scores[i]);
        all = all && have[i];
    }
    if (!all) {
        sw_eval_window(&e->text, e->context, window, tokenizer->add_bos ? tokenizer->bos : -1, ids);
        if (e->f32 != NULL) {
            size_t i = (size_t)(e->f32 - e->recipes);
            SW_TRY(run_window(e, e->f32, ids, exact, NULL, &scores[i], err));
            if (!have[i]) SW_TRY(keep_window(e, e->f32, window, &scores[i], err));
            have[i] = true;
        }
        for (uint32_t i = 0; i < e->n_recipes; i++) {
            if (have[i]) continue;
            SW_TRY(
                run_window(e, &e->recipes[i], ids, logits, e->f32 != NULL ? exact : NULL, &scores[i], err));
            SW_TRY(keep_window(e, &e->recipes[i], window, &scores[i], err));
        }
    }
    for (uint32_t i = 0; i < e->n_recipes; i++) sw_score_add(&e->recipes[i].score, &scores[i]);
    return SW_OK;
}

void sw_eval_window(const sw_ids *text, uint32_t context, uint32_t number, int64_t bos, int32_t *out) {
    memcpy(out, text->data + (size_t)number * context, context * sizeof *out);
    if (bos >= 0) out[0] = (int32_t)bos;
}

static sw_code measure_text(sw_eval *e, sw_error *err) {
    size_t vocab = e->checkpoint.model.hparams.vocab;
    int32_t *ids = malloc(e->context * sizeof *ids);
    float *exact = malloc(e->context * vocab * sizeof *exact),
          *logits = malloc(e->context * vocab * sizeof *logits);
    sw_code code = SW_OK;
    if (ids == NULL || exact == NULL || logits == NULL)
        code = SW_FAIL(err, SW_NO_MEMORY, "no memory for the logits of %u positions", e->context);
    sw_progress progress;
    sw_progress_start(&progress, "windows", e->n_windows);
    for (uint32_t w = 0; w < e->n_windows && code == SW_OK; w++) {
        code = measure_window(e, w, ids, exact, logits, err);
        sw_progress_update(&progress, w + 1u);
    }
    sw_progress_end(&progress);
    free(ids), free(exact), free(logits);
    for (uint32_t i = 0; i < e->n_recipes; i++) {
        sw_session_destroy(e->recipes[i].session);
        e->recipes[i].session = NULL;
    }
    return code;
}

/* Whether the choice that the recipe finds likeliest is the right one. */
static sw_code answer(sw_eval *e, sw_eval_recipe *r, uint32_t number, float *logits, bool *right,
                      sw_error *err) {
    const sw_task *task = &e->tasks.tasks[number];
    sw_eval_key key = key_of(r, OF_TASKS, number);
    const json_t *known = sw_eval_record_find(e->record, &key);
    double scores[SW_MAX_CHOICES];
    int chosen;
    if (known != NULL && json_unpack((json_t *)(uintptr_t)known, "{s:i}", "chosen", &chosen) == 0) {
        *right = chosen == (int)task->answer;
        return SW_OK;
    }
    SW_TRY(prepare(e, r, err));
    if (r->session == NULL) {
        sw_decoder_free(&r->shorter);
        if (r->is_f32)
            SW_TRY(sw_window_decoder_build(&r->shorter, &e->checkpoint.model, NULL, e->tasks.longest, err));
        else
            SW_TRY(sw_window_decoder_quantize(&r->shorter, &r->quantized, e->tasks.longest, &r->decoder,
                                              e->checkpoint.pool, err));
        SW_TRY(sw_session_create(&r->session, &r->shorter, e->checkpoint.cpu, err));
    }
    SW_TRY(sw_task_run(task, r->session, e->checkpoint.model.hparams.vocab, logits, scores, err));
    json_t *list = json_array();
    chosen = 0;
    for (uint32_t i = 0; i < task->n_choices; i++) {
        if (scores[i] > scores[chosen]) chosen = (int)i;
        json_array_append_new(list, json_real(scores[i]));
    }
    *right = chosen == (int)task->answer;
    return sw_eval_record_put(e->record, &key, json_pack("{s:i, s:o}", "chosen", chosen, "scores", list),
                              err);
}

static sw_code measure_tasks(sw_eval *e, sw_error *err) {
    if (e->tasks.count == 0) return SW_OK;
    float *logits = malloc((size_t)e->tasks.longest * e->checkpoint.model.hparams.vocab * sizeof *logits);
    sw_code code = SW_OK;
    if (logits == NULL)
        code = SW_FAIL(err, SW_NO_MEMORY, "no memory for the logits of %u positions", e->tasks.longest);
    sw_progress progress;
    sw_progress_start(&progress, "tasks", (uint64_t)e->tasks.count * e->n_recipes);
    for (uint32_t i = 0; i < e->n_recipes && code == SW_OK; i++) {
        sw_eval_recipe *r = &e->recipes[i];
        for (uint32_t t = 0; t < e->tasks.count && code == SW_OK; t++) {
            bool right = false;
            code = answer(e, r, t, logits, &right, err);
            r->n_right += right;
            sw_progress_update(&progress, (uint64_t)i * e->tasks.count + t + 1);
        }
        sw_session_destroy(r->session);
        r->session = NULL;
    }
    sw_progress_end(&progress);
    free(logits);
    return code;
}

/* FILE.svg, or with several recipes FILE.<recipe, without its folder>.svg. */
static const char *plot_path(sw_eval *e, const sw_eval_recipe *r) {
    const char *path = e->options->plot, *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    if (e->n_recipes - (e->f32 != NULL) == 1) return path;
    if (dot == NULL || (slash != NULL && dot < slash)) dot = path + strlen(path);
    const char *folder_end = strrchr(r->name, '/');
    return sw_arena_printf(&e->arena, "%.*s.%s%s", (int)(dot - path), path,
                           folder_end != NULL ? folder_end + 1 : r->name, dot);
}

static sw_code measure_tensors(sw_eval *e, sw_error *err) {
    if (!e->options->sqnr && e->options->plot == NULL) return SW_OK;
    for (uint32_t i = 0; i < e->n_recipes; i++) {
        sw_eval_recipe *r = &e->recipes[i];
        if (r->is_f32) continue;
        SW_TRY(prepare(e, r, err));
        if (e->text.count == 0 && e->calibration.name == NULL)
            SW_TRY(sw_calibration_read(&e->calibration, e->options, &e->checkpoint, e->context, err));
        sw_window window =
            e->text.count > 0 ? (sw_window){e->text.data, e->context} : e->calibration.held_out;
        if (window.n_tokens == 0)
            return SW_FAIL(err, SW_INVALID_ARGUMENT,
                           "--sqnr: no text held out to measure with: wanted --text FILE");
        SW_TRY(sw_sqnr_of_model(&r->tensors, &r->quantized, &r->decoder, &e->checkpoint, &window, err));
        if (e->options->plot == NULL) continue;
        const char *path = plot_path(e, r);
        if (path == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        SW_TRY(sw_sqnr_plot(&r->tensors, r->name, path, err));
        sw_log(SW_LOG_INFO, "%s: SQNR over the layers", path);
    }
    return SW_OK;
}

sw_code sw_cmd_eval(const sw_options *options, sw_error *err) {
    sw_eval *e = calloc(1, sizeof *e);
    if (e == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    e->options = options;
    sw_code code = check_options(e, err);
    if (code == SW_OK) code = open_inputs(e, err);
    if (code == SW_OK) code = make_digests(e, err);
    if (code == SW_OK) code = sw_eval_record_open(&e->record, options->resume, err);
    if (code == SW_OK && e->n_windows > 0) code = measure_text(e, err);
    if (code == SW_OK) code = measure_tasks(e, err);
    if (code == SW_OK) code = measure_tensors(e, err);
    if (code == SW_OK) code = sw_eval_print(e, err);
    for (uint32_t i = 0; i < e->n_recipes; i++) {
        sw_eval_recipe *r = &e->recipes[i];
        sw_session_destroy(r->session);
        sw_decoder_free(&r->shorter);
        sw_decoder_free(&r->decoder);
        sw_sqnr_table_free(&r->tensors);
        if (r->quantized.shares) sw_quantized_model_free(&r->quantized);
    }
    for (uint32_t i = 0; i < e->n_recipes; i++) sw_quantized_model_free(&e->recipes[i].quantized);
    sw_eval_record_close(e->record);
    sw_tasks_free(&e->tasks);
    sw_ids_free(&e->text);
    sw_calibration_free(&e->calibration);
    sw_checkpoint_close(&e->checkpoint);
    sw_arena_free(&e->arena);
    free(e);
    return code;
}
