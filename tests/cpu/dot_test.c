/* Every variant of the integer dot product that this processor can run gives the integers of exact
 * arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/cpu.h"
#include "cpu/dot.h"

/* Blocks of exactly the size in use, so that AddressSanitizer sees a read past an end. */
static void check(const sw_dot_variant *variant, size_t n_x, size_t n_w, size_t k, int extreme) {
    uint8_t *x = malloc(n_x * k);
    int8_t *w = malloc(n_w * k);
    size_t stride = n_w + 3;
    int32_t *out = malloc(n_x * stride * sizeof *out);
    assert_true(x != NULL && w != NULL && out != NULL);
    uint32_t seed = (uint32_t)(n_x * 31 + n_w * 7 + k);
    for (size_t i = 0; i < n_x * k; i++)
        x[i] = extreme ? 255 : (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
    for (size_t i = 0; i < n_w * k; i++)
        w[i] = (int8_t)(extreme ? (extreme == 1 ? -128 : 127)
                                : (int)((seed = seed * 1664525 + 1013904223) >> 24) - 128);
    memset(out, 0x5a, n_x * stride * sizeof *out);
    variant->dot(x, n_x, w, n_w, k, out, stride);
    for (size_t i = 0; i < n_x; i++)
        for (size_t j = 0; j < stride; j++) {
            int64_t want = 0x5a5a5a5a; /* beyond n_w nothing is written */
            if (j < n_w) {
                want = 0;
                for (size_t t = 0; t < k; t++) want += (int64_t)x[i * k + t] * w[j * k + t];
            }
            if (out[i * stride + j] != want)
                fail_msg("%s: %zu x %zu rows of %zu, row %zu, %zu: %d, wanted %lld",
                         sw_isa_name(variant->needs), n_x, n_w, k, i, j, out[i * stride + j],
                         (long long)want);
        }
    free(x), free(w), free(out);
}

static void every_variant_is_exact(void **state) {
    (void)state;
    static const size_t lengths[] = {1, 15, 16, 31, 33, 63, 64, 65, 127, 576, 577, 1536};
    for (size_t v = 0; v < sw_dot_variant_count; v++) {
        const sw_dot_variant *variant = &sw_dot_variants[v];
        if (!sw_cpu_has(variant->needs)) {
            printf("%s: not on this processor\n", sw_isa_name(variant->needs));
            continue;
        }
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
            for (size_t n_x = 1; n_x <= 9; n_x++)
                for (size_t n_w = 1; n_w <= 9; n_w += n_w < 5 ? 1 : 2)
                    for (int extreme = 0; extreme <= 2; extreme++)
                        check(variant, n_x, n_w, lengths[l], extreme);
    }
}

/* The longest sum that is promised: 255 * -128 * 65536 is just above -2^31. */
static void the_longest_sum_fits(void **state) {
    (void)state;
    for (size_t v = 0; v < sw_dot_variant_count; v++)
        for (int extreme = 1; extreme <= 2; extreme++)
            if (sw_cpu_has(sw_dot_variants[v].needs))
                check(&sw_dot_variants[v], 3, 5, SW_DOT_MAX_TERMS, extreme);
}

static void scalar_is_last(void **state) {
    (void)state;
    assert_true(sw_dot_variants[sw_dot_variant_count - 1].needs == SW_ISA_SCALAR);
    setenv("SPILLWAY_ISA", "scalar", 1);
    assert_true(sw_dot_choose() == sw_dot_u8s8_scalar);
    unsetenv("SPILLWAY_ISA");
}

static void a_name_that_is_none_is_refused(void **state) {
    (void)state;
    static const char *const names[] = {"AVX2", "avx", "scalar ", "best"};
    sw_error err;
    sw_device *device;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setenv("SPILLWAY_ISA", names[i], 1);
        assert_int_equal(sw_cpu_device_create(&device, NULL, &err), SW_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, names[i]));
    }
    setenv("SPILLWAY_ISA", "", 1);
    assert_int_equal(sw_cpu_device_create(&device, NULL, &err), SW_OK);
    device->ops->destroy(device);
    unsetenv("SPILLWAY_ISA");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_is_exact), cmocka_unit_test(the_longest_sum_fits),
        cmocka_unit_test(scalar_is_last), cmocka_unit_test(a_name_that_is_none_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
