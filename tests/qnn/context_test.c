/* From options to binaries with the real library: a graph of two FullyConnected, compiled, read back, run in
 * the same process; weight sharing, the SLC allocator, the DDR summary, refusals. */
#include "htp_test.h"

#include <math.h>

#include "qnn/binary_info.h"

enum { IN = 64, MID = 96, OUT = 32 };
/* Powers of two: the HTP's multiplier is then exact, and so is the right answer. */
static const float X_SCALE = 0x1p-6f, W_SCALE = 0x1p-8f, MID_SCALE = 0x1p-5f, OUT_SCALE = 0x1p-4f;
enum { X_OFFSET = -120, MID_OFFSET = -128, OUT_OFFSET = -100 };

static sw_qnn_library library;
static sw_arena arena;
static int8_t w1[MID * IN], w2[OUT * MID];

/* x u8 [rows, IN] -> u8 [rows, MID] -> u8 [rows, OUT] */
static sw_graph *make_graph(const char *name, uint32_t rows) {
    sw_graph *g = sw_graph_create(&arena, name, rows, 128);
    assert_non_null(g);
    test_tensor(g, "x", SW_TENSOR_INPUT, SW_U8, DIMS(rows, IN), X_SCALE, X_OFFSET);
    test_tensor(g, "w1", SW_TENSOR_CONSTANT, SW_S8, DIMS(MID, IN), W_SCALE, 0)->data = w1;
    test_tensor(g, "w2", SW_TENSOR_CONSTANT, SW_S8, DIMS(OUT, MID), W_SCALE, 0)->data = w2;
    test_tensor(g, "mid", SW_TENSOR_NATIVE, SW_U8, DIMS(rows, MID), MID_SCALE, MID_OFFSET);
    test_tensor(g, "y", SW_TENSOR_OUTPUT, SW_U8, DIMS(rows, OUT), OUT_SCALE, OUT_OFFSET);
    test_op(g, (sw_op){.type = SW_OP_FULLY_CONNECTED}, "fc1", (const char *[]){"x", "w1"}, 2, "mid");
    test_op(g, (sw_op){.type = SW_OP_FULLY_CONNECTED}, "fc2", (const char *[]){"mid", "w2"}, 2, "y");
    assert_true(sw_graph_seal(g));
    return g;
}

/* Exact: the integer sum, then one rounding to the output's step, half up, saturated. */
static void multiply(const uint8_t *x, int32_t offset, double scale, const int8_t *w, uint32_t in,
                     uint32_t out, double out_scale, int32_t out_offset, uint8_t *y) {
    for (uint32_t o = 0; o < out; o++) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < in; i++) sum += (x[i] + offset) * w[o * in + i];
        double q = floor(sum * scale / out_scale + 0.5) - out_offset;
        y[o] = (uint8_t)(q < 0 ? 0 : q > 255 ? 255 : q);
    }
}

static void fill(void) {
    uint64_t state = 1;
    for (size_t i = 0; i < sizeof w1; i++) w1[i] = (int8_t)(test_next(&state) % 256 - 128);
    for (size_t i = 0; i < sizeof w2; i++) w2[i] = (int8_t)(test_next(&state) % 256 - 128);
}

static const sw_qnn_graph_options plain = {.opt_level = 3}, slc = {.slc_allocator = true, .opt_level = 3};

static void two_layers_run_to_the_exact_integers(void **state) {
    (void)state;
    sw_device *device;
    CHECK_OK(sw_htp_device_create(&device, &library, sw_soc_find("SM8750"), &slc, &test_error));
    sw_graph *g = make_graph("forward", 1);
    for (uint32_t i = 0; i < g->n_ops; i++)
        CHECK_OK(device->ops->supports(device, g, &g->ops[i], &test_error));
    sw_program *program;
    CHECK_OK(device->ops->load(device, g, &program, &test_error));

    uint8_t x[IN], mid[MID], want[OUT], got[OUT];
    uint64_t seed = 2;
    for (int call = 0; call < 2; call++) {
        for (size_t i = 0; i < IN; i++) x[i] = (uint8_t)test_next(&seed);
        multiply(x, X_OFFSET, (double)X_SCALE * W_SCALE, w1, IN, MID, MID_SCALE, MID_OFFSET, mid);
        multiply(mid, MID_OFFSET, (double)MID_SCALE * W_SCALE, w2, MID, OUT, OUT_SCALE, OUT_OFFSET, want);
        memset(got, 0, sizeof got);
        CHECK_OK(device->ops->execute(program, &(sw_binding){.data = x}, &(sw_binding){.data = got}, NULL,
                                      NULL, &test_error));
        assert_memory_equal(got, want, OUT);
        uint32_t inside = 0; /* the test would be empty if all saturated */
        for (int i = 0; i < OUT; i++) inside += want[i] > 0 && want[i] < 255;
        assert_true(inside > OUT / 2);
    }

    assert_int_equal(device->ops->execute(program, &(sw_binding){.data = NULL}, &(sw_binding){.data = got},
                                          NULL, NULL, &test_error),
                     SW_INVALID_ARGUMENT);
    assert_non_null(strstr(test_error.message, "x: bound to nothing"));
    device->ops->unload(program);
    device->ops->destroy(device);
}

static void check_info(const uint8_t *binary, uint64_t size, uint64_t *shared) {
    sw_binary_info info;
    CHECK_OK(sw_binary_info_read(&library, "test.bin", binary, size, &arena, &info, &test_error));
    assert_string_equal(info.build_id, library.build_id);
    assert_int_equal(info.soc_model, 69);
    assert_int_equal(info.htp_arch, 79);
    assert_int_equal(info.core_api.major, 2);
    assert_int_equal(info.n_graphs, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const sw_binary_graph *g = &info.graphs[i];
        const char *name = g->name;
        assert_true(strcmp(name, "prefill_forward") == 0 || strcmp(name, "kv_forward") == 0);
        assert_int_equal(g->n_inputs, 1);
        assert_int_equal(g->n_outputs, 1);
        assert_string_equal(g->inputs[0].name, "x");
        assert_string_equal(g->outputs[0].name, "y");
        assert_int_equal(g->inputs[0].rank, 2);
        assert_int_equal(g->inputs[0].dims[0], strcmp(name, "kv_forward") == 0 ? 1 : 32);
        assert_int_equal(g->inputs[0].dims[1], IN);
        assert_true(g->inputs[0].known && g->inputs[0].dtype == SW_U8 && g->inputs[0].has_encoding);
        assert_true(g->inputs[0].encoding.scale == X_SCALE);
        assert_int_equal(g->inputs[0].encoding.offset, X_OFFSET);
        assert_true(g->has_blob && g->has_sizes);
        assert_int_equal(g->vtcm_bytes, 8 << 20);
        assert_int_equal(g->opt_level, 3);
        assert_int_equal(g->spill_fill_bytes, 0);
        *shared = g->shared_weights_bytes;
    }
}

static void hybrid_graphs_share_their_weights(void **state) {
    (void)state;
    const sw_graph *graphs[] = {make_graph("prefill_forward", 32), make_graph("kv_forward", 1)};
    sw_qnn_graph_options options[] = {slc, plain};
    sw_htp_graph_report reports[2];
    uint64_t sizes[2], shared;
    for (int sharing = 0; sharing < 2; sharing++) {
        uint8_t *binary;
        CHECK_OK(sw_htp_compile(&library, sw_soc_find("SM8750"), graphs, options, 2, sharing, reports,
                                &binary, &sizes[sharing], &test_error));
        /* The compiler's own word for each graph's SLC setting. */
        assert_int_equal(reports[0].slc_allocate, 1);
        assert_int_equal(reports[1].slc_allocate, 0);
        for (int i = 0; i < 2; i++) {
            assert_true(reports[i].ddr.known);
            assert_int_equal(reports[i].ddr.spill, 0);
            assert_in_range(reports[i].ddr.read, sizeof w1 + sizeof w2, 200000);
            assert_true(reports[i].finalize_seconds > 0);
        }
        check_info(binary, sizes[sharing], &shared);
        assert_true(sharing ? shared >= sizeof w1 + sizeof w2 : shared == 0);
        free(binary);
    }
    assert_true(sizes[1] < sizes[0]);
}

/* The library itself confirms what was put into the binary: on a PC it can't load an SLC graph. */
static void slc_binaries_can_not_be_loaded_back(void **state) {
    (void)state;
    const sw_graph *graphs[] = {make_graph("forward", 1)};
    for (int on = 0; on < 2; on++) {
        sw_htp_graph_report report;
        uint8_t *binary;
        uint64_t size;
        CHECK_OK(sw_htp_compile(&library, sw_soc_find("SM8750"), graphs, on ? &slc : &plain, 1, false,
                                &report, &binary, &size, &test_error));
        sw_qnn qnn;
        CHECK_OK(sw_qnn_open(&qnn, &library, sw_soc_find("SM8750"), &test_error));
        const QnnCore_t *core = &library.htp->core;
        Qnn_Handle_t context = NULL, graph = NULL;
        sw_qnn_log_reset();
        sw_log_level level = sw_log_get_level();
        sw_log_set_level(SW_LOG_ERROR);
        assert_int_equal(
            core->contextCreateFromBinary(qnn.backend, qnn.device, NULL, binary, size, &context, NULL), 0);
        sw_qnn_capture seen;
        sw_qnn_log_captured(&seen);
        assert_int_equal(seen.n_4003 > 0, on);
        uint64_t e = core->graphRetrieve(context, "forward", &graph);
        sw_log_set_level(level);
        assert_int_equal(e & 0xffff, on ? 6003 : 0);
        core->contextFree(context, NULL);
        sw_qnn_close(&qnn);
        free(binary);
    }
}

static void options_out_of_range_are_refused(void **state) {
    (void)state;
    sw_qnn qnn;
    sw_qnn_context context;
    sw_qnn_graph graph;
    CHECK_OK(sw_qnn_open(&qnn, &library, sw_soc_find("SM8450"), &test_error));
    assert_int_equal(sw_qnn_context_create(&context, &qnn, true, &test_error), SW_UNSUPPORTED);
    assert_non_null(strstr(test_error.message, "V73 or later, SM8450 has V69"));
    CHECK_OK(sw_qnn_context_create(&context, &qnn, false, &test_error));
    sw_qnn_graph_options options = {.vtcm_mb = 16, .opt_level = 3};
    assert_int_equal(sw_qnn_graph_create(&context, "g", &options, &graph, &test_error), SW_INVALID_ARGUMENT);
    assert_non_null(strstr(test_error.message, "16 MB of VTCM for graph g: SM8450 has 8 MB"));
    options = (sw_qnn_graph_options){.opt_level = 4};
    assert_int_equal(sw_qnn_graph_create(&context, "g", &options, &graph, &test_error), SW_INVALID_ARGUMENT);
    sw_qnn_context_free(&context);
    sw_qnn_close(&qnn);
    sw_qnn_close(&qnn); /* no-op */

    const sw_soc unknown = {"SM9999", 999, 79, 8};
    assert_int_equal(sw_qnn_open(&qnn, &library, &unknown, &test_error), SW_LIBRARY);
    assert_non_null(strstr(test_error.message, "SM9999"));
    assert_non_null(strstr(test_error.message, "14001 (QNN_DEVICE_ERROR_INVALID_CONFIG)"));
}

static void impossible_ops_are_named_with_the_library_s_reason(void **state) {
    (void)state;
    sw_graph *g = make_graph("mixed", 1);
    g->tensors[sw_graph_find(g, "y")]->dtype = SW_U16; /* u8 in, u16 out: the HTP has no such op */
    sw_htp_graph_report report;
    uint8_t *binary;
    uint64_t size;
    assert_int_equal(sw_htp_compile(&library, sw_soc_find("SM8750"), (const sw_graph *[]){g}, &plain, 1,
                                    false, &report, &binary, &size, &test_error),
                     SW_UNSUPPORTED);
    assert_null(binary);
    assert_non_null(strstr(test_error.message, "mixed: op fc2 (FullyConnected; mid u8[1,96], w2 s8[32,96] -> "
                                               "y u16[1,32])"));
    assert_non_null(strstr(test_error.message, "3110"));
    assert_non_null(strstr(test_error.message, "the library says"));

    g = make_graph("empty_constant", 1);
    g->tensors[sw_graph_find(g, "w1")]->data = NULL;
    assert_int_equal(sw_htp_compile(&library, sw_soc_find("SM8750"), (const sw_graph *[]){g}, &plain, 1,
                                    false, &report, &binary, &size, &test_error),
                     SW_INVALID_ARGUMENT);
    assert_non_null(strstr(test_error.message, "constant w1: it has no data"));
}

static void damaged_binaries_are_refused(void **state) {
    (void)state;
    sw_binary_info info;
    static const uint8_t zeros[4096];
    assert_int_equal(
        sw_binary_info_read(&library, "zeros.bin", zeros, sizeof zeros, &arena, &info, &test_error),
        SW_BAD_DATA);
    assert_non_null(strstr(test_error.message, "zeros.bin"));
    assert_int_equal(test_error.code, SW_BAD_DATA);
    assert_int_equal(sw_binary_info_read(&library, "empty.bin", zeros, 0, &arena, &info, &test_error),
                     SW_BAD_DATA);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_layers_run_to_the_exact_integers),
                                       cmocka_unit_test(hybrid_graphs_share_their_weights),
                                       cmocka_unit_test(slc_binaries_can_not_be_loaded_back),
                                       cmocka_unit_test(options_out_of_range_are_refused),
                                       cmocka_unit_test(impossible_ops_are_named_with_the_library_s_reason),
                                       cmocka_unit_test(damaged_binaries_are_refused)};
    fill();
    if (!test_open_library(&library)) return TEST_SKIPPED;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sw_arena_free(&arena);
    return failed;
}
