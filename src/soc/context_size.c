/* context_size.c: the parts of a context binary. */
#include "soc/context_size.h"

sw_stored_bytes sw_constant_stored_bytes(const sw_tensor *t, sw_dtype activation) {
    sw_stored_bytes s = {.shared = sw_tensor_bytes(t)};
    if (t->role != SW_ROLE_WEIGHT || t->dtype != SW_S8) return s;
    const uint64_t rows = t->dims[0], cols = t->dims[1];
    const uint64_t channels = rows * (activation == SW_U8 ? SW_CHANNEL_BYTES_U8 : SW_CHANNEL_BYTES_WIDE);
    if (t->form.four_bit) s.shared = (s.shared + 1) / 2;
    switch (t->form.scales) {
    case SW_SCALES_BLOCKWISE: /* steps of a byte; the scales of its channels aren't shared */
        s.shared += rows * (cols / t->form.block);
        s.per_graph = channels;
        break;
    case SW_SCALES_FLOAT_BLOCK:
        s.shared += rows * (cols / t->form.block) * 2;
        break;
    default:
        s.shared += channels;
    }
    return s;
}

void sw_keep_integers_apart(const sw_tensor *t, sw_stored_bytes *bytes) {
    if (t->role != SW_ROLE_WEIGHT || t->dtype != SW_S8 || t->form.scales != SW_SCALES_ROW) return;
    uint64_t integers = sw_tensor_bytes(t);
    if (t->form.four_bit) integers = (integers + 1) / 2;
    bytes->shared -= integers;
    bytes->per_graph += integers;
}

uint64_t sw_compiled_ops_bytes(uint32_t n_ops, uint64_t constant_bytes) {
    return (uint64_t)(SW_COMPILED_OP_BYTES * n_ops + SW_COMPILED_WEIGHTS_SHARE * (double)constant_bytes);
}
