/* Ranges come back from their text bit for bit; what is no such text is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "quant/observe.h"
#include "quant/ranges_json.h"

static sw_error err;

static void put(sw_ranges *ranges, const char *name, float min, float max, float row) {
    assert_int_equal(sw_ranges_merge(ranges, name, (sw_range){min, max, row}, &err), SW_OK);
}

static void there_and_back(void **state) {
    (void)state;
    sw_ranges *ranges = sw_ranges_create(), *back;
    put(ranges, "layer_0.k_new", -0.1f, 3.4028234e38f, INFINITY);
    put(ranges, "layer_0.scores", -1e-45f, 1.17549435e-38f, -7.3f);
    put(ranges, "odd \"name\"", 1.0f / 3, 2.0f / 3, INFINITY);
    put(ranges, "never seen", INFINITY, -INFINITY, INFINITY);
    char *text;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_int_equal(sw_ranges_write_json(ranges, stream, &err), SW_OK);
    fclose(stream);
    if (sw_ranges_read_json(&back, "test", text, size, &err) != SW_OK) fail_msg("%s", err.message);
    assert_int_equal(sw_ranges_count(back), 3);
    for (uint32_t i = 0; i < 3; i++) {
        const char *name, *other;
        const sw_range *a = sw_ranges_at(ranges, i, &name), *b = sw_ranges_at(back, i, &other);
        assert_string_equal(name, other);
        assert_memory_equal(a, b, sizeof *a);
    }
    sw_ranges_free(ranges), sw_ranges_free(back);
    free(text);
}

static void refused(const char *text, const char *says) {
    sw_ranges *out;
    assert_int_not_equal(sw_ranges_read_json(&out, "ranges.json", text, strlen(text), &err), SW_OK);
    assert_null(out);
    if (strstr(err.message, says) == NULL) fail_msg("`%s` lacks `%s`", err.message, says);
}

static void wrong_texts(void **state) {
    (void)state;
#define HEAD "{\"format\": \"spillway-ranges\", \"version\": 1, \"ranges\": "
    refused("", "ranges.json");
    refused("{}", "format");
    refused("{\"format\": \"other\", \"version\": 1, \"ranges\": []}", "wanted `spillway-ranges`");
    refused("{\"format\": \"spillway-ranges\", \"version\": 2, \"ranges\": []}", "$.version");
    refused(HEAD "[]}", "$.ranges");
    refused(HEAD "[[\"a\", 1, 2]]}", "$.ranges[0]");
    refused(HEAD "[[\"a\", 2, 1, null]]}", "goes from 2 down to 1");
    refused(HEAD "[[\"a\", 1e300, 1e301, null]]}", "which no float holds");
    refused(HEAD "[[\"a\", \"b\", 1, null]]}", "$.ranges[0][1]");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(there_and_back), cmocka_unit_test(wrong_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
