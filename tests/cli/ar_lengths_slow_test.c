/* The reply is the same for every AR length: SmolLM2-135M on the CPU device, and a tiny model on Qualcomm's
 * emulator, where each length is a program that the compiler lays out by itself. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "cli/ar_lengths.h"
#include "cpu/cpu.h"
#include "qnn/htp_test.h"
#include "soc/soc.h"
#include "tiny_model.h"

#define MODEL SW_SOURCE_DIR "/external/models/SmolLM2-135M-Instruct.Q4_1.gguf"

enum { REPLY = 12 };

/* The start of a text, so that every length has a chunk, some a padded one, and AR 128 not even one. */
static void the_model_on_the_cpu(void **state) {
    (void)state;
    enum { CONTEXT = 160, PROMPT = 100 };
    if (access(MODEL, R_OK) != 0) {
        printf("skipped: external/models/SmolLM2-135M-Instruct.Q4_1.gguf is not there (make setup)\n");
        skip();
    }
    const sw_options options = {.model = MODEL, .calib_samples = 2};
    sw_checkpoint checkpoint;
    sw_calibration calibration;
    sw_quantized_model q;
    sw_recipe recipe;
    sw_decoder first;
    int32_t wanted[REPLY], got[REPLY];
    AR_OK(sw_checkpoint_open(&checkpoint, &options, &ar_error));
    AR_OK(sw_calibration_read(&calibration, &options, &checkpoint, 60, &ar_error));
    AR_OK(sw_recipe_find(&recipe, "16a8w", 8, &ar_error));
    AR_OK(sw_quantized_model_begin(&q, &recipe, &options, "/var/tmp", &checkpoint, &ar_error));
    AR_OK(sw_quantized_model_calibrate(&q, &calibration, &checkpoint, &ar_error));
    assert_true(calibration.text.count >= PROMPT);
    size_t vocab = checkpoint.model.hparams.vocab;
    float *wanted_logits = malloc(vocab * sizeof *wanted_logits), *logits = malloc(vocab * sizeof *logits);
    build_ar(&first, q.model, CONTEXT, 1, SW_ATTENTION_GROUPED, &recipe, q.ranges, NULL);
    greedy(&first, checkpoint.cpu, calibration.text.data, PROMPT, wanted, REPLY, wanted_logits);
    for (size_t i = 0; i < N_AR_LENGTHS; i++) {
        sw_decoder d;
        build_ar(&d, q.model, CONTEXT, ar_lengths[i], SW_ATTENTION_GROUPED, &recipe, q.ranges, &first);
        greedy(&d, checkpoint.cpu, calibration.text.data, PROMPT, got, REPLY, logits);
        size_t differing = 0;
        for (size_t k = 0; k < vocab; k++) differing += logits[k] != wanted_logits[k];
        printf("SmolLM2-135M on cpu, AR %u: %zu of %zu logits differ from AR 1's\n", ar_lengths[i], differing,
               vocab);
        assert_int_equal(differing, 0);
        assert_memory_equal(got, wanted, sizeof got);
        sw_decoder_free(&d);
    }
    free(wanted_logits), free(logits);
    sw_decoder_free(&first);
    sw_quantized_model_free(&q);
    sw_calibration_free(&calibration);
    sw_checkpoint_close(&checkpoint);
}

static void a_tiny_model_on_the_emulator(void **state) {
    enum { CONTEXT = 96, PROMPT = 70, VOCAB = 96 };
    static const uint32_t lengths[] = {1, 8, 31, 32, 33, 64};
    sw_device *htp = *state, *cpu;
    if (htp == NULL) skip();
    tiny_model tiny;
    sw_hparams h = tiny_hparams();
    sw_ranges *ranges;
    int32_t ids[CONTEXT], wanted[REPLY], got[REPLY];
    float wanted_logits[VOCAB], logits[VOCAB];
    const sw_window window = {ids, CONTEXT};
    h.context_max = CONTEXT;
    tiny_model_create(&tiny, &h);
    for (uint32_t i = 0, x = 5; i < CONTEXT; i++) {
        x = x * 1664525u + 1013904223u;
        ids[i] = (int32_t)((x >> 16) % VOCAB);
    }
    AR_OK(sw_cpu_device_create(&cpu, NULL, &ar_error));
    AR_OK(sw_calibrate(&ranges, &tiny.model, NULL, NULL, cpu, &window, 1, &ar_error));
    for (unsigned kv_bits = 8; kv_bits <= 16; kv_bits += 8)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            sw_recipe recipe;
            sw_decoder d;
            AR_OK(sw_recipe_find(&recipe, "16a8w", kv_bits, &ar_error));
            build_ar(&d, &tiny.model, CONTEXT, lengths[i], SW_ATTENTION_GROUPED, &recipe, ranges, NULL);
            greedy(&d, htp, ids, PROMPT, got, REPLY, logits);
            if (i == 0) memcpy(wanted, got, sizeof wanted), memcpy(wanted_logits, logits, sizeof logits);
            float worst = 0, greatest = 0;
            for (size_t k = 0; k < VOCAB; k++) {
                worst = fmaxf(worst, fabsf(logits[k] - wanted_logits[k]));
                greatest = fmaxf(greatest, fabsf(wanted_logits[k]));
            }
            printf("tiny model on htp-emulator, KV %u, AR %u: logits differ by %.3g of %.3g from AR 1's\n",
                   kv_bits, lengths[i], (double)worst, (double)greatest);
            assert_true(worst <= 0.02f * greatest);
            assert_memory_equal(got, wanted, sizeof got);
            sw_decoder_free(&d);
        }
    sw_ranges_free(ranges);
    cpu->ops->destroy(cpu);
    tiny_model_free(&tiny);
}

int main(void) {
    sw_qnn_library library;
    sw_device *htp = NULL;
    const sw_qnn_graph_options options = {.vtcm_mb = 8, .opt_level = 3};
    sw_log_set_level(SW_LOG_ERROR);
    if (test_open_library(&library) &&
        sw_htp_device_create(&htp, &library, sw_soc_find("SM8750"), &options, &ar_error) != SW_OK) {
        fprintf(stderr, "%s\n", ar_error.message);
        return 1;
    }
    if (htp == NULL && access(MODEL, R_OK) != 0) return TEST_SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_model_on_the_cpu),
                                       cmocka_unit_test_prestate(a_tiny_model_on_the_emulator, htp)};
    int failed = cmocka_run_group_tests_name("AR lengths", tests, NULL, NULL);
    if (htp != NULL) htp->ops->destroy(htp);
    return failed;
}
