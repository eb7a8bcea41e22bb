/* compare.c: the CPU device against Qualcomm's emulator on the same bundle: logits step by step with the same
 * tokens, and single ops with the same inputs, so that one op's difference doesn't spread into the next
 * one's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/score.h"
#include "cli/self_check.h"
#include "device/border.h"
#include "graph/extract.h"

typedef struct op_difference {
    uint64_t ops, values, differing;
    double worst, sum; /* of absolute differences: steps of the output's encoding; float types: relative to
                          the greatest */
    char worst_op[SW_NAME_BYTES];
} op_difference;

typedef struct op_check {
    sw_device *emulator;
    uint32_t n_layers;
    op_difference by_type[SW_OP_COUNT];
    sw_code code; /* the first failure: an observer can't return one */
    sw_error *err;
} op_check;

/* Layers that are checked op by op: all would take many minutes. */
static bool chosen(const op_check *check, const char *name) {
    unsigned layer;
    if (sscanf(name, "layer_%u.", &layer) != 1) return true;
    return layer == 0 || layer == check->n_layers / 2 || layer == check->n_layers - 1;
}

static double value_at(const sw_tensor *t, const void *data, size_t i) {
    float f;
    if (t->dtype == SW_U8) return ((const uint8_t *)data)[i];
    if (t->dtype == SW_U16) return ((const uint16_t *)data)[i];
    sw_dequantize_row(t, (const uint8_t *)data + i * sw_dtype_bytes(t->dtype), 1, &f);
    return f;
}

static void count_differences(op_difference *d, const sw_tensor *t, const char *op_name, const void *a,
                              const void *b) {
    size_t n = (size_t)sw_tensor_elements(t);
    double unit = 1;
    if (!sw_dtype_quantized(t->dtype)) {
        unit = 0;
        for (size_t i = 0; i < n; i++) unit = fmax(unit, fabs(value_at(t, a, i)));
        if (unit == 0) unit = 1;
    }
    d->ops++, d->values += n;
    for (size_t i = 0; i < n; i++) {
        double difference = fabs(value_at(t, a, i) - value_at(t, b, i)) / unit;
        d->differing += difference != 0;
        d->sum += difference;
        if (difference <= d->worst && d->worst_op[0] != '\0') continue;
        d->worst = difference;
        snprintf(d->worst_op, sizeof d->worst_op, "%s", op_name);
    }
}

static sw_code check_op(op_check *check, const sw_graph *graph, const sw_op *op, const void *const *values) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_program *program = NULL;
    sw_binding inputs[SW_MAX_INPUTS] = {{0}}, output = {0};
    const sw_tensor *out = graph->tensors[op->outputs[0]];
    sw_graph *one = sw_graph_extract_op(&arena, graph, op);
    output.data = sw_arena_alloc(&arena, (size_t)sw_tensor_bytes(out));
    sw_code code = SW_OK;
    if (one == NULL || output.data == NULL) code = SW_FAIL(check->err, SW_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; code == SW_OK && i < one->n_inputs; i++) {
        uint32_t index = sw_graph_find(graph, one->tensors[one->inputs[i]]->name);
        inputs[i].data = (void *)(uintptr_t)values[index];
    }
    if (code == SW_OK) code = check->emulator->ops->load(check->emulator, one, &program, check->err);
    if (code == SW_OK) code = check->emulator->ops->execute(program, inputs, &output, NULL, NULL, check->err);
    if (code == SW_OK)
        count_differences(&check->by_type[op->type], out, op->name, values[op->outputs[0]], output.data);
    if (program != NULL) check->emulator->ops->unload(program);
    sw_arena_free(&arena);
    return code;
}

static void observe(void *context, const sw_graph *graph, const sw_op *op, const void *const *values) {
    op_check *check = context;
    if (check->code != SW_OK || sw_op_get_info(op->type)->movement || !chosen(check, op->name)) return;
    check->code = check_op(check, graph, op, values);
}

/* A difference of two logits that is larger than this many times the root mean square of the devices'
 * difference isn't noise. */
enum { CLEAR = 6 };

typedef struct step {
    size_t cpu_top, emulator_top;
    double gap, kl, sqnr_db; /* gap: between the CPU device's two greatest logits */
    double noise;            /* the greatest gap that the devices' difference may close */
} step;

/* How far the greatest logit is above the next. */
static double top_gap(const float *x, size_t n, size_t top) {
    float second = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (i != top && x[i] > second) second = x[i];
    return (double)x[top] - (double)second;
}

/* Leaves the tokens that both have a logit for, in place; returns how many. */
static size_t keep_common(float *cpu, float *emulator, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (cpu[i] == -INFINITY || emulator[i] == -INFINITY) continue;
        cpu[kept] = cpu[i], emulator[kept++] = emulator[i];
    }
    return kept;
}

static size_t greatest(const float *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static step compare_logits(const float *cpu, const float *emulator, size_t n) {
    step s;
    sw_score score;
    sw_score_compare(cpu, emulator, n, &s.cpu_top, &s.emulator_top, &score);
    s.gap = top_gap(cpu, n, s.cpu_top);
    s.kl = score.kl;
    s.sqnr_db = score.noise > 0 ? sw_decibels(score.signal, score.noise) : INFINITY;
    s.noise = CLEAR * sqrt(score.noise / (double)n);
    return s;
}

static double json_db(double db) {
    return isfinite(db) ? db : 999.0;
}

static void print_step(const sw_options *options, uint32_t number, const step *s) {
    if (options->json)
        printf("%s{\"step\": %u, \"cpu_top\": %zu, \"emulator_top\": %zu, \"gap\": %.6g, \"noise\": %.6g, "
               "\"kl\": %.6g, \"sqnr_db\": %.4g}",
               number > 0 ? ",\n  " : "{\"steps\": [\n  ", number, s->cpu_top, s->emulator_top, s->gap,
               s->noise, s->kl, json_db(s->sqnr_db));
    else
        printf("step %2u  cpu %6zu  emulator %6zu  %s  gap %7.4f, noise %6.4f  KL %.3e  SQNR %5.1f dB\n",
               number, s->cpu_top, s->emulator_top, s->cpu_top == s->emulator_top ? "same " : "OTHER", s->gap,
               s->noise, s->kl, s->sqnr_db);
    fflush(stdout);
}

static void print_ops(const sw_options *options, const op_check *check, bool quantized) {
    if (options->json)
        printf(",\n \"ops\": [");
    else
        printf("op by op, same inputs, layers 0, %u and %u; differences in %s:\n", check->n_layers / 2,
               check->n_layers - 1,
               quantized ? "steps of the output's encoding" : "parts of the output's greatest value");
    bool first = true;
    for (unsigned i = 0; i < SW_OP_COUNT; i++) {
        const op_difference *d = &check->by_type[i];
        if (d->ops == 0) continue;
        const char *name = sw_op_get_info((sw_op_type)i)->name;
        double share = (double)d->differing / (double)d->values, mean = d->sum / (double)d->values;
        if (options->json)
            printf("%s\n  {\"op\": \"%s\", \"count\": %llu, \"worst\": %.6g, \"mean\": %.6g, \"differing\": "
                   "%.6g, \"at\": \"%s\"}",
                   first ? "" : ",", name, (unsigned long long)d->ops, d->worst, mean, share, d->worst_op);
        else
            printf("  %-20s %4llu ops  worst %-8.4g mean %-8.3g differing %6.3f %%  worst at %s\n", name,
                   (unsigned long long)d->ops, d->worst, mean, 100 * share, d->worst_op);
        first = false;
    }
    if (options->json) printf("]");
}

/* Over all steps. A step is clear where the gap exceeds the noise. */
typedef struct summary {
    uint32_t steps, same, clear, clear_same;
    double kl, least_sqnr_db;
} summary;

static void sum_up(summary *sum, const step *s) {
    const bool same = s->cpu_top == s->emulator_top, clear = s->gap > s->noise;
    sum->steps++;
    sum->same += same, sum->clear += clear, sum->clear_same += clear && same;
    sum->kl += s->kl;
    sum->least_sqnr_db = sum->steps == 1 ? s->sqnr_db : fmin(sum->least_sqnr_db, s->sqnr_db);
}

static void print_summary(const sw_options *options, const summary *sum) {
    if (options->json)
        printf("],\n \"same_top\": %u, \"clear\": %u, \"clear_same_top\": %u, \"mean_kl\": %.6g, "
               "\"least_sqnr_db\": %.4g",
               sum->same, sum->clear, sum->clear_same, sum->kl / sum->steps, json_db(sum->least_sqnr_db));
    else
        printf("top-1 agreement %u of %u, %u of the %u whose gap exceeds the noise (%d times the root mean "
               "square difference); mean KL %.3e, least SQNR %.1f dB\n",
               sum->same, sum->steps, sum->clear_same, sum->clear, CLEAR, sum->kl / sum->steps,
               sum->least_sqnr_db);
}

/* The prompt's ids: the user's, or the one of the main job. */
static sw_code prompt_ids(const sw_options *options, sw_bundle *bundle, sw_ids *ids, sw_error *err) {
    const char *text = options->n_prompts > 0
                           ? options->prompts[0]
                           : "I would like to learn python, could you teach me with a simple example?";
    sw_tokenizer *tokenizer;
    SW_TRY(sw_cli_bundle_tokenizer(bundle, &tokenizer, err));
    sw_code code = sw_cli_first_turn(options, tokenizer, text, ids, err);
    sw_tokenizer_destroy(tokenizer);
    return code;
}

typedef struct pair {
    sw_device *cpu, *emulator;
    sw_session *on_cpu, *on_emulator;
    float *cpu_logits, *emulator_logits, *emulator_first; /* first: behind the prompt */
    uint32_t candidates;                                  /* that the graphs hand out; 0: all logits */
} pair;

/* Logits that can be compared. */
static sw_code check_both(const pair *p, size_t vocab, uint32_t number, sw_error *err) {
    char behind[64];
    snprintf(behind, sizeof behind, "of step %u on the CPU", number);
    SW_TRY(sw_check_logits(p->cpu_logits, vocab, p->candidates, behind, err));
    snprintf(behind, sizeof behind, "of step %u on the emulator", number);
    return sw_check_logits(p->emulator_logits, vocab, p->candidates, behind, err);
}

/* A prompt with other tokens in every place has other logits than the first one had. */
static sw_code check_another_prompt(pair *p, const sw_ids *prompt, size_t vocab, sw_error *err) {
    sw_ids other = {0};
    sw_code code = sw_ids_append(&other, prompt->data, prompt->count, err);
    for (size_t i = 0; code == SW_OK && i < other.count; i++)
        other.data[i] = (int32_t)(((size_t)other.data[i] + vocab / 2) % vocab);
    sw_session_reset(p->on_emulator);
    if (code == SW_OK)
        code = sw_session_feed(p->on_emulator, other.data, other.count, p->emulator_logits,
                               "another prompt on the emulator", err);
    if (code == SW_OK && memcmp(p->emulator_logits, p->emulator_first, vocab * sizeof(float)) == 0)
        code = SW_FAIL(
            err, SW_BAD_DATA,
            "two prompts of %zu other tokens have the same logits on the emulator, byte for byte: the "
            "graph doesn't look at its input",
            other.count);
    sw_ids_free(&other);
    return code;
}

/* Of candidates: KL and SQNR over the tokens that both hand out. */
static sw_code compare_step(pair *p, size_t vocab, step *out, sw_error *err) {
    const size_t cpu_top = greatest(p->cpu_logits, vocab), emulator_top = greatest(p->emulator_logits, vocab);
    size_t n = vocab;
    if (p->candidates > 0) n = keep_common(p->cpu_logits, p->emulator_logits, vocab);
    if (n == 0)
        return SW_FAIL(err, SW_BAD_DATA, "the CPU device and the emulator hand out no token in common");
    *out = compare_logits(p->cpu_logits, p->emulator_logits, n);
    out->cpu_top = cpu_top, out->emulator_top = emulator_top;
    return SW_OK;
}

static sw_code compare_steps(const sw_options *options, const sw_decoder *decoder, pair *p,
                             const sw_ids *prompt, op_check *check, sw_error *err) {
    const size_t vocab = decoder->hparams.vocab;
    const bool check_ops = options->ops == NULL || strcmp(options->ops, "on") == 0;
    summary sum = {0};
    const int32_t *ids = prompt->data;
    size_t n_ids = prompt->count;
    int32_t next;
    for (uint32_t i = 0; i <= options->tokens; i++) {
        /* Single ops: in the prompt's chunks and in the first decode step. */
        sw_session_observe(p->on_cpu, check_ops && i <= 1 ? observe : NULL, check);
        SW_TRY(sw_session_feed(p->on_cpu, ids, n_ids, p->cpu_logits, NULL, err));
        if (check->code != SW_OK) return check->code;
        SW_TRY(sw_session_feed(p->on_emulator, ids, n_ids, p->emulator_logits,
                               i == 0 ? "prompt on the emulator" : NULL, err));
        SW_TRY(check_both(p, vocab, i, err));
        if (i == 0) memcpy(p->emulator_first, p->emulator_logits, vocab * sizeof(float));
        step s = {0};
        SW_TRY(compare_step(p, vocab, &s, err));
        print_step(options, i, &s);
        sum_up(&sum, &s);
        next = (int32_t)s.cpu_top;
        ids = &next, n_ids = 1;
    }
    print_summary(options, &sum);
    if (check_ops) print_ops(options, check, sw_dtype_quantized(decoder->graphs[0]->tensors[0]->dtype));
    if (options->json) printf("}\n");
    if (p->candidates == 0)
        SW_TRY(check_another_prompt(p, prompt, vocab, err)); /* few may be alike by chance */
    if (sum.clear_same < sum.clear)
        return SW_FAIL(
            err, SW_BAD_DATA,
            "%u of %u positions have another likeliest token on the emulator, though the gap to the "
            "next one exceeds the noise",
            sum.clear - sum.clear_same, sum.clear);
    if (options->least_sqnr > 0 && sum.least_sqnr_db < (double)options->least_sqnr)
        return SW_FAIL(err, SW_BAD_DATA, "the least SQNR is %.1f dB, wanted %g", sum.least_sqnr_db,
                       (double)options->least_sqnr);
    return SW_OK;
}

sw_code sw_cmd_compare(const sw_options *options, sw_error *err) {
    if (options->n_prompts > 1)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "compare: %u values of --prompt, wanted at most one",
                       options->n_prompts);
    sw_bundle bundle;
    SW_TRY(sw_bundle_open(&bundle, options->operand, err));
    pair p = {.candidates = sw_decoder_candidates(&bundle.decoder)};
    sw_pool *pool = NULL;
    sw_ids ids = {0};
    op_check check = {.n_layers = bundle.decoder.hparams.n_layers, .err = err};
    size_t vocab = bundle.decoder.hparams.vocab;
    sw_code code = prompt_ids(options, &bundle, &ids, err);
    if (code == SW_OK && ids.count + options->tokens > bundle.decoder.context_len)
        code = SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "the prompt's %zu tokens and %u steps don't fit the context of %u", ids.count,
                       options->tokens, bundle.decoder.context_len);
    if (code == SW_OK) code = sw_pool_create(&pool, options->threads, err);
    if (code == SW_OK) code = sw_cli_open_device(options, &bundle, "cpu", pool, &p.cpu, err);
    if (code == SW_OK) code = sw_cli_open_device(options, &bundle, "htp-emulator", pool, &p.emulator, err);
    check.emulator = p.emulator;
    if (code == SW_OK) code = sw_session_create(&p.on_cpu, &bundle.decoder, p.cpu, err);
    if (code == SW_OK) code = sw_session_create(&p.on_emulator, &bundle.decoder, p.emulator, err);
    float *logits = malloc(3 * vocab * sizeof *logits);
    if (code == SW_OK && logits == NULL) code = SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    if (logits != NULL)
        p.cpu_logits = logits, p.emulator_logits = logits + vocab, p.emulator_first = logits + 2 * vocab;
    if (code == SW_OK) code = compare_steps(options, &bundle.decoder, &p, &ids, &check, err);
    free(logits);
    sw_session_destroy(p.on_cpu), sw_session_destroy(p.on_emulator);
    if (p.cpu != NULL) p.cpu->ops->destroy(p.cpu);
    if (p.emulator != NULL) p.emulator->ops->destroy(p.emulator);
    sw_pool_destroy(pool);
    sw_ids_free(&ids);
    sw_bundle_close(&bundle);
    return code;
}
