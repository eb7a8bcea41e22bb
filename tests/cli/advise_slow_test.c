/* --use_slc_allocator=auto on a graph that spills into a small buffer and on one that doesn't spill: the
 * first gets the allocator, and what compile, the manifest and advise say of it is the same. */
#include <jansson.h>

#include "bundle/bundle.h"
#include "cli/random_gguf.h"
#include "cli/run_program.h"

#define QNN SW_SOURCE_DIR "/external/qnn/onnxruntime_qnn"

static sw_error err;

static void auto_follows_the_advisor(void **state) {
    (void)state;
    char gguf[128], bundle[128];
    snprintf(gguf, sizeof gguf, "%s", in_folder("small.gguf"));
    snprintf(bundle, sizeof bundle, "%s", in_folder("bundle"));
    random_gguf_write(gguf, &(sw_hparams){.n_layers = 1,
                                          .hidden = 512,
                                          .ffn = 2048,
                                          .n_heads = 8,
                                          .n_kv_heads = 2,
                                          .head_dim = 64,
                                          .vocab = 512,
                                          .context_max = 4096,
                                          .tied_embeddings = true});
    ran r = RUN("compile", "-m", "SM8750", "--model", gguf, "--artifact", bundle, "--max_seq_len", "1024",
                "--prefill_ar_len", "64", "--vtcm_mb", "1", "--attention", "grouped", "--calib_samples", "1",
                "--use_slc_allocator=auto", "--qnn_lib", QNN);
    check_ran(&r, 0, "the SLC advisor wants the allocator on: compiling again");
    check_ran(&r, 0, "prefill_forward: SLC allocator on");
    check_ran(&r, 0, "prefill_forward: SLC allocator: advice: on: the spill-fill buffer of");
    check_ran(&r, 0, "kv_forward: SLC allocator off");
    check_ran(&r, 0, "kv_forward: SLC allocator: advice: off: spill and fill are 0.0 %");
    ran_free(&r);

    sw_bundle b;
    if (sw_bundle_open(&b, bundle, &err) != SW_OK) fail_msg("%s", err.message);
    const sw_manifest_graph *prefill = &b.manifest.graphs[0], *decode = &b.manifest.graphs[1];
    assert_true(prefill->slc_allocator && prefill->slc_verdict == SW_SLC_ON);
    assert_true(!decode->slc_allocator && decode->slc_verdict == SW_SLC_OFF);
    assert_true(prefill->ddr.known && prefill->ddr.fill > 0 && prefill->spill_fill_bytes < 2u << 20);

    r = RUN("advise", bundle, "--json");
    check_ran(&r, 0, NULL);
    json_t *advice = json_loads(r.out, 0, NULL);
    assert_non_null(advice);
    const json_t *g = json_array_get(json_object_get(advice, "graphs"), 0);
    assert_string_equal(json_string_value(json_object_get(g, "verdict")), "on");
    assert_string_equal(json_string_value(json_object_get(g, "reason")), prefill->slc_reason);
    /* The buffer fits: all fills hit, and all spills are saved. */
    const json_t *saved = json_object_get(json_object_get(g, "model"), "saved_bytes");
    assert_true(json_number_value(json_object_get(saved, "likely")) ==
                (double)(prefill->ddr.fill + prefill->ddr.spill));
    json_decref(advice);
    ran_free(&r);
    r = RUN("advise", bundle);
    check_ran(&r, 0, NULL);
    assert_non_null(strstr(r.out, "A model, not a measurement. It assumes:"));
    ran_free(&r);
    sw_bundle_close(&b);
}

int main(void) {
    if (access(QNN "/libQnnHtp.so", R_OK) != 0) {
        print_message("skipped: Qualcomm's library isn't in " QNN "\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(auto_follows_the_advisor)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
