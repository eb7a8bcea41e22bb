/* SoCs: rows that public sources state, look-up in any case, near names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "soc/soc.h"

/* ExecuTorch's backends/qualcomm/serialization/qc_schema.py. */
static void rows_are_those_of_executorch(void **state) {
    (void)state;
    static const sw_soc rows[] = {{"SM8350", 30, 68, 4},   {"SM8450", 36, 69, 8},   {"SM8475", 42, 69, 8},
                                  {"SM8550", 43, 73, 8},   {"SM8650", 57, 75, 8},   {"SM8750", 69, 79, 8},
                                  {"SM8850", 87, 81, 8},   {"SSG2115P", 46, 73, 2}, {"SA8295", 39, 68, 8},
                                  {"SXR2230P", 53, 69, 8}, {"SXR1230P", 45, 73, 2}, {"SSG2125P", 58, 73, 2},
                                  {"SAR2230P", 95, 81, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const sw_soc *soc = sw_soc_find(rows[i].name);
        assert_non_null(soc);
        assert_string_equal(soc->name, rows[i].name);
        assert_int_equal(soc->model_id, rows[i].model_id);
        assert_int_equal(soc->htp_arch, rows[i].htp_arch);
        assert_int_equal(soc->vtcm_mb, rows[i].vtcm_mb);
    }
}

static void names_are_found_in_any_case(void **state) {
    (void)state;
    assert_ptr_equal(sw_soc_find("sm8750"), sw_soc_find("SM8750"));
    assert_ptr_equal(sw_soc_find_id(69), sw_soc_find("Sm8750"));
    assert_null(sw_soc_find(""));
    assert_null(sw_soc_find("SM875"));
    assert_null(sw_soc_find("SM87500"));
    assert_null(sw_soc_find_id(0));
}

static void names_are_unique_and_rows_sane(void **state) {
    (void)state;
    for (uint32_t i = 0; i < sw_n_socs; i++) {
        assert_ptr_equal(sw_soc_find(sw_socs[i].name), &sw_socs[i]);
        assert_true(strlen(sw_socs[i].name) <= 16);
        assert_in_range(sw_socs[i].htp_arch, 68, 89);
        assert_in_range(sw_socs[i].vtcm_mb, 1, 16);
        assert_true(sw_socs[i].model_id != 0);
    }
}

static void unknown_names_get_near_ones(void **state) {
    (void)state;
    sw_error err;
    const sw_soc *soc;
    assert_int_equal(sw_soc_get("SM8751", &soc, &err), SW_INVALID_ARGUMENT);
    assert_null(soc);
    assert_non_null(strstr(err.message, "\"SM8751\""));
    assert_non_null(strstr(err.message, "SM8750")); /* one exchange away */
    assert_int_equal(sw_soc_get("qcs8450", &soc, &err), SW_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "QCS8550"));
    assert_int_equal(sw_soc_get("", &soc, &err), SW_INVALID_ARGUMENT);
    assert_int_equal(sw_soc_get("a name longer than any SoC's", &soc, &err), SW_INVALID_ARGUMENT);
    assert_int_equal(sw_soc_get("sm8650", &soc, &err), SW_OK);
    assert_string_equal(soc->name, "SM8650");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_executorch), cmocka_unit_test(names_are_found_in_any_case),
        cmocka_unit_test(names_are_unique_and_rows_sane), cmocka_unit_test(unknown_names_get_near_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
