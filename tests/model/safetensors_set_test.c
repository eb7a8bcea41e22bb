/* A checkpoint in two shards, and an index that is wrong one line at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/safetensors_set.h"

static char folder[] = "safetensors_set_test_XXXXXX";
static sw_error err;

static void put_file(const char *name, const void *data, size_t size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

/* A file with one F32 vector of two, both `value`. */
static void put_shard(const char *file, const char *tensor, float value) {
    char bytes[256];
    float data[2] = {value, value};
    int n = snprintf(bytes + 8, sizeof bytes - 8,
                     "{\"%s\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", tensor);
    uint64_t length = (uint64_t)n;
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8 + n, data, sizeof data);
    put_file(file, bytes, 8 + (size_t)n + sizeof data);
}

static sw_code open_index(const char *index, sw_safetensors_set *set) {
    put_file("model.safetensors.index.json", index, strlen(index));
    return sw_safetensors_set_open(set, folder, &err);
}

static void shards_are_found(void **state) {
    (void)state;
    sw_safetensors_set set;
    sw_weight w;
    float row[2];
    put_shard("one.safetensors", "a", 1.5f);
    put_shard("two.safetensors", "b", 2.5f);
    assert_int_equal(open_index("{\"metadata\":{\"total_size\":16},\"weight_map\":{\"a\":\"one.safetensors\","
                                "\"b\":\"two.safetensors\"}}",
                                &set),
                     SW_OK);
    assert_int_equal(set.n_files, 2);
    assert_int_equal(sw_safetensors_set_weight(&set, "b", &w, &err), SW_OK);
    sw_weight_row(&w, 0, row);
    assert_true(row[0] == 2.5f && row[1] == 2.5f);
    assert_int_equal(sw_safetensors_set_weight(&set, "c", &w, &err), SW_NOT_FOUND);
    assert_non_null(strstr(err.message, "none of the 2 shards has a tensor `c`"));
    sw_safetensors_set_close(&set);
    assert_int_equal(
        open_index("{\"metadata\":{\"total_size\":17},\"weight_map\":{\"a\":\"one.safetensors\"}}", &set),
        SW_OK); /* a warning */
    sw_safetensors_set_close(&set);
}

static void a_single_file_needs_no_index(void **state) {
    (void)state;
    sw_safetensors_set set;
    sw_weight w;
    assert_int_equal(sw_safetensors_set_open(&set, folder, &err), SW_NOT_FOUND);
    assert_non_null(strstr(err.message, "model.safetensors"));
    put_shard("model.safetensors", "a", 1.0f);
    assert_int_equal(sw_safetensors_set_open(&set, folder, &err), SW_OK);
    assert_int_equal(sw_safetensors_set_weight(&set, "a", &w, &err), SW_OK);
    assert_int_equal(sw_safetensors_set_weight(&set, "b", &w, &err), SW_NOT_FOUND);
    sw_safetensors_set_close(&set);
}

static void wrong_indexes_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *map, *message;
    } cases[] = {
        {"\"a\":\"one.safetensors\",\"b\":\"gone.safetensors\"", "shard of `b`: "},
        {"\"a\":\"one.safetensors\",\"b\":\"one.safetensors\"",
         "$.weight_map.b: shard one.safetensors has no such"},
        {"\"a\":\"one.safetensors\",\"b\":\"two.safetensors\",\"a\":\"two.safetensors\"",
         "duplicate object key"},
        {"\"a\":\"one.safetensors\",\"b\":\"both.safetensors\"",
         "$.weight_map.a: is in two shards, one.safetensors and"},
        {"\"a\":\"../one.safetensors\"",
         "$.weight_map.a: `../one.safetensors` must be the name of a file in the same"},
        {"\"a\":\"/etc/passwd\"", "must be the name of a file in the same folder"},
        {"\"a\":\"..\"", "must be the name of a file in the same folder"},
        {"\"a\":\"\"", "$.weight_map.a: is empty"},
        {"\"a\":5", "$.weight_map.a: is an integer, wanted text"},
        {"", "$.weight_map: lists no tensor"},
    };
    put_shard("one.safetensors", "a", 1);
    put_shard("two.safetensors", "b", 2);
    static const char both[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                               "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    char bytes[256];
    uint64_t length = sizeof both - 1;
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, both, length + 1);
    put_file("both.safetensors", bytes, 8 + length + 2);
    sw_safetensors_set set;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char index[512];
        snprintf(index, sizeof index, "{\"metadata\":{\"total_size\":16},\"weight_map\":{%s}}", cases[i].map);
        if (open_index(index, &set) == SW_OK || strstr(err.message, cases[i].message) == NULL ||
            strstr(err.message, "model.safetensors.index.json") == NULL)
            fail_msg("%s: wanted `%s`, is `%s`", cases[i].map, cases[i].message, err.message);
        assert_null(set.files);
    }
    assert_int_equal(open_index("{\"weight_map\":{\"a\":\"both.safetensors\"}}", &set), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "both.safetensors: has `b`, which the index doesn't list"));
    assert_int_equal(open_index("[]", &set), SW_BAD_DATA);
    assert_int_equal(open_index("{\"weight_map\":[]}", &set), SW_BAD_DATA);
    assert_int_equal(
        open_index("{\"metadata\":{\"total_size\":\"16\"},\"weight_map\":{\"a\":\"one.safetensors\"}}", &set),
        SW_BAD_DATA);
    assert_non_null(strstr(err.message, "$.metadata.total_size: is text, wanted an integer"));
}

static int clean_folder(void **state) {
    (void)state;
    static const char *const names[] = {"one.safetensors", "two.safetensors", "both.safetensors",
                                        "model.safetensors", "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    return 0;
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(shards_are_found, clean_folder),
        cmocka_unit_test_teardown(a_single_file_needs_no_index, clean_folder),
        cmocka_unit_test_teardown(wrong_indexes_are_refused, clean_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
