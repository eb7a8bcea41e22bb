/* The plan of a config.json: sums by hand, what is refused, and what fits. */
#include <jansson.h>

#include "cli/run_program.h"
#include "cli/tiny_gguf.h"

static int set_up(void **state) {
    return make_folder(state);
}

/* A config.json with SmolLM2-135M's public shapes; `more` adds or replaces nothing but keys that aren't
 * there. */
#define SHAPES                                                                                               \
    "\"hidden_size\": 576, \"intermediate_size\": 1536, \"num_hidden_layers\": 30, \"vocab_size\": 49152, "  \
    "\"num_attention_heads\": 9, \"num_key_value_heads\": 3, \"max_position_embeddings\": 8192, "            \
    "\"rms_norm_eps\": 1e-5, \"rope_theta\": 100000, \"hidden_act\": \"silu\""

static const char *config(const char *name, const char *text) {
    char all[4096];
    int n = snprintf(all, sizeof all, "{%s}", text);
    return write_file(name, all, (size_t)n);
}

static json_t *plan_of(const char *path, const char *const *more) {
    const char *words[32] = {"plan", path, "--json", "-m", "SM8750"};
    int n = 5;
    while (more != NULL && *more != NULL) words[n++] = *more++;
    ran r = run_words((run_setting){0}, words);
    check_ran(&r, 0, NULL);
    json_t *plan = json_loads(r.out, 0, NULL);
    if (plan == NULL) fail_msg("no JSON: %s", r.out);
    ran_free(&r);
    return plan;
}
#define PLAN(path, ...) plan_of(path, (const char *const[]){__VA_ARGS__, NULL})

static uint64_t number(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    if (!json_is_integer(value)) fail_msg("%s is no integer", name);
    return (uint64_t)json_integer_value(value);
}

/* By hand, 8a8w, context 128, AR 32. A layer's matrices: 576 x (576 + 2 x 192 + 576) + 3 x 576 x 1536; with 8
 * bytes for each of its 576 + 2 x 192 + 576 + 2 x 1536 + 576 channels, 2 gammas of 576 bytes. The rotated
 * model has a head beside its embedding, which the host alone has. */
static void smollm2_by_hand(void **state) {
    (void)state;
    const char *path =
        config("smollm2.json", "\"model_type\": \"llama\", \"tie_word_embeddings\": true, " SHAPES);
    json_t *plan = PLAN(path, "--quant", "8a8w", "--max_seq_len", "128", "--prefill_ar_len", "32");
    const uint64_t layer = 576 * (576 + 2 * 192 + 576) + 3 * 576 * 1536,
                   channels = 3 * 576 + 2 * 192 + 2 * 1536;
    const uint64_t weights = 30 * (layer + 8 * channels + 2 * 576) + 576 + 49152 * (576 + 8);
    assert_int_equal(number(plan, "parameters"), 30 * (layer + 2 * 576) + 576 + 49152 * 576); /* tied: once */
    assert_int_equal(number(plan, "kv_cache_bytes"), 2 * 30 * 3 * 128 * 64);
    assert_int_equal(number(plan, "embedding_bytes"), 49152 * 576);
    assert_int_equal(number(plan, "least_shards"), 1);
    const json_t *graphs = json_object_get(plan, "graphs");
    assert_int_equal(json_array_size(graphs), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *g = json_array_get(graphs, i);
        uint64_t n = i == 0 ? 32 : 1;
        assert_int_equal(number(g, "weight_bytes"), weights);
        assert_int_equal(number(g, "kv_in_bytes"), 2 * 30 * 3 * (128 - n) * 64);
        assert_int_equal(number(g, "kv_out_bytes"), 2 * 30 * 3 * n * 64);
        /* hidden_in, cos, sin, mask; `last` is an i32 in prefill */
        assert_int_equal(number(g, "other_in_bytes"), n * 576 + 2 * n * 32 + n * 128 + (n > 1 ? 4 : 0));
        assert_int_equal(number(g, "other_out_bytes"), 49152);
        assert_int_equal(number(g, "least_ddr_bytes"),
                         number(g, "weight_bytes") + number(g, "kv_in_bytes") + number(g, "kv_out_bytes") +
                             number(g, "other_in_bytes") + number(g, "other_out_bytes"));
    }
    /* Prefill at its widest: the residual, gate, up and the sigmoid or the product: 4 x ... */
    const json_t *prefill = json_array_get(graphs, 0);
    assert_true(number(prefill, "activation_bytes") >= 32 * (576 + 3 * 1536));
    assert_true(number(prefill, "activation_bytes") <= 32 * (2 * 576 + 4 * 1536));
    const json_t *shard = json_array_get(json_object_get(plan, "shards"), 0);
    assert_int_equal(number(shard, "weight_bytes"), weights); /* shared: once */
    assert_int_equal(number(shard, "largest_weight_bytes"), 49152 * (576 + 8));
    json_decref(plan);

    /* An older HTP can't share weights: each graph has them. */
    ran r = RUN("plan", path, "-m", "SM8450", "--json", "--quant", "8a8w", "--max_seq_len", "128");
    check_ran(&r, 0, NULL);
    plan = json_loads(r.out, 0, NULL);
    shard = json_array_get(json_object_get(plan, "shards"), 0);
    assert_int_equal(number(shard, "weight_bytes"), 2 * weights);
    json_decref(plan);
    ran_free(&r);
}

/* Llama-3.2-3B's shapes in 16 bits don't fit one process; two shards do: one is refused, none given takes
 * two. */
static void too_large_for_a_context(void **state) {
    (void)state;
    const char *path = config(
        "3b.json", "\"model_type\": \"llama\", \"hidden_size\": 3072, \"intermediate_size\": 8192, "
                   "\"num_hidden_layers\": 28, \"vocab_size\": 128256, \"num_attention_heads\": 24, "
                   "\"num_key_value_heads\": 8, \"head_dim\": 128, \"max_position_embeddings\": 131072, "
                   "\"tie_word_embeddings\": true");
    ran r = RUN("plan", path, "-m", "SM8750", "--quant", "f16", "--num_sharding", "1");
    check_ran(&r, 2, "wanted --num_sharding 2 or more");
    assert_non_null(
        strstr(r.out, "smallest number that fits: 2")); /* the plan itself is there all the same */
    ran_free(&r);
    json_t *plan = PLAN(path, "--quant", "f16");
    assert_int_equal(json_array_size(json_object_get(plan, "shards")), 2);
    json_decref(plan);
    plan = PLAN(path, "--quant", "f16", "--num_sharding", "3");
    const json_t *shards = json_object_get(plan, "shards");
    assert_int_equal(json_array_size(shards), 3);
    uint64_t sum = 0;
    for (size_t i = 0; i < 3; i++) sum += number(json_array_get(shards, i), "context_bytes");
    assert_int_equal(sum, number(plan, "context_bytes"));
    json_decref(plan);
}

/* --max_weight_buffer_mb makes more shards, or says which layers or tensor exceed it. SmolLM2's head has
 * 29.1 MB, which no cut between layers makes smaller. */
static void a_bound_on_weights(void **state) {
    (void)state;
    const char *path = config("bound.json", "\"model_type\": \"llama\", " SHAPES);
    static const struct {
        const char *bound;
        size_t shards;
    } rows[] = {{"200", 1}, {"137", 2}, {"60", 4}, {"50", 6}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *plan = PLAN(path, "--max_weight_buffer_mb", rows[i].bound);
        const uint64_t bound = strtoull(rows[i].bound, NULL, 10) * 1000000;
        const json_t *shards = json_object_get(plan, "shards");
        assert_int_equal(json_array_size(shards), rows[i].shards);
        assert_int_equal(number(plan, "least_shards"), rows[i].shards);
        assert_int_equal(number(plan, "max_weight_buffer_bytes"), bound);
        for (size_t k = 0; k < rows[i].shards; k++)
            assert_true(number(json_array_get(shards, k), "weight_bytes") <= bound);
        json_decref(plan);
        if (rows[i].shards < 2) continue;
        /* One shard fewer than that doesn't do. */
        char fewer[24], wanted[100];
        snprintf(fewer, sizeof fewer, "%zu", rows[i].shards - 1);
        snprintf(wanted, sizeof wanted, "MB of weights: wanted --num_sharding %zu or more", rows[i].shards);
        ran r = RUN("plan", path, "-m", "SM8750", "--max_weight_buffer_mb", rows[i].bound, "--num_sharding",
                    fewer);
        check_ran(&r, 2, wanted);
        ran_free(&r);
    }
    ran r = RUN("plan", path, "-m", "SM8750", "--max_weight_buffer_mb", "29");
    check_ran(&r, 2, "--max_weight_buffer_mb: 29, but `lm_head` alone has 29.1 MB");
    assert_non_null(strstr(r.out, "29.1  lm_head")); /* of each shard, always */
    ran_free(&r);
    r = RUN("plan", path, "-m", "SM8750", "--max_weight_buffer_mb", "30");
    check_ran(&r, 2, "no number of shards fits");
    ran_free(&r);
    REFUSED(2, "whole number from 1", "plan", path, "-m", "SM8750", "--max_weight_buffer_mb", "0");
}

/* What a compile will take of memory: no less than its weights in f32 and the compiler's. */
static void memory_of_a_compile(void **state) {
    (void)state;
    const char *path = config("memory.json", "\"model_type\": \"llama\", " SHAPES);
    uint64_t before = 0;
    static const char *const shards[] = {"6", "2", "1"};
    for (size_t i = 0; i < 3; i++) {
        json_t *plan = PLAN(path, "--num_sharding", shards[i]);
        uint64_t needed = number(plan, "compile_memory_bytes"),
                 compiler = number(plan, "compiler_memory_bytes");
        assert_true(compiler > number(json_array_get(json_object_get(plan, "shards"), 0), "context_bytes"));
        assert_true(needed > compiler && needed > 4 * 135000000ull);
        assert_true(needed >= before); /* a larger shard takes more */
        before = needed;
        json_decref(plan);
    }
    assert_in_range(before, 1500000000, 2500000000); /* the compile of SmolLM2-135M takes 1.45 GB */
}

/* As an editor of another system saves it, in a folder with blanks in its name. */
static void other_editors(void **state) {
    (void)state;
    static const char text[] = "{\r\n\"model_type\": \"llama\",\r\n" SHAPES "\r\n}\r\n";
    char path[200];
    snprintf(path, sizeof path, "%s/Program Files (x86)", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    write_file("Program Files (x86)/config.json", text, sizeof text - 1);
    json_t *plan = PLAN(path, "--quant", "8a8w");
    assert_int_equal(number(plan, "least_shards"), 1);
    json_decref(plan);
}

static void bandwidth(void **state) {
    (void)state;
    const char *path = config("bandwidth.json", "\"model_type\": \"llama\", " SHAPES);
    ran r = RUN("plan", path, "-m", "SM8850");
    check_ran(&r, 0, NULL);
    assert_non_null(strstr(r.out, "DRAM bandwidth unknown"));
    assert_non_null(strstr(r.out, "tokens/s that DRAM allows: unknown"));
    ran_free(&r);
    json_t *plan = PLAN(path, "--dram_gbps", "100", "--max_seq_len", "128");
    const json_t *decode = json_array_get(json_object_get(plan, "graphs"), 1);
    double moved = (double)number(decode, "least_ddr_bytes");
    const json_t *tokens = json_object_get(plan, "decode_tokens_per_second");
    double likely = json_real_value(json_object_get(tokens, "likely")), wanted = 0.45 * 100e9 / moved;
    assert_true(likely > wanted * 0.999999 && likely < wanted * 1.000001);
    assert_true(json_real_value(json_object_get(tokens, "low")) < likely);
    json_decref(plan);
}

static void refused(const char *text, int status, const char *says) {
    const char *path = config("wrong.json", text);
    REFUSED(status, says, "plan", path, "-m", "SM8750");
}

static void wrong_configs(void **state) {
    (void)state;
    refused("", 1, "key `model_type` is missing");
    refused("\"model_type\": \"gpt2\", " SHAPES, 1, "`gpt2` is not supported, supported: llama");
    refused("\"model_type\": \"llama\", \"attention_bias\": true, " SHAPES, 1, "$.attention_bias");
    refused("\"model_type\": \"llama\", \"num_local_experts\": 8, " SHAPES, 1, "$.num_local_experts");
    refused("\"model_type\": \"mistral\", \"sliding_window\": 4096, " SHAPES, 1, "$.sliding_window");
    refused("\"model_type\": \"llama\", \"hidden_size\": 4294967296, \"num_hidden_layers\": 1", 1,
            "$.hidden_size");
    refused("\"model_type\": \"llama\", \"hidden_size\": 18446744073709551616", 1, "wrong.json");
    refused("\"model_type\": \"llama\", \"num_hidden_layers\": -1", 1, "$.num_hidden_layers");
    refused("\"model_type\": \"llama\", \"num_hidden_layers\": 100000", 1, "$.num_hidden_layers");
    refused("\"model_type\": \"llama\", \"head_dim\": 63, " SHAPES, 1, "even number");
#define LIKE(hidden, heads, kv, vocab, eps)                                                                  \
    "\"model_type\": \"llama\", \"hidden_size\": " hidden ", \"intermediate_size\": 1536, "                  \
    "\"num_hidden_layers\": 2, \"vocab_size\": " vocab ", \"num_attention_heads\": " heads                   \
    ", \"num_key_value_heads\": " kv ", \"max_position_embeddings\": 512, \"rms_norm_eps\": " eps
    refused(LIKE("0", "9", "3", "512", "1e-5"), 1, "$.hidden_size: is 0, wanted 1 to");
    refused(LIKE("576.5", "9", "3", "512", "1e-5"), 1, "$.hidden_size: is a number with a fraction");
    refused(LIKE("\"576\"", "9", "3", "512", "1e-5"), 1, "$.hidden_size: is text, wanted an integer");
    refused(LIKE("575", "9", "3", "512", "1e-5"), 1, "is 9, wanted a divisor of hidden_size, which is 575");
    refused(LIKE("576", "9", "4", "512", "1e-5"), 1,
            "is 4, wanted a divisor of num_attention_heads, which is 9");
    refused(LIKE("576", "9", "18", "512", "1e-5"), 1, "$.num_key_value_heads: is 18, wanted 1 to 9");
    refused(LIKE("576", "0", "3", "512", "1e-5"), 1, "$.num_attention_heads: is 0");
    refused(LIKE("576", "9", "3", "2147483648", "1e-5"), 1, "$.vocab_size: is 2147483648, wanted 1 to");
    refused(LIKE("576", "9", "3", "512", "0"), 1, "$.rms_norm_eps: is 0, wanted a number over 0");
    refused(LIKE("576", "9", "3", "512", "1e400"), 1, "real number overflow");
    refused(LIKE("576", "9", "3", "512", "NaN"), 1, "not valid JSON");
    refused(LIKE("576", "9", "3", "512", "1e-5, \"hidden_size\": 576"), 1, "duplicate object key");
#undef LIKE
    static char nested[3 * 100000];
    for (size_t i = 0; i < sizeof nested; i += 5) memcpy(nested + i, "{\"a\":", 5);
    REFUSED(1, "maximum parsing depth", "plan", write_file("nested.json", nested, sizeof nested), "-m",
            "SM8750");
    REFUSED(1, "no/such", "plan", "/no/such", "-m", "SM8750");
    const char *path = config("right.json", "\"model_type\": \"llama\", " SHAPES);
    REFUSED(2, "was trained for 8192 positions", "plan", path, "-m", "SM8750", "--max_seq_len", "8193");
    REFUSED(2, "no SoC given", "plan", path);
    REFUSED(2, "--prefill_ar_len: 128, wanted 2 to 127", "plan", path, "-m", "SM8750", "--max_seq_len", "128",
            "--prefill_ar_len", "128");
    REFUSED(2, "31", "plan", path, "-m", "SM8750", "--num_sharding", "31");
    /* What is named as JSON is read as JSON, whatever is in it. */
    REFUSED(1, "empty.json: not valid JSON", "plan", write_file("empty.json", "", 0), "-m", "SM8750");
    REFUSED(1, "is an array, wanted an object", "plan", write_file("list.json", "[]", 2), "-m", "SM8750");
    REFUSED(1, "not valid JSON", "plan", write_file("bom.json", "\xef\xbb\xbf{}", 5), "-m", "SM8750");
    path = write_file("picture.png", "\x89PNG\r\n\x1a\n", 8);
    REFUSED(1, "PNG", "plan", path, "-m", "SM8750");
}

/* A model far beyond any that exists: sizes are exact beyond 32 bits, and a tensor beyond them is refused. */
static void very_large_models(void **state) {
    (void)state;
#define HUGE                                                                                                 \
    "\"model_type\": \"llama\", \"hidden_size\": 16384, \"intermediate_size\": 131072, "                     \
    "\"num_hidden_layers\": 1024, \"num_attention_heads\": 128, \"head_dim\": 128, "                         \
    "\"max_position_embeddings\": 16777216, "
    const char *path = config("huge.json", HUGE "\"vocab_size\": 262143");
    ran r = RUN("plan", path, "-m", "SM8750", "--quant", "f16", "--max_seq_len", "4096", "--attention",
                "grouped", "--json");
    check_ran(&r, 2, "no number of shards fits");
    json_t *plan = json_loads(r.out, 0, NULL);
    assert_non_null(plan);
    const uint64_t layer = 2 * (4ull * 16384 * 16384 + 3ull * 16384 * 131072 + 2 * 16384);
    assert_int_equal(number(json_array_get(json_object_get(plan, "graphs"), 0), "weight_bytes"),
                     1024 * layer + 2 * 16384 + 2ull * 262143 * 16384);
    assert_int_equal(number(plan, "kv_cache_bytes"), 2ull * 1024 * 128 * 4096 * 128 * 2);
    json_decref(plan);
    ran_free(&r);
    path = config("larger.json", HUGE "\"vocab_size\": 262145");
    REFUSED(1, "a tensor has 1 to 2^32 - 1 elements", "plan", path, "-m", "SM8750", "--quant", "f16");
}

/* The same from a GGUF file and from a folder with a config.json; what isn't known is said. */
static void other_sources(void **state) {
    (void)state;
    bytes b = {0};
    tiny_gguf_build(&b);
    char gguf[128], directory[128];
    snprintf(gguf, sizeof gguf, "%s", write_file("tiny.gguf", b.data, b.size));
    free(b.data);
    json_t *plan = PLAN(gguf, "--max_seq_len", "64");
    assert_int_equal(number(plan, "kv_cache_bytes"), 2 * TINY_LAYERS * 64 * TINY_HEAD);
    json_decref(plan);
    snprintf(directory, sizeof directory, "%s", in_folder("hf"));
    assert_int_equal(mkdir(directory, 0777), 0);
    config("hf/config.json",
           "\"model_type\": \"llama\", \"rope_scaling\": {\"factor\": 8}, "
           "\"quantization_config\": {\"quant_method\": \"awq\"}, \"brand_new\": 1, " SHAPES);
    ran r = RUN("plan", directory, "-m", "SM8750");
    check_ran(&r, 0, "$.rope_scaling changes no shape");
    check_ran(&r, 0, "$.quantization_config changes no shape");
    check_ran(&r, 0, "key `brand_new` is not known");
    ran_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smollm2_by_hand),    cmocka_unit_test(too_large_for_a_context),
        cmocka_unit_test(a_bound_on_weights), cmocka_unit_test(memory_of_a_compile),
        cmocka_unit_test(other_editors),      cmocka_unit_test(bandwidth),
        cmocka_unit_test(wrong_configs),      cmocka_unit_test(very_large_models),
        cmocka_unit_test(other_sources),
    };
    return cmocka_run_group_tests(tests, set_up, remove_folder);
}
