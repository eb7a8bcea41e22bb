/* A head in pieces: the logits of the whole one, on the CPU device and on Qualcomm's emulator; the pieces
 * cover the vocabulary; a dump keeps them, and wrong ones are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "cli/tiny_setup.h"
#include "graph/extract.h"
#include "graph/json.h"
#include "qnn/htp_test.h"
#include "runtime/session.h"
#include "soc/soc.h"

enum { CONTEXT = 24, PROMPT = 19, STEPS = 4, MOST_VOCAB = 352 };

static const uint32_t vocabs[] = {352, 331}; /* a multiple of a tile, and a prime */

static void create(tiny_setup *s, uint32_t vocab) {
    sw_hparams h = tiny_hparams();
    h.vocab = vocab;
    tiny_setup_create(s, &h);
}

static void build(const tiny_setup *s, sw_decoder *d, const sw_recipe *recipe, uint32_t pieces,
                  const sw_decoder *constants) {
    const sw_graph_options kinds[] = {{"prefill_forward", 8, SW_ATTENTION_GROUPED, SW_HEAD_CUT(pieces)},
                                      {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_CUT(pieces)}};
    OK(sw_decoder_build(d, &s->model.model, CONTEXT, kinds, 2, &err));
    tiny_quantize(s, d, recipe, constants);
}

/* Behind a prompt, and behind each of a few tokens more. */
static void run(const tiny_setup *s, const sw_decoder *d, sw_device *device, float *logits) {
    const uint32_t vocab = d->hparams.vocab;
    sw_session *session;
    OK(sw_session_create(&session, d, device, &err));
    OK(sw_session_feed(session, s->ids, PROMPT, logits, NULL, &err));
    for (uint32_t i = 1; i < STEPS; i++)
        OK(sw_session_feed(session, s->ids + PROMPT + i - 1, 1, logits + i * vocab, NULL, &err));
    sw_session_destroy(session);
}

/* A matrix product's multipliers are rounded beside the greatest scale of its channels, which not every piece
 * has: a few logits of 16 bits are a step apart, on the HTP too. */
static void logits_are_those_of_the_whole_head(void **state) {
    (void)state;
    static const char *const recipes[] = {NULL, "8a8w", "16a8w", "16a4w", "f16", "f16a8w"};
    static float want[STEPS * MOST_VOCAB], got[STEPS * MOST_VOCAB];
    for (size_t v = 0; v < 2; v++) {
        tiny_setup s;
        create(&s, vocabs[v]);
        for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
            sw_recipe recipe, *used = recipes[r] != NULL ? &recipe : NULL;
            sw_decoder whole;
            if (used != NULL) OK(sw_recipe_find(used, recipes[r], 0, &err));
            build(&s, &whole, used, 1, NULL);
            assert_int_equal(sw_graph_head_pieces(whole.graphs[0]), 1);
            run(&s, &whole, s.cpu, want);
            const sw_tensor *logits = whole.graphs[0]->tensors[sw_graph_find(whole.graphs[0], "logits")];
            const float step = logits->dtype == SW_U16 ? logits->encoding.scale * 1.001f : 0;
            for (uint32_t pieces = 2; pieces <= vocabs[v] / 32; pieces++) {
                sw_decoder cut;
                size_t differing = 0;
                build(&s, &cut, used, pieces, used != NULL ? &whole : NULL);
                assert_int_equal(sw_graph_head_pieces(cut.graphs[0]), pieces);
                run(&s, &cut, s.cpu, got);
                for (size_t i = 0; i < STEPS * vocabs[v]; i++) {
                    differing += got[i] != want[i];
                    if (!(fabsf(got[i] - want[i]) <= step))
                        fail_msg("%s, %u pieces: logit %zu is %.9g, of the whole head %.9g",
                                 used != NULL ? recipes[r] : "f32", pieces, i, (double)got[i],
                                 (double)want[i]);
                }
                if (differing * 500 > STEPS * vocabs[v])
                    fail_msg("%s, %u pieces: %zu of %u logits differ from the whole head's",
                             used != NULL ? recipes[r] : "f32", pieces, differing, STEPS * vocabs[v]);
                sw_decoder_free(&cut);
            }
            sw_decoder_free(&whole);
        }
        tiny_setup_free(&s);
    }
}

/* The ops behind the last norm, of the graph for one token. */
static sw_graph *head_of(const sw_decoder *d, sw_arena *arena) {
    const sw_graph *graph = d->graphs[1];
    uint32_t first = graph->n_ops;
    while (strcmp(graph->tensors[graph->ops[first - 1].outputs[0]]->name, "final_norm_out") != 0) first--;
    sw_graph *head = sw_graph_extract_ops(arena, graph, first, graph->n_ops - first);
    assert_non_null(head);
    assert_int_equal(head->n_inputs, 1);
    assert_int_equal(head->n_outputs, 1);
    return head;
}

/* rows of random inputs [hidden], one after the other -> logits as integers of 16 bits. */
static void run_head(sw_device *device, const sw_graph *head, uint32_t rows, uint16_t *out) {
    const sw_tensor *x = head->tensors[head->inputs[0]], *y = head->tensors[head->outputs[0]];
    const size_t n_in = sw_tensor_elements(x), n_out = sw_tensor_elements(y);
    static uint16_t in[64], wide[MOST_VOCAB];
    sw_program *program;
    OK(device->ops->load(device, head, &program, &err));
    uint64_t state = 3;
    for (uint32_t r = 0; r < rows; r++) {
        const sw_binding input = {.data = in}, output = {.data = wide};
        const bool bytes = x->dtype == SW_U8;
        for (size_t i = 0; i < n_in; i++) {
            const uint16_t value = (uint16_t)test_next(&state);
            if (bytes)
                ((uint8_t *)in)[i] = (uint8_t)value;
            else
                in[i] = value;
        }
        OK(device->ops->execute(program, &input, &output, NULL, NULL, &err));
        for (size_t i = 0; i < n_out; i++) out[r * n_out + i] = bytes ? ((uint8_t *)wide)[i] : wide[i];
    }
    device->ops->unload(program);
}

/* On the emulator, too, pieces are a step from the whole head here and there. */
static void heads_are_the_emulators(void **state) {
    (void)state;
    enum { ROWS = 40 };
    static const char *const recipes[] = {"16a8w", "8a8w", "16a4w"};
    static uint16_t cpu[ROWS * MOST_VOCAB], emulated[ROWS * MOST_VOCAB], whole[ROWS * MOST_VOCAB];
    sw_qnn_library library;
    sw_device *emulator;
    const sw_qnn_graph_options options = {.opt_level = 3};
    if (!test_open_library(&library)) skip();
    sw_log_set_level(SW_LOG_ERROR);
    OK(sw_htp_device_create(&emulator, &library, sw_soc_find("SM8750"), &options, &err));
    for (size_t v = 0; v < 2; v++) {
        tiny_setup s;
        create(&s, vocabs[v]);
        for (size_t r = 0; r < 3; r++)
            for (uint32_t pieces = 1; pieces <= 4; pieces += pieces == 1 ? 1 : 2) {
                sw_recipe recipe;
                sw_decoder d;
                sw_arena arena = SW_ARENA_EMPTY;
                size_t differing = 0;
                OK(sw_recipe_find(&recipe, recipes[r], 0, &err));
                build(&s, &d, &recipe, pieces, NULL);
                const sw_graph *head = head_of(&d, &arena);
                run_head(s.cpu, head, ROWS, cpu);
                run_head(emulator, head, ROWS, emulated);
                if (pieces == 1) memcpy(whole, emulated, sizeof whole);
                for (size_t i = 0; i < ROWS * vocabs[v]; i++) {
                    if (cpu[i] != emulated[i])
                        fail_msg("%s, vocabulary %u in %u pieces: logit %zu is %u, the emulator's %u",
                                 recipes[r], vocabs[v], pieces, i, cpu[i], emulated[i]);
                    differing += emulated[i] != whole[i];
                    assert_true(abs(emulated[i] - whole[i]) <= (strcmp(recipes[r], "8a8w") == 0 ? 0 : 1));
                }
                assert_true(differing * 500 < ROWS * vocabs[v]);
                sw_arena_free(&arena);
                sw_decoder_free(&d);
            }
        tiny_setup_free(&s);
    }
    emulator->ops->destroy(emulator);
}

static void pieces_cover_the_vocabulary(void **state) {
    (void)state;
    static const uint32_t sizes[] = {352, 331, 49152, 128256, 128258, 151936, 262208};
    for (size_t v = 0; v < sizeof sizes / sizeof *sizes; v++)
        for (uint32_t pieces = 1; pieces <= SW_MAX_INPUTS && pieces <= sizes[v] / 32; pieces++) {
            assert_int_equal(sw_head_piece_begin(sizes[v], pieces, 0), 0);
            assert_int_equal(sw_head_piece_begin(sizes[v], pieces, pieces), sizes[v]);
            for (uint32_t i = 0; i < pieces; i++) {
                const uint32_t begin = sw_head_piece_begin(sizes[v], pieces, i),
                               end = sw_head_piece_begin(sizes[v], pieces, i + 1);
                assert_int_equal(begin % 32, 0);
                assert_true(end > begin && end - begin < sizes[v] / pieces + 64);
            }
        }
}

/* Tiles of 32 rows and 2 bytes in half of the VTCM. */
static void the_vtcm_says_how_many(void **state) {
    (void)state;
    static const struct {
        uint32_t vocab, vtcm_mb, pieces;
    } rows[] = {{49152, 8, 1},  {49152, 4, 2},   {65536, 8, 1},   {65537, 8, 2},
                {128256, 8, 2}, {128256, 4, 4},  {128256, 2, 8},  {151936, 8, 3},
                {262144, 8, 4}, {262144, 2, 16}, {262208, 2, 16}, {96, 8, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(sw_head_form_auto(rows[i].vocab, 0, rows[i].vtcm_mb).pieces, rows[i].pieces);
    assert_int_equal(sw_head_form_auto(128256, 40, 8).pieces, 1); /* TopK reads the tile where it lies */
    assert_int_equal(sw_head_form_auto(128256, 40, 8).top_k, 40);
}

static void a_dump_keeps_them_and_wrong_ones_are_refused(void **state) {
    (void)state;
    tiny_setup s;
    sw_decoder d, back;
    sw_recipe recipe;
    char *text = NULL;
    size_t size = 0;
    create(&s, vocabs[0]);
    OK(sw_recipe_find(&recipe, "16a8w", 0, &err));
    build(&s, &d, &recipe, 3, NULL);
    FILE *stream = open_memstream(&text, &size);
    OK(sw_decoder_write_json(&d, stream, &err));
    fclose(stream);
    OK(sw_decoder_read_json(&back, "dump", text, size, NULL, &err));
    OK(sw_decoder_verify(&back, &err));
    assert_int_equal(sw_graph_head_pieces(back.graphs[1]), 3);
    sw_decoder_free(&back);

    static const struct {
        const char *from, *to, *error;
    } wrong[] = {{"\"channels\": [96, 224]", "\"channels\": [97, 224]", "don't fit"},
                 {"\"channels\": [224, 352]", "\"channels\": [225, 353]", "don't fit"},
                 {"\"channels\": [224, 352]", "\"channels\": [352, 224]", "[352, 224]"},
                 {"\"channels\": [224, 352]", "\"channels\": [224]     ", "channels"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *at = strstr(text, wrong[i].from);
        assert_non_null(at);
        memcpy(at, wrong[i].to, strlen(wrong[i].to));
        sw_code code = sw_decoder_read_json(&back, "dump", text, size, NULL, &err);
        if (code == SW_OK) {
            code = sw_decoder_verify(&back, &err);
            sw_decoder_free(&back);
        }
        assert_int_equal(code, SW_BAD_DATA);
        if (strstr(err.message, wrong[i].error) == NULL) fail_msg("%s", err.message);
        memcpy(at, wrong[i].from, strlen(wrong[i].from));
    }
    free(text);

    /* The device's own check, of graphs that nobody verified. */
    sw_graph *graph = d.graphs[1];
    sw_program *program;
    for (uint32_t i = 0; i < graph->n_ops; i++)
        if (graph->ops[i].channels.end == vocabs[0]) graph->ops[i].channels.end++;
    assert_int_equal(s.cpu->ops->load(s.cpu, graph, &program, &err), SW_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "353"));
    sw_decoder_free(&d);

    sw_graph_options kind = {"kv_forward", 1, SW_ATTENTION_GROUPED, SW_HEAD_CUT(12)};
    assert_int_equal(sw_decoder_build(&d, &s.model.model, CONTEXT, &kind, 1, &err), SW_INVALID_ARGUMENT);
    kind.head = (sw_head_form){.pieces = 2, .top_k = 5};
    assert_int_equal(sw_decoder_build(&d, &s.model.model, CONTEXT, &kind, 1, &err), SW_INVALID_ARGUMENT);
    kind.head = (sw_head_form){.pieces = SW_MAX_INPUTS + 1};
    assert_int_equal(sw_decoder_build(&d, &s.model.model, CONTEXT, &kind, 1, &err), SW_INVALID_ARGUMENT);
    tiny_setup_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(logits_are_those_of_the_whole_head),
                                       cmocka_unit_test(pieces_cover_the_vocabulary),
                                       cmocka_unit_test(the_vtcm_says_how_many),
                                       cmocka_unit_test(a_dump_keeps_them_and_wrong_ones_are_refused),
                                       cmocka_unit_test(heads_are_the_emulators)};
    return cmocka_run_group_tests_name("head pieces", tests, NULL, NULL);
}
