/* near_ties.h: ops whose scales put a multiplier next to a rounding tie or on the border of a power of two,
 * where single and double precision, a quotient and a reciprocal, or two orders of one product give different
 * integers. Inputs and the integers that the emulator gives (library 2.51, SM8750); of the first ten of most
 * sets another expression would change each. cpu/htp_rules_test has the CPU device give them,
 * cli/conformance_test both devices. */
#ifndef TESTS_NEAR_TIES_H
#define TESTS_NEAR_TIES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "graph/ir.h"

enum { NEAR_TIE_MOST = 64, NEAR_TIE_INPUTS = 3 };

typedef struct near_tie {
    const char *what;
    sw_op_type op;
    bool silu; /* in[0] by its own Sigmoid */
    sw_dtype in, out;
    float scales[NEAR_TIE_INPUTS + 1]; /* of the inputs, and of the output */
    int32_t offsets[NEAR_TIE_INPUTS + 1];
    uint32_t n;
    uint16_t a[NEAR_TIE_MOST], b[NEAR_TIE_MOST]; /* RotaryEmbedding's b: cosines, then sines */
    uint16_t want[NEAR_TIE_MOST];
} near_tie;

static const near_tie near_ties[] = {
    {"6144 * s_x: 24551.499 in double, a tie as a float",
     SW_OP_SIGMOID,
     false,
     SW_U16,
     SW_U16,
     {0.00024389723f, 0, 0, 1.52587891e-05f},
     {-32680, 0, 0, 0},
     16,
     {24010, 20083, 35330, 30702, 26355, 40096, 37775, 16022, 43542, 44171, 12458, 37468, 1632, 36862, 59534,
      60732},
     {0},
     {7056, 2898, 43004, 25012, 11542, 56310, 50858, 1106, 61208, 61788, 468, 49984, 32, 48164, 65442,
      65466}},
    {"the same behind the product by x",
     SW_OP_MULTIPLY,
     true,
     SW_U16,
     SW_U16,
     {0.00024389723f, 0, 0, 0.000127384876f},
     {-32680, 0, 0, -2733},
     16,
     {23922, 28357, 23649, 25713, 45814, 8512, 15977, 22566, 49338, 24921, 25851, 18100, 8310, 17582, 38239,
      4708},
     {0},
     {962, 595, 1013, 672, 26899, 2607, 2199, 1219, 34088, 788, 654, 1959, 2612, 2024, 11195, 2676}},
    {"one value, 5e-6 below a tie",
     SW_OP_SIGMOID,
     false,
     SW_U8,
     SW_U8,
     {0.0214711484f, 0, 0, 0.00390625f},
     {-123, 0, 0, 0},
     16,
     {254, 90, 230, 13, 141, 46, 239, 247, 9, 146, 111, 163, 160, 180, 192, 114},
     {0},
     {242, 84, 233, 22, 152, 41, 236, 239, 20, 159, 112, 180, 176, 198, 209, 116}},
    {"one value, 6e-6 below a tie",
     SW_OP_MULTIPLY,
     true,
     SW_U8,
     SW_U8,
     {0.105640978f, 0, 0, 0.0626450405f},
     {-133, 0, 0, -22},
     16,
     {211, 131, 67, 130, 7, 51, 60, 44, 69, 238, 255, 226, 6, 86, 168, 1},
     {0},
     {154, 20, 22, 20, 22, 22, 22, 22, 22, 199, 228, 179, 22, 21, 80, 22}},
    {"octaves a step: an integer as a float, less in double",
     SW_OP_SOFTMAX,
     false,
     SW_U16,
     SW_U16,
     {0.0112799294f, 0, 0, 1.52587891e-05f},
     {-42693, 0, 0, 0},
     32,
     {65535, 61035, 60427, 61617, 61392, 59478, 59291, 59452, 62830, 61497, 63127,
      59741, 61859, 60623, 63291, 63092, 61799, 61383, 62028, 61294, 61617, 59404,
      59456, 61389, 63259, 60038, 62136, 63057, 60911, 62287, 60579, 63124},
     {0},
     {50418, 87,  36,  200, 146, 9, 6, 9,   1110, 169, 1689, 13,   281, 49,  2129, 1607,
      258,   143, 358, 126, 200, 7, 9, 144, 2035, 21,  416,  1531, 73,  517, 46,   1683}},
    {"the same",
     SW_OP_SOFTMAX,
     false,
     SW_U8,
     SW_U8,
     {0.817697048f, 0, 0, 0.00390625f},
     {-112, 0, 0, 0},
     32,
     {255, 232, 221, 232, 214, 213, 251, 242, 225, 248, 208, 225, 224, 237, 234, 196,
      218, 237, 234, 220, 210, 202, 222, 247, 234, 229, 245, 223, 229, 251, 233, 232},
     {0},
     {47, 4, 1, 4, 1, 1, 31, 12, 2, 23, 0, 2, 2, 7, 6, 0, 1, 7, 6, 1, 0, 0, 2, 21, 6, 3, 17, 2, 3, 31, 5, 4}},
    {"s_a * s_b / s_y, no reciprocal",
     SW_OP_MULTIPLY,
     false,
     SW_U16,
     SW_U16,
     {0.000290899159f, 0.000531116035f, 0, 0.00354325958f},
     {-26079, -39610, 0, -27759},
     16,
     {58176, 60017, 16140, 43192, 63120, 1508, 1760, 30706, 42055, 779, 22682, 60745, 16063, 37919, 6900,
      39726},
     {61310, 53397, 37712, 43146, 44044, 8020, 11080, 51652, 8716, 21269, 51166, 40466, 49344, 52967, 3003,
      24645},
     {58129, 48161, 28581, 30397, 34920, 61604, 58012, 30188, 6238, 47992, 26047, 29053, 23508, 34655, 58373,
      18854}},
    {"a tie, to even",
     SW_OP_MULTIPLY,
     false,
     SW_U16,
     SW_U16,
     {0.000761147763f, 0.000314704346f, 0, 0.00458114268f},
     {-34978, -22731, 0, -33225},
     16,
     {17165, 2033, 45855, 18045, 45073, 52680, 25646, 50269, 55998, 59158, 60113, 16044, 34542, 35616, 18499,
      50130},
     {9037, 21583, 46302, 4562, 24475, 33193, 14190, 14767, 43063, 8761, 28833, 50512, 49033, 65462, 17392,
      20916},
     {45979, 35202, 46630, 49311, 34145, 42908, 37392, 26858, 55571, 15563, 41244, 5721, 32625, 34650, 37825,
      31787}},
    {"s_a / s_y * s_b, another order",
     SW_OP_MULTIPLY,
     false,
     SW_U8,
     SW_U8,
     {0.0824704915f, 0.00387752266f, 0, 0.0181021355f},
     {-120, -134, 0, -158},
     16,
     {151, 161, 198, 11, 6, 65, 254, 59, 127, 27, 104, 255, 143, 159, 232, 162},
     {71, 27, 48, 87, 98, 46, 70, 76, 227, 169, 19, 114, 138, 223, 173, 175},
     {123, 80, 39, 249, 231, 244, 6, 221, 170, 100, 191, 110, 160, 219, 235, 188}},
    {"the same",
     SW_OP_MULTIPLY,
     false,
     SW_U8,
     SW_U8,
     {0.0404166393f, 0.00280742045f, 0, 0.0191811454f},
     {-109, -156, 0, -109},
     16,
     {214, 126, 216, 48, 238, 182, 24, 164, 230, 108, 14, 90, 150, 40, 109, 159},
     {189, 151, 250, 41, 213, 2, 157, 219, 10, 241, 83, 43, 240, 192, 147, 211},
     {129, 108, 168, 150, 152, 43, 108, 129, 5, 108, 150, 122, 129, 94, 109, 125}},
    {"a multiplier on a tie, to even",
     SW_OP_ADD,
     false,
     SW_U8,
     SW_U8,
     {0.00852116849f, 0.00343926833f, 0, 0.00940963998f},
     {-156, -108, 0, -157},
     16,
     {48, 92, 169, 117, 146, 39, 183, 107, 19, 11, 105, 123, 219, 176, 124, 147},
     {76, 153, 203, 9, 63, 60, 130, 31, 208, 195, 68, 58, 149, 216, 201, 170},
     {48, 116, 204, 86, 132, 34, 190, 85, 70, 58, 96, 109, 229, 215, 162, 172}},
    {"the offsets' share on a tie, down",
     SW_OP_ADD,
     false,
     SW_U8,
     SW_U8,
     {0.00849199016f, 0.00331308972f, 0, 0.0102942437f},
     {-112, -96, 0, -152},
     16,
     {201, 244, 95, 118, 59, 207, 89, 218, 25, 141, 12, 225, 142, 63, 86, 194},
     {118, 73, 51, 194, 165, 115, 54, 121, 190, 76, 74, 63, 162, 140, 209, 75},
     {232, 253, 123, 188, 130, 236, 119, 247, 110, 169, 62, 235, 198, 126, 167, 213}},
    {"ratios whose sum counts as 1",
     SW_OP_ADD,
     false,
     SW_U8,
     SW_U8,
     {0.0731619149f, 0.0141244102f, 0, 0.0873075426f},
     {-126, -95, 0, -93},
     16,
     {217, 78, 84, 123, 99, 84, 137, 76, 205, 120, 76, 192, 227, 101, 116, 84},
     {78, 13, 192, 225, 170, 87, 208, 79, 134, 123, 0, 121, 103, 148, 194, 140},
     {166, 39, 73, 111, 82, 56, 120, 48, 165, 92, 36, 153, 179, 81, 101, 65}},
    {"a multiplier on a tie, to even",
     SW_OP_ADD,
     false,
     SW_U16,
     SW_U16,
     {0.000188320962f, 5.69021358e-05f, 0, 0.000248281052f},
     {-41823, -23557, 0, -39494},
     16,
     {64359, 8175, 62295, 192, 10066, 35656, 62292, 14067, 56817, 27890, 53830, 58580, 38943, 48110, 41497,
      40282},
     {26095, 37731, 38879, 4420, 3953, 9936, 37038, 50414, 65346, 48840, 31057, 64174, 26256, 19445, 57119,
      39503},
     {57169, 17221, 58533, 3532, 10914, 31695, 58109, 24597, 60444, 34721, 50320, 61513, 37928, 43320, 46939,
      41980}},
    {"by the output's reciprocal",
     SW_OP_ROTARY_EMBEDDING,
     false,
     SW_U16,
     SW_U16,
     {0.000883834786f, 2.9728013e-05f, 3.28448441e-05f, 0.00120698556f},
     {-36638, -42835, -33362, -20660},
     64,
     {10574, 37060, 14352, 59799, 12398, 8128,  41774, 59114, 18279, 8700,  61271, 33475, 62181,
      52665, 54520, 24945, 50104, 34927, 21096, 25086, 12001, 59568, 11432, 45662, 33085, 30074,
      59009, 2240,  48479, 62672, 59760, 54467, 17188, 24239, 33692, 37075, 10315, 53462, 60964,
      3916,  46860, 10344, 39552, 62318, 64571, 8537,  23488, 52962, 5156,  25485, 62589, 55800,
      39595, 55899, 39153, 33762, 31356, 30364, 38272, 14324, 59906, 38058, 42288, 25729},
     {60091, 49383, 49640, 35378, 25108, 28008, 18581, 41968, 58951, 1172,  63874, 9598,  50941,
      15120, 7276,  64196, 8207,  62748, 2381,  51563, 50459, 63702, 44547, 33148, 18786, 36975,
      32758, 44378, 12291, 58515, 143,   21314, 41139, 63127, 34267, 19373, 39550, 11236, 27083,
      57933, 63170, 24857, 15004, 20928, 20559, 1389,  11680, 24985, 13043, 5217,  52334, 4582,
      34807, 66,    12251, 49271, 41271, 16709, 15473, 37945, 48375, 13553, 57650, 13184},
     {14507, 29597, 17423, 17047, 33932, 38815, 21622, 39573, 6891,  40620, 33229, 30628, 33769,
      0,     0,     18512, 0,     12369, 22506, 31729, 16468, 46500, 20998, 19858, 23525, 18985,
      16456, 21964, 4385,  30223, 0,     7013,  8479,  19195, 19738, 12796, 27210, 30401, 7041,
      34560, 11084, 50222, 11118, 3026,  17723, 25289, 21514, 30606, 37811, 16984, 0,     32297,
      20294, 11047, 33552, 24719, 22749, 24089, 10676, 16119, 9464,  8741,  28916, 17118}},
    {"a multiplier that is rounded to 2^15",
     SW_OP_ROTARY_EMBEDDING,
     false,
     SW_U8,
     SW_U8,
     {0.118295379f, 0.00831621233f, 0.0078068953f, 0.0629613101f},
     {-153, -123, -128, -150},
     64,
     {75,  63, 234, 215, 123, 21,  37,  135, 190, 207, 91,  227, 9,   222, 247, 23,
      253, 26, 207, 32,  171, 117, 38,  182, 38,  146, 4,   16,  215, 85,  155, 51,
      72,  48, 60,  178, 178, 209, 123, 10,  218, 91,  233, 238, 45,  135, 77,  191,
      208, 9,  185, 69,  246, 24,  124, 225, 158, 146, 120, 122, 38,  7,   109, 138},
     {228, 20,  95,  65,  134, 250, 190, 84, 98,  206, 43,  235, 207, 150, 227, 128,
      87,  14,  134, 193, 181, 132, 19,  39, 30,  83,  134, 235, 169, 194, 4,   149,
      247, 252, 38,  113, 36,  17,  88,  97, 193, 231, 12,  165, 252, 189, 155, 99,
      228, 154, 102, 0,   204, 10,  193, 18, 124, 1,   128, 40,  160, 118, 5,   147},
     {163, 255, 0,   99,  179, 0,   11,  96,  74,  255, 255, 233, 157, 195, 255, 156,
      13,  255, 172, 0,   63,  0,   255, 228, 255, 141, 124, 0,   249, 53,  67,  113,
      0,   155, 84,  114, 195, 255, 187, 245, 160, 151, 156, 255, 0,   204, 64,  208,
      255, 255, 135, 255, 254, 194, 87,  9,   150, 167, 144, 255, 96,  0,   228, 115}},
    {"a multiplier of 16 bits",
     SW_OP_CONVERT,
     false,
     SW_U8,
     SW_U16,
     {0.0196784642f, 0, 0, 9.75375806e-05f},
     {-164, 0, 0, -32466},
     16,
     {66, 62, 53, 26, 14, 65, 10, 58, 50, 69, 155, 103, 140, 75, 208, 185},
     {0},
     {12694, 11887, 10071, 4624, 2203, 12492, 1396, 11080, 9466, 13299, 30650, 20159, 27624, 14510, 41343,
      36703}},
    {"a tie as a float",
     SW_OP_CONVERT,
     false,
     SW_U8,
     SW_U16,
     {0.0117108244f, 0, 0, 5.13909981e-05f},
     {-160, 0, 0, -30295},
     16,
     {197, 115, 74, 238, 75, 36, 84, 66, 148, 91, 113, 168, 31, 170, 72, 69},
     {0},
     {38726, 20041, 10698, 48069, 10926, 2039, 12977, 8875, 27561, 14572, 19585, 32118, 899, 32574, 10242,
      9558}},
    {"a tie, to even",
     SW_OP_CONVERT,
     false,
     SW_U8,
     SW_U16,
     {0.00244356459f, 0, 0, 8.23127903e-06f},
     {-109, 0, 0, -34706},
     16,
     {54, 32, 68, 188, 173, 184, 25, 31, 18, 84, 161, 117, 67, 89, 168, 99},
     {0},
     {18379, 11848, 22535, 58158, 53705, 56970, 9770, 11551, 7692, 27285, 50143, 37081, 22238, 28769, 52221,
      31737}},
    {"a tie, to even",
     SW_OP_CONVERT,
     false,
     SW_U16,
     SW_U8,
     {0.000838040549f, 0, 0, 0.190112874f},
     {-22928, 0, 0, -91},
     16,
     {23493, 12377, 41641, 42321, 51395, 16007, 52302, 13738, 7158, 38011, 50949, 39384, 37987, 15957, 26312,
      6057},
     {0},
     {94, 45, 173, 176, 216, 61, 220, 51, 22, 157, 215, 164, 157, 60, 106, 17}},
    {"a multiplier that is rounded to 2^14",
     SW_OP_CONVERT,
     false,
     SW_U16,
     SW_U8,
     {0.000918270845f, 0, 0, 0.23507452f},
     {-34353, 0, 0, -114},
     16,
     {11184, 37040, 27824, 53424, 43696, 60848, 24240, 21424, 17328, 21936, 14210, 25294, 36091, 49391, 29296,
      6955},
     {0},
     {24, 125, 89, 189, 151, 218, 75, 64, 48, 66, 35, 79, 121, 173, 94, 7}},
};

typedef struct near_tie_graph {
    sw_arena arena;
    sw_graph *graph;
    uint32_t n_inputs;
    uint16_t inputs[NEAR_TIE_INPUTS][NEAR_TIE_MOST]; /* stored integers, of their types */
} near_tie_graph;

static inline uint32_t near_tie_inputs(const near_tie *t) {
    if (t->op == SW_OP_ROTARY_EMBEDDING) return 3;
    return t->op == SW_OP_ADD || (t->op == SW_OP_MULTIPLY && !t->silu) ? 2 : 1;
}

static inline uint32_t near_tie_tensor(near_tie_graph *g, const near_tie *t, sw_tensor_kind kind,
                                       uint32_t at) {
    static const char *const names[] = {"in0", "in1", "in2", "out", "sigmoid"};
    const bool angle = t->op == SW_OP_ROTARY_EMBEDDING && (at == 1 || at == 2);
    sw_tensor *tensor = sw_arena_alloc(&g->arena, sizeof *tensor);
    assert_non_null(tensor);
    *tensor = (sw_tensor){.name = names[at],
                          .range = names[at],
                          .kind = kind,
                          .dtype = at < NEAR_TIE_INPUTS || at > NEAR_TIE_INPUTS ? t->in : t->out,
                          .rank = angle ? 3 : 4,
                          .dims = {1, 1, 1, t->n}};
    if (angle) tensor->dims[2] = t->n / 2;
    if (at <= NEAR_TIE_INPUTS) tensor->encoding = (sw_encoding){t->scales[at], t->offsets[at]};
    if (at > NEAR_TIE_INPUTS)
        tensor->encoding = (sw_encoding){t->in == SW_U16 ? 1.0f / 65536 : 1.0f / 256, 0};
    return sw_graph_add_tensor(g->graph, tensor);
}

static inline void near_tie_op(near_tie_graph *g, const char *name, sw_op_type type, uint32_t n,
                               const uint32_t *inputs, uint32_t output) {
    sw_op op = {.type = type, .name = name, .n_inputs = n, .n_outputs = 1, .outputs = {output}};
    if (type == SW_OP_SOFTMAX) op.params.softmax.beta = 0.125f;
    memcpy(op.inputs, inputs, n * sizeof *inputs);
    assert_true(sw_graph_add_op(g->graph, &op));
}

/* Of the set, sealed; the arena is the caller's to free. */
static inline void near_tie_build(const near_tie *t, near_tie_graph *g) {
    *g = (near_tie_graph){.n_inputs = near_tie_inputs(t)};
    g->graph = sw_graph_create(&g->arena, "graph", 1, 1);
    assert_non_null(g->graph);
    uint32_t in[NEAR_TIE_INPUTS];
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        const uint16_t *q = i == 0 ? t->a : i == 1 ? t->b : t->b + t->n / 2;
        in[i] = near_tie_tensor(g, t, SW_TENSOR_INPUT, i);
        for (uint32_t k = 0; k < t->n && q + k < (i == 0 ? t->a : t->b) + NEAR_TIE_MOST; k++)
            if (t->in == SW_U16)
                g->inputs[i][k] = q[k];
            else
                ((uint8_t *)g->inputs[i])[k] = (uint8_t)q[k];
    }
    const uint32_t out = near_tie_tensor(g, t, SW_TENSOR_OUTPUT, NEAR_TIE_INPUTS);
    if (t->silu) {
        const uint32_t sigmoid = near_tie_tensor(g, t, SW_TENSOR_NATIVE, NEAR_TIE_INPUTS + 1);
        near_tie_op(g, "sigmoid", SW_OP_SIGMOID, 1, in, sigmoid);
        near_tie_op(g, "op", SW_OP_MULTIPLY, 2, (const uint32_t[]){in[0], sigmoid}, out);
    } else {
        near_tie_op(g, "op", t->op, g->n_inputs, in, out);
    }
    assert_true(sw_graph_seal(g->graph));
}

/* Output k of data, which has t's type. */
static inline int near_tie_output(const near_tie *t, const void *data, uint32_t k) {
    return t->out == SW_U16 ? ((const uint16_t *)data)[k] : ((const uint8_t *)data)[k];
}

/* Outputs of data that aren't those wanted; each is printed. */
static inline uint32_t near_tie_misses(const near_tie *t, const char *device, const void *data) {
    uint32_t misses = 0;
    for (uint32_t k = 0; k < t->n; k++) {
        if (near_tie_output(t, data, k) == t->want[k]) continue;
        printf("%s, %s: [%u]: %d, wanted %d\n", t->what, device, k, near_tie_output(t, data, k), t->want[k]);
        misses++;
    }
    return misses;
}

#endif
