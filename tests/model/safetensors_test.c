/* One valid file of 198 bytes, and what is wrong with it one thing at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/safetensors.h"

#define PATH "safetensors_test.safetensors"
#define A    "\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"
#define B    "\"b.weight\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]}"
#define META "\"__metadata__\":{\"format\":\"pt\"}"

static void write_file(const void *data, size_t size) {
    FILE *f = fopen(PATH, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

/* Length, header, then data_bytes bytes 0, 1, 2, ... */
static size_t build(uint8_t *out, const char *header, uint64_t length, size_t data_bytes) {
    size_t n = strlen(header);
    for (unsigned i = 0; i < 8; i++) out[i] = (uint8_t)(length >> (8 * i));
    memcpy(out + 8, header, n);
    for (size_t i = 0; i < data_bytes; i++) out[8 + n + i] = (uint8_t)i;
    return 8 + n + data_bytes;
}

static sw_code open_header(const char *header, size_t data_bytes, sw_safetensors *f, sw_error *err) {
    uint8_t *bytes = malloc(strlen(header) + data_bytes + 8);
    assert_non_null(bytes);
    write_file(bytes, build(bytes, header, strlen(header), data_bytes));
    free(bytes);
    *err = (sw_error){0};
    return sw_safetensors_open(f, PATH, err);
}

static void assert_refused(const char *header, size_t data_bytes, const char *message) {
    sw_safetensors f;
    sw_error err;
    sw_code code = open_header(header, data_bytes, &f, &err);
    if (code != SW_BAD_DATA || strstr(err.message, message) == NULL ||
        strncmp(err.message, PATH, strlen(PATH)) != 0)
        fail_msg("%.200s: wanted `%s`, is %d `%s`", header, message, code, err.message);
    assert_null(f.map.data);
}

static void the_base_file_opens(void **state) {
    (void)state;
    sw_safetensors f;
    sw_error err;
    sw_weight w;
    float row[4];
    const char *header = "{" META "," A "," B "}";
    assert_int_equal(strlen(header), 158);
    assert_int_equal(open_header(header, 32, &f, &err), SW_OK);
    assert_int_equal(f.map.size, 198);
    assert_int_equal(f.n_tensors, 2);
    const sw_st_tensor *a = sw_safetensors_find(&f, "a.weight"), *b = sw_safetensors_find(&f, "b.weight");
    assert_non_null(a);
    assert_non_null(b);
    assert_null(sw_safetensors_find(&f, "c.weight"));
    assert_int_equal(a->dtype, SW_ST_F32);
    assert_int_equal(a->rank, 2);
    assert_int_equal(a->dims[0], 2);
    assert_int_equal(a->dims[1], 3);
    assert_int_equal(a->bytes, 24);
    assert_int_equal(a->data[0], 0);
    assert_int_equal(b->data[0], 24);
    assert_int_equal(sw_safetensors_weight(&f, "b.weight", &w, &err), SW_OK);
    assert_int_equal(w.rows, 1);
    assert_int_equal(w.cols, 4);
    sw_weight_row(&w, 0, row); /* bytes 24, 25: bfloat16 0x1918, the upper half of a float */
    uint32_t bits = 0x19180000u;
    assert_memory_equal(row, &bits, 4);
    assert_int_equal(sw_safetensors_weight(&f, "c", &w, &err), SW_NOT_FOUND);
    sw_safetensors_close(&f);
}

static void lengths_are_checked(void **state) { /* S01, S02 */
    (void)state;
    static const struct {
        uint64_t length;
        const char *message;
    } cases[] = {
        {1 << 20, "the header claims 1048576 bytes; the file has 190 after the length"},
        {UINT64_MAX, "claims 18446744073709551615 bytes"},
        {1ull << 63, "claims 9223372036854775808 bytes"},
        {UINT64_MAX - 7, "claims 18446744073709551608 bytes"},
        {101ull << 20, "the limit is 100000000"},
        {191, "claims 191 bytes; the file has 190"},
        {0, "the header is empty"},
    };
    uint8_t bytes[256];
    sw_safetensors f;
    sw_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(bytes, build(bytes, "{" META "," A "," B "}", cases[i].length, 32));
        assert_int_equal(sw_safetensors_open(&f, PATH, &err), SW_BAD_DATA);
        if (strstr(err.message, cases[i].message) == NULL) fail_msg("%s", err.message);
    }
    for (size_t n = 0; n < 8; n += 7) {
        write_file(bytes, n);
        assert_int_equal(sw_safetensors_open(&f, PATH, &err), SW_BAD_DATA);
        assert_non_null(strstr(err.message, "too short for the 8-byte header length"));
    }
    assert_int_equal(sw_safetensors_open(&f, "no such file", &err), SW_NOT_FOUND);
    assert_int_equal(sw_safetensors_open(&f, "/", &err), SW_IO);
}

static void headers_must_be_objects(void **state) { /* S03 */
    (void)state;
    assert_refused("{\"a\":", 0, "not valid JSON at line 1, column 5");
    assert_refused("[]", 0, "$: is an array, wanted an object");
    assert_refused("{\"\xff\":1}", 0, "unable to decode byte 0xff");
    assert_refused("{" A "," B "}{}", 32, "end of file expected");
    assert_refused("{" A "," A "}", 24, "duplicate object key");
    size_t deep = 200000;
    char *nest = malloc(deep + 6);
    assert_non_null(nest);
    memcpy(nest, "{\"a\":", 5);
    memset(nest + 5, '[', deep);
    nest[5 + deep] = '\0';
    assert_refused(nest, 0, "maximum parsing depth reached");
    free(nest);

    uint8_t bytes[256] = {0}; /* three zero bytes inside the length */
    size_t n = build(bytes, "{" A "}", strlen("{" A "}") + 3, 0);
    memset(bytes + n, 0, 27);
    write_file(bytes, n + 27);
    sw_safetensors f;
    sw_error err;
    assert_int_equal(sw_safetensors_open(&f, PATH, &err), SW_BAD_DATA);
    assert_non_null(strstr(err.message, "end of file expected"));
}

#define A_AT(offsets) "{\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":" offsets "}," B "}"
#define B_AT(offsets) "{" A ",\"b.weight\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":" offsets "}}"

static void offsets_are_checked(void **state) { /* S05 */
    (void)state;
    assert_refused(B_AT("[24,1000000]"), 32, "$.b.weight.data_offsets: ends at 1000000, but the file has 32");
    assert_refused(B_AT("[32,24]"), 32, "$.b.weight.data_offsets: begins at 32 and ends before, at 24");
    assert_refused(A_AT("[-8,16]"), 32, "$.a.weight.data_offsets[0]: is -8, wanted 0 to");
    assert_refused(A_AT("[18446744073709551608,18446744073709551615]"), 32,
                   "$.a.weight.data_offsets[0]: 18446744073709551616 is too large");
    assert_refused(A_AT("[0]"), 32, "$.a.weight.data_offsets: wanted two integers");
    assert_refused(A_AT("[0,24,32]"), 32, "$.a.weight.data_offsets: wanted two integers");
    assert_refused(A_AT("[0.0,24.0]"), 32, "$.a.weight.data_offsets: wanted two integers");
    assert_refused(A_AT("[1e1,24]"), 32, "$.a.weight.data_offsets: wanted two integers");
    assert_refused(A_AT("{}"), 32, "$.a.weight.data_offsets: wanted two integers");
    assert_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "$.a: key `data_offsets` is missing");
    assert_refused("{\"a\":5}", 8, "$.a: is an integer, wanted an object");
}

static void tensors_fill_the_file(void **state) {
    (void)state;
    assert_refused("{" A "," B "}", 33, "has 1 more bytes than its tensors");
    assert_refused("{" A "," B "}", 96, "has 64 more bytes than its tensors");
    assert_refused(B_AT("[16,24]"), 24,
                   "`b.weight` begins at byte 16 of the data, wanted 24: tensors overlap");
    assert_refused(B_AT("[28,36]"), 36,
                   "`b.weight` begins at byte 28 of the data, wanted 24: there is a hole");
    assert_refused("{}", 1, "has 1 more bytes");
    sw_safetensors f;
    sw_error err;
    assert_int_equal(open_header("{}", 0, &f, &err), SW_OK); /* legal: no tensors */
    assert_null(sw_safetensors_find(&f, "a"));
    sw_safetensors_close(&f);
    assert_int_equal(
        open_header("{\"e\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[0,0]}," A "}", 24, &f, &err),
        SW_OK); /* legal: an empty one */
    sw_weight w;
    assert_int_equal(sw_safetensors_weight(&f, "e", &w, &err), SW_BAD_DATA);
    sw_safetensors_close(&f);
}

static void sizes_are_checked(void **state) { /* S07 */
    (void)state;
    assert_refused(B_AT("[24,31]"), 31, "$.b.weight: has 7 bytes, but BF16 [4] needs 8");
    assert_refused("{\"a.weight\":{\"dtype\":\"F32\",\"shape\":[1000,1000],\"data_offsets\":[0,24]}," B "}",
                   32, "$.a.weight: has 24 bytes, but F32 [1000,1000] needs 4000000");
    assert_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
                   "$.a: F32 [4294967296,4294967296] is not a whole number of bytes below 2^61");
    assert_refused("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1,
                   "not a whole number");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1,
                   "$.a.shape[0]: is -1");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1.5],\"data_offsets\":[0,1]}}", 1,
                   "$.a.shape[0]: is a num");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1,
                   "$.a.shape: is an integer");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
                   "$.a.shape: has 9 elements, wanted 0 to 8");
}

#define TYPE(t, offsets) "{\"a\":{" t "\"shape\":[2],\"data_offsets\":" offsets "}}"

static void types_are_checked(void **state) { /* S09 */
    (void)state;
    assert_refused(TYPE("\"dtype\":\"F33\",", "[0,8]"), 8, "$.a.dtype: unknown type `F33`; known: ");
    assert_refused(TYPE("\"dtype\":\"f32\",", "[0,8]"), 8, "$.a.dtype: unknown type `f32`");
    assert_refused(TYPE("", "[0,8]"), 8, "$.a: key `dtype` is missing");
    assert_refused(TYPE("\"dtype\":5,", "[0,8]"), 8, "$.a.dtype: is an integer, wanted text");
    /* A bad offset is found whatever the type. */
    static const char *const headers[] = {TYPE("\"dtype\":\"F33\",", "[0,99]"),
                                          TYPE("\"dtype\":\"f32\",", "[0,99]"),
                                          TYPE("", "[0,99]"),
                                          TYPE("\"dtype\":5,", "[0,99]"),
                                          TYPE("\"dtype\":\"I64\",", "[0,99]"),
                                          TYPE("\"dtype\":\"F8_E4M3\",", "[0,99]")};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        assert_refused(headers[i], 8, "$.a.data_offsets: ends at 99, but the file has 8");
    sw_safetensors f;
    sw_error err;
    sw_weight w;
    assert_int_equal(open_header(TYPE("\"dtype\":\"I64\",", "[0,16]"), 16, &f, &err), SW_OK);
    assert_int_equal(sw_safetensors_weight(&f, "a", &w, &err), SW_UNSUPPORTED);
    assert_non_null(
        strstr(err.message, "`a` is I64, which is not supported as a weight; supported: F32, F16, BF16"));
    sw_safetensors_close(&f);
    assert_int_equal(open_header(TYPE("\"dtype\":\"F8_E4M3\",", "[0,2]"), 2, &f, &err), SW_OK);
    assert_int_equal(sw_safetensors_weight(&f, "a", &w, &err), SW_UNSUPPORTED);
    sw_safetensors_close(&f);
}

static void names_and_metadata_are_checked(void **state) { /* S10 */
    (void)state;
    assert_refused("{\"__metadata__\":{\"n\":5}," A "}", 24, "$.__metadata__.n: metadata must be text");
    assert_refused("{\"__metadata__\":5," A "}", 24, "$.__metadata__: is an integer, wanted an object");
    assert_refused("{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
                   "a tensor's name is empty");
    assert_refused("{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "\\u0000");
    assert_refused("{\"a\\u001bb\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
                   "control character 0x1b at byte 1");
    char long_name[1200];
    memset(long_name, 'n', sizeof long_name);
    memcpy(long_name, "{\"", 2);
    strcpy(long_name + 1030, "\":{}}");
    assert_refused(long_name, 0, "a tensor's name has 1028 bytes, the limit is 1024");
    sw_safetensors f;
    sw_error err;
    assert_int_equal(
        open_header("{\"../../x\":{\"dtype\":\"U8\",\"shape\":[1],\"extra\":[],\"data_offsets\":[0,1]}}", 1,
                    &f, &err),
        SW_OK); /* legal: the field is ignored, the name is only a name */
    assert_non_null(sw_safetensors_find(&f, "../../x"));
    sw_safetensors_close(&f);
}

static void data_may_stand_at_any_address(void **state) { /* S11 */
    (void)state;
    sw_safetensors f;
    sw_error err;
    sw_weight w;
    float row[3], want[3];
    static const char *const headers[] = {"{" A "}", "{" A "} ", "{" A "}  ", "{" A "}   ", "  {" A "} "};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        assert_int_equal(open_header(headers[i], 24, &f, &err), SW_OK);
        assert_int_equal(sw_safetensors_weight(&f, "a.weight", &w, &err), SW_OK);
        sw_weight_row(&w, 1, row);
        uint8_t bytes[12];
        for (unsigned k = 0; k < 12; k++) bytes[k] = (uint8_t)(12 + k);
        memcpy(want, bytes, sizeof want);
        assert_memory_equal(row, want, sizeof want);
        sw_safetensors_close(&f);
    }
}

/* Every cut is refused; a flipped bit is refused or gives a file whose tensors lie inside it. */
static void cuts_and_flips_are_safe(void **state) {
    (void)state;
    uint8_t bytes[256];
    sw_safetensors f;
    sw_error err;
    size_t size = build(bytes, "{" META "," A "," B "}", 158, 32);
    for (size_t n = 0; n < size; n++) {
        write_file(bytes, n);
        assert_int_equal(sw_safetensors_open(&f, PATH, &err), SW_BAD_DATA);
    }
    for (size_t i = 0; i < 8 * (size - 32); i++) {
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
        write_file(bytes, size);
        if (sw_safetensors_open(&f, PATH, &err) == SW_OK) {
            for (size_t t = 0; t < f.n_tensors; t++) {
                assert_true(f.tensors[t].data >= f.map.data);
                assert_true(f.tensors[t].bytes <= f.map.size - (size_t)(f.tensors[t].data - f.map.data));
            }
            sw_safetensors_close(&f);
        }
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}

static int remove_file(void **state) {
    (void)state;
    unlink(PATH);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_base_file_opens),
        cmocka_unit_test(lengths_are_checked),
        cmocka_unit_test(headers_must_be_objects),
        cmocka_unit_test(offsets_are_checked),
        cmocka_unit_test(tensors_fill_the_file),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(types_are_checked),
        cmocka_unit_test(names_and_metadata_are_checked),
        cmocka_unit_test(data_may_stand_at_any_address),
        cmocka_unit_test(cuts_and_flips_are_safe),
    };
    return cmocka_run_group_tests(tests, NULL, remove_file);
}
