/* A graph gives the same integers in fewer steps: attention run as one step against its ops one by one, which
 * is what an observer sees. */
#include "small_graph.h"

#include <stdlib.h>

#include "cpu/program.h"

/* q + 0 -> q_rope; k_all, v_all of cache and new; scores, mask, Softmax, context. */
typedef struct attention_case {
    sw_dtype type;
    uint32_t heads, group, n, cache, d;
    bool per_head;                  /* each head's K and V sliced out */
    int32_t k_offset;               /* of K and V */
    float mask_scale, scores_scale; /* the blocked entry is mask_scale * -max */
    bool fuses;
} attention_case;

typedef struct fixture {
    small_graph s;
    const attention_case *c;
    uint32_t inputs[7], outputs[4], n_outputs; /* q, zero, mask, k and v cache, k and v new */
    void *data[7];
} fixture;

static uint32_t quantized(fixture *f, sw_tensor_kind kind, sw_dtype type, float scale, int32_t offset,
                          size_t rank, const uint32_t *dims) {
    uint32_t t = add_tensor(&f->s, kind, type, rank, dims);
    f->s.graph->tensors[t]->encoding = (sw_encoding){scale, offset};
    return t;
}

static uint32_t activation(fixture *f, sw_tensor_kind kind, float scale, int32_t offset, size_t rank,
                           const uint32_t *dims) {
    const bool wide = f->c->type == SW_U16;
    return quantized(f, kind, f->c->type, wide ? scale : 256 * scale, wide ? offset : offset / 256, rank,
                     dims);
}

static uint32_t kv(fixture *f, sw_tensor_kind kind, uint32_t heads, uint32_t rows) {
    return quantized(f, kind, SW_U8, 0.02f, f->c->k_offset, DIMS(1, heads, rows, f->c->d));
}

/* All of K or V of one head (or of all): [cache][new]. */
static uint32_t all_of(fixture *f, uint32_t cache, uint32_t fresh, uint32_t head) {
    const attention_case *c = f->c;
    uint32_t heads = c->heads;
    if (c->per_head) {
        const uint32_t whole[2] = {cache, fresh}, rows[2] = {c->cache, c->n};
        uint32_t piece[2];
        for (int i = 0; i < 2; i++) {
            if (rows[i] == 0) continue;
            piece[i] = kv(f, SW_TENSOR_NATIVE, 1, rows[i]);
            sw_op *slice = add_op(&f->s, SW_OP_STRIDED_SLICE, piece[i], INPUTS(whole[i]));
            const uint32_t begin[] = {0, head, 0, 0}, end[] = {1, head + 1, rows[i], c->d};
            memcpy(slice->params.strided_slice.begin, begin, sizeof begin);
            memcpy(slice->params.strided_slice.end, end, sizeof end);
        }
        cache = piece[0], fresh = piece[1], heads = 1;
    }
    if (c->cache == 0) return fresh;
    const uint32_t all = kv(f, SW_TENSOR_NATIVE, heads, c->cache + c->n);
    add_op(&f->s, SW_OP_CONCAT, all, INPUTS(cache, fresh))->params.concat.axis = 2;
    return all;
}

static void attend(fixture *f, uint32_t q, uint32_t k, uint32_t v, uint32_t heads) {
    const attention_case *c = f->c;
    const uint32_t C = c->cache + c->n, rows = c->group * c->n;
    const uint32_t scores_rows =
        activation(f, SW_TENSOR_NATIVE, c->scores_scale, -40000, DIMS(1, heads, rows, C));
    add_op(&f->s, SW_OP_MATMUL, scores_rows, INPUTS(q, k))->params.matmul.transpose_in1 = true;
    const uint32_t scores =
        activation(f, SW_TENSOR_NATIVE, c->scores_scale, -40000, DIMS(1, heads * c->group, c->n, C));
    add_op(&f->s, SW_OP_RESHAPE, scores, INPUTS(scores_rows));
    const uint32_t masked =
        activation(f, SW_TENSOR_NATIVE, c->scores_scale, -40000, DIMS(1, heads * c->group, c->n, C));
    add_op(&f->s, SW_OP_ADD, masked, INPUTS(scores, f->inputs[2]));
    const uint32_t probabilities =
        activation(f, SW_TENSOR_NATIVE, 1.0f / 65536, 0, DIMS(1, heads * c->group, c->n, C));
    add_op(&f->s, SW_OP_SOFTMAX, probabilities, INPUTS(masked))->params.softmax.beta = 0.125f;
    const uint32_t rows_again = activation(f, SW_TENSOR_NATIVE, 1.0f / 65536, 0, DIMS(1, heads, rows, C));
    add_op(&f->s, SW_OP_RESHAPE, rows_again, INPUTS(probabilities));
    const uint32_t out = activation(f, SW_TENSOR_OUTPUT, 1e-4f, -31000, DIMS(1, heads, rows, c->d));
    add_op(&f->s, SW_OP_MATMUL, out, INPUTS(rows_again, v));
    f->outputs[f->n_outputs++] = out;
}

static void build(fixture *f, const attention_case *c) {
    *f = (fixture){.c = c};
    small_graph_init(&f->s);
    const uint32_t rows = c->group * c->n, C = c->cache + c->n;
    f->inputs[0] = activation(f, SW_TENSOR_INPUT, 1e-3f, -33000, DIMS(1, c->heads, rows, c->d));
    f->inputs[1] = activation(f, SW_TENSOR_INPUT, 1e-3f, -30000, DIMS(1, c->heads, rows, c->d));
    f->inputs[2] = activation(f, SW_TENSOR_INPUT, c->mask_scale, -65535, DIMS(1, 1, c->n, C));
    f->inputs[3] = f->inputs[4] = UINT32_MAX;
    if (c->cache > 0) {
        f->inputs[3] = kv(f, SW_TENSOR_INPUT, c->heads, c->cache);
        f->inputs[4] = kv(f, SW_TENSOR_INPUT, c->heads, c->cache);
    }
    f->inputs[5] = kv(f, SW_TENSOR_INPUT, c->heads, c->n);
    f->inputs[6] = kv(f, SW_TENSOR_INPUT, c->heads, c->n);
    const uint32_t q = activation(f, SW_TENSOR_NATIVE, 2e-3f, -32000, DIMS(1, c->heads, rows, c->d));
    add_op(&f->s, SW_OP_ADD, q, INPUTS(f->inputs[0], f->inputs[1]));
    if (!c->per_head) {
        const uint32_t k = all_of(f, f->inputs[3], f->inputs[5], 0);
        attend(f, q, k, all_of(f, f->inputs[4], f->inputs[6], 0), c->heads);
        return;
    }
    for (uint32_t head = 0; head < c->heads; head++) {
        const uint32_t mine = activation(f, SW_TENSOR_NATIVE, 2e-3f, -32000, DIMS(1, 1, rows, c->d));
        sw_op *slice = add_op(&f->s, SW_OP_STRIDED_SLICE, mine, INPUTS(q));
        const uint32_t begin[] = {0, head, 0, 0}, end[] = {1, head + 1, rows, c->d};
        memcpy(slice->params.strided_slice.begin, begin, sizeof begin);
        memcpy(slice->params.strided_slice.end, end, sizeof end);
        const uint32_t k = all_of(f, f->inputs[3], f->inputs[5], head);
        attend(f, mine, k, all_of(f, f->inputs[4], f->inputs[6], head), 1);
    }
}

static void fill_inputs(fixture *f, uint32_t filled) {
    const attention_case *c = f->c;
    uint64_t seed = 7 + filled;
    for (int i = 0; i < 7; i++) {
        if (f->inputs[i] == UINT32_MAX) continue;
        const sw_tensor *t = f->s.graph->tensors[f->inputs[i]];
        const size_t n = (size_t)sw_tensor_elements(t);
        f->data[i] = malloc(n * sw_dtype_bytes(t->dtype));
        assert_non_null(f->data[i]);
        for (size_t j = 0; j < n; j++) {
            uint16_t q = (uint16_t)(32768 + 32767 * next_float(&seed));
            if (i == 2) { /* the mask: filled columns of the cache, then up to the row itself */
                const size_t r = j / (c->cache + c->n), column = j % (c->cache + c->n);
                const bool open = column < c->cache ? column < filled : column - c->cache <= r;
                q = open ? UINT16_MAX : 0;
            }
            if (t->dtype == SW_U16)
                ((uint16_t *)f->data[i])[j] = q;
            else
                ((uint8_t *)f->data[i])[j] = (uint8_t)(q >> 8);
        }
    }
}

static void nothing(void *context, const sw_graph *graph, const sw_op *op, const void *const *values) {
    (void)graph, (void)op, (void)values;
    ++*(unsigned *)context;
}

/* Both ways, with this much of the cache filled. */
static void compare(fixture *f, sw_pool *pool, uint32_t filled) {
    sw_error err = {.message = ""};
    sw_device *device;
    sw_program *program;
    sw_binding inputs[7], outputs[2][4];
    uint32_t n = 0;
    fill_inputs(f, filled);
    for (int i = 0; i < 7; i++)
        if (f->inputs[i] != UINT32_MAX) inputs[n++].data = f->data[i];
    assert_int_equal(sw_cpu_device_create(&device, pool, &err), SW_OK);
    if (device->ops->load(device, f->s.graph, &program, &err) != SW_OK) fail_msg("%s", err.message);
    unsigned seen = 0;
    for (int way = 0; way < 2; way++) {
        for (uint32_t i = 0; i < f->n_outputs; i++)
            outputs[way][i].data = calloc(1, (size_t)sw_tensor_bytes(f->s.graph->tensors[f->outputs[i]]));
        if (device->ops->execute(program, inputs, outputs[way], way == 0 ? nothing : NULL, &seen, &err) !=
            SW_OK)
            fail_msg("%s", err.message);
    }
    assert_int_equal(seen, f->s.graph->n_ops);
    if (f->c->fuses)
        assert_true(program->n_run == 1 + f->n_outputs + (f->c->per_head ? f->c->heads : 0));
    else
        assert_true(program->n_run > 4);
    for (uint32_t i = 0; i < f->n_outputs; i++)
        assert_memory_equal(outputs[0][i].data, outputs[1][i].data,
                            sw_tensor_bytes(f->s.graph->tensors[f->outputs[i]]));
    for (uint32_t i = 0; i < f->n_outputs; i++) free(outputs[0][i].data), free(outputs[1][i].data);
    for (int i = 0; i < 7; i++) free(f->inputs[i] != UINT32_MAX ? f->data[i] : NULL);
    device->ops->unload(program);
    device->ops->destroy(device);
}

static void attention_in_one_step_is_the_same(void **state) {
    (void)state;
    static const attention_case cases[] = {
        {SW_U16, 3, 3, 1, 127, 64, false, -128, 0.01f, 3e-3f, true},
        {SW_U16, 3, 3, 1, 127, 64, true, -128, 0.01f, 3e-3f, true},
        {SW_U8, 3, 3, 1, 127, 64, false, -128, 0.01f, 3e-3f, true},
        {SW_U16, 2, 3, 17, 50, 64, false, -128, 0.01f, 3e-3f, true},
        {SW_U16, 2, 2, 32, 96, 40, true, -128, 0.01f, 3e-3f, true},
        {SW_U8, 2, 3, 9, 30, 33, true, -128, 0.01f, 3e-3f, true},
        {SW_U16, 1, 4, 8, 0, 64, false, -128, 0.01f, 3e-3f, true},
        {SW_U16, 3, 3, 1, 127, 64, false, -128, 1e-5f, 3e-3f, true}, /* a mask that hardly blocks */
        {SW_U16, 3, 3, 1, 127, 64, false, -128, 1e-2f, 1e-5f, true}, /* blocked ones have a probability */
        {SW_U8, 2, 1, 5, 59, 64, false, -128, 1e-2f, 1e-5f, true},
        {SW_U16, 3, 3, 1, 127, 64, false, -127, 0.01f, 3e-3f, false}, /* V - 128 isn't all there is to it */
    };
#if defined(__aarch64__)
    static const char *const isas[] = {"scalar", "neon", "dotprod", "i8mm"};
#else
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
#endif
    sw_pool *pool;
    assert_int_equal(sw_pool_create(&pool, 2, NULL), SW_OK);
    for (size_t isa = 0; isa < sizeof isas / sizeof *isas; isa++) {
        setenv("SPILLWAY_ISA", isas[isa], 1);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            for (uint32_t filled = 0; filled <= cases[i].cache; filled += cases[i].cache / 3 + 1) {
                fixture f;
                build(&f, &cases[i]);
                assert_true(sw_graph_seal(f.s.graph));
                compare(&f, i % 2 == 0 ? pool : NULL, filled);
                small_graph_free(&f.s);
            }
    }
    unsetenv("SPILLWAY_ISA");
    sw_pool_destroy(pool);
}

/* x -> Add -> gate -> Sigmoid -> Multiply(gate, sigmoid) -> Reshape -> Add: the Sigmoid isn't run, and nobody
 * misses it. */
static void a_sigmoid_inside_silu_is_left_out(void **state) {
    (void)state;
    static const attention_case u16 = {.type = SW_U16};
    fixture f = {.c = &u16};
    small_graph_init(&f.s);
    const uint32_t x = activation(&f, SW_TENSOR_INPUT, 1e-3f, -30000, DIMS(4, 8));
    const uint32_t gate = activation(&f, SW_TENSOR_NATIVE, 2e-3f, -30000, DIMS(4, 8));
    const uint32_t sigmoid = activation(&f, SW_TENSOR_NATIVE, 1.0f / 65536, 0, DIMS(4, 8));
    const uint32_t silu = activation(&f, SW_TENSOR_NATIVE, 1e-3f, -20000, DIMS(4, 8));
    const uint32_t flat = activation(&f, SW_TENSOR_NATIVE, 1e-3f, -20000, DIMS(2, 16));
    const uint32_t y = activation(&f, SW_TENSOR_OUTPUT, 2e-3f, -20000, DIMS(2, 16));
    add_op(&f.s, SW_OP_ADD, gate, INPUTS(x, x));
    add_op(&f.s, SW_OP_SIGMOID, sigmoid, INPUTS(gate));
    add_op(&f.s, SW_OP_MULTIPLY, silu, INPUTS(gate, sigmoid));
    add_op(&f.s, SW_OP_RESHAPE, flat, INPUTS(silu));
    add_op(&f.s, SW_OP_ADD, y, INPUTS(flat, flat));
    assert_true(sw_graph_seal(f.s.graph));

    uint16_t in[32], out[2][32];
    for (int i = 0; i < 32; i++) in[i] = (uint16_t)(2000 * i);
    sw_binding input = {in};
    sw_error err = {.message = ""};
    sw_device *device;
    sw_program *program;
    unsigned seen = 0;
    assert_int_equal(sw_cpu_device_create(&device, NULL, &err), SW_OK);
    assert_int_equal(device->ops->load(device, f.s.graph, &program, &err), SW_OK);
    assert_int_equal(program->n_run, 4);
    for (int way = 0; way < 2; way++) {
        sw_binding output = {out[way]};
        assert_int_equal(
            device->ops->execute(program, &input, &output, way == 0 ? nothing : NULL, &seen, &err), SW_OK);
    }
    assert_int_equal(seen, 5);
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    device->ops->unload(program);
    device->ops->destroy(device);
    small_graph_free(&f.s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention_in_one_step_is_the_same),
                                       cmocka_unit_test(a_sigmoid_inside_silu_is_left_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
