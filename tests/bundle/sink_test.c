/* The sink's part: written and read back, absent, and damaged in each way that the reader has to see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "bundle/safetensors_write.h"
#include "fixture.h"

enum { MOST_VALUES = 1 << 16 };

static int32_t ids[TINY_CONTEXT] = {3, 5, 7};
static uint8_t kv[MOST_VALUES];

static void set_sink(uint32_t n) {
    uint64_t values = sw_sink_values(&tiny.decoder.hparams, n);
    assert_true(values <= MOST_VALUES);
    for (uint64_t i = 0; i < values; i++) kv[i] = (uint8_t)(i * 7 + i / 256);
    tiny.decoder.sink = n > 0 ? (sw_sink){n, ids, kv} : (sw_sink){0};
}

static void comes_back(void **state) {
    (void)state;
    for (uint32_t n = 0; n <= 2; n++) {
        sw_bundle b;
        set_sink(n);
        assert_int_equal(compile("sink", 0), SW_OK);
        assert_opens(&b);
        assert_int_equal(b.decoder.sink.n_tokens, n);
        assert_int_equal(sw_bundle_part(&b, SW_PART_SINK, 0) != NULL, n > 0);
        assert_int_equal(count_files(), n > 0 ? 5 : 4); /* the part of the compile before is gone */
        if (n > 0) {
            assert_memory_equal(b.decoder.sink.ids, ids, n * sizeof *ids);
            assert_memory_equal(b.decoder.sink.kv, kv, sw_sink_values(&b.decoder.hparams, n));
        }
        assert_int_equal(sw_bundle_verify(&b, &err), SW_OK);
        sw_bundle_close(&b);
    }
    set_sink(0);
}

/* A bundle whose sink part is another file; the manifest's size and hash are those of that file. */
static void put_damaged(sw_st_dtype ids_type, uint32_t n_ids, const int32_t *values, sw_st_dtype kv_type,
                        uint32_t rank, const uint32_t *dims, bool extra) {
    char path[600], *text;
    size_t size;
    sw_safetensors_writer s = {0};
    sw_arena arena = SW_ARENA_EMPTY;
    sw_bundle_writer *w;
    join(path, sizeof path, "damaged.safetensors");
    assert_int_equal(sw_safetensors_writer_open(&s, path, 4096, &err), SW_OK);
    assert_int_equal(sw_safetensors_writer_put(&s, "ids", ids_type, 1, &n_ids, values, &err), SW_OK);
    if (rank > 0) assert_int_equal(sw_safetensors_writer_put(&s, "kv", kv_type, rank, dims, kv, &err), SW_OK);
    if (extra) assert_int_equal(sw_safetensors_writer_put(&s, "more", SW_ST_U8, 1, dims, kv, &err), SW_OK);
    assert_int_equal(sw_safetensors_writer_commit(&s, &err), SW_OK);
    text = get_file("damaged.safetensors", &size, &arena);

    sw_decoder *d = &tiny.decoder;
    const void *data[64];
    const float *scales[64];
    assert_int_equal(sw_bundle_writer_begin(&w, folder, &err), SW_OK);
    assert_int_equal(sw_bundle_writer_begin_weights(w, d, &err), SW_OK);
    for (uint32_t i = 0; i < d->n_constants; i++) {
        data[i] = d->constants[i]->data, scales[i] = d->constants[i]->channel_scales;
        assert_int_equal(sw_bundle_writer_put_constant(w, d->constants[i], data[i], &err), SW_OK);
    }
    assert_int_equal(sw_bundle_writer_end_weights(w, &err), SW_OK);
    assert_int_equal(sw_bundle_writer_add(w, SW_PART_SINK, "sink.safetensors", text, size, &err), SW_OK);
    sw_manifest m = make_manifest("damaged", false);
    assert_int_equal(sw_bundle_writer_commit(w, &m, &err), SW_OK);
    sw_bundle_writer_free(w);
    for (uint32_t i = 0; i < d->n_constants; i++)
        d->constants[i]->data = data[i], d->constants[i]->channel_scales = scales[i];
    sw_arena_free(&arena);
}

static void damaged_ones_are_refused(void **state) {
    (void)state;
    const sw_hparams *h = &tiny.decoder.hparams;
    const uint32_t right[5] = {h->n_layers, 2, h->n_kv_heads, 1, h->head_dim};
    const uint32_t two[5] = {h->n_layers, 2, h->n_kv_heads, 2, h->head_dim};
    const uint32_t all[5] = {h->n_layers, 2, h->n_kv_heads, TINY_CONTEXT, h->head_dim};
    const int32_t beyond[1] = {(int32_t)h->vocab}, negative[1] = {-1};
    sw_bundle b;
    set_sink(0);
    put_damaged(SW_ST_I32, 1, ids, SW_ST_U8, 5, right, false); /* the form itself is right */
    assert_opens(&b);
    sw_bundle_close(&b);
    put_damaged(SW_ST_I32, 1, beyond, SW_ST_U8, 5, right, false);
    assert_refused("token 0 has id");
    put_damaged(SW_ST_I32, 1, negative, SW_ST_U8, 5, right, false);
    assert_refused("has id -1");
    put_damaged(SW_ST_I32, 0, ids, SW_ST_U8, 5, right, false);
    assert_refused("wanted a tensor `ids` of 1 to 8 tokens");
    put_damaged(SW_ST_F32, 1, ids, SW_ST_U8, 5, right, false);
    assert_refused("`ids` is F32, the graph wants I32");
    put_damaged(SW_ST_I32, 1, ids, SW_ST_U16, 5, right, false);
    assert_refused("`kv` is U16, the graph wants U8");
    put_damaged(SW_ST_I32, 1, ids, SW_ST_U8, 5, two, false);
    assert_refused("dimension 3 of `kv` is 2, the graph wants 1");
    put_damaged(SW_ST_I32, 1, ids, SW_ST_U8, 4, right, false);
    assert_refused("`kv` has 4 dimensions");
    put_damaged(SW_ST_I32, 1, ids, SW_ST_U8, 0, right, false);
    assert_refused("no tensor `kv`");
    put_damaged(SW_ST_I32, 1, ids, SW_ST_U8, 5, right, true);
    assert_refused("has 3 tensors");
    put_damaged(SW_ST_I32, TINY_CONTEXT, ids, SW_ST_U8, 5, all, false); /* no room for a token */
    assert_refused("a sink of 8 tokens, wanted at most 7");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(comes_back),
        TEST(damaged_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, make_all, remove_all);
}
