/* advise.c: will the SLC allocator help the graphs of a bundle? Prints the model's figures beside the
 * verdict, with all it assumes: nothing here was measured on a device. */
#include "cli/advise.h"

#include <stdlib.h>

#include "bundle/bundle.h"
#include "cli/binary_report.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "soc/memory_plan.h"

sw_code sw_advise(const sw_manifest *m, const sw_decoder *decoder, double dram_gbps, sw_slc_advice *advice,
                  sw_error *err) {
    const sw_soc soc = sw_manifest_soc(m);
    sw_memory_plan *plan = malloc(sizeof *plan);
    if (plan == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    sw_code code = sw_memory_plan_make(plan, decoder, &soc, m->weight_sharing, m->opt_level, dram_gbps, err);
    for (uint32_t i = 0; i < m->n_graphs && code == SW_OK; i++) {
        const sw_manifest_graph *g = &m->graphs[i];
        const sw_slc_graph graph = {.traffic_known = g->ddr.known,
                                    .read = g->ddr.read,
                                    .write = g->ddr.write,
                                    .fill = g->ddr.fill,
                                    .spill = g->ddr.spill,
                                    .spill_fill_bytes = g->spill_fill_bytes,
                                    .weight_bytes = plan->graphs[i].weight_bytes,
                                    .kv_bytes = plan->graphs[i].kv_in_bytes,
                                    .n_tokens = g->ar_len};
        sw_slc_advise(&soc, &graph, dram_gbps, &advice[i]);
    }
    free(plan);
    return code;
}

const char *sw_advice_line(const sw_manifest *m, const sw_manifest_graph *g, char out[SW_ADVICE_LINE_BYTES]) {
    char shard[32] = "";
    if (m->n_shards > 1) snprintf(shard, sizeof shard, " of shard %u", g->shard);
    snprintf(out, SW_ADVICE_LINE_BYTES, "%s%s: SLC allocator: advice: %s: %s", g->name, shard,
             sw_slc_verdict_name(g->slc_verdict), g->slc_reason);
    return out;
}

static void print_interval(const char *what, const sw_interval *i, double unit, const char *unit_name) {
    printf("  %-28s %12.3f  (%.3f to %.3f)%s%s\n", what, i->likely / unit, i->low / unit, i->high / unit,
           unit_name[0] != '\0' ? " " : "", unit_name);
}

static void print_graph(const sw_manifest *m, const sw_manifest_graph *g, const sw_slc_advice *a) {
    char line[SW_LINE_BYTES];
    printf("%s\n", sw_graph_line(m, g, line));
    printf("  advice: %s: %s\n", sw_slc_verdict_name(a->verdict), a->reason);
    if (!g->ddr.known) return;
    printf("  %-28s %12s  (%s)\n", "", "likely", "bounds");
    print_interval("fills that hit", &a->hit_rate, 0.01, "%");
    print_interval("DDR saved a call", &a->saved_bytes, 1e6, "MB");
    if (a->bandwidth_known) {
        print_interval("tokens/s by DRAM, off", &a->tokens_off, 1, "");
        print_interval("tokens/s by DRAM, on", &a->tokens_on, 1, "");
    } else {
        printf("  tokens/s by DRAM             unknown: no bandwidth of %s is public; --dram_gbps sets it\n",
               m->soc_name);
    }
    print_interval("energy a token, off", &a->energy_off, 1e-3, "mJ");
    print_interval("energy a token, on", &a->energy_on, 1e-3, "mJ");
    print_interval("energy saved a token", &a->energy_saved, 1e-3, "mJ");
}

static void print_assumptions(void) {
    printf("\nA model, not a measurement. It assumes:\n");
    for (unsigned i = 0; i < SW_SLC_ASSUMPTION_COUNT; i++) {
        const sw_slc_assumption *s = &sw_slc_assumptions[i];
        printf("  %-16s %5g (%g to %g) %s%s%s: %s\n", s->name, s->value, s->low, s->high, s->unit,
               s->unit[0] != '\0' ? " " : "", s->what, s->source);
    }
}

static json_t *interval_to_json(const sw_interval *i) {
    return json_pack("{s:f, s:f, s:f}", "low", i->low, "likely", i->likely, "high", i->high);
}

static json_t *graph_to_json(const sw_manifest_graph *g, const sw_slc_advice *a) {
    json_t *model = json_null();
    if (g->ddr.known)
        model = json_pack(
            "{s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:o}", "hit_rate", interval_to_json(&a->hit_rate),
            "saved_bytes", interval_to_json(&a->saved_bytes), "saved_share", a->saved_share,
            "tokens_per_second_off", a->bandwidth_known ? interval_to_json(&a->tokens_off) : json_null(),
            "tokens_per_second_on", a->bandwidth_known ? interval_to_json(&a->tokens_on) : json_null(),
            "joules_per_token_off", interval_to_json(&a->energy_off), "joules_per_token_on",
            interval_to_json(&a->energy_on), "joules_saved_per_token", interval_to_json(&a->energy_saved));
    return json_pack("{s:s, s:I, s:s, s:s, s:o}", "name", g->name, "shard", (json_int_t)g->shard, "verdict",
                     sw_slc_verdict_name(a->verdict), "reason", a->reason, "model", model);
}

json_t *sw_advice_json(const sw_manifest *m, const sw_slc_advice *advice) {
    json_t *graphs = json_array(), *assumptions = json_array();
    for (uint32_t i = 0; i < m->n_graphs; i++)
        json_array_append_new(graphs, graph_to_json(&m->graphs[i], &advice[i]));
    for (unsigned i = 0; i < SW_SLC_ASSUMPTION_COUNT; i++) {
        const sw_slc_assumption *s = &sw_slc_assumptions[i];
        json_array_append_new(assumptions, json_pack("{s:s, s:f, s:f, s:f, s:s, s:s, s:s}", "name", s->name,
                                                     "value", s->value, "low", s->low, "high", s->high,
                                                     "unit", s->unit, "what", s->what, "source", s->source));
    }
    return json_pack("{s:s, s:b, s:o, s:o}", "soc", m->soc_name, "measured_on_a_device", 0, "graphs", graphs,
                     "assumptions", assumptions);
}

sw_code sw_cmd_advise(const sw_options *options, sw_error *err) {
    sw_bundle bundle;
    SW_TRY(sw_bundle_open(&bundle, options->operand, err));
    const sw_manifest *m = &bundle.manifest;
    sw_slc_advice *advice = sw_arena_array(&bundle.arena, m->n_graphs, sizeof *advice);
    sw_code code = advice != NULL ? SW_OK : SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    if (code == SW_OK) code = sw_advise(m, &bundle.decoder, (double)options->dram_gbps, advice, err);
    if (code == SW_OK && options->json) code = sw_json_print(sw_advice_json(m, advice), stdout, err);
    if (code == SW_OK && !options->json) {
        for (uint32_t i = 0; i < m->n_graphs; i++) print_graph(m, &m->graphs[i], &advice[i]);
        print_assumptions();
    }
    sw_bundle_close(&bundle);
    return code;
}
