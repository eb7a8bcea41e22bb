/* tune.c: a small grid of traffic, all levels and forms of this one compile, and the best of it. What is open
 * is a list of the grid's options (make_grid), and take() puts a point's form into the target: another form
 * that the builder learns is a line in both. */
#include "cli/tune.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/traffic.h"

enum { LEVELS = 3 };

static const uint32_t levels[LEVELS] = {3, 2, 1}; /* the default first: of equals, it is taken */

/* The best points of one level. */
typedef struct level_choice {
    const sw_traffic_point *of[SW_MAX_KINDS]; /* of each kind; NULL: none compiles */
    double bytes_a_token;                     /* 0: some kind is missing */
} level_choice;

static uint64_t bytes_of(const sw_traffic_point *p) {
    return p->figures.read + p->figures.write;
}

/* The options of a traffic command with the compile's one value for each list, but for what is open. */
static sw_code make_grid(sw_options *o, const sw_target *t, uint32_t layers, sw_arena *arena, sw_error *err) {
    const char *forms = "";
    for (unsigned i = 0; i < SW_ATTENTION_FORM_COUNT && forms != NULL; i++)
        forms = sw_arena_printf(arena, "%s%s%s", forms, i > 0 ? "," : "",
                                sw_attention_form_name((sw_attention_form)i));
    o->grid = (struct sw_grid_options){.socs = t->soc->name,
                                       .recipes = o->quant,
                                       .logits = o->logits,
                                       .slc = "off",
                                       .vtcm_mb = sw_arena_printf(arena, "%u", t->vtcm_mb),
                                       .prefill_ar_len = sw_arena_printf(arena, "%u", o->prefill_ar_len),
                                       .max_seq_len = sw_arena_printf(arena, "%u", t->context_len),
                                       .layers = layers > 0 ? sw_arena_printf(arena, "%u", layers) : NULL,
                                       .cache = o->grid.cache};
    o->grid.attention = strcmp(o->attention, "auto") == 0 ? forms : o->attention;
    o->grid.opt_level = o->opt_level == 0 ? "3,2,1" : sw_arena_printf(arena, "%u", o->opt_level);
    return forms != NULL && (layers == 0 || o->grid.layers != NULL) && o->grid.vtcm_mb != NULL &&
                   o->grid.opt_level != NULL && o->grid.prefill_ar_len != NULL && o->grid.max_seq_len != NULL
               ? SW_OK
               : SW_FAIL(err, SW_NO_MEMORY, "out of memory");
}

/* The form that the kind gets from the point. */
static void take(sw_graph_options *kind, const sw_traffic_point *p) {
    kind->attention = p->attention;
}

static const sw_traffic_point *best_of(const sw_traffic *t, const sw_target *target,
                                       const sw_graph_options *kind, uint32_t level) {
    const sw_traffic_point *best = NULL;
    const sw_attention_form usual =
        sw_attention_form_auto(&t->model.hparams, kind->ar_len, target->context_len, target->vtcm_mb);
    for (uint32_t i = 0; i < t->n_points; i++) {
        const sw_traffic_point *p = &t->points[i];
        if (p->opt_level != level || strcmp(p->graph, kind->name) != 0 || !p->known) continue;
        if (best == NULL || bytes_of(p) < bytes_of(best) ||
            (bytes_of(p) == bytes_of(best) && p->attention == usual))
            best = p;
    }
    return best;
}

static level_choice choose_at(const sw_traffic *t, const sw_target *target, uint32_t level) {
    level_choice c = {0};
    bool all = true;
    for (uint32_t i = 0; i < target->n_kinds; i++) {
        c.of[i] = best_of(t, target, &target->kinds[i], level);
        if (c.of[i] != NULL)
            c.bytes_a_token += (double)bytes_of(c.of[i]) / target->kinds[i].ar_len;
        else
            all = false;
    }
    if (!all) c.bytes_a_token = 0;
    return c;
}

/* The index of the best level, or LEVELS. */
static unsigned choose(const level_choice choices[LEVELS]) {
    unsigned best = LEVELS;
    for (unsigned l = 0; l < LEVELS; l++) {
        if (choices[l].bytes_a_token <= 0) continue;
        if (best == LEVELS || choices[l].bytes_a_token < choices[best].bytes_a_token) best = l;
    }
    return best;
}

static bool is_taken(const sw_target *target, const level_choice *c, const sw_traffic_point *p) {
    for (uint32_t i = 0; i < target->n_kinds; i++)
        if (c->of[i] == p) return true;
    return false;
}

/* ---- What was tried ---- */

static void print(const sw_traffic *t, const sw_target *target, const level_choice choices[LEVELS],
                  unsigned best) {
    fprintf(stderr, "graph            O  attention    ops  buffer MB  spill MB  fill MB  write MB  read MB  "
                    "read + write MB\n");
    for (uint32_t i = 0; i < t->n_points; i++) {
        const sw_traffic_point *p = &t->points[i];
        const sw_traffic_figures *f = &p->figures;
        fprintf(stderr, "%-15s  %u  %-11s", p->graph, p->opt_level, sw_attention_form_name(p->attention));
        if (!p->known) {
            fprintf(stderr, "  doesn't compile\n");
            continue;
        }
        fprintf(stderr, " %4u %10.3f %9.3f %8.3f %9.3f %8.3f %16.3f%s\n", f->n_ops,
                (double)f->spill_fill_bytes / 1e6, (double)f->spill / 1e6, (double)f->fill / 1e6,
                (double)f->write / 1e6, (double)f->read / 1e6, (double)bytes_of(p) / 1e6,
                is_taken(target, &choices[best], p) ? "  <- taken" : "");
    }
    for (unsigned l = 0; l < LEVELS; l++)
        if (choices[l].bytes_a_token > 0)
            fprintf(stderr, "O%u: %.3f MB a token%s\n", levels[l], choices[l].bytes_a_token / 1e6,
                    l == best ? "  <- taken" : "");
    fprintf(stderr,
            "MB a call of the graph, as Qualcomm's compiler (%s) tells them; a token: each graph's best, by "
            "its AR length. Traffic, not time.\n",
            t->library->build_id);
}

static json_t *point_to_json(const sw_traffic_point *p, bool taken) {
    const sw_traffic_figures *f = &p->figures;
    json_t *o = json_pack("{s:s, s:I, s:s, s:b}", "graph", p->graph, "opt_level", (json_int_t)p->opt_level,
                          "attention", sw_attention_form_name(p->attention), "chosen", taken);
    const struct {
        const char *name;
        uint64_t value;
    } figures[] = {{"spill_fill_bytes", f->spill_fill_bytes},
                   {"spill", f->spill},
                   {"fill", f->fill},
                   {"write", f->write},
                   {"read", f->read}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        json_object_set_new(o, figures[i].name,
                            p->known ? json_integer((json_int_t)figures[i].value) : json_null());
    return o;
}

static sw_code record(const sw_traffic *t, sw_target *target, const level_choice choices[LEVELS],
                      unsigned best, sw_arena *arena, sw_error *err) {
    json_t *of_levels = json_array(), *tried = json_array();
    for (unsigned l = 0; l < LEVELS; l++) {
        const double bytes = choices[l].bytes_a_token;
        bool asked = false;
        for (uint32_t i = 0; i < t->n_points; i++) asked = asked || t->points[i].opt_level == levels[l];
        if (asked)
            json_array_append_new(
                of_levels,
                json_pack("{s:I, s:o, s:b}", "opt_level", (json_int_t)levels[l], "bytes_a_token",
                          bytes > 0 ? json_integer((json_int_t)bytes) : json_null(), "chosen", l == best));
    }
    for (uint32_t i = 0; i < t->n_points; i++)
        json_array_append_new(tried,
                              point_to_json(&t->points[i], is_taken(target, &choices[best], &t->points[i])));
    json_t *document = json_pack("{s:I, s:o, s:o}", "layers", (json_int_t)t->points[0].layers, "levels",
                                 of_levels, "tried", tried);
    char *text = document != NULL ? json_dumps(document, JSON_COMPACT) : NULL;
    target->tuning = text != NULL ? sw_arena_strdup(arena, text) : NULL;
    free(text);
    json_decref(document);
    return target->tuning != NULL ? SW_OK : SW_FAIL(err, SW_NO_MEMORY, "out of memory");
}

static sw_code decide(const sw_traffic *t, sw_target *target, sw_arena *arena, sw_error *err) {
    level_choice choices[LEVELS];
    for (unsigned l = 0; l < LEVELS; l++) choices[l] = choose_at(t, target, levels[l]);
    unsigned best = choose(choices);
    if (best == LEVELS)
        return SW_FAIL(
            err, SW_LIBRARY,
            "--tune: at no level every graph compiles in one of its forms; the lines above say why");
    print(t, target, choices, best);
    target->opt_level = levels[best];
    for (uint32_t i = 0; i < target->n_kinds; i++) {
        take(&target->kinds[i], choices[best].of[i]);
        sw_log(SW_LOG_INFO, "--tune: %s: O%u, attention %s, %.1f MB a call", target->kinds[i].name,
               target->opt_level, sw_attention_form_name(target->kinds[i].attention),
               (double)bytes_of(choices[best].of[i]) / 1e6);
    }
    return record(t, target, choices, best, arena, err);
}

sw_code sw_tune(sw_target *target, const sw_options *options, uint32_t layers, sw_arena *arena,
                sw_error *err) {
    sw_options o = *options;
    sw_traffic t = {.options = &o};
    sw_error passed_over;
    uint32_t missing;
    if (o.soc == NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--tune: wants --soc_model, a SoC that the table has");
    sw_code code = make_grid(&o, target, layers, &t.arena, err);
    if (code == SW_OK) code = sw_traffic_open(&t, err);
    if (code == SW_OK) code = sw_traffic_look_all_up(&t, &missing, err);
    if (code == SW_OK && missing > 0) {
        sw_log(SW_LOG_INFO, "--tune: %u of %u compiles are to be done", missing, t.n_points);
        if (sw_traffic_measure_missing(&t, missing, &passed_over) != SW_OK)
            sw_log(SW_LOG_WARN, "--tune: %s", passed_over.message);
    }
    if (code == SW_OK) code = decide(&t, target, arena, err);
    sw_traffic_close(&t);
    return code;
}
