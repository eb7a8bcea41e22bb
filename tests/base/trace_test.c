/* A trace of known spans on several threads, read back: it is JSON, events nest, names are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/threads.h"
#include "base/trace.h"

static const char path[] = "trace_test.json";

static void body(void *context, size_t begin, size_t end) {
    (void)context, (void)begin, (void)end;
    usleep(2000);
}

static json_t *load_events(void) {
    json_error_t why;
    json_t *o = json_load_file(path, 0, &why);
    if (o == NULL) fail_msg("%s, line %d", why.text, why.line);
    unlink(path);
    return o;
}

static void spans_nest(void **state) {
    (void)state;
    sw_error err;
    sw_pool *pool;
    assert_int_equal(sw_pool_create(&pool, 4, &err), SW_OK);
    sw_trace_end(sw_trace_begin("before", "op", NULL)); /* off: nothing */
    sw_trace_start();
    sw_trace_span outer = sw_trace_begin("kv \"forward\"\\\n", "graph", NULL);
    static const char *const names[] = {"layer_0.q", "layer_0.k"};
    for (int i = 0; i < 2; i++) {
        sw_trace_span span = sw_trace_begin(names[i], "op", "FullyConnected u16 s8");
        sw_pool_for(pool, 64, 1, body, NULL);
        sw_trace_end(span);
    }
    sw_pool_for(pool, 64, 1, body, NULL); /* part of the outer one */
    sw_trace_end(outer);
    if (sw_trace_write(path, &err) != SW_OK) fail_msg("%s", err.message);
    assert_false(sw_trace_is_on());
    sw_pool_destroy(pool);

    json_t *o = load_events();
    const json_t *list = json_object_get(o, "traceEvents");
    double begin[2] = {0}, end[2] = {0}, outer_begin = 0, outer_end = 0;
    size_t n_main = 0, n_workers[3] = {0};
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *e = json_array_get(list, i);
            if (strcmp(json_string_value(json_object_get(e, "ph")), "X") != 0) continue;
            const char *name = json_string_value(json_object_get(e, "name"));
            double ts = json_number_value(json_object_get(e, "ts"));
            double stop = ts + json_number_value(json_object_get(e, "dur"));
            int op = strcmp(name, names[0]) == 0 ? 0 : strcmp(name, names[1]) == 0 ? 1 : 2;
            if (op == 2) assert_string_equal(name, "kv \"forward\"\\\n");
            bool is_main = json_integer_value(json_object_get(e, "tid")) == 0;
            if (pass == 0 && is_main) {
                n_main++;
                if (op < 2)
                    begin[op] = ts, end[op] = stop;
                else
                    outer_begin = ts, outer_end = stop;
            } else if (pass == 1) { /* each inside what it is part of */
                n_workers[op] += !is_main;
                assert_true(ts >= (op < 2 ? begin[op] : outer_begin) - 0.002);
                assert_true(stop <= (op < 2 ? end[op] : outer_end) + 0.002);
            }
        }
    assert_int_equal(n_main, 3);
    assert_true(begin[0] >= outer_begin && end[0] <= begin[1] && end[1] <= outer_end);
    for (int op = 0; op < 3; op++) assert_true(n_workers[op] >= 1 && n_workers[op] <= 3);
    json_decref(o);
}

static void a_second_trace_is_its_own(void **state) {
    (void)state;
    sw_error err;
    sw_trace_start();
    sw_trace_end(sw_trace_begin("dropped", "op", NULL));
    assert_int_equal(sw_trace_write(NULL, &err), SW_OK);
    sw_trace_start();
    sw_trace_end(sw_trace_begin("kept", "op", NULL));
    assert_int_equal(sw_trace_write(path, &err), SW_OK);
    json_t *o = load_events();
    assert_int_equal(json_array_size(json_object_get(o, "traceEvents")), 3); /* two names, one span */
    json_decref(o);
    sw_trace_start();
    assert_int_equal(sw_trace_write("/nowhere/at/all/trace.json", &err), SW_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(spans_nest),
                                       cmocka_unit_test(a_second_trace_is_its_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
