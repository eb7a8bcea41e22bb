/* groups.h: which ranges must be one, and where a range comes from. */
#ifndef SW_QUANT_GROUPS_H
#define SW_QUANT_GROUPS_H

#include "graph/ir.h"
#include "quant/names.h"

typedef enum sw_range_kind {
    SW_RANGE_SEEN,   /* as observed */
    SW_RANGE_UNIT,   /* outputs of Softmax and Sigmoid: [0, 1), scale 1 / 2^bits */
    SW_RANGE_TURN,   /* cos and sin: [-1, 1] */
    SW_RANGE_KV,     /* K and V and what they are moved from: as observed, with 0 in the middle */
    SW_RANGE_SCORES, /* what Softmax gets, and the same before the mask is added */
    SW_RANGE_MASK    /* the mask: as deep as the scores' ranges need */
} sw_range_kind;

/* Ranges by name, joined to groups that have one encoding. */
typedef struct sw_groups {
    sw_names names;
    uint32_t *parent;     /* [names.count], a union-find forest */
    sw_range_kind *kinds; /* [names.count], of roots */
    float *betas; /* [names.count], of roots: the least beta of a Softmax that reads the group, or 0 */
} sw_groups;

/* Over all activations and KV tensors of the graphs. A movement op joins its input's and output's ranges, an
 * addition of the mask its scores' and output's. Free in every case.
 * Errors: SW_UNSUPPORTED (an op ties two kinds together; a Softmax with beta <= 0), SW_NO_MEMORY. */
sw_code sw_groups_init(sw_groups *groups, sw_graph *const *graphs, uint32_t n_graphs,
                       sw_error *err) SW_MUST_CHECK;
void sw_groups_free(sw_groups *groups);

/* The index that stands for the range's group. The range is one of the graphs'. */
uint32_t sw_groups_root(sw_groups *groups, const char *range);
sw_range_kind sw_groups_kind(sw_groups *groups, const char *range);

#endif
