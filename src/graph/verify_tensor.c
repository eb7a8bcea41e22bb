/* verify_tensor.c: what a tensor must be by itself, whatever op reads it. */
#include <math.h>

#include "graph/verify_parts.h"

static sw_code check_form(const sw_graph *graph, const sw_tensor *t, sw_error *err) {
    const sw_weight_form *f = &t->form;
    char text[SW_WEIGHT_FORM_BYTES];
    if ((unsigned)f->scales >= SW_SCALES_COUNT)
        return SW_FAIL(err, SW_BAD_DATA, "%s: `%s`: no such form of weights", graph->name, t->name);
    bool blocks = f->scales != SW_SCALES_ROW, size = f->block == 16 || f->block == 32 || f->block == 64;
    if (!blocks && !f->four_bit && f->block == 0) return SW_OK;
    if (t->dtype != SW_S8 || t->rank != 2)
        return SW_FAIL(err, SW_BAD_DATA, "%s: `%s`: %s of rank %u can't have the form %s, an s8 matrix can",
                       graph->name, t->name, sw_dtype_name(t->dtype), t->rank, sw_weight_form_text(*f, text));
    if (blocks ? !size || t->dims[1] % f->block != 0 : f->block != 0)
        return SW_FAIL(
            err, SW_BAD_DATA,
            "%s: `%s`: rows of %u in blocks of %u, wanted blocks of 16, 32 or 64 that divide a row",
            graph->name, t->name, t->dims[1], f->block);
    return SW_OK;
}

/* The scales that a form needs are there and legal; none of them where the data isn't there yet. */
static sw_code check_scales(const sw_graph *graph, const sw_tensor *t, sw_error *err) {
    bool blocks = t->form.scales != SW_SCALES_ROW, floats = t->form.scales == SW_SCALES_FLOAT_BLOCK;
    size_t n = blocks ? (size_t)t->dims[0] * (t->dims[1] / t->form.block) : 0;
    if (t->data != NULL && ((!floats && t->channel_scales == NULL) || (floats && t->block_scales == NULL) ||
                            (blocks && !floats && t->block_steps == NULL)))
        return SW_FAIL(err, SW_BAD_DATA, "%s: `%s`: has data, but not its scales", graph->name, t->name);
    for (uint32_t i = 0; t->channel_scales != NULL && i < t->dims[0]; i++)
        if (!(t->channel_scales[i] > 0) || !isfinite(t->channel_scales[i]))
            return SW_FAIL(err, SW_BAD_DATA, "%s: `%s`: scale of row %u is %g, wanted finite and above 0",
                           graph->name, t->name, i, (double)t->channel_scales[i]);
    for (size_t i = 0; floats && t->block_scales != NULL && i < n; i++)
        if ((t->block_scales[i] & 0x7c00) == 0x7c00)
            return SW_FAIL(err, SW_BAD_DATA, "%s: `%s`: scale of block %zu is no finite number", graph->name,
                           t->name, i);
    for (size_t i = 0; blocks && t->block_steps != NULL && i < n; i++)
        if (t->block_steps[i] < 1 || t->block_steps[i] > 16)
            return SW_FAIL(err, SW_BAD_DATA, "%s: `%s`: step of block %zu is %u, wanted 1 to 16", graph->name,
                           t->name, i, t->block_steps[i]);
    return SW_OK;
}

sw_code sw_verify_tensor(const sw_graph *graph, const sw_tensor *t, sw_error *err) {
    if (t->rank < 1 || t->rank > SW_MAX_RANK)
        return SW_FAIL(err, SW_BAD_DATA, "%s: `%s`: rank %u, wanted 1 to %d", graph->name, t->name, t->rank,
                       SW_MAX_RANK);
    uint64_t elements = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        elements *= t->dims[i]; /* each factor is below 2^32 and the product is checked at every step */
        if (elements == 0 || elements > UINT32_MAX)
            return SW_FAIL(err, SW_BAD_DATA,
                           "%s: `%s`: dimension %u is %u, a tensor has 1 to 2^32 - 1 elements", graph->name,
                           t->name, i, t->dims[i]);
    }
    bool matrix = t->kind == SW_TENSOR_CONSTANT && t->role == SW_ROLE_WEIGHT;
    if (!sw_dtype_quantized(t->dtype)) return SW_OK;
    if (matrix || t->channel_scales != NULL) {
        SW_TRY(check_form(graph, t, err));
        if (t->data == NULL || t->channel_scales != NULL || t->form.scales != SW_SCALES_ROW)
            return check_scales(graph, t, err);
    }
    if (t->kind == SW_TENSOR_CONSTANT && t->data == NULL) return SW_OK; /* its encoding comes with its data */
    if (!(t->encoding.scale > 0) || !isfinite(t->encoding.scale))
        return SW_FAIL(err, SW_BAD_DATA, "%s: `%s`: scale %g, wanted finite and above 0", graph->name,
                       t->name, (double)t->encoding.scale);
    if (-(int64_t)t->encoding.offset < sw_dtype_min(t->dtype) ||
        -(int64_t)t->encoding.offset > sw_dtype_max(t->dtype))
        return SW_FAIL(err, SW_BAD_DATA, "%s: `%s`: offset %d, wanted %d to %d for %s", graph->name, t->name,
                       t->encoding.offset, -sw_dtype_max(t->dtype), -sw_dtype_min(t->dtype),
                       sw_dtype_name(t->dtype));
    return SW_OK;
}
