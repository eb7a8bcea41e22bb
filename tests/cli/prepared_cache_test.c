/* prepared_cache_test.c: what one compile makes of a tiny checkpoint is what the next one finds, to the bit;
 * what decides changes the key; what is damaged isn't found, and made again. */
#include <sys/stat.h>

#include "bundle/bundle.h"
#include "cli/prepared_cache.h"
#include "cli/run_program.h"
#include "cli/tiny_gguf.h"
#include "graph/json.h"
#include "graph/verify.h"
#include "quant/sink.h"

static sw_error err;
static sw_options options;
static sw_checkpoint checkpoint;
static sw_calibration calibration;
static sw_arena arena;
static char cache[128];

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static int set_up(void **state) {
    bytes b = {0};
    static char path[128];
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    snprintf(path, sizeof path, "%s", write_file("tiny.gguf", b.data, b.size));
    free(b.data);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    options = (sw_options){.model = path, .calib_samples = 8, .threads = 2};
    arena = (sw_arena)SW_ARENA_EMPTY;
    OK(sw_checkpoint_open(&checkpoint, &options, &err));
    OK(sw_calibration_read(&calibration, &options, &checkpoint, 60, &err));
    return 0;
}

static int tear_down(void **state) {
    sw_arena_free(&arena);
    sw_calibration_free(&calibration);
    sw_checkpoint_close(&checkpoint);
    return remove_folder(state);
}

/* A compile up to the weights, with or without what the cache has. */
typedef struct compile {
    sw_recipe recipe;
    sw_prepared prepared;
    sw_quantized_model model;
    sw_decoder decoder;
    sw_bundle_writer *writer;
    char *graphs; /* as JSON */
} compile;

static sw_code put_constant(void *writer, sw_tensor *t, const void *data, sw_error *its) {
    return sw_bundle_writer_put_constant(writer, t, data, its);
}

static const sw_evaluation_texts said = {.figures = "\"held_out_tokens\": 60",
                                         .n_lines = 2,
                                         .levels = {SW_LOG_INFO, SW_LOG_WARN},
                                         .lines = {"one \"line\"", "another"}};

static void find(compile *c, const char *name) {
    *c = (compile){.graphs = NULL};
    OK(sw_recipe_find(&c->recipe, name, 0, &err));
    OK(sw_prepared_find(&c->prepared, cache, &checkpoint, &calibration, &c->recipe, &options, true, &arena,
                        &err));
}

static void run(compile *c, const char *name, const char *bundle) {
    const sw_graph_options graphs[] = {{"prefill_forward", 8, SW_ATTENTION_GROUPED, SW_HEAD_LAST},
                                       {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST}};
    size_t size = 0;
    find(c, name);
    OK(sw_bundle_writer_begin(&c->writer, sw_path_join(&arena, folder, bundle), &err));
    if (c->prepared.found) {
        OK(sw_quantized_model_restore(&c->model, &c->recipe, &options, &checkpoint, &c->prepared.sink,
                                      &c->prepared.ranges, &err));
    } else {
        OK(sw_quantized_model_begin(&c->model, &c->recipe, &options, folder, &checkpoint, &err));
        OK(sw_quantized_model_calibrate(&c->model, &calibration, &checkpoint, &err));
    }
    OK(sw_decoder_build(&c->decoder, c->model.model, 32, graphs, 2, &err));
    OK(sw_quantize_types(&c->decoder, &c->recipe, c->model.ranges, &err));
    OK(sw_sink_attach(&c->decoder, &c->model.sink, &err));
    if (c->prepared.found) {
        OK(sw_prepared_encode(&c->prepared, &c->decoder, &err));
        OK(sw_bundle_writer_take_weights(c->writer, &c->decoder, c->prepared.weights,
                                         c->prepared.weights_sha256, &err));
    } else {
        OK(sw_bundle_writer_begin_weights(c->writer, &c->decoder, &err));
        OK(sw_quantize_constants(&c->decoder, &c->model, checkpoint.pool, true, put_constant, c->writer,
                                 &err));
        OK(sw_bundle_writer_end_weights(c->writer, &err));
        OK(sw_bundle_writer_hash_weights(c->writer, &err));
        OK(sw_prepared_keep(&c->prepared, &c->model, &c->decoder,
                            sw_bundle_writer_file(c->writer, SW_PART_WEIGHTS), &said, &err));
    }
    OK(sw_decoder_verify(&c->decoder, &err));
    FILE *stream = open_memstream(&c->graphs, &size);
    OK(sw_decoder_write_json(&c->decoder, stream, &err));
    fclose(stream);
}

static void drop(compile *c) {
    sw_prepared_free(&c->prepared);
    sw_decoder_free(&c->decoder);
    sw_quantized_model_free(&c->model);
    sw_bundle_writer_free(c->writer);
    free(c->graphs);
}

static bool is_found(const char *name) {
    compile c;
    find(&c, name);
    sw_prepared_free(&c.prepared);
    return c.prepared.found;
}

static void the_next_compile_finds_the_same(void **state) {
    (void)state;
    static const char *const names[] = {"16a8w", "8a8w", "f16a8w", "16a4w_block32"};
    for (size_t r = 0; r < sizeof names / sizeof *names; r++) {
        compile first, second;
        run(&first, names[r], "first");
        assert_false(first.prepared.found);
        run(&second, names[r], "second");
        assert_true(second.prepared.found);
        assert_string_equal(second.graphs, first.graphs);
        assert_string_equal(sw_bundle_writer_sha256(second.writer, SW_PART_WEIGHTS),
                            sw_bundle_writer_sha256(first.writer, SW_PART_WEIGHTS));
        assert_int_equal(second.decoder.n_constants, first.decoder.n_constants);
        for (uint32_t i = 0; i < first.decoder.n_constants; i++) {
            const sw_tensor *a = first.decoder.constants[i], *b = second.decoder.constants[i];
            assert_memory_equal(b->data, a->data, (size_t)sw_tensor_bytes(a));
            assert_memory_equal(&b->encoding, &a->encoding, sizeof a->encoding);
            if (a->channel_scales != NULL)
                assert_memory_equal(b->channel_scales, a->channel_scales, a->dims[0] * sizeof(float));
        }
        const size_t kv = first.decoder.sink.n_tokens == 0
                              ? 0
                              : (size_t)sw_sink_values(&first.decoder.hparams, first.decoder.sink.n_tokens);
        assert_int_equal(second.decoder.sink.n_tokens, first.decoder.sink.n_tokens);
        if (kv > 0) assert_memory_equal(second.decoder.sink.kv, first.decoder.sink.kv, kv);
        assert_int_equal(second.prepared.n_calibrated, first.model.n_calibrated);
        assert_string_equal(second.prepared.texts.figures, said.figures);
        assert_int_equal(second.prepared.texts.n_lines, said.n_lines);
        for (unsigned i = 0; i < said.n_lines; i++) {
            assert_int_equal(second.prepared.texts.levels[i], said.levels[i]);
            assert_string_equal(second.prepared.texts.lines[i], said.lines[i]);
        }
        drop(&first), drop(&second);
    }
}

static void what_decides_is_in_the_key(void **state) {
    (void)state;
    compile c;
    run(&c, "16a8w", "bundle");
    drop(&c);
    assert_true(is_found("16a8w"));
    assert_false(is_found("8a8w"));
    options.rotate = "off";
    assert_false(is_found("16a8w"));
    options.rotate = NULL;
    options.rounding = "gptq";
    assert_false(is_found("16a8w"));
    options.rounding = NULL;
    const int32_t id = calibration.text.data[0];
    calibration.text.data[0] = id == 5 ? 6 : 5;
    assert_false(is_found("16a8w"));
    calibration.text.data[0] = id;
    assert_true(is_found("16a8w"));

    FILE *file = fopen(checkpoint.path, "r+b"); /* a byte of the checkpoint, its last */
    assert_non_null(file);
    fseek(file, -1, SEEK_END);
    int last = fgetc(file);
    fseek(file, -1, SEEK_END);
    fputc(last ^ 1, file);
    fclose(file);
    assert_false(is_found("16a8w"));
}

/* Changes one byte of a file, or cuts it there. */
static void damage(const char *path, long at, bool cut) {
    if (cut) {
        assert_int_equal(truncate(path, at), 0);
        return;
    }
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, at, SEEK_SET);
    fputc(byte ^ 1, file);
    fclose(file);
}

static void what_is_damaged_is_made_again(void **state) {
    (void)state;
    compile c;
    run(&c, "16a8w", "bundle");
    const char *file = sw_arena_printf(&arena, "%s/prepared/%s.json", cache, c.prepared.key);
    drop(&c);
    find(&c, "16a8w");
    assert_true(c.prepared.found);
    const char *weights = c.prepared.weights;
    sw_prepared_free(&c.prepared);

    const struct {
        const char *path;
        long at;
        bool cut;
    } cases[] = {{weights, 4096, false}, {weights, 100, true}, {weights, 0, true}, {file, 5000, false},
                 {file, 200, true},      {file, 0, true},      {file, 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        damage(cases[i].path, cases[i].at, cases[i].cut);
        assert_false(is_found("16a8w"));
        run(&c, "16a8w", "bundle");
        assert_false(c.prepared.found);
        drop(&c);
        assert_true(is_found("16a8w"));
    }
    assert_int_equal(remove(weights), 0);
    assert_false(is_found("16a8w"));
}

int main(void) {
#define CACHE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {CACHE_TEST(the_next_compile_finds_the_same),
                                       CACHE_TEST(what_decides_is_in_the_key),
                                       CACHE_TEST(what_is_damaged_is_made_again)};
    return cmocka_run_group_tests_name("prepared_cache", tests, NULL, NULL);
}
