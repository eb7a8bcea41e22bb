/* Graphs that don't look at their input, their cache or anything: devices with such a fault are found out, a
 * good one isn't; float and quantized, with and without a prefill graph. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/self_check.h"
#include "cpu/cpu.h"
#include "tiny_model.h"

enum { CONTEXT = 24 };

typedef enum fault {
    NONE,
    SAME_TOKENS, /* hidden_in is always the same */
    NO_CACHE,    /* single tokens see themselves alone */
    CONSTANT,    /* each logit is 0.5 */
    ONE_NAN,
    ONE_INFINITY,
    DECODE_NAN, /* in the decode graph alone */
} fault;

/* The CPU device with a fault. */
typedef struct faulty_device {
    sw_device base;
    sw_device *inner;
    fault fault;
} faulty_device;

typedef struct faulty_program {
    faulty_device *device;
    const sw_graph *graph;
    sw_program *inner;
} faulty_program;

static sw_error err;
static tiny_model tiny;
static faulty_device device;

static sw_code supports(sw_device *d, const sw_graph *graph, const sw_op *op, sw_error *e) {
    (void)d;
    return device.inner->ops->supports(device.inner, graph, op, e);
}

static sw_code load(sw_device *d, const sw_graph *graph, sw_program **out, sw_error *e) {
    faulty_program *p = calloc(1, sizeof *p);
    if (p == NULL) abort();
    *p = (faulty_program){(faulty_device *)d, graph, NULL};
    *out = (sw_program *)p;
    return device.inner->ops->load(device.inner, graph, &p->inner, e);
}

static sw_code execute(sw_program *program, const sw_binding *inputs, const sw_binding *outputs,
                       sw_observer *observer, void *context, sw_error *e) {
    faulty_program *p = (faulty_program *)program;
    const sw_graph *g = p->graph;
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        const sw_tensor *t = g->tensors[g->inputs[i]];
        if (p->device->fault == SAME_TOKENS && strcmp(t->name, "hidden_in") == 0)
            for (uint32_t k = 0; k < sw_tensor_elements(t); k++)
                ((float *)inputs[i].data)[k] = 0.1f * (float)(k % 7);
        for (uint32_t k = 0; p->device->fault == NO_CACHE && g->ar_len == 1 && k + 1 < CONTEXT; k++)
            if (strcmp(t->name, "mask") == 0) ((float *)inputs[i].data)[k] = SW_MASK_BLOCKED;
    }
    sw_code code = device.inner->ops->execute(p->inner, inputs, outputs, observer, context, e);
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        const sw_tensor *t = g->tensors[g->outputs[i]];
        float *logits = outputs[i].data;
        if (strcmp(t->name, "logits") != 0) continue;
        for (uint32_t k = 0; p->device->fault == CONSTANT && k < sw_tensor_elements(t); k++) logits[k] = 0.5f;
        if (p->device->fault == ONE_NAN) logits[17] = NAN;
        if (p->device->fault == ONE_INFINITY) logits[95] = -INFINITY;
        if (p->device->fault == DECODE_NAN && g->ar_len == 1) logits[0] = NAN;
    }
    return code;
}

static void unload(sw_program *program) {
    device.inner->ops->unload(((faulty_program *)program)->inner);
    free(program);
}

static void destroy(sw_device *d) {
    (void)d;
}

static const sw_device_ops faulty_ops = {.name = "faulty",
                                         .supports = supports,
                                         .load = load,
                                         .execute = execute,
                                         .unload = unload,
                                         .destroy = destroy};

static void faults_are_found(void **state) {
    (void)state;
    static const struct {
        fault fault;
        const char *says; /* NULL: good */
        const char *in_kv_mode;
    } rows[] = {
        {NONE, NULL, NULL},
        {SAME_TOKENS, "two prompts of 8 other tokens have the same logits", "two prompts of 1 other tokens"},
        {NO_CACHE, "doesn't look at its KV cache", "doesn't look at its KV cache"},
        {CONSTANT, "all 96 logits behind 8 tokens are 0.5", "all 96 logits behind 1 tokens are 0.5"},
        {ONE_NAN, "the logit of token 17 behind 8 tokens is nan", "token 17 behind 1 tokens is nan"},
        {ONE_INFINITY, "the logit of token 95 behind 8 tokens is -inf", "token 95 behind 1 tokens is -inf"},
        {DECODE_NAN, "token 0 behind 8 tokens and one more is nan", "token 0 behind 1 tokens is nan"},
    };
    const sw_graph_options graphs[] = {{"prefill_forward", 8, SW_ATTENTION_GROUPED, SW_HEAD_LAST},
                                       {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST}};
    for (uint32_t kv = 0; kv < 2; kv++) {
        sw_decoder d;
        assert_int_equal(sw_decoder_build(&d, &tiny.model, CONTEXT, graphs + kv, 2 - kv, &err), SW_OK);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            const char *says = kv ? rows[i].in_kv_mode : rows[i].says;
            device.fault = rows[i].fault;
            err = (sw_error){SW_OK, ""};
            sw_code code = sw_self_check(&d, &device.base, &err);
            if (code != (says != NULL ? SW_BAD_DATA : SW_OK)) fail_msg("fault %zu: %s", i, err.message);
            if (says == NULL) continue;
            if (strstr(err.message, says) == NULL || strstr(err.message, "self-check on faulty: ") == NULL)
                fail_msg("`%s` doesn't say `%s`", err.message, says);
        }
        sw_decoder_free(&d);
    }
}

/* Contexts with room for little: nothing is read or fed beyond them. */
static void short_contexts(void **state) {
    (void)state;
    device.fault = NONE;
    for (uint32_t context = 1; context <= 4; context++)
        for (uint32_t ar = 1; ar <= context; ar++) {
            sw_decoder d;
            const sw_graph_options graphs[] = {{"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_LAST},
                                               {"prefill_forward", ar, SW_ATTENTION_GROUPED, SW_HEAD_LAST}};
            assert_int_equal(sw_decoder_build(&d, &tiny.model, context, graphs, ar > 1 ? 2 : 1, &err), SW_OK);
            if (sw_self_check(&d, &device.base, &err) != SW_OK) fail_msg("%s", err.message);
            sw_decoder_free(&d);
        }
}

static void logits_that_say_nothing(void **state) {
    (void)state;
    const float good[] = {1, 1, 2}, same[] = {-3, -3, -3}, infinite[] = {0, INFINITY, 0};
    assert_int_equal(sw_check_logits(good, 3, 0, "here", &err), SW_OK);
    assert_int_equal(sw_check_logits(same, 1, 0, "here", &err), SW_OK);
    assert_int_equal(sw_check_logits(same, 3, 0, "here", &err), SW_BAD_DATA);
    assert_string_equal(err.message, "all 3 logits here are -3: the graph says nothing");
    assert_int_equal(sw_check_logits(infinite, 3, 0, "here", &err), SW_BAD_DATA);
    assert_string_equal(err.message, "the logit of token 1 here is inf, wanted a finite number");
}

int main(void) {
    sw_hparams h = tiny_hparams();
    tiny_model_create(&tiny, &h);
    device.base.ops = &faulty_ops;
    if (sw_cpu_device_create(&device.inner, NULL, &err) != SW_OK) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(faults_are_found), cmocka_unit_test(short_contexts),
                                       cmocka_unit_test(logits_that_say_nothing)};
    int failed = cmocka_run_group_tests_name("self-check", tests, NULL, NULL);
    device.inner->ops->destroy(device.inner);
    tiny_model_free(&tiny);
    return failed;
}
