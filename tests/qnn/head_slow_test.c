/* Heads of large vocabularies, alone as the builder makes them, compile for every HTP that shares weights:
 * without a spill, and no more leaves than the row of logits. */
#include "graph/decoder.h"
#include "htp_test.h"

enum { HIDDEN = 512, MOST_VOCAB = 262144, MOST_PIECES = 16, SLACK = 8192 /* a page for each output's end */ };

static sw_qnn_library library;
static int8_t *weights;
static float *scales;

static const char *numbered(sw_arena *arena, const char *name, uint32_t i) {
    const char *text = sw_arena_printf(arena, "%s.%u", name, i);
    assert_non_null(text);
    return text;
}

/* x u16 [1, HIDDEN] -> pieces u16 [1, n] -> [n / 32, 32], one behind the other: u16 [vocab / 32, 32] */
static sw_graph *make_head(sw_arena *arena, uint32_t vocab, uint32_t pieces) {
    sw_graph *g = sw_graph_create(arena, "kv_forward", 1, 128);
    const char *parts[MOST_PIECES];
    assert_non_null(g);
    assert_true(pieces <= MOST_PIECES);
    test_tensor(g, "x", SW_TENSOR_INPUT, SW_U16, DIMS(1, HIDDEN), 0x1p-12f, -32768);
    sw_tensor *w = test_tensor(g, "head", SW_TENSOR_CONSTANT, SW_S8, DIMS(vocab, HIDDEN), 0, 0);
    w->data = weights;
    w->channel_scales = scales;
    for (uint32_t i = 0; i < pieces; i++) {
        const char *row = numbered(arena, "logits_row", i);
        const uint32_t begin = sw_head_piece_begin(vocab, pieces, i),
                       end = sw_head_piece_begin(vocab, pieces, i + 1), n = end - begin;
        parts[i] = pieces > 1 ? numbered(arena, "logits_part", i) : "logits";
        test_tensor(g, row, SW_TENSOR_NATIVE, SW_U16, DIMS(1, n), 0x1p-10f, -32768);
        test_tensor(g, parts[i], pieces > 1 ? SW_TENSOR_NATIVE : SW_TENSOR_OUTPUT, SW_U16, DIMS(n / 32, 32),
                    0x1p-10f, -32768);
        test_op(g, (sw_op){.type = SW_OP_FULLY_CONNECTED, .channels = {begin, end}}, row,
                (const char *[]){"x", "head"}, 2, row);
        test_op(g, (sw_op){.type = SW_OP_RESHAPE}, parts[i], (const char *[]){row}, 1, parts[i]);
    }
    if (pieces > 1) {
        test_tensor(g, "logits", SW_TENSOR_OUTPUT, SW_U16, DIMS(vocab / 32, 32), 0x1p-10f, -32768);
        test_op(g, (sw_op){.type = SW_OP_CONCAT}, "logits", parts, pieces, "logits");
    }
    assert_true(sw_graph_seal(g));
    return g;
}

static sw_htp_graph_report compile(const char *soc, uint32_t vocab, uint32_t pieces, uint32_t vtcm_mb) {
    sw_arena arena = SW_ARENA_EMPTY;
    const sw_graph *const graphs[] = {make_head(&arena, vocab, pieces)};
    const sw_qnn_graph_options options = {.opt_level = 3, .vtcm_mb = vtcm_mb};
    sw_htp_graph_report report;
    uint8_t *binary;
    uint64_t size;
    if (sw_htp_compile(&library, sw_soc_find(soc), graphs, &options, 1, false, &report, &binary, &size,
                       &test_error) != SW_OK)
        fail_msg("%s, vocabulary %u in %u pieces: %s", soc, vocab, pieces, test_error.message);
    assert_true(size > (uint64_t)vocab * HIDDEN); /* the weights are in it */
    assert_true(report.ddr.known);
    free(binary);
    sw_arena_free(&arena);
    return report;
}

static void heads_compile_without_a_spill(void **state) {
    (void)state;
    static const char *const socs[] = {"SM8550", "SM8650", "SM8750", "SM8850"}; /* V73, V75, V79, V81 */
    static const uint32_t vocabs[] = {49152, 128256, 151936, MOST_VOCAB}, vtcm_mb[] = {8, 8, 8, 8, 4, 2};
    for (size_t s = 0; s < 4; s++)
        for (size_t v = 0; v < 6; v++) { /* all at 8 MB, then the second one with less */
            const uint32_t vocab = vocabs[v < 4 ? v : 1];
            const uint32_t pieces = sw_head_form_auto(vocab, 0, vtcm_mb[v]).pieces;
            const sw_htp_graph_report report = compile(socs[s], vocab, pieces, vtcm_mb[v]);
            if (report.ddr.spill != 0 || report.ddr.fill != 0 || report.ddr.write > vocab * 2 + SLACK)
                fail_msg("%s, %u MB, vocabulary %u in %u pieces: spill %llu, fill %llu, write %llu", socs[s],
                         vtcm_mb[v], vocab, pieces, (unsigned long long)report.ddr.spill,
                         (unsigned long long)report.ddr.fill, (unsigned long long)report.ddr.write);
        }
}

/* Why they are cut. */
static void a_whole_row_spills_where_its_tile_nearly_fills_the_vtcm(void **state) {
    (void)state;
    assert_true(compile("SM8750", 128256, 1, 8).ddr.spill > 0);
}

int main(void) {
    if (!test_open_library(&library)) return TEST_SKIPPED;
    sw_log_set_level(SW_LOG_ERROR);
    weights = malloc((size_t)MOST_VOCAB * HIDDEN);
    scales = malloc(MOST_VOCAB * sizeof *scales);
    if (weights == NULL || scales == NULL) return TEST_SKIPPED;
    uint64_t state = 1;
    for (size_t i = 0; i < (size_t)MOST_VOCAB * HIDDEN; i++)
        weights[i] = (int8_t)(test_next(&state) % 256 - 128);
    for (size_t i = 0; i < MOST_VOCAB; i++) scales[i] = 0x1p-9f;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_compile_without_a_spill),
        cmocka_unit_test(a_whole_row_spills_where_its_tile_nearly_fills_the_vtcm)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(weights);
    free(scales);
    return failed;
}
