/* recipe_file.c: a recipe from a JSON file: a shipped one, what is different in it, then rules for what has
 * other types. Form and meaning: docs/recipes.md. Whether the HTP can do it is not asked here:
 * sw_decoder_verify does, op by op. */
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/json.h"
#include "quant/quant.h"

enum { MAX_FILE_BYTES = 1 << 20, MAX_RULES = 1000, MAX_TEXT = SW_NAME_BYTES - 1 };

#define METHOD_KEYS "observer", "percentile", "averaging"

typedef struct reader {
    sw_recipe *recipe;
    sw_arena *arena;
    sw_error *err;
} reader;

static sw_code no_memory(const reader *r) {
    return SW_FAIL(r->err, SW_NO_MEMORY, "no memory for a recipe");
}

static sw_code get_text(const reader *r, const sw_json *at, const char **out) {
    SW_TRY(sw_json_text(at, false, MAX_TEXT, out, r->err));
    *out = sw_arena_strdup(r->arena, *out);
    return *out != NULL ? SW_OK : no_memory(r);
}

/* "u8", "u16" or "f16", where the key is there. */
static sw_code read_activation(const reader *r, const sw_json *parent, const char *key, sw_dtype *type) {
    sw_json at = sw_json_find(parent, key);
    const char *text;
    if (at.value == NULL) return SW_OK;
    SW_TRY(sw_json_text(&at, false, MAX_TEXT, &text, r->err));
    if (sw_dtype_from_name(text, type) && (*type == SW_U8 || *type == SW_U16 || *type == SW_F16))
        return SW_OK;
    return sw_json_fail(&at, r->err, "is `%s`, wanted u8, u16 or f16", text);
}

/* "weight_bits": 4, 8 or 16 (f16); "scales": "row", "float_block" or "blockwise", with "block": 16, 32 or 64;
 * "rounding": "nearest" or "gptq". What isn't there stays; *there says whether any is. */
static sw_code read_weight(const reader *r, const sw_json *parent, sw_dtype *type, sw_weight_form *form,
                           sw_rounding *rounding, bool *there) {
    sw_json bits = sw_json_find(parent, "weight_bits"), scales = sw_json_find(parent, "scales"),
            block = sw_json_find(parent, "block"), how = sw_json_find(parent, "rounding");
    const char *text;
    uint32_t value;
    *there = bits.value != NULL || scales.value != NULL || block.value != NULL || how.value != NULL;
    if (how.value != NULL) {
        SW_TRY(sw_json_text(&how, false, MAX_TEXT, &text, r->err));
        if (!sw_rounding_from_name(text, rounding))
            return sw_json_fail(&how, r->err, "is `%s`, wanted nearest or gptq", text);
    }
    if (bits.value != NULL) {
        SW_TRY(sw_json_u32(&bits, 0, 64, &value, r->err));
        if (value != 4 && value != 8 && value != 16)
            return sw_json_fail(&bits, r->err, "is %u, wanted 4, 8, or 16 for f16", value);
        *type = value == 16 ? SW_F16 : SW_S8;
        form->four_bit = value == 4;
    }
    if (scales.value != NULL) {
        SW_TRY(sw_json_text(&scales, false, MAX_TEXT, &text, r->err));
        if (!sw_scales_from_name(text, &form->scales))
            return sw_json_fail(&scales, r->err, "is `%s`, wanted row, float_block or blockwise", text);
        if (form->scales == SW_SCALES_ROW) form->block = 0;
    }
    if (block.value != NULL) {
        SW_TRY(sw_json_u32(&block, 0, UINT32_MAX, &value, r->err));
        if (value != 16 && value != 32 && value != 64)
            return sw_json_fail(&block, r->err, "is %u, wanted 16, 32 or 64", value);
        form->block = value;
    }
    if (*type == SW_F16) {
        if (scales.value != NULL || block.value != NULL)
            return sw_json_fail(parent, r->err, "gives scales to weights of 16 bits, which have none");
        *form = (sw_weight_form){.scales = SW_SCALES_ROW};
    }
    if ((form->scales == SW_SCALES_ROW) != (form->block == 0))
        return sw_json_fail(parent, r->err, "%s",
                            form->block != 0
                                ? "has a block, but a scale a row: wanted scales float_block or blockwise"
                                : "has scales of blocks, but no block: wanted 16, 32 or 64");
    return SW_OK;
}

/* "observer": a method's name; its parameter under a key of its own. What isn't there stays. */
static sw_code read_method(const reader *r, const sw_json *at, sw_range_method *method) {
    static const struct {
        const char *key;
        sw_range_method_kind kind;
        double least, most, usual;
    } parameters[] = {{"percentile", SW_METHOD_PERCENTILE, 50, 100, 99.99},
                      {"averaging", SW_METHOD_MOVING_AVERAGE, 0, 1, 0.1}};
    sw_json observer = sw_json_find(at, "observer");
    const char *text = NULL;
    if (observer.value != NULL) {
        SW_TRY(sw_json_text(&observer, false, MAX_TEXT, &text, r->err));
        *method = (sw_range_method){SW_METHOD_MINMAX, 0};
        while (method->kind < SW_METHOD_COUNT && strcmp(sw_range_method_name(method->kind), text) != 0)
            method->kind++;
        if (method->kind == SW_METHOD_COUNT)
            return sw_json_fail(&observer, r->err,
                                "is `%s`, wanted minmax, moving_average, percentile or mse", text);
    }
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        sw_json value = sw_json_find(at, parameters[i].key);
        bool fits = text != NULL && method->kind == parameters[i].kind;
        if (fits) method->parameter = parameters[i].usual;
        if (value.value == NULL) continue;
        if (!fits)
            return sw_json_fail(&value, r->err, "stands without \"observer\": \"%s\"",
                                sw_range_method_name(parameters[i].kind));
        SW_TRY(sw_json_f64(&value, &method->parameter, r->err));
        if (!(method->parameter >= parameters[i].least && method->parameter <= parameters[i].most))
            return sw_json_fail(&value, r->err, "is %g, wanted %g to %g", method->parameter,
                                parameters[i].least, parameters[i].most);
    }
    return SW_OK;
}

static sw_code read_smooth(const reader *r, const sw_json *at) {
    const char *text = json_string_value(at->value);
    double strength;
    r->recipe->smooth = SW_SMOOTH_SEARCH;
    if (text != NULL && strcmp(text, "search") == 0) return SW_OK;
    SW_TRY(sw_json_f64(at, &strength, r->err));
    if (!(strength >= 0 && strength <= 1))
        return sw_json_fail(at, r->err, "is %g, wanted 0 (none) to 1, or `search`", strength);
    r->recipe->smooth = (float)strength;
    return SW_OK;
}

static sw_code read_default(const reader *r, const sw_json *at) {
    static const char *const keys[] = {"activation", "kv",   "weight_bits", "scales",    "block", "rounding",
                                       "rotate",     "sink", "smooth",      METHOD_KEYS, NULL};
    sw_recipe *recipe = r->recipe;
    bool weight;
    SW_TRY(sw_json_only_keys(at, keys, r->err));
    SW_TRY(read_activation(r, at, "activation", &recipe->activation));
    recipe->gamma = recipe->activation;
    SW_TRY(read_activation(r, at, "kv", &recipe->kv));
    SW_TRY(read_weight(r, at, &recipe->weight, &recipe->form, &recipe->rounding, &weight));
    sw_json rotate = sw_json_find(at, "rotate"), sink = sw_json_find(at, "sink"),
            smooth = sw_json_find(at, "smooth");
    if (rotate.value != NULL) SW_TRY(sw_json_bool(&rotate, &recipe->rotate, r->err));
    if (sink.value != NULL) SW_TRY(sw_json_bool(&sink, &recipe->sink, r->err));
    if (smooth.value != NULL) SW_TRY(read_smooth(r, &smooth));
    return read_method(r, at, &recipe->method);
}

static sw_code read_rule(const reader *r, const sw_json *at, sw_weight_rule *weights,
                         sw_activation_rule *activations) {
    static const char *const keys[] = {"match", "op",       "activation", "weight_bits", "scales",
                                       "block", "rounding", METHOD_KEYS,  NULL};
    sw_recipe *recipe = r->recipe;
    sw_json match = sw_json_find(at, "match"), op = sw_json_find(at, "op");
    sw_weight_rule weight = {
        .match = "*", .type = recipe->weight, .form = recipe->form, .rounding = recipe->rounding};
    sw_activation_rule activation = {.match = "*", .op = SW_OP_COUNT, .type = SW_DTYPE_COUNT};
    bool has_weight, has_activation;
    weight.place = activation.place = sw_arena_printf(r->arena, "$.rules[%zu]", at->index);
    if (weight.place == NULL) return no_memory(r);
    SW_TRY(sw_json_only_keys(at, keys, r->err));
    if (match.value != NULL) SW_TRY(get_text(r, &match, &weight.match));
    activation.match = weight.match;
    SW_TRY(read_activation(r, at, "activation", &activation.type));
    SW_TRY(read_method(r, at, &activation.method));
    has_activation = activation.type != SW_DTYPE_COUNT || activation.method.kind != SW_METHOD_DEFAULT;
    SW_TRY(read_weight(r, at, &weight.type, &weight.form, &weight.rounding, &has_weight));
    if (op.value != NULL) {
        const char *text;
        SW_TRY(sw_json_text(&op, false, MAX_TEXT, &text, r->err));
        if (!sw_op_from_name(text, &activation.op)) return sw_json_fail(&op, r->err, "unknown op `%s`", text);
        if (has_weight)
            return sw_json_fail(&op, r->err, "weights are named by `match` alone: all are FullyConnected's");
    }
    if (!has_weight && !has_activation)
        return sw_json_fail(at, r->err,
                            "changes nothing: wanted activation, observer, weight_bits, scales, block "
                            "or rounding");
    if (has_weight) weights[recipe->n_weight_rules++] = weight;
    if (has_activation) activations[recipe->n_activation_rules++] = activation;
    return SW_OK;
}

/* Behind those of the recipe that this one starts from. */
static sw_code read_rules(const reader *r, const sw_json *at) {
    sw_recipe *recipe = r->recipe;
    size_t count;
    SW_TRY(sw_json_array(at, 0, MAX_RULES, &count, r->err));
    sw_weight_rule *weights = sw_arena_array(r->arena, recipe->n_weight_rules + count, sizeof *weights);
    sw_activation_rule *activations = sw_arena_array(r->arena, count, sizeof *activations);
    if (weights == NULL || activations == NULL) return no_memory(r);
    for (uint32_t i = 0; i < recipe->n_weight_rules; i++) weights[i] = recipe->weight_rules[i];
    recipe->weight_rules = weights;
    recipe->activation_rules = activations;
    for (size_t i = 0; i < count; i++) {
        sw_json rule = sw_json_element(at, i);
        SW_TRY(read_rule(r, &rule, weights, activations));
    }
    return SW_OK;
}

static bool kv_is_legal(const sw_recipe *r) {
    return r->kv == r->activation || (r->activation == SW_U16 && r->kv == SW_U8);
}

/* kv_bits of the command line stand above the base's, not above what the file itself says. */
static sw_code set_kv(const reader *r, const sw_json *document, unsigned kv_bits) {
    sw_recipe *recipe = r->recipe;
    const sw_json defaults = sw_json_find(document, "default");
    const sw_dtype wide = recipe->activation == SW_F16 ? SW_F16 : SW_U16,
                   wanted = kv_bits == 8 ? SW_U8 : wide;
    if (kv_bits != 8 && kv_bits != 16)
        return SW_FAIL(r->err, SW_INVALID_ARGUMENT, "--kv_bits: %u, wanted 8 or 16", kv_bits);
    if (sw_json_find(&defaults, "kv").value != NULL && recipe->kv != wanted)
        return SW_FAIL(r->err, SW_INVALID_ARGUMENT,
                       "--kv_bits %u, but %s says that K and V are %s: wanted one of them", kv_bits,
                       document->file, sw_dtype_name(recipe->kv));
    recipe->kv = wanted;
    if (kv_is_legal(recipe)) return SW_OK;
    return SW_FAIL(r->err, SW_INVALID_ARGUMENT,
                   "--kv_bits %u: %s has activations of %s, K and V can't be %s beside them", kv_bits,
                   document->file, sw_dtype_name(recipe->activation), sw_dtype_name(wanted));
}

static sw_code check_kv(const reader *r, const sw_json *document) {
    const sw_recipe *recipe = r->recipe;
    if (kv_is_legal(recipe)) return SW_OK;
    return sw_json_fail(document, r->err, "activations of %s with a KV cache of %s: wanted %s%s",
                        sw_dtype_name(recipe->activation), sw_dtype_name(recipe->kv),
                        sw_dtype_name(recipe->activation), recipe->activation == SW_U16 ? " or u8" : "");
}

static sw_code read_document(const reader *r, const sw_json *document, unsigned kv_bits) {
    static const char *const keys[] = {"name", "base", "default", "rules", NULL};
    SW_TRY(sw_json_only_keys(document, keys, r->err));
    sw_json at = sw_json_find(document, "base");
    const char *text = "16a8w", *name = r->recipe->name;
    if (at.value != NULL) SW_TRY(sw_json_text(&at, false, MAX_TEXT, &text, r->err));
    sw_error why; /* of a command line's name; here it is the file that is wrong */
    if (sw_recipe_find(r->recipe, text, 0, &why) != SW_OK)
        return sw_json_fail(&at, r->err, "%s", why.message);
    r->recipe->name = name;
    at = sw_json_find(document, "name");
    if (at.value != NULL) SW_TRY(get_text(r, &at, &r->recipe->name));
    at = sw_json_find(document, "default");
    if (at.value != NULL) SW_TRY(read_default(r, &at));
    at = sw_json_find(document, "rules");
    if (at.value != NULL) SW_TRY(read_rules(r, &at));
    SW_TRY(check_kv(r, document));
    return kv_bits != 0 ? set_kv(r, document, kv_bits) : SW_OK;
}

/* "folder/mine.json" -> "mine". A file's name is any bytes, a recipe's name is text in JSON: what can't stand
 * there becomes '_'. */
static const char *name_of(const char *path, sw_arena *arena) {
    const char *slash = strrchr(path, '/'), *from = slash != NULL ? slash + 1 : path;
    size_t size = strlen(from) - strlen(".json"), bad;
    char *name = sw_arena_strndup(arena, size > 0 ? from : "_",
                                  size == 0         ? 1
                                  : size < MAX_TEXT ? size
                                                    : MAX_TEXT);
    if (name == NULL) return NULL;
    for (char *p = name; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = '_';
    while (!sw_utf8_valid(name, strlen(name), &bad)) name[bad] = '_';
    return name;
}

sw_code sw_recipe_load(sw_recipe *out, const char *name_or_file, unsigned kv_bits, sw_arena *arena,
                       sw_error *err) {
    size_t length = strlen(name_or_file);
    if (length < 6 || strcmp(name_or_file + length - 5, ".json") != 0)
        return sw_recipe_find(out, name_or_file, kv_bits, err);
    *out = (sw_recipe){.name = name_of(name_or_file, arena)};
    reader r = {out, arena, err};
    char *text;
    size_t size;
    sw_json document;
    if (out->name == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", name_or_file);
    SW_TRY(sw_file_read_text(name_or_file, MAX_FILE_BYTES, arena, &text, &size, err));
    SW_TRY(sw_json_parse(&document, name_or_file, text, size, err));
    sw_code code = read_document(&r, &document, kv_bits);
    sw_json_free(&document);
    return code;
}
