/* A blocked column has no weight: the mask is added and Softmax run, both as the quantized decoder has them,
 * on rows that calibration never saw the like of. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/cpu.h"
#include "device/border.h"
#include "graph/extract.h"
#include "graph/verify.h"
#include "quant/quant.h"
#include "tiny_model.h"

enum { CONTEXT = 16, TOKENS = 40 };

static tiny_model tiny;
static sw_device *cpu;
static sw_ranges *ranges;
static sw_error err;

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static int set_up(void **state) {
    (void)state;
    sw_hparams h = tiny_hparams();
    h.ffn = 64; /* blocks of 32 */
    int32_t ids[TOKENS];
    const sw_window window = {ids, TOKENS};
    for (int32_t i = 0; i < TOKENS; i++) ids[i] = (i * 37 + 5) % 96;
    tiny_model_create(&tiny, &h);
    OK(sw_cpu_device_create(&cpu, NULL, &err));
    OK(sw_calibrate(&ranges, &tiny.model, NULL, NULL, cpu, &window, 1, &err));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    sw_ranges_free(ranges);
    cpu->ops->destroy(cpu);
    tiny_model_free(&tiny);
    return 0;
}

static const sw_op *op_that_writes(const sw_graph *g, const char *name) {
    for (uint32_t i = 0; i < g->n_ops; i++)
        if (strcmp(g->tensors[g->ops[i].outputs[0]]->name, name) == 0) return &g->ops[i];
    fail_msg("no op writes %s", name);
    return NULL;
}

/* The op alone, on integers of its inputs. */
static void run_op(const sw_graph *g, const sw_op *op, void *const inputs[], void *output) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_program *program;
    sw_binding in[2] = {{0}}, out = {.data = output};
    sw_graph *one = sw_graph_extract_op(&arena, g, op);
    assert_non_null(one);
    for (uint32_t i = 0; i < one->n_inputs; i++)
        for (uint32_t k = 0; k < op->n_inputs; k++)
            if (strcmp(one->tensors[one->inputs[i]]->name, g->tensors[op->inputs[k]]->name) == 0)
                in[i].data = inputs[k];
    OK(cpu->ops->load(cpu, one, &program, &err));
    OK(cpu->ops->execute(program, in, &out, NULL, NULL, &err));
    cpu->ops->unload(program);
    sw_arena_free(&arena);
}

static int32_t integer_at(const sw_tensor *t, const void *data, size_t i) {
    return t->dtype == SW_U8 ? ((const uint8_t *)data)[i] : ((const uint16_t *)data)[i];
}

static void put_integer(const sw_tensor *t, void *data, size_t i, int32_t q) {
    if (t->dtype == SW_U8)
        ((uint8_t *)data)[i] = (uint8_t)q;
    else
        ((uint16_t *)data)[i] = (uint16_t)q;
}

typedef struct layer {
    const sw_graph *graph;
    const sw_op *add, *softmax;
    const sw_tensor *scores, *masked, *probabilities;
    size_t rows;
    void *in, *mask, *sum, *out; /* of those tensors */
} layer;

static layer get_layer(const sw_graph *g, uint32_t number) {
    char name[SW_NAME_BYTES];
    layer l = {.graph = g};
    sw_layer_name(name, number, "masked_scores");
    l.add = op_that_writes(g, name);
    sw_layer_name(name, number, "probabilities");
    l.softmax = op_that_writes(g, name);
    l.scores = g->tensors[l.add->inputs[0]], l.masked = g->tensors[l.add->outputs[0]];
    l.probabilities = g->tensors[l.softmax->outputs[0]];
    l.rows = (size_t)sw_tensor_elements(l.masked) / CONTEXT;
    l.in = calloc(l.rows * CONTEXT, 2), l.sum = calloc(l.rows * CONTEXT, 2);
    l.out = calloc(l.rows * CONTEXT, 2), l.mask = calloc(l.rows * CONTEXT, 2);
    return l;
}

static void free_layer(layer *l) {
    free(l->in), free(l->sum), free(l->out), free(l->mask);
}

static void run(layer *l) {
    run_op(l->graph, l->add, (void *[]){l->in, l->mask}, l->sum);
    run_op(l->graph, l->softmax, (void *[]){l->sum}, l->out);
}

/* The maximum of all rows lies `lower` under the least one that calibration can have seen, in one column; the
 * blocked ones have the greatest score that there is. Returns the greatest integer of a blocked column. */
static int32_t worst_leak(layer *l, float lower) {
    float beta = l->softmax->params.softmax.beta;
    int bits = l->masked->dtype == SW_U8 ? 8 : 16;
    /* The encoding's low end is (bits + 1) ln 2 / beta under that maximum, at 8 bits (bits + 2): types.c. */
    float low = sw_dequantize_value(0, l->masked->encoding);
    float least_max = low + (float)(bits + (bits == 8 ? 2 : 1)) * logf(2) / beta;
    int32_t seen = sw_quantize_value(least_max - lower, l->masked->dtype, l->masked->encoding);
    int32_t open = sw_dtype_max(l->masked->dtype), worst = 0;
    for (size_t i = 0; i < l->rows * CONTEXT; i++) {
        put_integer(l->scores, l->in, i, i % CONTEXT == 3 ? seen : open);
        put_integer(l->scores, l->mask, i, i % CONTEXT == 3 ? open : 0); /* open is 0.0 */
    }
    run(l);
    for (size_t i = 0; i < l->rows * CONTEXT; i++) {
        int32_t q = integer_at(l->probabilities, l->out, i);
        if (i % CONTEXT == 3)
            assert_true(q > 0);
        else if (q > worst)
            worst = q;
    }
    return worst;
}

/* All columns blocked, whatever the scores: the same small weight for each, and no number that isn't finite.
 */
static void rows_that_see_nothing(layer *l) {
    int32_t open = sw_dtype_max(l->masked->dtype);
    for (size_t i = 0; i < l->rows * CONTEXT; i++) {
        put_integer(l->scores, l->in, i, (int32_t)(i * 7919 % (size_t)(open + 1)));
        put_integer(l->scores, l->mask, i, 0);
    }
    run(l);
    for (size_t i = 0; i < l->rows * CONTEXT; i++)
        assert_in_range(integer_at(l->probabilities, l->out, i), open / CONTEXT, open / CONTEXT + 1);
}

/* Each row's maximum may fall by an octave, ln 2 / beta, under the least one seen before a blocked column
 * gets a step of probability; by two at 16 bits. */
static void blocked_columns_have_no_weight(void **state) {
    (void)state;
    static const struct {
        const char *recipe;
        unsigned kv_bits;
    } rows[] = {{"8a8w", 0}, {"16a8w", 8}, {"16a8w", 16}, {"16a4w", 8}, {"16a4w_block32", 8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sw_decoder d;
        sw_recipe recipe;
        const sw_graph_options graph = {"prefill_forward", 4, SW_ATTENTION_GROUPED, SW_HEAD_LAST};
        OK(sw_recipe_find(&recipe, rows[i].recipe, rows[i].kv_bits, &err));
        OK(sw_decoder_build(&d, &tiny.model, CONTEXT, &graph, 1, &err));
        OK(sw_quantize_types(&d, &recipe, ranges, &err));
        OK(sw_decoder_verify(&d, &err));
        for (uint32_t number = 0; number < 2; number++) {
            layer l = get_layer(d.graphs[0], number);
            float octave = logf(2) / l.softmax->params.softmax.beta;
            assert_int_equal(worst_leak(&l, 0), 0);
            assert_int_equal(worst_leak(&l, (l.masked->dtype == SW_U8 ? 0.95f : 1.95f) * octave), 0);
            assert_true(worst_leak(&l, 8 * octave) > 0); /* and the test can see a leak */
            rows_that_see_nothing(&l);
            free_layer(&l);
        }
        sw_decoder_free(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocked_columns_have_no_weight)};
    return cmocka_run_group_tests_name("mask", tests, set_up, tear_down);
}
