/* attention.h: one head group's attention as one step: scores, mask, Softmax, and the sum of V, of u8 or u16
 * activations with u8 K and V. The integers are those of the four ops one after another; what they do not
 * need is left out:
 *
 *   - K and V are read where they lie, cache and new entries, without the Concat before.
 *   - Columns that the mask blocks in every row are not computed. Behind the mask they all hold one integer,
 *     whatever the score: that the sum saturates is looked up, not assumed. They take part in Softmax as so
 *     many equal values, and where their probability is not 0 all columns are computed, and *blocked_counts
 * is set: then even a column that nobody asked for is to hold what it should. */
#ifndef SW_CPU_ATTENTION_H
#define SW_CPU_ATTENTION_H

#include <stdatomic.h>

#include "cpu/kernels.h"

/* K or V: [cache][new], or one of them alone; inputs of the fused op. */
typedef struct sw_attention_pieces {
    uint32_t n;         /* 1 or 2 */
    uint32_t input[2];  /* places among the call's inputs */
    uint32_t length[2]; /* positions */
    uint32_t head[2];   /* the first of the tensor's heads that is read */
} sw_attention_pieces;

/* The fused call's inputs: q [1, heads, rows, d], mask [1, 1, n, C], then K's and V's pieces. */
typedef struct sw_attention {
    const sw_op_call *scores, *add, *softmax, *context; /* the ops it stands for, prepared */
    bool mask_first;                                    /* of the Add's inputs */
    sw_attention_pieces k, v;
    atomic_bool *blocked_counts; /* the program's; set where a blocked column has a part in a row asked for */
} sw_attention;

/* Whether the types, shapes and encodings are those it computes; a's `scores` to `context` are set. */
bool sw_attention_matches(const sw_attention *a);

extern const sw_kernel sw_kernel_attention; /* call->prepared is the sw_attention */

#endif
