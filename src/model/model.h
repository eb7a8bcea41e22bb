/* model.h: a decoder's hyperparameters and views of its weights, whatever file they came from.
 *
 * A view borrows the mapped checkpoint and turns one row at a time into float, so that a model never has to
 * be in memory as float. Rows of q and k come out in halves order for RoPE (row h * head_dim + i pairs with
 * row h * head_dim + i + head_dim / 2), however the file stores them. */
#ifndef SW_MODEL_MODEL_H
#define SW_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/file.h"

typedef struct sw_hparams {
    char architecture[32]; /* "llama" */
    char name[64];         /* the file's own, may be "" */
    uint32_t n_layers, hidden, ffn, vocab;
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t context_max; /* positions the model was trained for */
    float rms_epsilon, rope_theta;
    bool tied_embeddings; /* the head is the embedding table */
} sw_hparams;

/* The weights of a Llama-family decoder: enumerator, name in the IR (a layer's stand behind "layer_N."),
 * GGUF's name (a layer's behind "blk.N."), per layer?, rows and columns as fields of sw_hparams' shapes.
 * [rows, cols] row-major, row = output channel; vectors have rows = 1. */
#define SW_WEIGHTS(X)                                                                                        \
    X(SW_W_EMBEDDING, "embedding", "token_embd.weight", false)                                               \
    X(SW_W_ATTENTION_NORM, "attention_norm", "attn_norm.weight", true)                                       \
    X(SW_W_Q, "q_proj", "attn_q.weight", true)                                                               \
    X(SW_W_K, "k_proj", "attn_k.weight", true)                                                               \
    X(SW_W_V, "v_proj", "attn_v.weight", true)                                                               \
    X(SW_W_O, "o_proj", "attn_output.weight", true)                                                          \
    X(SW_W_FFN_NORM, "ffn_norm", "ffn_norm.weight", true)                                                    \
    X(SW_W_GATE, "gate_proj", "ffn_gate.weight", true)                                                       \
    X(SW_W_UP, "up_proj", "ffn_up.weight", true)                                                             \
    X(SW_W_DOWN, "down_proj", "ffn_down.weight", true)                                                       \
    X(SW_W_FINAL_NORM, "final_norm", "output_norm.weight", false)                                            \
    X(SW_W_HEAD, "lm_head", "output.weight", false)

typedef enum sw_weight_id {
#define SW_WEIGHT_ENUM(id, ir_name, gguf_name, per_layer) id,
    SW_WEIGHTS(SW_WEIGHT_ENUM)
#undef SW_WEIGHT_ENUM
        SW_WEIGHT_COUNT
} sw_weight_id;

/* How the file stores values, once: enumerator, ggml's name, GGUF's number, values and bytes of a block. */
#define SW_STORAGES(X)                                                                                       \
    X(SW_STORE_F32, "F32", 0, 1, 4)                                                                          \
    X(SW_STORE_F16, "F16", 1, 1, 2)                                                                          \
    X(SW_STORE_BF16, "BF16", 30, 1, 2)                                                                       \
    X(SW_STORE_Q4_0, "Q4_0", 2, 32, 18)                                                                      \
    X(SW_STORE_Q4_1, "Q4_1", 3, 32, 20)                                                                      \
    X(SW_STORE_Q5_0, "Q5_0", 6, 32, 22)                                                                      \
    X(SW_STORE_Q5_1, "Q5_1", 7, 32, 24)                                                                      \
    X(SW_STORE_Q8_0, "Q8_0", 8, 32, 34)

typedef enum sw_storage {
#define SW_STORAGE_ENUM(id, name, gguf_type, values, bytes) id,
    SW_STORAGES(SW_STORAGE_ENUM)
#undef SW_STORAGE_ENUM
        SW_STORE_COUNT
} sw_storage;

typedef struct sw_storage_info {
    const char *name;
    uint32_t gguf_type, block_values, block_bytes;
} sw_storage_info;

extern const sw_storage_info sw_storage_infos[SW_STORE_COUNT];

/* One [rows, cols] matrix in the file; plain data, borrowed from the model. */
typedef struct sw_weight {
    const char *file_name; /* the tensor's name in the file, for messages */
    const uint8_t *data;   /* row 0 */
    uint64_t row_bytes;
    uint32_t rows, cols;
    sw_storage storage;
    uint32_t interleaved_head_dim; /* not 0: rows of each head are stored interleaved, see sw_weight_row */
    bool mapped;                   /* data lies in a mapped file */
} sw_weight;

/* Where it lies in a mapped file, its pages are no longer resident; they are read again when touched. */
void sw_weight_drop_pages(const sw_weight *w);
void sw_weight_drop_rows(const sw_weight *w, uint32_t begin, uint32_t end); /* of rows begin to end - 1 */

/* Row r as cols floats, exactly what the storage says. out must hold cols floats. Thread-safe. */
void sw_weight_row(const sw_weight *w, uint32_t r, float *out);

/* Row r as it is stored, where that is in blocks of 32 around 0 (Q4_0, Q8_0): value i is d[i / 32] * q[i]. q
 * [cols], d [cols / 32] f16 of either sign. False for other storages. Thread-safe. */
bool sw_weight_row_blocks(const sw_weight *w, uint32_t r, int8_t *q, uint16_t *d);
/* True where a view's rows can be had that way. */
static inline bool sw_weight_has_blocks(const sw_weight *w) {
    return w->storage == SW_STORE_Q4_0 || w->storage == SW_STORE_Q8_0;
}

/* SW_BAD_DATA where a stored float (a value, a block's scale or minimum) is NaN or infinite; the sentence
 * names tensor and block, or row and column. Reads all of the tensor. */
sw_code sw_weight_check_values(const sw_weight *w, sw_error *err) SW_MUST_CHECK;

typedef struct sw_model {
    sw_hparams hparams;
    sw_arena arena;       /* of the views and names */
    sw_weight *weights;   /* [n_layers * SW_WEIGHT_COUNT]; use sw_model_weight */
    struct sw_gguf *gguf; /* the file behind it: the tokenizer's metadata is read from here; owned */
} sw_model;

/* The view of a weight; layer counts for per-layer weights only. SW_W_HEAD is the embedding where tied. */
const sw_weight *sw_model_weight(const sw_model *model, sw_weight_id id, uint32_t layer);

/* "embedding", "layer_3.q_proj", ... into out. */
void sw_weight_ir_name(sw_weight_id id, uint32_t layer, char *out, size_t size);

/* Opens a GGUF file. Checks every size, shape and hyperparameter before it returns; an error names file, key
 * or tensor, what was found and what would be right. Errors: SW_NOT_FOUND, SW_IO, SW_BAD_DATA,
 * SW_UNSUPPORTED. */
sw_code sw_model_open(sw_model *model, const char *path, sw_error *err) SW_MUST_CHECK;
/* The same from an open file, which the model then owns; on an error it is closed. */
sw_code sw_model_open_gguf(sw_model *model, struct sw_gguf *gguf, sw_error *err) SW_MUST_CHECK;
/* For shapes alone: as sw_model_open, but no weight is read, so that values aren't checked. */
sw_code sw_model_open_shapes(sw_model *model, const char *path, sw_error *err) SW_MUST_CHECK;
/* For shapes alone: views without data, of hyperparameters that a reader has checked. Errors: SW_NO_MEMORY.
 */
sw_code sw_model_of_shapes(sw_model *model, const sw_hparams *hparams, sw_error *err) SW_MUST_CHECK;
void sw_model_close(sw_model *model); /* no-op on a model that failed to open */

#endif
