/* `spillway inspect` through Qualcomm's library: a bundle, its context binary alone and damaged, and an
 * ExecuTorch program that others made: SPILLWAY_EXAMPLE_PTE names stories260k_hybrid_llama_qnn.pte of
 * ExecuTorch's Qualcomm llama example. */
#include <jansson.h>

#include "cli/run_program.h"
#include "cli/tiny_bundle.h"

#define QNN SW_SOURCE_DIR "/external/qnn/onnxruntime_qnn"

static sw_error err;
static char bundle[128], binary[256], page_path[128];

static int set_up(void **state) {
    bytes b = {0};
    sw_bundle opened;
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    const char *gguf = write_file("tiny.gguf", b.data, b.size);
    free(b.data);
    snprintf(bundle, sizeof bundle, "%s", in_folder("bundle"));
    snprintf(page_path, sizeof page_path, "%s", in_folder("page.html"));
    ran r =
        RUN("compile", "-m", "SM8650", "--max_seq_len", "96", "--prefill_ar_len", "16", "--qnn_lib", QNN,
            "--model", gguf, "--artifact", bundle, "--use_slc_allocator=kv_forward", "--report", page_path);
    check_ran(&r, 0, "compiled into");
    ran_free(&r);
    BUNDLE_OK(sw_bundle_open(&opened, bundle, &err));
    snprintf(binary, sizeof binary, "%s",
             sw_bundle_part_path(&opened, sw_bundle_part(&opened, SW_PART_CONTEXT, 0)));
    sw_bundle_close(&opened);
    return 0;
}

static json_t *inspect_json(const char *path) {
    ran r = RUN("inspect", path, "--qnn_lib", QNN, "--json");
    check_ran(&r, 0, NULL);
    json_error_t why;
    json_t *o = json_loadb(r.out, r.out_size, 0, &why);
    if (o == NULL) fail_msg("%s at line %d", why.text, why.line);
    ran_free(&r);
    return o;
}

static json_int_t integer(const json_t *o, const char *key) {
    if (!json_is_integer(json_object_get(o, key))) fail_msg("%s is no integer", key);
    return json_integer_value(json_object_get(o, key));
}

static void check_text(const json_t *o, const char *key, const char *wanted) {
    const char *text = json_string_value(json_object_get(o, key));
    if (text == NULL || strcmp(text, wanted) != 0) fail_msg("%s is %s", key, text != NULL ? text : "none");
}

/* A binary says the same alone as inside its bundle, whose manifest also knows of the SLC allocator. */
static void a_bundle_and_its_binary(void **state) {
    (void)state;
    json_t *whole = inspect_json(bundle), *alone = inspect_json(binary);
    check_text(whole, "format", "spillway-bundle");
    check_text(alone, "kind", "qnn_context_binary");
    const json_t *inside = json_array_get(json_object_get(whole, "contexts"), 0);
    const json_t *same = json_array_get(json_object_get(alone, "context_binaries"), 0);
    assert_true(json_equal(json_object_get(inside, "graphs"), json_object_get(same, "graphs")));
    check_text(same, "soc", "SM8650");
    assert_int_equal(integer(same, "htp_arch"), 75);
    const json_t *graphs = json_object_get(same, "graphs"), *of_manifest = json_object_get(whole, "graphs");
    assert_int_equal(json_array_size(graphs), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *g = json_array_get(graphs, i), *m = json_array_get(of_manifest, i);
        check_text(g, "slc_allocator", "unknown");
        assert_int_equal(json_is_true(json_object_get(m, "slc_allocator")), i == 1);
        check_text(g, "name", json_string_value(json_object_get(m, "name")));
        assert_int_equal(integer(g, "vtcm_bytes"), integer(m, "vtcm_bytes"));
        assert_int_equal(integer(g, "spill_fill_bytes"), integer(m, "spill_fill_bytes"));
    }
    json_decref(whole), json_decref(alone);
}

/* What the compiler told stands in the page that the compile has written. */
static void a_compile_reports(void **state) {
    (void)state;
    static const char *const figures[] = {"read", "write", "spill", "fill"};
    json_t *o = inspect_json(bundle);
    FILE *f = fopen(page_path, "rb");
    assert_non_null(f);
    size_t size;
    char *page = run_read_back(f, &size), text[160];
    for (size_t g = 0; g < 2; g++) {
        const json_t *graph = json_array_get(json_object_get(o, "graphs"), g);
        const json_t *inside =
            json_array_get(json_object_get(json_array_get(json_object_get(o, "contexts"), 0), "graphs"), g);
        for (size_t i = 0; i < 4; i++) {
            snprintf(text, sizeof text, "<data value=\"%lld\" data-path=\"graphs.%zu.ddr.%s\">",
                     (long long)integer(json_object_get(graph, "ddr"), figures[i]), g, figures[i]);
            bool shown = strstr(page, text) != NULL;
            if (!shown) fail_msg("%s is not in the page", text);
        }
        snprintf(text, sizeof text, "<data value=\"%lld\" data-path=\"contexts.0.graphs.%zu.op_data_bytes\">",
                 (long long)integer(inside, "op_data_bytes"), g);
        assert_non_null(strstr(page, text));
    }
    assert_non_null(strstr(page, "no spill-fill buffer"));
    free(page);
    json_decref(o);
}

static void damage_is_a_sentence(void **state) {
    (void)state;
    FILE *f = fopen(binary, "rb");
    assert_non_null(f);
    static uint8_t data[1 << 20], bad[1 << 20];
    size_t size = fread(data, 1, sizeof data, f);
    fclose(f);
    assert_true(size > 4096 && size < sizeof data);
    static const size_t cuts[] = {1, 7, 8, 100, 4096};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        ran r = RUN("inspect", write_file("cut.bin", data, cuts[i]), "--qnn_lib", QNN);
        check_ran(&r, 1, "cut.bin: not a readable context binary");
        ran_free(&r);
    }
    unsigned seed = 1, crashes = 0;
    for (int i = 0; i < 60; i++) { /* its first bytes hold the structs that the reader follows */
        memcpy(bad, data, size);
        for (int k = 0; k < 8; k++) {
            seed = seed * 1664525u + 1013904223u;
            bad[(seed >> 8) % 1200] ^= (uint8_t)(1u << (seed >> 28 & 7));
        }
        ran r = RUN("inspect", write_file("bad.bin", bad, size), "--qnn_lib", QNN);
        if (r.status != 0) check_ran(&r, 1, "bad.bin: ");
        crashes += strstr(r.err, "crashed on it") != NULL;
        ran_free(&r);
    }
    printf("60 damaged binaries: %u crashes of Qualcomm's reader, each a sentence\n", crashes);
}

/* Read out of the file by hand: two methods share the one QNN delegate's data. */
static void others_program(void **state) {
    (void)state;
    const char *path = getenv("SPILLWAY_EXAMPLE_PTE");
    if (path == NULL || access(path, R_OK) != 0) {
        printf("skipped: SPILLWAY_EXAMPLE_PTE names no file\n");
        skip();
    }
    json_t *o = inspect_json(path);
    check_text(o, "kind", "executorch_program");
    assert_int_equal(integer(o, "bytes"), 1350144);
    assert_int_equal(integer(o, "program_bytes"), 18688);
    assert_int_equal(json_array_size(json_object_get(o, "methods")), 29);
    assert_int_equal(json_array_size(json_object_get(o, "context_binaries")), 1);
    const json_t *c = json_array_get(json_object_get(o, "context_binaries"), 0);
    assert_int_equal(integer(c, "offset"), 18688 + 256);
    assert_int_equal(integer(c, "bytes"), 1331200);
    check_text(c, "methods", "kv_forward, prefill_forward");
    check_text(c, "build_id", "v2.37.0.250724175447_124859");
    check_text(c, "soc", "SM8650");
    const json_t *graphs = json_object_get(c, "graphs");
    assert_int_equal(json_array_size(graphs), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *g = json_array_get(graphs, i), *t;
        check_text(g, "name", i == 0 ? "kv_forward" : "prefill_forward");
        check_text(g, "slc_allocator", "unknown");
        assert_int_equal(integer(g, "vtcm_bytes"), 8 << 20);
        assert_int_equal(integer(g, "spill_fill_bytes"), 0);
        assert_int_equal(json_array_size(json_object_get(g, "inputs")), 13); /* 5 layers of K and V, 3 more */
        assert_int_equal(json_array_size(json_object_get(g, "outputs")), 11);
        t = json_array_get(json_object_get(g, "outputs"), 10);
        check_text(t, "type", "u16");
        assert_int_equal(json_integer_value(json_array_get(json_object_get(t, "dims"), 2)), 512);
        assert_true(json_real_value(json_object_get(json_object_get(t, "encoding"), "scale")) > 0);
    }
    json_decref(o);
    ran r = RUN("inspect", path, "--qnn_lib", QNN);
    check_ran(&r, 0, NULL);
    assert_non_null(strstr(r.out, "SLC allocator: unknown"));
    assert_non_null(strstr(r.out, "at byte 18944, for kv_forward, prefill_forward"));
    ran_free(&r);
}

int main(void) {
    if (access(QNN "/libQnnHtp.so", R_OK) != 0) {
        printf("skipped: external/qnn/onnxruntime_qnn/libQnnHtp.so is not there (make setup)\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bundle_and_its_binary), cmocka_unit_test(a_compile_reports),
        cmocka_unit_test(damage_is_a_sentence), cmocka_unit_test(others_program)};
    return cmocka_run_group_tests_name("inspect", tests, set_up, remove_folder);
}
