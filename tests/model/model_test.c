/* SmolLM2-135M-Instruct as published (Q4_1, embedding Q8_0). Hyperparameters: the model's config.json on
 * Hugging Face. Values of rows: decoded from the file by a few lines of Python (struct), q and k rows moved
 * by row h*64+i <- stored row h*64+2i, row h*64+32+i <- stored row h*64+2i+1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "model/gguf.h"

#define MODEL SW_SOURCE_DIR "/external/models/SmolLM2-135M-Instruct.Q4_1.gguf"

static sw_model model;

static void test_hparams(void **state) {
    (void)state;
    const sw_hparams *h = &model.hparams;
    assert_string_equal(h->architecture, "llama");
    assert_int_equal(h->n_layers, 30);
    assert_int_equal(h->hidden, 576);
    assert_int_equal(h->ffn, 1536);
    assert_int_equal(h->vocab, 49152);
    assert_int_equal(h->n_heads, 9);
    assert_int_equal(h->n_kv_heads, 3);
    assert_int_equal(h->head_dim, 64);
    assert_int_equal(h->context_max, 8192);
    assert_true(h->rope_theta == 100000.0f);
    assert_true(h->rms_epsilon == 1e-5f);
    assert_true(h->tied_embeddings);
    assert_int_equal(sw_model_weight(&model, SW_W_Q, 0)->storage, SW_STORE_Q4_1);
    assert_int_equal(sw_model_weight(&model, SW_W_EMBEDDING, 0)->storage, SW_STORE_Q8_0);
}

static void test_rows(void **state) {
    (void)state;
    static const struct {
        sw_weight_id id;
        uint32_t layer, row, col;
        float value;
    } wanted[] = {
        {SW_W_EMBEDDING, 0, 0, 0, -0x1.b468p-4f},
        {SW_W_EMBEDDING, 0, 1, 31, 0x1.01f8p+0f},
        {SW_W_EMBEDDING, 0, 49151, 575, -0x1.55ap-5f},
        {SW_W_EMBEDDING, 0, 20000, 300, 0x1.0554p-4f},
        {SW_W_Q, 0, 1, 0, -0x1.46p-3f},
        {SW_W_Q, 0, 32, 17, 0x1.14p-5f},
        {SW_W_Q, 29, 161, 575, 0x1.a48p-6f},
        {SW_W_Q, 3, 575, 100, -0x1.0e4p-3f},
        {SW_W_K, 0, 2, 40, 0x1.56p-7f},
        {SW_W_K, 29, 191, 33, 0x1.bf8p-6f},
        {SW_W_V, 0, 1, 0, 0x1.b2ep-5f},
        {SW_W_V, 29, 191, 33, -0x1.7578p-1f},
        {SW_W_DOWN, 15, 575, 1535, -0x1.2d6p-4f},
        {SW_W_ATTENTION_NORM, 7, 0, 99, 0x1.f2p-3f},
        {SW_W_FINAL_NORM, 0, 0, 575, 0x1.fcp+0f},
        {SW_W_HEAD, 0, 777, 64, -0x1.6b98p-3f},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const sw_weight *w = sw_model_weight(&model, wanted[i].id, wanted[i].layer);
        float row[1536];
        assert_true(w->cols <= 1536 && wanted[i].row < w->rows);
        sw_weight_row(w, wanted[i].row, row);
        if (row[wanted[i].col] != wanted[i].value)
            fail_msg("%s row %u column %u: %a, wanted %a", w->file_name, wanted[i].row, wanted[i].col,
                     (double)row[wanted[i].col], (double)wanted[i].value);
    }
}

static void test_tokenizer_keys(void **state) {
    (void)state;
    sw_arena arena = SW_ARENA_EMPTY;
    sw_span *tokens, *merges, pre;
    int32_t *kinds;
    size_t n_tokens, n_merges, n_kinds;
    sw_error err;
    assert_int_equal(
        sw_gguf_get_strings(model.gguf, "tokenizer.ggml.tokens", &arena, &tokens, &n_tokens, &err), SW_OK);
    assert_int_equal(
        sw_gguf_get_strings(model.gguf, "tokenizer.ggml.merges", &arena, &merges, &n_merges, &err), SW_OK);
    assert_int_equal(
        sw_gguf_get_i32s(model.gguf, "tokenizer.ggml.token_type", &arena, &kinds, &n_kinds, &err), SW_OK);
    assert_int_equal(n_tokens, 49152);
    assert_int_equal(n_kinds, 49152);
    assert_int_equal(n_merges, 48900);
    assert_memory_equal(tokens[0].data, "<|endoftext|>", 13);
    assert_int_equal(tokens[0].size, 13);
    assert_memory_equal(merges[2].data, "i n", 3);
    assert_int_equal(kinds[0], 3);
    assert_int_equal(sw_gguf_get_string(model.gguf, "tokenizer.ggml.pre", &pre, &err), SW_OK);
    assert_int_equal(pre.size, 6);
    assert_memory_equal(pre.data, "smollm", 6);
    sw_arena_free(&arena);
}

/* The container without the values: 49k tokens and merges are walked over, not copied. Measured: 1.2 ms. */
static void test_open_is_fast(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
    skip();
#endif
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t start = sw_now_us();
        sw_gguf *gguf;
        sw_error err;
        assert_int_equal(sw_gguf_open(&gguf, MODEL, &err), SW_OK);
        uint64_t spent = sw_now_us() - start;
        if (spent < best) best = spent;
        sw_gguf_close(gguf);
    }
    assert_true(best < 20000);
}

int main(void) {
    if (access(MODEL, R_OK) != 0) {
        printf("skipped: %s is missing\n", MODEL);
        return 77;
    }
    sw_error err;
    if (sw_model_open(&model, MODEL, &err) != SW_OK) {
        printf("%s\n", err.message);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hparams),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_tokenizer_keys),
        cmocka_unit_test(test_open_is_fast),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sw_model_close(&model);
    return failed;
}
