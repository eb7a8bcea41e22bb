/* weight_form.c: the forms of s8 matrices: names, and a row as floats. */
#include <stdio.h>
#include <string.h>

#include "base/f16.h"
#include "base/find_name.h"
#include "graph/ir.h"

static const char *const names[SW_SCALES_COUNT] = {
#define SW_SCALES_NAME(id, name) [id] = name,
    SW_SCALES(SW_SCALES_NAME)
#undef SW_SCALES_NAME
};

const char *sw_scales_name(sw_scales scales) {
    return names[scales];
}

bool sw_scales_from_name(const char *name, sw_scales *out) {
    unsigned i;
    if (!sw_find_name(names, SW_SCALES_COUNT, name, &i)) return false;
    *out = (sw_scales)i;
    return true;
}

const char *sw_weight_form_text(sw_weight_form form, char out[SW_WEIGHT_FORM_BYTES]) {
    int n = snprintf(out, SW_WEIGHT_FORM_BYTES, "%d bits, %s", form.four_bit ? 4 : 8, names[form.scales]);
    if (form.scales != SW_SCALES_ROW) snprintf(out + n, SW_WEIGHT_FORM_BYTES - (size_t)n, " %u", form.block);
    return out;
}

void sw_weight_matrix_row(const sw_tensor *t, size_t row, float *out) {
    const size_t cols = t->dims[1];
    const size_t block = t->form.scales == SW_SCALES_ROW ? cols : t->form.block, n_blocks = cols / block;
    const int8_t *q = (const int8_t *)t->data + row * cols;
    const float row_scale = t->channel_scales != NULL ? t->channel_scales[row] : t->encoding.scale;
    for (size_t b = 0; b < n_blocks; b++) {
        float scale = row_scale;
        if (t->form.scales == SW_SCALES_FLOAT_BLOCK)
            scale = sw_f16_to_f32(t->block_scales[row * n_blocks + b]);
        if (t->form.scales == SW_SCALES_BLOCKWISE) scale *= (float)t->block_steps[row * n_blocks + b];
        for (size_t i = b * block; i < (b + 1) * block; i++) out[i] = scale * (float)q[i];
    }
}
