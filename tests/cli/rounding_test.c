/* Rounding by the layers' inputs through a whole model, the tiny one: what it changes and what not, that the
 * number of threads doesn't matter, and that the model comes nearer to the float one. */
#include "cli/evaluate.h"
#include "cli/run_program.h"
#include "cli/tiny_gguf.h"
#include "graph/verify.h"

static sw_error err;
static sw_options options;
static sw_checkpoint checkpoint;
static sw_calibration calibration;

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static int set_up(void **state) {
    bytes b = {0};
    static char path[128];
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    snprintf(path, sizeof path, "%s", write_file("tiny.gguf", b.data, b.size));
    free(b.data);
    options = (sw_options){.model = path, .calib_samples = 8, .threads = 2};
    OK(sw_checkpoint_open(&checkpoint, &options, &err));
    OK(sw_calibration_read(&calibration, &options, &checkpoint, 60, &err));
    return 0;
}

static int tear_down(void **state) {
    sw_calibration_free(&calibration);
    sw_checkpoint_close(&checkpoint);
    return remove_folder(state);
}

typedef struct quantized {
    sw_quantized_model model;
    sw_decoder decoder;
} quantized;

static void make(quantized *z, const char *recipe_name, const char *rounding, sw_pool *pool) {
    sw_recipe chosen;
    options.rounding = rounding;
    OK(sw_recipe_find(&chosen, recipe_name, 0, &err));
    OK(sw_quantized_model_begin(&z->model, &chosen, &options, folder, &checkpoint, &err));
    OK(sw_quantized_model_calibrate(&z->model, &calibration, &checkpoint, &err));
    OK(sw_window_decoder_quantize(&z->decoder, &z->model, 60, NULL, pool, &err));
}

static void drop(quantized *z) {
    sw_decoder_free(&z->decoder);
    sw_quantized_model_free(&z->model);
}

static bool same(const sw_tensor *a, const sw_tensor *b) {
    return memcmp(a->data, b->data, (size_t)sw_tensor_bytes(a)) == 0;
}

static void it_rounds_the_layers_matrices_whatever_the_threads(void **state) {
    (void)state;
    quantized nearest, one, two;
    make(&nearest, "16a4w", "nearest", checkpoint.pool);
    make(&one, "16a4w", "gptq", NULL);
    make(&two, "16a4w", "gptq", checkpoint.pool);
    for (uint32_t i = 0; i < one.decoder.n_constants; i++) {
        const sw_tensor *t = one.decoder.constants[i];
        bool in_layer = strncmp(t->name, "layer_", 6) == 0 && t->dtype == SW_S8;
        if (same(t, nearest.decoder.constants[i]) == in_layer)
            fail_msg("%s: %s nearest's integers", t->name, in_layer ? "has" : "hasn't");
        if (!same(t, two.decoder.constants[i])) fail_msg("%s: two threads give other integers", t->name);
    }
    drop(&nearest), drop(&one), drop(&two);
}

static double divergence(const char *name, const char *rounding) {
    quantized z;
    sw_evaluation e;
    make(&z, name, rounding, checkpoint.pool);
    OK(sw_evaluate(&e, &z.model, &z.decoder, &checkpoint, &calibration.windows[0], &err));
    double kl = e.quantized.kl / e.quantized.compared;
    sw_evaluation_free(&e);
    drop(&z);
    return kl;
}

static void the_model_comes_nearer(void **state) {
    (void)state;
    static const char *const names[] = {"16a4w", "16a4w_block32", "f16a4w_block32"};
    for (size_t r = 0; r < sizeof names / sizeof *names; r++) {
        double nearest = divergence(names[r], "nearest"), gptq = divergence(names[r], "gptq");
        print_message("%s: KL %.2e by nearest, %.2e by gptq\n", names[r], nearest, gptq);
        assert_true(gptq < nearest);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_rounds_the_layers_matrices_whatever_the_threads),
                                       cmocka_unit_test(the_model_comes_nearer)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
