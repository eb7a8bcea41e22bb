/* A decoder comes back from graph.json as it went, bit for bit; every change of the text that breaks a rule
 * is refused with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/json.h"
#include "tiny_decoder.h"

/* noinline: gcc 12 takes the text for a pointer to `text` where it can see inside. */
static __attribute__((noinline)) char *dump(const sw_decoder *d, size_t *size) {
    char *text = NULL;
    FILE *stream = open_memstream(&text, size);
    assert_non_null(stream);
    sw_error err = {0};
    assert_int_equal(sw_decoder_write_json(d, stream, &err), SW_OK);
    fclose(stream);
    return text;
}

static void assert_same_tensor(const sw_tensor *a, const sw_tensor *b) {
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->range, b->range);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->role, b->role);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->dims, b->dims, sizeof a->dims);
    assert_memory_equal(&a->encoding, &b->encoding, sizeof a->encoding);
}

static void assert_same_graph(const sw_graph *a, const sw_graph *b) {
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->ar_len, b->ar_len);
    assert_int_equal(a->context_len, b->context_len);
    assert_int_equal(a->n_tensors, b->n_tensors);
    assert_int_equal(a->n_ops, b->n_ops);
    assert_int_equal(a->n_inputs, b->n_inputs);
    assert_int_equal(a->n_outputs, b->n_outputs);
    assert_memory_equal(a->inputs, b->inputs, a->n_inputs * sizeof *a->inputs);
    assert_memory_equal(a->outputs, b->outputs, a->n_outputs * sizeof *a->outputs);
    for (uint32_t i = 0; i < a->n_tensors; i++) assert_same_tensor(a->tensors[i], b->tensors[i]);
    for (uint32_t i = 0; i < a->n_ops; i++) {
        const sw_op *x = &a->ops[i], *y = &b->ops[i];
        assert_int_equal(x->type, y->type);
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->n_inputs, y->n_inputs);
        assert_int_equal(x->n_outputs, y->n_outputs);
        assert_memory_equal(x->inputs, y->inputs, sizeof x->inputs);
        assert_memory_equal(x->outputs, y->outputs, sizeof x->outputs);
        assert_memory_equal(&x->params, &y->params, sizeof x->params);
    }
}

static void round_trip_is_exact(void **state) {
    (void)state;
    tiny_decoder t;
    size_t size, again_size;
    tiny_decoder_create(&t);
    char *text = dump(&t.decoder, &size);
    sw_decoder d;
    sw_error err = {0};
    bool *per_channel;
    assert_int_equal(sw_decoder_read_json(&d, "g.json", text, size, &per_channel, &err), SW_OK);
    assert_memory_equal(&d.hparams, &t.decoder.hparams, sizeof d.hparams);
    assert_int_equal(d.context_len, TINY_CONTEXT);
    assert_int_equal(d.n_graphs, 2);
    assert_int_equal(d.n_constants, t.decoder.n_constants);
    assert_string_equal(d.embedding->name, "embedding");
    for (uint32_t i = 0; i < d.n_constants; i++) {
        assert_same_tensor(d.constants[i], t.decoder.constants[i]);
        assert_int_equal(per_channel[i], d.constants[i]->role == SW_ROLE_WEIGHT);
        assert_null(d.constants[i]->data);
    }
    for (uint32_t g = 0; g < d.n_graphs; g++) assert_same_graph(d.graphs[g], t.decoder.graphs[g]);
    /* Constants are one object in both graphs. */
    uint32_t a = sw_graph_find(d.graphs[0], "layer_1.q_proj"),
             b = sw_graph_find(d.graphs[1], "layer_1.q_proj");
    assert_ptr_equal(d.graphs[0]->tensors[a], d.graphs[1]->tensors[b]);
    /* The second text needs the scales' marks back. */
    float scales[96] = {0};
    for (uint32_t i = 0; i < d.n_constants; i++)
        if (per_channel[i]) d.constants[i]->channel_scales = scales;
    char *again = dump(&d, &again_size);
    assert_string_equal(text, again);
    free(text), free(again);
    sw_decoder_free(&d);
    tiny_decoder_free(&t);
}

/* 9 digits bring every float back: extremes, and neighbours of powers of two and ten. */
static void floats_come_back(void **state) {
    (void)state;
    static const float values[] = {
        1.17549435e-38f, 3.40282347e+38f, 1.40129846e-45f, 0.1f,        1.0f,       16777216.0f,
        0.333333343f,    9.99999975e-05f, 1.00000012f,     0.99999994f, 123456.789f};
    tiny_decoder t;
    sw_decoder d;
    sw_error err = {0};
    tiny_decoder_create(&t);
    uint64_t random = 3;
    for (unsigned i = 0; i < 100; i++) {
        float x = values[i % (sizeof values / sizeof *values)];
        if (i >= sizeof values / sizeof *values) x = tiny_random(&random) * x;
        if (x < 0) x = -x;
        size_t size;
        t.decoder.graphs[0]->tensors[0]->encoding.scale = x;
        t.decoder.graphs[0]->ops[0].params.rms_norm.epsilon = x;
        char *text = dump(&t.decoder, &size);
        assert_int_equal(sw_decoder_read_json(&d, "g.json", text, size, NULL, &err), SW_OK);
        assert_memory_equal(&d.graphs[0]->tensors[0]->encoding.scale, &x, sizeof x);
        assert_memory_equal(&d.graphs[0]->ops[0].params.rms_norm.epsilon, &x, sizeof x);
        sw_decoder_free(&d);
        free(text);
    }
    tiny_decoder_free(&t);
}

typedef struct mutation {
    const char *find, *replace, *message; /* replaces the first `find` at or behind `after` */
    const char *after;
} mutation;

static const mutation mutations[] = {
    {"\"spillway-graph\"", "\"other\"", "$.format: is `other`", NULL},
    {"\"version\": 1", "\"version\": 2", "$.version: is 2, this build reads 1", NULL},
    {"\"version\": 1", "\"version\": \"1\"", "$.version: is text, wanted an integer", NULL},
    {"\"context_len\": 8", "\"context_len\": 0", "$.context_len: is 0, wanted 1 to", NULL},
    {"\"context_len\": 8", "\"context_len\": 8.5", "$.context_len: is a number with a fraction", NULL},
    {"\"context_len\": 8", "\"context_len\": 8, \"new\": 1", "$: unknown key `new`", NULL},
    {"\"context_len\": 8,", "", "$: key `context_len` is missing; made by another version", NULL},
    {"\"context_len\": 8", "\"context_len\": 9223372036854775808",
     "$.context_len: 9223372036854775808 is too", NULL},
    {"\"context_len\": 8", "\"context_len\": 8, \"context_len\": 8", "duplicate object key", NULL},
    {"\"n_kv_heads\": 2", "\"n_kv_heads\": 3", "no multiple of n_kv_heads 3", NULL},
    {"\"head_dim\": 8", "\"head_dim\": 7", "head_dim 7 is odd", NULL},
    {"\"rope_theta\": 10000.0", "\"rope_theta\": -1.0", "wanted both above 0", NULL},
    {"\"rope_theta\": 10000.0", "\"rope_theta\": 1e300", "$.hparams.rope_theta: 1e+300 is too large", NULL},
    {"\"embedding\": \"embedding\"", "\"embedding\": \"nothing\"", "$.embedding: `nothing` is no constant",
     NULL},
    {"\"dims\": [96, 32]", "\"dims\": [96, 32, 1, 1, 1]", "$.constants[0].dims: has 5 elements", NULL},
    {"\"dims\": [96, 32]", "\"dims\": []", "$.constants[0].dims: has 0 elements", NULL},
    {"\"dims\": [96, 32]", "\"dims\": [96, 0]", "$.constants[0].dims[1]: is 0, wanted 1", NULL},
    {"\"dims\": [96, 32]", "\"dims\": [96, -1]", "$.constants[0].dims[1]: is -1, wanted 1", NULL},
    {"\"dims\": [96, 32]", "\"dims\": [65536, 65536]", "$.constants[0].dims: a tensor has at most", NULL},
    {"\"dtype\": \"s8\"", "\"dtype\": \"s9\"", "$.constants[0].dtype: unknown dtype `s9`", NULL},
    {"\"role\": \"weight\"", "\"role\": 5", "$.constants[0].role: is an integer, wanted text", NULL},
    {"\"per_channel\": true", "\"per_channel\": 1", "$.constants[0].per_channel: is an integer", NULL},
    {"\"per_channel\": true", "\"per_channel\": false", "$.constants[0]: key `encoding` is missing", NULL},
    {"\"per_channel\": true", "\"per_channel\": true, \"encoding\": {}", "also a scale a row", NULL},
    {"\"name\": \"layer_0.q_proj\"", "\"name\": \"embedding\"", "`embedding` is there already, as element 0",
     NULL},
    {"\"name\": \"layer_0.q_proj\"", "\"name\": \"\"", ".name: is empty", NULL},
    {"\"name\": \"layer_0.q_proj\"", "\"name\": \"a\\nb\"", "control character 0x0a", NULL},
    {"\"name\": \"prefill_forward\"", "\"name\": \"kv_forward\"", "$.graphs[1]: two graphs are named", NULL},
    {"\"ar_len\": 4", "\"ar_len\": 9", "$.graphs[0].ar_len: is 9, wanted 1 to 8", NULL},
    {"\"kind\": \"input\"", "\"kind\": \"constant\"", "$.graphs[0].tensors[0]: a constant stands in", NULL},
    {"\"kind\": \"input\"", "\"kind\": \"magic\"", "$.graphs[0].tensors[0].kind: unknown kind `magic`", NULL},
    {"\"scale\": ", "\"scale\": 1e39, \"x\": ", "encoding: unknown key `x`", "\"hidden_in\""},
    {"\"offset\": -", "\"offset\": -9999999999", "offset: is -9999999999", "\"hidden_in\""},
    {"\"layer_0.attention_norm\"", "\"layer_9.attention_norm\"", "`layer_9.attention_norm` is no constant",
     "\"graphs\""},
    {"\"name\": \"cos\"", "\"name\": \"sin\"", "`sin` is there already", "\"graphs\""},
    {"\"name\": \"cos\"", "\"name\": \"embedding\"", "`embedding` is the name of a constant", "\"graphs\""},
    {"\"type\": \"RmsNorm\"", "\"type\": \"LayerNorm\"", "$.graphs[0].ops[0].type: unknown type `LayerNorm`",
     NULL},
    {"\"inputs\": [\"hidden_in\", ", "\"inputs\": [\"hidden_out\", ", "the graph has no tensor `hidden_out`",
     NULL},
    {"\"inputs\": [\"hidden_in\", ", "\"inputs\": [", "$.graphs[0].ops[0].inputs: has 1 elements, wanted 2",
     NULL},
    {"\"outputs\": [", "\"outputs\": [\"cos\", ", "outputs: has 2 elements, wanted 1", NULL},
    {"{\"epsilon\": ", "{\"eps\": ", "$.graphs[0].ops[0].params: unknown key `eps`", NULL},
    {", \"params\": {\"epsilon\": 9.99999975e-6}", "", "$.graphs[0].ops[0]: key `params` is missing", NULL},
    {"\"perm\": [0, 2, 1, 3]", "\"perm\": [0, 2, 1]", "perm: has 3 elements, wanted 4", NULL},
    {"\"perm\": [0, 2, 1, 3]", "\"perm\": [0, 2, 1, 4]", "perm[3]: is 4, wanted 0 to 3", NULL},
    {"\"axis\": 2", "\"axis\": 4", "axis: is 4, wanted 0 to 3", NULL},
    {"\"transpose_in1\": true", "\"transpose_in1\": 1", "transpose_in1: is an integer, wanted true", NULL},
    {"\"type\": \"Sigmoid\"", "\"params\": {}, \"type\": \"Sigmoid\"", "Sigmoid has no parameters", NULL},
};

static char *mutate(const char *text, const mutation *m) {
    const char *from = m->after != NULL ? strstr(text, m->after) : text;
    assert_non_null(from);
    const char *at = strstr(from, m->find);
    if (at == NULL) fail_msg("the text has no %s", m->find);
    char *out = malloc(strlen(text) + strlen(m->replace) + 1);
    assert_non_null(out);
    memcpy(out, text, (size_t)(at - text));
    strcpy(out + (at - text), m->replace);
    strcat(out, at + strlen(m->find));
    return out;
}

static void broken_text_is_refused_with_its_place(void **state) {
    (void)state;
    tiny_decoder t;
    size_t size;
    tiny_decoder_create(&t);
    char *text = dump(&t.decoder, &size);
    for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++) {
        char *bad = mutate(text, &mutations[i]);
        sw_decoder d;
        sw_error err = {0};
        sw_code code = sw_decoder_read_json(&d, "g.json", bad, strlen(bad), NULL, &err);
        if (code == SW_OK || strstr(err.message, mutations[i].message) == NULL)
            fail_msg("%s -> %s: wanted `%s`, is `%s`", mutations[i].find, mutations[i].replace,
                     mutations[i].message, err.message);
        assert_true(strncmp(err.message, "g.json: ", 8) == 0);
        assert_null(d.constants);
        free(bad);
    }
    free(text);
    tiny_decoder_free(&t);
}

/* Any cut of the text, and nests beyond the limit, end in an error and not in a crash. */
static void cut_and_deep_texts_are_refused(void **state) {
    (void)state;
    tiny_decoder t;
    size_t size;
    sw_decoder d;
    sw_error err = {0};
    tiny_decoder_create(&t);
    char *text = dump(&t.decoder, &size);
    while (size > 0 && text[size - 1] != '}') size--;
    for (size_t n = 0; n < size; n += n < 300 ? 1 : 37)
        assert_int_equal(sw_decoder_read_json(&d, "g.json", text, n, NULL, &err), SW_BAD_DATA);
    free(text);
    size_t deep = 200000;
    char *nest = malloc(deep);
    assert_non_null(nest);
    memset(nest, '[', deep);
    assert_int_equal(sw_decoder_read_json(&d, "g.json", nest, deep, NULL, &err), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "line 1"));
    free(nest);
    tiny_decoder_free(&t);
}

static size_t count(const char *text, const char *what) {
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++) n++;
    return n;
}

static void dot_draws_every_op_and_layer(void **state) {
    (void)state;
    tiny_decoder t;
    char *text = NULL;
    size_t size;
    sw_error err = {0};
    tiny_decoder_create(&t);
    const sw_graph *g = t.decoder.graphs[0];
    FILE *stream = open_memstream(&text, &size);
    assert_int_equal(sw_graph_write_dot(g, stream, &err), SW_OK);
    fclose(stream);
    size_t edges = 0;
    for (uint32_t i = 0; i < g->n_ops; i++)
        for (uint32_t k = 0; k < g->ops[i].n_inputs; k++)
            edges += g->tensors[g->ops[i].inputs[k]]->kind != SW_TENSOR_CONSTANT;
    assert_int_equal(count(text, " [fillcolor="), g->n_ops);
    assert_int_equal(count(text, "shape=ellipse"), g->n_inputs + g->n_outputs);
    assert_int_equal(count(text, " -> "), edges + g->n_outputs);
    assert_int_equal(count(text, "subgraph cluster_"), 2);
    assert_int_equal(count(text, "{"), count(text, "}"));
    assert_non_null(strstr(text, "u8 [1,2,4,8]")); /* k_cache, two heads */
    free(text);
    tiny_decoder_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip_is_exact),
        cmocka_unit_test(floats_come_back),
        cmocka_unit_test(broken_text_is_refused_with_its_place),
        cmocka_unit_test(cut_and_deep_texts_are_refused),
        cmocka_unit_test(dot_draws_every_op_and_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
