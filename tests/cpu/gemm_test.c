/* gemm_test.c: the float inner loops and the matrix product around them. Right values are sums in double; the
 * variants must agree to the bit, whatever the number of threads. */
#include "small_graph.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/f16.h"
#include "cpu/gemm.h"

static const size_t lengths[] = {1, 7, 31, 32, 33, 64, 576, 577};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths, LONGEST = 577 };

static bool can_run(const sw_f32_isa *isa) {
    if (sw_cpu_has(isa->needs)) return true;
    print_message("%s: not on this machine\n", sw_isa_name(isa->needs));
    return false;
}

static void dot_is_the_same_in_every_variant(void **state) {
    (void)state;
    float a[LONGEST], b[LONGEST];
    fill_floats(a, LONGEST, 1), fill_floats(b, LONGEST, 2);
    for (size_t v = 0; v < sw_f32_variant_count; v++) {
        if (!can_run(sw_f32_variants[v])) continue;
        for (size_t l = 0; l < N_LENGTHS; l++) {
            double want = 0, size = 0;
            for (size_t i = 0; i < lengths[l]; i++)
                want += (double)a[i] * b[i], size += fabs((double)a[i] * b[i]);
            float got = sw_f32_variants[v]->dot(lengths[l], a, b);
            assert_true(fabs(got - want) <= FLT_EPSILON * ((double)lengths[l] / 32 + 5) * size);
            assert_true(got == sw_f32_scalar.dot(lengths[l], a, b));
        }
    }
}

static void tile_is_the_same_in_every_variant(void **state) {
    (void)state;
    enum { Y_STRIDE = 35, X_STRIDE = LONGEST + 2 };
    static float x[SW_TILE_ROWS * X_STRIDE];
    static _Alignas(64) float panel[LONGEST * SW_TILE_COLS];
    fill_floats(x, sizeof x / sizeof *x, 1), fill_floats(panel, sizeof panel / sizeof *panel, 2);
    for (size_t v = 0; v < sw_f32_variant_count; v++) {
        if (!can_run(sw_f32_variants[v])) continue;
        for (size_t rows = 1; rows <= SW_TILE_ROWS; rows++)
            for (size_t l = 0; l < 2 * N_LENGTHS; l++) {
                size_t k = lengths[l / 2];
                float got[SW_TILE_ROWS * Y_STRIDE], want[SW_TILE_ROWS * Y_STRIDE],
                    start[SW_TILE_ROWS * Y_STRIDE];
                fill_floats(start, SW_TILE_ROWS * Y_STRIDE, 3);
                memcpy(got, start, sizeof got), memcpy(want, start, sizeof want);
                sw_f32_scalar.tile(rows, k, x, X_STRIDE, panel, want, Y_STRIDE, l % 2);
                sw_f32_variants[v]->tile(rows, k, x, X_STRIDE, panel, got, Y_STRIDE, l % 2);
                assert_memory_equal(got, want, sizeof got); /* what lies beside the tile too */
                for (size_t r = 0; r < rows; r++)
                    for (size_t c = 0; c < SW_TILE_COLS; c++) {
                        double sum = l % 2 ? (double)start[r * Y_STRIDE + c] : 0, size = fabs(sum);
                        for (size_t i = 0; i < k; i++) {
                            double term = (double)x[r * X_STRIDE + i] * panel[i * SW_TILE_COLS + c];
                            sum += term, size += fabs(term);
                        }
                        assert_true(fabs(got[r * Y_STRIDE + c] - sum) <=
                                    FLT_EPSILON / 2 * (double)(k + 1) * size);
                    }
            }
    }
}

static void pack_transposes(void **state) {
    (void)state;
    static float columns[SW_PACK_COLS][LONGEST];
    static _Alignas(64) float panel[LONGEST * SW_TILE_COLS];
    const float *pointers[SW_PACK_COLS];
    for (size_t c = 0; c < SW_PACK_COLS; c++) {
        fill_floats(columns[c], LONGEST, c);
        pointers[c] = columns[c];
    }
    for (size_t v = 0; v < sw_f32_variant_count; v++)
        for (size_t l = 0; can_run(sw_f32_variants[v]) && l < N_LENGTHS; l++) {
            memset(panel, 0, sizeof panel);
            sw_f32_variants[v]->pack(lengths[l], pointers, panel + 8);
            for (size_t i = 0; i < LONGEST * SW_TILE_COLS; i++) {
                size_t row = i / SW_TILE_COLS, c = i % SW_TILE_COLS;
                bool inside = row < lengths[l] && c >= 8 && c < 16;
                assert_true(panel[i] == (inside ? columns[c - 8][row] : 0.0f));
            }
        }
}

/* Halves are exact floats; a float between two halves goes to the nearer one, in the middle to the even one.
 */
static void f16_conversions(void **state) {
    (void)state;
    static uint16_t halves[65536], back[65536];
    static float floats[65536];
    for (size_t i = 0; i < 65536; i++) halves[i] = (uint16_t)i;
    for (size_t v = 0; v < sw_f32_variant_count; v++) {
        const sw_f32_isa *isa = sw_f32_variants[v];
        if (!can_run(isa)) continue;
        isa->from_f16(65535, halves, floats); /* an odd number: the tail too */
        isa->to_f16(65535, floats, back);
        for (size_t i = 0; i < 65535; i++) {
            int exponent = (int)(i >> 10 & 31), mantissa = (int)(i & 1023);
            if (exponent == 31 && mantissa != 0) {
                assert_true(isnan(floats[i]) && (back[i] & 0x7fff) > 0x7c00);
                continue;
            }
            double want = exponent == 31  ? INFINITY
                          : exponent == 0 ? ldexp(mantissa, -24)
                                          : ldexp(1024 + mantissa, exponent - 25);
            assert_true((double)floats[i] == (i < 32768 ? want : -want) && back[i] == i);
        }
        for (uint16_t h = 0; h < 0x7bff; h++) {
            float middle = (floats[h] + floats[h + 1]) / 2;
            const float in[8] = {middle, nextafterf(middle, 0), nextafterf(middle, 1e6f), -middle, 0, 0, 0,
                                 0};
            uint16_t out[8], even = (uint16_t)(h + (h & 1));
            isa->to_f16(8, in, out);
            assert_int_equal(out[0], even);
            assert_int_equal(out[1], h);
            assert_int_equal(out[2], h + 1);
            assert_int_equal(out[3], even | 0x8000);
        }
    }
}

/* Every 101st float down to -105. The bound is exp_f32.h's. */
static void exp_is_within_its_bound(void **state) {
    (void)state;
    enum { N = 1001 };
    float x[N], y[N], first[N];
    for (size_t v = 0; v < sw_f32_variant_count; v++) {
        const sw_f32_isa *isa = sw_f32_variants[v];
        if (!can_run(isa)) continue;
        double worst = 0;
        for (uint32_t bits = 0; bits < 0x42d20000u; bits += 101 * N) {
            for (uint32_t i = 0; i < N; i++) x[i] = sw_bits_to_f32(bits + 101 * i);
            isa->exp(N, -1, 0, x, y);
            sw_f32_scalar.exp(N, -1, 0, x, first);
            assert_memory_equal(y, first, sizeof y);
            for (size_t i = 0; i < N; i++) {
                double want = exp(-(double)x[i]), error = fabs((double)y[i] - want);
                int exponent;
                frexp(want, &exponent);
                if (want < (double)FLT_MIN)
                    assert_true(error <= 1.5 * ldexp(1, -149));
                else
                    worst = fmax(worst, error / ldexp(1, exponent - 24));
            }
        }
        print_message("%s: largest error of exp: %.3f ulp\n", sw_isa_name(isa->needs), worst);
        assert_true(worst <= 1.03);
        const float ends[] = {0, -104, -FLT_MAX, -INFINITY, NAN};
        isa->exp(5, 1, 0, ends, y);
        assert_true(y[0] == 1 && y[1] == 0 && y[2] == 0 && y[3] == 0 && isnan(y[4]));
    }
}

typedef struct product {
    size_t batches, rows, cols, k;
} product;

static double reference(const product *p, const float *x, const float *b, bool transposed, size_t at,
                        double *size) {
    size_t c = at % p->cols, r = at / p->cols % p->rows, batch = at / p->cols / p->rows;
    double sum = 0;
    *size = 0;
    for (size_t i = 0; i < p->k; i++) {
        size_t in_b = transposed ? (batch * p->cols + c) * p->k + i : (batch * p->k + i) * p->cols + c;
        double term = (double)x[(batch * p->rows + r) * p->k + i] * b[in_b];
        sum += term, *size += fabs(term);
    }
    return sum;
}

static float *run_product(const product *p, const float *x, const float *b, bool transposed,
                          const sw_f32_isa *isa, sw_pool *pool) {
    size_t n = p->batches * p->rows * p->cols;
    size_t scratch_bytes = sw_gemm_scratch_bytes(p->k, sw_pool_threads(pool));
    float *y = malloc(n * sizeof *y);
    void *scratch = aligned_alloc(64, (scratch_bytes + 63) / 64 * 64);
    assert_true(y != NULL && scratch != NULL);
    memset(scratch, 0xff, scratch_bytes); /* NaNs: none may reach the result */
    sw_gemm gemm = {.batches = p->batches, .rows = p->rows, .cols = p->cols, .k = p->k, .x = x, .y = y};
    if (transposed)
        gemm.w = (sw_rows){.cols = p->k, .f32 = b};
    else
        gemm.b = b;
    sw_gemm_run(&gemm, isa, scratch, pool);
    free(scratch);
    return y;
}

static void products_are_right_and_the_same(void **state) {
    (void)state;
    static const product products[] = {{1, 1, 1, 1},    {1, 1, 577, 33}, {1, 3, 33, 577},  {1, 4, 31, 31},
                                       {1, 13, 65, 33}, {3, 2, 31, 64},  {2, 25, 577, 31}, {1, 5, 40, 2100},
                                       {1, 1, 64, 577}, {3, 40, 100, 64}};
    sw_pool *pool;
    sw_error err;
    assert_int_equal(sw_pool_create(&pool, 3, &err), SW_OK);
    for (size_t t = 0; t < 2 * sizeof products / sizeof *products; t++) {
        const product *p = &products[t / 2];
        bool transposed = t % 2;
        size_t n = p->batches * p->rows * p->cols;
        float *x = malloc(p->batches * p->rows * p->k * sizeof *x),
              *b = malloc(p->batches * p->k * p->cols * sizeof *b);
        assert_true(x != NULL && b != NULL);
        fill_floats(x, p->batches * p->rows * p->k, t), fill_floats(b, p->batches * p->k * p->cols, t + 100);
        float *want = run_product(p, x, b, transposed, &sw_f32_scalar, NULL);
        for (size_t i = 0; i < n; i++) {
            double size, exact = reference(p, x, b, transposed, i, &size);
            assert_true(fabs(want[i] - exact) <= FLT_EPSILON / 2 * (double)(p->k + 1) * size);
        }
        for (size_t v = 0; v < sw_f32_variant_count; v++)
            for (int threads = 0; sw_cpu_has(sw_f32_variants[v]->needs) && threads < 2; threads++) {
                float *got = run_product(p, x, b, transposed, sw_f32_variants[v], threads ? pool : NULL);
                assert_memory_equal(got, want, n * sizeof *got);
                free(got);
            }
        free(x), free(b), free(want);
    }
    sw_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dot_is_the_same_in_every_variant),
        cmocka_unit_test(tile_is_the_same_in_every_variant),
        cmocka_unit_test(pack_transposes),
        cmocka_unit_test(f16_conversions),
        cmocka_unit_test(exp_is_within_its_bound),
        cmocka_unit_test(products_are_right_and_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
