/* qf32.h: "qf32", the single precision in which the HTP's vector unit multiplies and adds, for values above
 * 0.
 *
 * A qf32 is m * 2^e with m an odd multiple of 2^-23 below 2: half of the last bit is implied, so that every
 * value stands in the middle of its step. e isn't normalised, m may be far below 1: an operation's step
 * follows from its operands' exponents, not from its result. Between two steps of 4 units (2^-23) a result
 * goes to unit 1 or 3, or where it is nearest to 2 to that, as unit 1 of the next exponent. So 1.0f * 1.0f is
 * 1 + 2^-23.
 *
 * The rules are those of the architecture's public model (quic/qemu, target/hexagon/mmvec/mmvec_qfloat.c, the
 * format before V79); the emulator's integers confirm them (docs/numerics.md, "RmsNorm"). */
#ifndef SW_CPU_QF32_H
#define SW_CPU_QF32_H

#include <math.h>
#include <stdbool.h>

typedef struct sw_qf32 {
    double m;
    int e;
} sw_qf32;

/* x * 2^e, 0 <= x < 4; rest has the sign of what is missing from x. */
static inline sw_qf32 sw_qf32_round(double x, double rest, int e) {
    if (x == 0) return (sw_qf32){0x1p-23, -127};
    const bool over = x >= 2;
    const double units = x * (over ? 0x1p22 : 0x1p23), step = 4 * floor(units / 4), at = units - step;
    /* Where a result lies right on a boundary, rest decides. */
    const double first = over ? 2 : 1.5;
    if (at == 0 && rest < 0) return (sw_qf32){(step - 1) * 0x1p-23, e + over};
    if (at < first || (at == first && rest <= 0)) return (sw_qf32){(step + 1) * 0x1p-23, e + over};
    if (!over && (at < 2.5 || (at == 2.5 && rest <= 0))) return (sw_qf32){(step + 2) * 0x1p-24, e + 1};
    return (sw_qf32){(step + 3) * 0x1p-23, e + over};
}

/* As an operand: m in [1, 2), which may be even. Zero is far below every other value. */
static inline sw_qf32 sw_qf32_operand(float x) {
    int e;
    const double m = frexp((double)x, &e);
    return x == 0 ? (sw_qf32){0, -127} : (sw_qf32){2 * m, e - 1};
}

static inline sw_qf32 sw_qf32_multiply(sw_qf32 a, sw_qf32 b) {
    return sw_qf32_round(a.m * b.m, 0, a.e + b.e); /* 49 bits: exact */
}

static inline sw_qf32 sw_qf32_add(sw_qf32 a, sw_qf32 b) {
    if (a.e <= b.e) {
        const sw_qf32 t = a;
        a = b, b = t;
    }
    int e = a.m == 0 ? b.e : a.e + ilogb(a.m);
    if (e < b.e) e = b.e;
    const double x = ldexp(a.m, a.e - e), y = ldexp(b.m, b.e - e), sum = x + y;
    return sw_qf32_round(sum, (x - sum) + y, e);
}

static inline float sw_qf32_to_float(sw_qf32 a) {
    return (float)ldexp(a.m, a.e); /* exact: 24 bits */
}

/* The product of two floats, as a float. */
static inline float sw_qf32_product(float a, float b) {
    return sw_qf32_to_float(sw_qf32_multiply(sw_qf32_operand(a), sw_qf32_operand(b)));
}

#endif
