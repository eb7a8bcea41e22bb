/* tiny_bundle.h: a bundle of the tiny GGUF model, quantized but not compiled: what the CPU device needs, made
 * without Qualcomm's library. */
#ifndef TESTS_CLI_TINY_BUNDLE_H
#define TESTS_CLI_TINY_BUNDLE_H

#include "bundle/bundle.h"
#include "cli/tiny_gguf.h"
#include "cpu/cpu.h"
#include "quant/quant.h"
#include "runtime/load_tokenizer.h"
#include "runtime/session.h"

enum { BUNDLE_CONTEXT = 96, BUNDLE_PREFILL = 16 };

#define BUNDLE_OK(call)                                                                                      \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static inline void tiny_bundle_add_tokenizer(sw_bundle_writer *w, const sw_tokenizer *t, sw_error *out) {
    static void (*const writers[2])(const sw_tokenizer *, FILE *) = {sw_tokenizer_write_json,
                                                                     sw_tokenizer_write_config};
    static const char *const names[2] = {"tokenizer.json", "tokenizer_config.json"};
    for (int i = 0; i < 2; i++) {
        char *text = NULL;
        size_t size = 0;
        FILE *stream = open_memstream(&text, &size);
        writers[i](t, stream);
        fclose(stream);
        if (sw_bundle_writer_add(w, SW_PART_TOKENIZER, names[i], text, size, out) != SW_OK)
            fail_msg("%s", out->message);
        free(text);
    }
}

/* A context part that stands in for Qualcomm's binary, and the build that it is said to be of; none: {0}. */
typedef struct tiny_context {
    const void *data;
    size_t size;
    const char *build_id;
} tiny_context;

/* other: a tokenizer in place of the model's own, or NULL. */
static inline void tiny_bundle_write_with(const char *gguf_path, const char *path, const sw_tokenizer *other,
                                          tiny_context context) {
    sw_error err;
    sw_model model;
    sw_device *cpu;
    sw_ranges *ranges;
    sw_decoder d;
    sw_bundle_writer *w;
    sw_tokenizer *own;
    sw_recipe types;
    sw_manifest m;
    int32_t ids[64];
    for (int32_t i = 0; i < 64; i++) ids[i] = (i * 37 + 5) % N_VOCAB;
    const sw_window window = {ids, 64};
    const sw_graph_options graphs[] = {
        {"prefill_forward", BUNDLE_PREFILL, SW_ATTENTION_GROUPED, SW_HEAD_LAST},
        {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST}};
    BUNDLE_OK(sw_model_open(&model, gguf_path, &err));
    BUNDLE_OK(sw_tokenizer_from_gguf(&own, model.gguf, &err));
    BUNDLE_OK(sw_cpu_device_create(&cpu, NULL, &err));
    BUNDLE_OK(sw_calibrate(&ranges, &model, NULL, NULL, cpu, &window, 1, &err));
    BUNDLE_OK(sw_decoder_build(&d, &model, BUNDLE_CONTEXT, graphs, 2, &err));
    BUNDLE_OK(sw_recipe_find(&types, "16a8w", 8, &err));
    BUNDLE_OK(sw_quantize_types(&d, &types, ranges, &err));
    BUNDLE_OK(sw_bundle_writer_begin(&w, path, &err));
    BUNDLE_OK(sw_bundle_writer_begin_weights(w, &d, &err));
    for (uint32_t i = 0; i < d.n_constants; i++) {
        void *data = malloc((size_t)sw_tensor_bytes(d.constants[i]));
        BUNDLE_OK(sw_quantize_constant(&d, d.constants[i], data, NULL, NULL, &err));
        BUNDLE_OK(sw_bundle_writer_put_constant(w, d.constants[i], data, &err));
        free(data);
    }
    BUNDLE_OK(sw_bundle_writer_end_weights(w, &err));
    tiny_bundle_add_tokenizer(w, other != NULL ? other : own, &err);
    if (context.data != NULL)
        BUNDLE_OK(sw_bundle_writer_add(w, SW_PART_CONTEXT, "context.bin", context.data, context.size, &err));
    sw_manifest_init(&m, &d);
    m.qnn_build_id = context.build_id;
    m.tool_version = SW_VERSION, m.recipe = "16a8w", m.mode = SW_MODE_HYBRID,
    m.prefill_ar_len = BUNDLE_PREFILL;
    m.soc_name = "SM8750", m.soc_id = 69, m.htp_arch = 79, m.vtcm_mb = 8, m.opt_level = 3;
    BUNDLE_OK(sw_bundle_writer_commit(w, &m, &err));
    sw_bundle_writer_free(w);
    sw_decoder_free(&d);
    sw_ranges_free(ranges);
    cpu->ops->destroy(cpu);
    sw_tokenizer_destroy(own);
    sw_model_close(&model);
}

static inline void tiny_bundle_write(const char *gguf_path, const char *path, const sw_tokenizer *other) {
    tiny_bundle_write_with(gguf_path, path, other, (tiny_context){0});
}

#endif
