/* ir.h: the graph: tensors, ops, encodings. Plain data in an arena; ops stand in the order of execution.
 *
 * A float graph has activations of type f32 and constants that are views of the checkpoint. The quantized
 * graph is the same list of ops with integer types, encodings, integer constants and, where widths meet,
 * Converts. */
#ifndef SW_GRAPH_IR_H
#define SW_GRAPH_IR_H

#include "base/arena.h"
#include "model/model.h"

enum { SW_MAX_RANK = 4, SW_MAX_INPUTS = 16, SW_MAX_OUTPUTS = 2 };

/* Types: enumerator, name, bytes, quantized? The quantized ones carry an encoding. */
#define SW_DTYPES(X)                                                                                         \
    X(SW_F32, "f32", 4, false)                                                                               \
    X(SW_F16, "f16", 2, false)                                                                               \
    X(SW_U8, "u8", 1, true)                                                                                  \
    X(SW_S8, "s8", 1, true)                                                                                  \
    X(SW_U16, "u16", 2, true)                                                                                \
    X(SW_I32, "i32", 4, false)

typedef enum sw_dtype {
#define SW_DTYPE_ENUM(id, name, bytes, quantized) id,
    SW_DTYPES(SW_DTYPE_ENUM)
#undef SW_DTYPE_ENUM
        SW_DTYPE_COUNT
} sw_dtype;

const char *sw_dtype_name(sw_dtype type);
size_t sw_dtype_bytes(sw_dtype type);
bool sw_dtype_quantized(sw_dtype type);
bool sw_dtype_from_name(const char *name, sw_dtype *out);
/* Least and greatest integer of a quantized type. */
int32_t sw_dtype_min(sw_dtype type);
int32_t sw_dtype_max(sw_dtype type);

/* QNN's sign: real = scale * (q + offset). */
typedef struct sw_encoding {
    float scale;
    int32_t offset;
} sw_encoding;

/* How the integers q of an s8 matrix [rows, cols] become real values: enumerator, name. */
#define SW_SCALES(X)                                                                                         \
    X(SW_SCALES_ROW, "row")                 /* q * channel_scales[row] */                                    \
    X(SW_SCALES_FLOAT_BLOCK, "float_block") /* q * block_scales[row][col / block] */                         \
    X(SW_SCALES_BLOCKWISE, "blockwise")     /* q * block_steps[row][col / block] * channel_scales[row] */

typedef enum sw_scales {
#define SW_SCALES_ENUM(id, name) id,
    SW_SCALES(SW_SCALES_ENUM)
#undef SW_SCALES_ENUM
        SW_SCALES_COUNT
} sw_scales;

const char *sw_scales_name(sw_scales scales);
bool sw_scales_from_name(const char *name, sw_scales *out);

typedef struct sw_weight_form {
    sw_scales scales;
    bool four_bit;  /* every q lies in -8..7, and has 4 bits in a context binary; else 8 */
    uint32_t block; /* values of a row that share a block scale: 16, 32 or 64; 0 for SW_SCALES_ROW */
} sw_weight_form;

/* "4 bits, float_block 32" */
enum { SW_WEIGHT_FORM_BYTES = 48 };
const char *sw_weight_form_text(sw_weight_form form, char out[SW_WEIGHT_FORM_BYTES]);

typedef enum sw_tensor_kind {
    SW_TENSOR_INPUT,    /* filled by the host */
    SW_TENSOR_OUTPUT,   /* read by the host */
    SW_TENSOR_NATIVE,   /* between ops */
    SW_TENSOR_CONSTANT, /* weights: one sw_tensor object, shared by the graphs that use it */
    SW_TENSOR_KIND_COUNT
} sw_tensor_kind;

/* What a tensor is for; a recipe gives each role a type. */
typedef enum sw_role {
    SW_ROLE_ACTIVATION,
    SW_ROLE_KV,     /* K and V: cache inputs, new entries, and what is made of them for attention */
    SW_ROLE_INDEX,  /* i32 in every recipe */
    SW_ROLE_WEIGHT, /* matrix of a linear layer, [out, in] */
    SW_ROLE_GAMMA,  /* vector of a norm */
    SW_ROLE_COUNT
} sw_role;

const char *sw_tensor_kind_name(sw_tensor_kind kind);
const char *sw_role_name(sw_role role);
bool sw_tensor_kind_from_name(const char *name, sw_tensor_kind *out);
bool sw_role_from_name(const char *name, sw_role *out);

typedef struct sw_tensor {
    const char *name; /* unique in its graph */
    const char
        *range; /* whose calibrated range it has: its own name, or that of the tensor it is a piece of */
    sw_tensor_kind kind;
    sw_role role;
    sw_dtype dtype;
    uint32_t rank, dims[SW_MAX_RANK];
    sw_encoding encoding; /* quantized types without channel_scales */
    /* Constants only: */
    sw_weight_form form;          /* of s8 matrices; their scales, as the form says, or NULL: */
    const float *channel_scales;  /* [dims[0]] > 0 */
    const uint16_t *block_scales; /* [dims[0]][dims[1] / block] f16, of either sign */
    const uint8_t *block_steps;   /* [dims[0]][dims[1] / block] 1..16 */
    const void *data;             /* dense row-major values of dtype; NULL while only `weight` is there */
    bool in_file;            /* data lies in a file that is mapped for reading: its pages can be dropped */
    const sw_weight *weight; /* the checkpoint's view, read as f32 where data is NULL */
} sw_tensor;

uint64_t sw_tensor_elements(const sw_tensor *t);
uint64_t sw_tensor_bytes(const sw_tensor *t); /* dense */

/* Rows [begin, end) of a constant matrix as one of its own, under the same name; borrows data, scales and
 * name. `view` is where its view lies, if the matrix has one; of a view with interleaved rows there are no
 * parts. */
void sw_constant_rows(const sw_tensor *t, uint32_t begin, uint32_t end, sw_tensor *out, sw_weight *view);

/* Row r of an s8 matrix with data and scales, as cols floats. Products are rounded to float one by one. */
void sw_weight_matrix_row(const sw_tensor *t, size_t row, float *out);

typedef enum sw_op_type {
#define SW_OP(id, qnn_name, least, most, outputs, movement) id,
#include "graph/ops.inc"
#undef SW_OP
    SW_OP_COUNT
} sw_op_type;

typedef struct sw_op_info {
    const char *name; /* QNN's */
    uint32_t least_inputs, most_inputs, n_outputs;
    bool movement;
} sw_op_info;

const sw_op_info *sw_op_get_info(sw_op_type type);
bool sw_op_from_name(const char *name, sw_op_type *out);

typedef struct sw_op {
    sw_op_type type;
    const char *name; /* unique in its graph */
    uint32_t n_inputs, n_outputs;
    uint32_t inputs[SW_MAX_INPUTS], outputs[SW_MAX_OUTPUTS]; /* indices into the graph's tensors */
    struct {
        uint32_t begin, end; /* end 0: all */
    } channels; /* of FullyConnected, and MatMul with a constant: which rows of the constant it takes */
    union {     /* by type; others have no parameters */
        struct {
            float epsilon;
        } rms_norm;
        struct {
            bool transpose_in1;
        } matmul;
        struct {
            float beta;
        } softmax;
        struct {
            uint32_t perm[SW_MAX_RANK];
        } transpose;
        struct {
            uint32_t axis;
        } concat;
        struct {
            uint32_t begin[SW_MAX_RANK], end[SW_MAX_RANK]; /* stride 1 */
        } strided_slice;
    } params;
} sw_op;

/* Where multiply is x * Sigmoid(x) with that Sigmoid: 1 + the place of x among its inputs; else 0. The HTP's
 * compiler makes one op of the two, whoever else reads the Sigmoid. */
uint32_t sw_op_silu_input(const sw_op *multiply, const sw_op *sigmoid);

typedef struct sw_graph {
    const char *name; /* "prefill_forward", "kv_forward" */
    uint32_t ar_len, context_len;
    uint32_t shard, begin_layer, end_layer; /* of a decoder: which part of it, with layers [begin, end) */
    sw_arena *arena;                        /* borrowed: where tensors and ops live */
    sw_tensor **tensors;
    sw_op *ops;
    uint32_t n_tensors, n_ops, tensor_capacity, op_capacity;
    uint32_t *inputs, *outputs; /* tensor indices in the order of the border; filled by sw_graph_seal */
    uint32_t n_inputs, n_outputs;
} sw_graph;

/* An empty graph in the arena; NULL without memory. */
sw_graph *sw_graph_create(sw_arena *arena, const char *name, uint32_t ar_len, uint32_t context_len);

/* Adds a tensor object (borrowed) and returns its index, or UINT32_MAX without memory. */
uint32_t sw_graph_add_tensor(sw_graph *graph, sw_tensor *tensor);

/* Appends a copy of op; false without memory. */
bool sw_graph_add_op(sw_graph *graph, const sw_op *op);

/* Lists inputs and outputs in the order of the tensors; false without memory. Call after the last tensor. */
bool sw_graph_seal(sw_graph *graph);

/* Index of the tensor of that name, or UINT32_MAX. Linear: for borders, not for loops. */
uint32_t sw_graph_find(const sw_graph *graph, const char *name);

#endif
