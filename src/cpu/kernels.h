/* kernels.h: how the CPU device finds and calls the code of an op. Work is split by what it depends on: types
 * (matches), constants and shapes (prepare, once at load), data (run). */
#ifndef SW_CPU_KERNELS_H
#define SW_CPU_KERNELS_H

#include "base/threads.h"
#include "cpu/shared.h"
#include "graph/ir.h"

/* The next multiple of 64, which blocks of scratch and tiles begin at. */
static inline size_t sw_align64(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

typedef struct sw_op_call {
    const sw_op *op;
    const sw_tensor *in[SW_MAX_INPUTS], *out, *places; /* places: TopK's second output; else NULL */
    uint32_t silu_input; /* of a Multiply whose other input is the Sigmoid of one: 1 + that one; else 0 */
    /* Set at execute. Constants: tensor->data, NULL where only the view tensor->weight is there. */
    const void *in_data[SW_MAX_INPUTS];
    void *out_data;
    int32_t *places_data;
    uint32_t ar_len, n_tokens; /* of ar_len rows, one a token, the first n_tokens are asked for */
    void *prepared; /* what prepare made, in the arena, or shared and then not to be written; else NULL */
    void *scratch;  /* scratch_bytes(call) bytes, aligned to 64; contents undefined */
    sw_pool *pool;
    sw_shared *shared; /* the program's hold on what graphs have in common */
} sw_op_call;

/* Of a tensor's rows those that must be computed: with a row a token, the rows asked for. */
static inline size_t sw_rows_asked(const sw_op_call *call, size_t rows) {
    return rows == call->ar_len ? call->n_tokens : rows;
}

typedef struct sw_kernel {
    const char *name; /* op, types: "FullyConnected u16 s8" */
    sw_op_type op;
    bool (*matches)(const sw_op_call *call); /* looks at what stands above "Set at execute" only */
    /* Optional. Makes tables, multipliers, sums of weights. */
    sw_code (*prepare)(sw_op_call *call, sw_arena *arena, sw_error *err);
    size_t (*scratch_bytes)(const sw_op_call *call); /* optional */
    void (*run)(const sw_op_call *call);
} sw_kernel;

/* The tables, asked in this order; the first kernel that matches is taken. */
extern const sw_kernel sw_kernels_movement[];  /* any type: moves elements of 1, 2 or 4 bytes */
extern const sw_kernel sw_kernels_quantized[]; /* u8, u16 */
extern const sw_kernel sw_kernels_float[];     /* f32; f16 is computed in f32 and rounded */
extern const size_t sw_kernels_movement_count, sw_kernels_quantized_count, sw_kernels_float_count;

#endif
