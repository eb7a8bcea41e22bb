/* traffic_grid.c: the lists of options, and their product. */
#include <stdlib.h>
#include <string.h>

#include "cli/traffic.h"

typedef struct number_list {
    uint32_t values[SW_TRAFFIC_MAX_VALUES], count;
} number_list;

typedef struct word_list {
    const char *words[SW_TRAFFIC_MAX_VALUES];
    uint32_t count;
} word_list;

/* Cuts a list at its commas; words are in the arena. */
static sw_code read_words(sw_traffic *t, const char *option, const char *text, word_list *out,
                          sw_error *err) {
    *out = (word_list){0};
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ",");
        if (n == 0)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: `%s` has an empty value, wanted a list: A,B,C",
                           option, text);
        if (out->count == SW_TRAFFIC_MAX_VALUES)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: more than %d values", option,
                           SW_TRAFFIC_MAX_VALUES);
        char *word = sw_arena_strndup(&t->arena, at, n);
        if (word == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        SW_TRY(sw_options_check_name(option, word, err));
        for (uint32_t i = 0; i < out->count; i++)
            if (strcmp(out->words[i], word) == 0)
                return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: `%s` stands there twice", option, word);
        out->words[out->count++] = word;
        at += n;
        if (*at == '\0') return SW_OK;
    }
}

static sw_code read_numbers(sw_traffic *t, const char *option, const char *text, uint32_t least,
                            uint32_t most, number_list *out, sw_error *err) {
    word_list words;
    SW_TRY(read_words(t, option, text, &words, err));
    out->count = words.count;
    for (uint32_t i = 0; i < words.count; i++) {
        char *end;
        unsigned long value = strtoul(words.words[i], &end, 10);
        if (words.words[i][0] < '0' || words.words[i][0] > '9' || *end != '\0' || value < least ||
            value > most)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: `%s`, wanted whole numbers from %u to %u", option,
                           words.words[i], least, most);
        out->values[i] = (uint32_t)value;
    }
    return SW_OK;
}

/* The lists, read. */
typedef struct grid {
    word_list socs, recipes, attention, slc;
    number_list vtcm, levels, ar, contexts, top_k, layers;
} grid;

/* "all" is 0. */
static sw_code read_logits(sw_traffic *t, number_list *out, sw_error *err) {
    word_list words;
    SW_TRY(read_words(t, "logits", t->options->grid.logits, &words, err));
    out->count = words.count;
    for (uint32_t i = 0; i < words.count; i++)
        if (!sw_top_k_from_text(words.words[i], &out->values[i]) || out->values[i] > t->model.hparams.vocab)
            return SW_FAIL(err, SW_INVALID_ARGUMENT,
                           "--logits: `%s`, wanted some of: all, topk:N with N from 1 to %u", words.words[i],
                           t->model.hparams.vocab);
    return SW_OK;
}

static sw_code read_grid(sw_traffic *t, grid *g, sw_error *err) {
    const struct sw_grid_options *o = &t->options->grid;
    *g = (grid){0};
    SW_TRY(read_words(t, "soc_model", o->socs, &g->socs, err));
    SW_TRY(read_words(t, "quant", o->recipes, &g->recipes, err));
    SW_TRY(read_words(t, "attention", o->attention, &g->attention, err));
    SW_TRY(read_words(t, "slc", o->slc, &g->slc, err));
    if (o->vtcm_mb != NULL) SW_TRY(read_numbers(t, "vtcm_mb", o->vtcm_mb, 1, 64, &g->vtcm, err));
    SW_TRY(read_numbers(t, "opt_level", o->opt_level, 1, 3, &g->levels, err));
    SW_TRY(read_numbers(t, "prefill_ar_len", o->prefill_ar_len, 2, 1 << 16, &g->ar, err));
    uint32_t most = t->model.hparams.context_max < 1 << 20 ? t->model.hparams.context_max : 1 << 20;
    SW_TRY(read_numbers(t, "max_seq_len", o->max_seq_len, 2, most, &g->contexts, err));
    SW_TRY(read_logits(t, &g->top_k, err));
    const uint32_t n_layers = t->model.hparams.n_layers;
    if (o->layers != NULL) SW_TRY(read_numbers(t, "layers", o->layers, 1, n_layers, &g->layers, err));
    if (g->layers.count == 0) g->layers.values[g->layers.count++] = n_layers;
    if (g->vtcm.count == 0) g->vtcm.count = 1; /* 0: the SoC's */
    sw_attention_form form;
    for (uint32_t i = 0; i < g->attention.count; i++)
        if (strcmp(g->attention.words[i], "auto") != 0 &&
            !sw_attention_form_from_name(g->attention.words[i], &form))
            return SW_FAIL(err, SW_INVALID_ARGUMENT,
                           "--attention: `%s`, wanted some of: auto, grouped, per_kv_head, per_head",
                           g->attention.words[i]);
    for (uint32_t i = 0; i < g->slc.count; i++)
        if (strcmp(g->slc.words[i], "on") != 0 && strcmp(g->slc.words[i], "off") != 0)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "--slc: `%s`, wanted some of: off, on", g->slc.words[i]);
    return SW_OK;
}

static bool same(const sw_traffic_point *a, const sw_traffic_point *b) {
    return strcmp(a->graph, b->graph) == 0 && a->soc == b->soc && a->recipe == b->recipe &&
           a->ar_len == b->ar_len && a->context_len == b->context_len && a->vtcm_mb == b->vtcm_mb &&
           a->opt_level == b->opt_level && a->attention == b->attention && a->top_k == b->top_k &&
           a->layers == b->layers && a->slc == b->slc;
}

/* Points that two ways lead to (auto is one of the forms; a decode graph has no prefill length) stand once,
 * and a form with more pieces than can be joined not at all. */
static void add_point(sw_traffic *t, sw_traffic_point p, const char *attention) {
    if (!sw_attention_form_from_name(attention, &p.attention))
        p.attention = sw_attention_form_auto(&t->model.hparams, p.ar_len, p.context_len, p.vtcm_mb);
    if (!sw_attention_form_fits(&t->model.hparams, p.attention)) return;
    for (uint32_t i = 0; i < t->n_points; i++)
        if (same(&t->points[i], &p)) return;
    t->points[t->n_points++] = p;
}

/* Both graphs of one context length, for all that follows from the innermost lists. */
static void add_graphs(sw_traffic *t, const grid *g, sw_traffic_point p) {
    bool hybrid = strcmp(t->options->model_mode, "kv") != 0;
    for (uint32_t a = 0; a < g->ar.count + 1; a++) {
        bool prefill = a < g->ar.count;
        if (prefill && !hybrid) continue;
        p.graph = prefill ? "prefill_forward" : "kv_forward";
        p.ar_len = prefill ? g->ar.values[a] : 1;
        if (prefill && p.ar_len >= p.context_len) continue; /* no cache left: no hybrid mode */
        for (uint32_t f = 0; f < g->attention.count; f++)
            for (uint32_t v = 0; v < g->vtcm.count; v++)
                for (uint32_t l = 0; l < g->levels.count; l++)
                    for (uint32_t s = 0; s < g->slc.count; s++) {
                        p.vtcm_mb = g->vtcm.values[v] != 0 ? g->vtcm.values[v] : p.soc->vtcm_mb;
                        if (p.vtcm_mb > p.soc->vtcm_mb) continue;
                        p.opt_level = g->levels.values[l];
                        p.slc = strcmp(g->slc.words[s], "on") == 0;
                        add_point(t, p, g->attention.words[f]);
                    }
    }
}

sw_code sw_traffic_expand(sw_traffic *t, sw_error *err) {
    grid g;
    SW_TRY(read_grid(t, &g, err));
    t->n_recipes = g.recipes.count;
    for (uint32_t r = 0; r < g.recipes.count; r++) {
        t->recipes[r].name = g.recipes.words[r];
        SW_TRY(
            sw_recipe_load(&t->recipes[r].recipe, g.recipes.words[r], t->options->kv_bits, &t->arena, err));
    }
    size_t most = (size_t)g.socs.count * g.recipes.count * g.contexts.count * (g.ar.count + 1) *
                  g.attention.count * g.vtcm.count * g.levels.count * g.slc.count * g.top_k.count *
                  g.layers.count;
    enum { MOST_POINTS = 100000 };
    if (most > MOST_POINTS)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "the grid has %zu points, wanted at most %d", most,
                       MOST_POINTS);
    t->points = sw_arena_array(&t->arena, most, sizeof *t->points);
    if (t->points == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    for (uint32_t s = 0; s < g.socs.count; s++) {
        const sw_soc *soc;
        SW_TRY(sw_soc_get(g.socs.words[s], &soc, err));
        for (uint32_t r = 0; r < g.recipes.count; r++)
            for (uint32_t c = 0; c < g.contexts.count; c++)
                for (uint32_t n = 0; n < g.layers.count; n++)
                    for (uint32_t k = 0; k < g.top_k.count; k++)
                        add_graphs(t, &g,
                                   (sw_traffic_point){.soc = soc,
                                                      .recipe = r,
                                                      .context_len = g.contexts.values[c],
                                                      .layers = g.layers.values[n],
                                                      .top_k = g.top_k.values[k]});
    }
    if (t->n_points > 0) return SW_OK;
    return SW_FAIL(
        err, SW_INVALID_ARGUMENT,
        "the grid is empty: every --vtcm_mb is more than the SoC has, every --prefill_ar_len as long "
        "as the context, or every --attention has more pieces than %d, which is as many as can "
        "be joined",
        SW_MAX_INPUTS);
}

const char *sw_traffic_point_text(const sw_traffic *t, const sw_traffic_point *p,
                                  char out[SW_TRAFFIC_POINT_BYTES]) {
    char logits[SW_TOP_K_BYTES];
    snprintf(out, SW_TRAFFIC_POINT_BYTES,
             "%s, %s, %.64s, AR %u, context %u, VTCM %u MB, O%u, SLC %s, %s, logits %s, layers %u", p->graph,
             p->soc->name, t->recipes[p->recipe].name, p->ar_len, p->context_len, p->vtcm_mb, p->opt_level,
             p->slc ? "on" : "off", sw_attention_form_name(p->attention), sw_top_k_text(p->top_k, logits),
             p->layers);
    return out;
}
