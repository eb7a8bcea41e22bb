/* sqnr.c: keeps every float value of a window, then compares as the quantized graph runs. */
#include "cli/sqnr.h"

#include <stdlib.h>
#include <string.h>

#include "cli/score.h"
#include "device/border.h"
#include "quant/groups.h"
#include "quant/window.h"
#include "runtime/session.h"

enum { BLOCK = 1024 }; /* values that are turned to float at a time */

typedef struct measurement {
    sw_sqnr_table *table;
    sw_arena values;    /* of the float graph */
    sw_names names;     /* of the tensors kept */
    const float **kept; /* [capacity] by index in names */
    uint64_t *counts;   /* [capacity] values */
    uint32_t capacity;
    sw_groups groups; /* of the float graph */
    sw_error error;   /* the first failure: an observer can't return one */
} measurement;

static void fail(measurement *m) {
    if (m->error.code == SW_OK) SW_FAIL(&m->error, SW_NO_MEMORY, "no memory for the values of a window");
}

static bool wanted(measurement *m, const sw_tensor *t) {
    if (t->role != SW_ROLE_ACTIVATION && t->role != SW_ROLE_KV) return false;
    sw_range_kind kind = sw_groups_kind(&m->groups, t->range);
    return kind == SW_RANGE_SEEN || kind == SW_RANGE_KV || kind == SW_RANGE_UNIT;
}

static void keep(measurement *m, const sw_tensor *t, const void *data) {
    if (!wanted(m, t) || sw_names_find(&m->names, t->name) != UINT32_MAX) return;
    size_t bytes = (size_t)sw_tensor_bytes(t);
    float *copy = sw_arena_alloc(&m->values, bytes);
    uint32_t i = sw_names_add(&m->names, t->name);
    if (copy == NULL || i == UINT32_MAX || i >= m->capacity) {
        fail(m);
        return;
    }
    memcpy(copy, data, bytes);
    m->kept[i] = copy, m->counts[i] = sw_tensor_elements(t);
}

/* The graph's inputs are looked at where the first op reads them. */
static void keep_values(void *context, const sw_graph *graph, const sw_op *op, const void *const *values) {
    measurement *m = context;
    for (uint32_t i = 0; i < op->n_inputs && m->error.code == SW_OK; i++)
        if (graph->tensors[op->inputs[i]]->kind == SW_TENSOR_INPUT)
            keep(m, graph->tensors[op->inputs[i]], values[op->inputs[i]]);
    if (m->error.code == SW_OK && !sw_op_get_info(op->type)->movement)
        keep(m, graph->tensors[op->outputs[0]], values[op->outputs[0]]);
    sw_drop_read_weights(NULL, graph, op, values);
}

/* Layer and kind of "layer_<i>.<kind>"; other names are kinds of no layer. */
static void split_name(sw_tensor_sqnr *row) {
    row->layer = -1, row->kind = row->name;
    if (strncmp(row->name, "layer_", 6) != 0) return;
    char *end;
    unsigned long layer = strtoul(row->name + 6, &end, 10);
    if (end[0] != '.' || layer > INT32_MAX) return;
    row->layer = (int)layer, row->kind = end + 1;
}

static void measure_tensor(measurement *m, const sw_tensor *t, const char *op, const void *data) {
    uint32_t index = sw_names_find(&m->names, t->name);
    if (index == UINT32_MAX || m->kept[index] == NULL || m->counts[index] != sw_tensor_elements(t)) return;
    const float *exact = m->kept[index];
    const uint8_t *at = data;
    double signal = 0, noise = 0, own_noise = 0;
    for (uint64_t begin = 0; begin < m->counts[index]; begin += BLOCK) {
        float computed[BLOCK], own[BLOCK];
        _Alignas(8) uint8_t integers[BLOCK * sizeof(float)];
        size_t n = m->counts[index] - begin < BLOCK ? (size_t)(m->counts[index] - begin) : BLOCK;
        sw_dequantize_row(t, at + begin * sw_dtype_bytes(t->dtype), n, computed);
        sw_quantize_row(t, exact + begin, n, integers);
        sw_dequantize_row(t, integers, n, own);
        for (size_t i = 0; i < n; i++) {
            double x = (double)exact[begin + i], d = x - (double)computed[i], o = x - (double)own[i];
            signal += x * x, noise += d * d, own_noise += o * o;
        }
    }
    m->kept[index] = NULL; /* once */
    sw_tensor_sqnr *row = &m->table->rows[m->table->count];
    *row = (sw_tensor_sqnr){.name = sw_arena_strdup(&m->table->arena, t->name),
                            .op = op,
                            .dtype = t->dtype,
                            .sqnr_db = sw_decibels(signal, noise),
                            .own_db = sw_decibels(signal, own_noise)};
    if (row->name == NULL) {
        fail(m);
        return;
    }
    split_name(row);
    m->table->count++;
}

static void compare_values(void *context, const sw_graph *graph, const sw_op *op, const void *const *values) {
    measurement *m = context;
    for (uint32_t i = 0; i < op->n_inputs && m->error.code == SW_OK; i++)
        if (graph->tensors[op->inputs[i]]->kind == SW_TENSOR_INPUT)
            measure_tensor(m, graph->tensors[op->inputs[i]], "input", values[op->inputs[i]]);
    if (m->error.code == SW_OK)
        measure_tensor(m, graph->tensors[op->outputs[0]], sw_op_get_info(op->type)->name,
                       values[op->outputs[0]]);
}

static sw_code run(measurement *m, const sw_decoder *decoder, sw_observer *observer, sw_device *device,
                   const int32_t *ids, uint32_t n_tokens, float *logits, sw_error *err) {
    sw_session *session;
    SW_TRY(sw_session_create(&session, decoder, device, err));
    sw_session_observe(session, observer, m);
    sw_code code = sw_session_feed_all(session, ids, n_tokens, logits, err);
    sw_session_destroy(session);
    if (code == SW_OK && m->error.code != SW_OK) {
        if (err != NULL) *err = m->error;
        code = m->error.code;
    }
    return code;
}

static int worst_first(const void *a, const void *b) {
    const sw_tensor_sqnr *x = a, *y = b;
    if (x->sqnr_db != y->sqnr_db) return x->sqnr_db < y->sqnr_db ? -1 : 1;
    return strcmp(x->name, y->name);
}

sw_code sw_sqnr_measure(sw_sqnr_table *out, const sw_decoder *exact, const sw_decoder *quantized,
                        sw_device *device, const int32_t *ids, uint32_t n_tokens, sw_error *err) {
    *out = (sw_sqnr_table){0};
    measurement m = {.table = out, .capacity = exact->graphs[0]->n_tensors, .names = SW_NAMES_EMPTY};
    SW_TRY(sw_groups_init(&m.groups, exact->graphs, 1, err));
    m.kept = sw_arena_array(&m.values, m.capacity, sizeof *m.kept);
    m.counts = sw_arena_array(&m.values, m.capacity, sizeof *m.counts);
    out->rows = sw_arena_array(&out->arena, m.capacity, sizeof *out->rows);
    float *logits = sw_arena_array(&m.values, (size_t)n_tokens * exact->hparams.vocab, sizeof *logits);
    sw_code code = SW_OK;
    if (m.kept == NULL || m.counts == NULL || out->rows == NULL || logits == NULL)
        code = SW_FAIL(err, SW_NO_MEMORY, "no memory for the values of a window");
    if (code == SW_OK) code = run(&m, exact, keep_values, device, ids, n_tokens, logits, err);
    if (code == SW_OK) code = run(&m, quantized, compare_values, device, ids, n_tokens, logits, err);
    if (code == SW_OK && out->count > 1) qsort(out->rows, out->count, sizeof *out->rows, worst_first);
    sw_groups_free(&m.groups);
    sw_names_free(&m.names);
    sw_arena_free(&m.values);
    return code;
}

sw_code sw_sqnr_of_model(sw_sqnr_table *out, const sw_quantized_model *q, const sw_decoder *constants,
                         const sw_checkpoint *checkpoint, const sw_window *window, sw_error *err) {
    *out = (sw_sqnr_table){0};
    uint32_t n = window->n_tokens < SW_SQNR_WINDOW_TOKENS ? window->n_tokens : SW_SQNR_WINDOW_TOKENS;
    sw_decoder exact, quantized = {0};
    SW_TRY(sw_window_decoder_build(&exact, q->model, &q->sink, n, err));
    sw_code code = sw_window_decoder_quantize(&quantized, q, n, constants, checkpoint->pool, err);
    if (code == SW_OK) code = sw_sqnr_measure(out, &exact, &quantized, checkpoint->cpu, window->ids, n, err);
    sw_decoder_free(&exact);
    sw_decoder_free(&quantized);
    return code;
}

void sw_sqnr_table_free(sw_sqnr_table *table) {
    sw_arena_free(&table->arena);
    *table = (sw_sqnr_table){0};
}

/* The row that comes next behind `before` in the order of own_db, then of the table; NULL at the end. */
static const sw_tensor_sqnr *next_by_own(const sw_sqnr_table *table, const sw_tensor_sqnr *before) {
    const sw_tensor_sqnr *best = NULL;
    for (const sw_tensor_sqnr *r = table->rows; r < table->rows + table->count; r++) {
        if (before != NULL && (r->own_db < before->own_db || (r->own_db == before->own_db && r <= before)))
            continue;
        if (best == NULL || r->own_db < best->own_db) best = r;
    }
    return best;
}

const char *sw_sqnr_worst(const sw_sqnr_table *table, bool own, char out[SW_SQNR_LINE_BYTES]) {
    const sw_tensor_sqnr *row = NULL;
    int used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < table->count && i < SW_SQNR_WORST; i++) {
        row = own ? next_by_own(table, row) : &table->rows[i];
        used += snprintf(out + used, SW_SQNR_LINE_BYTES - (size_t)used, "%s%.*s %.1f", i > 0 ? ", " : "",
                         SW_NAME_BYTES, row->name, own ? row->own_db : row->sqnr_db);
    }
    return out; /* five names and numbers fit */
}

void sw_sqnr_print(const sw_sqnr_table *table, FILE *stream) {
    char line[SW_SQNR_LINE_BYTES];
    fprintf(stream, "%-28s %-20s %-4s %9s %14s\n", "tensor", "op", "type", "SQNR dB", "own rounding");
    for (uint32_t i = 0; i < table->count; i++) {
        const sw_tensor_sqnr *r = &table->rows[i];
        fprintf(stream, "%-28s %-20s %-4s %9.1f %14.1f\n", r->name, r->op, sw_dtype_name(r->dtype),
                r->sqnr_db, r->own_db);
    }
    fprintf(stream, "the worst by their own rounding: %s\n", sw_sqnr_worst(table, true, line));
}
