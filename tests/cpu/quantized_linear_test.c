/* FullyConnected and MatMul of the quantized kernels against sums in 64-bit integers. */
#include "quantized_ops.h"
#include "small_graph.h"

#if defined(__aarch64__)
static const char *const isas[] = {"scalar", "neon", "dotprod", "i8mm"};
#else
static const char *const isas[] = {"scalar", "avx2", "avx512"};
#endif

/* The rule of docs/numerics.md, "Matrix products", in its own words: the multiplier to so many bits, the
 * largest power of two that keeps a step of the sum within the limit, the sum cut to it, half of it added. */
static int32_t htp_integer(int64_t sum, long double multiplier, sw_dtype type, int32_t offset) {
    const long double one = type == SW_U16 ? 4194304 : 4096, limit = type == SW_U16 ? 1 / 128.0L : 1 / 8.0L;
    long double unit = 1, step = 1;
    while (multiplier / unit >= one) unit *= 2;
    while (multiplier / unit < one / 2) unit /= 2;
    while (multiplier * step > limit) step /= 2;
    while (multiplier * step * 2 <= limit) step *= 2;
    long double rounded = floorl(multiplier / unit + 0.5L) * unit;
    long double y = floorl((floorl((long double)sum / step) + 0.5L) * step * rounded + 0.5L) - offset;
    return y < 0 ? 0 : y > sw_dtype_max(type) ? sw_dtype_max(type) : (int32_t)y;
}

/* The sum that it is given: all of it, or for u16 what is left without the low 8 bits. */
static int64_t htp_sum(int64_t raw, int64_t share, sw_dtype type) {
    return type == SW_U8
               ? raw + share
               : (int64_t)(floorl((long double)raw / 256) + floorl(((long double)share + 127) / 256));
}

static void expect(const values *y, size_t i, int32_t want, const char *isa) {
    if (get(y, i) != want) fail_msg("%s, [%zu]: %d, wanted %d", isa, i, get(y, i), want);
}

typedef enum content { RANDOM, ALL_TOP_NEGATIVE, ALL_TOP_POSITIVE } content;

static void fully_connected(sw_dtype type, uint32_t rows, uint32_t in, uint32_t out, int32_t offset,
                            float y_scale, content c) {
    values x[2] = {MAKE(type, 0.0123f, offset, rows, in), MAKE(SW_S8, 1, 0, out, in)};
    values y = MAKE(type, y_scale, type == SW_U8 ? -100 : -30000, rows, out);
    float *scales = malloc(out * sizeof *scales);
    assert_non_null(scales);
    float largest = 0;
    for (uint32_t o = 0; o < out; o++) {
        scales[o] = 0.001f + 0.0001f * (float)(test_random() % 97);
        largest = scales[o] > largest ? scales[o] : largest;
    }
    x[1].t.channel_scales = scales;
    x[1].t.kind = SW_TENSOR_CONSTANT;
    fill(&x[0], 0, sw_dtype_max(type));
    fill(&x[1], -127, 127);
    if (c != RANDOM)
        for (size_t i = 0; i < count(&x[0]); i++) set(&x[0], i, sw_dtype_max(type));
    if (c != RANDOM)
        for (size_t i = 0; i < count(&x[1]); i++) set(&x[1], i, c == ALL_TOP_NEGATIVE ? -128 : 127);
    sw_op op = {.type = SW_OP_FULLY_CONNECTED, .name = "fc", .n_inputs = 2, .n_outputs = 1};
    for (size_t isa = 0; isa < sizeof isas / sizeof *isas; isa++) {
        setenv("SPILLWAY_ISA", isas[isa], 1);
        memset(y.data, 0, (size_t)sw_tensor_bytes(&y.t));
        run_op(&op, x, 2, &y, NULL);
        for (size_t r = 0; r < rows; r++)
            for (size_t o = 0; o < out; o++) {
                int64_t raw = 0, share = 0;
                for (size_t i = 0; i < in; i++) {
                    int64_t w = get(&x[1], o * in + i);
                    raw += w * get(&x[0], r * in + i);
                    share += w * offset;
                }
                float whole = x[0].t.encoding.scale * largest / y_scale;
                long double multiplier =
                    (long double)(whole * (scales[o] / largest)) * (type == SW_U16 ? 256 : 1);
                expect(&y, r * out + o,
                       htp_integer(htp_sum(raw, share, type), multiplier, type, y.t.encoding.offset),
                       isas[isa]);
            }
    }
    unsetenv("SPILLWAY_ISA");
    release(&x[0]), release(&x[1]), release(&y), free(scales);
}

static void fully_connected_is_exact(void **state) {
    (void)state;
    static const uint32_t lengths[] = {1, 31, 33, 64, 576, 577, 1536};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        fully_connected(SW_U8, 3, lengths[l], 21, -77, 0.003f * sqrtf((float)lengths[l]), RANDOM);
        fully_connected(SW_U16, 3, lengths[l], 21, -32511, 0.002f * sqrtf((float)lengths[l]), RANDOM);
    }
    fully_connected(SW_U16, 35, 64, 33, -1, 0.05f, RANDOM); /* more rows and channels than a tile */
    fully_connected(SW_U8, 35, 64, 33, 0, 0.05f, RANDOM);
}

static void fully_connected_saturates_and_holds_extremes(void **state) {
    (void)state;
    for (content c = ALL_TOP_NEGATIVE; c <= ALL_TOP_POSITIVE; c++) {
        fully_connected(SW_U8, 2, 1536, 5, 0, 1e-3f, c);  /* beyond the range */
        fully_connected(SW_U8, 2, 1536, 5, 0, 100.0f, c); /* within */
        fully_connected(SW_U16, 2, 1536, 5, 0, 1e-3f, c);
        fully_connected(SW_U16, 2, 1536, 5, -65535, 100.0f, c); /* q + offset = 0 */
        fully_connected(SW_U16, 2, 1536, 5, 0, 100.0f, c);
    }
}

/* By hand: one product, steps of powers of two, so that ties are exact. */
static void ties_go_up(void **state) {
    (void)state;
    static const struct {
        int32_t q_x, q_w, want; /* x: scale 1, offset -10; y: scale 2, offset -8 */
    } cases[] = {{11, 1, 9}, {11, -1, 8}, {13, 1, 10},     {13, -1, 7},
                 {12, 1, 9}, {12, -1, 7}, {255, 127, 255}, {255, -128, 0}};
    float one = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        values x[2] = {MAKE(SW_U8, 1, -10, 1, 1), MAKE(SW_S8, 1, 0, 1, 1)}, y = MAKE(SW_U8, 2, -8, 1, 1);
        x[1].t.channel_scales = &one;
        x[1].t.kind = SW_TENSOR_CONSTANT;
        set(&x[0], 0, cases[i].q_x), set(&x[1], 0, cases[i].q_w);
        sw_op op = {.type = SW_OP_FULLY_CONNECTED, .name = "fc", .n_inputs = 2, .n_outputs = 1};
        run_op(&op, x, 2, &y, NULL);
        assert_int_equal(get(&y, 0), cases[i].want);
        release(&x[0]), release(&x[1]), release(&y);
    }
}

/* Of a graph with a row a token only the rows asked for are computed, and they are the same. */
static void rows_not_asked_for_are_left(void **state) {
    (void)state;
    enum { TOKENS = 35, IN = 65, OUT = 40 };
    small_graph s;
    sw_device *device;
    sw_program *program;
    sw_error err = {SW_OK, ""};
    static int8_t w[OUT * IN];
    static float scales[OUT];
    static uint16_t x[TOKENS * IN], all[TOKENS * OUT], some[TOKENS * OUT];
    for (size_t i = 0; i < sizeof w; i++) w[i] = (int8_t)(test_random() % 255 - 127);
    for (size_t i = 0; i < TOKENS * IN; i++) x[i] = (uint16_t)test_random();
    for (size_t i = 0; i < OUT; i++) scales[i] = 0.01f;
    s = (small_graph){.names = 0};
    s.graph = sw_graph_create(&s.arena, "small", TOKENS, TOKENS);
    const uint32_t input = add_tensor(&s, SW_TENSOR_INPUT, SW_U16, DIMS(TOKENS, IN)),
                   weight = add_tensor(&s, SW_TENSOR_CONSTANT, SW_S8, DIMS(OUT, IN)),
                   output = add_tensor(&s, SW_TENSOR_OUTPUT, SW_U16, DIMS(TOKENS, OUT));
    s.graph->tensors[input]->encoding = (sw_encoding){1e-4f, -30000};
    s.graph->tensors[output]->encoding = (sw_encoding){3e-3f, -32768};
    s.graph->tensors[weight]->data = w, s.graph->tensors[weight]->channel_scales = scales;
    add_op(&s, SW_OP_FULLY_CONNECTED, output, INPUTS(input, weight));
    assert_true(sw_graph_seal(s.graph));
    assert_int_equal(sw_cpu_device_create(&device, NULL, &err), SW_OK);
    if (device->ops->load(device, s.graph, &program, &err) != SW_OK) fail_msg("%s", err.message);
    const sw_binding in = {x};
    assert_int_equal(device->ops->execute(program, &in, &(sw_binding){all}, NULL, NULL, &err), SW_OK);
    for (uint32_t n = 1; n <= TOKENS; n += 2) {
        memset(some, 0x5a, sizeof some);
        device->ops->limit_tokens(program, n);
        assert_int_equal(device->ops->execute(program, &in, &(sw_binding){some}, NULL, NULL, &err), SW_OK);
        assert_memory_equal(some, all, n * OUT * sizeof *some);
        for (size_t i = n * OUT; i < TOKENS * OUT; i++) assert_int_equal(some[i], 0x5a5a);
    }
    device->ops->unload(program);
    device->ops->destroy(device);
    small_graph_free(&s);
}

static void weight_without_values_is_refused(void **state) {
    (void)state;
    values x = MAKE(SW_U8, 1, 0, 1, 4), w = MAKE(SW_S8, 1, 0, 2, 4), y = MAKE(SW_U8, 1, 0, 1, 2);
    w.t.kind = SW_TENSOR_CONSTANT;
    sw_op op = {.type = SW_OP_FULLY_CONNECTED, .name = "fc", .n_inputs = 2, .n_outputs = 1};
    sw_op_call call = {.op = &op, .in = {&x.t, &w.t}, .out = &y.t};
    sw_arena arena = SW_ARENA_EMPTY;
    sw_error err;
    assert_true(sw_kernels_quantized[0].matches(&call));
    assert_int_equal(sw_kernels_quantized[0].prepare(&call, &arena, &err), SW_INVALID_ARGUMENT);
    x.t.dims[1] = 5; /* not the weight's length */
    assert_false(sw_kernels_quantized[0].matches(&call));
    sw_arena_free(&arena);
    release(&x), release(&w), release(&y);
}

static void matmul(sw_dtype a_type, sw_dtype b_type, uint32_t batch, uint32_t m, uint32_t k, uint32_t n,
                   bool transposed, float y_scale, int extreme, sw_pool *pool) {
    values in[2] = {MAKE(a_type, 0.01f, a_type == SW_U8 ? -101 : -25001, 1, batch, m, k),
                    transposed ? MAKE(b_type, 0.02f, b_type == SW_U8 ? -131 : -33001, 1, batch, n, k)
                               : MAKE(b_type, 0.02f, b_type == SW_U8 ? -131 : -33001, 1, batch, k, n)};
    values y = MAKE(a_type, y_scale, a_type == SW_U8 ? -120 : -31000, 1, batch, m, n);
    fill(&in[0], extreme ? sw_dtype_max(a_type) : 0, sw_dtype_max(a_type));
    fill(&in[1], extreme == 1 ? sw_dtype_max(b_type) : 0, extreme == 2 ? 0 : sw_dtype_max(b_type));
    sw_op op = {.type = SW_OP_MATMUL, .name = "mm", .n_inputs = 2, .n_outputs = 1};
    op.params.matmul.transpose_in1 = transposed;
    for (size_t isa = 0; isa < sizeof isas / sizeof *isas; isa++) {
        setenv("SPILLWAY_ISA", isas[isa], 1);
        memset(y.data, 0, (size_t)sw_tensor_bytes(&y.t));
        run_op(&op, in, 2, &y, pool);
        for (size_t e = 0; e < batch; e++)
            for (size_t r = 0; r < m; r++)
                for (size_t c = 0; c < n; c++) {
                    int64_t raw = 0, share = 0;
                    for (size_t t = 0; t < k; t++) {
                        int64_t b = get(&in[1], transposed ? (e * n + c) * k + t : (e * k + t) * n + c) +
                                    in[1].t.encoding.offset;
                        raw += get(&in[0], (e * m + r) * k + t) * b;
                        share += in[0].t.encoding.offset * b;
                    }
                    float multiplier = in[0].t.encoding.scale * in[1].t.encoding.scale / y_scale;
                    expect(&y, (e * m + r) * n + c,
                           htp_integer(htp_sum(raw, share, a_type),
                                       a_type == SW_U16 ? 256 * multiplier : multiplier, a_type,
                                       y.t.encoding.offset),
                           isas[isa]);
                }
    }
    unsetenv("SPILLWAY_ISA");
    release(&in[0]), release(&in[1]), release(&y);
}

static void matmul_is_exact(void **state) {
    (void)state;
    static const sw_dtype types[][2] = {{SW_U8, SW_U8}, {SW_U16, SW_U8}, {SW_U16, SW_U16}};
    sw_pool *pool;
    assert_int_equal(sw_pool_create(&pool, 2, NULL), SW_OK);
    for (size_t t = 0; t < 3; t++) {
        float step = types[t][0] == SW_U8 ? 0.3f : types[t][1] == SW_U8 ? 1.0f : 60.0f;
        for (int transposed = 0; transposed < 2; transposed++) {
            matmul(types[t][0], types[t][1], 3, 17, 64, 33, transposed, step * 8, 0, pool);
            matmul(types[t][0], types[t][1], 1, 1, 577, 3, transposed, step * 24, 0, NULL);
            matmul(types[t][0], types[t][1], 2, 3, 1, 1, transposed, step, 0, pool);
            for (int extreme = 1; extreme <= 2; extreme++) {
                matmul(types[t][0], types[t][1], 1, 2, 31, 2, transposed, step * 1e4f, extreme, NULL);
                matmul(types[t][0], types[t][1], 1, 2, 31, 2, transposed, 1e-3f, extreme, NULL);
            }
        }
    }
    sw_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fully_connected_is_exact),
                                       cmocka_unit_test(fully_connected_saturates_and_holds_extremes),
                                       cmocka_unit_test(ties_go_up),
                                       cmocka_unit_test(rows_not_asked_for_are_left),
                                       cmocka_unit_test(weight_without_values_is_refused),
                                       cmocka_unit_test(matmul_is_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
