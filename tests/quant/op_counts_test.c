/* How many ops of each type a recipe makes, against the table in tests/data/op_counts.tsv: a change that adds
 * Converts or moves data once more shows here, and in the table's diff. SPILLWAY_UPDATE=1 writes the table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "quant/typed_decoder.h"

#define TABLE SW_TEST_DATA "/op_counts.tsv"

static sw_error err;

static uint32_t count(const sw_graph *g, sw_op_type type) {
    return sw_graph_count_ops(g, type);
}

static void write_header(FILE *f) {
    fprintf(f, "recipe\tKV\tattention\tgraph");
    for (unsigned i = 0; i < SW_OP_COUNT; i++) fprintf(f, "\t%s", sw_op_get_info((sw_op_type)i)->name);
    fputc('\n', f);
}

/* The rows of a recipe: both forms of attention, both graphs. */
static void write_rows(FILE *f, const char *name, unsigned kv_bits) {
    for (unsigned form = 0; form < SW_ATTENTION_FORM_COUNT; form++) {
        typed_decoder t;
        sw_recipe r;
        if (sw_recipe_find(&r, name, kv_bits, &err) != SW_OK ||
            typed_decoder_create(&t, &r, (sw_attention_form)form, &err) != SW_OK)
            fail_msg("%s: %s", name, err.message);
        for (unsigned g = 0; g < 2; g++) {
            fprintf(f, "%s\t%s\t%s\t%s", name, sw_dtype_name(r.kv),
                    sw_attention_form_name((sw_attention_form)form), t.decoder.graphs[g]->name);
            for (unsigned i = 0; i < SW_OP_COUNT; i++)
                fprintf(f, "\t%u", count(t.decoder.graphs[g], (sw_op_type)i));
            fputc('\n', f);
        }
        typed_decoder_free(&t);
    }
}

/* All shipped recipes, with each width of the cache that they can have. The caller frees it. */
static char *make_table(void) {
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    write_header(f);
    for (unsigned i = 0; shipped_recipe(i) != NULL; i++) {
        char name[64];
        sw_recipe r, other;
        snprintf(name, sizeof name, "%s", shipped_recipe(i));
        assert_int_equal(sw_recipe_find(&r, name, 0, &err), SW_OK);
        write_rows(f, name, 0);
        if (sw_recipe_find(&other, name, 16, &err) == SW_OK && other.kv != r.kv) write_rows(f, name, 16);
    }
    fclose(f);
    return text;
}

static char *read_table(void) {
    char *text = calloc(1, 1 << 20);
    FILE *f = fopen(TABLE, "r");
    if (text == NULL || f == NULL) fail_msg("%s: can't be read", TABLE);
    size_t n = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    text[n] = '\0';
    return text;
}

/* The n-th cell of a line. */
static const char *cell(const char *line, unsigned n, char out[64]) {
    while (n-- > 0 && (line = strchr(line, '\t')) != NULL) line++;
    snprintf(out, 64, "%.*s", line != NULL ? (int)strcspn(line, "\t\n") : 0, line != NULL ? line : "");
    return out;
}

/* The length of a line's first four cells, which name its graph. */
static size_t key_length(const char *line) {
    size_t n = 0;
    for (unsigned tabs = 0; line[n] != '\0' && line[n] != '\n'; n++)
        if (line[n] == '\t' && ++tabs == 4) break;
    return n;
}

/* The table's line of the same graph, or NULL. */
static const char *find_line(const char *table, const char *line) {
    size_t n = key_length(line);
    for (const char *at = table; *at != '\0'; at += strcspn(at, "\n"), at += *at == '\n')
        if (key_length(at) == n && strncmp(at, line, n) == 0) return at;
    return NULL;
}

/* "16a8w u8 grouped kv_forward: Convert 6, the table has 4" for each count that differs; the number of them.
 */
static unsigned compare_tables(const char *have, const char *wanted) {
    char a[64], b[64], name[64];
    unsigned differences = 0;
    for (const char *line = have; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *other = find_line(wanted, line);
        int key = (int)key_length(line);
        if (other == NULL) print_error("%.*s: not in the table\n", key, line);
        differences += other == NULL;
        for (unsigned i = 4; other != NULL && i < 4 + SW_OP_COUNT; i++) {
            if (strcmp(cell(line, i, a), cell(other, i, b)) == 0) continue;
            print_error("%.*s: %s %s, the table has %s\n", key, line, cell(have, i, name), a, b);
            differences++;
        }
    }
    return differences;
}

static void counts_are_those_of_the_table(void **state) {
    (void)state;
    char *have = make_table();
    if (getenv("SPILLWAY_UPDATE") != NULL) {
        FILE *f = fopen(TABLE, "w");
        assert_non_null(f);
        assert_true(fputs(have, f) >= 0);
        assert_int_equal(fclose(f), 0);
        print_message("%s is written anew; look at its diff\n", TABLE);
    }
    char *wanted = read_table();
    unsigned differences = compare_tables(have, wanted);
    for (const char *line = wanted; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
        if (find_line(have, line) == NULL) {
            print_error("%.*s: only in the table\n", (int)key_length(line), line);
            differences++;
        }
    if (differences > 0)
        fail_msg("%u differences from %s; if they are wanted, run this test with SPILLWAY_UPDATE=1",
                 differences, TABLE);
    free(have), free(wanted);
}

/* What must hold whatever the table says. */
static void converts_stand_where_widths_meet(void **state) {
    (void)state;
    for (unsigned i = 0; shipped_recipe(i) != NULL; i++)
        for (unsigned kv_bits = 0; kv_bits <= 16; kv_bits += 16)
            for (unsigned form = 0; form < SW_ATTENTION_FORM_COUNT; form++) {
                char name[64];
                typed_decoder t;
                sw_recipe r;
                snprintf(name, sizeof name, "%s", shipped_recipe(i));
                if (sw_recipe_find(&r, name, kv_bits, &err) != SW_OK) continue;
                assert_int_equal(typed_decoder_create(&t, &r, (sw_attention_form)form, &err), SW_OK);
                uint32_t wanted = r.kv != r.activation ? 2 * t.decoder.hparams.n_layers : 0; /* K and V */
                for (unsigned g = 0; g < 2; g++)
                    if (count(t.decoder.graphs[g], SW_OP_CONVERT) != wanted)
                        fail_msg("%s, KV %s: %u Converts in %s, wanted %u", name, sw_dtype_name(r.kv),
                                 count(t.decoder.graphs[g], SW_OP_CONVERT), t.decoder.graphs[g]->name,
                                 wanted);
                typed_decoder_free(&t);
            }
}

/* No two Converts of one tensor to one type. */
static void check_converted_once(const sw_graph *g, const char *what) {
    for (uint32_t i = 0; i < g->n_ops; i++)
        for (uint32_t k = i + 1; k < g->n_ops; k++) {
            const sw_op *a = &g->ops[i], *b = &g->ops[k];
            if (a->type != SW_OP_CONVERT || b->type != SW_OP_CONVERT || a->inputs[0] != b->inputs[0])
                continue;
            if (g->tensors[a->outputs[0]]->dtype == g->tensors[b->outputs[0]]->dtype)
                fail_msg("%s, %s: `%s` is converted twice", what, g->name, g->tensors[a->inputs[0]]->name);
        }
}

/* A tensor is converted once, not once a reader: cos and sin have 2 readers a layer, the mask 1 a layer and,
 * cut by heads, one a head; the norm's output 3 or 2, the residual stream 2. */
static void a_tensor_is_converted_once(void **state) {
    (void)state;
    static const struct {
        const char *base;
        sw_activation_rule rules[3];
        uint32_t converts; /* beside those of K and V */
    } rows[] = {
        {"16a8w",
         {{"cos", SW_OP_COUNT, SW_U8, NULL, {SW_METHOD_DEFAULT, 0}},
          {"sin", SW_OP_COUNT, SW_U8, NULL, {SW_METHOD_DEFAULT, 0}}},
         2},
        {"16a8w",
         {{"mask", SW_OP_COUNT, SW_U8, NULL, {SW_METHOD_DEFAULT, 0}},
          {"mask", SW_OP_COUNT, SW_U8, NULL, {SW_METHOD_DEFAULT, 0}}},
         1},
        {"8a8w",
         {{"mask", SW_OP_COUNT, SW_U16, NULL, {SW_METHOD_DEFAULT, 0}},
          {"cos", SW_OP_COUNT, SW_U16, NULL, {SW_METHOD_DEFAULT, 0}}},
         2},
        {"16a8w",
         {{"*.attention_in", SW_OP_COUNT, SW_U8, NULL, {SW_METHOD_DEFAULT, 0}},
          {"*.ffn_in", SW_OP_COUNT, SW_U8, NULL, {SW_METHOD_DEFAULT, 0}}},
         0},
        {"8a8w",
         {{"*residual", SW_OP_COUNT, SW_U16, NULL, {SW_METHOD_DEFAULT, 0}},
          {"*_norm", SW_OP_COUNT, SW_U16, NULL, {SW_METHOD_DEFAULT, 0}},
          {"hidden_in", SW_OP_COUNT, SW_U16, NULL, {SW_METHOD_DEFAULT, 0}}},
         0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (unsigned form = 0; form < SW_ATTENTION_FORM_COUNT; form++) {
            typed_decoder t;
            sw_recipe r;
            assert_int_equal(sw_recipe_find(&r, rows[i].base, 0, &err), SW_OK);
            r.activation_rules = rows[i].rules, r.n_activation_rules = rows[i].rules[2].match != NULL ? 3 : 2;
            sw_code code = typed_decoder_create(&t, &r, (sw_attention_form)form, &err);
            uint32_t own = r.kv != r.activation ? 2 * t.decoder.hparams.n_layers : 0;
            if (code != SW_OK) fail_msg("row %zu: %s", i, err.message);
            for (unsigned g = 0; g < 2; g++) {
                check_converted_once(t.decoder.graphs[g], rows[i].rules[0].match);
                if (rows[i].converts > 0)
                    assert_int_equal(count(t.decoder.graphs[g], SW_OP_CONVERT), own + rows[i].converts);
            }
            typed_decoder_free(&t);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_are_those_of_the_table),
                                       cmocka_unit_test(converts_stand_where_widths_meet),
                                       cmocka_unit_test(a_tensor_is_converted_once)};
    return cmocka_run_group_tests_name("op counts", tests, NULL, NULL);
}
