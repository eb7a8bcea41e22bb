/* quantized_attention.c: attention of one KV head's group of rows, a part of its rows a task. K's rows meet
 * few rows of q where they lie; for many both K and V are packed into panels, as weights are. */
#include <string.h>

#include "cpu/attention.h"
#include "cpu/int_isa.h"
#include "cpu/quantized.h"
#include "cpu/requantize.h"
#include "cpu/tasks.h"

enum { ROWS = 24, FEW_ROWS = 3, CACHE_LINE = 64 };

bool sw_attention_matches(const sw_attention *a) {
    const sw_tensor *q = a->scores->in[0], *k = a->scores->in[1], *v = a->context->in[1];
    const sw_tensor *p = a->context->in[0], *mask = a->add->in[a->mask_first ? 0 : 1];
    const uint32_t last = q->rank - 1;
    return q->rank == 4 && k->rank == 4 && v->rank == 4 && mask->rank == 4 && q->dims[0] == 1 &&
           k->dtype == SW_U8 && v->dtype == SW_U8 && k->encoding.offset == -128 &&
           v->encoding.offset == -128 && a->scores->op->params.matmul.transpose_in1 &&
           !a->context->op->params.matmul.transpose_in1 && p->encoding.offset == 0 &&
           a->scores->out->dtype == q->dtype && p->dtype == q->dtype && mask->dtype == q->dtype &&
           sw_quantized_add_is_monotone(a->add) && k->dims[last] <= SW_INT_MAX_TERMS &&
           k->dims[2] <= SW_INT_MAX_TERMS && mask->dims[0] == 1 && mask->dims[1] == 1 &&
           mask->dims[3] == k->dims[2] && q->dims[2] % mask->dims[2] == 0 &&
           sw_last_dim(a->softmax->in[0]) == k->dims[2] &&
           sw_tensor_elements(a->softmax->in[0]) == sw_tensor_elements(a->scores->out);
}

typedef struct shape {
    size_t heads, rows, mask_rows, d, columns;
    bool wide;
} shape;

static shape shape_of(const sw_attention *a) {
    const sw_tensor *q = a->scores->in[0], *mask = a->add->in[a->mask_first ? 0 : 1];
    return (shape){q->dims[1], q->dims[2], mask->dims[2], q->dims[3], mask->dims[3], q->dtype == SW_U16};
}

/* A worker's scratch. */
typedef struct scratch {
    char *q, *p;             /* [ROWS] in the variant's form */
    char *scores, *masked;   /* [ROWS][columns] stored integers, those that are computed side by side */
    int32_t *k_sums, *share; /* of a panel of columns */
    uint8_t *values;         /* [columns][d]: what is computed of V */
    int8_t *panel;
} scratch;

static char *take(char *base, size_t *used, size_t bytes) {
    char *block = base != NULL ? base + *used : NULL;
    *used += sw_align64(bytes);
    return block;
}

/* Returns the bytes in use; base NULL only counts them. */
static size_t divide(const shape *s, char *base, scratch *parts) {
    const size_t panel_sums = SW_INT_COLS * sizeof(int32_t), element = s->wide ? 2 : 1;
    const size_t columns_panel = sw_int_panel_bytes(s->columns), head_panel = sw_int_panel_bytes(s->d);
    size_t used = 0;
    parts->q = take(base, &used, ROWS * sw_int_x_bytes(s->d));
    parts->p = take(base, &used, ROWS * sw_int_x_bytes(s->columns));
    parts->scores = take(base, &used, ROWS * s->columns * element);
    parts->masked = take(base, &used, s->columns * element);
    parts->k_sums = (int32_t *)(void *)take(base, &used, panel_sums);
    parts->share = (int32_t *)(void *)take(base, &used, panel_sums);
    parts->values = (uint8_t *)take(base, &used, s->columns * s->d);
    parts->panel = (int8_t *)take(base, &used, columns_panel > head_panel ? columns_panel : head_panel);
    return used;
}

static size_t worker_bytes(const shape *s) {
    scratch parts;
    return divide(s, NULL, &parts);
}

static size_t scratch_bytes(const sw_op_call *call) {
    const shape s = shape_of(call->prepared);
    return sw_pool_threads(call->pool) * worker_bytes(&s);
}

typedef struct job {
    const sw_op_call *call;
    const sw_attention *a;
    shape s;
    size_t parts; /* of a head's rows */
    const sw_int_isa *isa;
    sw_requantizer to_scores, to_context;
    int32_t blocked;    /* the masked value of a blocked column, whatever the score; -1: it depends on it */
    size_t live[2];     /* columns of each piece that are computed: a first run */
    size_t worker_size; /* of scratch */
} job;

/* Positions [0, n) of a piece of K or V of one head. */
static const uint8_t *piece_rows(const job *j, const sw_attention_pieces *p, uint32_t piece, size_t head) {
    const uint32_t input = p->input[piece];
    const sw_tensor *t = j->call->in[input];
    return (const uint8_t *)j->call->in_data[input] +
           (p->head[piece] + head) * ((size_t)t->dims[2] * t->dims[3]);
}

/* Constants of a requantizer for a panel's columns. */
typedef struct constants {
    float step[SW_INT_COLS], half[SW_INT_COLS];
    int32_t shift[SW_INT_COLS];
} constants;

static void repeat(sw_requantizer r, constants *c) {
    for (size_t i = 0; i < SW_INT_COLS; i++) {
        c->step[i] = r.step, c->half[i] = r.half;
        c->shift[i] = r.shift < 31 ? r.shift : 31; /* of an int32 no more is left by a longer one */
    }
}

/* Scores of `rows` rows of q against n positions of K, from column `first` of the scratch on. */
static void score(const job *j, scratch *w, size_t rows, const uint8_t *k, size_t n, size_t first) {
    const shape *s = &j->s;
    const size_t element = s->wide ? 2 : 1, most = s->wide ? SW_INT_ROWS / 2 : SW_INT_ROWS;
    const sw_tensor *q = j->a->scores->in[0], *y = j->a->scores->out;
    constants c;
    repeat(j->to_scores, &c);
    int32_t *k_sums = w->k_sums, *share = w->share, sums[SW_INT_ROWS * SW_INT_COLS];
    for (size_t c0 = 0; c0 < n; c0 += SW_INT_COLS) {
        const size_t cols = n - c0 < SW_INT_COLS ? n - c0 : SW_INT_COLS;
        const int8_t *k0 = (const int8_t *)k + c0 * s->d;
        j->isa->row_sums(cols, s->d, k0, s->d, 0x80, k_sums);
        for (size_t i = 0; i < cols; i++) {
            const int64_t offset = (int64_t)q->encoding.offset * k_sums[i];
            share[i] = (int32_t)(s->wide ? sw_wide_share(offset) : offset);
        }
        const sw_int_scaling scaling = {c.step, c.half, c.shift, share};
        if (rows > FEW_ROWS) j->isa->pack_rows(cols, s->d, k0, s->d, 0x80, w->panel);
        for (size_t r0 = 0; r0 < rows; r0 += most) {
            const size_t n_rows = rows - r0 < most ? rows - r0 : most;
            const char *x = w->q + r0 * sw_int_x_bytes(s->d);
            if (rows > FEW_ROWS)
                j->isa->tile(n_rows, x, s->wide, s->d, w->panel, k_sums, sums);
            else
                j->isa->dot(n_rows, x, s->wide, cols, s->d, k0, s->d, 0x80, k_sums, sums, SW_INT_COLS);
            for (size_t r = 0; r < n_rows; r++)
                j->isa->requantize(cols, sums + r * SW_INT_COLS, scaling, s->wide, y->encoding.offset,
                                   w->scores + ((r0 + r) * s->columns + first + c0) * element);
        }
    }
}

/* Masks and normalizes row r's scores into w->p. False where a column that isn't computed has a probability.
 */
static bool normalize(const job *j, scratch *w, size_t row, size_t r) {
    const shape *s = &j->s;
    const size_t element = s->wide ? 2 : 1, live = j->live[0] + j->live[1];
    char *scores = w->scores + r * s->columns * element;
    const char *mask = (const char *)j->call->in_data[1] + row % s->mask_rows * s->columns * element;
    const uint32_t first = j->a->k.n > 1 ? j->a->k.length[0] : 0; /* columns before the last piece */
    const size_t split = j->a->k.n > 1 ? j->live[0] : 0, rest = live - split;
    sw_quantized_add_row(j->a->add, j->a->mask_first, split, scores, mask, w->masked);
    sw_quantized_add_row(j->a->add, j->a->mask_first, rest, scores + split * element, mask + first * element,
                         w->masked + split * element);
    const sw_equal_columns blocked = {
        .split = split, .inner = first - split, .outer = s->columns - first - rest, .value = j->blocked};
    if (sw_quantized_softmax_row(j->a->softmax, w->masked, live, blocked, scores) != 0) return false;
    j->isa->load_x(live, s->wide, scores, w->p + r * sw_int_x_bytes(live));
    return true;
}

/* Sums of V by the probabilities in w->p, to the output. */
static void weigh(const job *j, scratch *w, size_t head, size_t begin, size_t rows) {
    const shape *s = &j->s;
    const sw_tensor *y = j->call->out;
    const size_t live = j->live[0] + j->live[1], most = s->wide ? SW_INT_ROWS / 2 : SW_INT_ROWS;
    const uint8_t *values = w->values;
    static const int32_t no_share[SW_INT_COLS];
    constants constant;
    repeat(j->to_context, &constant);
    const sw_int_scaling scaling = {constant.step, constant.half, constant.shift, no_share};
    int32_t sums[SW_INT_ROWS * SW_INT_COLS], v_sums[SW_INT_COLS] = {0};
    for (size_t c0 = 0; c0 < s->d; c0 += SW_INT_COLS) {
        const size_t cols = s->d - c0 < SW_INT_COLS ? s->d - c0 : SW_INT_COLS;
        j->isa->pack_columns(cols, live, values + c0, s->d, 0x80, w->panel);
        if (j->isa->panel_sums != NULL) j->isa->panel_sums(live, w->panel, v_sums);
        for (size_t r0 = 0; r0 < rows; r0 += most) {
            const size_t n = rows - r0 < most ? rows - r0 : most;
            j->isa->tile(n, w->p + r0 * sw_int_x_bytes(live), s->wide, live, w->panel, v_sums, sums);
            for (size_t r = 0; r < n; r++) {
                const size_t at = ((head * s->rows + begin + r0 + r) * s->d + c0) * (s->wide ? 2 : 1);
                j->isa->requantize(cols, sums + r * SW_INT_COLS, scaling, s->wide, y->encoding.offset,
                                   (char *)j->call->out_data + at);
            }
        }
    }
}

/* K and V were last read a token ago, and the weights have gone through the caches since: all lines are asked
 * for at once, before the first is needed. */
static void fetch(const job *j, const sw_attention_pieces *p, size_t head) {
    for (uint32_t piece = 0; piece < p->n; piece++) {
        const uint8_t *rows = piece_rows(j, p, piece, head);
        for (size_t i = 0; i < j->live[piece] * j->s.d; i += CACHE_LINE) __builtin_prefetch(rows + i);
    }
}

/* Row r of a group of heads, each with a row a token. */
static bool is_asked(const job *j, size_t r) {
    return r % j->s.mask_rows < sw_rows_asked(j->call, j->s.mask_rows);
}

static bool attend(const job *j, scratch *w, size_t head, size_t begin, size_t rows) {
    const shape *s = &j->s;
    const size_t element = s->wide ? 2 : 1;
    fetch(j, &j->a->k, head);
    fetch(j, &j->a->v, head);
    for (size_t r = 0; r < rows; r++) {
        const char *q = (const char *)j->call->in_data[0] + (head * s->rows + begin + r) * s->d * element;
        j->isa->load_x(s->d, s->wide, q, w->q + r * sw_int_x_bytes(s->d));
    }
    size_t first = 0;
    for (uint32_t piece = 0; piece < j->a->k.n; piece++) {
        score(j, w, rows, piece_rows(j, &j->a->k, piece, head), j->live[piece], first);
        memcpy(w->values + first * s->d, piece_rows(j, &j->a->v, piece, head), j->live[piece] * s->d);
        first += j->live[piece];
    }
    for (size_t r = 0; r < rows; r++)
        if (!normalize(j, w, begin + r, r) && is_asked(j, begin + r)) return false;
    weigh(j, w, head, begin, rows);
    return true;
}

/* Of n mask entries the length of the shortest first run outside of which all are 0. */
static size_t open_columns(const uint8_t *mask, size_t n, size_t element) {
    size_t bytes = n * element;
    uint64_t eight;
    for (; bytes >= 8; bytes -= 8) { /* a decoded token's mask is 0 for most of a long context */
        memcpy(&eight, mask + bytes - 8, 8);
        if (eight != 0) break;
    }
    while (bytes > 0 && mask[bytes - 1] == 0) bytes--;
    return (bytes + element - 1) / element;
}

/* The shortest first runs of each piece outside of which every row of `rows` is blocked. */
static void find_live(const job *j, size_t begin, size_t rows, size_t live[2]) {
    const shape *s = &j->s;
    const sw_attention_pieces *k = &j->a->k;
    size_t start = 0;
    live[1] = 0;
    for (uint32_t piece = 0; piece < k->n; start += k->length[piece], piece++) {
        size_t most = 0;
        for (size_t r = begin; r < begin + rows && most < k->length[piece]; r++) {
            const size_t at = r % s->mask_rows * s->columns + start;
            const size_t element = s->wide ? 2 : 1;
            const uint8_t *mask = (const uint8_t *)j->call->in_data[1] + at * element;
            most = most + open_columns(mask + most * element, k->length[piece] - most, element);
        }
        live[piece] = most;
    }
    if (live[0] + live[1] == 0) live[0] = 1; /* a row that is blocked as a whole */
}

static void part(void *context, size_t worker, size_t task) {
    job j = *(const job *)context;
    const size_t head = task / j.parts, begin = j.s.rows * (task % j.parts) / j.parts,
                 rows = j.s.rows * (task % j.parts + 1) / j.parts - begin;
    scratch w;
    divide(&j.s, (char *)j.call->scratch + worker * j.worker_size, &w);
    if (j.blocked >= 0) {
        find_live(&j, begin, rows, j.live);
        if (attend(&j, &w, head, begin, rows)) return;
    }
    atomic_store(j.a->blocked_counts, true);
    for (uint32_t i = 0; i < j.a->k.n; i++) j.live[i] = j.a->k.length[i];
    (void)attend(&j, &w, head, begin, rows); /* every column is computed: none can be missed */
}

static sw_requantizer requantizer_of(const sw_op_call *matmul) {
    /* Single precision and this order, as the HTP's. */
    const float multiplier =
        matmul->in[0]->encoding.scale * matmul->in[1]->encoding.scale / matmul->out->encoding.scale;
    return sw_requantizer_of(multiplier, matmul->out->dtype);
}

/* The sum of a score and a blocked mask entry: one value where the least and the greatest score agree. */
static int32_t blocked_value(const sw_attention *a, bool wide) {
    const uint16_t scores[2] = {0, UINT16_MAX}, mask[2] = {0, 0};
    const uint8_t scores_u8[2] = {0, UINT8_MAX}, mask_u8[2] = {0, 0};
    uint16_t sum[2];
    uint8_t sum_u8[2];
    if (wide) {
        sw_quantized_add_row(a->add, a->mask_first, 2, scores, mask, sum);
        return sum[0] == sum[1] ? sum[0] : -1;
    }
    sw_quantized_add_row(a->add, a->mask_first, 2, scores_u8, mask_u8, sum_u8);
    return sum_u8[0] == sum_u8[1] ? sum_u8[0] : -1;
}

static void run(const sw_op_call *call) {
    const sw_attention *a = call->prepared;
    job j = {.call = call, .a = a, .s = shape_of(a), .isa = sw_int_best()};
    j.parts = (j.s.rows + ROWS - 1) / ROWS;
    j.to_scores = requantizer_of(a->scores);
    j.to_context = requantizer_of(a->context);
    j.blocked = blocked_value(a, j.s.wide);
    j.worker_size = worker_bytes(&j.s);
    sw_tasks_run(call->pool, j.s.heads * j.parts, part, &j);
}

const sw_kernel sw_kernel_attention = {
    .name = "attention u8|u16", .scratch_bytes = scratch_bytes, .run = run};
