/* Calibration runs each window of its text once, whatever graphs are compiled afterwards: they share their
 * encodings, so a second graph costs no second pass. */
#include "cli/quantized_model.h"
#include "cli/run_program.h"
#include "cli/spy_device.h"
#include "cli/target.h"
#include "cli/tiny_gguf.h"

static char gguf[128], text[128];
static spy_device spy;
static sw_error err;

static int set_up(void **state) {
    bytes b = {0};
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    snprintf(gguf, sizeof gguf, "%s", write_file("tiny.gguf", b.data, b.size));
    free(b.data);
    static char content[2500]; /* some windows of it */
    FILE *f = fopen(SW_TEST_DATA "/persuasion_start.txt", "rb");
    if (f == NULL || fread(content, 1, sizeof content, f) != sizeof content) return -1;
    fclose(f);
    snprintf(text, sizeof text, "%s", write_file("text.txt", content, sizeof content));
    return 0;
}

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

/* Calls of the device in a compile's steps up to the encodings of its graphs; *windows of the text. */
static uint32_t passes(const char *mode, const char *types, size_t *windows, uint32_t *n_graphs) {
    const char *words[] = {"spillway",     "compile", "--model",       gguf, "-m",           "SM8750",
                           "--model_mode", mode,      "--max_seq_len", "64", "--calib_text", text,
                           "--quant",      types};
    sw_options options;
    sw_arena arena = SW_ARENA_EMPTY;
    sw_target target;
    sw_checkpoint checkpoint;
    sw_calibration calibration;
    sw_quantized_model q;
    sw_decoder decoder;
    OK(sw_options_parse(&options, sizeof words / sizeof *words, (char **)(uintptr_t)words, &err));
    OK(sw_target_read(&target, &options, &arena, &err));
    OK(sw_checkpoint_open(&checkpoint, &options, &err));
    OK(sw_calibration_read(&calibration, &options, &checkpoint, 64, &err));
    OK(sw_quantized_model_begin(&q, &target.recipe, &options, folder, &checkpoint, &err));
    sw_target_choose_forms(&target, &options, &q.model->hparams);
    OK(sw_decoder_build_shards(&decoder, q.model, target.context_len, target.kinds, target.n_kinds, 1, &err));
    sw_device *cpu = checkpoint.cpu;
    spy_create(&spy, cpu);
    checkpoint.cpu = &spy.base;
    OK(sw_quantized_model_calibrate(&q, &calibration, &checkpoint, &err));
    OK(sw_quantize_types(&decoder, &target.recipe, q.ranges, &err));
    checkpoint.cpu = cpu;
    *windows = calibration.n_windows;
    *n_graphs = decoder.n_graphs;
    sw_decoder_free(&decoder);
    sw_quantized_model_free(&q);
    sw_calibration_free(&calibration);
    sw_checkpoint_close(&checkpoint);
    sw_arena_free(&arena);
    return spy.n_calls;
}

static void each_window_once(void **state) {
    (void)state;
    static const char *const types[] = {"8a8w", "16a8w", "16a4w"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t windows, again;
        uint32_t n_graphs;
        uint32_t calls = passes("kv", types[i], &windows, &n_graphs);
        assert_int_equal(n_graphs, 1);
        assert_true(windows >= 2);
        if (i == 0) /* 8a8w looks for its channels' factors first, on nine of them at most */
            assert_in_range(calls, windows, 2 * windows);
        else
            assert_int_equal(calls, windows);
        assert_int_equal(passes("hybrid", types[i], &again, &n_graphs), calls);
        assert_int_equal(n_graphs, 2);
        assert_int_equal(again, windows);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_window_once)};
    return cmocka_run_group_tests_name("calibration passes", tests, set_up, remove_folder);
}
