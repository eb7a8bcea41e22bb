/* quantized_elementwise.c: Add and Multiply with numpy's broadcast, and Convert, of u8 and u16. */
#include <math.h>

#include "cpu/product.h"
#include "cpu/quantized.h"
#include "cpu/row_isa.h"

enum { ELEMENTS_PER_RANGE = 4096 };

/* Dimension i of t as if it had rank `rank`, counted from the front: 1 where it has none. */
static uint32_t padded_dim(const sw_tensor *t, uint32_t rank, uint32_t i) {
    return i + t->rank < rank ? 1 : t->dims[i + t->rank - rank];
}

typedef enum binary_form { IN_DOUBLE, ADD_INTEGERS, MULTIPLY_U8, MULTIPLY_U16 } binary_form;

typedef struct binary_prepared {
    binary_form form;
    double a, b;          /* IN_DOUBLE; Add: multipliers; Multiply: a alone */
    int64_t add_a, add_b; /* ADD_INTEGERS: */
    int64_t add_constant; /* y = (((qa * a + qb * b) >> cut) + constant) >> shift */
    unsigned add_cut, add_shift;
    int64_t multiplier, constant; /* MULTIPLY_U8: y = (a * b * multiplier + constant) >> shift */
    unsigned shift;
    sw_product product; /* MULTIPLY_U16: cpu/product.h */
    int64_t share;
    size_t a_stride[SW_MAX_RANK], b_stride[SW_MAX_RANK]; /* 0 where broadcast */
    const sw_row_isa *isa;                               /* of dense rows; NULL: the rule needs 64 bits */
    sw_add_rule add_rule;
    sw_multiply_rule multiply_rule;
    sw_multiply8_rule multiply8_rule;
} binary_prepared;

bool sw_quantized_binary_matches(const sw_op_call *call) {
    const sw_tensor *a = call->in[0], *b = call->in[1], *y = call->out;
    if (!sw_is_unsigned_quantized(a) || b->dtype != a->dtype || y->dtype != a->dtype) return false;
    if (y->rank == 0 || a->rank > y->rank || b->rank > y->rank) return false;
    for (uint32_t i = 0; i < y->rank; i++) {
        uint32_t da = padded_dim(a, y->rank, i), db = padded_dim(b, y->rank, i);
        if ((da != y->dims[i] && da != 1) || (db != y->dims[i] && db != 1)) return false;
    }
    return true;
}

static void broadcast_strides(const sw_tensor *t, const sw_tensor *y, size_t *strides) {
    size_t step = 1;
    for (uint32_t i = y->rank; i-- > 0;) {
        uint32_t d = padded_dim(t, y->rank, i);
        strides[i] = d == 1 ? 0 : step;
        step *= d;
    }
}

/* The ratio in single precision, as the HTP has it, then 16 bits of it, ties to even. */
static double widening_multiplier(const sw_tensor *x, const sw_tensor *y) {
    int exponent;
    const double mantissa = frexp((double)(x->encoding.scale / y->encoding.scale), &exponent);
    return ldexp(rint(ldexp(mantissa, 16)), exponent - 16);
}

/* share: what the inputs' offsets add. */
static void set_add(const sw_op_call *call, binary_prepared *p, int64_t a, int64_t b, unsigned cut,
                    unsigned fraction, int64_t share) {
    p->form = ADD_INTEGERS;
    p->add_a = a, p->add_b = b;
    p->add_cut = cut, p->add_shift = fraction;
    p->add_constant =
        share - call->out->encoding.offset * ((int64_t)1 << fraction) + ((int64_t)1 << (fraction - 1));
}

/* HTP's Add of u8: multipliers of s bits, s = 13 for a sum of ratios in [1, 2), one more for each halving,
 * but 15 at most; the sum cut to s - 8 fraction bits; the offsets' share, below 0, rounded half down to as
 * many. */
static void prepare_add_u8(const sw_op_call *call, binary_prepared *p) {
    const int32_t oa = call->in[0]->encoding.offset, ob = call->in[1]->encoding.offset;
    const float least = 0x1.ffdffep-1f; /* 4094 / 4095: a sum of this and more counts as the power above */
    int exponent;
    if (frexpf((float)p->a + (float)p->b, &exponent) >= least) exponent++;
    const int bits = exponent < -1 ? 15 : 14 - exponent, fraction = bits - 8;
    if (fraction < 1) return;
    const int64_t a = (int64_t)rint(ldexp(p->a, bits)), b = (int64_t)rint(ldexp(p->b, bits));
    set_add(call, p, a, b, 8, (unsigned)fraction, (oa * a + ob * b + 127) >> 8);
}

/* HTP's Add of u16 (hexagon-nn's op_addsubmul_16.c has its scaling): multipliers of 15 bits, both of one
 * power of two, the sum of each half cut to fraction bits. A larger ratio that is just short of a power of
 * two counts as that power. */
static void prepare_add_u16(const sw_op_call *call, binary_prepared *p) {
    const int32_t oa = call->in[0]->encoding.offset, ob = call->in[1]->encoding.offset;
    int exponent;
    frexpf(1.00004f * (float)(p->a > p->b ? p->a : p->b), &exponent);
    const int bits = exponent < -1 ? 16 : 15 - exponent, fraction = bits - 1;
    if (fraction < 1) return;
    const int64_t a = (int64_t)rint(ldexp(p->a, bits)), b = (int64_t)rint(ldexp(p->b, bits));
    set_add(call, p, a, b, 1, (unsigned)fraction, -((-oa * a - ob * b) >> 1));
}

/* HTP's Multiply of u8: one product, rounded once. The ratio is one of another order than u16's. */
static void prepare_multiply_u8(const sw_op_call *call, binary_prepared *p) {
    const float ratio = call->in[0]->encoding.scale / call->out->encoding.scale * call->in[1]->encoding.scale;
    if (!(ratio < 1)) return; /* far from any seen, and another rule */
    p->form = MULTIPLY_U8;
    p->shift = sw_product8_shift(ratio);
    const sw_product8 product =
        sw_product8_of(ratio, p->shift, call->in[0]->encoding.offset, call->in[1]->encoding.offset);
    p->multiplier = product.multiplier;
    p->constant = -product.centre - product.steps * (1 << 15) -
                  call->out->encoding.offset * ((int64_t)1 << p->shift) + ((int64_t)1 << (p->shift - 1));
}

static bool fits_int32(int64_t v) {
    return v >= INT32_MIN && v <= INT32_MAX;
}

/* The same rules for cpu/row_isa.h, where they fit its 32 bits. */
static void set_loop_rules(const sw_op_call *call, binary_prepared *p) {
    const int64_t top = sw_dtype_max(call->out->dtype);
    if (p->form == ADD_INTEGERS) {
        const int64_t most = top * (p->add_a + p->add_b), cut = most >> p->add_cut;
        if (p->add_a < 0 || p->add_b < 0 || most > UINT32_MAX || !fits_int32(cut) ||
            !fits_int32(p->add_constant) || !fits_int32(cut + p->add_constant) || p->add_shift > 31)
            return;
        p->add_rule = (sw_add_rule){(uint32_t)p->add_a, (uint32_t)p->add_b, (int32_t)p->add_constant,
                                    (int32_t)top,       p->add_cut,         p->add_shift};
        p->isa = sw_row_best();
    } else if (p->form == MULTIPLY_U8) {
        const int32_t za = call->in[0]->encoding.offset, zb = call->in[1]->encoding.offset;
        if (!sw_products_fit_int32(za, zb, UINT8_MAX, p->multiplier, p->constant)) return;
        p->multiply8_rule =
            (sw_multiply8_rule){za, zb, (uint32_t)p->multiplier, (uint32_t)p->constant, p->shift};
        p->isa = sw_row_best();
    } else if (p->form == MULTIPLY_U16) {
        const int32_t za = call->in[0]->encoding.offset, zb = call->in[1]->encoding.offset;
        if (!sw_products_fit_int32(za, zb, UINT16_MAX, 1, p->product.bias)) return;
        if (!fits_int32(p->product.bias)) return;
        /* |e| <= 2^31 * multiplier / 2^31, and a share of as much: halves keep their difference in 32 bits.
         */
        if (p->product.multiplier >= 1 << 30) return;
        p->multiply_rule = (sw_multiply_rule){za,
                                              zb,
                                              (int32_t)p->product.bias,
                                              (int32_t)p->product.multiplier,
                                              (int32_t)p->share,
                                              call->out->encoding.offset};
        p->isa = sw_row_best();
    }
}

sw_code sw_quantized_binary_prepare(sw_op_call *call, sw_arena *arena, sw_error *err) {
    const sw_tensor *a = call->in[0], *b = call->in[1], *y = call->out;
    binary_prepared *p = sw_arena_alloc(arena, sizeof *p);
    if (p == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    broadcast_strides(a, y, p->a_stride);
    broadcast_strides(b, y, p->b_stride);
    if (call->op->type == SW_OP_MULTIPLY) {
        const float ratio = a->encoding.scale * b->encoding.scale / y->encoding.scale;
        p->a = (double)a->encoding.scale * b->encoding.scale / y->encoding.scale;
        if (a->dtype == SW_U8) prepare_multiply_u8(call, p);
        if (a->dtype == SW_U16 && sw_product_fits(ratio)) p->form = MULTIPLY_U16;
        p->product = sw_product_of(ratio, a->encoding.offset, b->encoding.offset);
        p->share = sw_product_round(p->product.bias * p->product.multiplier);
    } else {
        const float by_y = 1 / y->encoding.scale; /* single precision and a reciprocal, as the HTP has it */
        p->a = a->encoding.scale * by_y;
        p->b = b->encoding.scale * by_y;
        const bool sane = fabs(p->a) + fabs(p->b) < 0x1p14; /* far from any ratio seen: doubles do */
        if (sane && a->dtype == SW_U16)
            prepare_add_u16(call, p);
        else if (sane)
            prepare_add_u8(call, p);
    }
    set_loop_rules(call, p);
    call->prepared = p;
    return SW_OK;
}

/* n results from q's integers, sa and sb elements apart (0: one value for all). */
static void binary_row(const sw_op_call *call, size_t n, const void *qa, size_t sa, const void *qb, size_t sb,
                       void *out) {
    const binary_prepared *p = call->prepared;
    const sw_dtype type = call->out->dtype;
    const int32_t offset = call->out->encoding.offset, max = sw_dtype_max(type);
    if (p->isa != NULL && sa == 1 && sb == 1) {
        if (p->form == MULTIPLY_U16)
            p->isa->multiply_u16(n, qa, qb, p->multiply_rule, out);
        else if (p->form == MULTIPLY_U8)
            p->isa->multiply_u8(n, qa, qb, p->multiply8_rule, out);
        else if (type == SW_U16)
            p->isa->add_u16(n, qa, qb, p->add_rule, out);
        else
            p->isa->add_u8(n, qa, qb, p->add_rule, out);
        return;
    }
    if (p->form == ADD_INTEGERS) {
        for (size_t i = 0; i < n; i++) {
            const int64_t a = sw_load_unsigned(qa, type, i * sa), b = sw_load_unsigned(qb, type, i * sb);
            const int64_t v =
                (((a * p->add_a + b * p->add_b) >> p->add_cut) + p->add_constant) >> p->add_shift;
            sw_store_unsigned(out, type, i, v < 0 ? 0 : v > max ? max : (int32_t)v);
        }
        return;
    }
    if (p->form == MULTIPLY_U16) {
        const int32_t za = call->in[0]->encoding.offset, zb = call->in[1]->encoding.offset;
        for (size_t i = 0; i < n; i++) {
            const int64_t e = sw_product_eighths(p->product, ((const uint16_t *)qa)[i * sa] + za,
                                                 ((const uint16_t *)qb)[i * sb] + zb);
            ((uint16_t *)out)[i] = (uint16_t)sw_product_store(e - p->share, offset, max);
        }
        return;
    }
    if (p->form == MULTIPLY_U8) {
        const int32_t za = call->in[0]->encoding.offset, zb = call->in[1]->encoding.offset;
        for (size_t i = 0; i < n; i++) {
            const int32_t a = ((const uint8_t *)qa)[i * sa] + za, b = ((const uint8_t *)qb)[i * sb] + zb;
            const int64_t v = (a * b * p->multiplier + p->constant) >> p->shift;
            ((uint8_t *)out)[i] = (uint8_t)(v < 0 ? 0 : v > max ? max : v);
        }
        return;
    }
    const bool multiply = call->op->type == SW_OP_MULTIPLY;
    const double oa = call->in[0]->encoding.offset, ob = call->in[1]->encoding.offset;
    for (size_t i = 0; i < n; i++) {
        const double va = sw_load_unsigned(qa, type, i * sa) + oa,
                     vb = sw_load_unsigned(qb, type, i * sb) + ob;
        const double steps = multiply ? va * vb * p->a : va * p->a + vb * p->b;
        sw_store_unsigned(out, type, i, sw_half_up_saturated(steps, offset, max));
    }
}

bool sw_quantized_add_is_monotone(const sw_op_call *call) {
    return call->op->type == SW_OP_ADD && call->in[0]->encoding.scale > 0 &&
           call->in[1]->encoding.scale > 0 && call->out->encoding.scale > 0;
}

void sw_quantized_add_row(const sw_op_call *call, bool swapped, size_t n, const void *a, const void *b,
                          void *out) {
    binary_row(call, n, swapped ? b : a, 1, swapped ? a : b, 1, out);
}

/* Rows of the last dimension. */
static void binary_rows(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    const binary_prepared *p = call->prepared;
    const sw_tensor *y = call->out;
    const size_t last = y->rank - 1, width = y->dims[last], element = sw_dtype_bytes(y->dtype);
    for (size_t row = begin; row < end; row++) {
        size_t a = 0, b = 0, rest = row;
        for (size_t d = last; d-- > 0;) {
            size_t i = rest % y->dims[d];
            rest /= y->dims[d];
            a += i * p->a_stride[d], b += i * p->b_stride[d];
        }
        binary_row(call, width, (const char *)call->in_data[0] + a * element, p->a_stride[last],
                   (const char *)call->in_data[1] + b * element, p->b_stride[last],
                   (char *)call->out_data + row * width * element);
    }
}

void sw_quantized_binary_run(const sw_op_call *call) {
    const sw_tensor *y = call->out;
    size_t width = y->dims[y->rank - 1];
    sw_op_call copy = *call;
    sw_pool_for(call->pool, (size_t)sw_tensor_elements(y) / width, 1 + ELEMENTS_PER_RANGE / width,
                binary_rows, &copy);
}

bool sw_quantized_convert_matches(const sw_op_call *call) {
    const sw_tensor *x = call->in[0], *y = call->out;
    if (!sw_same_elements(y, x)) return false;
    return (sw_is_unsigned_quantized(x) && (sw_is_unsigned_quantized(y) || y->dtype == SW_F32)) ||
           (x->dtype == SW_F32 && sw_is_unsigned_quantized(y));
}

/* HTP's Convert of u16 to u8: a multiplier of 14 bits times q + 1, rounded to steps of 2^15, plus a constant
 * of such steps that is rounded up. */
typedef struct narrowing {
    int64_t multiplier, constant; /* y = (q * multiplier + constant) >> shift */
    unsigned shift;               /* 0: another pair of types, or a ratio this was not found for */
} narrowing;

static narrowing narrowing_of(const sw_tensor *x, const sw_tensor *y) {
    const float ratio = x->encoding.scale / y->encoding.scale;
    if (x->dtype != SW_U16 || y->dtype != SW_U8 || !(ratio >= 0x1p-12f && ratio < 0x1p-4f))
        return (narrowing){0, 0, 0};
    int exponent;
    const double mantissa = frexp((double)ratio, &exponent);
    /* As many as leave a multiplier of 2^14 or less, but 22 at most. */
    const int shift = exponent < -7 ? 22 : 14 - exponent + (rint(ldexp(mantissa, 15)) == 0x1p14);
    const int64_t multiplier = (int64_t)rint(ldexp((double)ratio, shift));
    const int64_t fixed = multiplier + (1 << 14); /* of q + 1, and for rounding */
    const int64_t exact = multiplier * x->encoding.offset - y->encoding.offset * ((int64_t)1 << shift) +
                          ((int64_t)1 << (shift - 1));
    const int64_t steps = -((fixed - exact) >> 15);
    return (narrowing){multiplier, fixed + steps * (1 << 15), (unsigned)shift};
}

static void convert_range(void *context, size_t begin, size_t end) {
    const sw_op_call *call = context;
    const sw_tensor *x = call->in[0], *y = call->out;
    if (y->dtype == SW_F32) {
        float *out = call->out_data;
        for (size_t i = begin; i < end; i++)
            out[i] = (float)((sw_load_unsigned(call->in_data[0], x->dtype, i) + (double)x->encoding.offset) *
                             x->encoding.scale);
        return;
    }
    const int32_t offset = y->encoding.offset, max = sw_dtype_max(y->dtype);
    double multiplier = (double)x->encoding.scale / y->encoding.scale;
    if (x->dtype == SW_U8 && y->dtype == SW_U16) multiplier = widening_multiplier(x, y);
    const narrowing n = narrowing_of(x, y);
    const int64_t most = UINT16_MAX * n.multiplier;
    if (n.shift > 0 && fits_int32(n.constant) && fits_int32(most) && fits_int32(most + n.constant)) {
        const sw_narrow_rule rule = {(int32_t)n.multiplier, (int32_t)n.constant, n.shift};
        sw_row_best()->narrow(end - begin, (const uint16_t *)call->in_data[0] + begin, rule,
                              (uint8_t *)call->out_data + begin);
        return;
    }
    for (size_t i = begin; n.shift > 0 && i < end; i++) {
        const int64_t q = (((const uint16_t *)call->in_data[0])[i] * n.multiplier + n.constant) >> n.shift;
        ((uint8_t *)call->out_data)[i] = (uint8_t)(q < 0 ? 0 : q > max ? max : q);
    }
    if (n.shift > 0) return;
    for (size_t i = begin; i < end; i++) {
        double steps;
        if (x->dtype == SW_F32) { /* half away from zero */
            steps = ((const float *)call->in_data[0])[i] / (double)y->encoding.scale;
            steps = steps < 0 ? ceil(steps - 0.5) : floor(steps + 0.5);
        } else {
            steps =
                (sw_load_unsigned(call->in_data[0], x->dtype, i) + (double)x->encoding.offset) * multiplier;
        }
        sw_store_unsigned(call->out_data, y->dtype, i, sw_half_up_saturated(steps, offset, max));
    }
}

void sw_quantized_convert_run(const sw_op_call *call) {
    sw_op_call copy = *call;
    sw_pool_for(call->pool, (size_t)sw_tensor_elements(call->out), ELEMENTS_PER_RANGE, convert_range, &copy);
}
