/* The report of a compile, on the tiny model: its figures are those of the graphs that are compiled, run
 * token by token with a KV cache; and it warns above its bound. */
#include <jansson.h>
#include <math.h>

#include "cli/evaluate.h"
#include "cli/run_program.h"
#include "cli/tiny_gguf.h"
#include "graph/verify.h"
#include "runtime/session.h"

static sw_error err;
static sw_options options;
static sw_checkpoint checkpoint;
static sw_calibration calibration;
static sw_quantized_model quantized;
static sw_decoder decoder; /* as a compile makes it, with its constants in memory */

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static void near(double a, double b, double most) {
    if (!(fabs(a - b) <= most)) fail_msg("%.17g, wanted %.17g, at most %g from it", a, b, most);
}

static sw_code keep(void *context, sw_tensor *t, const void *data, sw_error *e) {
    (void)e;
    size_t size = (size_t)sw_tensor_bytes(t);
    void *copy = sw_arena_alloc(context, size);
    assert_non_null(copy);
    memcpy(copy, data, size);
    t->data = copy;
    return SW_OK;
}

static int set_up(void **state) {
    bytes b = {0};
    static char path[128];
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    snprintf(path, sizeof path, "%s", write_file("tiny.gguf", b.data, b.size));
    free(b.data);
    options = (sw_options){.model = path, .calib_samples = 8, .threads = 1};
    const sw_graph_options graph = {"kv_forward", 1, SW_ATTENTION_PER_KV_HEAD, SW_HEAD_LAST};
    sw_recipe chosen;
    OK(sw_checkpoint_open(&checkpoint, &options, &err));
    OK(sw_calibration_read(&calibration, &options, &checkpoint, 60, &err));
    OK(sw_recipe_find(&chosen, "16a8w", 8, &err));
    OK(sw_quantized_model_begin(&quantized, &chosen, &options, folder, &checkpoint, &err));
    OK(sw_quantized_model_calibrate(&quantized, &calibration, &checkpoint, &err));
    OK(sw_decoder_build(&decoder, quantized.model, 60, &graph, 1, &err));
    OK(sw_quantize_types(&decoder, &chosen, quantized.ranges, &err));
    OK(sw_quantize_constants(&decoder, &quantized, NULL, false, keep, &decoder.arena, &err));
    OK(sw_decoder_verify(&decoder, &err));
    return 0;
}

static int tear_down(void **state) {
    sw_decoder_free(&decoder);
    sw_quantized_model_free(&quantized);
    sw_calibration_free(&calibration);
    sw_checkpoint_close(&checkpoint);
    return remove_folder(state);
}

static void the_text_is_cut(void **state) {
    (void)state;
    size_t n = 0;
    for (size_t i = 0; i < calibration.n_windows; i++) {
        assert_ptr_equal(calibration.windows[i].ids, calibration.text.data + n);
        assert_in_range(calibration.windows[i].n_tokens, 1, 256); /* the model has no more positions */
        n += calibration.windows[i].n_tokens;
    }
    assert_int_equal(n, calibration.n_used);
    assert_int_equal(calibration.n_used, calibration.text.count - calibration.text.count / 10);
    assert_int_equal(calibration.held_out.n_tokens, 60);
    assert_ptr_equal(calibration.held_out.ids + 60, calibration.text.data + calibration.text.count);
    assert_true(calibration.held_out.ids >= calibration.text.data + n);
}

/* Perplexity and agreement of the 29 positions from the KV graph; integers are equal, so the numbers are. */
static void figures_are_those_of_the_compiled_graph(void **state) {
    (void)state;
    const sw_window *window = &calibration.held_out;
    float logits[N_VOCAB];
    sw_session *session;
    sw_evaluation e;
    double nll = 0;
    OK(sw_evaluate(&e, &quantized, &decoder, &checkpoint, window, &err));
    OK(sw_session_create(&session, &decoder, checkpoint.cpu, &err));
    for (uint32_t t = 0; t + 1 < window->n_tokens; t++) {
        OK(sw_session_feed(session, window->ids + t, 1, logits, NULL, &err));
        double all = 0;
        for (int i = 0; i < N_VOCAB; i++) all += exp((double)logits[i]);
        if (t >= 30) nll += log(all) - (double)logits[window->ids[t + 1]];
    }
    sw_session_destroy(session);
    assert_int_equal(e.quantized.positions, 29);
    assert_int_equal(e.quantized.compared, 29);
    near(e.quantized.nll, nll, 1e-6);
    near(sw_score_perplexity(&e.quantized) / sw_score_perplexity(&e.exact), 1, 0.05);
    assert_true(e.tensors.count > 30);
    assert_true(e.tensors.rows[0].sqnr_db > 10);

    /* As a JSON object: what the manifest takes. */
    sw_arena arena = SW_ARENA_EMPTY;
    sw_evaluation_texts texts;
    assert_int_equal(sw_evaluation_describe(&texts, &e, &quantized.recipe, &arena, &err), SW_OK);
    const char *members = texts.figures;
    json_error_t where;
    json_t *all = json_loads(sw_arena_printf(&arena, "{%s}", members), JSON_REJECT_DUPLICATES, &where);
    if (all == NULL) fail_msg("%s: %s", where.text, members);
    near(json_real_value(json_object_get(all, "perplexity")), sw_score_perplexity(&e.quantized), 1e-2);
    assert_int_equal(json_array_size(json_object_get(all, "worst_tensors")), 5);
    json_decref(all);
    sw_arena_free(&arena);
    sw_evaluation_free(&e);
}

static void the_worst_five(void **state) {
    (void)state;
    sw_tensor_sqnr rows[7];
    static const double own[7] = {30, 10, 20, 10, 50, 40, 60};
    static const char *const names[7] = {"a", "b", "c", "d", "e", "f", "g"};
    char line[SW_SQNR_LINE_BYTES];
    for (int i = 0; i < 7; i++) rows[i] = (sw_tensor_sqnr){.name = names[i], .sqnr_db = i, .own_db = own[i]};
    sw_sqnr_table table = {.rows = rows, .count = 7};
    assert_string_equal(sw_sqnr_worst(&table, false, line), "a 0.0, b 1.0, c 2.0, d 3.0, e 4.0");
    assert_string_equal(sw_sqnr_worst(&table, true, line), "b 10.0, d 10.0, c 20.0, a 30.0, f 40.0");
    table.count = 2;
    assert_string_equal(sw_sqnr_worst(&table, true, line), "b 10.0, a 30.0");
    table.count = 0;
    assert_string_equal(sw_sqnr_worst(&table, true, line), "");
}

/* What the report says on stderr. */
static const char *reported(const sw_evaluation *e, const sw_recipe *of) {
    static char said[4096];
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int before = dup(2);
    dup2(fileno(file), 2);
    sw_arena arena = SW_ARENA_EMPTY;
    sw_evaluation_texts texts;
    assert_int_equal(sw_evaluation_describe(&texts, e, of, &arena, &err), SW_OK);
    sw_evaluation_log(&texts);
    sw_arena_free(&arena);
    fflush(stderr);
    dup2(before, 2);
    close(before);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
    return said;
}

static void check_says(const char *said, const char *wanted, bool whether) {
    if ((strstr(said, wanted) != NULL) != whether)
        fail_msg("%s `%s`: %s", whether ? "lacks" : "has", wanted, said);
}

static void bad_figures_are_said_aloud(void **state) {
    (void)state;
    static const struct {
        const char *recipe;
        double ratio;
        const char *says;
        bool warns;
    } rows[] = {
        {"16a8w", 1.099, "ratio 1.099", false},      {"16a8w", 1.101, "--kv_bits 16", true},
        {"8a8w", 1.3, "--quant 16a8w", true},        {"16a4w", 2, "--quant 16a4w_block32", true},
        {"16a4w_block32", 2, "8-bit weights", true}, {"f16", 1.2, "--calib_text", true},
        {"8a8w", NAN, "--quant 16a8w", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sw_recipe of;
        OK(sw_recipe_find(&of, rows[i].recipe, 0, &err));
        sw_evaluation e = {.n_tokens = 20,
                           .exact = {.positions = 10, .nll = 10 * log(20)},
                           .quantized = {.positions = 10,
                                         .compared = 10,
                                         .same_top = 9,
                                         .nll = 10 * log(20 * rows[i].ratio),
                                         .signal = 100,
                                         .noise = 1}};
        const char *said = reported(&e, &of);
        check_says(said, rows[i].says, true);
        check_says(said, "warning", rows[i].warns);
        check_says(said, "top-1 agreement 9 of 10", true);
        check_says(said, "20.0 dB", true);
        e.exact.nll = e.quantized.nll = 10 * log(5000);
        said = reported(&e, &of);
        check_says(said, "isn't what the model knows", true);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_is_cut),
        cmocka_unit_test(figures_are_those_of_the_compiled_graph),
        cmocka_unit_test(the_worst_five),
        cmocka_unit_test(bad_figures_are_said_aloud),
    };
    return cmocka_run_group_tests_name("evaluate", tests, set_up, tear_down);
}
