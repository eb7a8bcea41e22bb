/* `spillway generate --trace`: the file is JSON, events of a thread nest, and every op is one of the graph's.
 */
#include <jansson.h>

#include "cli/run_program.h"
#include "cli/tiny_bundle.h"

static char bundle[128];
static sw_error err;

static int set_up(void **state) {
    bytes b = {0};
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    const char *gguf = write_file("tiny.gguf", b.data, b.size);
    free(b.data);
    snprintf(bundle, sizeof bundle, "%s", in_folder("bundle"));
    tiny_bundle_write(gguf, bundle, NULL);
    return 0;
}

static double number(const json_t *event, const char *key) {
    assert_true(json_is_number(json_object_get(event, key)));
    return json_number_value(json_object_get(event, key));
}

static const char *text(const json_t *event, const char *key) {
    assert_true(json_is_string(json_object_get(event, key)));
    return json_string_value(json_object_get(event, key));
}

static bool is_op(const sw_graph *graph, const char *name) {
    for (uint32_t i = 0; i < graph->n_ops; i++)
        if (strcmp(graph->ops[i].name, name) == 0) return true;
    return false;
}

/* Two events of one thread are apart, or one is inside the other; the clock's steps are 1 ns. */
static void check_nesting(json_t *const *events, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) {
            if (number(events[i], "tid") != number(events[k], "tid")) continue;
            double a = number(events[i], "ts"), b = a + number(events[i], "dur");
            double c = number(events[k], "ts"), d = c + number(events[k], "dur");
            const double e = 0.0015;
            if (!(b <= c + e || d <= a + e || (a >= c - e && b <= d + e) || (c >= a - e && d <= b + e)))
                fail_msg("%s [%f, %f] crosses %s [%f, %f]", text(events[i], "name"), a, b,
                         text(events[k], "name"), c, d);
        }
}

static void a_run(void **state) {
    (void)state;
    const char *path = in_folder("trace.json");
    ran r = RUN("generate", bundle, "--prompt", "hello", "--temperature", "0", "--max_seq_len", "40",
                "--threads", "2", "--trace", path);
    check_ran(&r, 0, NULL);
    ran plain = RUN("generate", bundle, "--prompt", "hello", "--temperature", "0", "--max_seq_len", "40");
    assert_string_equal(r.out, plain.out); /* the trace changes nothing */
    ran_free(&r), ran_free(&plain);
    json_error_t why;
    json_t *o = json_load_file(path, 0, &why);
    if (o == NULL) fail_msg("%s, line %d", why.text, why.line);
    sw_bundle b;
    BUNDLE_OK(sw_bundle_open(&b, bundle, &err));
    const json_t *list = json_object_get(o, "traceEvents");
    size_t n = json_array_size(list), n_spans = 0, n_turns = 0, n_calls[2] = {0}, n_ops[2] = {0};
    json_t **spans = calloc(n, sizeof *spans);
    assert_non_null(spans);
    for (size_t i = 0; i < n; i++) {
        json_t *e = json_array_get(list, i);
        if (strcmp(text(e, "ph"), "X") != 0) continue;
        spans[n_spans++] = e;
        const char *name = text(e, "name"), *category = text(e, "cat");
        if (strcmp(category, "turn") == 0) n_turns++;
        for (int g = 0; g < 2; g++) {
            if (strcmp(category, "graph") == 0 && strcmp(name, b.decoder.graphs[g]->name) == 0) n_calls[g]++;
            if (strcmp(category, "op") == 0 && is_op(b.decoder.graphs[g], name)) n_ops[g]++;
        }
        if (strcmp(category, "op") == 0)
            assert_true(is_op(b.decoder.graphs[0], name) || is_op(b.decoder.graphs[1], name));
        assert_true(number(e, "dur") >= 0 && number(e, "ts") >= 0);
    }
    assert_int_equal(n_turns, 1);
    assert_true(n_calls[0] >= 1 && n_calls[1] >= 1);
    assert_true(n_ops[0] > 20 && n_ops[1] > 20 * n_calls[1]);
    check_nesting(spans, n_spans < 3000 ? n_spans : 3000);
    free(spans);
    json_decref(o);
    sw_bundle_close(&b);
}

static void what_is_refused(void **state) {
    (void)state;
    const char *path = in_folder("never.json");
    REFUSED(2, "--trace", "generate", bundle, "--prompt", "a", "--run_on", "htp-emulator", "--trace", path);
    REFUSED(1, "/nowhere", "generate", bundle, "--prompt", "a", "--trace", "/nowhere/at/all.json");
    assert_int_not_equal(access(path, F_OK), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_run), cmocka_unit_test(what_is_refused)};
    return cmocka_run_group_tests_name("trace", tests, set_up, remove_folder);
}
