/* Bundles written and read back; parts cut, flipped, missing or swapped; weights and encodings that don't
 * fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bundle/fixture.h"

static void a_bundle_comes_back(void **state) {
    (void)state;
    static const uint32_t contexts[] = {0, 1, 2, 5};
    for (unsigned c = 0; c < 4; c++) {
        sw_bundle b;
        assert_int_equal(compile("16a8w", contexts[c]), SW_OK);
        assert_opens(&b);
        const sw_manifest *m = &b.manifest;
        assert_string_equal(m->recipe, "16a8w");
        assert_string_equal(m->tool_version, "0.1.0");
        assert_string_equal(m->hparams.name, "tiny");
        assert_int_equal(m->kv_type, SW_U8);
        assert_int_equal(m->context_len, TINY_CONTEXT);
        assert_int_equal(m->prefill_ar_len, TINY_PREFILL);
        assert_int_equal(m->spill_fill_buffer_bytes, 4980736);
        assert_int_equal(m->graphs[0].ddr.fill, 18612224);
        assert_false(m->graphs[1].ddr.known);
        assert_true(m->graphs[0].slc_allocator);
        assert_true(m->graphs[0].finalize_seconds == 12.5);
        const sw_decoder *d = decoder_for(contexts[c]);
        assert_int_equal(m->n_shards, d->n_shards);
        assert_int_equal(m->n_graphs, 2 * d->n_shards);
        uint32_t linear = 0;
        for (uint32_t i = 1; i < m->n_graphs; i += 2) linear += m->graphs[i].op_counts[SW_OP_FULLY_CONNECTED];
        assert_int_equal(linear, d->hparams.n_layers * 7 + 1);
        assert_string_equal(m->calibration, "{\"tokens\": 2048, \"sqnr_db\": 31.25}");
        assert_string_equal(m->tuning, "{\"tried\": []}");
        for (uint32_t i = 0; i < b.decoder.n_constants; i++) {
            const sw_tensor *x = b.decoder.constants[i], *y = d->constants[i];
            assert_memory_equal(x->data, y->data, sw_tensor_bytes(y));
            assert_int_equal(x->channel_scales != NULL, y->channel_scales != NULL);
            if (x->channel_scales != NULL)
                assert_memory_equal(x->channel_scales, y->channel_scales, x->dims[0] * sizeof(float));
        }
        for (uint32_t i = 0; i < contexts[c]; i++) {
            char text[64];
            size_t size;
            const sw_part *part = sw_bundle_part(&b, SW_PART_CONTEXT, i);
            snprintf(text, sizeof text, "context %u of 16a8w", i);
            char *have = get_file(part->path, &size, &b.arena);
            assert_string_equal(have, text);
            assert_int_equal(sw_bundle_check_part(&b, part, &err), SW_OK);
        }
        assert_null(sw_bundle_part(&b, SW_PART_CONTEXT, contexts[c]));
        assert_int_equal(sw_bundle_verify(&b, &err), SW_OK);
        assert_int_equal(count_files(), 1 + 3 + contexts[c]); /* what the compile before wrote is gone */
        sw_bundle_close(&b);
    }
}

/* FIPS 180-4's example: SHA-256 of "abc". */
static void parts_are_named_by_their_hash(void **state) {
    (void)state;
    sw_bundle_writer *w;
    char path[600];
    assert_int_equal(sw_bundle_writer_begin(&w, folder, &err), SW_OK);
    assert_int_equal(sw_bundle_writer_add(w, SW_PART_OTHER, "../a note.tar.gz", "abc", 3, &err), SW_OK);
    join(path, sizeof path, SW_PARTIAL_NAME "/_._a_note.tar-ba7816bf.gz");
    assert_int_equal(access(path, R_OK), 0);
    assert_int_equal(sw_bundle_writer_add(w, SW_PART_OTHER, "../a note.tar.gz", "abc", 3, &err),
                     SW_INVALID_ARGUMENT);
    sw_manifest m = make_manifest("16a8w", 0);
    assert_int_equal(sw_bundle_writer_commit(w, &m, &err), SW_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "the weights are not written yet"));
    sw_bundle_writer_free(w);
    assert_int_not_equal(access(path, R_OK), 0);
}

static void two_compiles_at_once_are_refused(void **state) {
    (void)state;
    sw_bundle_writer *w, *other;
    assert_int_equal(sw_bundle_writer_begin(&w, folder, &err), SW_OK);
    assert_int_equal(sw_bundle_writer_begin(&other, folder, &err), SW_IO);
    assert_non_null(strstr(err.message, "another compile is writing into this folder"));
    assert_null(other);
    sw_bundle_writer_free(w);
    assert_int_equal(sw_bundle_writer_begin(&w, folder, &err), SW_OK);
    sw_bundle_writer_free(w);
}

static void foreign_files_are_left_alone(void **state) {
    (void)state;
    char path[600];
    sw_bundle_writer *w;
    /* A link in the place of our work folder, and a manifest that lists a file without our name. */
    assert_int_equal(mkdir("bundle_test_elsewhere", 0777), 0);
    FILE *f = fopen("bundle_test_elsewhere/precious", "w");
    fclose(f);
    join(path, sizeof path, SW_PARTIAL_NAME);
    assert_int_equal(symlink("../bundle_test_elsewhere", path), 0);
    assert_int_equal(sw_bundle_writer_begin(&w, folder, &err), SW_IO);
    assert_int_equal(access("bundle_test_elsewhere/precious", R_OK), 0);
    unlink(path);
    empty_folder("bundle_test_elsewhere");
    rmdir("bundle_test_elsewhere");

    size_t size;
    sw_arena arena = SW_ARENA_EMPTY;
    put_file("thesis.json", "{}", 2);
    assert_int_equal(compile("old", 0), SW_OK);
    char *text = get_file(SW_MANIFEST_NAME, &size, &arena), *at = strstr(text, "\"path\": \"tokenizer-");
    assert_non_null(at);
    char *end = strchr(at + 9, '"');
    memmove(at + 9 + 11, end, strlen(end) + 1);
    memcpy(at + 9, "thesis.json", 11);
    put_file(SW_MANIFEST_NAME, text, strlen(text));
    assert_int_equal(compile("new", 0), SW_OK);
    join(path, sizeof path, "thesis.json");
    assert_int_equal(access(path, R_OK), 0);
    sw_arena_free(&arena);
}

static void a_foreign_manifest_is_not_replaced(void **state) {
    (void)state;
    static const char *const texts[] = {"{\"name\": \"a web page\"}", "GGUF\3", "\"spillway\"", "x"};
    size_t size;
    sw_bundle_writer *w;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sw_arena arena = SW_ARENA_EMPTY;
        put_file(SW_MANIFEST_NAME, texts[i], strlen(texts[i]));
        assert_int_equal(sw_bundle_writer_begin(&w, folder, &err), SW_IO);
        assert_null(w);
        assert_non_null(strstr(err.message, "manifest.json: is not a bundle's and would be replaced"));
        assert_string_equal(get_file(SW_MANIFEST_NAME, &size, &arena), texts[i]);
        assert_int_equal(count_files(), 1);
        sw_arena_free(&arena);
    }
    /* Ours is replaced, also where it was cut off. */
    put_file(SW_MANIFEST_NAME, "", 0);
    assert_int_equal(compile("new", 0), SW_OK);
    put_file(SW_MANIFEST_NAME, "{\n  \"format\": \"spillway-bundle\",\n", 34);
    assert_int_equal(compile("new", 0), SW_OK);
}

static void parts_are_measured_and_hashed(void **state) {
    (void)state;
    assert_int_equal(compile("16a8w", 1), SW_OK);
    sw_bundle b;
    assert_opens(&b);
    for (uint32_t i = 0; i < b.manifest.n_parts; i++) {
        size_t size;
        sw_arena arena = SW_ARENA_EMPTY;
        char path[600], message[700];
        const char *name = b.manifest.parts[i].path;
        char *data = get_file(name, &size, &arena);
        join(path, sizeof path, name);
        const size_t sizes[] = {0, 1, size - 1, size + 1};
        for (unsigned k = 0; k < 4; k++) {
            if (sizes[k] == size) continue; /* the tokenizer of two bytes */
            put_file(name, data, sizes[k]);
            snprintf(message, sizeof message, "%s: has %zu bytes, the manifest says %zu", path, sizes[k],
                     size);
            assert_refused(message);
        }
        const size_t places[] = {0, size / 2, size - 1};
        for (unsigned k = 0; k < 3; k++) {
            data[places[k]] ^= 4;
            put_file(name, data, size);
            assert_int_equal(sw_bundle_verify(&b, &err), SW_BAD_DATA);
            snprintf(message, sizeof message, "the manifest says %s: the part is damaged",
                     b.manifest.parts[i].sha256);
            assert_non_null(strstr(err.message, message));
            assert_int_equal(sw_bundle_check_part(&b, &b.manifest.parts[i], &err), SW_BAD_DATA);
            data[places[k]] ^= 4;
        }
        unlink(path);
        assert_refused("No such file");
        assert_int_equal(symlink("elsewhere", path), 0);
        assert_refused("is a symbolic link, wanted a regular file");
        unlink(path);
        assert_int_equal(mkdir(path, 0777), 0);
        assert_refused("is a folder, wanted a regular file");
        rmdir(path);
        put_file(name, data, size);
        assert_int_equal(sw_bundle_verify(&b, &err), SW_OK);
        sw_arena_free(&arena);
    }
    sw_bundle_close(&b);
}

/* Same-length changes of the weights' header: opening compares them with the graph. */
static void weights_must_fit_the_graph(void **state) {
    (void)state;
    static const struct {
        const char *find, *replace, *message;
    } cases[] = {
        {"\"shape\":[96,32]", "\"shape\":[32,96]", "dimension 0 of `embedding` is 32, the graph wants 96"},
        {"\"shape\":[96,32]", "\"shape\":[ 3072]", "`embedding` has 1 dimensions, the graph wants 2"},
        {"\"dtype\":\"I8\"", "\"dtype\":\"U8\"", "`embedding` is U8, the graph wants I8"},
        {"\"embedding\"", "\"embudding\"", "has no tensor `embedding`"},
        {"\"embedding.scale\"", "\"embedding.skale\"", "has no tensor `embedding.scale`"},
    };
    size_t size;
    sw_arena arena = SW_ARENA_EMPTY;
    sw_bundle b;
    assert_int_equal(compile("16a8w", 0), SW_OK);
    assert_opens(&b);
    const char *name = sw_bundle_part(&b, SW_PART_WEIGHTS, 0)->path;
    assert_int_equal((uintptr_t)b.weights.tensors[0].data % 4, 0);
    char *data = get_file(name, &size, &arena);
    uint64_t header = 0;
    memcpy(&header, data, 8);
    assert_int_equal((8 + header) % 64, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = strlen(cases[i].find);
        char *at = memmem(data, size, cases[i].find, n);
        assert_non_null(at);
        memcpy(at, cases[i].replace, n);
        put_file(name, data, size);
        assert_refused(cases[i].message);
        memcpy(at, cases[i].find, n);
    }
    sw_bundle_close(&b);
    sw_arena_free(&arena);
}

/* A KV encoding that differs: within a graph, and between graphs that are right by themselves. */
static void kv_encodings_must_agree(void **state) {
    (void)state;
    sw_graph *kv = tiny.decoder.graphs[1];
    sw_tensor *cache = kv->tensors[sw_graph_find(kv, "layer_1.k_cache")];
    sw_encoding old = cache->encoding;
    cache->encoding.scale *= 1.5f;
    assert_int_equal(compile("16a8w", 0), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "layer_1.k_cache"));
    assert_non_null(strstr(err.message, "scale 0.011764707,"));
    assert_non_null(strstr(err.message, "scale 0.00784313772"));
    cache->encoding = old;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < kv->n_tensors; i++)
            if (kv->tensors[i]->kind != SW_TENSOR_CONSTANT && kv->tensors[i]->encoding.scale == old.scale)
                kv->tensors[i]->encoding.offset = pass == 0 ? -127 : -128;
        if (pass == 1) break;
        assert_int_equal(compile("16a8w", 0), SW_BAD_DATA);
        assert_non_null(strstr(err.message, "offset -127"));
        assert_non_null(strstr(err.message, "offset -128"));
        assert_non_null(strstr(err.message, "couldn't read each other's KV cache"));
    }
    assert_int_equal(compile("16a8w", 0), SW_OK);
    /* The same on disk: "-128" -> "-127" of the last graph's cache. */
    size_t size;
    sw_arena arena = SW_ARENA_EMPTY;
    sw_bundle b;
    assert_opens(&b);
    const char *name = sw_bundle_part(&b, SW_PART_GRAPH, 0)->path;
    char *text = get_file(name, &size, &arena), *at = strstr(text, "\"kv_forward\"");
    at = strstr(strstr(at, "\"layer_0.v_cache\""), "-128");
    memcpy(at, "-127", 4);
    put_file(name, text, size);
    assert_refused("layer_0.v_cache");
    sw_bundle_close(&b);
    sw_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_bundle_comes_back),
        TEST(parts_are_named_by_their_hash),
        TEST(two_compiles_at_once_are_refused),
        TEST(foreign_files_are_left_alone),
        TEST(a_foreign_manifest_is_not_replaced),
        TEST(parts_are_measured_and_hashed),
        TEST(weights_must_fit_the_graph),
        TEST(kv_encodings_must_agree),
    };
    return cmocka_run_group_tests(tests, make_all, remove_all);
}
