/* The GGUF reader on files built byte by byte: base G, every recipe, every truncation, flipped bytes, and the
 * getters. Files are opened from a heap block of their exact size, so that the sanitizer sees any read
 * beyond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "gguf_recipes.h"
#include "model/gguf.h"

/* Opens a copy of the first size bytes; the copy lives until close_copy. */
typedef struct copy {
    uint8_t *data;
    sw_gguf *gguf;
} copy;

static sw_code open_copy(copy *c, const uint8_t *data, size_t size, sw_error *err) {
    *c = (copy){.data = malloc(size > 0 ? size : 1)};
    assert_non_null(c->data);
    if (size > 0) memcpy(c->data, data, size);
    return sw_gguf_open_memory(&c->gguf, c->data, size, "case.gguf", err);
}

static void close_copy(copy *c) {
    sw_gguf_close(c->gguf);
    free(c->data);
}

static void assert_says(const char *id, const sw_error *err, const char *part) {
    if (strstr(err->message, part) == NULL) fail_msg("%s: \"%s\" lacks \"%s\"", id, err->message, part);
}

static void test_recipes(void **state) {
    (void)state;
    for (size_t i = 0; i < RECIPE_COUNT; i++) {
        const recipe *r = &recipes[i];
        bytes b;
        make_recipe(r, &b);
        copy c;
        sw_error err = {0};
        sw_code code = open_copy(&c, b.data, b.size, &err);
        if (code != r->code)
            fail_msg("%s: code %s, wanted %s: %s", r->id, sw_code_text(code), sw_code_text(r->code),
                     err.message);
        if (code != SW_OK) {
            assert_int_equal(err.code, code);
            assert_null(c.gguf);
            assert_says(r->id, &err, "case.gguf: ");
            if (strchr(err.message, '\n') != NULL) fail_msg("%s: more than one line", r->id);
            for (size_t k = 0; k < 4 && r->says[k] != NULL; k++) assert_says(r->id, &err, r->says[k]);
        }
        close_copy(&c);
        free(b.data);
    }
}

static void test_base(void **state) {
    (void)state;
    bytes b = {0};
    base_g(&b);
    assert_int_equal(b.size, 608);
    copy c;
    sw_error err = {0};
    assert_int_equal(open_copy(&c, b.data, b.size, &err), SW_OK);
    assert_string_equal(sw_gguf_path(c.gguf), "case.gguf");
    assert_int_equal(sw_gguf_n_keys(c.gguf), 4);
    assert_int_equal(sw_gguf_n_tensors(c.gguf), 2);
    assert_memory_equal(sw_gguf_key_name(c.gguf, 2).data, "tokenizer.ggml.scores", 21);

    sw_weight w;
    assert_int_equal(sw_gguf_tensor(c.gguf, "blk.0.attn_q.weight", &w, &err), SW_OK);
    assert_string_equal(w.file_name, "blk.0.attn_q.weight");
    assert_ptr_equal(w.data, c.data + 448);
    assert_int_equal(w.rows, 4);
    assert_int_equal(w.cols, 32);
    assert_int_equal(w.row_bytes, 34);
    assert_int_equal(w.storage, SW_STORE_Q8_0);
    assert_int_equal(sw_gguf_tensor(c.gguf, "token_embd.weight", &w, &err), SW_OK);
    assert_ptr_equal(w.data, c.data + 320);
    assert_int_equal(w.rows, 4);
    assert_int_equal(w.cols, 8);
    assert_ptr_equal(sw_gguf_tensor_at(c.gguf, 0)->data, w.data);
    assert_int_equal(sw_gguf_tensor(c.gguf, "token_embd.weigh", &w, &err), SW_NOT_FOUND);
    assert_says("no tensor", &err, "`token_embd.weigh`");
    close_copy(&c);
    free(b.data);
}

/* Only the 24 bytes of padding at the end may be missing. */
static void test_truncations(void **state) {
    (void)state;
    bytes b = {0};
    base_g(&b);
    for (size_t size = 0; size < b.size; size++) {
        copy c;
        sw_error err = {0};
        sw_code code = open_copy(&c, b.data, size, &err);
        if (size < 584 ? code != SW_BAD_DATA : code != SW_OK) fail_msg("%zu bytes: %s", size, err.message);
        close_copy(&c);
    }
    free(b.data);
}

/* Any one byte changed in any way: an error, or a file whose tensors lie inside it. */
static void test_flips(void **state) {
    (void)state;
    bytes b = {0};
    base_g(&b);
    static const uint8_t masks[] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff};
    sw_log_set_level(SW_LOG_ERROR);
    for (size_t at = 0; at < 320; at++) {
        for (size_t m = 0; m < sizeof masks; m++) {
            b.data[at] ^= masks[m];
            copy c;
            sw_error err = {0};
            if (open_copy(&c, b.data, b.size, &err) == SW_OK) {
                for (size_t i = 0; i < sw_gguf_n_tensors(c.gguf); i++) {
                    const sw_weight *w = sw_gguf_tensor_at(c.gguf, i);
                    assert_true(w->data + w->rows * w->row_bytes <= c.data + b.size);
                    float row[1024];
                    if (w->cols <= 1024) sw_weight_row(w, w->rows - 1, row);
                }
                sw_model model;
                sw_gguf *gguf = c.gguf;
                c.gguf = NULL; /* the model closes it: base G lacks most hyperparameters */
                assert_int_not_equal(sw_model_open_gguf(&model, gguf, &err), SW_OK);
            } else {
                assert_true(err.message[0] != '\0');
            }
            close_copy(&c);
            b.data[at] ^= masks[m];
        }
    }
    sw_log_set_level(SW_LOG_INFO);
    free(b.data);
}

/* Keys of every type; the same key asked for as every other type. */
static void test_getters(void **state) {
    (void)state;
    bytes b = {0};
    put_header(&b, 0, 13);
    static const struct {
        const char *key;
        uint32_t type;
        uint64_t bits;
        unsigned width;
    } scalars[] = {
        {"u8", 0, 200, 1},          {"i8", 1, 0x80, 1},         {"u16", 2, 65535, 2},
        {"i16", 3, 1000, 2},        {"u32", 4, 4000000000u, 4}, {"i32", 5, 7, 4},
        {"f32", 6, 0x3fc00000, 4},  {"bool", 7, 1, 1},          {"bad_bool", 7, 2, 1},
        {"u64", 10, UINT64_MAX, 8}, {"i64", 11, UINT64_MAX, 8},
    };
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
        put_string(&b, scalars[i].key);
        put_le(&b, scalars[i].type, 4);
        put_le(&b, scalars[i].bits, scalars[i].width);
    }
    put_string(&b, "strings");
    put_le(&b, 9, 4), put_le(&b, 8, 4), put_le(&b, 3, 8);
    put_string(&b, "a"), put_string(&b, ""), put_string_n(&b, "\0z", 2);
    put_string(&b, "i32s");
    put_le(&b, 9, 4), put_le(&b, 5, 4), put_le(&b, 2, 8);
    put_le(&b, 0xfffffffe, 4), put_le(&b, 5, 4);

    copy c;
    sw_error err = {0};
    if (open_copy(&c, b.data, b.size, &err) != SW_OK) fail_msg("%s", err.message);
    const sw_gguf *g = c.gguf;
    static const struct {
        const char *key;
        uint64_t value;
    } wanted[] = {{"u8", 200},          {"u16", 65535}, {"i16", 1000},
                  {"u32", 4000000000u}, {"i32", 7},     {"u64", UINT64_MAX}};
    uint64_t u;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        assert_int_equal(sw_gguf_get_u64(g, wanted[i].key, &u, &err), SW_OK);
        assert_true(u == wanted[i].value);
    }
    assert_int_equal(sw_gguf_get_u64(g, "i8", &u, &err), SW_BAD_DATA);
    assert_says("i8", &err, "is -128, wanted 0 or more");
    assert_int_equal(sw_gguf_get_u64(g, "i64", &u, &err), SW_BAD_DATA);
    assert_says("i64", &err, "is -1,");
    assert_int_equal(sw_gguf_get_u64(g, "f32", &u, &err), SW_BAD_DATA);
    assert_says("f32", &err, "key `f32` is of type f32, wanted an integer");
    assert_int_equal(sw_gguf_get_u64(g, "strings", &u, &err), SW_BAD_DATA);
    assert_says("strings", &err, "array of string");
    assert_int_equal(sw_gguf_get_u64(g, "none", &u, &err), SW_NOT_FOUND);
    assert_says("none", &err, "case.gguf: has no key `none`");

    float f;
    assert_int_equal(sw_gguf_get_f32(g, "f32", &f, &err), SW_OK);
    assert_true(f == 1.5f);
    assert_int_equal(sw_gguf_get_f32(g, "u32", &f, &err), SW_BAD_DATA);
    bool flag = false;
    assert_int_equal(sw_gguf_get_bool(g, "bool", &flag, &err), SW_OK);
    assert_true(flag);
    assert_int_equal(sw_gguf_get_bool(g, "bad_bool", &flag, &err), SW_BAD_DATA);
    assert_says("bad_bool", &err, "wanted 0 or 1");
    sw_span text;
    assert_int_equal(sw_gguf_get_string(g, "strings", &text, &err), SW_BAD_DATA);

    sw_arena arena = SW_ARENA_EMPTY;
    sw_span *strings;
    int32_t *i32s;
    size_t n;
    assert_int_equal(sw_gguf_get_strings(g, "strings", &arena, &strings, &n, &err), SW_OK);
    assert_int_equal(n, 3);
    assert_int_equal(strings[0].size, 1);
    assert_int_equal(strings[1].size, 0);
    assert_int_equal(strings[2].size, 2);
    assert_memory_equal(strings[2].data, "\0z", 2);
    assert_int_equal(sw_gguf_get_i32s(g, "i32s", &arena, &i32s, &n, &err), SW_OK);
    assert_int_equal(n, 2);
    assert_int_equal(i32s[0], -2);
    assert_int_equal(i32s[1], 5);
    assert_int_equal(sw_gguf_get_i32s(g, "strings", &arena, &i32s, &n, &err), SW_BAD_DATA);
    assert_says("strings as i32s", &err, "wanted array of i32");
    uint64_t count;
    assert_true(sw_gguf_is_array(g, "strings", &count));
    assert_int_equal(count, 3);
    assert_false(sw_gguf_is_array(g, "u8", NULL));
    assert_false(sw_gguf_is_array(g, "none", NULL));
    assert_true(sw_gguf_has(g, "bad_bool"));
    assert_false(sw_gguf_has(g, ""));
    sw_arena_free(&arena);
    close_copy(&c);
    free(b.data);
}

/* 100,000 keys and tensors, the last two equal: both places named, in far less than a second. */
static void test_many_names(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    for (int tensors = 0; tensors < 2; tensors++) {
        bytes b = {0};
        put_header(&b, tensors ? COUNT : 0, tensors ? 0 : COUNT);
        size_t first = 0, second = 0;
        for (unsigned i = 0; i < COUNT; i++) {
            char name[16];
            int n = snprintf(name, sizeof name, "n%06u", i == COUNT - 1 ? 4711 : i);
            if (i == 4711) first = b.size;
            if (i == COUNT - 1) second = b.size;
            if (tensors)
                put_tensor_info(&b, name, (size_t)n, 1, 1, 0, 0);
            else
                put_string(&b, name), put_le(&b, 7, 4), put_le(&b, 0, 1);
        }
        put_zeros(&b, 64);
        copy c;
        sw_error err = {0};
        uint64_t start = sw_now_us();
        assert_int_equal(open_copy(&c, b.data, b.size, &err), SW_BAD_DATA);
        assert_true(sw_now_us() - start < 1000000);
        char places[64];
        snprintf(places, sizeof places, "byte %zu: duplicate %s", second, tensors ? "tensor" : "key");
        assert_says("many", &err, places);
        snprintf(places, sizeof places, "already at byte %zu", first);
        assert_says("many", &err, places);
        close_copy(&c);
        free(b.data);
    }
}

/* Bytes behind the last tensor: accepted, and their number said. */
static void test_extra_bytes_are_said(void **state) {
    (void)state;
    bytes b = {0};
    make_extra_bytes(&b);
    char said[256] = "";
    FILE *file = tmpfile();
    assert_non_null(file);
    int saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    copy c;
    sw_code code = open_copy(&c, b.data, b.size, NULL);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    assert_non_null(fgets(said, sizeof said, file));
    fclose(file);
    assert_int_equal(code, SW_OK);
    assert_string_equal(said, "warning: case.gguf: 64 extra bytes behind the last tensor are ignored\n");
    close_copy(&c);
    free(b.data);
}

/* Through a path: as from memory, plus the errors of files. */
static void test_files(void **state) {
    (void)state;
    char path[] = "/tmp/gguf_test_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    bytes b = {0};
    base_g(&b);
    sw_gguf *g;
    sw_error err = {0};
    assert_int_equal(sw_gguf_open(&g, path, &err), SW_BAD_DATA);
    assert_says("empty file", &err, "is empty");
    assert_int_equal(write(fd, b.data, b.size), (ssize_t)b.size);
    assert_int_equal(sw_gguf_open(&g, path, &err), SW_OK);
    assert_string_equal(sw_gguf_path(g), path);
    sw_weight w;
    assert_int_equal(sw_gguf_tensor(g, "token_embd.weight", &w, &err), SW_OK);
    sw_weight_drop_pages(&w);
    assert_memory_equal(w.data, b.data + 320, 128);
    sw_gguf_close(g);
    close(fd);
    unlink(path);
    assert_int_equal(sw_gguf_open(&g, path, &err), SW_NOT_FOUND);
    assert_null(g);
    assert_int_equal(sw_gguf_open(&g, "/tmp", &err), SW_IO);
    assert_says("folder", &err, "/tmp: is a folder");
    assert_int_equal(sw_gguf_open(&g, "/dev/null", &err), SW_IO);
    sw_gguf_close(NULL);
    free(b.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recipes),
        cmocka_unit_test(test_base),
        cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_flips),
        cmocka_unit_test(test_getters),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_extra_bytes_are_said),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
