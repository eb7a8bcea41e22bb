/* quant.h: from a float decoder to a quantized one: calibrate, give types and encodings, quantize constants.
 */
#ifndef SW_QUANT_QUANT_H
#define SW_QUANT_QUANT_H

#include "base/threads.h"
#include "device/device.h"
#include "graph/decoder.h"
#include "quant/hessian.h"

/* How weights become integers: enumerator, name. */
#define SW_ROUNDINGS(X)                                                                                      \
    X(SW_ROUND_NEAREST, "nearest") /* each by itself */                                                      \
    X(SW_ROUND_GPTQ, "gptq")       /* so that the layer's output on the calibration text changes least */

typedef enum sw_rounding {
#define SW_ROUNDING_ENUM(id, name) id,
    SW_ROUNDINGS(SW_ROUNDING_ENUM)
#undef SW_ROUNDING_ENUM
        SW_ROUNDING_COUNT
} sw_rounding;

bool sw_rounding_from_name(const char *name, sw_rounding *out);

/* Constants whose names match have another type or form; * is any run of characters, also an empty one. */
typedef struct sw_weight_rule {
    const char *match; /* "layer_*.down_proj" */
    sw_dtype type;
    sw_weight_form form; /* of SW_S8 */
    sw_rounding rounding;
    const char *place; /* in a recipe file, for messages; NULL: of a shipped recipe */
} sw_weight_rule;

/* How a range follows from what calibration sees. */
#define SW_RANGE_METHODS(X)                                                                                  \
    X(SW_METHOD_DEFAULT, "")                      /* of a rule: what holds without it */                     \
    X(SW_METHOD_MINMAX, "minmax")                 /* from the least to the greatest */                       \
    X(SW_METHOD_MOVING_AVERAGE, "moving_average") /* of windows' least and greatest values */                \
    X(SW_METHOD_PERCENTILE, "percentile")         /* less the outermost values at either end */              \
    X(SW_METHOD_MSE, "mse")                       /* with the least squared error of the values */

typedef enum sw_range_method_kind {
#define SW_RANGE_METHOD_ENUM(id, name) id,
    SW_RANGE_METHODS(SW_RANGE_METHOD_ENUM)
#undef SW_RANGE_METHOD_ENUM
        SW_METHOD_COUNT
} sw_range_method_kind;

typedef struct sw_range_method {
    sw_range_method_kind kind;
    double parameter; /* moving average: the new window's share, 0 to 1; percentile: 50 to 100 */
} sw_range_method;

/* Activations whose range names match, and that an op of that type makes, have another type, or a range by
 * another method. */
typedef struct sw_activation_rule {
    const char *match;
    sw_op_type op;     /* SW_OP_COUNT: whatever makes them, the host too */
    sw_dtype type;     /* SW_DTYPE_COUNT: what holds without the rule */
    const char *place; /* as above */
    sw_range_method method;
} sw_activation_rule;

#define SW_SMOOTH_SEARCH (-1.0f)

/* A recipe: the type of each role, and exceptions: of rules that match, the last one counts. With tied
 * embeddings the head's constant is "embedding". */
typedef struct sw_recipe {
    const char *name;                       /* "16a8w", "8a8w", "f16" */
    sw_dtype activation, kv, weight, gamma; /* f16: all SW_F16 */
    bool rotate;            /* wants the model of sw_rotate_model: integers can't reach its outliers else */
    bool sink;              /* wants the chat's first token outside of the graphs: quant/sink.h */
    float smooth;           /* strength of sw_smooth_model, 0 to 1, or SW_SMOOTH_SEARCH; 0: none */
    sw_range_method method; /* of ranges; SW_METHOD_DEFAULT is min-max */
    sw_weight_form form;    /* of weights in SW_S8 */
    sw_rounding rounding;
    const sw_weight_rule *weight_rules;
    uint32_t n_weight_rules;
    const sw_activation_rule *activation_rules;
    uint32_t n_activation_rules;
} sw_recipe;

/* The recipe of that name with KV of kv_bits (0: the recipe's default). SW_INVALID_ARGUMENT for another name
 * or width, with the legal ones. */
sw_code sw_recipe_find(sw_recipe *out, const char *name, unsigned kv_bits, sw_error *err) SW_MUST_CHECK;

/* The same for "FILE.json", a recipe file: docs/recipes.md. What it holds lives in the arena.
 * Errors also: those of reading; SW_BAD_DATA with file, key, value and what is legal. */
sw_code sw_recipe_load(sw_recipe *out, const char *name_or_file, unsigned kv_bits, sw_arena *arena,
                       sw_error *err) SW_MUST_CHECK;

/* True where some ranges are more than least and greatest values: they serve no other recipe then. */
bool sw_recipe_has_methods(const sw_recipe *recipe);
const char *sw_range_method_name(sw_range_method_kind kind);
/* What the recipe says of a constant. */
sw_weight_rule sw_recipe_weight(const sw_recipe *recipe, const char *constant);

/* True where some of its weights have scales of that kind. */
bool sw_recipe_has_scales(const sw_recipe *recipe, sw_scales scales);

/* Warns of each rule of a recipe file that no name of the float decoder matches, with the nearest names. */
void sw_recipe_warn_unmatched(const sw_recipe *recipe, const sw_decoder *decoder);

/* What calibration saw, by sw_tensor.range. */
typedef struct sw_ranges sw_ranges;

typedef struct sw_window { /* a run of text: n_tokens ids, from position 0 */
    const int32_t *ids;
    uint32_t n_tokens;
} sw_window;

/* Runs the float model over the windows on a device that can observe; behind its sink (f32) where there is
 * one, else NULL. Ranges follow by the recipe's methods; recipe NULL: min-max. Draws progress. Errors:
 * SW_INVALID_ARGUMENT (no window, an id out of range), or the device's. */
sw_code sw_calibrate(sw_ranges **out, const sw_model *model, const sw_sink *sink, const sw_recipe *recipe,
                     sw_device *device, const sw_window *windows, size_t n_windows,
                     sw_error *err) SW_MUST_CHECK;
/* The same over windows of several documents each (pack.h), for 16-bit activations: with so many steps to
 * spare, ranges reach beyond what these few tokens show (sw_ranges_widen); not those of K and V. */
struct sw_packs;
sw_code sw_calibrate_packed(sw_ranges **out, const sw_model *model, const sw_sink *sink,
                            const sw_recipe *recipe, sw_device *device, const struct sw_packs *packs,
                            sw_error *err) SW_MUST_CHECK;
void sw_ranges_free(sw_ranges *ranges); /* NULL is allowed */

/* Figures for the user. */
typedef struct sw_quantize_report {
    double smallest_u16_ratio; /* s_out / (s_x s_w) over u16 products; 0 where there is none */
    char smallest_u16_ratio_tensor[SW_NAME_BYTES];
    uint32_t n_converts;
} sw_quantize_report;

/* Gives every tensor of every graph its type and encoding, and puts a Convert where widths meet: never
 * between equal ones. ranges may be NULL for a float recipe. Constants get their types; their data comes from
 * sw_quantize_constant. After an error the decoder is only good for sw_decoder_free. */
sw_code sw_quantize_types(sw_decoder *decoder, const sw_recipe *recipe, const sw_ranges *ranges,
                          sw_error *err) SW_MUST_CHECK;

/* What quantizing a constant changed. */
typedef struct sw_weight_cost {
    bool unchanged;       /* the file's own integers and scales: its blocks are what the form wants */
    double signal, noise; /* sums of squares: of the file's values, of the differences from them */
} sw_weight_cost;

/* True where the file's own blocks are what the constant's form wants: they are taken as they are. */
bool sw_weight_stays(const sw_tensor *t);

/* One constant's values as its type, from its view in the checkpoint: data [sw_tensor_bytes(t)]. Fills the
 * encoding, or the form's scales (in the decoder's arena). t->data stays as it is: how long data lives is the
 * caller's affair. pool and cost may be NULL. Errors: SW_BAD_DATA (a value that isn't finite), SW_UNSUPPORTED
 * (beyond f16; rows that blocks don't divide), SW_INVALID_ARGUMENT (no view), SW_NO_MEMORY. */
sw_code sw_quantize_constant(sw_decoder *decoder, sw_tensor *t, void *data, sw_pool *pool,
                             sw_weight_cost *cost, sw_error *err) SW_MUST_CHECK;

/* The same, but an s8 matrix that doesn't stay is rounded by the factor of its inputs (gptq.h). NULL: to the
 * nearest. Errors also: SW_INVALID_ARGUMENT (a factor of another size). */
sw_code sw_round_constant(sw_decoder *decoder, sw_tensor *t, const sw_factor *factor, void *data,
                          sw_pool *pool, sw_weight_cost *cost, sw_error *err) SW_MUST_CHECK;

/* Costs of all matrices of a model, summed up by how the file stores them and what they became. */
typedef struct sw_weight_costs {
    struct {
        uint32_t tensors;
        double signal, noise;
    } sums[SW_STORE_COUNT][SW_SCALES_COUNT][2]; /* 2: 8 bits, 4 bits */
    uint32_t unchanged[SW_STORE_COUNT];
    uint32_t block; /* of those that have one */
} sw_weight_costs;

void sw_weight_costs_add(sw_weight_costs *costs, const sw_tensor *t, const sw_weight_cost *cost);
/* A line each: "weights: 210 matrices of Q4_1 to 4 bits, float_block 32: SQNR 24.1 dB". */
void sw_weight_costs_log(const sw_weight_costs *costs);

/* After all constants have their scales. */
void sw_quantize_get_report(const sw_decoder *decoder, sw_quantize_report *out);

/* The text to calibrate with where the user gives none: data/calibration.txt, UTF-8, static. Documents stand
 * between lines that hold a form feed alone; special tokens (<|im_start|>) are written out. */
const char *sw_calibration_default_text(size_t *size);

/* Cuts the next document off a text of that form: moves *rest behind it. False at the end. Documents of white
 * space alone are passed over. */
bool sw_calibration_next_document(sw_span *rest, sw_span *document);

#endif
