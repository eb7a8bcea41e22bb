/* SmolLM2-135M-Instruct against vectors of another engine (tests/data/README.md): ids, logits, greedy text.
 */
#include <jansson.h>
#include <math.h>

#include "cli/run_program.h"
#include "cpu/cpu.h"
#include "runtime/generate.h"
#include "runtime/load_tokenizer.h"

#define MODEL SW_SOURCE_DIR "/external/models/SmolLM2-135M-Instruct.Q4_1.gguf"

enum { VOCAB = 49152, GREEDY_TOKENS = 60 };

static sw_error err;

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static json_t *load(const char *name) {
    char path[512];
    json_error_t where;
    snprintf(path, sizeof path, SW_TEST_DATA "/%s", name);
    json_t *all = json_load_file(path, JSON_ALLOW_NUL, &where);
    if (all == NULL) fail_msg("%s: %s", path, where.text);
    return all;
}

/* "[1, 2]" or, bare, "1,2"; the caller frees it. */
static char *ids_text(const json_t *ids, bool bare) {
    size_t size, i;
    char *text;
    json_t *id;
    FILE *f = open_memstream(&text, &size);
    if (!bare) fputc('[', f);
    json_array_foreach(ids, i, id) fprintf(f, "%s%lld",
                                           i == 0 ? ""
                                           : bare ? ","
                                                  : ", ",
                                           (long long)json_integer_value(id));
    if (!bare) fputs("]\n", f);
    fclose(f);
    return text;
}

static void check_tokenize(const json_t *text, const json_t *ids, bool chat) {
    const char *input = json_string_length(text) > 0 ? json_string_value(text) : NULL;
    ran r = RUN_WITH(SETTING(.input = input, .input_size = json_string_length(text)), "tokenize", "--model",
                     MODEL, chat ? "--chat" : NULL);
    char *wanted = ids_text(ids, false);
    check_ran(&r, 0, NULL);
    assert_string_equal(r.out, wanted);
    free(wanted);
    ran_free(&r);
}

static void tokenize(void **state) {
    (void)state;
    json_t *all = load("smollm2_tokens.json"), *prompts = load("smollm2_prompts.json"), *one;
    size_t i, n = 0;
    json_array_foreach(json_object_get(all, "cases"), i, one) {
        check_tokenize(json_object_get(one, "text"), json_object_get(one, "ids"), false);
        n++;
    }
    assert_int_equal(n, 48);
    check_tokenize(json_object_get(prompts, "plain_text"), json_object_get(prompts, "plain_ids"), false);
    check_tokenize(json_object_get(prompts, "chat_text"), json_object_get(prompts, "chat_ids"), false);
    check_tokenize(json_object_get(prompts, "chat_user"), json_object_get(prompts, "chat_ids"), true);
    json_decref(all), json_decref(prompts);
}

static void read_floats(const char *path, float *out) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) fail_msg("%s: %s", path, strerror(errno));
    assert_int_equal(fread(out, 4, VOCAB, f), VOCAB);
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
}

static void logits(void **state) {
    (void)state;
    static float wanted[VOCAB], got[VOCAB];
    json_t *prompts = load("smollm2_prompts.json");
    char *ids = ids_text(json_object_get(prompts, "plain_ids"), true);
    const char *out = in_folder("logits.f32");
    ran r = RUN("logits", "--model", MODEL, "--ids", ids, "--out", out);
    check_ran(&r, 0, NULL);
    ran_free(&r);
    read_floats(out, got);
    read_floats(SW_TEST_DATA "/smollm2_plain_logits.f32", wanted);
    size_t best[2] = {0, 0};
    double ab = 0, aa = 0, bb = 0, worst = 0;
    for (size_t i = 0; i < VOCAB; i++) {
        double a = (double)wanted[i], b = (double)got[i];
        if (wanted[i] > wanted[best[0]]) best[0] = i;
        if (got[i] > got[best[1]]) best[1] = i;
        ab += a * b, aa += a * a, bb += b * b;
        worst = fmax(worst, fabs(a - b));
    }
    assert_int_equal(best[0], best[1]);
    assert_true(ab / sqrt(aa * bb) > 0.99999);
    printf("logits: cosine 1 - %.2e, worst difference %.2e\n", 1 - ab / sqrt(aa * bb), worst);
    assert_true(worst < 1e-3);
    free(ids);
    json_decref(prompts);
}

static sw_code collect(void *context, sw_span text, sw_error *e) {
    (void)e;
    return fwrite(text.data, 1, text.size, context) == text.size ? SW_OK : SW_IO;
}

/* The float graphs answer as the reference did, id by id. */
static void greedy_f32(void **state) {
    (void)state;
    json_t *prompts = load("smollm2_prompts.json"), *greedy = load("smollm2_greedy.json"),
           *wanted = json_object_get(greedy, "ids");
    const char *user = json_string_value(json_object_get(prompts, "chat_user"));
    size_t n_prompt = json_array_size(json_object_get(prompts, "chat_ids"));
    sw_model model;
    sw_tokenizer *tokenizer;
    sw_pool *pool;
    sw_device *cpu;
    sw_decoder d;
    sw_session *session;
    sw_sampler sampler;
    sw_turn_stats stats;
    const sw_sampler_params params = {.temperature = 0, .top_p = 1};
    const sw_graph_options graphs[] = {{"prefill_forward", 32, SW_ATTENTION_GROUPED, SW_HEAD_LAST},
                                       {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST}};
    OK(sw_model_open(&model, MODEL, &err));
    OK(sw_tokenizer_from_gguf(&tokenizer, model.gguf, &err));
    OK(sw_pool_create(&pool, 0, &err));
    OK(sw_cpu_device_create(&cpu, pool, &err));
    OK(sw_decoder_build(&d, &model, 128, graphs, 2, &err));
    OK(sw_session_create(&session, &d, cpu, &err));
    OK(sw_sampler_init(&sampler, &params, &err));
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    sw_chat chat = {.session = session,
                    .tokenizer = tokenizer,
                    .sampler = &sampler,
                    .max_seq_len = n_prompt + GREEDY_TOKENS,
                    .keep_ids = true};
    OK(sw_chat_turn(&chat, user, collect, f, &stats, &err));
    fclose(f);
    assert_int_equal(stats.prompt_tokens, n_prompt);
    assert_int_equal(stats.generated_tokens, GREEDY_TOKENS);
    for (size_t i = 0; i < GREEDY_TOKENS; i++)
        assert_int_equal(chat.generated.data[i], json_integer_value(json_array_get(wanted, i)));
    const char *wanted_text = json_string_value(json_object_get(greedy, "text"));
    assert_true(size > 100);
    assert_int_equal(strncmp(text, wanted_text, size), 0);
    free(text);
    sw_chat_free(&chat);
    sw_sampler_deinit(&sampler);
    sw_session_destroy(session);
    sw_decoder_free(&d);
    cpu->ops->destroy(cpu);
    sw_pool_destroy(pool);
    sw_tokenizer_destroy(tokenizer);
    sw_model_close(&model);
    json_decref(prompts), json_decref(greedy);
}

static void inspect_by_name(void **state) {
    (void)state;
    ran r = RUN("inspect", MODEL);
    check_ran(&r, 0, NULL);
    assert_non_null(strstr(r.out, "30 layers of width 576, feed-forward 1536, 9 heads of 64 on 3 KV heads, "
                                  "vocabulary 49152, tied embeddings"));
    assert_true(r.seconds < 5);
    ran_free(&r);
}

int main(void) {
    if (access(MODEL, R_OK) != 0) {
        printf("skipped: external/models/SmolLM2-135M-Instruct.Q4_1.gguf is not there (make setup)\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokenize),
        cmocka_unit_test(logits),
        cmocka_unit_test(greedy_f32),
        cmocka_unit_test(inspect_by_name),
    };
    return cmocka_run_group_tests_name("SmolLM2", tests, make_folder, remove_folder);
}
