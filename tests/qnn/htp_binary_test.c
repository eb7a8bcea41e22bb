/* With the real library: a graph compiled into a binary, loaded back from it and run, gives the integers of
 * the same graph run where it was compiled; clocks and the profile answer; what can't be loaded says so. */
#include "htp_test.h"

#include "qnn/binary_info.h"
#include "qnn/platform.h"

enum { IN = 64, OUT = 32 };

static sw_qnn_library library;
static sw_arena arena;
static int8_t w[OUT * IN];

static sw_graph *make_graph(const char *name, uint32_t rows) {
    sw_graph *g = sw_graph_create(&arena, name, rows, 128);
    assert_non_null(g);
    test_tensor(g, "x", SW_TENSOR_INPUT, SW_U8, DIMS(rows, IN), 0x1p-6f, -120);
    test_tensor(g, "w", SW_TENSOR_CONSTANT, SW_S8, DIMS(OUT, IN), 0x1p-8f, 0)->data = w;
    test_tensor(g, "y", SW_TENSOR_OUTPUT, SW_U8, DIMS(rows, OUT), 0x1p-4f, -100);
    test_op(g, (sw_op){.type = SW_OP_FULLY_CONNECTED}, "fc", (const char *[]){"x", "w"}, 2, "y");
    assert_true(sw_graph_seal(g));
    return g;
}

/* Of one graph or two; *out's data is for free(). */
static void compile(const sw_graph *const *graphs, uint32_t n, bool sharing, bool slc, sw_htp_binary *out) {
    const sw_qnn_graph_options options[2] = {{.opt_level = 3, .slc_allocator = slc},
                                             {.opt_level = 3, .slc_allocator = slc}};
    sw_htp_graph_report reports[2];
    uint8_t *data;
    sw_binary_info *info = sw_arena_alloc(&arena, sizeof *info);
    CHECK_OK(sw_htp_compile(&library, sw_soc_find("SM8750"), graphs, options, n, sharing, reports, &data,
                            &out->size, &test_error));
    CHECK_OK(sw_binary_info_read(&library, "new.bin", data, out->size, &arena, info, &test_error));
    out->file = "new.bin", out->data = data, out->info = info;
}

static void count_profiles(void *context, uint32_t shard, const char *graph, const sw_profile *profile) {
    uint32_t *found = context;
    assert_int_equal(shard, 0);
    assert_string_equal(graph, "forward");
    assert_int_equal(profile->n_runs, 3);
    for (uint32_t i = 0; i < profile->n_events; i++) {
        const sw_profile_event *e = &profile->events[i];
        if (e->type != 400) continue; /* the whole run */
        assert_int_equal(e->unit, QNN_PROFILE_UNIT_MICROSEC);
        assert_true(e->sum > 0 && e->count == 3);
        (*found)++;
    }
}

static void a_binary_runs_like_its_graph(void **state) {
    (void)state;
    sw_device *emulator, *htp;
    sw_program *compiled, *loaded;
    sw_htp_binary binary;
    uint8_t x[4 * IN], want[4 * OUT], got[4 * OUT];
    uint64_t seed = 3;
    const sw_graph *g = make_graph("forward", 4);
    const sw_qnn_graph_options plain = {.opt_level = 3};
    CHECK_OK(sw_htp_device_create(&emulator, &library, sw_soc_find("SM8750"), &plain, &test_error));
    CHECK_OK(emulator->ops->load(emulator, g, &compiled, &test_error));
    compile(&g, 1, false, false, &binary);
    for (unsigned mode = 0; mode < SW_PERF_MODE_COUNT; mode++) {
        const sw_htp_options options = {.perf = (sw_htp_perf_mode)mode, .profile = true};
        CHECK_OK(
            sw_htp_device_load(&htp, &library, sw_soc_find("SM8750"), &binary, 1, &options, &test_error));
        CHECK_OK(htp->ops->load(htp, g, &loaded, &test_error));
        for (int call = 0; call < 3; call++) {
            for (size_t i = 0; i < sizeof x; i++) x[i] = (uint8_t)test_next(&seed);
            memset(got, 0, sizeof got);
            const sw_binding in = {.data = x}, out[2] = {{.data = want}, {.data = got}};
            CHECK_OK(emulator->ops->execute(compiled, &in, &out[0], NULL, NULL, &test_error));
            CHECK_OK(htp->ops->execute(loaded, &in, &out[1], NULL, NULL, &test_error));
            assert_memory_equal(want, got, sizeof want);
        }
        uint32_t found = 0;
        sw_htp_device_profiles(htp, count_profiles, &found);
        assert_int_equal(found, 1);
        htp->ops->unload(loaded);
        htp->ops->destroy(htp);
    }
    emulator->ops->unload(compiled);
    emulator->ops->destroy(emulator);
    free((void *)(uintptr_t)binary.data);
}

static void what_a_pc_cannot_load_is_an_error(void **state) {
    (void)state;
    const sw_graph *graphs[2] = {make_graph("prefill_forward", 4), make_graph("kv_forward", 1)};
    const sw_htp_options options = {0};
    sw_htp_binary binary;
    sw_device *htp = NULL;
    compile(graphs, 2, true, false, &binary);
    assert_int_equal(
        sw_htp_device_load(&htp, &library, sw_soc_find("SM8750"), &binary, 1, &options, &test_error),
        SW_LIBRARY);
    assert_non_null(
        strstr(test_error.message, "new.bin: loading the context of shard 0 of 1: QNN error 1000"));
    assert_non_null(strstr(test_error.message, "Shared weights buffer"));
    free((void *)(uintptr_t)binary.data);
    /* The library says 0 to this one, and has no graphs afterwards. */
    compile(graphs, 1, false, true, &binary);
    assert_int_equal(
        sw_htp_device_load(&htp, &library, sw_soc_find("SM8750"), &binary, 1, &options, &test_error),
        SW_LIBRARY);
    assert_non_null(strstr(test_error.message, "QNN error 4003"));
    free((void *)(uintptr_t)binary.data);
    sw_qnn_platform platform;
    CHECK_OK(sw_qnn_platform_read(&library, &platform, &test_error));
    assert_true(platform.htp_arch >= 68 && platform.vtcm_mb > 0);
}

/* A row of 128k weights can't be cut. */
static void an_op_larger_than_vtcm_is_named(void **state) {
    (void)state;
    enum { ROWS = 32, WIDE = 1 << 17, NARROW = 64 };
    sw_graph *g = sw_graph_create(&arena, "kv_forward", ROWS, 128);
    int8_t *weights = calloc(NARROW, WIDE);
    assert_non_null(g);
    assert_non_null(weights);
    test_tensor(g, "x", SW_TENSOR_INPUT, SW_U16, DIMS(ROWS, WIDE), 0x1p-10f, -30000);
    test_tensor(g, "w_wide", SW_TENSOR_CONSTANT, SW_S8, DIMS(NARROW, WIDE), 0x1p-8f, 0)->data = weights;
    test_tensor(g, "y", SW_TENSOR_OUTPUT, SW_U16, DIMS(ROWS, NARROW), 0x1p-4f, -30000);
    test_op(g, (sw_op){.type = SW_OP_FULLY_CONNECTED}, "layer_7.ffn_out", (const char *[]){"x", "w_wide"}, 2,
            "y");
    assert_true(sw_graph_seal(g));
    const sw_graph *const list[] = {g};
    const sw_qnn_graph_options options = {.opt_level = 3, .vtcm_mb = 2};
    sw_htp_graph_report report;
    uint8_t *data;
    uint64_t size;
    assert_int_equal(sw_htp_compile(&library, sw_soc_find("SM8750"), list, &options, 1, false, &report, &data,
                                    &size, &test_error),
                     SW_UNSUPPORTED);
    if (strstr(
            test_error.message,
            "compiling graph kv_forward: an op, most likely `layer_7.ffn_out` of layer 7 can't be cut into "
            "pieces that fit into VTCM: it wants 8388608 bytes at once, the graph may use "
            "2097152 (2 MB)") != test_error.message)
        fail_msg("%s", test_error.message);
    free(weights);
}

int main(void) {
    if (!test_open_library(&library)) return TEST_SKIPPED;
    sw_log_set_level(SW_LOG_ERROR);
    uint64_t state = 1;
    for (size_t i = 0; i < sizeof w; i++) w[i] = (int8_t)(test_next(&state) % 256 - 128);
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_binary_runs_like_its_graph),
                                       cmocka_unit_test(what_a_pc_cannot_load_is_an_error),
                                       cmocka_unit_test(an_op_larger_than_vtcm_is_named)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sw_arena_free(&arena);
    return failed;
}
