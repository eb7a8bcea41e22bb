/* Heads of large vocabularies, alone as the builder makes them, compile for every HTP that shares weights. */
#include "htp_test.h"

enum { HIDDEN = 512, MOST_VOCAB = 262144 };

static sw_qnn_library library;
static int8_t *weights;
static float *scales;

/* x u16 [1, HIDDEN] -> u16 [1, vocab] -> u16 [32, vocab / 32] */
static sw_graph *make_head(sw_arena *arena, uint32_t vocab) {
    sw_graph *g = sw_graph_create(arena, "kv_forward", 1, 128);
    assert_non_null(g);
    /* The builder's tensors are in the graph's arena, and so are these. */
    test_tensor(g, "x", SW_TENSOR_INPUT, SW_U16, DIMS(1, HIDDEN), 0x1p-12f, -32768);
    sw_tensor *w = test_tensor(g, "head", SW_TENSOR_CONSTANT, SW_S8, DIMS(vocab, HIDDEN), 0, 0);
    w->data = weights;
    w->channel_scales = scales;
    test_tensor(g, "logits_row", SW_TENSOR_NATIVE, SW_U16, DIMS(1, vocab), 0x1p-10f, -32768);
    test_tensor(g, "logits", SW_TENSOR_OUTPUT, SW_U16, DIMS(32, vocab / 32), 0x1p-10f, -32768);
    test_op(g, (sw_op){.type = SW_OP_FULLY_CONNECTED}, "logits_row", (const char *[]){"x", "head"}, 2,
            "logits_row");
    test_op(g, (sw_op){.type = SW_OP_RESHAPE}, "logits", (const char *[]){"logits_row"}, 1, "logits");
    assert_true(sw_graph_seal(g));
    return g;
}

static void heads_compile(void **state) {
    (void)state;
    static const char *const socs[] = {"SM8550", "SM8650", "SM8750", "SM8850"}; /* V73, V75, V79, V81 */
    static const uint32_t vocabs[] = {49152, 151936, MOST_VOCAB};
    for (size_t s = 0; s < 4; s++)
        for (size_t v = 0; v < 3; v++) {
            sw_arena arena = SW_ARENA_EMPTY;
            const sw_graph *const graphs[] = {make_head(&arena, vocabs[v])};
            const sw_qnn_graph_options options = {.opt_level = 3};
            sw_htp_graph_report report;
            uint8_t *binary;
            uint64_t size;
            if (sw_htp_compile(&library, sw_soc_find(socs[s]), graphs, &options, 1, false, NULL, NULL,
                               &report, &binary, &size, &test_error) != SW_OK)
                fail_msg("%s, vocabulary %u: %s", socs[s], vocabs[v], test_error.message);
            assert_true(size > (uint64_t)vocabs[v] * HIDDEN); /* the weights are in it */
            free(binary);
            sw_arena_free(&arena);
        }
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(heads_compile)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(weights);
    free(scales);
    return failed;
}
