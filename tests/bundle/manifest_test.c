/* Every key, type and relation of a manifest, and its comparison with what a loader finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bundle/fixture.h"

static json_t *load_manifest(void) {
    size_t size;
    sw_arena arena = SW_ARENA_EMPTY;
    json_t *m = json_loads(get_file(SW_MANIFEST_NAME, &size, &arena), 0, NULL);
    assert_non_null(m);
    sw_arena_free(&arena);
    return m;
}

static void store_manifest(const json_t *m) {
    char *text = json_dumps(m, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    put_file(SW_MANIFEST_NAME, text, strlen(text));
    free(text);
}

/* Each key of each object, taken away; each value, of another type. */
static unsigned mutate_all(json_t *root, json_t *at) {
    unsigned n = 0;
    size_t index;
    json_t *element;
    json_array_foreach(at, index, element) n += mutate_all(root, element);
    if (!json_is_object(at)) return n;
    json_t *keys = json_copy(at);
    const char *key;
    json_object_foreach(keys, key, element) {
        json_t *wrong[] = {NULL,         json_null(), json_integer(-1), json_real(0.5), json_string("?"),
                           json_array(), json_true()};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            bool nullable =
                strcmp(key, "ddr") == 0 || strcmp(key, "qnn_build_id") == 0 || strcmp(key, "slc_advice") == 0;
            if (nullable && json_is_null(wrong[i])) continue;
            if (wrong[i] == NULL && (strcmp(key, "tuning") == 0 || strcmp(key, "head_pieces") == 0)) continue;
            if (strcmp(key, "qnn_build_id") == 0 && json_is_string(wrong[i])) continue;
            if (json_is_boolean(wrong[i]) && json_is_boolean(element)) continue;
            if (json_is_real(wrong[i]) && strstr(key, "_seconds") != NULL) continue;
            bool free_text =
                strcmp(key, "tool_version") == 0 || strcmp(key, "recipe") == 0 || strcmp(key, "reason") == 0;
            if (json_is_string(wrong[i]) && free_text) continue;
            json_object_del(at, key);
            if (wrong[i] != NULL) json_object_set(at, key, wrong[i]);
            store_manifest(root);
            sw_bundle b;
            if (sw_bundle_open(&b, folder, &err) == SW_OK) fail_msg("%s %zu was accepted", key, i);
            /* What is legal by itself is compared with the graph: `model` as a whole, a graph's name. */
            if (strstr(err.message, key) == NULL && strstr(err.message, "`model`") == NULL &&
                strstr(err.message, "in the graph part") == NULL)
                fail_msg("%s %zu: %s", key, i, err.message);
            json_object_set(at, key, element);
            n++;
        }
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) json_decref(wrong[i]);
        if (strcmp(key, "calibration") != 0 && strcmp(key, "tuning") != 0)
            n += mutate_all(root, json_object_get(at, key));
    }
    json_decref(keys);
    return n;
}

static void every_key_is_needed_and_typed(void **state) {
    (void)state;
    assert_int_equal(compile("16a8w", 1), SW_OK);
    json_t *m = load_manifest();
    assert_true(mutate_all(m, m) > 380);
    store_manifest(m);
    sw_bundle b;
    assert_opens(&b);
    sw_bundle_close(&b);
    json_decref(m);
}

static void manifest_mutations_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *find, *replace, *message;
    } cases[] = {
        {"\"spillway-bundle\"", "\"pip\"", "$.format: is `pip`, wanted `spillway-bundle`"},
        {"\"version\": 1", "\"version\": 2", "$.version: is 2, this build reads 1"},
        {"\"version\": 1", "\"version\": 1, \"new\": 1",
         "$: unknown key `new`; made by another version of spillway: compile the model again"},
        {"\"kv_type\": \"u8\"", "\"kv_type\": \"u16\"",
         "kv_type is u16, but `layer_0.v_new` of prefill_forward is u8"},
        {"\"kv_type\": \"u8\"", "\"kv_type\": \"u7\"", "$.kv_type: is `u7`, wanted"},
        {"\"soc_name\": \"SM8750\"", "\"soc_name\": \"SM8650\"", "$.soc_id: is 69, SM8650 is 57"},
        {"\"soc_name\": \"SM8750\"", "\"soc_name\": \"SM9999\"",
         "$.soc_name: is `SM9999`, but SoC 69 is SM8750"},
        {"\"soc_id\": 69", "\"soc_id\": 57", "$.soc_id: is 57, SM8750 is 69"},
        {"\"htp_arch\": 79", "\"htp_arch\": 75", "$.htp_arch: is 75, SM8750 has a V79"},
        {"\"vtcm_mb\": 8", "\"vtcm_mb\": 9", "$.vtcm_mb: is 9, wanted 0 to 8"},
        {"\"model_mode\": \"hybrid\"", "\"model_mode\": \"both\"",
         "$.model_mode: is `both`, wanted hybrid or kv"},
        {"\"prefill_ar_len\": 4", "\"prefill_ar_len\": 5", "no graph has prefill_ar_len 5"},
        {"\"prefill_ar_len\": 4", "\"prefill_ar_len\": 9", "$.prefill_ar_len: is 9, wanted 1 to 8"},
        {"\"context_len\": 8", "\"context_len\": 9", "context_len is 9, the graph's 8"},
        {"\"head_pieces\": 1", "\"head_pieces\": 2",
         "head_pieces of prefill_forward is 2, in the graph part 1"},
        {"\"head_pieces\": 1", "\"head_pieces\": 17", "head_pieces: is 17, wanted 1 to 16"},
        {"\"hidden\": 32", "\"hidden\": 64", "`model` differs from the graph's `hparams`"},
        {"\"name\": \"kv_forward\"", "\"name\": \"prefill_forward\"", "$.graphs[1]: two graphs are named"},
        {"\"shards\": 1", "\"shards\": 2", "$.graphs[1].shard: is 0, wanted 1 to 1"},
        {"\"shards\": 1", "\"shards\": 3", "$.shards: is 3, wanted 1 to 2"},
        {"\"shard\": 0", "\"shard\": 1", "$.graphs[0].shard: is 1, wanted 0"},
        {"\"name\": \"kv_forward\"", "\"name\": \"decode\"",
         "graph 1 is decode with AR 1, in the graph part kv_fo"},
        {"\"FullyConnected\": 15", "\"FullyConnected\": 14", "has 14 FullyConnected, in the graph part 15"},
        {"\"FullyConnected\": 15", "\"FullyJoined\": 15", "FullyJoined: unknown op"},
        {"\"spill_fill_buffer_bytes\": 4980736", "\"spill_fill_buffer_bytes\": 0",
         "$.spill_fill_buffer_bytes: is 0, but the largest spill_fill_bytes of the graphs is 4980736"},
        {"\"spill_fill_bytes\": 4980736", "\"spill_fill_bytes\": 9223372036854775808",
         "$.graphs[0].spill_fill_bytes: 9223372036854775808 is too large"},
        {"\"finalize_seconds\": 12.5", "\"finalize_seconds\": -1.5",
         "finalize_seconds: is -1.5, wanted 0 or more"},
        {"\"qnn_build_id\": \"v2.51.0.260929181845\"", "\"qnn_build_id\": null",
         "has 1 context parts, but qnn_build"},
        {"\"kind\": \"weights\"", "\"kind\": \"other\"", "has 0 parts of kind `weights`, wanted 1 to 1"},
        {"\"kind\": \"weights\"", "\"kind\": \"graph\"", "has 2 parts of kind `graph`, wanted 1 to 1"},
        {"\"kind\": \"weights\"", "\"kind\": \"music\"", "$.parts[0].kind: unknown kind `music`"},
        {"\"path\": \"", "\"path\": \"../", "$.parts[0].path: `../weights-"},
        {"\"path\": \"", "\"path\": \"/", "must be a file in the bundle's folder"},
        {"\"path\": \"", "\"path\": \"a/", "must be a file in the bundle's folder"},
        {"\"path\": \"", "\"path\": \".", "must be a file in the bundle's folder"},
        {"\"path\": \"", "\"path\": \"x", "can't read the bundle's weights part: No such file"},
        {"\"path\": \"", "\"path\": \"manifest.json\", \"p\": \"", "$.parts[0]: unknown key `p`"},
        {"\"sha256\": \"", "\"sha256\": \"0", "has 65 characters; wanted 64 digits"},
        {"\"sha256\": \"", "\"sha256\": \"G", "has 65 characters; wanted 64 digits"},
        {"\"bytes\": ", "\"bytes\": 1", "bytes, the manifest says 1"},
        {"\"bytes\": ", "\"bytes\": 9223372036854775808, \"b\": ",
         "$.parts[0].bytes: 9223372036854775808 is too large"},
        {"\"bytes\": ", "\"bytes\": -", "$.parts[0].bytes: is -"},
        {"{", "", "not valid JSON at line"},
    };
    assert_int_equal(compile("16a8w", 1), SW_OK);
    size_t size;
    sw_arena arena = SW_ARENA_EMPTY;
    char *text = get_file(SW_MANIFEST_NAME, &size, &arena);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *at = strstr(text, cases[i].find);
        if (at == NULL) fail_msg("no %s", cases[i].find);
        char *bad = sw_arena_printf(&arena, "%.*s%s%s", (int)(at - text), text, cases[i].replace,
                                    at + strlen(cases[i].find));
        put_file(SW_MANIFEST_NAME, bad, strlen(bad));
        assert_refused(cases[i].message);
    }
    for (size_t n = 0; n + 2 < size; n += 13) { /* cuts; the last byte is a newline */
        put_file(SW_MANIFEST_NAME, text, n);
        assert_refused("manifest.json: not valid JSON");
    }
    sw_arena_free(&arena);
}

static void part_entries_are_refused(void **state) {
    (void)state;
    assert_int_equal(compile("16a8w", 5), SW_OK);
    json_t *m = load_manifest(), *parts = json_object_get(m, "parts");
    /* weights, tokenizer, five contexts, graph */
    json_t *one = json_array_get(parts, 3), *two = json_array_get(parts, 4);
    json_t *path = json_incref(json_object_get(one, "path"));
    json_object_set_new(one, "path", json_string(""));
    store_manifest(m);
    assert_refused("$.parts[3]: path is empty: context part 2 of 5 is missing");
    json_object_set(one, "path", json_object_get(two, "path"));
    store_manifest(m);
    assert_refused("$.parts[4].path: two parts are named `decoder_context-");
    json_object_set(one, "path", path);
    json_object_set_new(one, "sha256",
                        json_string("123456789012345678901234567890123456789012345678901234567890123"));
    store_manifest(m);
    assert_refused("$.parts[3].sha256: `1234567890");
    assert_non_null(strstr(err.message, "has 63 characters; wanted 64 digits of 0-9 and a-f"));
    json_object_set_new(one, "sha256",
                        json_string("ABCDEF6789012345678901234567890123456789012345678901234567890123"));
    store_manifest(m);
    assert_refused("$.parts[3].sha256: `ABCDEF");
    json_array_remove(parts, 3);
    store_manifest(m);
    assert_refused("$.parts: has 4 context parts, wanted one for each of 5 shards");
    json_decref(path);
    json_decref(m);
}

static void targets_are_compared(void **state) {
    (void)state;
    sw_manifest m = make_manifest("16a8w", 1);
    static const struct {
        uint32_t soc, arch, vtcm;
        const char *library, *message;
    } cases[] = {
        {69, 79, 8, "v2.51.0.260929181845", NULL},
        {0, 0, 0, NULL, NULL},
        {69, 79, 16, "v2.52.0.261031000000", NULL}, /* newer libraries load older binaries */
        {69, 79, 8, "v2.51.1.260101000000", NULL},
        {57, 79, 8, NULL, "for SM8750 (SoC 69), this is SoC 57"},
        {69, 81, 8, NULL, "for HTP V79 (SM8750), this is V81"},
        {69, 79, 4, NULL, "for 8 MB of VTCM, the SoC has 4 MB"},
        {69, 79, 8, "v2.50.0.260929181846", "by QAIRT v2.51.0.260929181845, the library here is v2.50.0."},
        {69, 79, 8, "v2.51.0.260929181844", "which is older: compile again with it, or load with v2.51.0"},
        {69, 79, 8, "v2.9.0.1", "which is older"},
        {69, 79, 8, "2.51", "which is newer can't be told"},
        {69, 79, 8, "v2.51.x", "which is newer can't be told"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err = (sw_error){0};
        sw_code code =
            sw_manifest_check_target(&m, cases[i].soc, cases[i].arch, cases[i].vtcm, cases[i].library, &err);
        if ((code == SW_OK) != (cases[i].message == NULL) ||
            (cases[i].message != NULL && strstr(err.message, cases[i].message) == NULL))
            fail_msg("%zu: %s", i, err.message);
    }
    const char *built = m.qnn_build_id;
    assert_int_equal(sw_manifest_check_binary(&m, built, 69, 79, &err), SW_OK);
    assert_int_equal(sw_manifest_check_binary(&m, built, 0, 0, &err), SW_OK);
    assert_int_equal(sw_manifest_check_binary(&m, built, 57, 75, &err), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "says SM8750 (SoC 69, V79), the context binary SoC 57, V75"));
    assert_int_equal(sw_manifest_check_binary(&m, "v2.50", 69, 79, &err), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "built by v2.51.0.260929181845, the context binary v2.50"));
    assert_int_equal(sw_manifest_check_spill(&m, 0, "prefill_forward", 4980736, &err), SW_OK);
    assert_int_equal(sw_manifest_check_spill(&m, 0, "kv_forward", 0, &err), SW_OK);
    assert_int_equal(sw_manifest_check_spill(&m, 0, "kv_forward", 8208384, &err), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "the manifest says 0 spill-fill bytes, the context binary 8208384"));
    assert_int_equal(sw_manifest_check_spill(&m, 0, "other", 0, &err), SW_BAD_DATA);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_key_is_needed_and_typed),
        TEST(manifest_mutations_are_refused),
        TEST(part_entries_are_refused),
        TEST(targets_are_compared),
    };
    return cmocka_run_group_tests(tests, make_all, remove_all);
}
