/* evaluate.h: the report of a compile: how near the quantized graphs are to the float model, on text that
 * took no part in the calibration. */
#ifndef SW_CLI_EVALUATE_H
#define SW_CLI_EVALUATE_H

#include "base/log.h"
#include "cli/quantized_model.h"
#include "cli/score.h"
#include "cli/sqnr.h"

enum { SW_EVALUATE_MOST_TOKENS = 384 }; /* some seconds on two cores */

/* Above this ratio of perplexities the compile warns. */
#define SW_PERPLEXITY_RATIO_BOUND 1.1

typedef struct sw_evaluation {
    uint32_t n_tokens;         /* of the window; positions in its second half are scored */
    sw_score exact, quantized; /* quantized: compared with exact */
    sw_sqnr_table tensors;
} sw_evaluation;

/* Runs the window through the file's float model and through a graph with the decoder's integers, on the CPU
 * device, and a part of it once more tensor by tensor. The window has 3 to SW_EVALUATE_MOST_TOKENS tokens.
 * Free in every case. Errors: those of the device. */
sw_code sw_evaluate(sw_evaluation *out, const sw_quantized_model *q, const sw_decoder *decoder,
                    const sw_checkpoint *checkpoint, const sw_window *window, sw_error *err) SW_MUST_CHECK;
void sw_evaluation_free(sw_evaluation *e);

/* What is said of it: log lines, with warnings and what to try where the figures are bad; and members of the
 * manifest's calibration object, without its braces. All in one arena. */
enum { SW_EVALUATION_MOST_LINES = 4 };
typedef struct sw_evaluation_texts {
    const char *figures; /* NULL: there was no evaluation */
    unsigned n_lines;
    sw_log_level levels[SW_EVALUATION_MOST_LINES];
    const char *lines[SW_EVALUATION_MOST_LINES];
} sw_evaluation_texts;

/* Errors: SW_NO_MEMORY. */
sw_code sw_evaluation_describe(sw_evaluation_texts *out, const sw_evaluation *e, const sw_recipe *recipe,
                               sw_arena *arena, sw_error *err) SW_MUST_CHECK;
void sw_evaluation_log(const sw_evaluation_texts *texts);

#endif
