/* A rule that names nothing is said aloud, with the names it was likely meant for; others are silent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "quant/quant.h"
#include "tiny_model.h"

static sw_error err;
static sw_decoder decoder;

/* What the recipe's warnings are on stderr. */
static const char *warned(const char *text) {
    static char said[4096];
    char path[] = "/tmp/spillway-rules-XXXXXX.json";
    sw_arena arena = SW_ARENA_EMPTY;
    sw_recipe recipe;
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    if (sw_recipe_load(&recipe, path, 0, &arena, &err) != SW_OK) fail_msg("%s", err.message);
    unlink(path);
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int before = dup(2);
    dup2(fileno(file), 2);
    sw_recipe_warn_unmatched(&recipe, &decoder);
    fflush(stderr);
    dup2(before, 2);
    close(before);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
    sw_arena_free(&arena);
    return said;
}

static void rules_that_name_nothing(void **state) {
    (void)state;
    static const struct {
        const char *rule, *says; /* says NULL: silent */
    } rows[] = {
        {"{\"match\": \"layer_1.q_proj\", \"weight_bits\": 4}", NULL},
        {"{\"match\": \"*_proj\", \"weight_bits\": 4}", NULL},
        {"{\"match\": \"layer_1.qproj\", \"weight_bits\": 4}",
         "$.rules[0]: `layer_1.qproj` matches no weight of this model, so the rule does nothing; near it are "
         "layer_*.q_proj, layer_*."},
        {"{\"match\": \"*.q_porj\", \"weight_bits\": 4}", "near it are layer_*.q_proj, "},
        {"{\"match\": \"layer_7.down_proj\", \"weight_bits\": 8}", "near it are layer_*.down_proj, "},
        {"{\"match\": \"lm_head\", \"weight_bits\": 8}", "`lm_head` matches no weight"}, /* tied */
        {"{\"match\": \"layer_*.ffn_norm\", \"weight_bits\": 8}", "matches no weight"},
        {"{\"match\": \"layer_0.ffn_norm\", \"activation\": \"u16\"}", NULL},
        {"{\"match\": \"hidden_in\", \"activation\": \"u16\"}", NULL},
        {"{\"match\": \"layer_*.residual\", \"activation\": \"u16\"}", NULL},
        {"{\"op\": \"Softmax\", \"activation\": \"u16\"}", NULL},
        {"{\"match\": \"layer_0.residul\", \"activation\": \"u8\"}",
         "`layer_0.residul` matches no activation of this model, so the rule does nothing; near it are "
         "layer_*.residual, "},
        {"{\"match\": \"layer_0.q_proj\", \"activation\": \"u8\"}", "matches no activation"},
        {"{\"op\": \"Softmax\", \"match\": \"*.probability\", \"activation\": \"u8\"}",
         "`*.probability` matches no activation made by Softmax of this model, so the rule does nothing; "
         "near it are layer_*.probabilities\n"},
        {"{\"op\": \"Convert\", \"activation\": \"u8\"}", "`*` matches no activation made by Convert"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        snprintf(text, sizeof text, "{\"base\": \"16a4w\", \"rules\": [%s]}", rows[i].rule);
        const char *said = warned(text);
        if (rows[i].says == NULL ? said[0] != '\0' : strstr(said, rows[i].says) == NULL)
            fail_msg("%s: wanted `%s`: %s", rows[i].rule, rows[i].says != NULL ? rows[i].says : "", said);
    }
    /* Each of several, by its place; shipped rules (lm_head of a tied model) are no one's slip. */
    const char *said = warned("{\"base\": \"16a4w\", \"rules\": [{\"match\": \"a\", \"weight_bits\": 4},"
                              " {\"match\": \"*\", \"weight_bits\": 4},"
                              " {\"match\": \"b\", \"weight_bits\": 4, \"activation\": \"u8\"}]}");
    assert_non_null(strstr(said, "$.rules[0]: `a` matches no weight"));
    assert_non_null(strstr(said, "$.rules[2]: `b` matches no weight"));
    assert_non_null(strstr(said, "$.rules[2]: `b` matches no activation"));
    assert_null(strstr(said, "$.rules[1]"));
    assert_null(strstr(said, "lm_head`"));
}

int main(void) {
    tiny_model tiny;
    sw_hparams h = tiny_hparams();
    const sw_graph_options graphs[] = {{"prefill_forward", 4, SW_ATTENTION_PER_KV_HEAD, SW_HEAD_LAST},
                                       {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST}};
    tiny_model_create(&tiny, &h);
    if (sw_decoder_build(&decoder, &tiny.model, 16, graphs, 2, &err) != SW_OK) abort();
    const struct CMUnitTest tests[] = {cmocka_unit_test(rules_that_name_nothing)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sw_decoder_free(&decoder);
    tiny_model_free(&tiny);
    return failed;
}
