/* check_values.c: no NaN and no infinity among a weight's stored floats. One such scale would spread through
 * every calibration and every logit, so it is named where it stands. Only exponents are looked at: all ones
 * means NaN or infinity, in f32, f16 and bf16 alike. Stretches without one (all, as a rule) are scanned
 * without a branch. */
#include <inttypes.h>

#include "base/f16.h"
#include "model/model.h"

typedef struct floats { /* where they stand in a block */
    uint32_t count;     /* at the block's beginning */
    uint32_t bytes;     /* of each: 2 or 4 */
    uint32_t exponent;  /* mask of its bits */
} floats;

static const floats floats_of[SW_STORE_COUNT] = {
    [SW_STORE_F32] = {1, 4, 0x7f800000}, [SW_STORE_F16] = {1, 2, 0x7c00},  [SW_STORE_BF16] = {1, 2, 0x7f80},
    [SW_STORE_Q4_0] = {1, 2, 0x7c00},    [SW_STORE_Q4_1] = {2, 2, 0x7c00}, [SW_STORE_Q5_0] = {1, 2, 0x7c00},
    [SW_STORE_Q5_1] = {2, 2, 0x7c00},    [SW_STORE_Q8_0] = {1, 2, 0x7c00},
};

static uint32_t load(const uint8_t *p, uint32_t bytes) {
    uint32_t low = (uint32_t)p[0] | (uint32_t)p[1] << 8;
    return bytes == 2 ? low : low | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* True where one of count floats, stride bytes apart, is not finite. Inlined with constant bytes and stride.
 */
static inline bool any_bad(const uint8_t *p, uint64_t count, uint32_t stride, uint32_t bytes,
                           uint32_t exponent) {
    uint32_t bad = 0;
    for (uint64_t i = 0; i < count; i++) bad |= (load(p + i * stride, bytes) & exponent) == exponent;
    return bad != 0;
}

static bool any_bad_in(const uint8_t *p, uint64_t blocks, const floats *f, uint32_t stride) {
    if (f->bytes == 4) return any_bad(p, blocks, 4, 4, 0x7f800000);
    if (stride == 2) return any_bad(p, blocks, 2, 2, f->exponent);
    bool bad = any_bad(p, blocks, stride, 2, 0x7c00);
    return f->count == 2 ? bad | any_bad(p + 2, blocks, stride, 2, 0x7c00) : bad;
}

static sw_code name_bad(const sw_weight *w, const floats *f, uint64_t block, sw_error *err) {
    const sw_storage_info *info = &sw_storage_infos[w->storage];
    const uint8_t *p = w->data + block * info->block_bytes;
    for (uint32_t i = 0; i < f->count; i++, p += f->bytes) {
        uint32_t bits = load(p, f->bytes);
        if ((bits & f->exponent) != f->exponent) continue;
        const char *what =
            (bits & (f->exponent ^ (f->bytes == 4 ? 0x7fffffffu : 0x7fffu))) != 0 ? "NaN" : "infinite";
        if (info->block_values == 1)
            return SW_FAIL(err, SW_BAD_DATA,
                           "tensor `%s` (%s): the value in row %" PRIu64 ", column %" PRIu64
                           " is %s, wanted a finite one",
                           w->file_name, info->name, block / w->cols, block % w->cols, what);
        return SW_FAIL(err, SW_BAD_DATA,
                       "tensor `%s` (%s): block %" PRIu64 " (row %" PRIu64
                       "): its %s is %s, wanted a finite one",
                       w->file_name, info->name, block, block / (w->cols / info->block_values),
                       i == 0 ? "scale" : "minimum", what);
    }
    return SW_FAIL(err, SW_INTERNAL, "tensor `%s`: block %" PRIu64 " has no bad value", w->file_name, block);
}

sw_code sw_weight_check_values(const sw_weight *w, sw_error *err) {
    enum { STRETCH = 4096 };
    const floats *f = &floats_of[w->storage];
    uint32_t stride = sw_storage_infos[w->storage].block_bytes;
    uint64_t blocks = w->rows * (w->row_bytes / stride);
    for (uint64_t begin = 0; begin < blocks; begin += STRETCH) {
        uint64_t n = blocks - begin < STRETCH ? blocks - begin : STRETCH;
        if (!any_bad_in(w->data + begin * stride, n, f, stride)) continue;
        for (uint64_t b = begin; b < begin + n; b++)
            if (any_bad_in(w->data + b * stride, 1, f, stride)) return name_bad(w, f, b, err);
    }
    return SW_OK;
}
