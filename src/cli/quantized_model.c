/* quantized_model.c: the steps between a checkpoint and quantized graphs. */
#include "cli/quantized_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/errand.h"
#include "base/log.h"
#include "graph/verify.h"
#include "quant/layers.h"
#include "quant/pack.h"
#include "quant/sink.h"
#include "quant/smooth.h"
#include "text/chat_template.h"

enum {
    ROUNDING_TOKENS = 8192, /* of the calibration text, at most, that rounding looks at */
    ENOUGH_TOKENS = 400,    /* of the built-in text, spread over its documents, for 16-bit activations */
    PACK_DOCUMENTS = 10     /* in one run: more read weights less often, but each row looks at all columns */
};

bool sw_cli_wants_rotation(const sw_recipe *recipe, const sw_options *options) {
    return options->rotate != NULL ? strcmp(options->rotate, "on") == 0 : recipe->rotate;
}

static bool wants_smoothing(const sw_recipe *recipe) {
    return recipe->smooth != 0 && sw_dtype_quantized(recipe->activation);
}

/* The first token of every chat: the same with and without a system message, whatever is said. */
static sw_code chat_start(const sw_tokenizer *tokenizer, int32_t *id, sw_error *err) {
    const sw_chat_message messages[2] = {{sw_span_of("system"), sw_span_of("1")},
                                         {sw_span_of("user"), sw_span_of("2")}};
    sw_arena arena = SW_ARENA_EMPTY;
    sw_ids ids[2] = {{0}};
    sw_code code = SW_OK;
    for (size_t i = 0; i < 2 && code == SW_OK; i++) {
        sw_span text;
        code = sw_chat_render(sw_tokenizer_description(tokenizer)->chat_template, messages + i, 2 - i, 0,
                              true, &arena, &text, err);
        if (code == SW_OK)
            code = sw_tokenizer_encode(tokenizer, text, SW_ENCODE_SPECIAL | SW_ENCODE_START, &ids[i], err);
    }
    if (code == SW_OK && (ids[0].count == 0 || ids[1].count == 0 || ids[0].data[0] != ids[1].data[0]))
        code = SW_FAIL(err, SW_UNSUPPORTED,
                       "\"sink\": true: this model's chats have no first token in common: wanted false");
    else if (code == SW_UNSUPPORTED)
        sw_error_prefix(err, "\"sink\": true is of chats, wanted a recipe with \"sink\": false");
    if (code == SW_OK) *id = ids[0].data[0];
    sw_ids_free(&ids[0]), sw_ids_free(&ids[1]);
    sw_arena_free(&arena);
    return code;
}

static sw_code compute_sink(sw_quantized_model *q, const sw_checkpoint *checkpoint, sw_error *err) {
    int32_t id;
    if (!q->recipe.sink) return SW_OK;
    SW_TRY(chat_start(checkpoint->tokenizer, &id, err));
    return sw_sink_compute(&q->sink, q->model, checkpoint->cpu, &id, 1, &q->arena, err);
}

sw_code sw_quantized_model_begin(sw_quantized_model *q, const sw_recipe *recipe, const sw_options *options,
                                 const char *scratch_folder, const sw_checkpoint *checkpoint, sw_error *err) {
    *q = (sw_quantized_model){.recipe = *recipe, .model = &checkpoint->model, .rounding = options->rounding};
    bool rotate = sw_cli_wants_rotation(recipe, options);
    if (!rotate && !wants_smoothing(recipe)) return compute_sink(q, checkpoint, err);
    sw_code code =
        sw_rotate_model(&q->rotated, &checkpoint->model, rotate, scratch_folder, checkpoint->pool, err);
    if (code == SW_UNSUPPORTED) sw_error_prefix(err, "--rotate on (without: --rotate off)");
    q->model = &q->rotated.model;
    return code == SW_OK ? compute_sink(q, checkpoint, err) : code;
}

sw_code sw_quantized_model_restore(sw_quantized_model *q, const sw_recipe *recipe, const sw_options *options,
                                   const sw_checkpoint *checkpoint, const sw_sink *sink, sw_ranges **ranges,
                                   sw_error *err) {
    *q = (sw_quantized_model){
        .recipe = *recipe, .model = &checkpoint->model, .sink = *sink, .ranges = *ranges};
    *ranges = NULL;
    q->rotated.rotated = sw_cli_wants_rotation(recipe, options);
    if (!q->rotated.rotated && !wants_smoothing(recipe)) return SW_OK;
    sw_hparams h = checkpoint->model.hparams;
    if (q->rotated.rotated) h.tied_embeddings = false; /* as sw_rotate_model makes it */
    q->model = &q->rotated.model;
    return sw_model_of_shapes(&q->rotated.model, &h, err);
}

static bool any_gptq(const sw_recipe *recipe, const char *option) {
    sw_rounding rounding = recipe->rounding;
    if (option != NULL && sw_rounding_from_name(option, &rounding)) return rounding == SW_ROUND_GPTQ;
    bool any = rounding == SW_ROUND_GPTQ;
    for (uint32_t i = 0; i < recipe->n_weight_rules; i++)
        any = any || recipe->weight_rules[i].rounding == SW_ROUND_GPTQ;
    return any;
}

/* 16-bit activations have so many steps to spare that their ranges may be too wide: a tenth of the built-in
 * text and some room serve as well as all of it (docs/accuracy.md). What rounds by the text reads all of it
 * anyway, and 4-bit weights gain by it. */
static bool beginnings_are_enough(const sw_recipe *recipe, const char *rounding, const sw_calibration *c) {
    return c->built_in && recipe->activation == SW_U16 && recipe->smooth == 0 &&
           recipe->n_activation_rules == 0 && !sw_recipe_has_methods(recipe) && !any_gptq(recipe, rounding);
}

static sw_code calibrate_on_beginnings(sw_quantized_model *q, const sw_calibration *c,
                                       const sw_checkpoint *checkpoint, sw_error *err) {
    sw_packs packs;
    const uint32_t each = (ENOUGH_TOKENS - 1) / (uint32_t)c->n_beginnings + 1;
    SW_TRY(sw_packs_make(&packs, &q->sink, c->beginnings, c->n_beginnings, each, PACK_DOCUMENTS * each,
                         &q->arena, err));
    q->n_calibrated = packs.n_tokens, q->n_windows = packs.n;
    sw_log(SW_LOG_INFO, "calibration: %zu tokens, the beginnings of %zu documents of %s, %u more held out",
           packs.n_tokens, c->n_beginnings, c->name, c->held_out.n_tokens);
    return sw_calibrate_packed(&q->ranges, q->model, &q->sink, &q->recipe, checkpoint->cpu, &packs, err);
}

sw_code sw_quantized_model_calibrate(sw_quantized_model *q, const sw_calibration *calibration,
                                     const sw_checkpoint *checkpoint, sw_error *err) {
    q->calibration = calibration, q->checkpoint = checkpoint;
    if (!sw_dtype_quantized(q->recipe.activation)) return SW_OK;
    if (beginnings_are_enough(&q->recipe, q->rounding, calibration))
        return calibrate_on_beginnings(q, calibration, checkpoint, err);
    q->n_calibrated = calibration->n_used, q->n_windows = calibration->n_windows;
    sw_log(SW_LOG_INFO, "calibration: %zu tokens of %s in %zu windows, %u more held out", calibration->n_used,
           calibration->name, calibration->n_windows, calibration->held_out.n_tokens);
    if (wants_smoothing(&q->recipe)) {
        SW_TRY(sw_smooth_model(&q->rotated, &q->recipe, &q->sink, checkpoint->cpu, calibration->windows,
                               calibration->n_windows, checkpoint->pool, err));
        SW_TRY(compute_sink(q, checkpoint, err)); /* its V has other factors now */
    }
    return sw_calibrate(&q->ranges, q->model, &q->sink, &q->recipe, checkpoint->cpu, calibration->windows,
                        calibration->n_windows, err);
}

/* The search looks at the recipe's types. */
static bool same_smoothing(const sw_recipe *a, const sw_recipe *b) {
    if (!wants_smoothing(a) && !wants_smoothing(b)) return true;
    return a->smooth == b->smooth && a->activation == b->activation && a->form.four_bit == b->form.four_bit;
}

/* Ranges that are what was seen, not what a recipe makes of it, only depend on the model. */
bool sw_quantized_model_share(sw_quantized_model *q, const sw_recipe *recipe, const sw_options *options,
                              const sw_quantized_model *other) {
    if (other->shares || sw_cli_wants_rotation(recipe, options) != other->rotated.rotated) return false;
    if (recipe->sink != other->recipe.sink || !same_smoothing(recipe, &other->recipe)) return false;
    if (sw_recipe_has_methods(recipe) || sw_recipe_has_methods(&other->recipe)) return false;
    if (sw_dtype_quantized(recipe->activation) && other->ranges == NULL) return false;
    if (other->ranges != NULL && !beginnings_are_enough(recipe, options->rounding, other->calibration) &&
        beginnings_are_enough(&other->recipe, other->rounding, other->calibration))
        return false;
    *q = (sw_quantized_model){.recipe = *recipe,
                              .model = other->model,
                              .sink = other->sink,
                              .ranges = other->ranges,
                              .rounding = options->rounding,
                              .n_calibrated = other->n_calibrated,
                              .n_windows = other->n_windows,
                              .calibration = other->calibration,
                              .checkpoint = other->checkpoint,
                              .shares = true};
    return true;
}

void sw_quantized_model_free(sw_quantized_model *q) {
    if (!q->shares) {
        sw_ranges_free(q->ranges);
        sw_rotated_model_close(&q->rotated);
    }
    sw_arena_free(&q->arena);
    q->ranges = NULL, q->model = NULL, q->sink = (sw_sink){0};
}

/* How the recipe or --rounding wants a constant: only the matrices of layers have inputs to look at. */
static bool wants_gptq(const sw_quantized_model *q, const sw_tensor *t) {
    if (q == NULL || t->dtype != SW_S8 || strncmp(t->name, "layer_", 6) != 0 || sw_weight_stays(t))
        return false;
    sw_rounding rounding = sw_recipe_weight(&q->recipe, t->name).rounding;
    if (q->rounding != NULL) sw_rounding_from_name(q->rounding, &rounding);
    return rounding == SW_ROUND_GPTQ;
}

typedef struct quantizing {
    sw_decoder *decoder;
    const sw_quantized_model *q;
    sw_pool *pool;
    sw_layers *layers; /* or NULL: no matrix needs them */
    sw_weight_costs costs;
} quantizing;

static sw_code begin_layers(quantizing *z, sw_error *err) {
    bool any = false;
    for (uint32_t i = 0; i < z->decoder->n_constants; i++)
        any = any || wants_gptq(z->q, z->decoder->constants[i]);
    if (!any) return SW_OK;
    const sw_calibration *c = z->q->calibration;
    if (c == NULL)
        return SW_FAIL(err, SW_INTERNAL, "rounding for %s needs a calibration text", z->q->recipe.name);
    sw_log(SW_LOG_INFO, "rounding: by what the layers read on at most %d tokens of %s", ROUNDING_TOKENS,
           c->name);
    return sw_layers_create(&z->layers, z->q->model, &z->q->sink, z->q->checkpoint->cpu, z->pool, c->windows,
                            c->n_windows, ROUNDING_TOKENS, err);
}

/* What was quantized is what the layers behind read. */
static sw_code quantize_one(quantizing *z, sw_tensor *t, void *data, sw_error *err) {
    const sw_factor *factor = NULL;
    sw_weight_cost cost;
    if (z->layers != NULL && wants_gptq(z->q, t)) SW_TRY(sw_layers_factor(z->layers, t, &factor, err));
    SW_TRY(sw_round_constant(z->decoder, t, factor, data, z->pool, &cost, err));
    sw_weight_costs_add(&z->costs, t, &cost);
    if (z->layers == NULL || t->dtype != SW_S8 || strncmp(t->name, "layer_", 6) != 0) return SW_OK;
    return sw_layers_replace(z->layers, t, data, err);
}

/* A constant on its way to the sink. */
typedef struct delivery {
    sw_constant_sink *sink;
    void *context;
    sw_tensor *constant;
    void *data;
    sw_errand errand;
} delivery;

static sw_code deliver(void *context, sw_error *err) {
    const delivery *d = context;
    return d->sink(d->context, d->constant, d->data, err);
}

/* In turns with two buffers, so that one can be filled while the other is on its way. */
static sw_code quantize_all(quantizing *z, void *buffers[2], bool beside, delivery *d, sw_error *err) {
    sw_progress progress;
    sw_progress_start(&progress, "quantize", z->decoder->n_constants);
    sw_code code = begin_layers(z, err);
    for (uint32_t i = 0; i < z->decoder->n_constants && code == SW_OK; i++) {
        sw_tensor *t = z->decoder->constants[i];
        void *data = buffers[i % 2];
        code = quantize_one(z, t, data, err);
        if (code == SW_OK) code = sw_errand_finish(&d->errand, err);
        if (code != SW_OK) break; /* the errand may still be at the one before */
        d->constant = t, d->data = data;
        if (beside)
            sw_errand_start(&d->errand, deliver, d);
        else
            code = deliver(d, err);
        sw_weight_drop_pages(t->weight);
        sw_progress_update(&progress, i + 1u);
    }
    const sw_code last = sw_errand_finish(&d->errand, code == SW_OK ? err : NULL);
    sw_progress_end(&progress);
    return code == SW_OK ? last : code;
}

sw_code sw_quantize_constants(sw_decoder *decoder, const sw_quantized_model *q, sw_pool *pool, bool beside,
                              sw_constant_sink *sink, void *context, sw_error *err) {
    uint64_t largest = 0;
    for (uint32_t i = 0; i < decoder->n_constants; i++) {
        uint64_t bytes = sw_tensor_bytes(decoder->constants[i]);
        if (bytes > largest) largest = bytes;
    }
    void *first = malloc((size_t)largest), *second = beside ? malloc((size_t)largest) : NULL;
    void *buffers[2] = {first, second != NULL ? second : first};
    quantizing z = {.decoder = decoder, .q = q, .pool = pool};
    delivery d = {.sink = sink, .context = context};
    sw_code code = first != NULL ? quantize_all(&z, buffers, second != NULL, &d, err)
                                 : SW_FAIL(err, SW_NO_MEMORY, "no memory for a constant of %llu bytes",
                                           (unsigned long long)largest);
    sw_layers_destroy(z.layers);
    free(first);
    free(second);
    if (code == SW_OK) sw_weight_costs_log(&z.costs);
    return code;
}

static sw_code build_window(sw_decoder *out, const sw_model *model, const sw_sink *sink, uint32_t n_tokens,
                            sw_error *err) {
    const sw_graph_options window = {"window", n_tokens, SW_ATTENTION_GROUPED, SW_HEAD_ALL};
    return sw_decoder_build(out, model, n_tokens + (sink != NULL ? sink->n_tokens : 0), &window, 1, err);
}

sw_code sw_window_decoder_build(sw_decoder *out, const sw_model *model, const sw_sink *sink,
                                uint32_t n_tokens, sw_error *err) {
    SW_TRY(build_window(out, model, sink, n_tokens, err));
    sw_code code = sw_sink_attach(out, sink, err);
    if (code != SW_OK) sw_decoder_free(out);
    return code;
}

static sw_code keep_in_arena(void *context, sw_tensor *t, const void *data, sw_error *err) {
    size_t bytes = (size_t)sw_tensor_bytes(t);
    void *copy = sw_arena_alloc(context, bytes);
    if (copy == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for %zu bytes", t->name, bytes);
    memcpy(copy, data, bytes);
    t->data = copy;
    return SW_OK;
}

sw_code sw_borrow_constants(sw_decoder *to, const sw_decoder *from, sw_error *err) {
    for (uint32_t i = 0; i < to->n_constants; i++) {
        if (i >= from->n_constants || strcmp(to->constants[i]->name, from->constants[i]->name) != 0)
            return SW_FAIL(err, SW_INTERNAL, "%s: the other decoder has no such constant",
                           to->constants[i]->name);
        *to->constants[i] = *from->constants[i];
    }
    return SW_OK;
}

sw_code sw_window_decoder_quantize(sw_decoder *out, const sw_quantized_model *q, uint32_t n_tokens,
                                   const sw_decoder *constants, sw_pool *pool, sw_error *err) {
    SW_TRY(build_window(out, q->model, &q->sink, n_tokens, err));
    if (constants == NULL) sw_recipe_warn_unmatched(&q->recipe, out); /* once a recipe */
    sw_code code = sw_quantize_types(out, &q->recipe, q->ranges, err);
    if (code == SW_OK) code = sw_sink_attach(out, &q->sink, err);
    if (code == SW_OK)
        code = constants != NULL
                   ? sw_borrow_constants(out, constants, err)
                   : sw_quantize_constants(out, q, pool, false, keep_in_arena, &out->arena, err);
    if (code == SW_OK) code = sw_decoder_verify(out, err);
    if (code != SW_OK) sw_decoder_free(out);
    return code;
}
