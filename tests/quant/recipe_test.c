/* Recipes: what the shipped ones make of a tiny decoder, and recipe files, good and bad. */
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

#include "graph/verify.h"
#include "quant/observe.h"
#include "tiny_model.h"

static sw_error err;
static sw_arena arena;

/* The decode graph of a tiny model, all ranges [-3, 5]. */
typedef struct fixture {
    tiny_model model;
    sw_decoder decoder;
    sw_ranges *ranges;
} fixture;

static void set_up(fixture *f, uint32_t ffn, bool tied) {
    sw_hparams h = tiny_hparams();
    h.ffn = ffn, h.tied_embeddings = tied;
    memset(f, 0, sizeof *f);
    tiny_model_create(&f->model, &h);
    const sw_graph_options graph = {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST};
    assert_int_equal(sw_decoder_build(&f->decoder, &f->model.model, 16, &graph, 1, &err), SW_OK);
    f->ranges = sw_ranges_create();
    const sw_graph *g = f->decoder.graphs[0];
    for (uint32_t i = 0; i < g->n_tensors; i++)
        if (g->tensors[i]->kind != SW_TENSOR_CONSTANT)
            assert_int_equal(sw_ranges_merge(f->ranges, g->tensors[i]->range, (sw_range){-3, 5, 1}, &err),
                             SW_OK);
}

static void tear_down(fixture *f) {
    sw_ranges_free(f->ranges);
    sw_decoder_free(&f->decoder);
    tiny_model_free(&f->model);
}

static sw_code apply(fixture *f, const sw_recipe *recipe) {
    sw_code code = sw_quantize_types(&f->decoder, recipe, f->ranges, &err);
    return code == SW_OK ? sw_decoder_verify(&f->decoder, &err) : code;
}

static const sw_tensor *constant(const fixture *f, const char *name) {
    for (uint32_t i = 0; i < f->decoder.n_constants; i++)
        if (strcmp(f->decoder.constants[i]->name, name) == 0) return f->decoder.constants[i];
    fail_msg("no constant %s", name);
    return NULL;
}

static const sw_tensor *find(const fixture *f, const char *name) {
    uint32_t i = sw_graph_find(f->decoder.graphs[0], name);
    if (i == UINT32_MAX) fail_msg("no tensor %s", name);
    return f->decoder.graphs[0]->tensors[i];
}

static void check_form(const sw_tensor *t, bool four_bit, sw_scales scales, uint32_t block) {
    char have[SW_WEIGHT_FORM_BYTES];
    if (t->dtype != SW_S8 || t->form.four_bit != four_bit || t->form.scales != scales ||
        t->form.block != block)
        fail_msg("%s is %s, %s %u", t->name, sw_dtype_name(t->dtype), sw_weight_form_text(t->form, have),
                 t->form.block);
}

static void shipped_recipes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        sw_dtype activation;
        bool four_bit;
        sw_scales scales;
        uint32_t block, head_block; /* the head has 8 bits, in the float blocks of its own or rows */
        bool kv_rows_8;             /* so have k_proj and v_proj */
    } rows[] = {
        {"16a8w", SW_U16, false, SW_SCALES_ROW, 0, 0, false},
        {"8a8w", SW_U8, false, SW_SCALES_ROW, 0, 0, false},
        {"16a4w", SW_U16, true, SW_SCALES_ROW, 0, 0, false},
        {"16a4w_block32", SW_U16, true, SW_SCALES_BLOCKWISE, 32, 0, true},
        {"f16a8w", SW_F16, false, SW_SCALES_ROW, 0, 0, false},
        {"f16a8w_block32", SW_F16, false, SW_SCALES_FLOAT_BLOCK, 32, 32, false},
        {"f16a4w_block32", SW_F16, true, SW_SCALES_FLOAT_BLOCK, 32, 32, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int tied = 0; tied < 2; tied++) {
            fixture f;
            sw_recipe r;
            set_up(&f, 64, tied);
            assert_int_equal(sw_recipe_find(&r, rows[i].name, 0, &err), SW_OK);
            if (apply(&f, &r) != SW_OK) fail_msg("%s: %s", rows[i].name, err.message);
            check_form(constant(&f, "layer_1.down_proj"), rows[i].four_bit, rows[i].scales, rows[i].block);
            if (rows[i].kv_rows_8)
                check_form(constant(&f, "layer_0.k_proj"), false, SW_SCALES_ROW, 0);
            else
                check_form(constant(&f, "layer_0.k_proj"), rows[i].four_bit, rows[i].scales, rows[i].block);
            sw_scales head = rows[i].head_block ? SW_SCALES_FLOAT_BLOCK : SW_SCALES_ROW;
            check_form(constant(&f, "embedding"), false, head, rows[i].head_block);
            if (!tied) check_form(constant(&f, "lm_head"), false, head, rows[i].head_block);
            assert_int_equal(find(&f, "layer_0.gate")->dtype, rows[i].activation);
            /* Blockwise weights multiply as MatMul, all others as FullyConnected: 7 a layer and the head. */
            uint32_t blockwise = rows[i].scales == SW_SCALES_BLOCKWISE ? 2 * (rows[i].kv_rows_8 ? 5 : 7) : 0;
            assert_int_equal(sw_graph_count_ops(f.decoder.graphs[0], SW_OP_FULLY_CONNECTED), 15 - blockwise);
            assert_int_equal(sw_graph_count_ops(f.decoder.graphs[0], SW_OP_MATMUL), 4 + blockwise);
            assert_int_equal(sw_recipe_has_scales(&r, rows[i].scales), true);
            tear_down(&f);
        }
}

static void rows_that_blocks_do_not_divide(void **state) {
    (void)state;
    fixture f;
    sw_recipe r;
    set_up(&f, 48, true); /* down_proj has rows of 48 */
    assert_int_equal(sw_recipe_find(&r, "f16a4w_block32", 0, &err), SW_OK);
    assert_int_equal(apply(&f, &r), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "layer_0.down_proj"));
    assert_non_null(strstr(err.message, "rows of 48 in blocks of 32"));
    tear_down(&f);
}

/* The text as a file, read. */
static sw_code load(const char *text, unsigned kv_bits, sw_recipe *out) {
    char path[] = "/tmp/spillway-recipe-XXXXXX.json";
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    sw_code code = sw_recipe_load(out, path, kv_bits, &arena, &err);
    unlink(path);
    return code;
}

static void files(void **state) {
    (void)state;
    sw_recipe r;
    fixture f;
    set_up(&f, 64, true);
    const char *mixed = "{\"name\": \"mixed\", \"base\": \"16a4w\", \"default\": {\"rotate\": false},"
                        " \"rules\": [{\"match\": \"layer_*.down_proj\", \"weight_bits\": 8},"
                        "  {\"match\": \"layer_1.*\", \"scales\": \"blockwise\", \"block\": 16},"
                        "  {\"match\": \"layer_1.o_proj\", \"weight_bits\": 4, \"scales\": \"row\"}]}";
    if (load(mixed, 0, &r) != SW_OK) fail_msg("%s", err.message);
    assert_string_equal(r.name, "mixed");
    assert_false(r.rotate);
    if (apply(&f, &r) != SW_OK) fail_msg("%s", err.message);
    check_form(constant(&f, "layer_0.down_proj"), false, SW_SCALES_ROW, 0);
    check_form(constant(&f, "layer_0.up_proj"), true, SW_SCALES_ROW, 0);
    check_form(constant(&f, "layer_1.up_proj"), true, SW_SCALES_BLOCKWISE, 16);
    check_form(constant(&f, "layer_1.down_proj"), true, SW_SCALES_BLOCKWISE, 16); /* the later rule */
    check_form(constant(&f, "layer_1.o_proj"), true, SW_SCALES_ROW, 0);
    check_form(constant(&f, "embedding"), false, SW_SCALES_ROW, 0); /* the base's rule */
    tear_down(&f);

    /* 16-bit residual stream in an 8-bit graph: norms read it, so their gammas are as wide. */
    set_up(&f, 64, true);
    const char *residual =
        "{\"base\": \"8a8w\", \"rules\": [{\"match\": \"*residual\", \"activation\": \"u16\"},"
        " {\"match\": \"hidden_in\", \"activation\": \"u16\"},"
        " {\"match\": \"*_norm\", \"activation\": \"u16\"},"
        " {\"op\": \"Softmax\", \"activation\": \"u16\"}]}";
    if (load(residual, 0, &r) != SW_OK) fail_msg("%s", err.message);
    if (apply(&f, &r) != SW_OK) fail_msg("%s", err.message);
    assert_int_equal(find(&f, "layer_1.residual")->dtype, SW_U16);
    assert_int_equal(find(&f, "layer_1.attention_in")->dtype, SW_U8);
    assert_int_equal(constant(&f, "layer_1.ffn_norm")->dtype, SW_U16);
    assert_int_equal(find(&f, "layer_0.probabilities")->dtype, SW_U16);
    assert_int_equal(find(&f, "layer_0.masked_scores")->dtype, SW_U8);
    assert_true(sw_graph_count_ops(f.decoder.graphs[0], SW_OP_CONVERT) > 0);
    tear_down(&f);

    const char *observers =
        "{\"base\": \"8a8w\", \"default\": {\"sink\": false, \"smooth\": 0.25, \"observer\": \"percentile\"},"
        " \"rules\": [{\"match\": \"*.up\", \"observer\": \"moving_average\", \"averaging\": 0.5},"
        " {\"op\": \"ElementWiseAdd\", \"observer\": \"mse\"},"
        " {\"match\": \"*.gate\", \"activation\": \"u16\", \"observer\": \"minmax\"}]}";
    if (load(observers, 0, &r) != SW_OK) fail_msg("%s", err.message);
    assert_false(r.sink);
    assert_true(r.smooth == 0.25f);
    assert_int_equal(r.method.kind, SW_METHOD_PERCENTILE);
    assert_true(r.method.parameter == 99.99);
    assert_int_equal(r.n_activation_rules, 3);
    assert_int_equal(r.activation_rules[0].method.kind, SW_METHOD_MOVING_AVERAGE);
    assert_true(r.activation_rules[0].method.parameter == 0.5);
    assert_int_equal(r.activation_rules[0].type, SW_DTYPE_COUNT); /* as without the rule */
    assert_int_equal(r.activation_rules[1].op, SW_OP_ADD);
    assert_int_equal(r.activation_rules[1].method.kind, SW_METHOD_MSE);
    assert_int_equal(r.activation_rules[2].method.kind, SW_METHOD_MINMAX);
    assert_int_equal(r.activation_rules[2].type, SW_U16);
    assert_int_equal(load("{\"default\": {\"smooth\": \"search\"}}", 0, &r), SW_OK);
    assert_true(r.smooth == SW_SMOOTH_SEARCH);

    const char *rounding = "{\"default\": {\"rounding\": \"gptq\"}, \"rules\": ["
                           " {\"match\": \"layer_1.*\", \"rounding\": \"nearest\"},"
                           " {\"match\": \"*.down_proj\", \"weight_bits\": 4}]}";
    if (load(rounding, 0, &r) != SW_OK) fail_msg("%s", err.message);
    assert_int_equal(sw_recipe_weight(&r, "layer_0.q_proj").rounding, SW_ROUND_GPTQ);
    assert_int_equal(sw_recipe_weight(&r, "layer_1.q_proj").rounding, SW_ROUND_NEAREST);
    assert_int_equal(sw_recipe_weight(&r, "layer_1.down_proj").rounding, SW_ROUND_GPTQ); /* the default's */
    assert_true(sw_recipe_weight(&r, "layer_1.down_proj").form.four_bit);

    assert_int_equal(load("{}", 0, &r), SW_OK); /* 16a8w by another name */
    assert_int_equal(r.rounding, SW_ROUND_NEAREST);
    assert_int_equal(r.activation, SW_U16);
    assert_int_equal(r.kv, SW_U8);
    assert_int_equal(load("{}", 16, &r), SW_OK);
    assert_int_equal(r.kv, SW_U16);
}

/* Which names a rule is for, by hand; a pattern of many * must not take all ways to share a name out. */
static void patterns(void **state) {
    (void)state;
    static const struct {
        const char *pattern;
        bool q_of_1; /* layer_1.q_proj */
    } rows[] = {{"layer_1.q_proj", true},
                {"layer_1.q_pro", false},
                {"layer_1.q_proj_", false},
                {"*", true},
                {"**", true},
                {"layer_*", true},
                {"*_proj", true},
                {"*q*", true},
                {"*_proj*", true},
                {"*proj_*", false},
                {"l*1*q*j", true},
                {"l*q*1*j", false},
                {"*.*_*", true},
                {"*r_1.q_proj", true},
                {"*r_1.q_pro", false},
                {"", false},
                {"*a*a*", false},
                {"layer_*.q_proj*", true},
                {"*layer_1.q_proj*", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f;
        sw_recipe r;
        char text[200];
        snprintf(text, sizeof text, "{\"rules\": [{\"match\": \"%s\", \"weight_bits\": 4}]}",
                 rows[i].pattern);
        set_up(&f, 64, true);
        sw_code code = load(text, 0, &r);
        if (code == SW_OK) code = apply(&f, &r);
        bool four_bit = code == SW_OK && constant(&f, "layer_1.q_proj")->form.four_bit;
        if (four_bit != rows[i].q_of_1) fail_msg("`%s`: %s", rows[i].pattern, err.message);
        tear_down(&f);
    }
    fixture f;
    set_up(&f, 64, true);
    char stars[48] = {0};
    const sw_weight_rule rule = {.match = stars, .type = SW_S8};
    sw_recipe r;
    assert_int_equal(sw_recipe_find(&r, "16a8w", 0, &err), SW_OK);
    r.weight_rules = &rule, r.n_weight_rules = 1;
    memset(stars, '*', sizeof stars - 2);
    stars[sizeof stars - 2] = '!'; /* in no name */
    assert_int_equal(apply(&f, &r), SW_OK);
    tear_down(&f);
}

static void bad_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"[]", "wanted an object"},
        {"{\"bits\": 4}", "bits"},
        {"{\"base\": \"4a4w\"}", "no recipe `4a4w`"},
        {"{\"default\": {\"activation\": \"s8\"}}", "$.default.activation: is `s8`, wanted u8, u16 or f16"},
        {"{\"default\": {\"weight_bits\": 2}}", "$.default.weight_bits: is 2, wanted 4, 8, or 16"},
        {"{\"default\": {\"scales\": \"tensor\"}}", "is `tensor`, wanted row, float_block or blockwise"},
        {"{\"default\": {\"rounding\": \"up\"}}", "$.default.rounding: is `up`, wanted nearest or gptq"},
        {"{\"default\": {\"block\": 32}}", "has a block, but a scale a row"},
        {"{\"default\": {\"scales\": \"blockwise\"}}", "but no block: wanted 16, 32 or 64"},
        {"{\"default\": {\"scales\": \"blockwise\", \"block\": 48}}", "is 48, wanted 16, 32 or 64"},
        {"{\"default\": {\"weight_bits\": 16, \"scales\": \"row\"}}", "have none"},
        {"{\"default\": {\"activation\": \"u8\", \"kv\": \"u16\"}}",
         "activations of u8 with a KV cache of u16: wanted u8"},
        {"{\"default\": {\"activation\": \"f16\"}}", "activations of f16 with a KV cache of u8: wanted f16"},
        {"{\"default\": {\"sink\": 1}}", "$.default.sink"},
        {"{\"default\": {\"smooth\": 1.5}}", "$.default.smooth: is 1.5, wanted 0 (none) to 1, or `search`"},
        {"{\"default\": {\"smooth\": \"find\"}}", "$.default.smooth"},
        {"{\"default\": {\"observer\": \"\"}}", "$.default.observer"},
        {"{\"default\": {\"observer\": \"entropy\"}}",
         "is `entropy`, wanted minmax, moving_average, percentile or mse"},
        {"{\"default\": {\"observer\": \"percentile\", \"percentile\": 101}}", "is 101, wanted 50 to 100"},
        {"{\"default\": {\"observer\": \"mse\", \"percentile\": 99}}",
         "$.default.percentile: stands without \"observer\": \"percentile\""},
        {"{\"rules\": [{\"match\": \"*\", \"averaging\": 0.5}]}", "stands without"},
        {"{\"rules\": {}}", "$.rules"},
        {"{\"rules\": [{\"match\": \"*\"}]}", "$.rules[0]: changes nothing"},
        {"{\"rules\": [{\"match\": 4, \"weight_bits\": 4}]}", "$.rules[0].match"},
        {"{\"rules\": [{\"op\": \"Conv9d\", \"activation\": \"u8\"}]}", "unknown op `Conv9d`"},
        {"{\"rules\": [{\"op\": \"FullyConnected\", \"weight_bits\": 4}]}", "by `match` alone"},
        {"{\"rules\": [{\"weight_bits\": 4, \"bits\": 4}]}", "bits"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sw_recipe r;
        err.message[0] = '\0';
        sw_code code = load(rows[i].text, 0, &r);
        if (code != SW_BAD_DATA || strstr(err.message, rows[i].says) == NULL)
            fail_msg("%s: `%s` doesn't say `%s`", rows[i].text, err.message, rows[i].says);
    }
    sw_recipe r;
    assert_int_equal(sw_recipe_load(&r, "/nowhere/mine.json", 0, &arena, &err), SW_NOT_FOUND);
    assert_int_equal(sw_recipe_load(&r, "mine", 0, &arena, &err), SW_INVALID_ARGUMENT);
}

/* A combination that the HTP doesn't have is refused with op, weight and what it could have. */
static void impossible_combinations(void **state) {
    (void)state;
    static const struct {
        const char *text, *says[3];
    } rows[] = {
        {"{\"base\": \"16a8w\", \"rules\": [{\"match\": \"layer_1.o_proj\", \"scales\": \"float_block\", "
         "\"block\": 32}]}",
         {"layer_1.attention_out", "u16, s8 (`layer_1.o_proj`: 8 bits, float_block 32) -> u16",
          "u16, s8 (8 bits, row) -> u16"}},
        {"{\"base\": \"f16a8w\", \"rules\": [{\"match\": \"layer_0.q_proj\", \"weight_bits\": 4, \"scales\": "
         "\"blockwise\", \"block\": 32}]}",
         {"layer_0.q", "f16, s8 (`layer_0.q_proj`: 4 bits, blockwise 32) -> f16", "f16, f16 -> f16"}},
        {"{\"base\": \"16a8w\", \"rules\": [{\"match\": \"layer_0.q_proj\", \"weight_bits\": 16}]}",
         {"layer_0.q", "u16, f16 -> u16", "u16, s8 (4 bits, row) -> u16"}},
        {"{\"base\": \"8a8w\", \"rules\": [{\"match\": \"hidden_in\", \"activation\": \"u16\"}]}",
         {"RmsNorm", "u16, u8", "one type for all"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f;
        sw_recipe r;
        set_up(&f, 64, true);
        if (load(rows[i].text, 0, &r) != SW_OK) fail_msg("%s", err.message);
        assert_int_equal(apply(&f, &r), SW_BAD_DATA);
        for (int k = 0; k < 3; k++)
            if (strstr(err.message, rows[i].says[k]) == NULL)
                fail_msg("`%s` doesn't say `%s`", err.message, rows[i].says[k]);
        tear_down(&f);
    }
}

/* A file's name is any bytes; a recipe's is text that a manifest takes, and at most 63 bytes of it. */
static void names_of_files(void **state) {
    (void)state;
    static const struct {
        const char *file, *name;
    } rows[] = {{"a b", "a b"},
                {"\xc3\xbc", "\xc3\xbc"},
                {"a\nb\t\x7f", "a_b__"},
                {"a\xff\xc3", "a__"},
                {"", "_"},
                /* 31 letters of two bytes and one that is cut */
                {"\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc"
                 "\xc3\xbc\xc3\xbc\xc3\xbc"
                 "\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc"
                 "\xc3\xbc\xc3\xbc\xc3\xbc"
                 "\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc",
                 "\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc"
                 "\xc3\xbc\xc3\xbc\xc3\xbc"
                 "\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc"
                 "\xc3\xbc\xc3\xbc\xc3\xbc"
                 "\xc3\xbc\xc3\xbc\xc3\xbc_"}};
    char folder[] = "/tmp/spillway-test-XXXXXX", path[300];
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sw_recipe r;
        snprintf(path, sizeof path, "%s/%s.json", folder, rows[i].file);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        fputs("{}", file);
        assert_int_equal(fclose(file), 0);
        if (sw_recipe_load(&r, path, 0, &arena, &err) != SW_OK) fail_msg("%s", err.message);
        assert_string_equal(r.name, rows[i].name);
        unlink(path);
    }
    rmdir(folder);
}

static int free_arena(void **state) {
    (void)state;
    sw_arena_free(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shipped_recipes),
                                       cmocka_unit_test(rows_that_blocks_do_not_divide),
                                       cmocka_unit_test(files),
                                       cmocka_unit_test(patterns),
                                       cmocka_unit_test(names_of_files),
                                       cmocka_unit_test(bad_files),
                                       cmocka_unit_test(impossible_combinations)};
    return cmocka_run_group_tests(tests, NULL, free_arena);
}
