/* An ExecuTorch program by hand: what is found in it, and each thing that can be wrong with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "bundle/pte.h"
#include "bundle/pte_builder.h"

static pte_file file;
static sw_arena arena;
static sw_pte pte;
static sw_error err;

static int build(void **state) {
    (void)state;
    pte_build(&file);
    assert_true(file.used <= PTE_BASE);
    return 0;
}

static int drop(void **state) {
    (void)state;
    sw_arena_free(&arena);
    return 0;
}

/* From memory of exactly that size, so that a sanitizer sees a read behind it. */
static sw_code read_bytes(size_t size) {
    uint8_t *data = malloc(size > 0 ? size : 1);
    assert_non_null(data);
    memcpy(data, file.data, size);
    err.message[0] = '\0';
    sw_code code = sw_pte_read(data, size, &arena, &pte, &err);
    free(data);
    return code;
}

static void refuse(sw_code code, const char *text) {
    sw_code is = read_bytes(PTE_SIZE);
    if (is != code || strstr(err.message, text) == NULL)
        fail_msg("wanted `%s`, is %d `%s`", text, is, err.message);
}

static void the_binary_is_found(void **state) {
    (void)state;
    assert_true(sw_pte_is(file.data, PTE_SIZE));
    assert_int_equal(read_bytes(PTE_SIZE), SW_OK);
    assert_int_equal(pte.n_methods, 2);
    assert_string_equal(pte.methods[1], "decode");
    assert_int_equal(pte.n_binaries, 1); /* which both use */
    assert_int_equal(pte.binaries[0].offset, PTE_BASE + 256);
    assert_int_equal(pte.binaries[0].bytes, PTE_BINARY);
    assert_string_equal(pte.binaries[0].methods, "prefill, decode");
    assert_int_equal(pte.program_bytes, PTE_BASE);
    assert_int_equal(pte.segment_bytes, 256 + PTE_BINARY);
}

static void without_a_header_and_segments(void **state) {
    (void)state;
    pte_put(&file, 12, 24, 4); /* a header without the segments' bytes: up to the file's end */
    assert_int_equal(read_bytes(PTE_SIZE), SW_OK);
    assert_int_equal(pte.segment_bytes, 256 + PTE_BINARY);
    memset(file.data + 8, 0, 32); /* and without one: there are no segments */
    refuse(SW_BAD_DATA, "segment 0 has 356 bytes at byte 0 of segments of 0");
}

static void inline_data(void **state) {
    (void)state;
    pte_build_at(&file, 1);
    assert_true(file.used <= PTE_BASE - 4);
    assert_int_equal(read_bytes(PTE_SIZE), SW_OK);
    assert_int_equal(pte.n_binaries, 1);
    assert_int_equal(pte.binaries[0].offset, PTE_BASE + 256);
    assert_int_equal(pte.binaries[0].bytes, PTE_BINARY);
    pte_put(&file, PTE_BASE - 4, 256 + PTE_BINARY + 1, 4);
    refuse(SW_BAD_DATA, "the delegates' data at byte 636 claim 357 entries of 1 bytes, 356 bytes are there");
}

static void every_field_is_checked(void **state) {
    (void)state;
    const struct {
        uint32_t at;
        uint64_t value;
        unsigned bytes;
        sw_code code;
        const char *says;
    } rows[] = {
        {0, UINT32_MAX, 4, SW_BAD_DATA, "the root table at byte 4294967295 is beyond the end (996)"},
        {0, PTE_BASE, 4, SW_BAD_DATA, "the root table at byte 640 is beyond the end (640)"},
        {7, '1', 1, SW_UNSUPPORTED, "its version is `ET11`, known is `ET12`"},
        {11, '1', 1, SW_UNSUPPORTED, "its extended header is `eh01`, known is `eh00`"},
        {12, 23, 4, SW_BAD_DATA, "length is 23, wanted 24 or 32"},
        {16, UINT64_MAX, 8, SW_BAD_DATA, "a program of 18446744073709551615 bytes"},
        {24, UINT64_MAX, 8, SW_BAD_DATA, "at byte 18446744073709551615, in a file of 996"},
        {32, 256 + PTE_BINARY + 1, 8, SW_BAD_DATA, "segments of 357 at byte 640, in a file of 996"},
        {file.version, 7, 4, SW_UNSUPPORTED, "its schema has the version 7, known is 0"},
        {file.program, 1u << 31, 4, SW_BAD_DATA, "the program at byte"},
        {file.program, 4096, 4, SW_BAD_DATA, "the vtable of the program is before the file"},
        {file.plans, 1u << 30, 4, SW_BAD_DATA, "the methods at byte"},
        {file.plans + 4, UINT32_MAX, 4, SW_BAD_DATA, "a method at byte"},
        {file.delegates, UINT32_MAX, 4, SW_BAD_DATA, "a method's delegates at byte"},
        {file.delegate_id, 0, 4, SW_BAD_DATA, "a delegate's name has 0 bytes"},
        {file.location, 2, 1, SW_UNSUPPORTED, "the location 2, known are 0 and 1"},
        {file.location, 0, 1, SW_BAD_DATA, "entry 0 of the delegates' data, which have 0"},
        {file.index, 9, 4, SW_BAD_DATA, "entry 9 of the segments, which have 1"},
        {pte_field(file.segment, 0), UINT64_MAX, 8, SW_BAD_DATA, "of segments of 356"},
        {pte_field(file.segment, 1), UINT64_MAX, 8, SW_BAD_DATA, "of segments of 356"},
        {pte_field(file.segment, 1), 256, 8, SW_BAD_DATA, "has 256 bytes, wanted a wrapper of 256"},
        {PTE_BASE, 0x1234abcd, 4, SW_UNSUPPORTED, "begins with 0x1234abcd, known is"},
        {PTE_BASE + 12, 0, 8, SW_BAD_DATA, "wrapper at byte 640 claims 0 bytes, 100 are there"},
        {PTE_BASE + 12, PTE_BINARY + 1, 8, SW_BAD_DATA, "claims 101 bytes, 100 are there"},
        {PTE_BASE + 12, UINT64_MAX, 8, SW_BAD_DATA, "claims 18446744073709551615 bytes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pte_put(&file, rows[i].at, rows[i].value, rows[i].bytes);
        refuse(rows[i].code, rows[i].says);
        build(NULL);
    }
}

static void other_delegates_are_named(void **state) {
    (void)state;
    for (uint32_t at = 40; at + 10 < PTE_BASE; at++)
        if (memcmp(file.data + at, "QnnBackend", 10) == 0) memcpy(file.data + at, "XnnBackend", 10);
    refuse(SW_NOT_FOUND, "it holds no QNN context binary; its delegates: XnnBackend");
}

/* Cut anywhere, and each bit of the program flipped: an answer or a sentence, never a read outside. */
static void damage_is_survived(void **state) {
    (void)state;
    for (size_t n = 0; n < PTE_SIZE; n++) {
        assert_true(read_bytes(n) != SW_OK);
        assert_true(err.message[0] != '\0');
        sw_arena_free(&arena);
    }
    for (uint32_t bit = 0; bit < 8 * PTE_BASE; bit++) {
        file.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (read_bytes(PTE_SIZE) != SW_OK) assert_true(err.message[0] != '\0');
        for (uint32_t i = 0; i < pte.n_binaries; i++)
            assert_true(pte.binaries[i].bytes <= PTE_SIZE - pte.binaries[i].offset);
        file.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        sw_arena_free(&arena);
    }
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, build, drop)
    const struct CMUnitTest tests[] = {
        TEST(the_binary_is_found),    TEST(without_a_header_and_segments), TEST(inline_data),
        TEST(every_field_is_checked), TEST(other_delegates_are_named),     TEST(damage_is_survived)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
