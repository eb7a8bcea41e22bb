/* gemm.c: GFLOP/s of the float matrix product at a small model's shapes, for every variant of this machine.
 *
 *     bench_gemm [GHz]
 *
 * The share of the peak assumes two FMA units a core of the variant's width (8 floats with AVX2, 16 with
 * AVX-512) at the given clock, 3.5 GHz by default. Processors that run a 512-bit FMA in two halves (Zen 4)
 * have half of that with AVX-512, so at most 50 % there. Best of 5 runs. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "cpu/gemm.h"

typedef struct shape {
    size_t rows, k, cols;
} shape;

static double best_gflops(const shape *s, const sw_f32_isa *isa, sw_pool *pool, const float *x,
                          const float *w, float *y, void *scratch) {
    sw_gemm gemm = {.batches = 1,
                    .rows = s->rows,
                    .cols = s->cols,
                    .k = s->k,
                    .x = x,
                    .y = y,
                    .w = {.cols = s->k, .f32 = w}};
    uint64_t best = UINT64_MAX;
    for (int run = 0; run < 5; run++) {
        uint64_t start = sw_now_us();
        sw_gemm_run(&gemm, isa, scratch, pool);
        uint64_t time = sw_now_us() - start;
        if (time < best) best = time;
    }
    return 2.0 * (double)s->rows * (double)s->cols * (double)s->k / (double)(best > 0 ? best : 1) / 1e3;
}

static sw_code measure(const shape *s, double ghz, sw_error *err) {
    sw_arena arena = SW_ARENA_EMPTY;
    float *x = sw_arena_array(&arena, s->rows * s->k, sizeof *x);
    float *w = sw_arena_array(&arena, s->cols * s->k, sizeof *w);
    float *y = sw_arena_array(&arena, s->rows * s->cols, sizeof *y);
    void *scratch = sw_arena_alloc(&arena, sw_gemm_scratch_bytes(s->k, 2));
    if (x == NULL || w == NULL || y == NULL || scratch == NULL) {
        sw_arena_free(&arena);
        return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < s->rows * s->k; i++) x[i] = (float)(i % 17) / 16 - 0.5f;
    for (size_t i = 0; i < s->cols * s->k; i++) w[i] = (float)(i % 13) / 12 - 0.5f;

    sw_code code = SW_OK;
    for (unsigned threads = 1; threads <= 2 && code == SW_OK; threads++) {
        sw_pool *pool;
        code = sw_pool_create(&pool, threads, err);
        if (code != SW_OK) break;
        for (size_t v = 0; v < sw_f32_variant_count; v++) {
            const sw_f32_isa *isa = sw_f32_variants[v];
            if (isa->needs == SW_ISA_SCALAR || !sw_cpu_has(isa->needs)) continue;
            double gflops = best_gflops(s, isa, pool, x, w, y, scratch);
            double peak = ghz * threads * 2 * 2 * (isa->needs == SW_ISA_AVX512 ? 16 : 8);
            printf("[%zu, %zu] x [%zu, %zu]^T  %-6s %u thread%s %7.1f GFLOP/s %4.0f %% of peak\n", s->rows,
                   s->k, s->cols, s->k, sw_isa_name(isa->needs), threads, threads > 1 ? "s" : " ", gflops,
                   100 * gflops / peak);
        }
        sw_pool_destroy(pool);
    }
    sw_arena_free(&arena);
    return code;
}

int main(int argc, char **argv) {
    static const shape shapes[] = {
        {512, 576, 1536}, {512, 1536, 576}, {512, 576, 49152}, {32, 576, 1536}, {1, 576, 49152}};
    double ghz = argc > 1 ? strtod(argv[1], NULL) : 3.5;
    if (!(ghz > 0)) {
        fprintf(stderr, "usage: bench_gemm [GHz]\n");
        return 2;
    }
    sw_error err;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (measure(&shapes[i], ghz, &err) != SW_OK) {
            fprintf(stderr, "bench_gemm: %s\n", err.message);
            return 1;
        }
    return 0;
}
