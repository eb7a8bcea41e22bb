/* slc_advisor.c: the model. Letters as in docs/slc.md: R, W, F, S read, write, fill, spill; B the spill-fill
 * buffer; C the capacity left; h the hit rate.
 *
 *   h_high = min(1, C/B), h_low = [B <= C]: the best replacement, and a cyclic scan under LRU
 *   saved  = h F + h h S + k K + m M: a fill that hits isn't read; of the spills, that share is overwritten
 * in the cache before it would be written back (taken to be h); K and M, the KV cache and the weights, count
 * only in the upper bound, and only where they would fit: k needs weights that pass the cache by t      = (R
 * + W - saved) / (efficiency x peak), tokens/s <= n / t E      = 8e-12 (e_dram D + e_slc A), A the bytes that
 * look up and allocate: F + S with the allocator, 0 without */
#include "soc/slc_advisor.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const sw_slc_assumption sw_slc_assumptions[SW_SLC_ASSUMPTION_COUNT] = {
#define SW_SLC_ASSUMPTION(name, value, low, high, unit, what, source)                                        \
    [SW_SLC_##name] = {#name, value, low, high, unit, what, source},
#include "soc/slc_model.inc"
#undef SW_SLC_ASSUMPTION
};

static const sw_slc_assumption *assume(sw_slc_assumption_id id) {
    return &sw_slc_assumptions[id];
}

static const char *const verdict_names[SW_SLC_VERDICT_COUNT] = {"off", "on", "measure", "not available"};

const char *sw_slc_verdict_name(sw_slc_verdict verdict) {
    return verdict_names[verdict];
}

bool sw_slc_verdict_from_name(const char *name, sw_slc_verdict *out) {
    for (unsigned i = 0; i < SW_SLC_VERDICT_COUNT; i++)
        if (strcmp(verdict_names[i], name) == 0) {
            *out = (sw_slc_verdict)i;
            return true;
        }
    return false;
}

sw_interval sw_slc_hit_rate(uint64_t buffer_bytes, double capacity_bytes) {
    double b = (double)buffer_bytes, beta = assume(SW_SLC_best_replacement)->value;
    sw_interval h;
    h.low = b <= capacity_bytes ? 1 : 0;
    h.high = b <= capacity_bytes ? 1 : capacity_bytes / b;
    h.likely = beta * h.high + (1 - beta) * h.low;
    return h;
}

static double saved(const sw_slc_graph *g, double h, bool kv, bool weights) {
    double bytes = h * (double)g->fill + h * h * (double)g->spill;
    return bytes + (kv ? (double)g->kv_bytes : 0) + (weights ? (double)g->weight_bytes : 0);
}

/* Hit rates and bytes saved, for the likely capacity. */
static void find_saved(const sw_slc_graph *g, double slice_bytes, sw_slc_advice *a) {
    double capacity = assume(SW_SLC_capacity_share)->value * slice_bytes, b = (double)g->spill_fill_bytes;
    a->hit_rate = sw_slc_hit_rate(g->spill_fill_bytes, capacity);
    bool kv = b + (double)g->kv_bytes <= capacity;
    bool weights = b + (double)g->kv_bytes + (double)g->weight_bytes <= capacity;
    a->saved_bytes.low = saved(g, a->hit_rate.low, false, false);
    a->saved_bytes.likely = saved(g, a->hit_rate.likely, false, false);
    a->saved_bytes.high = saved(g, a->hit_rate.high, kv, weights);
    double total = (double)g->read + (double)g->write;
    if (a->saved_bytes.high > total) a->saved_bytes.high = total; /* figures that contradict each other */
    if (a->saved_bytes.likely > total) a->saved_bytes.likely = total;
    if (a->saved_bytes.low > total) a->saved_bytes.low = total;
    a->saved_share = total > 0 ? a->saved_bytes.likely / total : 0;
}

static double tokens(const sw_slc_graph *g, double bytes, double efficiency, double gbps) {
    return bytes > 0 ? (double)g->n_tokens * efficiency * gbps * 1e9 / bytes : INFINITY;
}

static void find_tokens(const sw_slc_graph *g, double gbps, sw_slc_advice *a) {
    const sw_slc_assumption *e = assume(SW_SLC_dram_efficiency);
    double total = (double)g->read + (double)g->write;
    a->bandwidth_known = gbps > 0;
    if (!a->bandwidth_known) return;
    a->tokens_off.low = tokens(g, total, e->low, gbps);
    a->tokens_off.likely = tokens(g, total, e->value, gbps);
    a->tokens_off.high = tokens(g, total, e->high, gbps);
    a->tokens_on.low = tokens(g, total - a->saved_bytes.low, e->low, gbps);
    a->tokens_on.likely = tokens(g, total - a->saved_bytes.likely, e->value, gbps);
    a->tokens_on.high = tokens(g, total - a->saved_bytes.high, e->high, gbps);
}

static double joules(const sw_slc_graph *g, double dram_bytes, double e_dram, double slc_bytes,
                     double e_slc) {
    return 8e-12 * (e_dram * dram_bytes + e_slc * slc_bytes) / (double)g->n_tokens;
}

static void find_energy(const sw_slc_graph *g, sw_slc_advice *a) {
    const sw_slc_assumption *d = assume(SW_SLC_dram_energy), *s = assume(SW_SLC_slc_energy);
    double total = (double)g->read + (double)g->write, copies = (double)g->fill + (double)g->spill;
    a->energy_off.low = joules(g, total, d->low, 0, 0);
    a->energy_off.likely = joules(g, total, d->value, 0, 0);
    a->energy_off.high = joules(g, total, d->high, 0, 0);
    a->energy_on.low = joules(g, total - a->saved_bytes.high, d->low, copies, s->low);
    a->energy_on.likely = joules(g, total - a->saved_bytes.likely, d->value, copies, s->value);
    a->energy_on.high = joules(g, total - a->saved_bytes.low, d->high, copies, s->high);
    a->energy_saved.low = joules(g, a->saved_bytes.low, d->low, -copies, s->high);
    a->energy_saved.likely = joules(g, a->saved_bytes.likely, d->value, -copies, s->value);
    a->energy_saved.high = joules(g, a->saved_bytes.high, d->high, -copies, s->low);
}

SW_PRINTF(3, 4)
static void decide(sw_slc_advice *a, sw_slc_verdict verdict, const char *format, ...) {
    va_list args;
    va_start(args, format);
    a->verdict = verdict;
    vsnprintf(a->reason, sizeof a->reason, format, args);
    va_end(args);
}

static void find_verdict(const sw_soc *soc, const sw_soc_memory *memory, const sw_slc_graph *g,
                         sw_slc_advice *a) {
    double slice = memory->slice_kb * 1024.0, b = (double)g->spill_fill_bytes, mb = 1e6;
    double total = (double)g->read + (double)g->write, copies = (double)g->fill + (double)g->spill;
    double capacity = assume(SW_SLC_capacity_share)->value * slice;
    if (memory->compute == SW_SLICE_NONE)
        decide(a, SW_SLC_NOT_AVAILABLE, "the cache driver of %s lists no slice for the compute DSP",
               soc->name);
    else if (!g->traffic_known)
        decide(a, SW_SLC_MEASURE, "the compiler gave no DDR figures for this graph");
    else if (copies <= assume(SW_SLC_idle_share)->value * total)
        decide(a, SW_SLC_OFF,
               "spill and fill are %.1f %% of the traffic, and what is read once a call can't hit a cache",
               total > 0 ? 100 * copies / total : 0.0);
    else if (memory->compute == SW_SLICE_UNKNOWN)
        decide(a, SW_SLC_MEASURE, "the cache of %s isn't public; spill and fill are %.0f %% of the traffic",
               soc->name, 100 * copies / total);
    else if (b > slice)
        decide(a, SW_SLC_OFF, "the spill-fill buffer of %.1f MB is larger than the compute slice of %.1f MB",
               b / mb, slice / mb);
    else if (b <= capacity && a->saved_share >= assume(SW_SLC_worth_share)->value &&
             a->energy_saved.likely > 0)
        decide(a, SW_SLC_ON,
               "the spill-fill buffer of %.1f MB fits into half of the compute slice, which may save %.0f %% "
               "of the traffic",
               b / mb, 100 * a->saved_share);
    else if (b <= capacity)
        decide(a, SW_SLC_MEASURE, "the spill-fill buffer fits, but at most %.1f %% of the traffic is saved",
               100 * a->saved_bytes.high / total);
    else
        decide(a, SW_SLC_MEASURE,
               "the spill-fill buffer of %.1f MB fits only if other users leave more than half of the slice",
               b / mb);
}

void sw_slc_advise(const sw_soc *soc, const sw_slc_graph *graph, double dram_gbps, sw_slc_advice *out) {
    sw_soc_memory memory = sw_soc_memory_of(soc);
    *out = (sw_slc_advice){0};
    if (graph->traffic_known) {
        find_saved(graph, memory.slice_kb * 1024.0, out);
        find_tokens(graph, dram_gbps > 0 ? dram_gbps : memory.dram_peak_gbps, out);
        find_energy(graph, out);
    }
    find_verdict(soc, &memory, graph, out);
}
