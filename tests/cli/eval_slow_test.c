/* `spillway eval` on SmolLM2-135M-Instruct: perplexity against the same number from another form of the
 * graph, with a KV cache and attention cut by heads; quantized near it; and questions that a language model
 * answers. */
#include <jansson.h>
#include <math.h>

#include "cli/run_program.h"
#include "cpu/cpu.h"
#include "runtime/load_tokenizer.h"
#include "runtime/session.h"

#define MODEL SW_SOURCE_DIR "/external/models/SmolLM2-135M-Instruct.Q4_1.gguf"
#define TEXT  SW_TEST_DATA "/persuasion_start.txt"

enum { CONTEXT = 128, WINDOWS = 4, STEP = 32 };

static sw_error err;

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static double real(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("no number `%s`", key);
    return json_number_value(value);
}

/* -ln p of ids[CONTEXT / 2 + 1 ..], each after all before it, in steps of STEP tokens. */
static double surprise(sw_session *session, const int32_t *ids, size_t vocab, float *logits) {
    double sum = 0;
    sw_session_reset(session);
    for (size_t begin = 0; begin < CONTEXT; begin += STEP) {
        OK(sw_session_feed_all(session, ids + begin, STEP, logits, &err));
        for (size_t t = begin; t < begin + STEP && t + 1 < CONTEXT; t++) {
            if (t < CONTEXT / 2) continue;
            const float *row = logits + (t - begin) * vocab;
            double all = 0;
            for (size_t i = 0; i < vocab; i++) all += exp((double)row[i]);
            sum += log(all) - (double)row[ids[t + 1]];
        }
    }
    return sum;
}

static double wanted_perplexity(void) {
    sw_model model;
    sw_tokenizer *tokenizer;
    sw_pool *pool;
    sw_device *cpu;
    sw_decoder d;
    sw_session *session;
    sw_arena arena = SW_ARENA_EMPTY;
    sw_ids ids = {0};
    char *text;
    size_t size;
    const sw_graph_options graph = {"prefill_forward", STEP, SW_ATTENTION_PER_KV_HEAD, SW_HEAD_ALL};
    OK(sw_model_open(&model, MODEL, &err));
    OK(sw_tokenizer_from_gguf(&tokenizer, model.gguf, &err));
    OK(sw_file_read(TEXT, 1 << 20, &arena, &text, &size, &err));
    OK(sw_tokenizer_encode(tokenizer, (sw_span){text, size}, SW_ENCODE_PLAIN, &ids, &err));
    OK(sw_pool_create(&pool, 0, &err));
    OK(sw_cpu_device_create(&cpu, pool, &err));
    OK(sw_decoder_build(&d, &model, CONTEXT, &graph, 1, &err));
    OK(sw_session_create(&session, &d, cpu, &err));
    size_t vocab = model.hparams.vocab;
    float *logits = malloc(STEP * vocab * sizeof *logits);
    double sum = 0;
    for (size_t w = 0; w < WINDOWS; w++) sum += surprise(session, ids.data + w * CONTEXT, vocab, logits);
    free(logits);
    sw_session_destroy(session);
    sw_decoder_free(&d);
    cpu->ops->destroy(cpu);
    sw_pool_destroy(pool);
    sw_ids_free(&ids);
    sw_arena_free(&arena);
    sw_tokenizer_destroy(tokenizer);
    sw_model_close(&model);
    return exp(sum / (WINDOWS * (CONTEXT / 2 - 1)));
}

static void perplexity_and_tasks(void **state) {
    (void)state;
    json_error_t where;
    ran r = RUN("eval", "--model", MODEL, "--text", TEXT, "--context", "128", "--chunks", "4", "--quant",
                "f32,16a8w", "--tasks", SW_TEST_DATA "/tasks.jsonl", "--json");
    check_ran(&r, 0, NULL);
    json_t *all = json_loads(r.out, 0, &where);
    if (all == NULL) fail_msg("%s: %s", where.text, r.out);
    const json_t *f32 = json_array_get(json_object_get(all, "recipes"), 0),
                 *quantized = json_array_get(json_object_get(all, "recipes"), 1);
    double wanted = wanted_perplexity(), got = real(f32, "perplexity"),
           ratio = real(quantized, "perplexity_ratio");
    printf("perplexity %.4f, wanted %.4f; 16a8w: ratio %.4f, top-1 %.0f of %.0f, SQNR %.1f dB; tasks %.0f "
           "and %.0f of "
           "20; peak %ld MB\n",
           got, wanted, ratio, real(quantized, "top1_same"), real(quantized, "positions"),
           real(quantized, "logits_sqnr_db"), real(f32, "tasks_right"), real(quantized, "tasks_right"),
           r.peak_kb / 1000);
    assert_int_equal(real(f32, "positions"), 252);
    assert_true(fabs(got / wanted - 1) < 1e-4);
    assert_true(fabs(ratio - 1) < 0.03);
    assert_true(real(quantized, "top1_same") >= 0.85 * 252);
    assert_true(real(quantized, "logits_sqnr_db") > 22);
    /* By chance it would be 5. */
    assert_true(real(f32, "tasks_right") >= 12);
    assert_true(real(quantized, "tasks_right") >= 11);
    json_decref(all);
    ran_free(&r);
}

int main(void) {
    if (access(MODEL, R_OK) != 0) {
        printf("skipped: no %s\n", MODEL);
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(perplexity_and_tasks)};
    return cmocka_run_group_tests_name("eval_slow", tests, NULL, NULL);
}
