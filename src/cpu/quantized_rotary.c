/* quantized_rotary.c: RotaryEmbedding of u8 and u16. */
#include "cpu/product.h"
#include "cpu/quantized.h"
#include "cpu/row_isa.h"

bool sw_quantized_rotary_matches(const sw_op_call *call) {
    const sw_tensor *x = call->in[0], *cosine = call->in[1], *sine = call->in[2];
    return sw_is_unsigned_quantized(x) && sw_is_unsigned_quantized(cosine) &&
           sw_is_unsigned_quantized(sine) && call->out->dtype == x->dtype && x->rank == 4 &&
           sw_same_elements(call->out, x) && x->dims[3] % 2 == 0 && x->dims[0] == 1 &&
           sw_tensor_elements(cosine) == (uint64_t)x->dims[2] * (x->dims[3] / 2) &&
           sw_same_elements(sine, cosine);
}

/* The HTP's products of u16: two factors' worth of eighths of a step, and what each output takes off. */
typedef struct rotary_prepared {
    bool u16, u8;      /* by HTP's integers; else in double */
    unsigned fraction; /* u8: bits of a rounded product */
    sw_product8 cos_u8, sin_u8;
    sw_product by_cos, by_sin;
    int64_t low_share, high_share; /* of [a c - b s] and [b c + a s] */
    const sw_row_isa *isa;         /* NULL: the rule needs 64 bits */
    sw_rotary_rule rule;
    sw_rotary8_rule rule8;
} rotary_prepared;

static bool product_fits_int32(sw_product p, int32_t oa, int32_t ob) {
    if (!sw_products_fit_int32(oa, ob, UINT16_MAX, 1, p.bias)) return false;
    /* Sums of three results below 2^31 * multiplier / 2^31 have 32 bits. */
    return p.bias >= INT32_MIN && p.bias <= INT32_MAX && p.multiplier < 1 << 28;
}

static void set_rotary_rule(const sw_op_call *call, rotary_prepared *p) {
    const int32_t ox = call->in[0]->encoding.offset, oc = call->in[1]->encoding.offset,
                  os = call->in[2]->encoding.offset;
    if (!p->u16 || !product_fits_int32(p->by_cos, ox, oc) || !product_fits_int32(p->by_sin, ox, os)) return;
    p->rule = (sw_rotary_rule){.zx = ox,
                               .zc = oc,
                               .zs = os,
                               .cos_bias = (int32_t)p->by_cos.bias,
                               .cos_multiplier = (int32_t)p->by_cos.multiplier,
                               .sin_bias = (int32_t)p->by_sin.bias,
                               .sin_multiplier = (int32_t)p->by_sin.multiplier,
                               .low_share = (int32_t)p->low_share,
                               .high_share = (int32_t)p->high_share,
                               .offset = call->out->encoding.offset};
    p->isa = sw_row_best();
}

static bool rule8_of(sw_product8 p, int32_t oa, int32_t ob, sw_product8_rule *out) {
    const int64_t constant = (1 << 14) - p.centre;
    if (!sw_products_fit_int32(oa, ob, UINT8_MAX, p.multiplier, constant)) return false;
    *out = (sw_product8_rule){(uint32_t)p.multiplier, (uint32_t)constant, (int32_t)p.steps};
    return p.steps > -(1 << 24) && p.steps < 1 << 24; /* sums of some have 32 bits */
}

static void set_rotary8_rule(const sw_op_call *call, rotary_prepared *p) {
    const int32_t ox = call->in[0]->encoding.offset, oc = call->in[1]->encoding.offset,
                  os = call->in[2]->encoding.offset;
    p->rule8 = (sw_rotary8_rule){.zx = ox,
                                 .zc = oc,
                                 .zs = os,
                                 .half = (int32_t)1 << p->fraction >> 1,
                                 .offset = call->out->encoding.offset,
                                 .fraction = p->fraction};
    if (p->u8 && rule8_of(p->cos_u8, ox, oc, &p->rule8.cosine) && rule8_of(p->sin_u8, ox, os, &p->rule8.sine))
        p->isa = sw_row_best();
}

sw_code sw_quantized_rotary_prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    const sw_tensor *x = call->in[0], *cosine = call->in[1], *sine = call->in[2], *y = call->out;
    rotary_prepared *p = sw_arena_alloc(arena, sizeof *p);
    if (p == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    const float by_y = 1 / y->encoding.scale; /* a reciprocal, as the HTP has it */
    const float cos_ratio = x->encoding.scale * cosine->encoding.scale * by_y;
    const float sin_ratio = x->encoding.scale * sine->encoding.scale * by_y;
    p->u16 = x->dtype == SW_U16 && cosine->dtype == SW_U16 && sine->dtype == SW_U16 &&
             sw_product_fits(cos_ratio) && sw_product_fits(sin_ratio);
    const float larger = cos_ratio > sin_ratio ? cos_ratio : sin_ratio;
    p->u8 = x->dtype == SW_U8 && cosine->dtype == SW_U8 && sine->dtype == SW_U8 && larger < 0.5f;
    const unsigned shift = sw_product8_shift(larger);
    p->fraction = shift - 15;
    p->cos_u8 = sw_product8_of(cos_ratio, shift, x->encoding.offset, cosine->encoding.offset);
    p->sin_u8 = sw_product8_of(sin_ratio, shift, x->encoding.offset, sine->encoding.offset);
    p->by_cos = sw_product_of(cos_ratio, x->encoding.offset, cosine->encoding.offset);
    p->by_sin = sw_product_of(sin_ratio, x->encoding.offset, sine->encoding.offset);
    const int64_t cos_bias = p->by_cos.bias * p->by_cos.multiplier;
    const int64_t sin_bias = p->by_sin.bias * p->by_sin.multiplier;
    p->low_share = -sw_product_round(sin_bias - cos_bias);
    p->high_share = -sw_product_round(-sin_bias - cos_bias);
    set_rotary_rule(call, p);
    set_rotary8_rule(call, p);
    call->prepared = p;
    return SW_OK;
}

/* Of half a row: whole vectors of 64 columns, and a last half vector, cut to eighths; any other rest rounds.
 */
static size_t cut_columns(size_t half) {
    return half % 64 == 32 ? half : half / 64 * 64;
}

/* Rows are (head, position); row r has position r % n. */
static void rotary_rows_u16(const sw_op_call *call, size_t begin, size_t end) {
    const rotary_prepared *p = call->prepared;
    const sw_tensor *x = call->in[0], *y = call->out;
    const size_t n = x->dims[2], half = x->dims[3] / 2, cut = cut_columns(half);
    const int32_t ox = x->encoding.offset, oc = call->in[1]->encoding.offset,
                  os = call->in[2]->encoding.offset, oy = y->encoding.offset;
    for (size_t r = begin; r < end; r++) {
        const uint16_t *row = (const uint16_t *)call->in_data[0] + r * 2 * half;
        const uint16_t *cosine = (const uint16_t *)call->in_data[1] + r % n * half;
        const uint16_t *sine = (const uint16_t *)call->in_data[2] + r % n * half;
        uint16_t *out = (uint16_t *)call->out_data + r * 2 * half;
        if (p->isa != NULL && cut > 0) p->isa->rotary_u16(half, row, cosine, sine, p->rule, out);
        for (size_t i = p->isa != NULL ? cut : 0; i < half; i++) {
            const int32_t a = row[i] + ox, b = row[i + half] + ox, c = cosine[i] + oc, s = sine[i] + os;
            int64_t (*eighths)(sw_product, int64_t, int64_t) =
                i < cut ? sw_product_eighths : sw_product_rounded_eighths;
            const int64_t low = eighths(p->by_cos, a, c) - eighths(p->by_sin, b, s);
            const int64_t high = eighths(p->by_cos, b, c) + eighths(p->by_sin, a, s);
            out[i] = (uint16_t)sw_product_store(low - p->low_share, oy, UINT16_MAX);
            out[i + half] = (uint16_t)sw_product_store(high - p->high_share, oy, UINT16_MAX);
        }
    }
}

/* Products rounded to 2^-fraction of a step, then their sum to a step, both half up. */
static void rotary_rows_u8(const sw_op_call *call, size_t begin, size_t end) {
    const rotary_prepared *p = call->prepared;
    const sw_tensor *x = call->in[0], *y = call->out;
    const size_t n = x->dims[2], half = x->dims[3] / 2;
    const int32_t ox = x->encoding.offset, oc = call->in[1]->encoding.offset,
                  os = call->in[2]->encoding.offset;
    const int64_t half_step = (int64_t)1 << p->fraction >> 1, oy = y->encoding.offset;
    for (size_t r = begin; r < end; r++) {
        const uint8_t *row = (const uint8_t *)call->in_data[0] + r * 2 * half;
        const uint8_t *cosine = (const uint8_t *)call->in_data[1] + r % n * half;
        const uint8_t *sine = (const uint8_t *)call->in_data[2] + r % n * half;
        uint8_t *out = (uint8_t *)call->out_data + r * 2 * half;
        if (p->isa != NULL) {
            p->isa->rotary_u8(half, row, cosine, sine, p->rule8, out);
            continue;
        }
        for (size_t i = 0; i < half; i++) {
            const int32_t a = row[i] + ox, b = row[i + half] + ox, c = cosine[i] + oc, s = sine[i] + os;
            int64_t low = sw_product8_rounded(p->cos_u8, a, c) - sw_product8_rounded(p->sin_u8, b, s);
            int64_t high = sw_product8_rounded(p->cos_u8, b, c) + sw_product8_rounded(p->sin_u8, a, s);
            low = ((low + half_step) >> p->fraction) - oy, high = ((high + half_step) >> p->fraction) - oy;
            out[i] = (uint8_t)(low < 0 ? 0 : low > UINT8_MAX ? UINT8_MAX : low);
            out[i + half] = (uint8_t)(high < 0 ? 0 : high > UINT8_MAX ? UINT8_MAX : high);
        }
    }
}

static void rotary_rows(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    if (((const rotary_prepared *)call->prepared)->u16) {
        rotary_rows_u16(call, begin, end);
        return;
    }
    if (((const rotary_prepared *)call->prepared)->u8) {
        rotary_rows_u8(call, begin, end);
        return;
    }
    const sw_tensor *x = call->in[0], *cosine = call->in[1], *sine = call->in[2], *y = call->out;
    const size_t n = x->dims[2], half = x->dims[3] / 2;
    const double by_cos = (double)x->encoding.scale * cosine->encoding.scale / y->encoding.scale;
    const double by_sin = (double)x->encoding.scale * sine->encoding.scale / y->encoding.scale;
    const int32_t max = sw_dtype_max(y->dtype);
    for (size_t r = begin; r < end; r++)
        for (size_t i = 0; i < half; i++) {
            size_t at = r * 2 * half + i, angle = r % n * half + i;
            double a = sw_load_unsigned(call->in_data[0], x->dtype, at) + (double)x->encoding.offset;
            double b = sw_load_unsigned(call->in_data[0], x->dtype, at + half) + (double)x->encoding.offset;
            double c =
                (sw_load_unsigned(call->in_data[1], cosine->dtype, angle) + (double)cosine->encoding.offset) *
                by_cos;
            double s =
                (sw_load_unsigned(call->in_data[2], sine->dtype, angle) + (double)sine->encoding.offset) *
                by_sin;
            sw_store_unsigned(call->out_data, y->dtype, at,
                              sw_half_up_saturated(a * c - b * s, y->encoding.offset, max));
            sw_store_unsigned(call->out_data, y->dtype, at + half,
                              sw_half_up_saturated(b * c + a * s, y->encoding.offset, max));
        }
}

enum { ELEMENTS_PER_RANGE = 4096 };

void sw_quantized_rotary_run(const sw_op_call *call) {
    const sw_tensor *x = call->in[0];
    sw_op_call copy = *call;
    sw_pool_for(call->pool, (size_t)x->dims[0] * x->dims[1] * x->dims[2], 1 + ELEMENTS_PER_RANGE / x->dims[3],
                rotary_rows, &copy);
}
