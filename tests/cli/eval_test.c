/* `spillway eval` on the tiny model: its figures against the same numbers computed here another way, token by
 * token through a KV cache, in double. */
#include <jansson.h>
#include <math.h>

#include "cli/random_gguf.h"
#include "cli/run_program.h"
#include "cli/sqnr.h"
#include "cli/tiny_gguf.h"
#include "cpu/cpu.h"
#include "runtime/load_tokenizer.h"
#include "runtime/session.h"

static char gguf[128], text[128];
static char content[1200]; /* of the text; ASCII */
static sw_error err;
static sw_model model;
static sw_tokenizer *tokenizer;
static sw_device *cpu;

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static void near(double a, double b, double most) {
    if (!(fabs(a - b) <= most)) fail_msg("%.17g, wanted %.17g, at most %g from it", a, b, most);
}

/* Words that mean nothing, 53 of them again and again in a changing order. */
static void fill_content(void) {
    size_t n = 0;
    for (unsigned i = 0; n + 8 < sizeof content; i++) {
        unsigned x = i * i * 7 + i % 53 * 31;
        n += (size_t)snprintf(content + n, sizeof content - n, "%c%c%c%c ", 'a' + x % 26, 'e' + x % 7,
                              'A' + x % 23, '0' + x % 10);
    }
}

static int set_up(void **state) {
    bytes b = {0};
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    snprintf(gguf, sizeof gguf, "%s", write_file("tiny.gguf", b.data, b.size));
    free(b.data);
    fill_content();
    snprintf(text, sizeof text, "%s", write_file("text.txt", content, strlen(content)));
    if (sw_model_open(&model, gguf, &err) != SW_OK) return -1;
    if (sw_tokenizer_from_gguf(&tokenizer, model.gguf, &err) != SW_OK) return -1;
    return sw_cpu_device_create(&cpu, NULL, &err) == SW_OK ? 0 : -1;
}

static int tear_down(void **state) {
    cpu->ops->destroy(cpu);
    sw_tokenizer_destroy(tokenizer);
    sw_model_close(&model);
    return remove_folder(state);
}

static json_t *read_json(const ran *r) {
    json_error_t where;
    check_ran(r, 0, NULL);
    json_t *all = json_loads(r->out, 0, &where);
    if (all == NULL) fail_msg("stdout is no JSON: %s: %s", where.text, r->out);
    return all;
}

static json_t *recipe_of(const json_t *all, size_t i) {
    json_t *r = json_array_get(json_object_get(all, "recipes"), i);
    assert_non_null(r);
    return r;
}

static double real(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("no number `%s`", key);
    return json_number_value(value);
}

/* -ln of the probability that the float model gives to ids[from..n), each after all before it. */
static double surprise(const int32_t *ids, size_t n, size_t from) {
    static float logits[N_VOCAB];
    const sw_graph_options graph = {"kv_forward", 1, SW_ATTENTION_PER_KV_HEAD, SW_HEAD_LAST};
    sw_decoder d;
    sw_session *s;
    double sum = 0;
    OK(sw_decoder_build(&d, &model, (uint32_t)n, &graph, 1, &err));
    OK(sw_session_create(&s, &d, cpu, &err));
    for (size_t t = 0; t + 1 < n; t++) {
        OK(sw_session_feed(s, ids + t, 1, logits, NULL, &err));
        if (t + 1 < from) continue;
        double all = 0;
        for (int i = 0; i < N_VOCAB; i++) all += exp((double)logits[i]);
        sum += log(all) - (double)logits[ids[t + 1]];
    }
    sw_session_destroy(s);
    sw_decoder_free(&d);
    return sum;
}

/* Perplexity over the first windows, positions of the second half: what the predicted tokens n/2 + 1 .. n - 1
 * got. */
static double wanted_perplexity(uint32_t context, uint32_t windows) {
    sw_ids ids = {0};
    double sum = 0;
    OK(sw_tokenizer_encode(tokenizer, sw_span_of(content), SW_ENCODE_PLAIN, &ids, &err));
    for (uint32_t w = 0; w < windows; w++) sum += surprise(ids.data + w * context, context, context / 2 + 1);
    sw_ids_free(&ids);
    return exp(sum / (windows * (context - 1 - context / 2)));
}

static void perplexity_is_the_one_computed_here(void **state) {
    (void)state;
    sw_ids ids = {0};
    OK(sw_tokenizer_encode(tokenizer, sw_span_of(content), SW_ENCODE_PLAIN, &ids, &err));
    static const char *const contexts[] = {"16", "33", "128"};
    for (int i = 0; i < 3; i++) {
        uint32_t context = (uint32_t)atoi(contexts[i]), windows = (uint32_t)ids.count / context;
        ran r = RUN("eval", "--model", gguf, "--text", text, "--context", contexts[i], "--quant", "f32",
                    "--json");
        json_t *all = read_json(&r), *f32 = recipe_of(all, 0);
        assert_int_equal(real(all, "windows"), windows);
        assert_int_equal(real(all, "first_position"), context / 2);
        assert_int_equal(real(f32, "positions"), windows * (context - 1 - context / 2));
        double wanted = wanted_perplexity(context, windows);
        near(real(f32, "perplexity") / wanted, 1, 1e-5);
        json_decref(all);
        ran_free(&r);
    }
    sw_ids_free(&ids);
    ran r = RUN("eval", "--model", gguf, "--text", text, "--context", "128", "--quant", "f32", "--json",
                "--chunks", "1");
    json_t *all = read_json(&r);
    assert_int_equal(real(recipe_of(all, 0), "positions"), 63);
    near(real(recipe_of(all, 0), "perplexity") / wanted_perplexity(128, 1), 1, 1e-5);
    json_decref(all);
    ran_free(&r);
}

static void quantized_ones_are_near_f32(void **state) {
    (void)state;
    ran r = RUN("eval", "--model", gguf, "--text", text, "--context", "64", "--quant", "16a8w,f32,8a8w,f16",
                "--json");
    json_t *all = read_json(&r);
    static const struct { double ratio, least_db; } bounds[] = {{0.02, 25}, {0, 0}, {0.2, 8}, {0.001, 45}};
    for (size_t i = 0; i < 4; i++) {
        if (i == 1) continue; /* f32, wherever it stands */
        json_t *one = recipe_of(all, i);
        near(real(one, "perplexity_ratio"), 1, bounds[i].ratio);
        assert_true(real(one, "logits_sqnr_db") > bounds[i].least_db);
        assert_true(real(one, "mean_kl") > 0);
        assert_true(real(one, "top1_same") > 0.5 * real(one, "positions"));
        near(real(one, "perplexity_ratio"), real(one, "perplexity") / real(recipe_of(all, 1), "perplexity"),
             1e-6);
    }
    assert_null(json_object_get(recipe_of(all, 1), "mean_kl"));
    assert_true(real(recipe_of(all, 0), "mean_kl") < real(recipe_of(all, 2), "mean_kl"));
    json_decref(all);
    ran_free(&r);
    /* As a table, and without f32 there is nothing to compare with. */
    r = RUN("eval", "--model", gguf, "--text", text, "--context", "64", "--quant", "f16");
    check_ran(&r, 0, NULL);
    assert_non_null(strstr(r.out, "f16"));
    assert_null(strstr(r.out, "dB\n"));
    ran_free(&r);
}

static size_t lines_of(const char *path) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = 0;
    for (int c; (c = getc(f)) != EOF;) n += c == '\n';
    fclose(f);
    return n;
}

static void check_same_figures(const json_t *a, const json_t *b) {
    static const char *const keys[] = {"perplexity", "perplexity_error", "positions",
                                       "top1_same",  "mean_kl",          "logits_sqnr_db"};
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < (i == 0 ? 3u : 6u); k++)
            near(real(recipe_of(a, i), keys[k]), real(recipe_of(b, i), keys[k]), 0);
}

#define EVAL(record, chunks, ...)                                                                            \
    RUN("eval", "--model", gguf, "--context", "64", "--json", "--resume", record, "--chunks", chunks,        \
        __VA_ARGS__)

/* Cut off in the middle of a window and of a line, a second run does what is missing and comes to the same.
 */
static void a_run_goes_on(void **state) {
    (void)state;
    char record[200];
    snprintf(record, sizeof record, "%s", in_folder("record.jsonl"));
    ran whole = RUN("eval", "--model", gguf, "--text", text, "--context", "64", "--json", "--chunks", "5");
    json_t *wanted = read_json(&whole);
    ran first = EVAL(record, "3", "--text", text);
    check_ran(&first, 0, NULL);
    assert_int_equal(lines_of(record), 6);
    ran_free(&first);
    /* The last line, 16a8w's third window, loses its end. */
    struct stat st;
    assert_int_equal(stat(record, &st), 0);
    assert_int_equal(truncate(record, st.st_size - 10), 0);
    ran rest = EVAL(record, "5", "--text", text);
    json_t *got = read_json(&rest);
    check_same_figures(got, wanted);
    assert_int_equal(real(recipe_of(got, 0), "windows_run"), 3); /* once more for the third window's logits */
    assert_int_equal(real(recipe_of(got, 1), "windows_run"), 3);
    assert_int_equal(lines_of(record), 10);
    json_decref(got);
    ran_free(&rest);
    /* Nothing is left to do: no calibration either. */
    ran again = EVAL(record, "5", "--text", text);
    got = read_json(&again);
    check_same_figures(got, wanted);
    assert_int_equal(real(recipe_of(got, 0), "windows_run"), 0);
    assert_int_equal(real(recipe_of(got, 1), "windows_run"), 0);
    assert_int_equal(again.err_size, 0);
    json_decref(got);
    ran_free(&again);
    /* Another text or calibration is another measurement. */
    const char *other = write_file("other.txt", content + 5, strlen(content) - 5);
    ran r = EVAL(record, "1", "--text", other);
    got = read_json(&r);
    assert_int_equal(real(recipe_of(got, 0), "windows_run"), 1);
    json_decref(got);
    ran_free(&r);
    r = EVAL(record, "1", "--text", text, "--calib_samples", "2");
    got = read_json(&r);
    assert_int_equal(real(recipe_of(got, 1), "windows_run"), 1);
    json_decref(got);
    ran_free(&r);
    json_decref(wanted);
    ran_free(&whole);
}

/* A recipe file counts by what it holds, not by its name. */
static void a_changed_recipe_is_another(void **state) {
    (void)state;
    static const char *const contents[] = {"{}", "{}", "{\"base\": \"8a8w\"}"};
    double perplexity[3];
    for (int i = 0; i < 3; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s", write_file("mine.json", contents[i], strlen(contents[i])));
        ran r = EVAL(in_folder("recipes.jsonl"), "1", "--text", text, "--quant", path);
        json_t *all = read_json(&r);
        assert_int_equal(real(recipe_of(all, 0), "windows_run"), i == 1 ? 0 : 1);
        perplexity[i] = real(recipe_of(all, 0), "perplexity");
        json_decref(all);
        ran_free(&r);
    }
    near(perplexity[0], perplexity[1], 0);
    assert_true(fabs(perplexity[2] / perplexity[0] - 1) > 1e-4);
}

static void records_of_others_are_left_alone(void **state) {
    (void)state;
    static const char *const contents[] = {
        "hello\n",    "hello",
        "{\"a\": 1}", "{\"kind\":\"window\"}\n",
        "[]\n",       "{\"kind\":\"window\",\"recipe\":\"f32\",\"number\":-1,\"of\":\"a\",\"values\":{}}\n"};
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        const char *path = write_file("not_ours", contents[i], strlen(contents[i]));
        ran r = RUN("eval", "--model", gguf, "--text", text, "--context", "64", "--resume", path);
        check_refused(&r, 1, "line 1");
        ran_free(&r);
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_size, strlen(contents[i]));
    }
    REFUSED(1, folder, "eval", "--model", gguf, "--text", text, "--context", "64", "--resume", folder);
    REFUSED(1, "/nowhere", "eval", "--model", gguf, "--text", text, "--context", "64", "--resume",
            "/nowhere/x");
}

/* Mean -ln-probability of a token of the choice. The byte vocabulary has no token over a space, so the
 * choice's ids are those of its own text with the space before it. */
static double choice_score(const char *context, const char *choice) {
    sw_ids ids = {0};
    OK(sw_tokenizer_encode(tokenizer, sw_span_of(context), SW_ENCODE_PLAIN, &ids, &err));
    size_t begin = ids.count;
    char spaced[400];
    snprintf(spaced, sizeof spaced, " %s", choice);
    OK(sw_tokenizer_encode(tokenizer, sw_span_of(spaced), SW_ENCODE_PLAIN, &ids, &err));
    double mean = surprise(ids.data, ids.count, begin) / (double)(ids.count - begin);
    sw_ids_free(&ids);
    return mean;
}

static void tasks_are_scored_by_the_mean(void **state) {
    (void)state;
    const char *record = in_folder("tasks_record.jsonl");
    ran r = RUN("eval", "--model", gguf, "--tasks", SW_TEST_DATA "/tasks.jsonl", "--quant", "f32", "--json",
                "--resume", record);
    json_t *all = read_json(&r);
    assert_int_equal(real(all, "tasks"), 20);
    FILE *tasks = fopen(SW_TEST_DATA "/tasks.jsonl", "r"), *results = fopen(record, "r");
    assert_non_null(tasks);
    assert_non_null(results);
    unsigned right = 0;
    for (int t = 0; t < 20; t++) {
        json_error_t where;
        json_t *task = json_loadf(tasks, JSON_DISABLE_EOF_CHECK, &where);
        json_t *result = json_loadf(results, JSON_DISABLE_EOF_CHECK, &where);
        assert_non_null(task);
        assert_non_null(result);
        const json_t *scores = json_object_get(json_object_get(result, "values"), "scores");
        assert_int_equal(json_array_size(scores), 4);
        double best = INFINITY;
        int chosen = -1;
        for (int c = 0; c < 4; c++) {
            double score =
                choice_score(json_string_value(json_object_get(task, "context")),
                             json_string_value(json_array_get(json_object_get(task, "choices"), (size_t)c)));
            near(-json_real_value(json_array_get(scores, (size_t)c)), score, 1e-4);
            if (score < best) best = score, chosen = c;
        }
        right += chosen == (int)json_integer_value(json_object_get(task, "answer"));
        json_decref(task), json_decref(result);
    }
    assert_int_equal(real(recipe_of(all, 0), "tasks_right"), right);
    fclose(tasks), fclose(results);
    json_decref(all);
    ran_free(&r);
    /* The answers are remembered. */
    r = RUN("eval", "--model", gguf, "--tasks", SW_TEST_DATA "/tasks.jsonl", "--quant", "f32,16a8w",
            "--resume", record);
    check_ran(&r, 0, NULL);
    assert_int_equal(lines_of(record), 40);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "f32        %u of 20 right", right);
    if (strstr(r.out, wanted) == NULL) fail_msg("stdout lacks `%s`: %s", wanted, r.out);
    ran_free(&r);
}

static void malformed_tasks(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"", "no task"},
        {"\n \n", "no task"},
        {"{", "line 1"},
        {"\n[]", "line 2"},
        {"{\"context\": \"a\", \"choices\": [\"b\", \"c\"]}", "answer"},
        {"{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 2}", "$.answer"},
        {"{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": -1}", "$.answer"},
        {"{\"context\": \"a\", \"choices\": [\"b\"], \"answer\": 0}", "2 to 16"},
        {"{\"context\": \"a\", \"choices\": [\"b\", \"\"], \"answer\": 0}", "$.choices[1]"},
        {"{\"context\": \"a\", \"choices\": [\"b\", 3], \"answer\": 0}", "$.choices[1]"},
        {"{\"context\": \"\", \"choices\": [\"b\", \"c\"], \"answer\": 0}", "$.context"},
        {"{\"choices\": [\"b\", \"c\"], \"answer\": 0}", "context"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *path = write_file("bad_tasks", rows[i][0], strlen(rows[i][0]));
        REFUSED(1, rows[i][1], "eval", "--model", gguf, "--tasks", path);
    }
    char longer[700];
    memset(longer, 'x', sizeof longer);
    int n = snprintf(longer, sizeof longer, "{\"context\": \"a\", \"choices\": [\"b\", \"");
    longer[n] = 'x';
    snprintf(longer + 400, 300, "\"], \"answer\": 0}");
    REFUSED(1, "limit is 256", "eval", "--model", gguf, "--tasks",
            write_file("long", longer, strlen(longer)));
}

static void tensors_by_damage(void **state) {
    (void)state;
    char plot[200];
    snprintf(plot, sizeof plot, "%s", in_folder("it's a plot.svg"));
    ran r = RUN("eval", "--model", gguf, "--text", text, "--context", "64", "--quant", "f32,16a8w", "--sqnr",
                "--json");
    json_t *all = read_json(&r);
    const json_t *list = json_object_get(recipe_of(all, 1), "tensors");
    assert_null(json_object_get(recipe_of(all, 0), "tensors"));
    size_t i, found = 0;
    double last = -INFINITY;
    json_t *tensor;
    assert_true(json_array_size(list) > 30);
    json_array_foreach(list, i, tensor) {
        const char *name = json_string_value(json_object_get(tensor, "name"));
        double db = real(tensor, "sqnr_db");
        assert_true(db >= last);
        last = db;
        assert_true(real(tensor, "own_db") > 30); /* 16 bits hold 30 dB of anything calibrated; KV's 8 too */
        assert_null(strstr(name, "scores"));
        assert_null(strstr(name, "mask"));
        found += strcmp(name, "hidden_in") == 0 || strcmp(name, "layer_1.k_new") == 0 ||
                 strcmp(name, "logits") == 0;
        if (strcmp(name, "hidden_in") == 0) near(db, 43, 7); /* 8-bit rows */
    }
    assert_int_equal(found, 3);
    json_decref(all);
    ran_free(&r);
    /* The picture, where gnuplot is. */
    r = RUN("eval", "--model", gguf, "--quant", "f32,16a8w", "--plot", plot);
    if (r.status != 0) {
        check_ran(&r, 1, "gnuplot isn't installed");
    } else {
        FILE *f = fopen(plot, "r");
        assert_non_null(f);
        char start[400] = "";
        assert_true(fread(start, 1, sizeof start - 1, f) > 100);
        assert_non_null(strstr(start, "<svg"));
        fclose(f);
        /* A place that can't be written is found before the work. */
        REFUSED(1, "/nowhere/a.svg", "eval", "--model", gguf, "--plot", "/nowhere/a.svg");
        REFUSED(1, "is a folder", "eval", "--model", "/nowhere/model.gguf", "--plot", folder);
    }
    ran_free(&r);
}

/* A decoder against itself has no noise. */
static void no_noise_against_itself(void **state) {
    (void)state;
    int32_t ids[20];
    for (int i = 0; i < 20; i++) ids[i] = i * 11 % N_VOCAB;
    sw_decoder d;
    sw_sqnr_table table;
    OK(sw_window_decoder_build(&d, &model, NULL, 20, &err));
    OK(sw_sqnr_measure(&table, &d, &d, cpu, ids, 20, &err));
    assert_true(table.count > 30);
    for (uint32_t i = 0; i < table.count; i++) {
        near(table.rows[i].sqnr_db, 999, 0);
        near(table.rows[i].own_db, 999, 0);
    }
    sw_sqnr_table_free(&table);
    sw_decoder_free(&d);
}

static void hopeless_calibration_texts(void **state) {
    (void)state;
    char same[600], few[600], chinese[900] = "", script[3 * 300 + 1];
    for (size_t i = 0; i < sizeof same; i++)
        same[i] = "ab "[i % 3], few[i] = "abcdefghijkl"[(i + i / 3) % 12];
    for (int i = 0; i < 100; i++) strcat(chinese, i % 2 == 0 ? "\xe4\xb8\xad" : "\xe6\x96\x87");
    for (int i = 0; i < 300; i++) /* U+4E00 on: a script that the vocabulary spells byte by byte */
        snprintf(script + 3 * i, 4, "%c%c%c", 0xe4, 0xb8 + i / 64, 0x80 + i % 64);
    const struct {
        const char *data;
        size_t size;
        int status;
        const char *says;
    } rows[] = {
        {"", 0, 1, "0 tokens"},
        {" \n\f\n \n", 6, 1, "0 tokens"},
        {" \r\n\t\r\n\f\r\n", 9, 1, "0 tokens"},
        {"\xef\xbb\xbf", 3, 1, "0 tokens"},
        {"\xef\xbb\xbf \r\n", 6, 1, "0 tokens"},
        {"One line.", 9, 1, "8 tokens to calibrate with, wanted at least 32"},
        {same, sizeof same, 1, "the same 3 again and again"},
        {few, sizeof few, 0, "distinct tokens"},
        {"caf\xe9 is Latin-1, and that is no UTF-8 at all, alas", 50, 1, "byte 3 (0xe9) is not UTF-8"},
        {"\xff\xfeO\0n\0e\0", 8, 1, "is UTF-16"},
        {"\xfe\xff\0O\0n\0e", 8, 1, "is UTF-16"},
        {"O\0n\0e", 5, 1, "5 tokens"},
        {"\x89PNG\r\n\x1a\n", 8, 1, "byte 0 (0x89) is not UTF-8"},
        {chinese, strlen(chinese), 1, "again and again"},
        {script, strlen(script), 0, "0.3 characters a token: the vocabulary hardly knows this script"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *path = write_file("calib.txt", rows[i].data, rows[i].size);
        ran r = RUN("eval", "--model", gguf, "--text", text, "--context", "64", "--chunks", "1", "--quant",
                    "16a8w", "--calib_text", path);
        check_ran(&r, rows[i].status, rows[i].says);
        ran_free(&r);
    }
    REFUSED(1, "/nowhere", "eval", "--model", gguf, "--text", text, "--context", "64", "--quant", "8a8w",
            "--calib_text", "/nowhere");
}

/* What eval prints with these texts, without its times. */
static json_t *figures(const char *of, const char *calibration, const char *samples, const char *says) {
    ran r = RUN("eval", "--model", gguf, "--text", of, "--context", "64", "--chunks", "2", "--quant", "8a8w",
                "--json", "--calib_text", calibration, "--calib_samples", samples);
    json_t *all = read_json(&r);
    if (says != NULL && strstr(r.err, says) == NULL) fail_msg("stderr lacks `%s`: %s", says, r.err);
    if (says == NULL && strstr(r.err, "--calib_samples") != NULL) fail_msg("%s", r.err);
    ran_free(&r);
    json_t *figure = json_incref(json_object_get(recipe_of(all, 0), "perplexity"));
    assert_true(json_is_real(figure));
    json_decref(all);
    return figure;
}

/* A byte-order mark and lines that end in CR LF are the editor's, not the text's: neither for what is
 * measured on nor for what calibrates. */
static void editors_leave_no_tokens(void **state) {
    (void)state;
    char plain[2 * sizeof content + 8], other[4 * sizeof content] = "\xef\xbb\xbf";
    size_t n = 3;
    snprintf(plain, sizeof plain, "%s\n\f\n%s", content, content);
    for (char *at = plain; *at != '\0'; at++)
        if (*at == ' ' && (at - plain) % 7 == 0) *at = '\n';
    for (const char *at = plain; *at != '\0'; at++) {
        if (*at == '\n') other[n++] = '\r';
        other[n++] = *at;
    }
    char a[128], b[128];
    snprintf(a, sizeof a, "%s", write_file("plain.txt", plain, strlen(plain)));
    snprintf(b, sizeof b, "%s", write_file("other.txt", other, n));
    json_t *wanted = figures(a, a, "2", NULL), *got = figures(b, b, "2", NULL),
           *more = figures(a, a, "500", "--calib_samples 500, but"), *one = figures(a, a, "1", NULL);
    assert_true(json_equal(wanted, got));
    assert_true(json_equal(wanted, more)); /* more documents than there are */
    assert_false(json_equal(wanted, one));
    json_decref(wanted), json_decref(got), json_decref(more), json_decref(one);
    REFUSED(1, "is not UTF-8", "eval", "--model", gguf, "--context", "64", "--text",
            write_file("latin1", "caf\xe9", 4));
}

static void wrong_use(void **state) {
    (void)state;
    REFUSED(2, "--model", "eval", "--text", text);
    REFUSED(2, "nothing to measure", "eval", "--model", gguf);
    REFUSED(2, "`f33`", "eval", "--model", gguf, "--text", text, "--quant", "f32,f33");
    REFUSED(2, "``", "eval", "--model", gguf, "--text", text, "--quant", "f32,,16a8w");
    REFUSED(2, "comma", "eval", "--model", gguf, "--text", text, "--quant", "f32,");
    REFUSED(2, "byte 1 is", "eval", "--model", gguf, "--text", text, "--quant", "f32,a\xff.json");
    REFUSED(2, "twice", "eval", "--model", gguf, "--text", text, "--quant", "f32,f32");
    REFUSED(2, "8a8w", "eval", "--model", gguf, "--text", text, "--quant", "8a8w", "--kv_bits", "16");
    REFUSED(2, "256 positions", "eval", "--model", gguf, "--text", text, "--context", "257");
    REFUSED(2, "from 4", "eval", "--model", gguf, "--text", text, "--context", "3");
    REFUSED(2, "quantized recipe", "eval", "--model", gguf, "--sqnr", "--quant", "f32");
    REFUSED(1, "at least --context 64", "eval", "--model", gguf, "--text", write_file("short", "abc", 3),
            "--context", "64");
    REFUSED(1, "/nowhere", "eval", "--model", gguf, "--text", "/nowhere", "--context", "64");
    REFUSED(1, "/nowhere", "eval", "--model", gguf, "--tasks", "/nowhere");
}

/* The first token of chats, of a model that has none. */
static void a_sink_needs_chats(void **state) {
    (void)state;
    const sw_hparams h = {.n_layers = 1,
                          .hidden = 64,
                          .n_heads = 2,
                          .n_kv_heads = 1,
                          .head_dim = 32,
                          .ffn = 64,
                          .vocab = 300,
                          .context_max = 128,
                          .tied_embeddings = true};
    const char *path = in_folder("no_chats.gguf");
    random_gguf_write(path, &h);
    ran r = RUN("eval", "--model", path, "--text", text, "--context", "64", "--quant", "8a8w");
    check_ran(&r, 1, "wanted a recipe with \"sink\": false: the model has no chat template");
    ran_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perplexity_is_the_one_computed_here),
        cmocka_unit_test(quantized_ones_are_near_f32),
        cmocka_unit_test(a_run_goes_on),
        cmocka_unit_test(a_changed_recipe_is_another),
        cmocka_unit_test(records_of_others_are_left_alone),
        cmocka_unit_test(tasks_are_scored_by_the_mean),
        cmocka_unit_test(malformed_tasks),
        cmocka_unit_test(tensors_by_damage),
        cmocka_unit_test(no_noise_against_itself),
        cmocka_unit_test(hopeless_calibration_texts),
        cmocka_unit_test(editors_leave_no_tokens),
        cmocka_unit_test(a_sink_needs_chats),
        cmocka_unit_test(wrong_use),
    };
    return cmocka_run_group_tests_name("eval", tests, set_up, tear_down);
}
