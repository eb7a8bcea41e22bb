/* smooth.c: factors between layers (SmoothQuant: Xiao et al., arXiv 2211.10438, section 4).
 *
 * y = W x stays the same with x_j / s_j and W_ij s_j. Where x_j is made by a row of another matrix, or by a
 * norm's gamma, 1 / s_j goes there, so that nothing is left to do when the model runs. A large s_j takes
 * channel j out of the others' range, but gives its column a larger share of the weights' range.
 *
 * Strength a: s_j = greatest_j^a / w_j^(1 - a), w_j the largest weight of the column. The search tries
 * greatest_j^a / w_j^b over a grid of both and takes the least noise (sw_smooth_noise); a = b = 0, no change,
 * is one of its points. */
#include "quant/smooth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "quant/window.h"

enum { MOST_WINDOWS = 8, GRID = 11 };

/* ---- Factors of one pair ---- */

static size_t channel(const sw_smooth_pair *p, size_t column) {
    return p->channel_of != NULL ? p->channel_of[column] : column;
}

double sw_smooth_noise(const sw_smooth_pair *p, const float *factors, float *scratch) {
    float *of_column = scratch; /* the factor of each column */
    double greatest = 0, first_greatest = 0, by_activation = 0, by_first = 0, by_weights = 0, signal = 0;
    for (size_t c = 0; c < p->cols; c++) of_column[c] = factors[channel(p, c)];
    for (size_t j = 0; j < p->channels; j++) {
        greatest = fmax(greatest, (double)(p->greatest[j] / factors[j]));
        if (p->first_greatest != NULL)
            first_greatest = fmax(first_greatest, (double)(p->first_greatest[j] / factors[j]));
    }
    for (size_t c = 0; c < p->cols; c++)
        signal += (double)p->power[c] / ((double)of_column[c] * (double)of_column[c]);
    for (size_t m = 0; m < p->n_weights; m++) {
        for (size_t r = 0; r < p->rows[m]; r++) {
            const float *w = p->weights[m] + r * p->cols;
            float largest = 0;
            for (size_t c = 0; c < p->cols; c++) {
                float scaled = fabsf(w[c]) * of_column[c];
                largest = scaled > largest ? scaled : largest;
            }
            by_weights += (double)largest * (double)largest;
        }
        for (size_t r = 0; r < p->rows[m];
             r += 8) { /* the columns' norms: an eighth of the rows shows them */
            const float *w = p->weights[m] + r * p->cols;
            for (size_t c = 0; c < p->cols; c++) {
                double scaled = (double)w[c] * (double)of_column[c];
                by_activation += 8 * scaled * scaled;
                if (p->first_power != NULL)
                    by_first += 8 * scaled * scaled * (double)p->first_power[channel(p, c)];
            }
        }
    }
    double activation_step = 2 * greatest / p->activation_steps,
           first_step = 2 * first_greatest / p->activation_steps, weight_step = 2 / p->weight_steps;
    return (activation_step * activation_step * by_activation + first_step * first_step * by_first +
            weight_step * weight_step * by_weights * signal) /
           12;
}

/* Logarithms of the channels' sizes: of the activation, and of the largest weight that reads it. */
static void sizes(const sw_smooth_pair *p, float *activation, float *weight) {
    float greatest = 0, largest = 0;
    memset(weight, 0, p->channels * sizeof *weight);
    for (size_t m = 0; m < p->n_weights; m++)
        for (size_t r = 0; r < p->rows[m]; r++)
            for (size_t c = 0; c < p->cols; c++) {
                float *w = &weight[channel(p, c)];
                *w = fmaxf(*w, fabsf(p->weights[m][r * p->cols + c]));
            }
    for (size_t j = 0; j < p->channels; j++) {
        greatest = fmaxf(greatest, p->greatest[j]);
        largest = fmaxf(largest, weight[j]);
    }
    for (size_t j = 0; j < p->channels; j++) { /* a channel that is always 0 may have any factor */
        activation[j] = greatest > 0 ? logf(fmaxf(p->greatest[j] / greatest, 1e-4f)) : 0;
        weight[j] = largest > 0 ? logf(fmaxf(weight[j] / largest, 1e-4f)) : 0;
    }
}

/* Around 1: a factor that all channels share changes nothing. */
static void set_factors(size_t n, const float *activation, const float *weight, float a, float b,
                        float *factors) {
    double sum = 0;
    for (size_t j = 0; j < n; j++) sum += (double)(a * activation[j] - b * weight[j]);
    for (size_t j = 0; j < n; j++)
        factors[j] = expf(a * activation[j] - b * weight[j] - (float)(sum / (double)n));
}

void sw_smooth_factors(const sw_smooth_pair *p, float strength, float *factors, float *scratch) {
    float *activation = scratch + p->cols, *weight = activation + p->channels;
    sizes(p, activation, weight);
    if (strength >= 0) {
        set_factors(p->channels, activation, weight, strength, 1 - strength, factors);
        return;
    }
    double best = INFINITY;
    float best_a = 0, best_b = 0;
    for (int a = 0; a < GRID; a++)
        for (int b = 0; b < GRID; b += 2) {
            set_factors(p->channels, activation, weight, (float)a / (GRID - 1), (float)b / (GRID - 1),
                        factors);
            double noise = sw_smooth_noise(p, factors, scratch);
            if (!(noise < best)) continue;
            best = noise, best_a = (float)a / (GRID - 1), best_b = (float)b / (GRID - 1);
        }
    set_factors(p->channels, activation, weight, best_a, best_b, factors);
}

/* ---- What the channels hold ---- */

typedef enum watched { ATTENTION_IN, V, CONTEXT, FFN_IN, UP, GATE_SILU, FFN_PRODUCT, N_WATCHED } watched;
static const char *const watched_names[N_WATCHED] = {"attention_in", "v",         "context",    "ffn_in",
                                                     "up",           "gate_silu", "ffn_product"};

typedef struct channels {
    float *greatest, *power; /* [width]; power: sums of squares until the end */
    size_t width;
} channels;

typedef struct survey {
    sw_arena arena;
    sw_names names;
    channels *all; /* [n_layers * N_WATCHED], by index in names */
    size_t n_rows;
    bool not_finite;
} survey;

static void watch(void *context, const sw_graph *graph, const sw_op *op, const void *const *values) {
    survey *s = context;
    const sw_tensor *t = graph->tensors[op->outputs[0]];
    uint32_t index = sw_names_find(&s->names, t->name);
    if (index == UINT32_MAX) return;
    channels *c = &s->all[index];
    const float *x = values[op->outputs[0]];
    for (size_t n = (size_t)sw_tensor_elements(t) / c->width; n > 0; n--, x += c->width)
        for (size_t i = 0; i < c->width; i++) {
            float magnitude = fabsf(x[i]);
            c->greatest[i] = magnitude > c->greatest[i] ? magnitude : c->greatest[i];
            c->power[i] += magnitude * magnitude;
        }
    if (strstr(t->name, ".attention_in") != NULL && index == 0) s->n_rows += t->dims[0];
}

static sw_code survey_init(survey *s, const sw_hparams *h, sw_error *err) {
    const size_t width[N_WATCHED] = {[ATTENTION_IN] = h->hidden,
                                     [V] = (size_t)h->n_kv_heads * h->head_dim,
                                     [CONTEXT] = (size_t)h->n_heads * h->head_dim,
                                     [FFN_IN] = h->hidden,
                                     [UP] = h->ffn,
                                     [GATE_SILU] = h->ffn,
                                     [FFN_PRODUCT] = h->ffn};
    s->all = sw_arena_array(&s->arena, (size_t)h->n_layers * N_WATCHED, sizeof *s->all);
    bool ok = s->all != NULL;
    for (uint32_t i = 0; ok && i < h->n_layers * N_WATCHED; i++) {
        char name[SW_NAME_BYTES];
        channels *c = &s->all[i];
        sw_layer_name(name, i / N_WATCHED, watched_names[i % N_WATCHED]);
        c->width = width[i % N_WATCHED];
        c->greatest = sw_arena_array(&s->arena, c->width, sizeof *c->greatest);
        c->power = sw_arena_array(&s->arena, c->width, sizeof *c->power);
        ok = c->greatest != NULL && c->power != NULL && sw_names_add(&s->names, name) == i;
    }
    return ok ? SW_OK : SW_FAIL(err, SW_NO_MEMORY, "no memory for the channels' sizes");
}

static sw_code survey_run(survey *s, const sw_model *model, const sw_sink *sink, sw_device *device,
                          const sw_window *windows, size_t n_windows, sw_error *err) {
    size_t n = n_windows < MOST_WINDOWS ? n_windows : MOST_WINDOWS;
    sw_float_window w = {.model = model, .sink = sink, .device = device};
    sw_progress progress;
    sw_progress_start(&progress, "channels", n);
    sw_code code = SW_OK;
    for (size_t i = 0; i < n && code == SW_OK; i++) {
        const sw_window window = sw_window_behind(sink, windows[i * n_windows / n]);
        code = sw_float_window_run(&w, &window, watch, s, err);
        sw_progress_update(&progress, i + 1);
    }
    sw_progress_end(&progress);
    sw_float_window_free(&w);
    for (uint32_t i = 0; code == SW_OK && i < model->hparams.n_layers * N_WATCHED; i++)
        for (size_t k = 0; k < s->all[i].width; k++) {
            s->all[i].power[k] /= (float)s->n_rows;
            if (!isfinite(s->all[i].greatest[k]) || !isfinite(s->all[i].power[k]))
                return SW_FAIL(
                    err, SW_BAD_DATA,
                    "layer_%u.%s: calibration met a value that is infinite or no number; check the "
                    "weights",
                    i / N_WATCHED, watched_names[i % N_WATCHED]);
        }
    return code;
}

/* ---- Folding ---- */

typedef struct folding {
    sw_rotated_model *model;
    const sw_recipe *recipe;
    const survey *survey;
    _Atomic bool no_memory;
} folding;

static float *values_of(const folding *f, sw_weight_id id, uint32_t layer) {
    return (float *)(uintptr_t)sw_model_weight(&f->model->model, id, layer)->data;
}

/* Rows (or for a vector values) by 1 / factors, columns by factors. */
static void divide_rows(float *w, size_t rows, size_t cols, const float *factors) {
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) w[r * cols + c] /= factors[r];
}

static void apply(const sw_smooth_pair *p, const float *factors) {
    for (size_t m = 0; m < p->n_weights; m++)
        for (size_t r = 0; r < p->rows[m]; r++)
            for (size_t c = 0; c < p->cols; c++) p->weights[m][r * p->cols + c] *= factors[channel(p, c)];
}

static void add_reader(const folding *f, sw_smooth_pair *p, sw_weight_id id, uint32_t layer) {
    const sw_weight *w = sw_model_weight(&f->model->model, id, layer);
    p->weights[p->n_weights] = values_of(f, id, layer);
    p->rows[p->n_weights++] = w->rows;
    p->cols = w->cols;
}

/* `maker` [channels, maker_cols] makes what the pair's matrices read. */
static void fold_pair(folding *f, sw_smooth_pair *p, float *maker, size_t maker_cols) {
    bool four_bit = f->recipe->form.four_bit;
    p->activation_steps = f->recipe->activation == SW_U8 ? 255 : 65535;
    p->weight_steps = four_bit ? 15 : 255;
    float *factors = malloc((p->channels + p->cols + 2 * p->channels) * sizeof *factors);
    if (factors == NULL) {
        f->no_memory = true;
        return;
    }
    sw_smooth_factors(p, f->recipe->smooth, factors, factors + p->channels);
    divide_rows(maker, p->channels, maker_cols, factors);
    apply(p, factors);
    free(factors);
}

static void fold_norm(folding *f, const channels *in, sw_weight_id gamma, const sw_weight_id *readers,
                      size_t n_readers, uint32_t layer) {
    sw_smooth_pair p = {.channels = in->width, .greatest = in->greatest, .power = in->power};
    for (size_t i = 0; i < n_readers; i++) add_reader(f, &p, readers[i], layer);
    fold_pair(f, &p, values_of(f, gamma, layer), 1);
}

static void fold_values(folding *f, const channels *all, uint32_t layer) {
    const sw_hparams *h = &f->model->model.hparams;
    sw_smooth_pair p = {.channels = all[V].width, .greatest = all[V].greatest, .power = all[CONTEXT].power};
    uint32_t *channel_of = malloc(all[CONTEXT].width * sizeof *channel_of),
             group = h->n_heads / h->n_kv_heads;
    if (channel_of == NULL) {
        f->no_memory = true;
        return;
    }
    for (uint32_t c = 0; c < all[CONTEXT].width; c++)
        channel_of[c] = c / h->head_dim / group * h->head_dim + c % h->head_dim;
    p.channel_of = channel_of;
    add_reader(f, &p, SW_W_O, layer);
    fold_pair(f, &p, values_of(f, SW_W_V, layer), h->hidden);
    free(channel_of);
}

static void fold_product(folding *f, const channels *all, uint32_t layer) {
    sw_smooth_pair p = {.channels = all[FFN_PRODUCT].width,
                        .greatest = all[FFN_PRODUCT].greatest,
                        .first_greatest = all[UP].greatest,
                        .first_power = all[GATE_SILU].power,
                        .power = all[FFN_PRODUCT].power};
    add_reader(f, &p, SW_W_DOWN, layer);
    fold_pair(f, &p, values_of(f, SW_W_UP, layer), f->model->model.hparams.hidden);
}

static void fold_layers(void *context, size_t begin, size_t end) {
    static const sw_weight_id of_attention[] = {SW_W_Q, SW_W_K, SW_W_V}, of_ffn[] = {SW_W_GATE, SW_W_UP};
    folding *f = context;
    for (uint32_t layer = (uint32_t)begin; layer < end; layer++) {
        const channels *all = f->survey->all + layer * N_WATCHED;
        if (!f->model->rotated) {
            fold_norm(f, &all[ATTENTION_IN], SW_W_ATTENTION_NORM, of_attention, 3, layer);
            fold_norm(f, &all[FFN_IN], SW_W_FFN_NORM, of_ffn, 2, layer);
        }
        fold_values(f, all, layer);
        fold_product(f, all, layer);
        for (unsigned id = 0; id < SW_WEIGHT_COUNT; id++)
            sw_weight_drop_pages(sw_model_weight(&f->model->model, (sw_weight_id)id, layer));
    }
}

sw_code sw_smooth_model(sw_rotated_model *model, const sw_recipe *recipe, const sw_sink *sink,
                        sw_device *device, const sw_window *windows, size_t n_windows, sw_pool *pool,
                        sw_error *err) {
    if (n_windows == 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "calibration has no text; it needs at least one window of tokens");
    survey s = {.names = SW_NAMES_EMPTY};
    folding f = {.model = model, .recipe = recipe, .survey = &s};
    sw_code code = survey_init(&s, &model->model.hparams, err);
    if (code == SW_OK) code = survey_run(&s, &model->model, sink, device, windows, n_windows, err);
    if (code == SW_OK) sw_pool_for(pool, model->model.hparams.n_layers, 1, fold_layers, &f);
    if (code == SW_OK && f.no_memory)
        code = SW_FAIL(err, SW_NO_MEMORY, "no memory for the channels' factors");
    sw_names_free(&s.names);
    sw_arena_free(&s.arena);
    return code;
}
