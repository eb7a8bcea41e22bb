/* pack_test.c: documents that share a run of the float model are seen as each by itself: with the CPU device,
 * on a tiny checkpoint. */
#include <math.h>

#include "cli/quantized_model.h"
#include "cli/run_program.h"
#include "cli/tiny_gguf.h"
#include "quant/observe.h"
#include "quant/pack.h"
#include "quant/sink.h"

static sw_error err;

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

enum { DOCUMENTS = 5, EACH = 9, TOGETHER = 20 };

static void documents_in_a_pack(void **state) {
    (void)state;
    static const int32_t ids[40] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4,
                                    6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5, 0, 2, 8, 8, 4, 1, 9, 7};
    const sw_window windows[DOCUMENTS] = {
        {ids, 12}, {ids + 12, 9}, {ids + 21, 4}, {ids + 25, 6}, {ids + 31, 9}};
    static const uint32_t lengths[] = {18, 19}, begins[] = {0, 9, 0, 4, 10};
    sw_arena arena = SW_ARENA_EMPTY;
    sw_packs packs;
    OK(sw_packs_make(&packs, NULL, windows, DOCUMENTS, EACH, TOGETHER, &arena, &err));
    assert_int_equal(packs.n, 2);
    assert_int_equal(packs.n_tokens, 37);
    for (size_t i = 0, d = 0; i < packs.n; i++) {
        assert_int_equal(packs.windows[i].n_tokens, lengths[i]);
        for (uint32_t t = 0; t < packs.windows[i].n_tokens; t++) {
            if (t > 0 && packs.begins[i][t] != packs.begins[i][t - 1]) d++;
            assert_int_equal(packs.begins[i][t], begins[d]);
            assert_int_equal(packs.windows[i].ids[t], windows[d].ids[t - begins[d]]);
        }
        d++;
    }
    sw_arena_free(&arena);
}

static float wider(float end) {
    return end * 1.25f;
}

static void near(const char *name, float value, float wanted) {
    if (!(fabsf(value - wanted) <= 1e-4f * (1 + fabsf(wanted))))
        fail_msg("%s: %g, wanted %g", name, (double)value, (double)wanted);
}

/* By whole runs of one document each, and packed, behind a sink and without one. */
static void ranges_are_those_of_each_by_itself(void **state) {
    (void)state;
    sw_options options = {.model = NULL, .threads = 2};
    sw_checkpoint checkpoint;
    bytes b = {0};
    char path[128];
    tiny_gguf_build(&b);
    snprintf(path, sizeof path, "%s", write_file("tiny.gguf", b.data, b.size));
    free(b.data);
    options.model = path;
    OK(sw_checkpoint_open(&checkpoint, &options, &err));
    const sw_graph_options graph = {"calibration", 36, SW_ATTENTION_GROUPED, SW_HEAD_ALL};
    sw_decoder decoder;
    sw_groups groups;
    OK(sw_decoder_build(&decoder, &checkpoint.model, 37, &graph, 1, &err));
    OK(sw_groups_init(&groups, decoder.graphs, 1, &err));
    int32_t ids[36];
    for (int i = 0; i < 36; i++) ids[i] = (i * i * 7 + 3) % (int32_t)checkpoint.model.hparams.vocab;
    const sw_window windows[] = {{ids, 9}, {ids + 9, 9}, {ids + 18, 9}, {ids + 27, 9}};
    for (uint32_t n_sink = 0; n_sink < 2; n_sink++) {
        sw_arena arena = SW_ARENA_EMPTY;
        sw_sink sink = {0};
        sw_packs packs;
        sw_ranges *each, *packed;
        const int32_t first = 1;
        if (n_sink > 0)
            OK(sw_sink_compute(&sink, &checkpoint.model, checkpoint.cpu, &first, 1, &arena, &err));
        OK(sw_packs_make(&packs, &sink, windows, 4, 9, 36, &arena, &err));
        assert_int_equal(packs.n, 1);
        OK(sw_calibrate(&each, &checkpoint.model, &sink, NULL, checkpoint.cpu, windows, 4, &err));
        OK(sw_calibrate_packed(&packed, &checkpoint.model, &sink, NULL, checkpoint.cpu, &packs, &err));
        assert_int_equal(sw_ranges_count(packed), sw_ranges_count(each));
        for (uint32_t i = 0; i < sw_ranges_count(each); i++) {
            const char *name;
            const sw_range *wanted = sw_ranges_at(each, i, &name), *r = sw_ranges_find(packed, name);
            assert_non_null(r);
            if (isfinite(wanted->least_row_max)) { /* scores: blocked ones are no other document's */
                const float span = wanted->max - wanted->least_row_max;
                near(name, r->max, wanted->max + span);
                near(name, r->least_row_max, wanted->least_row_max - span);
            } else if (sw_groups_kind(&groups, name) == SW_RANGE_KV) {
                near(name, r->min, wanted->min), near(name, r->max, wanted->max);
            } else {
                near(name, r->min, fminf(wanted->min, wider(wanted->min)));
                near(name, r->max, fmaxf(wanted->max, wider(wanted->max)));
            }
        }
        sw_ranges_free(each), sw_ranges_free(packed);
        sw_arena_free(&arena);
    }
    sw_groups_free(&groups);
    sw_decoder_free(&decoder);
    sw_checkpoint_close(&checkpoint);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_in_a_pack),
        cmocka_unit_test_setup_teardown(ranges_are_those_of_each_by_itself, make_folder, remove_folder)};
    return cmocka_run_group_tests_name("pack", tests, NULL, NULL);
}
