/* top_k_test.c: TopK on the CPU device against sorting all values, for every type and with many ties; what
 * doesn't fit is refused. */
#include "small_graph.h"

#include <math.h>
#include <stdlib.h>

#include "base/f16.h"

enum { ROWS = 3, N = 301, MOST_K = N };

static double values[ROWS * N]; /* what the types below hold exactly */

/* Descending; of equal values the one at the lower place first. */
static const double *sorted_row;
static int by_value(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (sorted_row[x] != sorted_row[y]) return sorted_row[x] > sorted_row[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void put(sw_dtype type, void *data, size_t i, double x) {
    switch (type) {
    case SW_U8:
        ((uint8_t *)data)[i] = (uint8_t)(x + 100);
        break;
    case SW_S8:
        ((int8_t *)data)[i] = (int8_t)x;
        break;
    case SW_U16:
        ((uint16_t *)data)[i] = (uint16_t)(300 * (x + 100));
        break;
    case SW_I32:
        ((int32_t *)data)[i] = (int32_t)x * 10000000;
        break;
    case SW_F16:
        ((uint16_t *)data)[i] = sw_f32_to_f16((float)x);
        break;
    default:
        ((float *)data)[i] = (float)x;
    }
}

static void small_top_k(small_graph *s, sw_dtype type, uint32_t k) {
    small_graph_init(s);
    uint32_t x = add_tensor(s, SW_TENSOR_INPUT, type, DIMS(ROWS, N));
    uint32_t y = add_tensor(s, SW_TENSOR_OUTPUT, type, DIMS(ROWS, k));
    uint32_t places = add_tensor(s, SW_TENSOR_OUTPUT, SW_I32, DIMS(ROWS, k));
    sw_op *op = add_op(s, SW_OP_TOP_K, y, INPUTS(x));
    op->outputs[1] = places, op->n_outputs = 2;
}

static void check_type(sw_dtype type, uint32_t k) {
    static _Alignas(8) char in[ROWS * N * 4], out[ROWS * MOST_K * 4], wanted[ROWS * MOST_K * 4];
    static int32_t places[ROWS * MOST_K], order[N];
    small_graph s;
    for (size_t i = 0; i < ROWS * N; i++) put(type, in, i, values[i]);
    small_top_k(&s, type, k);
    assert_runs(&s, NULL, &(sw_binding){.data = in}, ((sw_binding[]){{out}, {places}}));
    for (uint32_t r = 0; r < ROWS; r++) {
        sorted_row = values + r * N;
        for (int32_t i = 0; i < N; i++) order[i] = i;
        qsort(order, N, sizeof *order, by_value);
        for (uint32_t i = 0; i < k; i++) put(type, wanted, r * k + i, sorted_row[order[i]]);
        assert_memory_equal(places + r * k, order, k * sizeof *order);
    }
    assert_memory_equal(out, wanted, ROWS * k * sw_dtype_bytes(type));
    small_graph_free(&s);
}

static void the_greatest_come_in_order(void **state) {
    (void)state;
    static const sw_dtype types[] = {SW_U8, SW_S8, SW_U16, SW_I32, SW_F16, SW_F32};
    static const uint32_t ks[] = {1, 2, 40, N};
    for (int steps = 3; steps <= 200; steps += 197) { /* ties everywhere, and few */
        uint64_t seed = 11;
        for (size_t i = 0; i < ROWS * N; i++)
            values[i] = floor((double)next_float(&seed) * steps / 2) + 0.0; /* no -0 */
        for (size_t t = 0; t < 6; t++)
            for (size_t i = 0; i < 4; i++) check_type(types[t], ks[i]);
    }
}

/* Whoever draws a token must see what is wrong with the logits. */
static void infinities_have_their_place_and_nan_is_seen(void **state) {
    (void)state;
    float in[ROWS * N], out[ROWS * 2];
    int32_t places[ROWS * 2];
    small_graph s;
    for (size_t i = 0; i < ROWS * N; i++) in[i] = -INFINITY;
    in[7] = 3, in[N + 5] = INFINITY, in[N + 9] = -NAN, in[2 * N + 1] = -0.0f, in[2 * N] = 0.0f;
    small_top_k(&s, SW_F32, 2);
    assert_runs(&s, NULL, &(sw_binding){.data = in}, ((sw_binding[]){{out}, {places}}));
    static const int32_t wanted[] = {7, 0, 9, 5, 0, 1};
    assert_memory_equal(places, wanted, sizeof wanted);
    assert_true(out[0] == 3 && out[1] == -INFINITY && isnan(out[2]) && out[3] == INFINITY);
    small_graph_free(&s);
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    float data[ROWS * (N + 1)] = {0};
    const sw_binding outputs[] = {{data}, {data}};
    for (int k = 0; k < 5; k++) {
        small_graph s;
        sw_error err;
        small_top_k(&s, SW_F32, k == 0 ? N + 1 : 2);
        sw_tensor **t = s.graph->tensors;
        if (k == 1) t[2]->dtype = SW_F32;
        if (k == 2) t[2]->dims[1] = 3;
        if (k == 3) t[1]->dims[0] = t[2]->dims[0] = 2;
        if (k == 4) t[1]->dtype = SW_F16;
        if (run_graph(&s, NULL, &(sw_binding){.data = data}, outputs, &err) != SW_UNSUPPORTED)
            fail_msg("case %d runs", k);
        small_graph_free(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_greatest_come_in_order),
        cmocka_unit_test(infinities_have_their_place_and_nan_is_seen),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
