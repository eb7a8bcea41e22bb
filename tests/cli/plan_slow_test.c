/* The plan's size of a context binary against the binary that Qualcomm's compiler makes: within 5 % for three
 * models and two recipes, and where graphs share less. The models are public shapes with random weights, of
 * few layers and two of a smaller vocabulary, so that a compile takes seconds; docs/memory.md has all 30
 * layers of SmolLM2-135M. */
#include <jansson.h>

#include "cli/random_gguf.h"
#include "cli/run_program.h"

#define QNN   SW_SOURCE_DIR "/external/qnn/onnxruntime_qnn"
#define SHAPE "-m", "SM8750", "--max_seq_len", "128", "--prefill_ar_len", "32"

static json_t *json_of(const ran *r) {
    json_t *document = json_loads(r->out, 0, NULL);
    if (document == NULL) fail_msg("no JSON: %s", r->out);
    return document;
}

static uint64_t planned_bytes(const char *model, const char *quant, const char *level) {
    ran r = RUN("plan", model, SHAPE, "--quant", quant, "--opt_level", level, "--json");
    check_ran(&r, 0, NULL);
    json_t *plan = json_of(&r);
    uint64_t size = (uint64_t)json_integer_value(json_object_get(plan, "context_bytes"));
    json_decref(plan);
    ran_free(&r);
    return size;
}

/* Rounding to nearest: sizes are the same, and gptq takes minutes for wide layers. */
static uint64_t compiled_bytes(const char *model, const char *quant, const char *level) {
    const char *bundle = in_folder("bundle");
    ran r = RUN("compile", "--model", model, SHAPE, "--quant", quant, "--opt_level", level, "--calib_samples",
                "1", "--rounding", "nearest", "--artifact", bundle, "--qnn_lib", QNN, "--log_level", "error");
    check_ran(&r, 0, NULL);
    ran_free(&r);
    r = RUN("inspect", bundle, "--json");
    check_ran(&r, 0, NULL);
    json_t *manifest = json_of(&r), *part;
    uint64_t size = 0;
    size_t i;
    json_array_foreach(json_object_get(manifest, "parts"), i,
                       part) if (strcmp(json_string_value(json_object_get(part, "kind")), "context") == 0)
        size += (uint64_t)json_integer_value(json_object_get(part, "bytes"));
    json_decref(manifest);
    ran_free(&r);
    remove_all(bundle);
    return size;
}

static void compare(const char *name, const char *model, const char *quant, const char *level) {
    uint64_t plan = planned_bytes(model, quant, level), real = compiled_bytes(model, quant, level);
    double off = 100 * ((double)plan / (double)real - 1);
    print_message("%s, %s, O%s: planned %llu, compiled %llu bytes: %+.2f %%\n", name, quant, level,
                  (unsigned long long)plan, (unsigned long long)real, off);
    if (off < -5 || off > 5) fail_msg("%s, %s, O%s: %.1f %% off", name, quant, level, off);
}

/* at_level_1: there too, where not all is shared. */
static void random_model(const char *name, bool at_level_1, const sw_hparams *h) {
    const char *path = in_folder("random.gguf");
    random_gguf_write(path, h);
    compare(name, path, "16a8w", "3");
    compare(name, path, "16a4w_block32", "3");
    if (at_level_1) compare(name, path, "16a8w", "1");
    unlink(path);
}

static void smollm2_like(void **state) {
    (void)state;
    random_model("SmolLM2-135M's shapes", true,
                 &(sw_hparams){.n_layers = 3,
                               .hidden = 576,
                               .ffn = 1536,
                               .n_heads = 9,
                               .n_kv_heads = 3,
                               .head_dim = 64,
                               .vocab = 49152,
                               .context_max = 8192,
                               .tied_embeddings = true});
}

static void qwen_like(void **state) {
    (void)state;
    random_model("Qwen2.5-0.5B's shapes", false,
                 &(sw_hparams){.n_layers = 2,
                               .hidden = 896,
                               .ffn = 4864,
                               .n_heads = 14,
                               .n_kv_heads = 2,
                               .head_dim = 64,
                               .vocab = 8192,
                               .context_max = 4096,
                               .tied_embeddings = true});
}

static void llama_like(void **state) {
    (void)state;
    random_model("Llama-3.2-1B's shapes", false,
                 &(sw_hparams){.n_layers = 1,
                               .hidden = 2048,
                               .ffn = 8192,
                               .n_heads = 32,
                               .n_kv_heads = 8,
                               .head_dim = 64,
                               .vocab = 8192,
                               .context_max = 4096,
                               .tied_embeddings = true});
}

int main(void) {
    if (access(QNN "/libQnnHtp.so", R_OK) != 0) {
        print_message("skipped: Qualcomm's library isn't in " QNN "\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen_like),
        cmocka_unit_test(llama_like),
        cmocka_unit_test(smollm2_like),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
