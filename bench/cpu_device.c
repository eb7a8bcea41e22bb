/* cpu_device.c: a bundle on the CPU device, with 1 thread and with all, beside this machine's limits.
 *
 *     bench_cpu_device BUNDLE [RUNS [THREADS...]]
 *
 * Prints JSON: load time, first token of a 46-token prompt, tokens/s of prefill (32, 128, 512 tokens, as far
 * as the context reaches) and of decode (up to 128), each as min, median and max of RUNS (5), by the wall's
 * clock and by the process's CPU time (which other programs on the machine disturb less; with several threads
 * it is the sum over them). The limits: reading as many bytes as a decoded token needs, a run a thread, and
 * int8 and int16 (u16 by s8) multiply-adds in the first-level cache. Measurements alternate, so that all see
 * the same disturbances: the bytes are read once before every READ_EVERY decoded tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/huge.h"
#include "base/log.h"
#include "bundle/bundle.h"
#include "cpu/cpu.h"
#include "cpu/int_isa.h"
#include "cpu/tasks.h"
#include "runtime/session.h"

enum { MOST_RUNS = 99, MOST_THREADS = 8, PROMPT = 46, DECODE = 128, READ_EVERY = 16 };

typedef struct clocks {
    double wall, cpu; /* seconds */
} clocks;

static clocks now(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const struct timeval u = usage.ru_utime, s = usage.ru_stime;
    return (clocks){(double)sw_now_us() * 1e-6,
                    (double)(u.tv_sec + s.tv_sec) + (double)(u.tv_usec + s.tv_usec) * 1e-6};
}

/* Amounts a second. */
typedef struct series {
    const char *name;
    size_t amount; /* of a run, 0: not measured */
    double wall[MOST_RUNS], cpu[MOST_RUNS];
} series;

static void record_time(series *s, size_t run, clocks time, double amount) {
    s->wall[run] = amount / (time.wall + 1e-9);
    s->cpu[run] = amount / (time.cpu + 1e-9);
}

static void add_since(clocks *time, clocks start) {
    const clocks end = now();
    time->wall += end.wall - start.wall, time->cpu += end.cpu - start.cpu;
}

static void record(series *s, size_t run, clocks start, double amount) {
    clocks time = {0, 0};
    add_since(&time, start);
    record_time(s, run, time, amount);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, size_t n) {
    qsort(values, n, sizeof *values, ascending);
    return values[n / 2];
}

static void print_series(series *s, size_t runs, const char *end) {
    const double wall = median(s->wall, runs), cpu = median(s->cpu, runs);
    printf("      \"%s\": {\"min\": %.4g, \"median\": %.4g, \"max\": %.4g, \"cpu_median\": %.4g, "
           "\"cpu_max\": %.4g}%s\n",
           s->name, s->wall[0], wall, s->wall[runs - 1], cpu, s->cpu[runs - 1], end);
}

/* ---- The limits ---- */

typedef struct reading {
    const sw_int_isa *isa;
    const int8_t *data;
    size_t bytes, runs;
} reading;

static bool is_matrix(const sw_graph *graph, size_t op) {
    const sw_op *o = &graph->ops[op];
    const sw_tensor *w = o->n_inputs > 1 ? graph->tensors[o->inputs[1]] : NULL;
    return w != NULL && w->kind == SW_TENSOR_CONSTANT && w->rank == 2 && w->data != NULL &&
           (o->type == SW_OP_FULLY_CONNECTED || o->type == SW_OP_MATMUL);
}

/* The bytes of an op's weights: a byte a value, or half of one. */
static size_t weight_bytes(const sw_graph *graph, size_t op) {
    const sw_tensor *w = graph->tensors[graph->ops[op].inputs[1]];
    const size_t bytes = (size_t)sw_tensor_bytes(w);
    return w->form.four_bit ? bytes / 2 : bytes;
}

static size_t bytes_a_token(const sw_graph *graph) {
    size_t bytes = 0;
    for (size_t i = 0; i < graph->n_ops; i++)
        if (is_matrix(graph, i)) bytes += weight_bytes(graph, i);
    return bytes;
}

/* Multiply-adds of a call of the graph, by its tokens. */
static size_t macs_a_token(const sw_graph *graph) {
    uint64_t macs = 0;
    for (size_t i = 0; i < graph->n_ops; i++) {
        if (!is_matrix(graph, i)) continue;
        const sw_op *op = &graph->ops[i];
        const sw_tensor *w = graph->tensors[op->inputs[1]], *out = graph->tensors[op->outputs[0]];
        macs += sw_tensor_elements(out) * (sw_tensor_elements(w) / out->dims[out->rank - 1]);
    }
    return (size_t)(macs / graph->ar_len);
}

static volatile int32_t sink; /* so that no loop is left out */

/* A run of the bytes a worker, in huge pages: nothing reads them faster here. */
static void read_run(void *context, size_t worker, size_t task) {
    const reading *r = context;
    (void)worker;
    enum { PIECE = 4096 };
    int32_t sum;
    const size_t pieces = r->bytes / PIECE;
    for (size_t i = pieces * task / r->runs; i < pieces * (task + 1) / r->runs; i++) {
        r->isa->row_sums(1, PIECE, r->data + i * PIECE, PIECE, 0, &sum);
        sink = sum;
    }
}

enum { PEAK_K = 512, PEAK_TILES = 4000 };

static void multiply_rows(const sw_int_isa *isa, size_t rows, bool wide) {
    static _Alignas(64) uint8_t x[SW_INT_ROWS * 2 * PEAK_K];
    static _Alignas(64) int8_t panel[PEAK_K * SW_INT_COLS];
    static const int32_t w_sums[SW_INT_COLS];
    int32_t out[SW_INT_ROWS * SW_INT_COLS];
    for (int i = 0; i < PEAK_TILES; i++) isa->tile(rows, x, wide, PEAK_K, panel, w_sums, out);
    sink = out[0];
}

static void multiply_int8(void *context, size_t worker, size_t task) {
    (void)worker, (void)task;
    multiply_rows(((const reading *)context)->isa, SW_INT_ROWS, false);
}

static void multiply_int16(void *context, size_t worker, size_t task) {
    (void)worker, (void)task;
    multiply_rows(((const reading *)context)->isa, SW_INT_ROWS / 2, true);
}

/* ---- The device ---- */

static sw_code feed(sw_session *session, size_t n, float *logits, sw_error *err) {
    int32_t ids[512];
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)(i * 7 % 1000 + 20);
    return sw_session_feed(session, ids, n, logits, NULL, err);
}

enum { DECODING = 3, FIRST, LOAD, READ, INT8, INT16, N_SERIES };

/* Decodes and reads in turns. */
static sw_code decode(sw_session *session, sw_pool *pool, const reading *r, float *logits, size_t run,
                      series *decoded, series *read, sw_error *err) {
    clocks decoding = {0, 0}, reads = {0, 0};
    size_t n_reads = 0;
    for (size_t i = 0; i < decoded->amount; i++) {
        clocks start = now();
        if (i % READ_EVERY == 0) {
            sw_tasks_run(pool, r->runs, read_run, (void *)(uintptr_t)r);
            add_since(&reads, start);
            n_reads++;
            start = now();
        }
        SW_TRY(feed(session, 1, logits, err));
        add_since(&decoding, start);
    }
    record_time(decoded, run, decoding, (double)decoded->amount);
    record_time(read, run, reads, (double)(n_reads * r->bytes) * 1e-9);
    return SW_OK;
}

/* Leaves out what the context has no room for: some positions may be taken from the start. */
static void fit(series *all, size_t room) {
    for (size_t i = 0; i < DECODING; i++)
        if (all[i].amount > room) all[i].amount = 0;
    if (all[DECODING].amount > room) all[DECODING].amount = room;
    if (PROMPT > room) all[FIRST].amount = 0;
}

static sw_code measure(const sw_bundle *bundle, unsigned threads, size_t runs, const char *end,
                       sw_error *err) {
    static float logits[1 << 18];
    const sw_decoder *decoder = &bundle->decoder;
    const sw_graph *decode_graph = decoder->graphs[decoder->n_graphs - 1];
    if (decoder->hparams.vocab > sizeof logits / sizeof *logits)
        return SW_FAIL(err, SW_UNSUPPORTED, "a vocabulary of %u", decoder->hparams.vocab);
    series all[] = {{"prefill_32", 32, {0}, {0}},       {"prefill_128", 128, {0}, {0}},
                    {"prefill_512", 512, {0}, {0}},     {"decode", DECODE, {0}, {0}},
                    {"first_token_per_s", 1, {0}, {0}}, {"load_per_s", 1, {0}, {0}},
                    {"read_gb_per_s", 1, {0}, {0}},     {"int8_gmac_per_s", 1, {0}, {0}},
                    {"int16_gmac_per_s", 1, {0}, {0}}};
    const size_t token_bytes = bytes_a_token(decode_graph);
    const double macs = (double)threads * PEAK_TILES * SW_INT_ROWS * SW_INT_COLS * PEAK_K * 1e-9;
    sw_pool *pool;
    sw_device *device = NULL;
    int8_t *bytes = sw_huge_alloc(token_bytes);
    if (bytes == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory for %zu bytes", token_bytes);
    memset(bytes, 1, token_bytes);
    SW_TRY(sw_pool_create(&pool, threads, err));
    sw_code code = sw_cpu_device_create(&device, pool, err);
    for (size_t run = 0; run < runs && code == SW_OK; run++) {
        sw_session *session = NULL;
        clocks start = now();
        code = sw_session_create(&session, decoder, device, err);
        record(&all[LOAD], run, start, 1);
        if (code == SW_OK && run == 0) fit(all, decoder->context_len - sw_session_filled(session));
        if (code == SW_OK) code = feed(session, 1, logits, err); /* pages mapped */
        for (size_t i = 0; i < DECODING && code == SW_OK; i++) {
            if (all[i].amount == 0) continue;
            sw_session_reset(session);
            start = now();
            code = feed(session, all[i].amount, logits, err);
            record(&all[i], run, start, (double)all[i].amount);
        }
        if (code == SW_OK && all[FIRST].amount > 0) {
            sw_session_reset(session);
            start = now();
            code = feed(session, PROMPT, logits, err);
            record(&all[FIRST], run, start, 1);
        }
        const reading r = {sw_int_best(), bytes, token_bytes, threads};
        sw_session_reset(session);
        if (code == SW_OK) code = decode(session, pool, &r, logits, run, &all[DECODING], &all[READ], err);
        sw_session_destroy(session);

        start = now();
        sw_tasks_run(pool, threads, multiply_int8, (void *)(uintptr_t)&r);
        record(&all[INT8], run, start, macs);
        start = now();
        sw_tasks_run(pool, threads, multiply_int16, (void *)(uintptr_t)&r);
        record(&all[INT16], run, start, macs / 2);
    }
    if (device != NULL) device->ops->destroy(device);
    sw_pool_destroy(pool);
    sw_huge_free(bytes, token_bytes);
    if (code != SW_OK) return code;

    printf("    {\n      \"threads\": %u,\n", threads);
    for (size_t i = 0; i < N_SERIES; i++)
        if (all[i].amount > 0) print_series(&all[i], runs, ",");
    const double limit = all[READ].wall[runs / 2] * 1e9 / (double)token_bytes;
    const double cpu_limit = all[READ].cpu[runs / 2] * 1e9 / (double)token_bytes;
    printf("      \"decode_limit\": %.4g,\n      \"decode_share_of_limit\": %.3f,\n"
           "      \"decode_cpu_share_of_limit\": %.3f\n    }%s\n",
           limit, all[DECODING].wall[runs / 2] / limit, all[DECODING].cpu[runs / 2] / cpu_limit, end);
    return SW_OK;
}

int main(int argc, char **argv) {
    const size_t runs = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 5;
    unsigned threads[MOST_THREADS] = {1, 2};
    int n_threads = argc > 3 ? argc - 3 : 2;
    for (int i = 3; i < argc && i < 3 + MOST_THREADS; i++)
        threads[i - 3] = (unsigned)strtoul(argv[i], NULL, 10);
    if (argc < 2 || runs < 1 || runs > MOST_RUNS || n_threads > MOST_THREADS) {
        fprintf(stderr, "usage: bench_cpu_device BUNDLE [RUNS [THREADS...]]\n");
        return 2;
    }
    sw_error err = {SW_OK, ""};
    sw_bundle bundle;
    if (sw_bundle_open(&bundle, argv[1], &err) != SW_OK) {
        fprintf(stderr, "bench_cpu_device: %s\n", err.message);
        return 1;
    }
    const sw_decoder *d = &bundle.decoder;
    printf("{\n  \"isa\": \"%s\",\n  \"context\": %u,\n  \"weight_bytes_per_token\": %zu,\n"
           "  \"prefill_macs_per_token\": %zu,\n  \"results\": [\n",
           sw_isa_name(sw_int_best()->needs), d->context_len, bytes_a_token(d->graphs[d->n_graphs - 1]),
           macs_a_token(d->graphs[0]));
    sw_code code = SW_OK;
    for (int i = 0; i < n_threads && code == SW_OK; i++)
        code = measure(&bundle, threads[i], runs, i + 1 < n_threads ? "," : "", &err);
    printf("  ]\n}\n");
    if (code != SW_OK) fprintf(stderr, "bench_cpu_device: %s\n", err.message);
    sw_bundle_close(&bundle);
    return code == SW_OK ? 0 : 1;
}
