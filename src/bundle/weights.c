/* weights.c: the decoder's constants and the safetensors file that holds them. A constant is stored under its
 * name in its integer type, its scales a row as "<name>.scale", F32 [rows], its scales a block as
 * "<name>.block_scale" [rows, blocks]: F16, or U8 where they are steps of the row's scale. Encodings of whole
 * tensors stand in graph.json. */
#include <stdio.h>
#include <string.h>

#include "bundle/internal.h"

sw_st_dtype sw_weights_dtype(sw_dtype type) {
    static const sw_st_dtype types[SW_DTYPE_COUNT] = {
        [SW_F32] = SW_ST_F32, [SW_F16] = SW_ST_F16, [SW_U8] = SW_ST_U8,
        [SW_S8] = SW_ST_I8,   [SW_U16] = SW_ST_U16, [SW_I32] = SW_ST_I32};
    return types[type];
}

void sw_weights_scale_name(char out[SW_SCALE_NAME_BYTES], const char *name) {
    snprintf(out, SW_SCALE_NAME_BYTES, "%.*s.scale", SW_NAME_BYTES, name);
}

void sw_weights_block_scale_name(char out[SW_SCALE_NAME_BYTES], const char *name) {
    snprintf(out, SW_SCALE_NAME_BYTES, "%.*s.block_scale", SW_NAME_BYTES, name);
}

sw_st_dtype sw_weights_block_scales(const sw_tensor *t, uint32_t dims[2]) {
    dims[0] = t->dims[0], dims[1] = t->dims[1] / t->form.block;
    return t->form.scales == SW_SCALES_FLOAT_BLOCK ? SW_ST_F16 : SW_ST_U8;
}

sw_code sw_weights_find(sw_decoder *decoder, const sw_safetensors *file, const char *name, sw_st_dtype dtype,
                        uint32_t rank, const uint32_t *dims, const void **out, sw_error *err) {
    const char *path = file->map.path;
    const sw_st_tensor *t = sw_safetensors_find(file, name);
    if (t == NULL) return SW_FAIL(err, SW_BAD_DATA, "%s: has no tensor `%s`", path, name);
    if (t->dtype != dtype)
        return SW_FAIL(err, SW_BAD_DATA, "%s: `%s` is %s, the graph wants %s", path, name,
                       sw_st_dtype_name(t->dtype), sw_st_dtype_name(dtype));
    if (t->rank != rank)
        return SW_FAIL(err, SW_BAD_DATA, "%s: `%s` has %u dimensions, the graph wants %u", path, name,
                       t->rank, rank);
    for (uint32_t i = 0; i < rank; i++)
        if (t->dims[i] != dims[i])
            return SW_FAIL(err, SW_BAD_DATA, "%s: dimension %u of `%s` is %llu, the graph wants %u", path, i,
                           name, (unsigned long long)t->dims[i], dims[i]);
    *out = t->data;
    if ((uintptr_t)t->data % (sw_st_dtype_bits(dtype) / 8) == 0) return SW_OK;
    void *copy = sw_arena_alloc(&decoder->arena, (size_t)t->bytes);
    if (copy == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: `%s`: out of memory", path, name);
    memcpy(copy, t->data, (size_t)t->bytes);
    *out = copy;
    return SW_OK;
}

/* Points the tensor's block scales at the file. */
static sw_code find_block_scales(sw_decoder *decoder, const sw_safetensors *file, sw_tensor *t,
                                 sw_error *err) {
    char name[SW_SCALE_NAME_BYTES];
    uint32_t dims[2];
    const void *data = NULL;
    sw_st_dtype dtype = sw_weights_block_scales(t, dims);
    sw_weights_block_scale_name(name, t->name);
    SW_TRY(sw_weights_find(decoder, file, name, dtype, 2, dims, &data, err));
    if (t->form.scales == SW_SCALES_FLOAT_BLOCK)
        t->block_scales = data;
    else
        t->block_steps = data;
    return SW_OK;
}

static bool lies_in(const sw_safetensors *file, const void *data) {
    const uintptr_t begin = (uintptr_t)file->map.data, at = (uintptr_t)data;
    return at >= begin && at - begin < file->map.size;
}

sw_code sw_weights_attach(sw_decoder *decoder, const bool *per_channel, const sw_safetensors *file,
                          sw_error *err) {
    size_t wanted = 0;
    for (uint32_t i = 0; i < decoder->n_constants; i++) {
        sw_tensor *t = decoder->constants[i];
        const void *scales = NULL;
        SW_TRY(sw_weights_find(decoder, file, t->name, sw_weights_dtype(t->dtype), t->rank, t->dims, &t->data,
                               err));
        if (per_channel[i]) {
            char name[SW_SCALE_NAME_BYTES];
            sw_weights_scale_name(name, t->name);
            SW_TRY(sw_weights_find(decoder, file, name, SW_ST_F32, 1, t->dims, &scales, err));
        }
        t->in_file = lies_in(file, t->data);
        t->channel_scales = scales;
        wanted += per_channel[i] ? 2 : 1;
        if (t->form.scales == SW_SCALES_ROW) continue;
        SW_TRY(find_block_scales(decoder, file, t, err));
        wanted++;
    }
    if (file->n_tensors == wanted) return SW_OK;
    return SW_FAIL(err, SW_BAD_DATA, "%s: has %zu tensors, the graph wants %zu", file->map.path,
                   file->n_tensors, wanted);
}
