/* eval_print.c: figures of recipes as tables, or as one JSON object. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "cli/eval.h"

static void print_text(const sw_eval *e) {
    const sw_score *f32 = e->f32 != NULL ? &e->f32->score : NULL;
    printf("%s: %zu tokens, %u windows of %u, positions from %u on scored\n", e->options->text, e->text.count,
           e->n_windows, e->context, sw_score_first(e->context));
    printf("%-10s %21s %9s %8s %10s %12s %10s\n", "recipe", "perplexity", "to f32", "top-1", "mean KL",
           "logits SQNR", "s/window");
    for (uint32_t i = 0; i < e->n_recipes; i++) {
        const sw_eval_recipe *r = &e->recipes[i];
        const sw_score *s = &r->score;
        printf("%-10s %11.4f", r->name, sw_score_perplexity(s));
        if (s->positions > 1)
            printf(" +- %6.4f", sw_score_perplexity_error(s));
        else
            printf(" +- %6s", "-");
        if (s->compared > 0 && f32 != NULL)
            printf(" %9.4f %6.2f %% %10.3e %9.1f dB", sw_score_perplexity(s) / sw_score_perplexity(f32),
                   100.0 * s->same_top / s->compared, s->kl / s->compared, sw_decibels(s->signal, s->noise));
        else
            printf(" %9s %8s %10s %12s", "-", "-", "-", "-");
        if (r->n_run > 0)
            printf(" %10.2f\n", r->seconds / r->n_run);
        else
            printf(" %10s\n", "-"); /* all from --resume */
    }
}

static void print_tasks(const sw_eval *e) {
    printf("%s: %u tasks, the choice of the greatest mean ln-probability a token\n", e->options->tasks,
           e->tasks.count);
    for (uint32_t i = 0; i < e->n_recipes; i++)
        printf("%-10s %u of %u right, %.1f %%\n", e->recipes[i].name, e->recipes[i].n_right, e->tasks.count,
               100.0 * e->recipes[i].n_right / e->tasks.count);
}

static json_t *number(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *tensors_json(const sw_sqnr_table *table) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < table->count; i++) {
        const sw_tensor_sqnr *r = &table->rows[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", r->name, "op", r->op,
                                              "type", sw_dtype_name(r->dtype), "sqnr_db", number(r->sqnr_db),
                                              "own_db", number(r->own_db)));
    }
    return list;
}

static json_t *recipe_json(const sw_eval *e, const sw_eval_recipe *r) {
    json_t *o = json_pack("{s:s}", "recipe", r->name);
    const sw_score *s = &r->score;
    if (e->n_windows > 0) {
        json_object_set_new(o, "perplexity", number(sw_score_perplexity(s)));
        json_object_set_new(o, "perplexity_error", number(sw_score_perplexity_error(s)));
        json_object_set_new(o, "positions", json_integer(s->positions));
        json_object_set_new(o, "seconds", number(r->seconds));
        json_object_set_new(o, "windows_run", json_integer(r->n_run));
    }
    if (s->compared > 0 && e->f32 != NULL) {
        json_object_set_new(o, "perplexity_ratio",
                            number(sw_score_perplexity(s) / sw_score_perplexity(&e->f32->score)));
        json_object_set_new(o, "top1_same", json_integer(s->same_top));
        json_object_set_new(o, "mean_kl", number(s->kl / s->compared));
        json_object_set_new(o, "logits_sqnr_db", number(sw_decibels(s->signal, s->noise)));
    }
    if (e->tasks.count > 0) json_object_set_new(o, "tasks_right", json_integer(r->n_right));
    if (r->tensors.count > 0) json_object_set_new(o, "tensors", tensors_json(&r->tensors));
    return o;
}

static sw_code print_json(const sw_eval *e, sw_error *err) {
    json_t *recipes = json_array();
    for (uint32_t i = 0; i < e->n_recipes; i++)
        json_array_append_new(recipes, recipe_json(e, &e->recipes[i]));
    json_t *all =
        json_pack("{s:o, s:i, s:i, s:i, s:i, s:o}", "model", sw_json_of_bytes(e->checkpoint.path), "context",
                  (int)e->context, "windows", (int)e->n_windows, "first_position",
                  (int)sw_score_first(e->context), "tasks", (int)e->tasks.count, "recipes", recipes);
    char *text = all != NULL ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(10)) : NULL;
    json_decref(all);
    if (text == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    puts(text);
    free(text);
    return SW_OK;
}

sw_code sw_eval_print(const sw_eval *e, sw_error *err) {
    if (e->options->json) return print_json(e, err);
    if (e->n_windows > 0) print_text(e);
    if (e->tasks.count > 0) print_tasks(e);
    for (uint32_t i = 0; i < e->n_recipes; i++) {
        if (e->recipes[i].tensors.count == 0) continue;
        printf("%s, the worst tensors first:\n", e->recipes[i].name);
        sw_sqnr_print(&e->recipes[i].tensors, stdout);
    }
    return SW_OK;
}
