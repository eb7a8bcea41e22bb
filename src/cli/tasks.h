/* tasks.h: multiple-choice questions, answered by which choice the model finds likeliest.
 *
 * A file of JSON Lines, blank ones allowed: {"context": "...", "choices": ["...", "..."], "answer": 0}. Other
 * keys are passed over. Context and choice are joined by a space where neither has white space at the joint.
 */
#ifndef SW_CLI_TASKS_H
#define SW_CLI_TASKS_H

#include "runtime/session.h"
#include "text/tokenizer.h"

enum { SW_MAX_CHOICES = 16, SW_MAX_TASKS = 1 << 20 };

typedef struct sw_task_choice {
    const int32_t *ids; /* [n_ids] of context and choice together */
    uint32_t n_ids;
    uint32_t begin; /* 1 .. n_ids - 1: the first id that isn't the context's */
} sw_task_choice;

typedef struct sw_task {
    sw_task_choice choices[SW_MAX_CHOICES];
    uint32_t n_choices, answer;
} sw_task;

typedef struct sw_tasks {
    sw_arena arena;
    sw_task *tasks; /* [count] */
    uint32_t count;
    uint32_t longest; /* ids of the longest context with a choice */
} sw_tasks;

/* Free in every case. longest_most: what the model has positions for. Errors: those of reading; SW_BAD_DATA
 * with line, key, and what would be right. */
sw_code sw_tasks_read(sw_tasks *tasks, const char *path, const sw_tokenizer *tokenizer, uint32_t longest_most,
                      sw_error *err) SW_MUST_CHECK;
void sw_tasks_free(sw_tasks *tasks);

/* out[n_choices]: mean ln-probability of a token of each choice, after its context: the score by which
 * HellaSwag is counted with length normalization. The session's graph gives all logits of at least
 * tasks->longest tokens; logits [longest, vocab] is scratch. */
sw_code sw_task_run(const sw_task *task, sw_session *session, size_t vocab, float *logits, double *out,
                    sw_error *err) SW_MUST_CHECK;

#endif
