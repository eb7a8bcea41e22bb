/* recipe.c: the table of recipes. A gamma is as wide as its activations: HTP's RmsNorm takes no other. */
#include "quant/quant.h"

#include <stdio.h>
#include <string.h>

/* kv_bits: the default, then what else is allowed (0: nothing else). */
static const struct {
    sw_recipe recipe;
    unsigned kv_bits, other_kv_bits;
} recipes[] = {
    {{"16a8w", SW_U16, SW_U8, SW_S8, SW_U16, true}, 8, 16},
    {{"8a8w", SW_U8, SW_U8, SW_S8, SW_U8, true}, 8, 0},
    {{"f16", SW_F16, SW_F16, SW_F16, SW_F16, false}, 16, 0},
};
enum { N_RECIPES = sizeof recipes / sizeof *recipes };

sw_code sw_recipe_find(sw_recipe *out, const char *name, unsigned kv_bits, sw_error *err) {
    char names[64] = "";
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
