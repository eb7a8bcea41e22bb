/* SmolLM2-135M-Instruct in Q4_0 (made here from the Q4_1 file) with f16a4w_block32: no value of the file
 * changes, and the greedy text is that of another engine on the F32 widening of such a file
 * (tests/data/README.md). */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/q4_0.h"
#include "cli/quantized_model.h"
#include "cpu/cpu.h"
#include "graph/verify.h"
#include "runtime/session.h"

#define SOURCE SW_SOURCE_DIR "/external/models/SmolLM2-135M-Instruct.Q4_1.gguf"
#define MODEL  SW_BUILD_DIR "/SmolLM2-135M-Instruct.Q4_0.gguf" /* stays, for the program */

enum { VOCAB = 49152, CONTEXT = 128, TOKENS = 60 };

static sw_error err;
#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static size_t read_ids(const json_t *all, const char *key, int32_t *ids, size_t most) {
    const json_t *array = json_object_get(all, key);
    size_t n = json_array_size(array);
    for (size_t i = 0; i < n && i < most; i++) ids[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return n;
}

/* Constants in the arena; every matrix must have come through unchanged. */
static void quantize(sw_decoder *d, sw_pool *pool) {
    for (uint32_t i = 0; i < d->n_constants; i++) {
        sw_tensor *t = d->constants[i];
        sw_weight_cost cost;
        void *data = sw_arena_alloc(&d->arena, (size_t)sw_tensor_bytes(t));
        assert_non_null(data);
        OK(sw_quantize_constant(d, t, data, pool, &cost, &err));
        if (t->role == SW_ROLE_WEIGHT && !cost.unchanged) fail_msg("%s was quantized anew", t->name);
        t->data = data;
    }
}

static size_t argmax(const float *x) {
    size_t best = 0;
    for (size_t i = 1; i < VOCAB; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* f32 logits of every position, by the same file's float graphs. */
static float *float_logits(const sw_model *model, sw_device *cpu, const int32_t *ids, uint32_t n) {
    sw_decoder window;
    sw_session *s;
    float *logits = malloc((size_t)n * VOCAB * sizeof *logits);
    assert_non_null(logits);
    OK(sw_window_decoder_build(&window, model, NULL, n, &err));
    OK(sw_session_create(&s, &window, cpu, &err));
    OK(sw_session_feed_all(s, ids, n, logits, &err));
    sw_session_destroy(s);
    sw_decoder_free(&window);
    return logits;
}

static void greedy_text_is_that_of_the_reference(void **state) {
    (void)state;
    static float logits[VOCAB];
    static int32_t ids[CONTEXT];
    json_error_t where;
    json_t *reference = json_load_file(SW_TEST_DATA "/smollm2_q4_0_greedy.json", JSON_ALLOW_NUL, &where);
    assert_non_null(reference);
    size_t n_prompt = read_ids(reference, "prompt_ids", ids, CONTEXT - TOKENS);
    assert_in_range(n_prompt, 1, CONTEXT - TOKENS);
    read_ids(reference, "ids", ids + n_prompt, TOKENS);
    const json_t *gaps = json_object_get(reference, "top1_top2_logit_gap");

    const sw_graph_options graphs[] = {{"prefill_forward", 32, SW_ATTENTION_GROUPED, SW_HEAD_LAST},
                                       {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST}};
    sw_model model;
    sw_pool *pool;
    sw_device *cpu;
    sw_decoder d;
    sw_recipe types;
    sw_session *s;
    OK(sw_model_open(&model, MODEL, &err));
    OK(sw_pool_create(&pool, 0, &err));
    OK(sw_cpu_device_create(&cpu, pool, &err));
    OK(sw_decoder_build(&d, &model, CONTEXT, graphs, 2, &err));
    OK(sw_recipe_find(&types, "f16a4w_block32", 0, &err));
    OK(sw_quantize_types(&d, &types, NULL, &err));
    quantize(&d, pool);
    OK(sw_decoder_verify(&d, &err));
    float *exact = float_logits(&model, cpu, ids, (uint32_t)n_prompt + TOKENS - 1);
    OK(sw_session_create(&s, &d, cpu, &err));
    OK(sw_session_feed(s, ids, n_prompt, logits, NULL, &err));

    size_t other = 0;
    double signal = 0, noise = 0;
    for (size_t i = 0; i < TOKENS; i++) {
        const int32_t *wanted = &ids[n_prompt + i];
        const float *row = exact + (n_prompt + i - 1) * VOCAB;
        double gap = json_real_value(json_array_get(gaps, i));
        size_t top = argmax(logits);
        for (size_t k = 0; k < VOCAB; k++) {
            double a = (double)row[k], difference = a - (double)logits[k];
            signal += a * a, noise += difference * difference;
        }
        assert_true(gap > 0);
        other += top != (size_t)*wanted;
        if (top != (size_t)*wanted && gap > 0.2)
            fail_msg("token %zu is %zu, wanted %d (gap %.3f)", i, top, *wanted, gap);
        if (i + 1 < TOKENS) OK(sw_session_feed(s, wanted, 1, logits, NULL, &err)); /* the reference's path */
    }
    double db = 10 * log10(signal / noise);
    printf("%zu of %d tokens differ, all within gaps of 0.2; logits SQNR against f32 of the file %.1f dB\n",
           other, TOKENS, db);
    assert_true(db > 40);

    sw_session_destroy(s);
    free(exact);
    sw_decoder_free(&d);
    cpu->ops->destroy(cpu);
    sw_pool_destroy(pool);
    sw_model_close(&model);
    json_decref(reference);
}

int main(void) {
    if (access(SOURCE, R_OK) != 0) {
        printf("skipped: external/models/SmolLM2-135M-Instruct.Q4_1.gguf is not there (make setup)\n");
        return 77;
    }
    if (access(MODEL, R_OK) != 0 &&
        (!q4_0_convert(SOURCE, MODEL ".new", &err) || rename(MODEL ".new", MODEL) != 0)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(greedy_text_is_that_of_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
