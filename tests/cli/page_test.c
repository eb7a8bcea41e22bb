/* The report: every figure is that of `inspect --json --tensors`, as a value and as the text that is read;
 * the charts have every block; the page needs no network and, where Chromium is, opens without overflowing.
 */
#include <jansson.h>
#include <math.h>

#include "cli/run_program.h"
#include "cli/tiny_bundle.h"

static char bundle[128], page_path[128];
static char *page;
static json_t *data;

/* What a graph may use of VTCM, as if a smaller one had been asked for; and what --tune tried: one that
 * compiles and one that doesn't. */
static void set_vtcm(const char *folder_path, json_int_t vtcm_bytes) {
    char path[200];
    snprintf(path, sizeof path, "%s/manifest.json", folder_path);
    json_t *m = json_load_file(path, 0, NULL);
    assert_non_null(m);
    json_object_set_new(json_array_get(json_object_get(m, "graphs"), 0), "vtcm_bytes",
                        json_integer(vtcm_bytes));
    json_t *tuning =
        json_pack("{s:[{s:i, s:I, s:b}], s:[{s:s, s:i, s:s, s:b, s:i, s:i, s:i, s:i, s:i},"
                  "{s:s, s:i, s:s, s:b, s:n}]}",
                  "levels", "opt_level", 1, "bytes_a_token", (json_int_t)140351456, "chosen", 1, "tried",
                  "graph", "kv_forward", "opt_level", 1, "attention", "grouped", "chosen", 1,
                  "spill_fill_bytes", 0, "spill", 0, "fill", 0, "write", 282624, "read", 140068864, "graph",
                  "kv_forward", "opt_level", 3, "attention", "per_head", "chosen", 0, "read");
    assert_non_null(tuning);
    json_object_set_new(m, "tuning", tuning);
    assert_int_equal(json_dump_file(m, path, JSON_INDENT(2)), 0);
    json_decref(m);
}

static void make_page(void) {
    free(page), json_decref(data);
    ran r = RUN("inspect", bundle, "--report", page_path);
    check_ran(&r, 0, NULL);
    assert_int_equal(r.out_size, 0);
    ran_free(&r);
    r = RUN("inspect", bundle, "--json", "--tensors");
    check_ran(&r, 0, NULL);
    data = json_loadb(r.out, r.out_size, 0, NULL);
    assert_non_null(data);
    ran_free(&r);
    FILE *f = fopen(page_path, "rb");
    assert_non_null(f);
    size_t size;
    page = run_read_back(f, &size);
}

static int set_up(void **state) {
    bytes b = {0};
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    const char *gguf = write_file("tiny.gguf", b.data, b.size);
    free(b.data);
    snprintf(bundle, sizeof bundle, "%s", in_folder("bundle"));
    snprintf(page_path, sizeof page_path, "%s", in_folder("page.html"));
    tiny_bundle_write(gguf, bundle, NULL);
    make_page();
    return 0;
}

static int tear_down(void **state) {
    free(page), json_decref(data);
    return remove_folder(state);
}

static const json_t *find(const char *path) {
    const json_t *at = data;
    char word[200];
    while (*path != '\0') {
        size_t n = strcspn(path, ".");
        memcpy(word, path, n), word[n] = '\0';
        at = json_is_array(at) ? json_array_get(at, strtoul(word, NULL, 10)) : json_object_get(at, word);
        path += n + (path[n] == '.');
    }
    return at;
}

static size_t count(const char *text) {
    size_t n = 0;
    for (const char *at = page; (at = strstr(at, text)) != NULL; at++) n++;
    return n;
}

/* Is the text, "140.1 MB" or "12.3 %", that number, as far as its digits go? */
static bool reads_as(const char *text, double value) {
    char *unit;
    double shown = strtod(text, &unit), factor = 1;
    const char *dot = strchr(text, '.');
    double step = dot != NULL && dot < unit ? pow(10, -(double)(unit - dot - 1)) : 1;
    if (strcmp(unit, " MB") == 0)
        factor = fabs(value / 1048576 - shown) < fabs(value / 1e6 - shown) ? 1048576 : 1e6;
    else if (strcmp(unit, " kB") == 0)
        factor = 1e3;
    else if (strcmp(unit, " %") == 0)
        factor = 0.01;
    if (strchr(text, 'e') != NULL) step = fabs(shown) * 1e-4;
    double error = fabs(value / factor - shown), thousandth = fabs(value * 1000 - shown);
    return error <= 0.51 * step || error <= 1e-4 * fabs(shown) || thousandth <= 0.51 * step;
}

static void figures_are_the_json(void **state) {
    (void)state;
    size_t n = 0;
    for (const char *at = page; (at = strstr(at, "<data value=\"")) != NULL; n++) {
        char value[64], path[200], text[64];
        if (sscanf(at, "<data value=\"%63[^\"]\" data-path=\"%199[^\"]\">%63[^<]</data>", value, path,
                   text) != 3)
            fail_msg("%.120s", at);
        const json_t *wanted = find(path);
        if (!json_is_number(wanted)) fail_msg("%s is no number of the JSON", path);
        double v = strtod(value, NULL), w = json_number_value(wanted);
        if (fabs(v - w) > 1e-8 * fabs(w)) fail_msg("%s: %s, the JSON has %.9g", path, value, w);
        if (!reads_as(text, v)) fail_msg("%s: %s is shown as %s", path, value, text);
        at++;
    }
    assert_true(n > 300);
    /* None is left out: of each graph, and of each layer. */
    static const char *const wanted[] = {"memory.graphs.%d.activation_bytes",
                                         "memory.graphs.%d.placed_bytes",
                                         "memory.graphs.%d.vtcm_bytes",
                                         "memory.graphs.%d.weight_bytes",
                                         "memory.graphs.%d.least_ddr_bytes",
                                         "graphs.%d.ar_len",
                                         "layers.%d.weight_bytes",
                                         "layers.%d.weights.0.bytes",
                                         "layers.%d.activations.0.scale",
                                         "parts.%d.bytes"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        for (int k = 0; k < 2; k++) {
            char path[100], text[120];
            snprintf(path, sizeof path, wanted[i], k);
            snprintf(text, sizeof text, "data-path=\"%s\"", path);
            if (strstr(page, text) == NULL) fail_msg("%s is not in the page", path);
        }
}

static void charts_have_every_block(void **state) {
    (void)state;
    size_t blocks = 0, in_layers = 0;
    for (size_t g = 0; g < 2; g++) {
        const json_t *list = json_object_get(json_array_get(find("memory.graphs"), g), "blocks"), *b;
        json_int_t peak = 0, most = 0;
        size_t i, k;
        json_array_foreach(list, i, b) {
            json_int_t first = json_integer_value(json_object_get(b, "first_op"));
            json_int_t offset = json_integer_value(json_object_get(b, "offset"));
            json_int_t end = offset + json_integer_value(json_object_get(b, "bytes")), alive = 0;
            const json_t *c;
            if (end > most) most = end;
            json_array_foreach(list, k, c) {
                if (json_integer_value(json_object_get(c, "first_op")) > first ||
                    json_integer_value(json_object_get(c, "last_op")) < first)
                    continue;
                json_int_t from = json_integer_value(json_object_get(c, "offset"));
                json_int_t size = json_integer_value(json_object_get(c, "bytes"));
                alive += size;
                assert_true(i == k || from + size <= offset || from >= end); /* none in another's place */
            }
            if (alive > peak) peak = alive;
        }
        char path[64];
        snprintf(path, sizeof path, "memory.graphs.%zu.activation_bytes", g);
        assert_int_equal(peak, json_integer_value(find(path)));
        snprintf(path, sizeof path, "memory.graphs.%zu.placed_bytes", g);
        assert_int_equal(most, json_integer_value(find(path)));
        blocks += json_array_size(list);
        in_layers += json_array_size(list) / 3;
    }
    assert_true(count("<rect class=\"block ") >=
                blocks + in_layers / 2); /* all of them, and a layer's again */
    assert_int_equal(count("class=lifetimes"), 4);
    assert_int_equal(count("<line class=limit"), 4);
    assert_int_equal(count("class=traffic"), 2);
    assert_int_equal(count("class=ops"), 2);
    assert_int_equal(count("\"block spill\""), 0);
}

static void what_is_beyond_vtcm_is_marked(void **state) {
    (void)state;
    set_vtcm(bundle, 8192);
    make_page();
    json_int_t over = json_integer_value(find("memory.graphs.0.blocks_over_vtcm"));
    assert_true(over > 0);
    assert_true(count("\"block spill\"") >= (size_t)over);
    assert_non_null(strstr(page, "lie above the line"));
    figures_are_the_json(state);
    set_vtcm(bundle, 0);
    make_page();
}

static void it_needs_no_network(void **state) {
    (void)state;
    static const char *const never[] = {"<script", "<link", "<img", "<iframe", " src=", "url(", "@import"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (strstr(page, never[i]) != NULL) fail_msg("`%s` is in the page", never[i]);
    assert_int_equal(count("href="), count("href=#"));
    assert_int_equal(strncmp(page, "<!doctype html>", 15), 0);
    static const char *const pairs[] = {"svg", "table", "figure", "details", "h2", "h3", "title", "div"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char open[16], more[16], close[16];
        snprintf(open, sizeof open, "<%s>", pairs[i]), snprintf(more, sizeof more, "<%s ", pairs[i]);
        snprintf(close, sizeof close, "</%s>", pairs[i]);
        if (count(open) + count(more) != count(close)) fail_msg("%s isn't closed", pairs[i]);
    }
}

static void what_is_refused(void **state) {
    (void)state;
    REFUSED(1, "/nowhere", "inspect", bundle, "--report", "/nowhere/at/all.html");
    REFUSED(2, "--report", "inspect", in_folder("tiny.gguf"), "--report", page_path);
    REFUSED(1, "/nowhere", "compile", "-m", "SM8750", "--model", in_folder("tiny.gguf"), "--report",
            "/nowhere/at/all.html", "--artifact", in_folder("never"));
    assert_int_not_equal(access(in_folder("never"), F_OK), 0);
    REFUSED(2, "inspect", "llama", "--pre_gen_bundle", bundle, "--prompt", "a", "--report", page_path);
}

/* A script that only this copy has writes down what the browser made of the page. */
static void it_opens_in_a_browser(void **state) {
    (void)state;
    static const char script[] =
        "<script>document.title='w'+document.documentElement.scrollWidth+' s'+[...document.querySelectorAll("
        "'svg')].filter(s=>s.getBoundingClientRect().height>40).length+' h'+document.querySelectorAll('h2')."
        "length</script>";
    if (system("command -v chromium >/dev/null 2>&1") != 0) {
        printf("skipped: chromium isn't installed\n");
        skip();
    }
    FILE *f = fopen(in_folder("copy.html"), "wb");
    assert_non_null(f);
    fprintf(f, "%s%s", page, script);
    fclose(f);
    for (int i = 0; i < 2; i++) {
        int wide = i == 0 ? 1200 : 500;
        char command[1000];
        snprintf(
            command, sizeof command,
            "chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir=%s/chrome "
            "--window-size=%d,900 --dump-dom 'file://%s/copy.html' 2>/dev/null",
            folder, wide, folder);
        FILE *pipe = popen(command, "r");
        assert_non_null(pipe);
        static char dom[4 << 20];
        size_t n = fread(dom, 1, sizeof dom - 1, pipe);
        dom[n] = '\0';
        if (pclose(pipe) != 0 || n == 0) fail_msg("chromium gave %zu bytes", n);
        int width = 0, charts = 0, sections = 0;
        const char *title = strstr(dom, "<title>w");
        if (title == NULL || sscanf(title, "<title>w%d s%d h%d", &width, &charts, &sections) != 3)
            fail_msg("%.200s", dom);
        if (width > wide) fail_msg("the page is %d wide in a window of %d", width, wide);
        assert_int_equal(charts, 4 + 2 + 2 + 1); /* lifetimes, traffic, ops, layers */
        assert_int_equal(sections, 6);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(figures_are_the_json),
                                       cmocka_unit_test(charts_have_every_block),
                                       cmocka_unit_test(what_is_beyond_vtcm_is_marked),
                                       cmocka_unit_test(it_needs_no_network),
                                       cmocka_unit_test(what_is_refused),
                                       cmocka_unit_test(it_opens_in_a_browser)};
    return cmocka_run_group_tests_name("report", tests, set_up, tear_down);
}
