/* quantized_matmul.c: y = requantize(a . b) of two activations, u8 or u16, each with an offset.
 *
 * The dot product at hand is of u8 and s8 rows, so a becomes u8 rows, as many as it has bytes, and b becomes
 * s8 rows of its columns: u8 b = 128 + s8; u16 b = 32896 + 256 * s8 + s8. The constants go into sums of rows:
 *   sum (a + oa)(b + ob) = sum a b' + (ob + c) * sum a + oa * sum b' + k * oa * (ob + c),   b = b' + c */
#include "cpu/dot.h"
#include "cpu/requantize.h"

typedef struct shape {
    size_t batch, m, k, n;
    size_t a_planes, b_planes;
} shape;

static shape shape_of(const sw_op_call *call) {
    const sw_tensor *a = call->in[0], *b = call->in[1];
    bool transposed = call->op->params.matmul.transpose_in1;
    shape s = {1, a->dims[a->rank - 2], a->dims[a->rank - 1], b->dims[b->rank - (transposed ? 2 : 1)], 1, 1};
    for (uint32_t i = 0; i + 2 < a->rank; i++) s.batch *= a->dims[i];
    if (a->dtype == SW_U16) s.a_planes = 2;
    if (b->dtype == SW_U16) s.b_planes = 2;
    return s;
}

bool sw_quantized_matmul_matches(const sw_op_call *call) {
    const sw_tensor *a = call->in[0], *b = call->in[1], *y = call->out;
    if (!sw_is_unsigned_quantized(a) || !sw_is_unsigned_quantized(b) || y->dtype != a->dtype || a->rank < 2 ||
        b->rank != a->rank || y->rank != a->rank)
        return false;
    for (uint32_t i = 0; i + 2 < a->rank; i++)
        if (b->dims[i] != a->dims[i] || y->dims[i] != a->dims[i]) return false;
    shape s = shape_of(call);
    size_t terms = b->dims[b->rank - (call->op->params.matmul.transpose_in1 ? 1 : 2)];
    return terms == s.k && s.k <= SW_DOT_MAX_TERMS && y->dims[y->rank - 2] == s.m && sw_last_dim(y) == s.n;
}

/* The dot product, chosen once. */
sw_code sw_quantized_matmul_prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    sw_dot_u8s8 **dot = sw_arena_alloc(arena, sizeof *dot);
    if (dot == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    *dot = sw_dot_choose();
    call->prepared = dot;
    return SW_OK;
}

/* Each batch entry: a's rows [m][planes][k], b's rows [n][planes][k], then the sums of each row, 64-bit. */
static size_t entry_bytes(const shape *s) {
    size_t bytes = s->m * s->a_planes * s->k + s->n * s->b_planes * s->k;
    return sw_align64(bytes) + (s->m + s->n) * sizeof(int64_t);
}

size_t sw_quantized_matmul_scratch(const sw_op_call *call) {
    shape s = shape_of(call);
    return s.batch * sw_align64(entry_bytes(&s));
}

typedef struct job {
    const sw_op_call *call;
    shape s;
    size_t stride; /* of an entry in scratch */
    sw_dot_u8s8 *dot;
} job;

static void pack_a(const job *j, size_t entry, uint8_t *rows, int64_t *sums) {
    const size_t k = j->s.k;
    for (size_t r = 0; r < j->s.m; r++) {
        int64_t sum = 0;
        size_t at = (entry * j->s.m + r) * k;
        if (j->s.a_planes == 1) {
            const uint8_t *a = (const uint8_t *)j->call->in_data[0] + at;
            uint8_t *row = rows + r * k;
            for (size_t t = 0; t < k; t++) sum += row[t] = a[t];
        } else {
            const uint16_t *a = (const uint16_t *)j->call->in_data[0] + at;
            uint8_t *high = rows + 2 * r * k, *low = high + k;
            for (size_t t = 0; t < k; t++) {
                high[t] = (uint8_t)(a[t] >> 8), low[t] = (uint8_t)(a[t] & 255);
                sum += a[t];
            }
        }
        sums[r] = sum;
    }
}

/* The byte q of b as s8: q - 128. */
static int8_t centred(unsigned q) {
    return (int8_t)((int)q - 128);
}

static void pack_b(const job *j, size_t entry, int8_t *rows, int64_t *sums) {
    const size_t k = j->s.k, n = j->s.n, planes = j->s.b_planes;
    const bool transposed = j->call->op->params.matmul.transpose_in1;
    const size_t row_step = transposed ? k : 1, term_step = transposed ? 1 : n;
    for (size_t r = 0; r < n; r++) sums[r] = 0;
    /* The outer loop is over memory rows of b, so that it is read in order. */
    for (size_t outer = 0; outer < (transposed ? n : k); outer++)
        for (size_t inner = 0; inner < (transposed ? k : n); inner++) {
            size_t r = transposed ? outer : inner, t = transposed ? inner : outer;
            size_t at = entry * k * n + r * row_step + t * term_step;
            if (planes == 1) {
                int8_t v = centred(((const uint8_t *)j->call->in_data[1])[at]);
                rows[r * k + t] = v;
                sums[r] += v;
            } else {
                unsigned q = ((const uint16_t *)j->call->in_data[1])[at];
                int8_t high = centred(q >> 8), low = centred(q & 255);
                rows[2 * r * k + t] = high;
                rows[(2 * r + 1) * k + t] = low;
                sums[r] += 256 * high + low;
            }
        }
}

enum { A_ROWS_PER_TILE = 16, B_ROWS_PER_TILE = 16 };

static void entries(void *context, size_t begin, size_t end) {
    const job *j = context;
    const shape *s = &j->s;
    const sw_tensor *ta = j->call->in[0], *tb = j->call->in[1], *y = j->call->out;
    const int64_t oa = ta->encoding.offset;
    const int64_t ob = tb->encoding.offset + (s->b_planes == 1 ? 128 : 32896);
    /* Single precision and this order, as the HTP's. */
    const float multiplier = ta->encoding.scale * tb->encoding.scale / y->encoding.scale;
    const sw_requantizer q = sw_requantizer_of(multiplier, y->dtype);
    const int32_t offset = y->encoding.offset, max = sw_dtype_max(y->dtype);
    int32_t sums[2 * A_ROWS_PER_TILE * 2 * B_ROWS_PER_TILE];
    const size_t step = 2 * B_ROWS_PER_TILE;
    for (size_t e = begin; e < end; e++) {
        uint8_t *a = (uint8_t *)j->call->scratch + e * j->stride;
        int8_t *b = (int8_t *)(a + s->m * s->a_planes * s->k);
        size_t bytes = s->m * s->a_planes * s->k + s->n * s->b_planes * s->k;
        int64_t *a_sums = (int64_t *)(void *)(a + sw_align64(bytes)), *b_sums = a_sums + s->m;
        pack_a(j, e, a, a_sums);
        pack_b(j, e, b, b_sums);
        for (size_t r0 = 0; r0 < s->m; r0 += A_ROWS_PER_TILE)
            for (size_t c0 = 0; c0 < s->n; c0 += B_ROWS_PER_TILE) {
                size_t nr = s->m - r0 < A_ROWS_PER_TILE ? s->m - r0 : A_ROWS_PER_TILE;
                size_t nc = s->n - c0 < B_ROWS_PER_TILE ? s->n - c0 : B_ROWS_PER_TILE;
                j->dot(a + r0 * s->a_planes * s->k, nr * s->a_planes, b + c0 * s->b_planes * s->k,
                       nc * s->b_planes, s->k, sums, step);
                for (size_t r = 0; r < nr; r++)
                    for (size_t c = 0; c < nc; c++) {
                        int64_t sum = 0;
                        for (size_t pa = 0; pa < s->a_planes; pa++) {
                            int64_t row = 0;
                            for (size_t pb = 0; pb < s->b_planes; pb++)
                                row = 256 * row + sums[(r * s->a_planes + pa) * step + c * s->b_planes + pb];
                            sum = 256 * sum + row;
                        }
                        sum += ob * a_sums[r0 + r];
                        int64_t share = oa * (b_sums[c0 + c] + (int64_t)s->k * ob);
                        sum = y->dtype == SW_U16 ? sw_wide_sum(sum, share) : sum + share;
                        sw_store_unsigned(j->call->out_data, y->dtype, (e * s->m + r0 + r) * s->n + c0 + c,
                                          sw_requantize(q, sum, offset, max));
                    }
            }
    }
}

void sw_quantized_matmul_run(const sw_op_call *call) {
    job j = {call, shape_of(call), 0, *(sw_dot_u8s8 **)call->prepared};
    j.stride = sw_align64(entry_bytes(&j.s));
    sw_pool_for(call->pool, j.s.batch, 1, entries, &j);
}
