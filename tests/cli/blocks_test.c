/* A file's Q4_0 and Q8_0 blocks arrive in a bundle as they are: the integers and the scales, bit for bit, row
 * by row; and the graphs compute what the float model of the same file does. */
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

#include "bundle/bundle.h"
#include "cli/q4_0.h"
#include "cli/quantized_model.h"
#include "cpu/cpu.h"
#include "graph/verify.h"
#include "runtime/session.h"

static sw_error err;
#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static char folder[64];

static const char *in_folder(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static sw_code put_constant(void *writer, sw_tensor *t, const void *data, sw_error *e) {
    return sw_bundle_writer_put_constant(writer, t, data, e);
}

/* Of a bundle with one graph of one token. */
static void write_bundle(const sw_model *model, const char *recipe_name, sw_bundle *out) {
    const sw_graph_options graph = {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST};
    sw_decoder d;
    sw_recipe types;
    sw_bundle_writer *w;
    sw_manifest m;
    OK(sw_decoder_build(&d, model, 32, &graph, 1, &err));
    OK(sw_recipe_find(&types, recipe_name, 0, &err));
    OK(sw_quantize_types(&d, &types, NULL, &err));
    OK(sw_decoder_verify(&d, &err));
    OK(sw_bundle_writer_begin(&w, in_folder(recipe_name), &err));
    OK(sw_bundle_writer_begin_weights(w, &d, &err));
    OK(sw_quantize_constants(&d, NULL, NULL, true, put_constant, w, &err));
    OK(sw_bundle_writer_end_weights(w, &err));
    sw_manifest_init(&m, &d);
    m.tool_version = SW_VERSION, m.recipe = recipe_name, m.mode = SW_MODE_KV;
    m.soc_name = "SM8750", m.soc_id = 69, m.htp_arch = 79, m.vtcm_mb = 8, m.opt_level = 3;
    OK(sw_bundle_writer_commit(w, &m, &err));
    sw_bundle_writer_free(w);
    sw_decoder_free(&d);
    OK(sw_bundle_open(out, in_folder(recipe_name), &err));
}

/* Row r of the IR's q and k is at another row of the file: heads of 32, pairs (2i, 2i + 1) there, (i, i + 16)
 * here. */
static size_t row_in_file(const char *name, size_t r) {
    bool turned = strstr(name, "q_proj") != NULL || strstr(name, "k_proj") != NULL;
    size_t i = r % TINY_HEAD;
    if (!turned) return r;
    return r - i + (i < TINY_HEAD / 2 ? 2 * i : 2 * (i - TINY_HEAD / 2) + 1);
}

/* file: the tensor's bytes. */
static void check_blocks(const sw_tensor *t, const uint8_t *file, bool q8) {
    const size_t cols = t->dims[1], size = q8 ? Q8_0_BYTES : Q4_0_BYTES;
    for (size_t r = 0; r < t->dims[0]; r++)
        for (size_t b = 0; b < cols / 32; b++) {
            const uint8_t *block = file + (row_in_file(t->name, r) * (cols / 32) + b) * size;
            const int8_t *q = (const int8_t *)t->data + r * cols + 32 * b;
            assert_int_equal(t->block_scales[r * (cols / 32) + b], block[0] | block[1] << 8);
            for (int i = 0; i < 32; i++) {
                int stored =
                    q8 ? (int8_t)block[2 + i] : (i < 16 ? block[2 + i] & 15 : block[2 + i - 16] >> 4) - 8;
                if (q[i] != stored)
                    fail_msg("%s[%zu], block %zu, value %d: %d, the file has %d", t->name, r, b, i, q[i],
                             stored);
            }
        }
}

static void blocks_arrive_unchanged(void **state) {
    const sw_model *model = *state;
    sw_bundle bundle;
    write_bundle(model, "f16a4w_block32", &bundle);
    uint32_t matrices = 0;
    for (uint32_t i = 0; i < bundle.decoder.n_constants; i++) {
        const sw_tensor *t = bundle.decoder.constants[i];
        if (t->role != SW_ROLE_WEIGHT) continue;
        matrices++;
        bool q8 = strcmp(t->name, "embedding") == 0;
        assert_int_equal(t->dtype, SW_S8);
        assert_int_equal(t->form.scales, SW_SCALES_FLOAT_BLOCK);
        assert_int_equal(t->form.block, 32);
        assert_int_equal(t->form.four_bit, !q8);
        const sw_weight *w = NULL;
        for (unsigned id = 0; id < SW_WEIGHT_COUNT; id++)
            for (uint32_t layer = 0; layer < TINY_LAYERS; layer++) {
                char name[SW_NAME_BYTES];
                sw_weight_ir_name((sw_weight_id)id, layer, name, sizeof name);
                if (strcmp(name, t->name) == 0) w = sw_model_weight(model, (sw_weight_id)id, layer);
            }
        assert_non_null(w);
        check_blocks(t, w->data, q8);
    }
    assert_int_equal(matrices, 1 + 7 * TINY_LAYERS);
    sw_bundle_close(&bundle);
}

/* Where the blocks are those of the file, only f16 activations are between the graphs and the float model. */
static void logits_are_those_of_the_file(void **state) {
    const sw_model *model = *state;
    enum { N = 24 };
    static float wanted[N * N_VOCAB], got[N_VOCAB];
    int32_t ids[N];
    sw_decoder window;
    sw_session *s;
    sw_device *cpu;
    for (int32_t i = 0; i < N; i++) ids[i] = (i * 37 + 5) % N_VOCAB;
    OK(sw_cpu_device_create(&cpu, NULL, &err));
    OK(sw_window_decoder_build(&window, model, NULL, N, &err));
    OK(sw_session_create(&s, &window, cpu, &err));
    OK(sw_session_feed_all(s, ids, N, wanted, &err));
    sw_session_destroy(s);
    sw_decoder_free(&window);
    static const char *const names[] = {"f16a4w_block32", "f16a8w_block32", "f16a8w"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sw_bundle bundle;
        double signal = 0, noise = 0;
        write_bundle(model, names[i], &bundle);
        OK(sw_session_create(&s, &bundle.decoder, cpu, &err));
        for (size_t t = 0; t < N; t++) {
            OK(sw_session_feed(s, ids + t, 1, got, NULL, &err));
            for (size_t k = 0; k < N_VOCAB; k++) {
                double a = (double)wanted[t * N_VOCAB + k], difference = a - (double)got[k];
                signal += a * a, noise += difference * difference;
            }
        }
        double db = 10 * log10(signal / noise);
        printf("%s: logits SQNR %.1f dB\n", names[i], db);
        assert_true(db > (i < 2 ? 45 : 30)); /* f16a8w has scales of its own, a row each */
        sw_session_destroy(s);
        sw_bundle_close(&bundle);
    }
    cpu->ops->destroy(cpu);
}

static int make(void **state) {
    static sw_model model;
    static bytes file;
    sw_gguf *gguf;
    snprintf(folder, sizeof folder, "/tmp/spillway-blocks-XXXXXX");
    if (mkdtemp(folder) == NULL) return 1;
    q4_0_tiny_build(&file);
    if (sw_gguf_open_memory(&gguf, file.data, file.size, "tiny Q4_0", &err) != SW_OK ||
        sw_model_open_gguf(&model, gguf, &err) != SW_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    *state = &model;
    return 0;
}

static int clean(void **state) {
    char command[128];
    sw_model_close(*state);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_arrive_unchanged),
                                       cmocka_unit_test(logits_are_those_of_the_file)};
    return cmocka_run_group_tests(tests, make, clean);
}
