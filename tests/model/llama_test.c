/* Hyperparameters and weights of well-formed files: what a model may be, and the sentence for what it may
 * not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/gguf.h"
#include "tiny_model.h"

static sw_code open_built(const bytes *b, sw_model *model, sw_error *err) {
    sw_gguf *gguf;
    *err = (sw_error){0};
    sw_code code = sw_gguf_open_memory(&gguf, b->data, b->size, "tiny.gguf", err);
    return code == SW_OK ? sw_model_open_gguf(model, gguf, err) : code;
}

/* Builds, opens, and compares code and sentence; the file's name always stands in it, once. */
static void check_fails(tiny_model *m, sw_code wanted, const char *a, const char *b2, const char *c) {
    bytes b;
    tiny_build(m, &b);
    sw_model model;
    sw_error err;
    sw_code code = open_built(&b, &model, &err);
    if (code != wanted) fail_msg("%s: code %d, wanted %d: \"%s\"", a, code, wanted, err.message);
    assert_null(model.gguf);
    assert_int_equal(strncmp(err.message, "tiny.gguf: ", 11), 0);
    assert_null(strstr(err.message + 1, "tiny.gguf"));
    const char *parts[] = {a, b2, c};
    for (size_t i = 0; i < 3; i++)
        if (strstr(err.message, parts[i]) == NULL) fail_msg("\"%s\" lacks \"%s\"", err.message, parts[i]);
    sw_model_close(&model); /* allowed after a failure */
    free(b.data);
}

static void test_opens(void **state) {
    (void)state;
    tiny_model m;
    tiny_init(&m);
    bytes b;
    tiny_build(&m, &b);
    sw_model model;
    sw_error err;
    if (open_built(&b, &model, &err) != SW_OK) fail_msg("%s", err.message);
    const sw_hparams *h = &model.hparams;
    assert_string_equal(h->architecture, "llama");
    assert_string_equal(h->name, "Tiny");
    assert_int_equal(h->n_layers, 2);
    assert_int_equal(h->hidden, 64);
    assert_int_equal(h->ffn, 96);
    assert_int_equal(h->vocab, 5);
    assert_int_equal(h->n_heads, 2);
    assert_int_equal(h->n_kv_heads, 1);
    assert_int_equal(h->head_dim, 32);
    assert_int_equal(h->context_max, 128);
    assert_true(h->rms_epsilon == 1e-5f && h->rope_theta == 50000.0f);
    assert_false(h->tied_embeddings);
    static const struct {
        sw_weight_id id;
        uint32_t rows, cols, interleaved;
        sw_storage storage;
    } wanted[SW_WEIGHT_COUNT] = {
        {SW_W_EMBEDDING, 5, 64, 0, SW_STORE_Q8_0}, {SW_W_ATTENTION_NORM, 1, 64, 0, SW_STORE_F32},
        {SW_W_Q, 64, 64, 32, SW_STORE_Q4_1},       {SW_W_K, 32, 64, 32, SW_STORE_Q4_0},
        {SW_W_V, 32, 64, 0, SW_STORE_Q5_0},        {SW_W_O, 64, 64, 0, SW_STORE_Q5_1},
        {SW_W_FFN_NORM, 1, 64, 0, SW_STORE_F32},   {SW_W_GATE, 96, 64, 0, SW_STORE_F16},
        {SW_W_UP, 96, 64, 0, SW_STORE_BF16},       {SW_W_DOWN, 64, 96, 0, SW_STORE_Q8_0},
        {SW_W_FINAL_NORM, 1, 64, 0, SW_STORE_F32}, {SW_W_HEAD, 5, 64, 0, SW_STORE_F16},
    };
    for (size_t i = 0; i < SW_WEIGHT_COUNT; i++) {
        const sw_weight *w = sw_model_weight(&model, wanted[i].id, 1);
        assert_int_equal(w->rows, wanted[i].rows);
        assert_int_equal(w->cols, wanted[i].cols);
        assert_int_equal(w->interleaved_head_dim, wanted[i].interleaved);
        assert_int_equal(w->storage, wanted[i].storage);
    }
    assert_string_equal(sw_model_weight(&model, SW_W_DOWN, 1)->file_name, "blk.1.ffn_down.weight");
    assert_ptr_equal(sw_model_weight(&model, SW_W_HEAD, 1), sw_model_weight(&model, SW_W_HEAD, 0));
    char name[64];
    sw_weight_ir_name(SW_W_Q, 3, name, sizeof name);
    assert_string_equal(name, "layer_3.q_proj");
    sw_weight_ir_name(SW_W_EMBEDDING, 3, name, sizeof name);
    assert_string_equal(name, "embedding");
    sw_model_close(&model);
    free(b.data);
}

/* What may be missing: the head, head_count_kv, rope keys. Heads may be wider than hidden / n_heads. */
static void test_defaults(void **state) {
    (void)state;
    tiny_model m;
    tiny_init(&m);
    tiny_drop_tensor(&m, "output.weight");
    tiny_drop_key(&m, "llama.attention.head_count_kv");
    tiny_drop_key(&m, "llama.rope.freq_base");
    tiny_drop_key(&m, "llama.rope.dimension_count");
    tiny_drop_key(&m, "general.name");
    tiny_drop_key(&m, "tokenizer.ggml.tokens");
    tiny_set(&m, "llama.attention.key_length", 4, 64);
    tiny_set(&m, "llama.attention.value_length", 4, 64);
    tiny_set(&m, "llama.vocab_size", 4, 5);
    tiny_set_text(&m, "llama.rope.scaling.type", "none");
    for (int layer = 0; layer < 2; layer++) {
        static const char *const names[] = {"attn_q", "attn_k", "attn_v"};
        char name[64];
        for (size_t i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, names[i]);
            tiny_tensor_of(&m, name)->rows = 128;
        }
        snprintf(name, sizeof name, "blk.%d.attn_output.weight", layer);
        tiny_tensor_of(&m, name)->cols = 128;
    }
    bytes b;
    tiny_build(&m, &b);
    sw_model model;
    sw_error err;
    if (open_built(&b, &model, &err) != SW_OK) fail_msg("%s", err.message);
    assert_int_equal(model.hparams.n_kv_heads, 2);
    assert_int_equal(model.hparams.head_dim, 64);
    assert_true(model.hparams.rope_theta == 10000.0f);
    assert_true(model.hparams.tied_embeddings);
    assert_string_equal(model.hparams.name, "");
    assert_ptr_equal(sw_model_weight(&model, SW_W_HEAD, 0), sw_model_weight(&model, SW_W_EMBEDDING, 0));
    sw_model_close(&model);
    free(b.data);
}

static void test_bad_keys(void **state) {
    (void)state;
    enum { U32 = 4, F32 = 6, ARRAY = 9 };
    static const struct {
        const char *key;
        uint32_t type; /* 0: the key is dropped */
        uint64_t number;
        sw_code code;
        const char *says, *also;
    } cases[] = {
        {"llama.block_count", 0, 0, SW_BAD_DATA, "has no key", "1 to 1024"},
        {"llama.block_count", U32, UINT32_MAX, SW_BAD_DATA, "is 4294967295", "1 to 1024"},
        {"llama.block_count", U32, 0, SW_BAD_DATA, "is 0", "1 to 1024"},
        {"llama.block_count", F32, 0, SW_BAD_DATA, "type f32", "wanted an integer"},
        {"llama.embedding_length", 0, 0, SW_BAD_DATA, "has no key", "1 to 65536"},
        {"llama.embedding_length", U32, 0, SW_BAD_DATA, "is 0", "1 to 65536"},
        {"llama.embedding_length", U32, 1u << 31, SW_BAD_DATA, "is 2147483648", "1 to 65536"},
        {"llama.feed_forward_length", U32, 0, SW_BAD_DATA, "is 0", "1 to 262144"},
        {"llama.feed_forward_length", ARRAY, 2, SW_UNSUPPORTED, "is an array", "one integer"},
        {"llama.context_length", 0, 0, SW_BAD_DATA, "has no key", "1 to 16777216"},
        {"llama.context_length", U32, 0, SW_BAD_DATA, "is 0", "1 to 16777216"},
        {"llama.attention.head_count", U32, 0, SW_BAD_DATA, "is 0", "1 to 1024"},
        {"llama.attention.head_count_kv", ARRAY, 2, SW_UNSUPPORTED, "is an array", "one integer"},
        {"llama.attention.head_count_kv", U32, 0, SW_BAD_DATA, "is 0", "1 to 2"},
        {"llama.attention.head_count_kv", U32, 3, SW_BAD_DATA, "is 3", "1 to 2"},
        {"llama.attention.key_length", U32, 33, SW_BAD_DATA, "heads have 33", "even number"},
        {"llama.attention.key_length", U32, 1u << 20, SW_BAD_DATA, "is 1048576", "2 to 1024"},
        {"llama.attention.value_length", U32, 16, SW_UNSUPPORTED, "is 16", "32"},
        {"llama.rope.dimension_count", U32, 16, SW_UNSUPPORTED, "is 16", "32"},
        {"llama.attention.layer_norm_rms_epsilon", 0, 0, SW_BAD_DATA, "has no key", "over 0"},
        {"llama.rope.freq_base", U32, 10000, SW_BAD_DATA, "type u32", "wanted f32"},
        {"tokenizer.ggml.tokens", ARRAY, 4, SW_BAD_DATA, "4 tokens", "5 rows"},
        {"tokenizer.ggml.tokens", ARRAY, 6, SW_BAD_DATA, "6 tokens", "5 rows"},
        {"llama.vocab_size", U32, 6, SW_BAD_DATA, "is 6", "5 rows"},
        {"llama.rope.scaling.factor", U32, 4, SW_UNSUPPORTED, "RoPE scaling", "not supported"},
        {"llama.expert_count", U32, 8, SW_UNSUPPORTED, "not one that this build knows", "computation"},
        {"general.architecture", 0, 0, SW_BAD_DATA, "has no key", "general"},
        {"general.quantization_version", U32, 1, SW_UNSUPPORTED, "is 1", "reads 2"},
        {"split.count", U32, 3, SW_UNSUPPORTED, "one of 3 parts", "one file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_model m;
        tiny_init(&m);
        if (cases[i].type == 0)
            tiny_drop_key(&m, cases[i].key);
        else
            tiny_set(&m, cases[i].key, cases[i].type, cases[i].number);
        check_fails(&m, cases[i].code, cases[i].key, cases[i].says, cases[i].also);
    }
}

static void test_bad_floats_and_texts(void **state) {
    (void)state;
    static const char *const keys[] = {"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base"};
    const float bad[] = {0.0f, -1.0f, NAN, INFINITY};
    tiny_model m;
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < 4; i++) {
            tiny_init(&m);
            tiny_set_f32(&m, keys[k], bad[i]);
            check_fails(&m, SW_BAD_DATA, keys[k], "finite number", "over 0");
        }
    }
    static const struct {
        const char *key, *text;
        sw_code code;
        const char *says;
    } texts[] = {
        {"general.architecture", "mamba", SW_UNSUPPORTED, "`mamba` is not supported, supported: llama"},
        {"general.architecture", "llama\xff", SW_BAD_DATA, "UTF-8"},
        {"general.architecture", "", SW_UNSUPPORTED, "`` is not supported, supported: llama"},
        {"general.name", "a\033[2J", SW_BAD_DATA, "control character 0x1b"},
        {"general.type", "adapter", SW_UNSUPPORTED, "`adapter`, wanted `model`"},
        {"llama.rope.scaling.type", "yarn", SW_UNSUPPORTED, "RoPE scaling `yarn`"},
        {"llama.rope.scaling.type", "linear", SW_UNSUPPORTED, "RoPE scaling `linear`"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tiny_init(&m);
        tiny_set_text(&m, texts[i].key, texts[i].text);
        check_fails(&m, texts[i].code, texts[i].says, "", "");
    }
    tiny_init(&m);
    tiny_set(&m, "llama.attention.head_count", 4, 7);
    check_fails(&m, SW_BAD_DATA, "llama.attention.head_count` is 7", "divisor", "which is 64");
    tiny_init(&m);
    tiny_set(&m, "llama.attention.head_count", 4, 32);
    tiny_set(&m, "llama.attention.head_count_kv", 4, 5);
    check_fails(&m, SW_BAD_DATA, "llama.attention.head_count_kv` is 5", "divisor", "which is 32");
    tiny_init(&m);
    tiny_set(&m, "llama.attention.head_count", 4, 64);
    check_fails(&m, SW_BAD_DATA, "heads have 1 values", "embedding_length / llama.attention.head_count",
                "even number");
}

/* A long name is cut between characters. */
static void test_long_name(void **state) {
    (void)state;
    tiny_model m;
    tiny_init(&m);
    char name[100];
    memset(name, 'x', sizeof name);
    memcpy(name + 62, "\xc3\xa9", 3); /* would end at byte 64 */
    tiny_set_text(&m, "general.name", name);
    bytes b;
    tiny_build(&m, &b);
    sw_model model;
    sw_error err;
    if (open_built(&b, &model, &err) != SW_OK) fail_msg("%s", err.message);
    assert_int_equal(strlen(model.hparams.name), 62);
    sw_model_close(&model);
    free(b.data);
}

static void test_bad_tensors(void **state) {
    (void)state;
    tiny_model m;
    static const struct {
        const char *name, *wanted;
        uint64_t cols, rows;
    } shapes[] = {
        {"token_embd.weight", "[vocabulary, embedding_length] = [5, 64]", 32, 5},
        {"output.weight", "= [5, 64]", 64, 4},
        {"output_norm.weight", "= [1, 64]", 64, 2},
        {"blk.0.attn_norm.weight", "= [1, 64]", 63, 1},
        {"blk.0.attn_q.weight", "[head_count * key_length, embedding_length] = [64, 64]", 64, 32},
        {"blk.1.attn_k.weight", "= [32, 64]", 64, 64},
        {"blk.1.attn_v.weight", "= [32, 64]", 32, 64},
        {"blk.0.attn_output.weight", "= [64, 64]", 96, 64},
        {"blk.1.ffn_norm.weight", "= [1, 64]", 1, 64},
        {"blk.1.ffn_gate.weight", "= [96, 64]", 96, 64},
        {"blk.0.ffn_up.weight", "= [96, 64]", 64, 95},
        {"blk.0.ffn_down.weight", "[embedding_length, feed_forward_length] = [64, 96]", 64, 96},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        tiny_init(&m);
        tiny_tensor *t = tiny_tensor_of(&m, shapes[i].name);
        t->cols = shapes[i].cols, t->rows = shapes[i].rows;
        char found[64];
        snprintf(found, sizeof found, "is [%u, %u]", (unsigned)t->rows, (unsigned)t->cols);
        check_fails(&m, SW_BAD_DATA, shapes[i].name, found, shapes[i].wanted);
    }
    static const char *const needed[] = {"token_embd.weight", "output_norm.weight", "blk.0.attn_q.weight",
                                         "blk.1.ffn_down.weight"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        tiny_init(&m);
        tiny_drop_tensor(&m, needed[i]);
        check_fails(&m, SW_BAD_DATA, "has no tensor", needed[i], "");
    }
    static const char *const unknown[] = {"blk.0.attn_q.bias",    "blk.2.attn_q.weight",
                                          "blk.00.attn_q.weight", "blk.0.ffn_gate_inp.weight",
                                          "output.bias",          "rope_freqs.weight"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        tiny_init(&m);
        tiny_add(&m, unknown[i], 0, 64, 1);
        check_fails(&m, SW_UNSUPPORTED, unknown[i], i < 5 ? "has no place" : "RoPE scaling", "");
    }
}

/* NaN and infinity in a tensor of each storage type, by its place in the file. */
static void test_bad_values(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t at;
        const char *bits;
        size_t width;
        const char *says;
    } cases[] = {
        {"token_embd.weight", 34 * 3, "\x00\x7e", 2, "block 3 (row 1): its scale is NaN"},
        {"blk.0.attn_q.weight", 20 * 5 + 2, "\x00\xfc", 2, "block 5 (row 2): its minimum is infinite"},
        {"blk.1.attn_k.weight", 18 * 63, "\x00\x7c", 2, "block 63 (row 31): its scale is infinite"},
        {"blk.1.attn_norm.weight", 4 * 63, "\x00\x00\xc0\x7f", 4, "row 0, column 63 is NaN"},
        {"blk.0.ffn_up.weight", 2 * 65, "\x80\x7f", 2, "row 1, column 1 is infinite"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_model m;
        tiny_init(&m);
        bytes b;
        tiny_build(&m, &b);
        memcpy(b.data + tiny_tensor_of(&m, cases[i].name)->at + cases[i].at, cases[i].bits, cases[i].width);
        sw_model model;
        sw_error err;
        assert_int_equal(open_built(&b, &model, &err), SW_BAD_DATA);
        assert_int_equal(strncmp(err.message, "tiny.gguf: ", 11), 0);
        assert_non_null(strstr(err.message, cases[i].name));
        if (strstr(err.message, cases[i].says) == NULL) fail_msg("%s", err.message);
        free(b.data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opens),      cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_bad_keys),   cmocka_unit_test(test_bad_floats_and_texts),
        cmocka_unit_test(test_long_name),  cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_bad_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
