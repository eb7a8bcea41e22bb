/* rules.c: patterns with *, and rules that name nothing: most likely a slip, so they are said aloud with the
 * names nearest by Levenshtein's edit distance, in which a * may stand for any characters at no cost. */
#include "quant/rules.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

enum { NEAR_NAMES = 3 };

/* Where the rest doesn't fit, only the last * takes a character more: an earlier one couldn't win anything by
 * it. */
bool sw_pattern_matches(const char *pattern, const char *name) {
    const char *behind_star = NULL, *retry = NULL;
    while (*name != '\0' || *pattern == '*') {
        if (*pattern == '*')
            behind_star = ++pattern, retry = name;
        else if (*pattern == *name)
            pattern++, name++;
        else if (behind_star != NULL)
            pattern = behind_star, name = ++retry;
        else
            return false;
    }
    return *pattern == '\0';
}

bool sw_activation_rule_matches(const sw_activation_rule *rule, const char *range, sw_op_type made_by) {
    return (rule->op == SW_OP_COUNT || rule->op == made_by) && sw_pattern_matches(rule->match, range);
}

/* Changes of single characters that make a name of the pattern out of the name; one row of the table. */
static unsigned distance(const char *pattern, const char *name) {
    unsigned row[SW_NAME_BYTES + 1];
    size_t n = strnlen(name, SW_NAME_BYTES);
    for (unsigned j = 0; j <= n; j++) row[j] = j;
    for (; *pattern != '\0'; pattern++) {
        bool star = *pattern == '*';
        unsigned diagonal = row[0];
        row[0] += !star;
        for (size_t j = 0; j < n; j++) {
            unsigned best = diagonal + (star || *pattern != name[j]);
            diagonal = row[j + 1];
            if (row[j] + !star < best) best = row[j] + !star;
            if (diagonal + !star < best) best = diagonal + !star;
            row[j + 1] = best;
        }
    }
    return row[n];
}

typedef struct near_names {
    const char *pattern;
    char names[NEAR_NAMES][SW_NAME_BYTES];
    unsigned distances[NEAR_NAMES], count;
} near_names;

/* "layer_17.q_proj" -> "layer_*.q_proj" */
static void without_layer(const char *name, char out[SW_NAME_BYTES]) {
    size_t digits = strncmp(name, "layer_", 6) == 0 ? strspn(name + 6, "0123456789") : 0;
    if (digits > 0)
        snprintf(out, SW_NAME_BYTES, "layer_*%.50s", name + 6 + digits);
    else
        snprintf(out, SW_NAME_BYTES, "%.63s", name);
}

/* Keeps the nearest, each once, in order; of equals the first one stands in front. */
static void consider(near_names *near, const char *name) {
    char text[SW_NAME_BYTES];
    unsigned d = distance(near->pattern, name), at = near->count;
    without_layer(name, text);
    for (unsigned i = 0; i < near->count; i++)
        if (strcmp(near->names[i], text) == 0) return;
    while (at > 0 && near->distances[at - 1] > d) at--;
    if (at == NEAR_NAMES) return;
    if (near->count < NEAR_NAMES) near->count++;
    for (unsigned i = near->count - 1; i > at; i--) {
        memcpy(near->names[i], near->names[i - 1], SW_NAME_BYTES);
        near->distances[i] = near->distances[i - 1];
    }
    memcpy(near->names[at], text, SW_NAME_BYTES);
    near->distances[at] = d;
}

static void warn(const sw_recipe *recipe, const char *place, const char *pattern, const char *what,
                 const near_names *near) {
    char list[NEAR_NAMES * (SW_NAME_BYTES + 2) + 1] = "";
    for (unsigned i = 0; i < near->count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", near->names[i]);
    }
    sw_log(SW_LOG_WARN, "recipe %s: %s: `%s` matches no %s of this model, so the rule does nothing%s%s",
           recipe->name, place, pattern, what, near->count > 0 ? "; near it are " : "", list);
}

static void check_weight_rule(const sw_recipe *recipe, const sw_weight_rule *rule,
                              const sw_decoder *decoder) {
    near_names near = {.pattern = rule->match};
    for (uint32_t i = 0; i < decoder->n_constants; i++) {
        const sw_tensor *t = decoder->constants[i];
        if (t->role != SW_ROLE_WEIGHT) continue;
        if (sw_pattern_matches(rule->match, t->name)) return;
        consider(&near, t->name);
    }
    warn(recipe, rule->place, rule->match, "weight", &near);
}

/* False where the rule matches in the graph. */
static bool unmatched_in(const sw_activation_rule *rule, const sw_graph *graph, near_names *near) {
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        const sw_tensor *t = graph->tensors[i];
        bool from_outside = (t->role == SW_ROLE_ACTIVATION && t->kind == SW_TENSOR_INPUT) ||
                            (t->role == SW_ROLE_GAMMA && t->kind == SW_TENSOR_CONSTANT);
        if (!from_outside) continue;
        if (sw_activation_rule_matches(rule, t->range, SW_OP_COUNT)) return false;
        if (rule->op == SW_OP_COUNT) consider(near, t->range);
    }
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const sw_tensor *t = graph->tensors[graph->ops[i].outputs[0]];
        if (t->role != SW_ROLE_ACTIVATION) continue;
        if (sw_activation_rule_matches(rule, t->range, graph->ops[i].type)) return false;
        if (rule->op == SW_OP_COUNT || rule->op == graph->ops[i].type) consider(near, t->range);
    }
    return true;
}

static void check_activation_rule(const sw_recipe *recipe, const sw_activation_rule *rule,
                                  const sw_decoder *decoder) {
    near_names near = {.pattern = rule->match};
    char what[64] = "activation";
    if (rule->op != SW_OP_COUNT)
        snprintf(what, sizeof what, "activation made by %s", sw_op_get_info(rule->op)->name);
    for (uint32_t g = 0; g < decoder->n_graphs; g++)
        if (!unmatched_in(rule, decoder->graphs[g], &near)) return;
    warn(recipe, rule->place, rule->match, what, &near);
}

void sw_recipe_warn_unmatched(const sw_recipe *recipe, const sw_decoder *decoder) {
    for (uint32_t i = 0; i < recipe->n_weight_rules; i++)
        if (recipe->weight_rules[i].place != NULL)
            check_weight_rule(recipe, &recipe->weight_rules[i], decoder);
    for (uint32_t i = 0; i < recipe->n_activation_rules; i++)
        if (recipe->activation_rules[i].place != NULL)
            check_activation_rule(recipe, &recipe->activation_rules[i], decoder);
}
