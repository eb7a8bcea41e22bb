/* dot_s8.c: dot products of u8 rows and s8 rows in plain C, and the choice among the variants. */
#include "cpu/dot.h"

void sw_dot_u8s8_scalar(const uint8_t *x, size_t n_x, const int8_t *w, size_t n_w, size_t k, int32_t *out,
                        size_t out_stride) {
    for (size_t j = 0; j < n_w; j++)
        for (size_t i = 0; i < n_x; i++) {
            const uint8_t *xi = x + i * k;
            const int8_t *wj = w + j * k;
            int32_t sum = 0;
            for (size_t t = 0; t < k; t++) sum += xi[t] * wj[t];
            out[i * out_stride + j] = sum;
        }
}

const sw_dot_variant sw_dot_variants[] = {
#if defined(__x86_64__)
    {SW_ISA_AVX512, sw_dot_u8s8_avx512},
    {SW_ISA_AVX2, sw_dot_u8s8_avx2},
#endif
    {SW_ISA_SCALAR, sw_dot_u8s8_scalar},
};
const size_t sw_dot_variant_count = sizeof sw_dot_variants / sizeof *sw_dot_variants;

sw_dot_u8s8 *sw_dot_choose(void) {
    for (size_t i = 0; i < sw_dot_variant_count; i++)
        if (sw_cpu_has(sw_dot_variants[i].needs)) return sw_dot_variants[i].dot;
    return sw_dot_u8s8_scalar;
}
