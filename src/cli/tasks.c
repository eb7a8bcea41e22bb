/* tasks.c: reads questions, and runs each choice as a sequence of its own. */
#include "cli/tasks.h"

#include <string.h>

#include "base/json.h"
#include "cli/score.h"

enum { FILE_BYTES = 256 << 20 };

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static sw_code get_text(const sw_json *at, sw_span *out, sw_error *err) {
    *out = (sw_span){json_string_value(at->value), json_string_length(at->value)};
    if (!json_is_string(at->value) || out->size == 0) return sw_json_fail(at, err, "wanted text, not empty");
    return SW_OK;
}

/* The choice's ids are those behind what its text and the context alone have in common: the last word of a
 * context may be cut otherwise when more follows. */
static sw_code encode(sw_task_choice *out, sw_span context, const sw_json *place,
                      const sw_tokenizer *tokenizer, uint32_t longest_most, sw_arena *arena, sw_error *err) {
    sw_span choice;
    SW_TRY(get_text(place, &choice, err));
    bool space = !is_space(context.data[context.size - 1]) && !is_space(choice.data[0]);
    char *joined = sw_arena_printf(arena, "%s%s%s", context.data, space ? " " : "", choice.data);
    if (joined == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", place->file);
    sw_ids alone = {0}, whole = {0};
    sw_code code = sw_tokenizer_encode(tokenizer, context, SW_ENCODE_START, &alone, err);
    if (code == SW_OK)
        code = sw_tokenizer_encode(tokenizer, sw_span_of(joined), SW_ENCODE_START, &whole, err);
    size_t begin = 0;
    while (begin < alone.count && begin < whole.count && alone.data[begin] == whole.data[begin]) begin++;
    if (begin == 0) begin = 1; /* the first token of all can't be foretold */
    if (code == SW_OK && begin >= whole.count)
        code = sw_json_fail(place, err, "adds no token to its context");
    if (code == SW_OK && whole.count > longest_most)
        code = sw_json_fail(place, err, "with its context it has %zu tokens, the limit is %u", whole.count,
                            longest_most);
    int32_t *ids = code == SW_OK ? sw_arena_array(arena, whole.count, sizeof *ids) : NULL;
    if (code == SW_OK && ids == NULL) code = SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", place->file);
    if (code == SW_OK) {
        memcpy(ids, whole.data, whole.count * sizeof *ids);
        *out = (sw_task_choice){ids, (uint32_t)whole.count, (uint32_t)begin};
    }
    sw_ids_free(&alone), sw_ids_free(&whole);
    return code;
}

static sw_code read_task(sw_tasks *tasks, const sw_json *at, const sw_tokenizer *tokenizer,
                         uint32_t longest_most, sw_error *err) {
    sw_task *task = &tasks->tasks[tasks->count];
    sw_json context_at, choices, answer;
    sw_span context;
    size_t n;
    SW_TRY(sw_json_get(at, "context", &context_at, err));
    SW_TRY(get_text(&context_at, &context, err));
    SW_TRY(sw_json_get(at, "choices", &choices, err));
    SW_TRY(sw_json_array(&choices, 2, SW_MAX_CHOICES, &n, err));
    SW_TRY(sw_json_get(at, "answer", &answer, err));
    SW_TRY(sw_json_u32(&answer, 0, (uint32_t)n - 1, &task->answer, err));
    task->n_choices = (uint32_t)n;
    for (uint32_t i = 0; i < n; i++) {
        sw_json choice = sw_json_element(&choices, i);
        SW_TRY(encode(&task->choices[i], context, &choice, tokenizer, longest_most, &tasks->arena, err));
        if (task->choices[i].n_ids > tasks->longest) tasks->longest = task->choices[i].n_ids;
    }
    tasks->count++;
    return SW_OK;
}

static bool is_blank(const char *line, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (!is_space(line[i])) return false;
    return true;
}

sw_code sw_tasks_read(sw_tasks *tasks, const char *path, const sw_tokenizer *tokenizer, uint32_t longest_most,
                      sw_error *err) {
    *tasks = (sw_tasks){0};
    char *text;
    size_t size, n_lines = 1;
    SW_TRY(sw_file_read_text(path, FILE_BYTES, &tasks->arena, &text, &size, err));
    for (size_t i = 0; i < size; i++) n_lines += text[i] == '\n';
    if (n_lines > SW_MAX_TASKS)
        return SW_FAIL(err, SW_BAD_DATA, "%s: has %zu lines, the limit is %d", path, n_lines, SW_MAX_TASKS);
    tasks->tasks = sw_arena_array(&tasks->arena, n_lines, sizeof *tasks->tasks);
    if (tasks->tasks == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", path);
    unsigned number = 1;
    for (size_t begin = 0; begin < size; number++) {
        const char *newline = memchr(text + begin, '\n', size - begin);
        size_t end = newline != NULL ? (size_t)(newline - text) : size;
        if (!is_blank(text + begin, end - begin)) {
            char place[4352];
            snprintf(place, sizeof place, "%s: line %u", path, number);
            sw_json all;
            SW_TRY(sw_json_parse(&all, place, text + begin, end - begin, err));
            sw_code code = read_task(tasks, &all, tokenizer, longest_most, err);
            sw_json_free(&all);
            SW_TRY(code);
        }
        begin = end + 1;
    }
    return tasks->count > 0 ? SW_OK : SW_FAIL(err, SW_BAD_DATA, "%s: has no task", path);
}

void sw_tasks_free(sw_tasks *tasks) {
    sw_arena_free(&tasks->arena);
    *tasks = (sw_tasks){0};
}

sw_code sw_task_run(const sw_task *task, sw_session *session, size_t vocab, float *logits, double *out,
                    sw_error *err) {
    for (uint32_t i = 0; i < task->n_choices; i++) {
        const sw_task_choice *c = &task->choices[i];
        sw_session_reset(session);
        SW_TRY(sw_session_feed_all(session, c->ids, c->n_ids, logits, err));
        double sum = 0;
        for (uint32_t t = c->begin; t < c->n_ids; t++)
            sum += sw_log_probability(logits + (t - 1) * vocab, vocab, c->ids[t]);
        out[i] = sum / (c->n_ids - c->begin);
    }
    return SW_OK;
}
