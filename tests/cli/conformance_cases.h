/* conformance_cases.h: what is compared between the CPU device and the HTP emulator: each op with each
 * combination of types that a recipe makes, at the shapes of SmolLM2-135M (AR 32 and 1, context 128), with
 * the bounds that docs/numerics.md states. conformance_test runs `cases`, weight_forms_slow_test
 * `form_cases`; conformance_rows_test sees that no combination of a shipped recipe lacks a row. */
#ifndef TESTS_CLI_CONFORMANCE_CASES_H
#define TESTS_CLI_CONFORMANCE_CASES_H

#include "graph/ir.h"

typedef enum distribution { NORMAL, UNIFORM, PROBABILITY, MASK, INDEX } distribution;

typedef struct operand {
    sw_dtype dtype;
    distribution values;
    double low, high; /* of the encoding; a normal distribution's deviation is an eighth of high - low */
    uint32_t dims[SW_MAX_RANK];
    bool constant;
} operand;

typedef struct conformance_case {
    const char *name;
    sw_op_type op;
    float parameter; /* epsilon, beta, Concat's axis, or 1 for transpose_in1 */
    operand in[3], out;
    double worst;   /* LSB; f16: parts of the outputs' root mean square */
    double percent; /* of outputs that may differ */
} conformance_case;

#define A8  SW_U8
#define A16 SW_U16
#define OF(type, values, low, high, ...)                                                                     \
    { type, values, low, high, {__VA_ARGS__}, false }
#define X(type, ...)            OF(type, NORMAL, -4.1, 3.7, __VA_ARGS__)
#define Y(type, low, high, ...) OF(type, NORMAL, low, high, __VA_ARGS__)
/* Zero points in the middle, -128 and -32768. */
#define KV8(...)  OF(SW_U8, NORMAL, -5.3 * 128 / 127, 5.3, __VA_ARGS__)
#define KV16(...) OF(SW_U16, NORMAL, -5.3 * 32768 / 32767, 5.3, __VA_ARGS__)
/* 1 / 256 and 1 / 65536 a step. */
#define P8(values, ...)  OF(SW_U8, values, 0, 255.0 / 256, __VA_ARGS__)
#define P16(values, ...) OF(SW_U16, values, 0, 65535.0 / 65536, __VA_ARGS__)
#define ANGLE(type)      OF(type, UNIFORM, -1, 1, 1, 32, 32)
#define SCORES(type)     OF(type, NORMAL, -53, 47, 1, 9, 32, 128)
#define GAMMA(type)                                                                                          \
    { type, UNIFORM, -0.3, 1.7, {576}, true }
#define FC(type, rows, in, out, range, worst, percent)                                                       \
    {                                                                                                        \
#type " " #in "->" #out " x " #rows, SW_OP_FULLY_CONNECTED, 0,                                       \
            {X(type, rows, in), {SW_S8, UNIFORM, 0, 0, {out, in }, true } },                                 \
                                 Y(type, -1.07 * (range), range, rows, out), worst, percent                  \
    }

#define H                 SW_F16
#define P16F(values, ...) OF(H, values, 0, 1, __VA_ARGS__)
#define WEIGHT(type, ...)                                                                                    \
    { type, UNIFORM, -0.1, 0.1, {__VA_ARGS__}, true }
#define F16(name, op, parameter, worst, out, ...)                                                            \
    { "f16 " name, SW_OP_##op, parameter, {__VA_ARGS__}, out, worst, 100 }
/* By the heads, rows of a cache and rows of a table that a decoder moves. */
#define MOVES(type)                                                                                          \
    {#type, SW_OP_TRANSPOSE, 0, {X(type, 1, 3, 32, 64)}, X(type, 1, 32, 3, 64), 0, 0},                       \
        {#type, SW_OP_RESHAPE, 0, {X(type, 1, 32, 192)}, X(type, 1, 32, 3, 64), 0, 0},                       \
        {#type, SW_OP_CONCAT, 2, {X(type, 1, 3, 96, 64), X(type, 1, 3, 32, 64)}, X(type, 1, 3, 128, 64), 0,  \
         0},                                                                                                 \
        {#type, SW_OP_STRIDED_SLICE, 0, {X(type, 1, 9, 32, 64)}, X(type, 1, 3, 32, 64), 0, 0}, {             \
#type, SW_OP_GATHER, 0, {X(type, 100, 64), OF(SW_I32, INDEX, 0, 99, 32) }, X(type, 32, 64), 0, 0     \
    }

/* clang-format off: a table.
 * Rows: name, op, parameter, inputs, output, bounds. */
static const conformance_case cases[] = {
    FC(A8, 1, 576, 576, 6.0, 0, 0),
    FC(A8, 32, 576, 576, 6.0, 0, 0),
    FC(A8, 1, 576, 192, 6.0, 0, 0),
    FC(A8, 32, 576, 192, 6.0, 0, 0),
    FC(A8, 1, 576, 1536, 6.0, 0, 0),
    FC(A8, 32, 576, 1536, 6.0, 0, 0),
    FC(A8, 1, 1536, 576, 10.0, 0, 0),
    FC(A8, 32, 1536, 576, 10.0, 0, 0),
    FC(A16, 1, 576, 576, 6.0, 0, 0),
    FC(A16, 32, 576, 576, 6.0, 0, 0),
    FC(A16, 1, 576, 192, 6.0, 0, 0),
    FC(A16, 32, 576, 192, 6.0, 0, 0),
    FC(A16, 1, 576, 1536, 6.0, 0, 0),
    FC(A16, 32, 576, 1536, 6.0, 0, 0),
    FC(A16, 1, 1536, 576, 10.0, 0, 0),
    FC(A16, 32, 1536, 576, 10.0, 0, 0),

    {"u8 q u8 k^T",
     SW_OP_MATMUL,
     1,
     {X(A8, 1, 3, 96, 64), KV8(1, 3, 128, 64)},
     Y(A8, -41, 38, 1, 3, 96, 128),
     0,
     0},
    {"u8 p u8 v",
     SW_OP_MATMUL,
     0,
     {P8(PROBABILITY, 1, 3, 96, 128), KV8(1, 3, 128, 64)},
     Y(A8, -17, 19, 1, 3, 96, 64),
     0,
     0},
    {"u16 q u8 k^T",
     SW_OP_MATMUL,
     1,
     {X(A16, 1, 3, 96, 64), KV8(1, 3, 128, 64)},
     Y(A16, -41, 38, 1, 3, 96, 128),
     0,
     0},
    {"u16 p u8 v",
     SW_OP_MATMUL,
     0,
     {P16(PROBABILITY, 1, 3, 96, 128), KV8(1, 3, 128, 64)},
     Y(A16, -17, 19, 1, 3, 96, 64),
     0,
     0},
    {"u16 q u8 k^T, AR 1",
     SW_OP_MATMUL,
     1,
     {X(A16, 1, 3, 3, 64), KV8(1, 3, 128, 64)},
     Y(A16, -41, 38, 1, 3, 3, 128),
     0,
     0},
    {"u16 p u8 v, AR 1",
     SW_OP_MATMUL,
     0,
     {P16(PROBABILITY, 1, 3, 3, 128), KV8(1, 3, 128, 64)},
     Y(A16, -17, 19, 1, 3, 3, 64),
     0,
     0},
    {"u16 q u16 k^T",
     SW_OP_MATMUL,
     1,
     {X(A16, 1, 3, 96, 64), KV16(1, 3, 128, 64)},
     Y(A16, -41, 38, 1, 3, 96, 128),
     60,
     75},
    {"u16 p u16 v",
     SW_OP_MATMUL,
     0,
     {P16(PROBABILITY, 1, 3, 96, 128), KV16(1, 3, 128, 64)},
     Y(A16, -17, 19, 1, 3, 96, 64),
     60,
     75},
    /* What encodings are to avoid: any other offset of a u8 K or V. */
    {"u8 q u8 k^T, offset -97",
     SW_OP_MATMUL,
     1,
     {X(A8, 1, 3, 96, 64), OF(A8, UNIFORM, -1.9, 3.1, 1, 3, 128, 64)},
     Y(A8, -41, 38, 1, 3, 96, 128),
     1,
     15},
    {"u16 q u8 k^T, offset -97",
     SW_OP_MATMUL,
     1,
     {X(A16, 1, 3, 96, 64), OF(A8, UNIFORM, -1.9, 3.1, 1, 3, 128, 64)},
     Y(A16, -41, 38, 1, 3, 96, 128),
     400,
     100},

    {"u8", SW_OP_RMS_NORM, 1e-5F, {X(A8, 32, 576), GAMMA(A8)}, Y(A8, -6.1, 6.7, 32, 576), 0, 0},
    {"u8, AR 1", SW_OP_RMS_NORM, 1e-5F, {X(A8, 1, 576), GAMMA(A8)}, Y(A8, -6.1, 6.7, 1, 576), 0, 0},
    {"u16", SW_OP_RMS_NORM, 1e-5F, {X(A16, 32, 576), GAMMA(A16)}, Y(A16, -6.1, 6.7, 32, 576), 0, 0},
    {"u16, AR 1", SW_OP_RMS_NORM, 1e-5F, {X(A16, 1, 576), GAMMA(A16)}, Y(A16, -6.1, 6.7, 1, 576), 0, 0},

    {"u8",
     SW_OP_ROTARY_EMBEDDING,
     0,
     {X(A8, 1, 9, 32, 64), ANGLE(A8), ANGLE(A8)},
     Y(A8, -4.9, 4.6, 1, 9, 32, 64),
     0,
     0},
    {"u16",
     SW_OP_ROTARY_EMBEDDING,
     0,
     {X(A16, 1, 9, 32, 64), ANGLE(A16), ANGLE(A16)},
     Y(A16, -4.9, 4.6, 1, 9, 32, 64),
     0,
     0},
    {"u16, heads of 80",
     SW_OP_ROTARY_EMBEDDING,
     0,
     {X(A16, 1, 9, 32, 80), OF(A16, UNIFORM, -1, 1, 1, 32, 40), OF(A16, UNIFORM, -1, 1, 1, 32, 40)},
     Y(A16, -4.9, 4.6, 1, 9, 32, 80),
     0,
     0},

    {"u8", SW_OP_SOFTMAX, 0.125F, {SCORES(A8)}, P8(UNIFORM, 1, 9, 32, 128), 0, 0},
    {"u8, steep", SW_OP_SOFTMAX, 1, {SCORES(A8)}, P8(UNIFORM, 1, 9, 32, 128), 0, 0},
    {"u16", SW_OP_SOFTMAX, 0.125F, {SCORES(A16)}, P16(UNIFORM, 1, 9, 32, 128), 0, 0},
    {"u16, steep", SW_OP_SOFTMAX, 1, {SCORES(A16)}, P16(UNIFORM, 1, 9, 32, 128), 0, 0},

    {"u8", SW_OP_SIGMOID, 0, {OF(A8, NORMAL, -9.3, 7.7, 32, 1536)}, P8(UNIFORM, 32, 1536), 0, 0},
    {"u16", SW_OP_SIGMOID, 0, {OF(A16, NORMAL, -9.3, 7.7, 32, 1536)}, P16(UNIFORM, 32, 1536), 0, 0},

    {"u8",
     SW_OP_MULTIPLY,
     0,
     {X(A8, 32, 1536), OF(A8, NORMAL, -6.1, 5.3, 32, 1536)},
     Y(A8, -13, 14.3, 32, 1536),
     0,
     0},
    {"u8 by sigmoid",
     SW_OP_MULTIPLY,
     0,
     {X(A8, 32, 1536), P8(UNIFORM, 32, 1536)},
     Y(A8, -2.9, 3.1, 32, 1536),
     0,
     0},
    {"u16",
     SW_OP_MULTIPLY,
     0,
     {X(A16, 32, 1536), OF(A16, NORMAL, -6.1, 5.3, 32, 1536)},
     Y(A16, -13, 14.3, 32, 1536),
     0,
     0},
    {"u16 by sigmoid",
     SW_OP_MULTIPLY,
     0,
     {X(A16, 32, 1536), P16(UNIFORM, 32, 1536)},
     Y(A16, -2.9, 3.1, 32, 1536),
     0,
     0},

    {"u8", SW_OP_ADD, 0, {X(A8, 32, 576), OF(A8, NORMAL, -6.1, 5.3, 32, 576)}, Y(A8, -7, 7.7, 32, 576), 0, 0},
    {"u8 mask",
     SW_OP_ADD,
     0,
     {SCORES(A8), OF(A8, MASK, -150, 0, 1, 1, 32, 128)},
     Y(A8, -200, 47, 1, 9, 32, 128),
     0,
     0},
    {"u16",
     SW_OP_ADD,
     0,
     {X(A16, 32, 576), OF(A16, NORMAL, -6.1, 5.3, 32, 576)},
     Y(A16, -7, 7.7, 32, 576),
     0,
     0},
    {"u16 mask",
     SW_OP_ADD,
     0,
     {SCORES(A16), OF(A16, MASK, -150, 0, 1, 1, 32, 128)},
     Y(A16, -200, 47, 1, 9, 32, 128),
     0,
     0},

    F16("q k^T", MATMUL, 1, 4e-3, Y(H, -41, 38, 1, 3, 96, 128), X(H, 1, 3, 96, 64), X(H, 1, 3, 128, 64)),
    F16("p v", MATMUL, 0, 4e-3, Y(H, -17, 19, 1, 3, 96, 64), P16F(PROBABILITY, 1, 3, 96, 128),
        X(H, 1, 3, 128, 64)),
    F16("q k^T, AR 1", MATMUL, 1, 4e-3, Y(H, -41, 38, 1, 3, 3, 128), X(H, 1, 3, 3, 64), X(H, 1, 3, 128, 64)),
    F16("p v, AR 1", MATMUL, 0, 4e-3, Y(H, -17, 19, 1, 3, 3, 64), P16F(PROBABILITY, 1, 3, 3, 128),
        X(H, 1, 3, 128, 64)),
    F16("x weight", FULLY_CONNECTED, 0, 4e-3, Y(H, -6, 6, 32, 192), X(H, 32, 576), WEIGHT(H, 192, 576)),
    F16("x weight, AR 1", FULLY_CONNECTED, 0, 4e-3, Y(H, -6, 6, 1, 1536), X(H, 1, 576), WEIGHT(H, 1536, 576)),
    F16("", RMS_NORM, 1e-5F, 4e-3, Y(H, -6, 6, 32, 576), X(H, 32, 576), GAMMA(H)),
    F16("AR 1", RMS_NORM, 1e-5F, 4e-3, Y(H, -6, 6, 1, 576), X(H, 1, 576), GAMMA(H)),
    F16("", ROTARY_EMBEDDING, 0, 8e-3, Y(H, -5, 5, 1, 9, 32, 64), X(H, 1, 9, 32, 64), ANGLE(H), ANGLE(H)),
    F16("", SOFTMAX, 0.125F, 6e-2, Y(H, 0, 1, 1, 9, 32, 128), SCORES(H)),
    F16("steep", SOFTMAX, 1, 0.15, Y(H, 0, 1, 1, 9, 32, 128), SCORES(H)),
    F16("", SIGMOID, 0, 4e-3, Y(H, 0, 1, 32, 1536), OF(H, NORMAL, -9.3, 7.7, 32, 1536)),
    F16("", MULTIPLY, 0, 8e-3, Y(H, -13, 13, 32, 1536), X(H, 32, 1536), X(H, 32, 1536)),
    F16("", ADD, 0, 4e-3, Y(H, -7, 7, 32, 576), X(H, 32, 576), X(H, 32, 576)),
    F16("mask", ADD, 0, 4e-3, Y(H, -200, 47, 1, 9, 32, 128), SCORES(H), OF(H, MASK, -150, 0, 1, 1, 32, 128)),

    MOVES(A8),
    MOVES(A16),
    MOVES(H),

    {"u16 to u8", SW_OP_CONVERT, 0, {X(A16, 1, 3, 32, 64)}, KV8(1, 3, 32, 64), 0, 0},
    {"u8 to u16", SW_OP_CONVERT, 0, {X(A8, 1, 3, 32, 64)}, Y(A16, -4.4, 4.2, 1, 3, 32, 64), 0, 0},
};

/* clang-format on */

/* Products with weights of other forms than 8 bits and a scale a row. */
typedef struct form_case {
    sw_dtype activation;
    sw_weight_form form;
    uint32_t rows, in, out;
    double y_scale; /* u8, u16 */
} form_case;

#define ROWS_OF_4                                                                                            \
    { SW_SCALES_ROW, true, 0 }
#define ROWS_OF_8                                                                                            \
    { SW_SCALES_ROW, false, 0 }
#define STEPS(block)                                                                                         \
    { SW_SCALES_BLOCKWISE, true, block }
#define FLOATS(four_bit, block)                                                                              \
    { SW_SCALES_FLOAT_BLOCK, four_bit, block }

static const form_case form_cases[] = {
    {SW_U8, ROWS_OF_4, 32, 576, 192, 1.0 / 8},     {SW_U8, STEPS(32), 32, 576, 192, 1},
    {SW_U16, ROWS_OF_4, 1, 576, 1536, 1.0 / 2048}, {SW_U16, ROWS_OF_4, 32, 1536, 576, 1.0 / 1024},
    {SW_U16, STEPS(32), 1, 576, 1536, 1.0 / 256},  {SW_U16, STEPS(32), 32, 1536, 576, 1.0 / 128},
    {SW_U16, STEPS(32), 32, 576, 576, 1.0 / 300},  {SW_U16, STEPS(16), 32, 576, 192, 1.0 / 256},
    {SW_U16, STEPS(64), 32, 576, 192, 1.0 / 256},  {SW_F16, ROWS_OF_8, 1, 576, 1536, 0},
    {SW_F16, ROWS_OF_8, 32, 1536, 576, 0},         {SW_F16, ROWS_OF_4, 32, 576, 192, 0},
    {SW_F16, FLOATS(true, 16), 32, 576, 192, 0},   {SW_F16, FLOATS(true, 32), 1, 576, 1536, 0},
    {SW_F16, FLOATS(true, 32), 1, 1536, 576, 0},   {SW_F16, FLOATS(true, 32), 1, 576, 192, 0},
    {SW_F16, FLOATS(true, 32), 32, 1536, 576, 0},  {SW_F16, FLOATS(true, 64), 32, 576, 192, 0},
    {SW_F16, FLOATS(false, 32), 1, 576, 1536, 0},  {SW_F16, FLOATS(false, 32), 32, 1536, 576, 0},
};

#endif
