/* Whatever the number of tokens a call of the prefill graph takes, the reply is the same, and K and V in the
 * cache are, byte by byte, those of one run: on the CPU device, with each width of the cache. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/ar_lengths.h"
#include "cli/spy_device.h"
#include "cli/tiny_setup.h"

enum { CONTEXT = 192, PROMPT = 150, REPLY = 24, VOCAB = 96 };

static tiny_setup tiny;
static spy_device spy, whole;

static const struct {
    const char *recipe; /* NULL: f32 */
    unsigned kv_bits;
    float bound; /* of logits; integers are equal */
} forms[] = {{NULL, 0, 1e-4f}, {"8a8w", 8, 0},  {"16a8w", 8, 0},
             {"16a8w", 16, 0}, {"16a4w", 8, 0}, {"f16", 16, 0.02f}};
enum { N_FORMS = sizeof forms / sizeof *forms };

static int set_up(void **state) {
    (void)state;
    sw_hparams h = tiny_hparams();
    h.context_max = CONTEXT;
    tiny_setup_create(&tiny, &h);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tiny_setup_free(&tiny);
    return 0;
}

static const sw_recipe *recipe_of(size_t form, sw_recipe *out) {
    if (forms[form].recipe == NULL) return NULL;
    AR_OK(sw_recipe_find(out, forms[form].recipe, forms[form].kv_bits, &ar_error));
    return out;
}

static void every_ar_length_gives_the_same_reply(void **state) {
    (void)state;
    for (size_t f = 0; f < N_FORMS; f++)
        for (unsigned form = 0; form < SW_ATTENTION_FORM_COUNT; form++) {
            sw_recipe recipe;
            const sw_recipe *r = recipe_of(f, &recipe);
            float wanted_logits[VOCAB], logits[VOCAB];
            int32_t wanted[REPLY], got[REPLY];
            sw_decoder first;
            build_ar(&first, &tiny.model.model, CONTEXT, 1, SW_ATTENTION_GROUPED, r, tiny.ranges, NULL);
            greedy(&first, tiny.cpu, tiny.ids, PROMPT, wanted, REPLY, wanted_logits);
            for (size_t i = 0; i < N_AR_LENGTHS; i++) {
                sw_decoder d;
                build_ar(&d, &tiny.model.model, CONTEXT, ar_lengths[i], (sw_attention_form)form, r,
                         tiny.ranges, r != NULL ? &first : NULL);
                greedy(&d, tiny.cpu, tiny.ids, PROMPT, got, REPLY, logits);
                for (size_t k = 0; k < VOCAB; k++)
                    if (!(fabsf(logits[k] - wanted_logits[k]) <= forms[f].bound))
                        fail_msg("%s, KV %u, AR %u: logit %zu is %.9g, with AR 1 %.9g",
                                 r != NULL ? r->name : "f32", forms[f].kv_bits, ar_lengths[i], k,
                                 (double)logits[k], (double)wanted_logits[k]);
                for (size_t k = 0; k < REPLY; k++)
                    if (got[k] != wanted[k])
                        fail_msg("%s, KV %u, AR %u: token %zu is %d, with AR 1 %d",
                                 r != NULL ? r->name : "f32", forms[f].kv_bits, ar_lengths[i], k, got[k],
                                 wanted[k]);
                sw_decoder_free(&d);
            }
            sw_decoder_free(&first);
        }
}

/* 32 -> 1 -> 32 -> ..., one chunk padded: before each call the cache has what was written, and in the end
 * each row of K and V is that of one run over all tokens. */
static void the_cache_survives_another_ar_length(void **state) {
    (void)state;
    static const uint32_t runs[] = {32, 1, 32, 1, 1, 20, 1, 64, 1}; /* 20: padded; 64: two chunks */
    static const uint32_t lengths[] = {2, 31, 32, 33, 64};
    float logits[VOCAB];
    for (size_t f = 0; f < N_FORMS; f++) {
        if (forms[f].bound != 0) continue; /* integers are equal, floats near */
        sw_recipe recipe;
        const sw_recipe *r = recipe_of(f, &recipe);
        size_t row_bytes = tiny.model.model.hparams.head_dim * sw_dtype_bytes(r->kv);
        sw_decoder one;
        sw_session *session;
        uint32_t total = 0;
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) total += runs[i];
        build_ar(&one, &tiny.model.model, CONTEXT, total, SW_ATTENTION_GROUPED, r, tiny.ranges, NULL);
        spy_create(&whole, tiny.cpu);
        whole.left = total;
        AR_OK(sw_session_create(&session, &one, &whole.base, &ar_error));
        AR_OK(sw_session_feed(session, tiny.ids, total, logits, NULL, &ar_error));
        assert_int_equal(whole.n_calls, 1);
        sw_session_destroy(session);
        for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
            sw_decoder d;
            build_ar(&d, &tiny.model.model, CONTEXT, lengths[n], SW_ATTENTION_GROUPED, r, tiny.ranges, &one);
            spy_create(&spy, tiny.cpu);
            AR_OK(sw_session_create(&session, &d, &spy.base, &ar_error));
            for (size_t i = 0, at = 0; i < sizeof runs / sizeof *runs; at += runs[i++]) {
                spy.left = runs[i];
                AR_OK(sw_session_feed(session, tiny.ids + at, runs[i], logits, NULL, &ar_error));
            }
            assert_int_equal(spy.filled, total);
            assert_true(spy.n_compared > 0);
            assert_false(spy.differs);
            for (unsigned slot = 0; slot < 4; slot++) /* 2 layers, K and V, of 2 heads */
                for (unsigned h = 0; h < 2; h++)
                    for (unsigned p = 0; p < total; p++)
                        if (memcmp(spy.rows[slot][h][p], whole.rows[slot][h][p], row_bytes) != 0)
                            fail_msg("%s, KV %u, AR %u: %s of layer %u, head %u, position %u differs",
                                     r->name, forms[f].kv_bits, lengths[n], slot % 2 ? "V" : "K", slot / 2, h,
                                     p);
            sw_session_destroy(session);
            sw_decoder_free(&d);
        }
        sw_decoder_free(&one);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_ar_length_gives_the_same_reply),
                                       cmocka_unit_test(the_cache_survives_another_ar_length)};
    return cmocka_run_group_tests_name("AR lengths", tests, set_up, tear_down);
}
