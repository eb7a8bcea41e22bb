/* evaluate.c: one window, all logits at once: the float model first, then the quantized graph. */
#include "cli/evaluate.h"

#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "quant/window.h"
#include "runtime/session.h"

/* A perplexity of this and more is what text gets that the model doesn't know at all. */
static const double hopeless_perplexity = 1000;

/* observer NULL: none. */
static sw_code run(const sw_decoder *decoder, const sw_checkpoint *checkpoint, const sw_window *window,
                   sw_observer *observer, float *logits, sw_error *err) {
    sw_session *session;
    SW_TRY(sw_session_create(&session, decoder, checkpoint->cpu, err));
    if (observer != NULL) sw_session_observe(session, observer, NULL);
    sw_code code = sw_session_feed_all(session, window->ids, window->n_tokens, logits, err);
    sw_session_destroy(session);
    return code;
}

static sw_code score(sw_evaluation *out, const sw_quantized_model *q, const sw_decoder *constants,
                     const sw_checkpoint *checkpoint, const sw_window *window, sw_error *err) {
    uint32_t n = window->n_tokens, first = sw_score_first(n);
    size_t vocab = checkpoint->model.hparams.vocab;
    float *exact = malloc(n * vocab * sizeof *exact), *quantized = malloc(n * vocab * sizeof *quantized);
    sw_decoder decoder = {0};
    sw_code code = SW_OK;
    if (exact == NULL || quantized == NULL)
        code = SW_FAIL(err, SW_NO_MEMORY, "no memory for the logits of %u positions", n);
    if (code == SW_OK) code = sw_window_decoder_build(&decoder, &checkpoint->model, NULL, n, err);
    if (code == SW_OK) code = run(&decoder, checkpoint, window, sw_drop_read_weights, exact, err);
    sw_decoder_free(&decoder);
    if (code == SW_OK)
        code = sw_score_window(exact, NULL, window->ids, n, first, vocab, checkpoint->pool, &out->exact, err);
    if (code == SW_OK) code = sw_window_decoder_quantize(&decoder, q, n, constants, checkpoint->pool, err);
    if (code == SW_OK) code = run(&decoder, checkpoint, window, NULL, quantized, err);
    sw_decoder_free(&decoder);
    if (code == SW_OK)
        code = sw_score_window(quantized, exact, window->ids, n, first, vocab, checkpoint->pool,
                               &out->quantized, err);
    free(exact), free(quantized);
    return code;
}

sw_code sw_evaluate(sw_evaluation *out, const sw_quantized_model *q, const sw_decoder *decoder,
                    const sw_checkpoint *checkpoint, const sw_window *window, sw_error *err) {
    *out = (sw_evaluation){.n_tokens = window->n_tokens};
    sw_progress progress;
    sw_progress_start(&progress, "evaluate", 2);
    sw_code code = score(out, q, decoder, checkpoint, window, err);
    sw_progress_update(&progress, 1);
    if (code == SW_OK) code = sw_sqnr_of_model(&out->tensors, q, decoder, checkpoint, window, err);
    sw_progress_end(&progress);
    return code;
}

void sw_evaluation_free(sw_evaluation *e) {
    sw_sqnr_table_free(&e->tensors);
}

static double ratio(const sw_evaluation *e) {
    return sw_score_perplexity(&e->quantized) / sw_score_perplexity(&e->exact);
}

/* What a recipe of integers lacks of what brings 8 bits near the float model. */
static const char *unused(const sw_recipe *recipe) {
    if (!sw_dtype_quantized(recipe->activation)) return "";
    if (!recipe->sink) return "\"sink\": true in a recipe file, or ";
    if (recipe->activation == SW_U8 && recipe->smooth == 0)
        return "\"smooth\": \"search\" in a recipe file, or ";
    if (recipe->activation == SW_U8 && !sw_recipe_has_methods(recipe))
        return "\"observer\": \"mse\" in a recipe file, or ";
    return "";
}

/* What has more bits than the recipe, by what most likely lacks them. */
static const char *wider(const sw_recipe *recipe) {
    if (recipe->activation == SW_U8) return "--quant 16a8w, or ";
    if (recipe->form.four_bit && recipe->form.scales == SW_SCALES_ROW)
        return "--quant 16a4w_block32 or 16a8w, or ";
    if (recipe->form.four_bit) return "a recipe with 8-bit weights, or ";
    if (recipe->activation == SW_U16 && recipe->kv == SW_U8) return "--kv_bits 16, or ";
    return "";
}

/* A line without memory is NULL, and seen in the end. */
static void add_line(sw_evaluation_texts *t, sw_log_level level, const char *line) {
    t->levels[t->n_lines] = level;
    t->lines[t->n_lines++] = line;
}

static void describe(sw_evaluation_texts *t, const sw_evaluation *e, const sw_recipe *recipe,
                     sw_arena *arena) {
    const sw_score *q = &e->quantized;
    const double exact = sw_score_perplexity(&e->exact), r = ratio(e);
    add_line(t, SW_LOG_INFO,
             sw_arena_printf(arena,
                             "held-out text, %u positions: perplexity %.2f, f32 %.2f (ratio %.3f); top-1 "
                             "agreement %u of %u; mean KL %.2e; logits SQNR %.1f dB",
                             q->positions, sw_score_perplexity(q), exact, r, q->same_top, q->compared,
                             q->kl / q->compared, sw_decibels(q->signal, q->noise)));
    char worst[SW_SQNR_LINE_BYTES], own[SW_SQNR_LINE_BYTES];
    add_line(t, SW_LOG_INFO,
             sw_arena_printf(arena, "worst tensors, SQNR in dB: %s; by their own rounding: %s",
                             sw_sqnr_worst(&e->tensors, false, worst),
                             sw_sqnr_worst(&e->tensors, true, own)));
    if (exact > hopeless_perplexity)
        add_line(t, SW_LOG_WARN,
                 sw_arena_printf(arena,
                                 "the float model itself has a perplexity of %.0f on the held-out text: it "
                                 "isn't what the model knows, so neither ranges nor figures say much; take "
                                 "other text for --calib_text",
                                 exact));
    if (r <= SW_PERPLEXITY_RATIO_BOUND) return; /* NaN warns */
    add_line(t, SW_LOG_WARN,
             sw_arena_printf(arena,
                             "%s has %.2f times the float model's perplexity, above the bound of %.1f: "
                             "expect worse text; try %s%s--calib_text with text like what the model will "
                             "read; `spillway eval --sqnr` shows where it is lost",
                             recipe->name, r, SW_PERPLEXITY_RATIO_BOUND, unused(recipe), wider(recipe)));
}

/* JSON has no infinities. */
static double json_number(double x) {
    return isfinite(x) ? x : 999;
}

static const char *figures(const sw_evaluation *e, sw_arena *arena) {
    const sw_score *q = &e->quantized;
    const char *worst = "";
    for (uint32_t i = 0; i < e->tensors.count && i < SW_SQNR_WORST && worst != NULL; i++)
        worst = sw_arena_printf(arena, "%s%s{\"name\": \"%s\", \"sqnr_db\": %.2f, \"own_db\": %.2f}", worst,
                                i > 0 ? ", " : "", e->tensors.rows[i].name, e->tensors.rows[i].sqnr_db,
                                e->tensors.rows[i].own_db);
    if (worst == NULL) return NULL;
    return sw_arena_printf(
        arena,
        "\"held_out_tokens\": %u, \"scored_positions\": %u, \"perplexity\": %.6g, \"perplexity_f32\": %.6g, "
        "\"perplexity_ratio\": %.6g, \"logits_sqnr_db\": %.2f, \"top1_same\": %u, \"top1_of\": %u, "
        "\"mean_kl\": %.6g, \"worst_tensors\": [%s]",
        e->n_tokens, q->positions, json_number(sw_score_perplexity(q)),
        json_number(sw_score_perplexity(&e->exact)), json_number(ratio(e)), sw_decibels(q->signal, q->noise),
        q->same_top, q->compared, json_number(q->kl / q->compared), worst);
}

sw_code sw_evaluation_describe(sw_evaluation_texts *out, const sw_evaluation *e, const sw_recipe *recipe,
                               sw_arena *arena, sw_error *err) {
    *out = (sw_evaluation_texts){0};
    describe(out, e, recipe, arena);
    out->figures = figures(e, arena);
    bool ok = out->figures != NULL;
    for (unsigned i = 0; i < out->n_lines; i++) ok = ok && out->lines[i] != NULL;
    return ok ? SW_OK : SW_FAIL(err, SW_NO_MEMORY, "out of memory");
}

void sw_evaluation_log(const sw_evaluation_texts *t) {
    for (unsigned i = 0; i < t->n_lines; i++) sw_log(t->levels[i], "%s", t->lines[i]);
}
