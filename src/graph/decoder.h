/* decoder.h: a model as its graphs, which share constants and encodings: the unit that is calibrated,
 * quantized, compiled, stored and run.
 *
 * The border of every graph, n = AR length, C = context length, c = C - n; names are the tensors':
 *   hidden_in                  [n, hidden]                 in   rows of `embedding`
 *   cos, sin                   [1, n, head_dim / 2]        in   of the rows' positions
 *   mask                       [1, 1, n, C]                in   columns: the cache, then the new ones
 *   layer_i.k_cache, .v_cache  [1, kv_heads, c, head_dim]  in   absent where c = 0
 *   last                       [1] i32                     in   head LAST and n > 1: the wanted row
 *   layer_i.k_new, .v_new      [1, kv_heads, n, head_dim]  out
 *   logits                     [n or 1, vocab]             out  one row in any shape; or sw_candidates
 *   tokens                     as logits, i32              out  of candidates alone
 *
 * In a float graph a mask entry is 0 or SW_MASK_BLOCKED.
 *
 * Shards: a decoder may be cut between layers, so that each run of layers is a context of its own. Every
 * shard has a graph of every kind, under the same names. The first shard alone has hidden_in, the last alone
 * logits and `last`; between two stands layer_i.residual [n, hidden], i the last layer of the former: out of
 * the one, in of the other, one tensor of the uncut graph and so of one encoding. */
#ifndef SW_GRAPH_DECODER_H
#define SW_GRAPH_DECODER_H

#include "graph/ir.h"
#include "graph/shard.h"

#define SW_MASK_BLOCKED (-10000.0f) /* exp of it is 0, and it fits f16 beside any score */

/* Forms of the graph: the same values, other ops. */
typedef enum sw_attention_form {
    SW_ATTENTION_GROUPED,     /* one MatMul over all KV heads */
    SW_ATTENTION_PER_KV_HEAD, /* cut into one attention a KV head: less is alive at once */
    SW_ATTENTION_PER_HEAD,    /* cut into one a query head: still less, and more ops */
    SW_ATTENTION_FORM_COUNT
} sw_attention_form;

/* Query heads of one attention of that form; and can the builder join as many as there are? */
uint32_t sw_attention_heads_at_once(const sw_hparams *hparams, sw_attention_form form);
bool sw_attention_form_fits(const sw_hparams *hparams, sw_attention_form form);

/* The first form, from whole to the smallest pieces, that has not too much alive at once for the VTCM. */
sw_attention_form sw_attention_form_auto(const sw_hparams *hparams, uint32_t ar_len, uint32_t context_len,
                                         uint32_t vtcm_mb);

/* What the head hands out. */
typedef struct sw_head_form {
    bool all_rows;   /* logits of all n rows: evaluation; else of one row, chosen by `last` */
    uint32_t top_k;  /* 0: its logits; N: the N best of them, see sw_candidates; of one row alone */
    uint32_t pieces; /* that a row of logits is computed in, and then joined; 0, 1: whole */
    uint32_t rows;   /* 2 to n: logits of so many rows, which `last` [rows] names: calibration; 0: as above */
} sw_head_form;

#define SW_HEAD_LAST     ((sw_head_form){.top_k = 0})
#define SW_HEAD_ALL      ((sw_head_form){.all_rows = true})
#define SW_HEAD_TOP_K(n) ((sw_head_form){.top_k = n})
#define SW_HEAD_CUT(n)   ((sw_head_form){.pieces = n})
#define SW_HEAD_ROWS(n)  ((sw_head_form){.rows = n})

/* The form for what is handed out: in how many pieces, the VTCM says (head_form.c). */
sw_head_form sw_head_form_auto(uint32_t vocab, uint32_t top_k, uint32_t vtcm_mb);

/* Where piece `piece` of that many begins, for piece = pieces the end: vocab. Multiples of 32. */
uint32_t sw_head_piece_begin(uint32_t vocab, uint32_t pieces, uint32_t piece);

const char *sw_attention_form_name(sw_attention_form form); /* "grouped", "per_kv_head", "per_head" */
bool sw_attention_form_from_name(const char *name, sw_attention_form *out);

typedef struct sw_graph_options {
    const char *name;
    uint32_t ar_len; /* 1..context_len; = context_len: no cache inputs */
    sw_attention_form attention;
    sw_head_form head;
} sw_graph_options;

enum { SW_MAX_KINDS = 4, SW_MAX_SHARDS = 64, SW_MAX_GRAPHS = SW_MAX_KINDS * SW_MAX_SHARDS };

/* The first tokens of every context, computed once, outside of the graphs: their K and V stand in the cache
 * from the start. Nothing before them, so they depend on nothing but the ids. */
typedef struct sw_sink {
    uint32_t n_tokens;  /* 0: none, and the rest is NULL */
    const int32_t *ids; /* [n_tokens] */
    const void *kv;     /* [layer][K, V][kv_head][n_tokens][head_dim]: rows of the cache, in the type and
                         * encodings of layer_<i>.k_new and v_new; f32 where they are of the float model */
} sw_sink;

typedef struct sw_decoder {
    sw_arena arena; /* of all below */
    sw_hparams hparams;
    uint32_t context_len;
    uint32_t n_shards;
    sw_graph *graphs[SW_MAX_GRAPHS]; /* [n_shards][n_graphs / n_shards]: shard 0's, then shard 1's, ... */
    uint32_t n_graphs;
    sw_tensor **constants; /* each once, whatever number of graphs uses it */
    uint32_t n_constants;
    sw_tensor *embedding; /* [vocab, hidden]; with tied embeddings the head's constant itself */
    sw_sink sink;
} sw_decoder;

/* The float graphs, uncut. Borrows the model's weights until every constant has data of its own.
 * Errors: SW_INVALID_ARGUMENT (a size out of its range, with the range), SW_NO_MEMORY. */
sw_code sw_decoder_build(sw_decoder *decoder, const sw_model *model, uint32_t context_len,
                         const sw_graph_options *graphs, uint32_t n_graphs, sw_error *err) SW_MUST_CHECK;

/* The same in n_shards shards, each with n_kinds graphs. */
sw_code sw_decoder_build_shards(sw_decoder *decoder, const sw_model *model, uint32_t context_len,
                                const sw_graph_options *kinds, uint32_t n_kinds, uint32_t n_shards,
                                sw_error *err) SW_MUST_CHECK;
void sw_decoder_free(sw_decoder *decoder);

/* Graphs a shard, 0 where n_graphs is no multiple of n_shards; and one of them. */
uint32_t sw_decoder_kinds(const sw_decoder *decoder);
static inline sw_graph *sw_decoder_graph(const sw_decoder *decoder, uint32_t shard, uint32_t kind) {
    return decoder->graphs[shard * sw_decoder_kinds(decoder) + kind];
}

/* The names of what comes into a graph and leaves it: "hidden_in" or "layer_<i>.residual", "logits" or the
 * like. out holds SW_NAME_BYTES; both return it. */
const char *sw_graph_first_input(const sw_graph *graph, char *out);
const char *sw_graph_last_output(const sw_graph *graph, uint32_t n_layers, char *out);

/* What a graph says of the next token: all logits, or its best candidates, `logits` [1, N] in descending
 * order and `tokens` [1, N] i32. Of tokens with equal logits, the device chooses which come first, and which
 * are cut off behind the N-th. */
typedef struct sw_candidates {
    const sw_tensor *logits; /* NULL: none, it is no last shard */
    const sw_tensor *tokens; /* NULL: all logits */
    uint32_t n;              /* N; 0: all logits */
} sw_candidates;
sw_candidates sw_graph_candidates(const sw_graph *graph);

/* In how many pieces a graph computes its logits; 1: whole, or it has none. */
uint32_t sw_graph_head_pieces(const sw_graph *graph);

/* How many of the greatest logits every graph is sure to hand out; 0: all. */
uint32_t sw_decoder_candidates(const sw_decoder *decoder);

/* "all" or "topk:N" and a graph's top_k; false for other texts. */
bool sw_top_k_from_text(const char *text, uint32_t *top_k);
enum { SW_TOP_K_BYTES = 24 };
const char *sw_top_k_text(uint32_t top_k, char out[SW_TOP_K_BYTES]);

/* The type of K and V, the same in all graphs. */
sw_dtype sw_decoder_kv_type(const sw_decoder *decoder);

/* Values of a sink's kv: n_layers * 2 * n_kv_heads * n_tokens * head_dim. */
uint64_t sw_sink_values(const sw_hparams *hparams, uint32_t n_tokens);

/* "layer_<i>.<name>" into out; out holds SW_NAME_BYTES. */
enum { SW_NAME_BYTES = 64 };
void sw_layer_name(char out[SW_NAME_BYTES], uint32_t layer, const char *name);

#endif
