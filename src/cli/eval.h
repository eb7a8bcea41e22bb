/* eval.h: what `spillway eval` measures, and how it is printed. */
#ifndef SW_CLI_EVAL_H
#define SW_CLI_EVAL_H

#include "base/sha256.h"
#include "cli/eval_record.h"
#include "cli/quantized_model.h"
#include "cli/score.h"
#include "cli/sqnr.h"
#include "cli/tasks.h"

enum { SW_EVAL_MOST_RECIPES = 16 };

/* A recipe, or the float model, and its figures so far. */
typedef struct sw_eval_recipe {
    const char *name; /* "f32" or a recipe's */
    bool is_f32;
    sw_recipe recipe;
    char digests[2][SW_SHA256_HEX_BYTES]; /* of all that results depend on: of windows, of tasks */
    bool ready;                           /* the three below are there */
    sw_quantized_model quantized;
    sw_decoder decoder; /* of a whole window; has the quantized constants */
    sw_decoder shorter; /* of a task, with the same constants */
    sw_session *session;
    sw_score score; /* over all windows */
    double seconds; /* in this run */
    uint32_t n_run; /* windows in this run */
    uint32_t n_right;
    sw_sqnr_table tensors;
} sw_eval_recipe;

typedef struct sw_eval {
    const sw_options *options;
    sw_arena arena;
    sw_checkpoint checkpoint;
    sw_calibration calibration; /* read when first needed */
    sw_eval_recipe recipes[SW_EVAL_MOST_RECIPES];
    uint32_t n_recipes;
    sw_eval_recipe *f32; /* one of them, or NULL */
    sw_ids text;         /* of --text */
    uint32_t context, n_windows;
    sw_tasks tasks;
    sw_eval_record *record;
} sw_eval;

/* Window `number` of the text, as llama.cpp's perplexity cuts it: context ids that overlap with no other's.
 * Where the model wants a BOS its first id is that. out [context]. */
void sw_eval_window(const sw_ids *text, uint32_t context, uint32_t number, int64_t bos, int32_t *out);

/* All figures on stdout, as tables or as one JSON object. */
sw_code sw_eval_print(const sw_eval *e, sw_error *err) SW_MUST_CHECK;

#endif
