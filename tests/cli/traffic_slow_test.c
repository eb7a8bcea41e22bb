/* Traffic with Qualcomm's compiler: figures as compile has them, results found again, a run that was stopped,
 * a Slurm task's body, caches merged. */
#include <jansson.h>

#include "cli/random_gguf.h"
#include "cli/run_program.h"
#include "cli/tiny_bundle.h"

#define QNN  SW_SOURCE_DIR "/external/qnn/onnxruntime_qnn"
#define GRID "traffic", "--model", gguf, "--max_seq_len", "96", "--prefill_ar_len", "16", "--qnn_lib", QNN

static char gguf[128];
static sw_error err;

static int set_up(void **state) {
    bytes b = {0};
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    snprintf(gguf, sizeof gguf, "%s", write_file("tiny.gguf", b.data, b.size));
    free(b.data);
    return 0;
}

static json_t *points_of(const ran *r) {
    json_t *document = json_loads(r->out, 0, NULL);
    if (document == NULL) fail_msg("no JSON: %s", r->out);
    json_t *points = json_incref(json_object_get(document, "points"));
    json_decref(document);
    return points;
}

static uint64_t figure(const json_t *points, size_t i, const char *name) {
    const json_t *value = json_object_get(json_object_get(json_array_get(points, i), "figures"), name);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

/* compile and traffic say the same of the same graphs, though each is alone here and with the other there. */
static void figures_are_those_of_compile(void **state) {
    (void)state;
    ran r = RUN("compile", "-m", "SM8750", "--max_seq_len", "96", "--prefill_ar_len", "16", "--qnn_lib", QNN,
                "--model", gguf, "--artifact", in_folder("bundle"), "--log_level", "error");
    check_ran(&r, 0, NULL);
    ran_free(&r);
    r = RUN(GRID, "--cache", in_folder("cache"), "--json");
    check_ran(&r, 0, "2/2: kv_forward");
    json_t *points = points_of(&r);
    ran_free(&r);
    sw_bundle b;
    BUNDLE_OK(sw_bundle_open(&b, in_folder("bundle"), &err));
    assert_int_equal(json_array_size(points), 2);
    for (size_t i = 0; i < 2; i++) {
        const sw_manifest_graph *g = &b.manifest.graphs[i];
        assert_string_equal(json_string_value(json_object_get(json_array_get(points, i), "graph")), g->name);
        assert_int_equal(figure(points, i, "spill"), g->ddr.spill);
        assert_int_equal(figure(points, i, "fill"), g->ddr.fill);
        assert_int_equal(figure(points, i, "write"), g->ddr.write);
        assert_int_equal(figure(points, i, "spill_fill_bytes"), g->spill_fill_bytes);
        assert_int_equal(figure(points, i, "vtcm_bytes"), g->vtcm_bytes);
        /* Equal constants that both graphs have stand once in a context of two. */
        double read = (double)figure(points, i, "read"), both = (double)g->ddr.read;
        if (read < 0.9 * both || read > 1.1 * both)
            fail_msg("%s: read %.0f, by compile %.0f", g->name, read, both);
    }
    sw_bundle_close(&b);
    json_decref(points);

    /* Again: nothing is compiled, and the same is printed. */
    r = RUN(GRID, "--cache", in_folder("cache"), "--tsv");
    check_ran(&r, 0, "2 points, 2 of them in");
    assert_null(strstr(r.err, ": read ")); /* no line of a point that was measured */
    assert_int_equal(count_lines(r.out), 3);
    ran_free(&r);
}

/* A grid larger by the allocator's setting: only the new half is measured. With 0 traffic to place, the
 * compiler itself says that it had nothing to do. */
static void a_run_goes_on(void **state) {
    (void)state;
    ran r = RUN(GRID, "--cache", in_folder("cache"), "--slc", "off,on", "--json");
    check_ran(&r, 0, "4 points, 2 of them in");
    json_t *points = points_of(&r);
    ran_free(&r);
    assert_int_equal(json_array_size(points), 4);
    for (size_t i = 0; i < 4; i += 2) {
        assert_int_equal(figure(points, i, "read"), figure(points, i + 1, "read"));
        assert_int_equal(figure(points, i, "write"), figure(points, i + 1, "write"));
        const json_t *on = json_object_get(json_array_get(points, i + 1), "figures");
        assert_true(json_is_true(json_object_get(on, "slc_idle")));
    }
    json_decref(points);
}

static void a_slurm_task_and_a_merge(void **state) {
    (void)state;
    char script[200], there[200], command[800];
    snprintf(script, sizeof script, "%s", in_folder("array.sh"));
    snprintf(there, sizeof there, "%s", in_folder("there"));
    ran r = RUN(GRID, "--cache", there, "--slurm", script, "--opt_level", "2");
    check_ran(&r, 0, "2 jobs");
    ran_free(&r);
    snprintf(command, sizeof command,
             "bash -n '%s' && SLURM_ARRAY_TASK_ID=0 bash '%s' && SLURM_ARRAY_TASK_ID=1 bash '%s'", script,
             script, script);
    assert_int_equal(system(command), 0);
    r = RUN(GRID, "--cache", in_folder("here"), "--opt_level", "2,3", "--merge", there, in_folder("cache"));
    check_ran(&r, 0, "4 points, 4 of them in");
    ran_free(&r);
    /* Without those results they are said to be missing, and the rest is printed. */
    r = RUN(GRID, "--cache", in_folder("elsewhere"), "--opt_level", "1,2", "--merge", there, "--tsv");
    check_ran(&r, 0, "2 points are in none of the caches");
    assert_int_equal(count_lines(r.out), 5);
    ran_free(&r);
}

/* The job list through GNU parallel, two jobs at once over one cache. */
static void gnu_parallel_runs_the_jobs(void **state) {
    (void)state;
    char jobs[200], command[600];
    if (system("parallel --version 2>/dev/null | grep -q GNU") != 0) {
        print_message("skipped: GNU parallel isn't installed\n");
        skip();
    }
    snprintf(jobs, sizeof jobs, "%s", in_folder("jobs"));
    ran r = RUN(GRID, "--cache", in_folder("parallel"), "--opt_level", "1,2", "--jobs", jobs);
    check_ran(&r, 0, "4 jobs");
    ran_free(&r);
    snprintf(command, sizeof command, "parallel --will-cite -j 2 < '%s' > /dev/null 2> '%s.log'", jobs, jobs);
    assert_int_equal(system(command), 0);
    r = RUN(GRID, "--cache", in_folder("parallel"), "--opt_level", "1,2", "--tsv");
    check_ran(&r, 0, "4 points, 4 of them in");
    assert_int_equal(count_lines(r.out), 5);
    ran_free(&r);
}

/* Killed as soon as the first result is there; the same command has it and measures the rest. */
static void a_killed_run_goes_on(void **state) {
    (void)state;
    char command[1200], cache[200];
    snprintf(cache, sizeof cache, "%s", in_folder("killed"));
    snprintf(command, sizeof command,
             "setsid '%s' traffic --model '%s' --max_seq_len 96 --prefill_ar_len 16 --qnn_lib " QNN
             " --opt_level 1,2,3 --attention grouped,per_head --cache '%s' > /dev/null 2>&1 & p=$!; "
             "for i in $(seq 3000); do ls '%s'/results/*.json > /dev/null 2>&1 && break; sleep 0.02; done; "
             "kill -9 -$p",
             SW_PROGRAM, gguf, cache, cache);
    assert_int_equal(system(command), 0);
    ran r = RUN(GRID, "--cache", cache, "--opt_level", "1,2,3", "--attention", "grouped,per_head", "--tsv");
    check_ran(&r, 0, "12 points, ");
    if (strstr(r.err, "12 points, 0 of them") != NULL || strstr(r.err, "12 points, 12 of them") != NULL)
        fail_msg("it wasn't killed in between: %s", r.err);
    assert_int_equal(count_lines(r.out), 13);
    ran_free(&r);
    r = RUN(GRID, "--cache", cache, "--opt_level", "1,2,3", "--attention", "grouped,per_head");
    check_ran(&r, 0, "12 points, 12 of them in");
    ran_free(&r);
}

static void damage(const char *cache, const char *files, const char *text) {
    char command[600];
    snprintf(command, sizeof command, "for f in '%s'/%s; do printf '%s' > $f || exit 1; done",
             in_folder(cache), files, text);
    assert_int_equal(system(command), 0);
}

/* What is damaged in a cache is named and counts as not there. */
static void a_damaged_cache(void **state) {
    (void)state;
    char there[200];
    snprintf(there, sizeof there, "%s", in_folder("there"));
    damage("there", "results/*", "{\"format\": \"spillw");
    ran r = RUN(GRID, "--cache", in_folder("here"), "--opt_level", "2", "--merge", there, "--tsv");
    check_ran(&r, 0, "2 points, 2 of them in"); /* its own are whole */
    if (strstr(r.err, "there/results/") == NULL) fail_msg("not named: %s", r.err);
    ran_free(&r);
    r = RUN(GRID, "--cache", there, "--opt_level", "2", "--merge", in_folder("here"), "--tsv");
    check_ran(&r, 0, "2 points, 2 of them in"); /* taken over in their place */
    ran_free(&r);
    damage("there", "results/*", "{}");
    damage("there", "prepared/*/weights-*", "short"); /* and what every measurement needs */
    r = RUN(GRID, "--cache", there, "--opt_level", "2");
    check_ran(&r, 0, "key `format` is missing: this result counts as not measured");
    if (strstr(r.err, "prepared again") == NULL) fail_msg("not prepared again: %s", r.err);
    ran_free(&r);
    r = RUN(GRID, "--cache", there, "--opt_level", "2");
    check_ran(&r, 0, "2 points, 2 of them in");
    ran_free(&r);
}

/* Levels and forms that --tune may try, and what it tells of them. */
static json_t *tried_by_tune(const char *model, const char *bundle, unsigned n, unsigned level) {
    ran r = RUN("compile", "--tune", "-m", "SM8750", "--max_seq_len", "96", "--prefill_ar_len", "16",
                "--qnn_lib", QNN, "--model", model, "--artifact", bundle, "--cache", in_folder("tuned"));
    check_ran(&r, 0, "--tune: kv_forward: O");
    assert_non_null(strstr(r.err, "<- taken")); /* the table of what was tried */
    assert_non_null(strstr(r.err, "MB a token"));
    assert_int_equal(r.out_size, 0);
    ran_free(&r);
    r = RUN("inspect", bundle, "--json");
    check_ran(&r, 0, NULL);
    json_t *document = json_loads(r.out, 0, NULL);
    assert_non_null(document);
    ran_free(&r);
    json_t *tuning = json_object_get(document, "tuning");
    assert_int_equal(json_array_size(json_object_get(tuning, "tried")), n);
    assert_int_equal(json_array_size(json_object_get(tuning, "levels")), level);
    r = RUN("inspect", bundle);
    check_ran(&r, 0, NULL);
    assert_non_null(strstr(r.out, "tuned: "));
    ran_free(&r);
    return document;
}

/* Bytes a token of the level: each graph in its best form, by its AR length; the points are traffic's. */
static double bytes_a_token(const json_t *points, uint64_t level) {
    static const struct {
        const char *graph;
        double ar_len;
    } kinds[] = {{"prefill_forward", 16}, {"kv_forward", 1}};
    double sum = 0;
    for (size_t k = 0; k < 2; k++) {
        uint64_t least = UINT64_MAX;
        for (size_t i = 0; i < json_array_size(points); i++) {
            const json_t *p = json_array_get(points, i);
            if (strcmp(json_string_value(json_object_get(p, "graph")), kinds[k].graph) != 0 ||
                (uint64_t)json_integer_value(json_object_get(p, "opt_level")) != level)
                continue;
            uint64_t moved = figure(points, i, "read") + figure(points, i, "write");
            if (moved < least) least = moved;
        }
        sum += (double)least / kinds[k].ar_len;
    }
    return sum;
}

/* The figures are those that traffic has for the same levels and forms, and the least of them is in the
 * bundle; of equals, level 3. */
static void tune_takes_the_least(void **state) {
    (void)state;
    char bundle[128];
    snprintf(bundle, sizeof bundle, "%s", in_folder("tuned_bundle"));
    ran r = RUN(GRID, "--cache", in_folder("tuned"), "--attention", "grouped,per_kv_head,per_head",
                "--opt_level", "1,2,3", "--json");
    check_ran(&r, 0, "18/18");
    json_t *points = points_of(&r);
    ran_free(&r);
    json_t *document = tried_by_tune(gguf, bundle, 18, 3);
    uint64_t best = 3;
    for (uint64_t level = 2; level >= 1; level--)
        if (bytes_a_token(points, level) < bytes_a_token(points, best)) best = level;
    assert_int_equal(json_integer_value(json_object_get(document, "opt_level")), best);
    const json_t *levels = json_object_get(json_object_get(document, "tuning"), "levels"), *level;
    size_t i;
    json_array_foreach(levels, i, level) {
        uint64_t number = (uint64_t)json_integer_value(json_object_get(level, "opt_level"));
        double said = (double)json_integer_value(json_object_get(level, "bytes_a_token"));
        double wanted = bytes_a_token(points, number);
        if (said < wanted - 1 || said > wanted) fail_msg("O%d: %.0f, wanted %.0f", (int)number, said, wanted);
        assert_int_equal(json_is_true(json_object_get(level, "chosen")), number == best);
    }
    const json_t *graphs = json_object_get(document, "graphs"), *graph;
    json_array_foreach(graphs, i, graph) {
        uint64_t least = UINT64_MAX, taken = 0;
        for (size_t k = 0; k < json_array_size(points); k++) {
            const json_t *p = json_array_get(points, k);
            if (strcmp(json_string_value(json_object_get(p, "graph")),
                       json_string_value(json_object_get(graph, "name"))) != 0 ||
                (uint64_t)json_integer_value(json_object_get(p, "opt_level")) != best)
                continue;
            uint64_t moved = figure(points, k, "read") + figure(points, k, "write");
            if (moved < least) least = moved;
            if (strcmp(json_string_value(json_object_get(p, "attention")),
                       json_string_value(json_object_get(graph, "attention"))) == 0)
                taken = moved;
        }
        assert_int_equal(taken, least);
    }
    json_decref(document);
    json_decref(points);

    /* In two shards: by the layers of one. */
    r = RUN("compile", "--tune", "--num_sharding", "2", "-m", "SM8750", "--max_seq_len", "96",
            "--prefill_ar_len", "16", "--attention", "grouped", "--opt_level", "2", "--qnn_lib", QNN,
            "--model", gguf, "--artifact", bundle, "--cache", in_folder("tuned"));
    check_ran(&r, 0, "--tune: kv_forward: O2");
    ran_free(&r);
    r = RUN("inspect", bundle, "--json");
    check_ran(&r, 0, NULL);
    document = json_loads(r.out, 0, NULL);
    assert_non_null(document);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(document, "tuning"), "layers")), 1);
    assert_int_equal(json_array_size(json_object_get(json_object_get(document, "tuning"), "tried")), 2);
    json_decref(document);
    ran_free(&r);
}

/* 32 heads: one attention a head has more pieces than can be joined, so that form is left out. */
static void tune_leaves_out_what_cant_be_built(void **state) {
    (void)state;
    char model[128];
    snprintf(model, sizeof model, "%s", in_folder("heads.gguf"));
    random_gguf_write(model, &(sw_hparams){.n_layers = 1,
                                           .hidden = 256,
                                           .ffn = 256,
                                           .n_heads = 32,
                                           .n_kv_heads = 8,
                                           .head_dim = 8,
                                           .vocab = 512,
                                           .context_max = 256,
                                           .tied_embeddings = true});
    json_decref(tried_by_tune(model, in_folder("heads_bundle"), 12, 3));
}

int main(void) {
    if (access(QNN "/libQnnHtp.so", R_OK) != 0) {
        print_message("skipped: Qualcomm's library isn't in " QNN "\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_compile),       cmocka_unit_test(tune_takes_the_least),
        cmocka_unit_test(tune_leaves_out_what_cant_be_built), cmocka_unit_test(a_run_goes_on),
        cmocka_unit_test(a_slurm_task_and_a_merge),           cmocka_unit_test(a_damaged_cache),
        cmocka_unit_test(gnu_parallel_runs_the_jobs),         cmocka_unit_test(a_killed_run_goes_on),
    };
    return cmocka_run_group_tests(tests, set_up, remove_folder);
}
