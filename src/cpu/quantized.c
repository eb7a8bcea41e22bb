/* quantized.c: the table of the quantized kernels: u8 and u16 activations, s8 weights, integer semantics of
 * Qualcomm's HTP emulator. */
#include "cpu/quantized.h"

const sw_kernel sw_kernels_quantized[] = {
    {"FullyConnected u8|u16 s8", SW_OP_FULLY_CONNECTED, sw_quantized_fully_connected_matches,
     sw_quantized_fully_connected_prepare, sw_quantized_fully_connected_scratch,
     sw_quantized_fully_connected_run},
    {"MatMul u8|u16 s8 blockwise", SW_OP_MATMUL, sw_quantized_blockwise_matches,
     sw_quantized_fully_connected_prepare, sw_quantized_fully_connected_scratch,
     sw_quantized_fully_connected_run},
    {"MatMul u8|u16 u8|u16", SW_OP_MATMUL, sw_quantized_matmul_matches, sw_quantized_matmul_prepare,
     sw_quantized_matmul_scratch, sw_quantized_matmul_run},
    {"RmsNorm u8|u16", SW_OP_RMS_NORM, sw_quantized_rms_norm_matches, sw_quantized_rms_norm_prepare, NULL,
     sw_quantized_rms_norm_run},
    {"RotaryEmbedding u8|u16", SW_OP_ROTARY_EMBEDDING, sw_quantized_rotary_matches,
     sw_quantized_rotary_prepare, NULL, sw_quantized_rotary_run},
    {"Softmax u8|u16", SW_OP_SOFTMAX, sw_quantized_softmax_matches, sw_quantized_softmax_prepare, NULL,
     sw_quantized_softmax_run},
    {"Sigmoid u8|u16", SW_OP_SIGMOID, sw_quantized_sigmoid_matches, sw_quantized_sigmoid_prepare, NULL,
     sw_quantized_sigmoid_run},
    {"ElementWiseAdd u8|u16", SW_OP_ADD, sw_quantized_binary_matches, sw_quantized_binary_prepare, NULL,
     sw_quantized_binary_run},
    {"ElementWiseMultiply u8|u16 by its Sigmoid", SW_OP_MULTIPLY, sw_quantized_silu_matches,
     sw_quantized_silu_prepare, NULL, sw_quantized_silu_run},
    {"ElementWiseMultiply u8|u16", SW_OP_MULTIPLY, sw_quantized_binary_matches, sw_quantized_binary_prepare,
     NULL, sw_quantized_binary_run},
    {"Convert u8|u16|f32", SW_OP_CONVERT, sw_quantized_convert_matches, NULL, NULL, sw_quantized_convert_run},
};
const size_t sw_kernels_quantized_count = sizeof sw_kernels_quantized / sizeof *sw_kernels_quantized;
