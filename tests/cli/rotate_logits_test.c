/* Rotated models on the CPU device: the same logits as float, nearer ones as integers, and through a bundle,
 * where the embedding and the head are two tables. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bundle/bundle.h"
#include "cpu/cpu.h"
#include "graph/verify.h"
#include "quant/quant.h"
#include "quant/rotate_model.h"
#include "runtime/session.h"
#include "tiny_model.h"

enum { N_IDS = 24, VOCAB = 96, N_LOGITS = N_IDS * VOCAB };

static sw_error err;
static sw_device *cpu;
static int32_t ids[N_IDS];
static char folder[] = "rotate_test_XXXXXX"; /* in the working folder */

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < N_IDS; i++) ids[i] = i * 37 % VOCAB; /* 0 first */
    OK(sw_cpu_device_create(&cpu, NULL, &err));
    return mkdtemp(folder) != NULL ? 0 : 1;
}

static int tear_down(void **state) {
    (void)state;
    cpu->ops->destroy(cpu);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void put_constants(sw_decoder *d) {
    for (uint32_t i = 0; i < d->n_constants; i++) {
        void *data = sw_arena_alloc(&d->arena, (size_t)sw_tensor_bytes(d->constants[i]));
        OK(sw_quantize_constant(d, d->constants[i], data, NULL, NULL, &err));
        d->constants[i]->data = data;
    }
}

/* Logits of all ids; recipe NULL: f32. */
static void run(const sw_model *model, const char *recipe_name, float *logits) {
    sw_graph_options options = {"all", N_IDS, SW_ATTENTION_GROUPED, SW_HEAD_ALL};
    sw_decoder d;
    sw_session *s;
    sw_ranges *ranges = NULL;
    OK(sw_decoder_build(&d, model, N_IDS, &options, 1, &err));
    if (recipe_name != NULL) {
        sw_recipe recipe;
        const sw_window window = {ids, N_IDS};
        OK(sw_recipe_find(&recipe, recipe_name, 0, &err));
        OK(sw_calibrate(&ranges, model, NULL, NULL, cpu, &window, 1, &err));
        OK(sw_quantize_types(&d, &recipe, ranges, &err));
        put_constants(&d);
        OK(sw_decoder_verify(&d, &err));
    }
    OK(sw_session_create(&s, &d, cpu, &err));
    OK(sw_session_feed_all(s, ids, N_IDS, logits, &err));
    sw_session_destroy(s);
    sw_ranges_free(ranges);
    sw_decoder_free(&d);
}

static void test_same_logits(void **state) {
    (void)state;
    static float plain[N_LOGITS], rotated_logits[N_LOGITS];
    static const struct {
        uint32_t hidden, heads, kv_heads, head_dim;
        bool tied;
    } cases[] = {{32, 4, 2, 8, true}, {24, 3, 1, 8, false}, {36, 2, 2, 16, true}, {9, 3, 3, 6, true}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        sw_hparams h = tiny_hparams();
        h.hidden = cases[c].hidden, h.n_heads = cases[c].heads, h.n_kv_heads = cases[c].kv_heads;
        h.head_dim = cases[c].head_dim, h.tied_embeddings = cases[c].tied;
        tiny_model tiny;
        sw_rotated_model rotated;
        tiny_model_create(&tiny, &h);
        OK(sw_rotate_model(&rotated, &tiny.model, true, folder, NULL, &err));
        run(&tiny.model, NULL, plain);
        run(&rotated.model, NULL, rotated_logits);
        float greatest = 0, difference = 0;
        for (size_t i = 0; i < N_LOGITS; i++) {
            greatest = fmaxf(greatest, fabsf(plain[i]));
            difference = fmaxf(difference, fabsf(plain[i] - rotated_logits[i]));
        }
        if (!(difference <= 1e-5f * greatest))
            fail_msg("hidden %u: %g of %g", h.hidden, (double)difference, (double)greatest);
        sw_rotated_model_close(&rotated);
        tiny_model_free(&tiny);
    }
}

/* dB, over the rows behind the first. */
static double sqnr(const float *wanted, const float *logits) {
    double signal = 0, noise = 0;
    for (size_t i = VOCAB; i < N_LOGITS; i++) {
        double difference = (double)wanted[i] - (double)logits[i];
        signal += (double)wanted[i] * (double)wanted[i], noise += difference * difference;
    }
    return 10 * log10(signal / noise);
}

/* One channel of the first token is far out, as in real models. Spread over 32 channels it is 5.7 times
 * smaller: up to 15 dB. */
static void test_outlier(void **state) {
    (void)state;
    static float wanted[N_LOGITS], logits[N_LOGITS];
    sw_hparams h = tiny_hparams();
    tiny_model tiny;
    sw_rotated_model rotated;
    tiny_model_create(&tiny, &h);
    ((float *)(uintptr_t)tiny.model.weights[SW_W_EMBEDDING].data)[3] = 4000;
    OK(sw_rotate_model(&rotated, &tiny.model, true, folder, NULL, &err));
    run(&tiny.model, NULL, wanted);
    run(&tiny.model, "16a8w", logits);
    double before = sqnr(wanted, logits);
    run(&rotated.model, "16a8w", logits);
    double after = sqnr(wanted, logits);
    if (!(after > before + 8)) fail_msg("SQNR %.1f dB before, %.1f after", before, after);
    sw_rotated_model_close(&rotated);
    tiny_model_free(&tiny);
}

static void test_bundle(void **state) {
    (void)state;
    float before[VOCAB], after[VOCAB];
    sw_hparams h = tiny_hparams();
    tiny_model tiny;
    sw_rotated_model rotated;
    sw_ranges *ranges;
    sw_decoder d;
    sw_session *s;
    sw_recipe recipe;
    sw_bundle_writer *w;
    sw_manifest m;
    sw_bundle bundle;
    const sw_window window = {ids, N_IDS};
    const sw_graph_options graphs[] = {{"prefill_forward", 8, SW_ATTENTION_GROUPED, SW_HEAD_LAST},
                                       {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST}};
    tiny_model_create(&tiny, &h);
    OK(sw_rotate_model(&rotated, &tiny.model, true, folder, NULL, &err));
    OK(sw_recipe_find(&recipe, "16a8w", 0, &err));
    assert_true(recipe.rotate);
    OK(sw_calibrate(&ranges, &rotated.model, NULL, NULL, cpu, &window, 1, &err));
    OK(sw_decoder_build(&d, &rotated.model, N_IDS, graphs, 2, &err));
    OK(sw_quantize_types(&d, &recipe, ranges, &err));
    OK(sw_bundle_writer_begin(&w, folder, &err));
    OK(sw_bundle_writer_begin_weights(w, &d, &err));
    put_constants(&d);
    for (uint32_t i = 0; i < d.n_constants; i++)
        OK(sw_bundle_writer_put_constant(w, d.constants[i], d.constants[i]->data, &err));
    OK(sw_bundle_writer_end_weights(w, &err));
    sw_rotated_model_close(&rotated); /* nothing reads it from here on */
    OK(sw_session_create(&s, &d, cpu, &err));
    OK(sw_session_feed(s, ids, N_IDS, before, NULL, &err));
    sw_session_destroy(s);

    sw_manifest_init(&m, &d);
    m.tool_version = "0.1.0", m.recipe = "16a8w", m.mode = SW_MODE_HYBRID, m.prefill_ar_len = 8;
    m.soc_name = "SM8750", m.soc_id = 69, m.htp_arch = 79, m.vtcm_mb = 8, m.opt_level = 3;
    OK(sw_bundle_writer_add(w, SW_PART_TOKENIZER, "tokenizer.json", "{}", 2, &err));
    OK(sw_bundle_writer_commit(w, &m, &err));
    sw_bundle_writer_free(w);
    sw_decoder_free(&d);

    OK(sw_bundle_open(&bundle, folder, &err));
    OK(sw_bundle_verify(&bundle, &err));
    const sw_graph *graph = bundle.decoder.graphs[1];
    assert_int_equal(sw_graph_find(graph, "embedding"), UINT32_MAX); /* the host's alone */
    assert_int_not_equal(sw_graph_find(graph, "lm_head"), UINT32_MAX);
    assert_string_equal(bundle.decoder.embedding->name, "embedding");
    OK(sw_session_create(&s, &bundle.decoder, cpu, &err));
    OK(sw_session_feed(s, ids, N_IDS, after, NULL, &err));
    assert_memory_equal(before, after, sizeof after);
    sw_session_destroy(s);
    sw_bundle_close(&bundle);
    sw_ranges_free(ranges);
    tiny_model_free(&tiny);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_logits),
        cmocka_unit_test(test_outlier),
        cmocka_unit_test(test_bundle),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
