/* The advisor against arithmetic done by hand, its edges, and a cache simulated line by line. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "soc/slc_advisor.h"

static sw_slc_advice advise(const char *soc, const sw_slc_graph *g, double gbps) {
    sw_slc_advice a;
    sw_slc_advise(sw_soc_find(soc), g, gbps, &a);
    return a;
}

static void near(double a, double b) {
    if (fabs(a - b) > 1e-9 * fmax(fabs(a), fabs(b))) fail_msg("%.17g, wanted %.17g", a, b);
}

static void ordered(const sw_interval *i) {
    assert_true(i->low <= i->likely && i->likely <= i->high);
}

/* Prefill of a model of 135 MB that spills and fills 20 MB: R + W = 180 MB. C = half of 4096 KB. */
static sw_slc_graph prefill(uint64_t buffer) {
    return (sw_slc_graph){.traffic_known = true,
                          .read = 157000000,
                          .write = 23000000,
                          .fill = 20000000,
                          .spill = 20000000,
                          .spill_fill_bytes = buffer,
                          .weight_bytes = 135000000,
                          .kv_bytes = 2000000,
                          .n_tokens = 32};
}

static void a_buffer_that_fits(void **state) {
    (void)state;
    sw_slc_graph g = prefill(1500000);
    sw_slc_advice a = advise("SM8750", &g, 0);
    near(a.hit_rate.low, 1), near(a.hit_rate.high, 1);
    near(a.saved_bytes.low, 40e6), near(a.saved_bytes.likely, 40e6), near(a.saved_bytes.high, 40e6);
    near(a.saved_share, 40.0 / 180);
    near(a.tokens_off.likely, 32 * 0.45 * 84.8e9 / 180e6);
    near(a.tokens_on.likely, 32 * 0.45 * 84.8e9 / 140e6);
    near(a.energy_off.likely, 8e-12 * 5 * 180e6 / 32);
    near(a.energy_on.likely, 8e-12 * (5 * 140e6 + 1 * 40e6) / 32);
    near(a.energy_saved.likely, 8e-12 * (5 * 40e6 - 1 * 40e6) / 32);
    assert_int_equal(a.verdict, SW_SLC_ON);
}

/* C / B = 2097152 / 3145728 = 2/3: h = 0, 1/3, 2/3; saved h F + h h S. */
static void a_buffer_that_fits_in_part(void **state) {
    (void)state;
    sw_slc_graph g = prefill(3145728);
    sw_slc_advice a = advise("SM8750", &g, 0);
    near(a.hit_rate.low, 0), near(a.hit_rate.likely, 1.0 / 3), near(a.hit_rate.high, 2.0 / 3);
    near(a.saved_bytes.low, 0);
    near(a.saved_bytes.likely, 20e6 / 3 + 20e6 / 9);
    near(a.saved_bytes.high, 20e6 * 2 / 3 + 20e6 * 4 / 9);
    assert_int_equal(a.verdict, SW_SLC_MEASURE);
    g.spill_fill_bytes = (4096u << 10) + 1;
    assert_int_equal(advise("SM8750", &g, 0).verdict, SW_SLC_OFF);
}

/* Decode: every byte once. 0.45 x 84.8 GB/s over 134.8 MB. */
static void decode_saves_nothing(void **state) {
    (void)state;
    sw_slc_graph g = {
        .traffic_known = true, .read = 134500000, .write = 300000, .weight_bytes = 134500000, .n_tokens = 1};
    sw_slc_advice a = advise("SM8750", &g, 0);
    near(a.saved_bytes.high, 0);
    near(a.tokens_off.likely, 0.45 * 84.8e9 / 134.8e6);
    assert_true(a.tokens_off.likely > 283 && a.tokens_off.likely < 284);
    near(a.tokens_on.likely, a.tokens_off.likely);
    near(a.energy_saved.likely, 0);
    assert_int_equal(a.verdict, SW_SLC_OFF);
    assert_non_null(strstr(a.reason, "0.0 %"));
    /* A KV cache that fits counts in the upper bound alone. */
    g.kv_bytes = 1000000;
    a = advise("SM8750", &g, 0);
    near(a.saved_bytes.likely, 0), near(a.saved_bytes.high, 1e6);
    assert_int_equal(a.verdict, SW_SLC_OFF);
}

static void edges(void **state) {
    (void)state;
    near(sw_slc_hit_rate(0, 0).low, 1);
    near(sw_slc_hit_rate(1000, 1000).low, 1);
    near(sw_slc_hit_rate(1001, 1000).low, 0);
    near(sw_slc_hit_rate(1001, 1000).high, 1000.0 / 1001);

    sw_slc_graph g = prefill(1500000);
    assert_int_equal(advise("SM8635", &g, 0).verdict, SW_SLC_NOT_AVAILABLE); /* its table has no such slice */
    assert_int_equal(advise("SM8475", &g, 0).verdict, SW_SLC_MEASURE);       /* no table is public */
    sw_slc_advice a = advise("SM8850", &g, 0);
    assert_false(a.bandwidth_known);
    a = advise("SM8850", &g, 84.8);
    assert_true(a.bandwidth_known);
    near(a.tokens_off.likely, 32 * 0.45 * 84.8e9 / 180e6);

    g.spill_fill_bytes = 2097152; /* B = C */
    assert_int_equal(advise("SM8750", &g, 0).verdict, SW_SLC_ON);
    g.spill_fill_bytes++;
    assert_int_equal(advise("SM8750", &g, 0).verdict, SW_SLC_MEASURE);

    g = (sw_slc_graph){.n_tokens = 1};
    assert_int_equal(advise("SM8750", &g, 0).verdict, SW_SLC_MEASURE); /* no figures */
    g.traffic_known = true;                                            /* figures of 0 */
    a = advise("SM8750", &g, 0);
    assert_int_equal(a.verdict, SW_SLC_OFF);
    near(a.saved_share, 0);

    /* Figures that contradict each other save no more than there is. */
    g.fill = UINT64_MAX, g.read = 100;
    a = advise("SM8750", &g, 0);
    near(a.saved_bytes.high, 100);
}

static void intervals_are_ordered(void **state) {
    (void)state;
    uint64_t random = 5;
    for (int i = 0; i < 2000; i++) {
        uint64_t v[6];
        for (int k = 0; k < 6; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            v[k] = random >> (34 + (random >> 8 & 7));
        }
        sw_slc_graph g = {.traffic_known = true,
                          .read = v[0] + v[2] + v[4],
                          .write = v[1] + v[3],
                          .fill = v[2],
                          .spill = v[3],
                          .spill_fill_bytes = v[3] / 4,
                          .weight_bytes = v[0] / 2,
                          .kv_bytes = v[4],
                          .n_tokens = 1 + (uint32_t)(v[5] & 127)};
        sw_slc_advice a = advise(i % 2 != 0 ? "SM8750" : "SC8380XP", &g, 0);
        ordered(&a.hit_rate), ordered(&a.saved_bytes);
        ordered(&a.tokens_off), ordered(&a.tokens_on);
        ordered(&a.energy_off), ordered(&a.energy_on), ordered(&a.energy_saved);
        assert_true(a.tokens_on.likely >= a.tokens_off.likely);
        assert_true(a.reason[0] != '\0');
    }
}

static void every_assumption_is_told(void **state) {
    (void)state;
    for (unsigned i = 0; i < SW_SLC_ASSUMPTION_COUNT; i++) {
        const sw_slc_assumption *s = &sw_slc_assumptions[i];
        assert_true(s->low <= s->value && s->value <= s->high);
        assert_true(strlen(s->what) > 10 && strlen(s->source) > 10);
    }
    for (unsigned i = 0; i < SW_SLC_VERDICT_COUNT; i++) {
        sw_slc_verdict v;
        assert_true(sw_slc_verdict_from_name(sw_slc_verdict_name((sw_slc_verdict)i), &v));
        assert_int_equal(v, i);
    }
}

/* Every row of the memory table is a SoC of the other table. */
static void memory_rows_are_socs(void **state) {
    (void)state;
    static const char *const names[] = {
#define SW_SOC_MEMORY(soc, slc, compute, slice, priority, gbps) soc,
#include "soc/memory.inc"
#undef SW_SOC_MEMORY
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const sw_soc *soc = sw_soc_find(names[i]);
        assert_non_null(soc);
        sw_soc_memory m = sw_soc_memory_of(soc);
        assert_string_equal(m.soc, names[i]);
        assert_true((m.compute == SW_SLICE_LISTED) == (m.slice_kb > 0));
        assert_true(m.slc_kb == 0 || m.slice_kb <= m.slc_kb);
    }
}

/* A cache of 256 KB ways and 64-byte lines with true LRU or with the newest line as the victim, which is the
 * best choice for a cyclic scan (Belady's: what is used last of all). */
enum { LINE = 64, WAY_BYTES = 256 << 10, SETS = WAY_BYTES / LINE, MOST_WAYS = 32 };

typedef struct cache {
    unsigned ways;
    bool newest_first;
    uint64_t tags[SETS][MOST_WAYS], used[SETS][MOST_WAYS], now; /* tag + 1; 0: empty */
} cache;

static bool touch(cache *c, uint64_t address) {
    uint64_t line = address / LINE, set = line % SETS, tag = line / SETS + 1;
    unsigned victim = 0;
    for (unsigned w = 0; w < c->ways; w++) {
        if (c->tags[set][w] == tag) {
            c->used[set][w] = ++c->now;
            return true;
        }
        if (c->tags[set][victim] == 0) continue;
        bool better =
            c->newest_first ? c->used[set][w] > c->used[set][victim] : c->used[set][w] < c->used[set][victim];
        if (c->tags[set][w] == 0 || better) victim = w;
    }
    c->tags[set][victim] = tag;
    c->used[set][victim] = ++c->now;
    return false;
}

/* Share of fills that hit where a buffer is spilled and filled, block by block in the same order, call after
 * call: a cyclic scan. */
static double fills_that_hit(uint64_t buffer, unsigned ways, bool newest_first) {
    cache *c = calloc(1, sizeof *c);
    if (c == NULL) abort();
    c->ways = ways, c->newest_first = newest_first;
    uint64_t hits = 0, fills = 0;
    for (int call = 0; call < 4; call++) {
        for (uint64_t a = 0; a < buffer; a += LINE) touch(c, a);
        for (uint64_t a = 0; a < buffer; a += LINE) {
            bool hit = touch(c, a);
            if (call == 0) continue; /* fills the cache */
            hits += hit, fills++;
        }
    }
    free(c);
    return (double)hits / (double)fills;
}

static void a_simulated_cache_lies_between_the_bounds(void **state) {
    (void)state;
    for (unsigned ways = 4; ways <= 16; ways += 4)
        for (unsigned eighths = 2; eighths <= 20; eighths += 3) {
            uint64_t capacity = (uint64_t)ways * WAY_BYTES, buffer = capacity * eighths / 8;
            sw_interval h = sw_slc_hit_rate(buffer, (double)capacity);
            for (int newest = 0; newest < 2; newest++) {
                double share = fills_that_hit(buffer, ways, newest != 0);
                if (share < h.low - 1e-12 || share > h.high + 1e-12)
                    fail_msg("%u ways, buffer %u/8 of it, %s: %.4f of the fills hit, bounds %.4f to %.4f",
                             ways, eighths, newest ? "newest first" : "LRU", share, h.low, h.high);
            }
        }
}

/* The cliff that the lower bound stands for. */
static void lru_falls_from_all_to_none(void **state) {
    (void)state;
    assert_true(fills_that_hit(8 * WAY_BYTES, 8, false) == 1);
    assert_true(fills_that_hit(9 * WAY_BYTES, 8, false) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_that_fits),
        cmocka_unit_test(a_buffer_that_fits_in_part),
        cmocka_unit_test(decode_saves_nothing),
        cmocka_unit_test(edges),
        cmocka_unit_test(intervals_are_ordered),
        cmocka_unit_test(every_assumption_is_told),
        cmocka_unit_test(memory_rows_are_socs),
        cmocka_unit_test(a_simulated_cache_lies_between_the_bounds),
        cmocka_unit_test(lru_falls_from_all_to_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
