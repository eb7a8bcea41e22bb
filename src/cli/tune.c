/* tune.c: a small grid of traffic, all forms of this one compile, and the best of it. */
#include "cli/tune.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/traffic.h"

static uint64_t bytes_of(const sw_traffic_point *p) {
    return p->figures.read + p->figures.write;
}

/* The options of a traffic command with the compile's one value for each list, but for the forms. */
static sw_code make_grid(sw_options *o, const sw_target *t, sw_arena *arena, sw_error *err) {
    const char *forms = "";
    for (unsigned i = 0; i < SW_ATTENTION_FORM_COUNT && forms != NULL; i++)
        forms = sw_arena_printf(arena, "%s%s%s", forms, i > 0 ? "," : "",
                                sw_attention_form_name((sw_attention_form)i));
    o->grid = (struct sw_grid_options){.socs = t->soc->name,
                                       .recipes = o->quant,
                                       .logits = o->logits,
                                       .slc = "off",
                                       .vtcm_mb = sw_arena_printf(arena, "%u", t->vtcm_mb),
                                       .opt_level = sw_arena_printf(arena, "%u", o->opt_level),
                                       .prefill_ar_len = sw_arena_printf(arena, "%u", o->prefill_ar_len),
                                       .max_seq_len = sw_arena_printf(arena, "%u", t->context_len),
                                       .cache = o->grid.cache};
    o->grid.attention = strcmp(o->attention, "auto") == 0 ? forms : o->attention;
    return forms != NULL && o->grid.vtcm_mb != NULL && o->grid.opt_level != NULL &&
                   o->grid.prefill_ar_len != NULL && o->grid.max_seq_len != NULL
               ? SW_OK
               : SW_FAIL(err, SW_NO_MEMORY, "out of memory");
}

static sw_code choose(const sw_traffic *t, sw_graph_options *kind, sw_error *err) {
    const sw_traffic_point *best = NULL;
    for (uint32_t i = 0; i < t->n_points; i++) {
        const sw_traffic_point *p = &t->points[i];
        if (strcmp(p->graph, kind->name) != 0 || !p->known) continue;
        if (best == NULL || bytes_of(p) < bytes_of(best)) best = p;
    }
    if (best == NULL)
        return SW_FAIL(err, SW_LIBRARY, "--tune: %s compiles in none of the forms; the lines above say why",
                       kind->name);
    kind->attention = best->attention;
    sw_log(SW_LOG_INFO, "--tune: %s: attention %s, %.1f MB a call", kind->name,
           sw_attention_form_name(best->attention), (double)bytes_of(best) / 1e6);
    return SW_OK;
}

sw_code sw_tune(sw_target *target, const sw_options *options, sw_error *err) {
    sw_options o = *options;
    sw_traffic t = {.options = &o};
    sw_error passed_over;
    uint32_t missing;
    if (o.soc == NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--tune: wants --soc_model, a SoC that the table has");
    sw_code code = make_grid(&o, target, &t.arena, err);
    if (code == SW_OK) code = sw_traffic_open(&t, err);
    if (code == SW_OK) code = sw_traffic_look_all_up(&t, &missing, err);
    if (code == SW_OK && missing > 0) {
        sw_log(SW_LOG_INFO, "--tune: %u of %u compiles are to be done", missing, t.n_points);
        if (sw_traffic_measure_missing(&t, missing, &passed_over) != SW_OK)
            sw_log(SW_LOG_WARN, "--tune: %s", passed_over.message);
    }
    if (code == SW_OK) code = sw_traffic_print(&t, SW_TRAFFIC_TEXT, stderr, err);
    for (uint32_t i = 0; i < target->n_kinds && code == SW_OK; i++) code = choose(&t, &target->kinds[i], err);
    target->tuned = code == SW_OK;
    sw_traffic_close(&t);
    return code;
}
