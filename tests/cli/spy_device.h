/* spy_device.h: a device in front of another one, which keeps a plain record of what a session does: the
 * graphs called, and each position's K and V as the graphs gave them out. Before each call it compares the
 * session's cache with that record, byte by byte. */
#ifndef TESTS_CLI_SPY_DEVICE_H
#define TESTS_CLI_SPY_DEVICE_H

#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "graph/decoder.h"

enum { SPY_SLOTS = 2 * 4, SPY_HEADS = 4, SPY_POSITIONS = 512, SPY_ROW_BYTES = 32 * 4, SPY_CALLS = 1024 };

typedef struct spy_device {
    sw_device base;
    sw_device *inner;
    uint32_t filled, left;      /* positions recorded; ids of the present feed that are to come: the test's */
    uint32_t called[SPY_CALLS]; /* AR lengths */
    uint32_t n_calls, n_compared; /* rows compared */
    bool differs;
    uint32_t boosted; /* not 0: this token's logit is made the greatest in the call of that many left */
    uint32_t boost_in;
    uint8_t rows[SPY_SLOTS][SPY_HEADS][SPY_POSITIONS][SPY_ROW_BYTES];
} spy_device;

typedef struct spy_program {
    spy_device *spy;
    const sw_graph *graph;
    sw_program *inner;
} spy_program;

static inline sw_code spy_supports(sw_device *device, const sw_graph *graph, const sw_op *op, sw_error *err) {
    sw_device *inner = ((spy_device *)device)->inner;
    return inner->ops->supports(inner, graph, op, err);
}

static inline sw_code spy_load(sw_device *device, const sw_graph *graph, sw_program **out, sw_error *err) {
    spy_device *spy = (spy_device *)device;
    spy_program *p = calloc(1, sizeof *p);
    if (p == NULL) abort();
    *p = (spy_program){spy, graph, NULL};
    sw_code code = spy->inner->ops->load(spy->inner, graph, &p->inner, err);
    if (code != SW_OK)
        free(p);
    else
        *out = (sw_program *)p;
    return code;
}

/* Slot of "layer_<i>.<k or v>_<what>", or -1. */
static inline int spy_slot(const char *name, const char *what) {
    unsigned layer;
    char letter, rest[16];
    if (sscanf(name, "layer_%u.%c_%15s", &layer, &letter, rest) != 3 || strcmp(rest, what) != 0) return -1;
    return (int)(2 * layer + (letter == 'v'));
}

static inline void spy_compare(spy_device *spy, const sw_tensor *t, const sw_binding *b, int slot) {
    size_t row = t->dims[3] * sw_dtype_bytes(t->dtype), head = t->dims[2] * row;
    for (uint32_t h = 0; h < t->dims[1]; h++)
        for (uint32_t p = 0; p < spy->filled; p++, spy->n_compared++)
            if (p >= t->dims[2] ||
                memcmp((const uint8_t *)b->data + h * head + p * row, spy->rows[slot][h][p], row) != 0)
                spy->differs = true;
}

static inline void spy_record(spy_device *spy, const sw_tensor *t, const sw_binding *b, int slot,
                              uint32_t n) {
    size_t row = t->dims[3] * sw_dtype_bytes(t->dtype);
    for (uint32_t h = 0; h < t->dims[1]; h++)
        for (uint32_t i = 0; i < n; i++)
            memcpy(spy->rows[slot][h][spy->filled + i], (const uint8_t *)b->data + (h * t->dims[2] + i) * row,
                   row);
}

static inline sw_code spy_execute(sw_program *program, const sw_binding *inputs, const sw_binding *outputs,
                                  sw_observer *observer, void *context, sw_error *err) {
    spy_program *p = (spy_program *)program;
    spy_device *spy = p->spy;
    const sw_graph *g = p->graph;
    int slot;
    for (uint32_t i = 0; i < g->n_inputs; i++)
        if ((slot = spy_slot(g->tensors[g->inputs[i]]->name, "cache")) >= 0)
            spy_compare(spy, g->tensors[g->inputs[i]], &inputs[i], slot);
    sw_code code = spy->inner->ops->execute(p->inner, inputs, outputs, observer, context, err);
    uint32_t n = spy->left < g->ar_len ? spy->left : g->ar_len;
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        const sw_tensor *t = g->tensors[g->outputs[i]];
        if ((slot = spy_slot(t->name, "new")) >= 0) spy_record(spy, t, &outputs[i], slot, n);
        if (strcmp(t->name, "logits") == 0 && spy->boosted != 0 && spy->boost_in > 0 && --spy->boost_in == 0)
            ((float *)outputs[i].data)[spy->boosted] = 1000; /* f32 graphs with one row alone */
    }
    if (spy->n_calls < SPY_CALLS) spy->called[spy->n_calls++] = g->ar_len;
    spy->filled += n, spy->left -= n;
    return code;
}

static inline void spy_limit_tokens(sw_program *program, uint32_t n_tokens) {
    spy_program *p = (spy_program *)program;
    p->spy->inner->ops->limit_tokens(p->inner, n_tokens);
}

static inline void spy_unload(sw_program *program) {
    spy_program *p = (spy_program *)program;
    p->spy->inner->ops->unload(p->inner);
    free(p);
}

static inline void spy_destroy(sw_device *device) {
    (void)device; /* the test's, as the inner one */
}

static const sw_device_ops spy_ops = {.name = "spy",
                                      .supports = spy_supports,
                                      .load = spy_load,
                                      .execute = spy_execute,
                                      .limit_tokens = spy_limit_tokens,
                                      .unload = spy_unload,
                                      .destroy = spy_destroy};

static inline void spy_create(spy_device *spy, sw_device *inner) {
    memset(spy, 0, sizeof *spy);
    spy->base.ops = &spy_ops;
    spy->inner = inner;
}

#endif
