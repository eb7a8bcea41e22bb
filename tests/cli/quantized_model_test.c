/* Constants on their way to the sink while the next one is quantized: also where that one fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/quantized_model.h"
#include "tiny_model.h"

enum { TIMES = 200, FAILING = 3 };

typedef struct seen {
    const sw_tensor *constants[FAILING + 2];
    uint32_t n;
} seen;

static sw_code take(void *context, sw_tensor *t, const void *data, sw_error *err) {
    seen *s = context;
    (void)data, (void)err;
    if (s->n < FAILING + 2) s->constants[s->n++] = t;
    return SW_OK;
}

static void the_sink_gets_what_was_quantized_and_no_more(void **state) {
    (void)state;
    const sw_hparams hparams = tiny_hparams();
    tiny_model model;
    tiny_model_create(&model, &hparams);
    for (int i = 0; i < TIMES; i++) {
        sw_decoder d;
        sw_error err;
        seen s = {.n = 0};
        assert_int_equal(sw_window_decoder_build(&d, &model.model, NULL, 8, &err), SW_OK);
        sw_weight none = *d.constants[FAILING]->weight;
        none.cols = 0;
        d.constants[FAILING]->weight = &none;
        assert_int_equal(sw_quantize_constants(&d, NULL, NULL, true, take, &s, &err), SW_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, d.constants[FAILING]->name));
        assert_int_equal(s.n, FAILING);
        for (uint32_t k = 0; k < s.n; k++) assert_ptr_equal(s.constants[k], d.constants[k]);
        sw_decoder_free(&d);
    }
    tiny_model_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_sink_gets_what_was_quantized_and_no_more)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
