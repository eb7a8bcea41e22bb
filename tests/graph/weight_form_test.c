/* Forms of s8 matrices: rows as floats, what goes together, and graph.json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/f16.h"
#include "graph/json.h"
#include "graph/verify.h"
#include "tiny_decoder.h"

enum { ROWS = 2, COLS = 32, BLOCK = 16, BLOCKS = ROWS * COLS / BLOCK };

static int8_t q[ROWS * COLS];
static const float row_scales[ROWS] = {0.5f, 0.125f};
static uint16_t block_scales[BLOCKS];
static const uint8_t block_steps[BLOCKS] = {1, 16, 3, 2};

static sw_tensor matrix(sw_scales scales, bool four_bit) {
    sw_tensor t = {.name = "w",
                   .range = "w",
                   .kind = SW_TENSOR_CONSTANT,
                   .role = SW_ROLE_WEIGHT,
                   .dtype = SW_S8,
                   .rank = 2,
                   .dims = {ROWS, COLS},
                   .data = q};
    t.form = (sw_weight_form){scales, four_bit, scales == SW_SCALES_ROW ? 0 : BLOCK};
    if (scales != SW_SCALES_FLOAT_BLOCK) t.channel_scales = row_scales;
    if (scales == SW_SCALES_FLOAT_BLOCK) t.block_scales = block_scales;
    if (scales == SW_SCALES_BLOCKWISE) t.block_steps = block_steps;
    return t;
}

static int fill(void **state) {
    (void)state;
    static const float scales[BLOCKS] = {-0.25f, 0, 2, 1};
    for (int i = 0; i < ROWS * COLS; i++) q[i] = (int8_t)(i % 16 - 8);
    for (int i = 0; i < BLOCKS; i++) block_scales[i] = sw_f32_to_f16(scales[i]);
    return 0;
}

/* Powers of two and small integers: every product is exact. */
static void rows_are_integers_times_scales(void **state) {
    (void)state;
    static const float blocks[BLOCKS] = {-0.25f, 0, 2, 1};
    for (unsigned scales = 0; scales < SW_SCALES_COUNT; scales++) {
        sw_tensor t = matrix((sw_scales)scales, true);
        for (size_t r = 0; r < ROWS; r++) {
            float row[COLS];
            sw_weight_matrix_row(&t, r, row);
            for (size_t i = 0; i < COLS; i++) {
                size_t b = r * COLS / BLOCK + i / BLOCK;
                float scale = scales == SW_SCALES_FLOAT_BLOCK ? blocks[b]
                              : scales == SW_SCALES_ROW       ? row_scales[r]
                                                              : row_scales[r] * block_steps[b];
                if (row[i] != scale * (float)((int)(i % 16) - 8))
                    fail_msg("%u [%zu][%zu]: %g", scales, r, i, (double)row[i]);
            }
        }
    }
}

/* One product x . w^T. */
static sw_code verify(sw_op_type type, sw_dtype activation, sw_tensor *w, sw_error *err) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_graph *g = sw_graph_create(&arena, "g", 1, 1);
    sw_encoding e = {sw_dtype_quantized(activation) ? 0.5f : 0, 0};
    sw_tensor x = {.name = "x",
                   .range = "x",
                   .kind = SW_TENSOR_INPUT,
                   .dtype = activation,
                   .rank = 2,
                   .dims = {3, COLS},
                   .encoding = e};
    sw_tensor y = {.name = "y",
                   .range = "y",
                   .kind = SW_TENSOR_OUTPUT,
                   .dtype = activation,
                   .rank = 2,
                   .dims = {3, ROWS},
                   .encoding = e};
    sw_op op = {
        .type = type, .name = "product", .n_inputs = 2, .n_outputs = 1, .inputs = {0, 1}, .outputs = {2}};
    if (type == SW_OP_MATMUL) op.params.matmul.transpose_in1 = true;
    assert_non_null(g);
    sw_graph_add_tensor(g, &x), sw_graph_add_tensor(g, w), sw_graph_add_tensor(g, &y);
    assert_true(sw_graph_add_op(g, &op) && sw_graph_seal(g));
    sw_code code = sw_graph_verify(g, err);
    sw_arena_free(&arena);
    return code;
}

static void what_goes_together(void **state) {
    (void)state;
    static const struct {
        sw_op_type op;
        sw_dtype activation;
        sw_scales scales;
        bool four, eight; /* bits that it may have */
    } rows[] = {
        {SW_OP_FULLY_CONNECTED, SW_U8, SW_SCALES_ROW, true, true},
        {SW_OP_FULLY_CONNECTED, SW_U16, SW_SCALES_ROW, true, true},
        {SW_OP_FULLY_CONNECTED, SW_F16, SW_SCALES_ROW, true, true},
        {SW_OP_FULLY_CONNECTED, SW_F32, SW_SCALES_ROW, false, false},
        {SW_OP_FULLY_CONNECTED, SW_U8, SW_SCALES_FLOAT_BLOCK, false, false},
        {SW_OP_FULLY_CONNECTED, SW_U16, SW_SCALES_FLOAT_BLOCK, false, false},
        {SW_OP_FULLY_CONNECTED, SW_F16, SW_SCALES_FLOAT_BLOCK, true, true},
        {SW_OP_FULLY_CONNECTED, SW_U16, SW_SCALES_BLOCKWISE, false, false}, /* it would compile to garbage */
        {SW_OP_FULLY_CONNECTED, SW_F16, SW_SCALES_BLOCKWISE, false, false},
        {SW_OP_MATMUL, SW_U8, SW_SCALES_BLOCKWISE, true, false},
        {SW_OP_MATMUL, SW_U16, SW_SCALES_BLOCKWISE, true, false},
        {SW_OP_MATMUL, SW_F16, SW_SCALES_BLOCKWISE, false, false},
        {SW_OP_MATMUL, SW_U16, SW_SCALES_ROW, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int four = 0; four < 2; four++) {
            sw_error err = {0};
            sw_tensor w = matrix(rows[i].scales, four);
            sw_code code = verify(rows[i].op, rows[i].activation, &w, &err);
            if (code != ((four ? rows[i].four : rows[i].eight) ? SW_OK : SW_BAD_DATA))
                fail_msg("row %zu, %d bits: %s", i, four ? 4 : 8, err.message);
        }
    sw_error err = {0};
    sw_tensor w = matrix(SW_SCALES_FLOAT_BLOCK, true);
    assert_int_equal(verify(SW_OP_FULLY_CONNECTED, SW_U16, &w, &err), SW_BAD_DATA);
    assert_string_equal(err.message, "g: FullyConnected `product` of `x`, `w` to `y`: types u16, s8 (`w`: 4 "
                                     "bits, float_block 16) -> u16, allowed: "
                                     "u16, s8 (8 bits, row) -> u16; u16, s8 (4 bits, row) -> u16");
}

static void refused(sw_tensor *w, const char *says) {
    sw_error err = {0};
    sw_op_type type = w->form.scales == SW_SCALES_BLOCKWISE ? SW_OP_MATMUL : SW_OP_FULLY_CONNECTED;
    sw_dtype activation = w->form.scales == SW_SCALES_BLOCKWISE ? SW_U16 : SW_F16;
    assert_int_equal(verify(type, activation, w, &err), SW_BAD_DATA);
    if (strstr(err.message, says) == NULL) fail_msg("`%s` doesn't say `%s`", err.message, says);
}

static void bad_forms_are_refused(void **state) {
    (void)state;
    static const uint8_t step_0[BLOCKS] = {1, 0, 3, 2}, step_17[BLOCKS] = {1, 16, 17, 2};
    static const uint16_t infinite[BLOCKS] = {0, 0, 0x7c00, 0};
    sw_tensor w = matrix(SW_SCALES_FLOAT_BLOCK, true);
    w.form.block = 24, refused(&w, "rows of 32 in blocks of 24, wanted blocks of 16, 32 or 64");
    w.form.block = 64, refused(&w, "rows of 32 in blocks of 64");
    w.form.block = 0, refused(&w, "blocks of 0");
    w = matrix(SW_SCALES_FLOAT_BLOCK, true);
    w.block_scales = infinite, refused(&w, "scale of block 2 is no finite number");
    w.block_scales = NULL, refused(&w, "has data, but not its scales");
    w = matrix(SW_SCALES_BLOCKWISE, true);
    w.block_steps = step_0, refused(&w, "step of block 1 is 0, wanted 1 to 16");
    w.block_steps = step_17, refused(&w, "step of block 2 is 17");
    w.block_steps = NULL, refused(&w, "not its scales");
    w = matrix(SW_SCALES_BLOCKWISE, true);
    w.channel_scales = NULL, refused(&w, "not its scales");
    w = matrix(SW_SCALES_ROW, true);
    w.form.block = 32, refused(&w, "in blocks of 32");
    w.form.scales = SW_SCALES_COUNT, refused(&w, "no such form");
}

static char *dump(const sw_decoder *d, size_t *size) {
    char *text = NULL;
    sw_error err = {0};
    FILE *stream = open_memstream(&text, size);
    assert_non_null(stream);
    assert_int_equal(sw_decoder_write_json(d, stream, &err), SW_OK);
    fclose(stream);
    return text;
}

/* text with `from` replaced by `to` is refused with `says`. */
static void json_refused(const char *text, const char *from, const char *to, const char *says) {
    sw_decoder d;
    sw_error err = {0};
    char *changed, *at = strstr(text, from);
    size_t size;
    if (at == NULL) fail_msg("no `%s`", from);
    FILE *stream = open_memstream(&changed, &size);
    fprintf(stream, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(stream);
    assert_int_equal(sw_decoder_read_json(&d, "g.json", changed, size, NULL, &err), SW_BAD_DATA);
    if (strstr(err.message, says) == NULL) fail_msg("`%s` doesn't say `%s`", err.message, says);
    free(changed);
}

static void forms_come_back_from_json(void **state) {
    (void)state;
    static const sw_weight_form forms[] = {{SW_SCALES_ROW, true, 0},
                                           {SW_SCALES_FLOAT_BLOCK, true, 16},
                                           {SW_SCALES_BLOCKWISE, true, 16},
                                           {SW_SCALES_FLOAT_BLOCK, false, 16}};
    tiny_decoder t;
    sw_decoder d;
    sw_error err = {0};
    bool *per_channel;
    size_t size, n = 0;
    tiny_decoder_create(&t);
    for (uint32_t i = 0; i < t.decoder.n_constants && n < 4; i++) {
        sw_tensor *w = t.decoder.constants[i];
        if (w->role != SW_ROLE_WEIGHT || w->dims[1] % 16 != 0) continue;
        w->form = forms[n++];
        if (w->form.scales == SW_SCALES_FLOAT_BLOCK) w->channel_scales = NULL;
    }
    assert_int_equal(n, 4);
    char *text = dump(&t.decoder, &size);
    assert_int_equal(sw_decoder_read_json(&d, "g.json", text, size, &per_channel, &err), SW_OK);
    for (uint32_t i = 0; i < d.n_constants; i++) {
        const sw_tensor *a = t.decoder.constants[i], *b = d.constants[i];
        assert_int_equal(a->form.scales, b->form.scales);
        assert_int_equal(a->form.four_bit, b->form.four_bit);
        assert_int_equal(a->form.block, b->form.block);
        assert_int_equal(per_channel[i], a->channel_scales != NULL);
    }
    json_refused(text, "\"bits\": 4", "\"bits\": 2", "$.constants[0].bits");
    json_refused(text, "\"scales\": \"float_block\"", "\"scales\": \"tensor\"", "unknown scales `tensor`");
    json_refused(text, "\"block\": 16", "\"block\": 0", "block");
    json_refused(text, "\"block\": 16", "\"block\": 17", "doesn't divide");
    json_refused(text, "\"block\": 16", "\"block\": 16, \"per_channel\": true", "come without `per_channel`");
    json_refused(text, "\"scales\": \"float_block\", ", "", "only scales of blocks have one");
    json_refused(text, "\"scales\": \"blockwise\"", "\"scales\": \"float_block\"",
                 "come without `per_channel`");
    free(text);
    sw_decoder_free(&d);
    tiny_decoder_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_integers_times_scales), cmocka_unit_test(what_goes_together),
        cmocka_unit_test(bad_forms_are_refused), cmocka_unit_test(forms_come_back_from_json)};
    return cmocka_run_group_tests(tests, fill, NULL);
}
