/* gguf_fuzz.c: any bytes as a GGUF file: opened as a container and as a model; every key and every row of
 * what opens is read. Seeds: seeds.c writes the test recipes. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "model/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_keys(const sw_gguf *gguf) {
    for (size_t i = 0; i < sw_gguf_n_keys(gguf); i++) {
        sw_span name = sw_gguf_key_name(gguf, i);
        char *key = strndup(name.data, name.size);
        if (key == NULL || !sw_gguf_has(gguf, key)) abort(); /* each name in the list can be found */
        sw_arena arena = SW_ARENA_EMPTY;
        sw_error err;
        uint64_t u;
        float f;
        bool flag;
        sw_span text, *texts;
        int32_t *numbers;
        size_t n, valid = 0;
        int read = sw_gguf_get_u64(gguf, key, &u, &err) == SW_OK;
        read += sw_gguf_get_f32(gguf, key, &f, &err) == SW_OK;
        read += sw_gguf_get_bool(gguf, key, &flag, &err) == SW_OK;
        read += sw_gguf_get_i32s(gguf, key, &arena, &numbers, &n, &err) == SW_OK;
        if (sw_gguf_get_string(gguf, key, &text, &err) == SW_OK)
            read++, valid += sw_utf8_valid(text.data, text.size, NULL);
        if (sw_gguf_get_strings(gguf, key, &arena, &texts, &n, &err) == SW_OK)
            for (read++; n > 0; n--) valid += sw_utf8_valid(texts[n - 1].data, texts[n - 1].size, NULL);
        (void)valid;
        if (read > 1) abort(); /* a key has one type */
        sw_arena_free(&arena);
        free(key);
    }
}

static void read_tensors(const sw_gguf *gguf) {
    for (size_t i = 0; i < sw_gguf_n_tensors(gguf); i++) {
        sw_weight w;
        if (sw_gguf_tensor(gguf, sw_gguf_tensor_at(gguf, i)->file_name, &w, NULL) != SW_OK) abort();
        float *row = malloc(w.cols * sizeof *row);
        if (row == NULL) abort();
        for (uint32_t r = 0; r < w.rows; r++) sw_weight_row(&w, r, row);
        free(row);
        sw_code ignored = sw_weight_check_values(&w, NULL);
        (void)ignored;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sw_log_set_level(SW_LOG_ERROR);
    sw_gguf *gguf;
    sw_error err = {0};
    if (sw_gguf_open_memory(&gguf, data, size, "fuzz", &err) != SW_OK) {
        if (err.code == SW_OK || err.message[0] == '\0') abort(); /* every failure has its sentence */
        return 0;
    }
    read_keys(gguf);
    read_tensors(gguf);
    sw_model model;
    if (sw_model_open_gguf(&model, gguf, &err) == SW_OK) {
        float *row = malloc((size_t)model.hparams.hidden * sizeof *row);
        const sw_weight *q = sw_model_weight(&model, SW_W_Q, model.hparams.n_layers - 1);
        for (uint32_t r = 0; row != NULL && r < q->rows; r++) sw_weight_row(q, r, row);
        free(row);
    }
    sw_model_close(&model);
    return 0;
}
