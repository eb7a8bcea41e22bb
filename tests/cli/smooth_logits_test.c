/* Factors folded into a model: the same logits as float, whether it is rotated or not, and nearer ones as
 * integers where a channel stands out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpu/cpu.h"
#include "graph/verify.h"
#include "quant/sink.h"
#include "quant/smooth.h"
#include "runtime/session.h"
#include "tiny_model.h"

enum { N_IDS = 24, VOCAB = 96, N_LOGITS = N_IDS * VOCAB };

static sw_error err;
static sw_device *cpu;
static int32_t ids[N_IDS];
static float wanted[N_LOGITS], logits[N_LOGITS];

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < N_IDS; i++) ids[i] = i * 37 % VOCAB;
    return sw_cpu_device_create(&cpu, NULL, &err) != SW_OK;
}

static int tear_down(void **state) {
    (void)state;
    cpu->ops->destroy(cpu);
    return 0;
}

/* Logits of all ids; recipe NULL: f32. */
static void run(const sw_model *model, const sw_recipe *recipe, float *out) {
    sw_graph_options options = {"all", N_IDS, SW_ATTENTION_GROUPED, SW_HEAD_ALL};
    const sw_window window = {ids, N_IDS};
    sw_decoder d;
    sw_session *s;
    sw_ranges *ranges = NULL;
    OK(sw_decoder_build(&d, model, N_IDS, &options, 1, &err));
    if (recipe != NULL) {
        OK(sw_calibrate(&ranges, model, NULL, recipe, cpu, &window, 1, &err));
        OK(sw_quantize_types(&d, recipe, ranges, &err));
        for (uint32_t i = 0; i < d.n_constants; i++) {
            void *data = sw_arena_alloc(&d.arena, (size_t)sw_tensor_bytes(d.constants[i]));
            OK(sw_quantize_constant(&d, d.constants[i], data, NULL, NULL, &err));
            d.constants[i]->data = data;
        }
        OK(sw_decoder_verify(&d, &err));
    }
    OK(sw_session_create(&s, &d, cpu, &err));
    OK(sw_session_feed_all(s, ids, N_IDS, out, &err));
    sw_session_destroy(s);
    sw_ranges_free(ranges);
    sw_decoder_free(&d);
}

static double sqnr(void) {
    double signal = 0, noise = 0;
    for (size_t i = 0; i < N_LOGITS; i++) {
        double difference = (double)wanted[i] - (double)logits[i];
        signal += (double)wanted[i] * (double)wanted[i], noise += difference * difference;
    }
    return noise > 0 ? 10 * log10(signal / noise) : 999;
}

static void the_same_logits(void **state) {
    (void)state;
    const float strengths[] = {0.25f, 0.5f, 1, SW_SMOOTH_SEARCH};
    const char *const names[] = {"16a8w", "8a8w", "16a4w"};
    const sw_window windows[] = {{ids, N_IDS}, {ids + 3, 9}};
    for (unsigned i = 0; i < 24; i++) {
        sw_hparams h = tiny_hparams();
        sw_recipe recipe;
        tiny_model tiny;
        sw_rotated_model model;
        sw_sink sink;
        sw_arena arena = SW_ARENA_EMPTY;
        bool rotate = i % 2;
        h.tied_embeddings = i % 4 < 2, h.n_kv_heads = i < 12 ? 2 : 1;
        tiny_model_create(&tiny, &h);
        OK(sw_recipe_find(&recipe, names[i % 3], 0, &err));
        recipe.smooth = strengths[i / 2 % 4];
        OK(sw_rotate_model(&model, &tiny.model, rotate, ".", NULL, &err));
        run(&tiny.model, NULL, wanted);
        run(&model.model, NULL, logits);
        if (!rotate) assert_memory_equal(wanted, logits, sizeof logits); /* a copy */
        OK(sw_sink_compute(&sink, &model.model, cpu, ids, 1, &arena, &err));
        OK(sw_smooth_model(&model, &recipe, i % 3 == 0 ? &sink : NULL, cpu, windows, 2, NULL, &err));
        run(&model.model, NULL, logits);
        assert_true(memcmp(wanted, logits, sizeof logits) != 0); /* it did something */
        if (!(sqnr() > 100)) fail_msg("case %u: %.1f dB", i, sqnr());
        sw_arena_free(&arena);
        sw_rotated_model_close(&model);
        tiny_model_free(&tiny);
    }
}

/* One row of up_proj a hundred times too large, its column of down_proj as much too small: the float model is
 * an ordinary one, and its 8-bit form is mended. */
static void a_loud_channel(void **state) {
    (void)state;
    sw_hparams h = tiny_hparams();
    sw_recipe recipe;
    tiny_model tiny;
    const sw_window window = {ids, N_IDS};
    tiny_model_create(&tiny, &h);
    for (uint32_t layer = 0; layer < h.n_layers; layer++) {
        float *up = (float *)(uintptr_t)sw_model_weight(&tiny.model, SW_W_UP, layer)->data;
        float *down = (float *)(uintptr_t)sw_model_weight(&tiny.model, SW_W_DOWN, layer)->data;
        for (uint32_t i = 0; i < h.hidden; i++) up[5 * h.hidden + i] *= 100, down[i * h.ffn + 5] /= 100;
    }
    OK(sw_recipe_find(&recipe, "8a8w", 0, &err));
    recipe.sink = false;
    run(&tiny.model, NULL, wanted);
    run(&tiny.model, &recipe, logits);
    double before = sqnr();
    for (int search = 0; search < 2; search++) {
        sw_rotated_model model;
        OK(sw_rotate_model(&model, &tiny.model, false, ".", NULL, &err));
        recipe.smooth = search ? SW_SMOOTH_SEARCH : 0.5f;
        OK(sw_smooth_model(&model, &recipe, NULL, cpu, &window, 1, NULL, &err));
        run(&model.model, &recipe, logits);
        if (!(sqnr() > before + 6)) fail_msg("search %d: %.1f dB, before %.1f", search, sqnr(), before);
        sw_rotated_model_close(&model);
    }
    tiny_model_free(&tiny);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_logits),
        cmocka_unit_test(a_loud_channel),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
