/* movement_test.c: each op that moves data, for elements of 1, 2 and 4 bytes, against
 * index arithmetic written here element by element. */
#include "small_graph.h"

static const sw_dtype types[] = {SW_U8, SW_S8, SW_U16, SW_F16, SW_F32, SW_I32};
enum { N_TYPES = sizeof types / sizeof *types, MOST_BYTES = 1 << 16 };

/* Distinct bytes as far as possible, so that a misplaced element shows. */
static void fill(uint8_t *data, size_t n, uint32_t seed) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (uint8_t)(seed >> 24);
    }
}

/* Index of the element at at[] in a dense tensor. */
static size_t flat(const uint32_t *dims, size_t rank, const size_t *at) {
    size_t index = 0;
    for (size_t i = 0; i < rank; i++) index = index * dims[i] + at[i];
    return index;
}

/* The element of an output's index, then the next one; false behind the last. */
static bool step(const uint32_t *dims, size_t rank, size_t *at) {
    for (size_t i = rank; i-- > 0;) {
        if (++at[i] < dims[i]) return true;
        at[i] = 0;
    }
    return false;
}

static void transpose_case(size_t rank, const uint32_t *dims, const uint32_t *perm) {
    for (size_t k = 0; k < N_TYPES; k++) {
        uint8_t in[MOST_BYTES], out[MOST_BYTES];
        uint32_t out_dims[SW_MAX_RANK];
        size_t element = sw_dtype_bytes(types[k]);
        fill(in, sizeof in, 1);
        for (size_t i = 0; i < rank; i++) out_dims[i] = dims[perm[i]];
        small_graph s;
        small_graph_init(&s);
        uint32_t x = add_tensor(&s, SW_TENSOR_INPUT, types[k], rank, dims);
        uint32_t y = add_tensor(&s, SW_TENSOR_OUTPUT, types[k], rank, out_dims);
        memcpy(add_op(&s, SW_OP_TRANSPOSE, y, INPUTS(x))->params.transpose.perm, perm, rank * sizeof *perm);
        assert_runs(&s, NULL, &(sw_binding){.data = in}, &(sw_binding){.data = out});
        size_t at[SW_MAX_RANK] = {0}, from[SW_MAX_RANK];
        do {
            for (size_t i = 0; i < rank; i++) from[perm[i]] = at[i];
            assert_memory_equal(out + flat(out_dims, rank, at) * element,
                                in + flat(dims, rank, from) * element, element);
        } while (step(out_dims, rank, at));
        small_graph_free(&s);
    }
}

static void transposes(void **state) {
    (void)state;
    transpose_case(DIMS(3, 5), (const uint32_t[]){1, 0});
    transpose_case(DIMS(1, 7, 3, 16), (const uint32_t[]){0, 2, 1, 3});
    transpose_case(DIMS(1, 3, 33, 31), (const uint32_t[]){0, 1, 3, 2});
    transpose_case(DIMS(2, 3, 4, 5), (const uint32_t[]){3, 1, 0, 2});
    transpose_case(DIMS(2, 1, 4), (const uint32_t[]){2, 0, 1});
    transpose_case(DIMS(2, 3, 4, 5), (const uint32_t[]){0, 1, 2, 3});
    transpose_case(DIMS(1), (const uint32_t[]){0});
}

static void reshape_keeps_the_order(void **state) {
    (void)state;
    uint8_t in[2 * 3 * 4 * 2], out[sizeof in];
    fill(in, sizeof in, 3);
    small_graph s;
    small_graph_init(&s);
    uint32_t x = add_tensor(&s, SW_TENSOR_INPUT, SW_U16, DIMS(2, 3, 4));
    uint32_t y = add_tensor(&s, SW_TENSOR_OUTPUT, SW_U16, DIMS(1, 6, 1, 4));
    add_op(&s, SW_OP_RESHAPE, y, INPUTS(x));
    assert_runs(&s, NULL, &(sw_binding){.data = in}, &(sw_binding){.data = out});
    assert_memory_equal(in, out, sizeof in);
    small_graph_free(&s);
}

/* A cache [1, 3, 5, 4], and new entries [1, 3, 2, 4]. */
static void concat_joins_cache_and_new_entries(void **state) {
    (void)state;
    enum { HEADS = 3, OLD = 5, NEW = 2, D = 4 };
    for (size_t k = 0; k < N_TYPES; k++) {
        size_t element = sw_dtype_bytes(types[k]);
        uint8_t cache[HEADS * OLD * D * 4], fresh[HEADS * NEW * D * 4], out[HEADS * (OLD + NEW) * D * 4];
        fill(cache, sizeof cache, 5), fill(fresh, sizeof fresh, 6);
        small_graph s;
        small_graph_init(&s);
        uint32_t a = add_tensor(&s, SW_TENSOR_INPUT, types[k], DIMS(1, HEADS, OLD, D));
        uint32_t b = add_tensor(&s, SW_TENSOR_INPUT, types[k], DIMS(1, HEADS, NEW, D));
        uint32_t y = add_tensor(&s, SW_TENSOR_OUTPUT, types[k], DIMS(1, HEADS, OLD + NEW, D));
        add_op(&s, SW_OP_CONCAT, y, INPUTS(a, b))->params.concat.axis = 2;
        const sw_binding inputs[] = {{cache}, {fresh}};
        assert_runs(&s, NULL, inputs, &(sw_binding){.data = out});
        for (size_t h = 0; h < HEADS; h++)
            for (size_t p = 0; p < OLD + NEW; p++) {
                const uint8_t *want =
                    p < OLD ? cache + (h * OLD + p) * D * element : fresh + (h * NEW + p - OLD) * D * element;
                assert_memory_equal(out + (h * (OLD + NEW) + p) * D * element, want, D * element);
            }
        small_graph_free(&s);
    }
}

static void concat_of_many_on_every_axis(void **state) {
    (void)state;
    for (uint32_t axis = 0; axis < 3; axis++) {
        uint32_t dims[3] = {2, 3, 4}, out_dims[3] = {2, 3, 4};
        uint8_t in[5][24], out[5 * 24];
        sw_binding inputs[5];
        uint32_t tensors[5];
        out_dims[axis] *= 5;
        small_graph s;
        small_graph_init(&s);
        for (uint32_t i = 0; i < 5; i++) {
            fill(in[i], sizeof in[i], i);
            inputs[i] = (sw_binding){.data = in[i]};
            tensors[i] = add_tensor(&s, SW_TENSOR_INPUT, SW_U8, 3, dims);
        }
        uint32_t y = add_tensor(&s, SW_TENSOR_OUTPUT, SW_U8, 3, out_dims);
        add_op(&s, SW_OP_CONCAT, y, 5, tensors)->params.concat.axis = axis;
        assert_runs(&s, NULL, inputs, &(sw_binding){.data = out});
        size_t at[3] = {0};
        do {
            size_t from[3] = {at[0], at[1], at[2]}, which = at[axis] / dims[axis];
            from[axis] %= dims[axis];
            assert_int_equal(out[flat(out_dims, 3, at)], in[which][flat(dims, 3, from)]);
        } while (step(out_dims, 3, at));
        small_graph_free(&s);
    }
}

static void slice_takes_a_part_of_one_head(void **state) {
    (void)state;
    enum { HEADS = 3, C = 5, D = 7 };
    uint16_t cache[HEADS * C * D], out[2 * 4];
    for (size_t i = 0; i < HEADS * C * D; i++) cache[i] = (uint16_t)i;
    small_graph s;
    small_graph_init(&s);
    uint32_t x = add_tensor(&s, SW_TENSOR_INPUT, SW_U16, DIMS(1, HEADS, C, D));
    uint32_t y = add_tensor(&s, SW_TENSOR_OUTPUT, SW_U16, DIMS(1, 1, 2, 4));
    sw_op *op = add_op(&s, SW_OP_STRIDED_SLICE, y, INPUTS(x));
    memcpy(op->params.strided_slice.begin, (const uint32_t[]){0, 1, 3, 2}, 16);
    memcpy(op->params.strided_slice.end, (const uint32_t[]){1, 2, 5, 6}, 16);
    assert_runs(&s, NULL, &(sw_binding){.data = cache}, &(sw_binding){.data = out});
    for (size_t p = 0; p < 2; p++)
        for (size_t d = 0; d < 4; d++) assert_int_equal(out[p * 4 + d], C * D + (p + 3) * D + d + 2);
    small_graph_free(&s);
}

static void gather_takes_rows_and_refuses_others(void **state) {
    (void)state;
    float in[4 * 3], out[2 * 3];
    fill_floats(in, 12, 1);
    int32_t index[2] = {3, 0};
    small_graph s;
    small_graph_init(&s);
    uint32_t x = add_tensor(&s, SW_TENSOR_INPUT, SW_F32, DIMS(4, 3));
    uint32_t i = add_tensor(&s, SW_TENSOR_INPUT, SW_I32, DIMS(2));
    uint32_t y = add_tensor(&s, SW_TENSOR_OUTPUT, SW_F32, DIMS(2, 3));
    add_op(&s, SW_OP_GATHER, y, INPUTS(x, i));
    const sw_binding inputs[] = {{in}, {index}};
    assert_runs(&s, NULL, inputs, &(sw_binding){.data = out});
    assert_memory_equal(out, in + 9, 12);
    assert_memory_equal(out + 3, in, 12);

    sw_error err;
    const int32_t bad[] = {-1, 4, INT32_MIN, INT32_MAX};
    for (size_t k = 0; k < 4; k++) {
        index[1] = bad[k];
        assert_int_equal(run_graph(&s, NULL, inputs, &(sw_binding){.data = out}, &err), SW_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "t1[1]"));
    }
    small_graph_free(&s);
}

/* Shapes and parameters that don't fit must be refused at load: the loops trust them. */
static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    uint8_t data[256] = {0};
    sw_error err;
    const sw_binding bindings[] = {{data}, {data}};
    for (int k = 0; k < 7; k++) {
        small_graph s;
        small_graph_init(&s);
        uint32_t x = add_tensor(&s, SW_TENSOR_INPUT, SW_U8, DIMS(2, 3));
        uint32_t y = k < 3 ? add_tensor(&s, SW_TENSOR_OUTPUT, SW_U8, DIMS(3, 2))
                           : add_tensor(&s, SW_TENSOR_OUTPUT, SW_U8, DIMS(2, 4));
        sw_op *op;
        if (k < 3) { /* perm twice the same, out of range, other shape */
            op = add_op(&s, SW_OP_TRANSPOSE, y, INPUTS(x));
            op->params.transpose.perm[0] = k == 1 ? 7 : 0;
            op->params.transpose.perm[1] = k == 0 ? 0 : k == 1 ? 0 : 1;
        } else if (k == 3) {
            add_op(&s, SW_OP_RESHAPE, y, INPUTS(x));
        } else if (k == 4) { /* ends behind the input */
            op = add_op(&s, SW_OP_STRIDED_SLICE, y, INPUTS(x));
            op->params.strided_slice.end[0] = 2, op->params.strided_slice.end[1] = 4;
        } else { /* 3 + 3 aren't 4; axis out of range */
            add_op(&s, SW_OP_CONCAT, y, INPUTS(x, x))->params.concat.axis = k == 5 ? 1 : 2;
        }
        assert_int_equal(run_graph(&s, NULL, bindings, bindings, &err), SW_UNSUPPORTED);
        small_graph_free(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transposes),
        cmocka_unit_test(reshape_keeps_the_order),
        cmocka_unit_test(concat_joins_cache_and_new_entries),
        cmocka_unit_test(concat_of_many_on_every_axis),
        cmocka_unit_test(slice_takes_a_part_of_one_head),
        cmocka_unit_test(gather_takes_rows_and_refuses_others),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
