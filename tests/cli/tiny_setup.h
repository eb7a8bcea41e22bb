/* tiny_setup.h: a tiny model, the CPU device, and what calibration on random tokens has seen: what tests of
 * sessions start from. Include behind cmocka.h. */
#ifndef TESTS_CLI_TINY_SETUP_H
#define TESTS_CLI_TINY_SETUP_H

#include "cpu/cpu.h"
#include "graph/verify.h"
#include "quant/quant.h"
#include "tiny_model.h"

enum { TINY_MOST_IDS = 192 };

typedef struct tiny_setup {
    tiny_model model;
    sw_device *cpu;
    sw_ranges *ranges;
    int32_t ids[TINY_MOST_IDS]; /* random tokens; calibrated on the first context_max */
} tiny_setup;

static sw_error err;

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != SW_OK) fail_msg("%s: %s", #call, err.message);                                         \
    } while (0)

static inline void tiny_setup_create(tiny_setup *s, const sw_hparams *hparams) {
    const sw_window window = {s->ids, hparams->context_max};
    assert_true(hparams->context_max <= TINY_MOST_IDS);
    tiny_model_create(&s->model, hparams);
    for (uint32_t i = 0, x = 5; i < TINY_MOST_IDS; i++) {
        x = x * 1664525u + 1013904223u;
        s->ids[i] = (int32_t)((x >> 16) % hparams->vocab);
    }
    OK(sw_cpu_device_create(&s->cpu, NULL, &err));
    OK(sw_calibrate(&s->ranges, &s->model.model, NULL, NULL, s->cpu, &window, 1, &err));
}

static inline void tiny_setup_free(tiny_setup *s) {
    sw_ranges_free(s->ranges);
    s->cpu->ops->destroy(s->cpu);
    tiny_model_free(&s->model);
}

/* Types, encodings and constants of a float decoder of that model; recipe NULL: it stays as it is. constants:
 * a decoder of the same model and recipe whose constants are borrowed, or NULL. */
static inline void tiny_quantize(const tiny_setup *s, sw_decoder *d, const sw_recipe *recipe,
                                 const sw_decoder *constants) {
    if (recipe != NULL) OK(sw_quantize_types(d, recipe, s->ranges, &err));
    for (uint32_t i = 0; recipe != NULL && i < d->n_constants; i++) {
        sw_tensor *t = d->constants[i];
        if (constants != NULL) {
            assert_string_equal(t->name, constants->constants[i]->name);
            *t = *constants->constants[i];
            continue;
        }
        void *data = sw_arena_alloc(&d->arena, (size_t)sw_tensor_bytes(t));
        assert_non_null(data);
        OK(sw_quantize_constant(d, t, data, NULL, NULL, &err));
        t->data = data;
    }
    OK(sw_decoder_verify(d, &err));
}

#endif
