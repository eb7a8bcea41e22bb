/* recipe.c: the table of recipes. A gamma is as wide as its activations: HTP's RmsNorm takes no other. */
#include "quant/quant.h"

#include <stdio.h>
#include <string.h>

#include "base/find_name.h"

/* Forms of weights: scales, four bits, block. */
#define ROWS_8         SW_SCALES_ROW, false, 0
#define ROWS_4         SW_SCALES_ROW, true, 0
#define BLOCKS_8       SW_SCALES_FLOAT_BLOCK, false, 32
#define BLOCKS_4       SW_SCALES_BLOCKWISE, true, 32
#define FLOAT_BLOCKS_4 SW_SCALES_FLOAT_BLOCK, true, 32

/* The head decides between tokens: 4 bits cost more there than anywhere. */
static const sw_weight_rule head_rows_8[] = {{"lm_head", SW_S8, {ROWS_8}, SW_ROUND_NEAREST, NULL},
                                             {"embedding", SW_S8, {ROWS_8}, SW_ROUND_NEAREST, NULL}};
static const sw_weight_rule head_blocks_8[] = {{"lm_head", SW_S8, {BLOCKS_8}, SW_ROUND_NEAREST, NULL},
                                               {"embedding", SW_S8, {BLOCKS_8}, SW_ROUND_NEAREST, NULL}};

/* Of a layer's matrices V's projection loses most by 4 bits and, with K's, is the smallest:
 * docs/accuracy.md has what each costs. */
static const sw_weight_rule head_and_kv_rows_8[] = {{"lm_head", SW_S8, {ROWS_8}, SW_ROUND_NEAREST, NULL},
                                                    {"embedding", SW_S8, {ROWS_8}, SW_ROUND_NEAREST, NULL},
                                                    {"layer_*.k_proj", SW_S8, {ROWS_8}, SW_ROUND_GPTQ, NULL},
                                                    {"layer_*.v_proj", SW_S8, {ROWS_8}, SW_ROUND_GPTQ, NULL}};

/* Integers beside 8-bit K and V, or f16 throughout; then the weights' form and rules. */
#define INTEGERS(name_, type, scales, rules, n_rules, ...)                                                   \
    {                                                                                                        \
        .name = name_, .activation = type, .kv = SW_U8, .weight = SW_S8, .gamma = type, .form = {scales},    \
        .weight_rules = rules, .n_weight_rules = n_rules, __VA_ARGS__                                        \
    }
#define FLOATS(name_, weight_, scales, rules, n_rules, ...)                                                  \
    {                                                                                                        \
        .name = name_, .activation = SW_F16, .kv = SW_F16, .weight = weight_, .gamma = SW_F16,               \
        .form = {scales}, .weight_rules = rules, .n_weight_rules = n_rules, __VA_ARGS__                      \
    }

/* kv_bits: the default, then what else is allowed (0: nothing else). */
static const struct {
    sw_recipe recipe;
    unsigned kv_bits, other_kv_bits;
} recipes[] = {
    {INTEGERS("16a8w", SW_U16, ROWS_8, NULL, 0, .rotate = true), 8, 16},
    {INTEGERS("8a8w", SW_U8, ROWS_8, NULL, 0, .rotate = true, .sink = true, .smooth = SW_SMOOTH_SEARCH,
              .method = {SW_METHOD_MSE, 0}),
     8, 0},
    {INTEGERS("16a4w", SW_U16, ROWS_4, head_rows_8, 2, .rotate = true, .rounding = SW_ROUND_GPTQ), 8, 16},
    {INTEGERS("16a4w_block32", SW_U16, BLOCKS_4, head_and_kv_rows_8, 4, .rounding = SW_ROUND_GPTQ), 8, 16},
    {FLOATS("f16", SW_F16, ROWS_8, NULL, 0, .rotate = false), 16, 0},
    {FLOATS("f16a8w", SW_S8, ROWS_8, NULL, 0, .rotate = false), 16, 0},
    {FLOATS("f16a8w_block32", SW_S8, BLOCKS_8, NULL, 0, .rotate = false), 16, 0},
    {FLOATS("f16a4w_block32", SW_S8, FLOAT_BLOCKS_4, head_blocks_8, 2, .rounding = SW_ROUND_GPTQ), 16, 0},
};
enum { N_RECIPES = sizeof recipes / sizeof *recipes };

static const char *const roundings[SW_ROUNDING_COUNT] = {
#define SW_ROUNDING_NAME(id, name) [id] = name,
    SW_ROUNDINGS(SW_ROUNDING_NAME)
#undef SW_ROUNDING_NAME
};

bool sw_rounding_from_name(const char *name, sw_rounding *out) {
    unsigned i;
    if (!sw_find_name(roundings, SW_ROUNDING_COUNT, name, &i)) return false;
    *out = (sw_rounding)i;
    return true;
}

sw_code sw_recipe_find(sw_recipe *out, const char *name, unsigned kv_bits, sw_error *err) {
    char names[160] = "";
    for (size_t i = 0; i < N_RECIPES; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", recipes[i].recipe.name);
        if (strcmp(name, recipes[i].recipe.name) != 0) continue;
        *out = recipes[i].recipe;
        if (kv_bits == 0 || kv_bits == recipes[i].kv_bits) return SW_OK;
        if (recipes[i].other_kv_bits == 0)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "recipe %s with a KV cache of %u bits: it has %u", name,
                           kv_bits, recipes[i].kv_bits);
        if (kv_bits != recipes[i].other_kv_bits)
            return SW_FAIL(err, SW_INVALID_ARGUMENT,
                           "recipe %s with a KV cache of %u bits: it can have %u or %u", name, kv_bits,
                           recipes[i].kv_bits, recipes[i].other_kv_bits);
        out->kv = out->activation;
        return SW_OK;
    }
    return SW_FAIL(err, SW_INVALID_ARGUMENT, "no recipe `%s`; there are %s", name, names);
}

bool sw_recipe_has_scales(const sw_recipe *recipe, sw_scales scales) {
    bool has = recipe->weight == SW_S8 && recipe->form.scales == scales;
    for (uint32_t i = 0; i < recipe->n_weight_rules; i++)
        has = has || (recipe->weight_rules[i].type == SW_S8 && recipe->weight_rules[i].form.scales == scales);
    return has;
}

bool sw_recipe_has_methods(const sw_recipe *recipe) {
    bool has = recipe->method.kind > SW_METHOD_MINMAX;
    for (uint32_t i = 0; i < recipe->n_activation_rules; i++)
        has = has || recipe->activation_rules[i].method.kind > SW_METHOD_MINMAX;
    return has;
}

const char *sw_range_method_name(sw_range_method_kind kind) {
    static const char *const names[SW_METHOD_COUNT] = {
#define SW_RANGE_METHOD_NAME(id, name) [id] = name,
        SW_RANGE_METHODS(SW_RANGE_METHOD_NAME)
#undef SW_RANGE_METHOD_NAME
    };
    return names[kind];
}
