/* group.h: a model's context binaries, loaded as one group that shares a spill-fill buffer.
 *
 * The library makes one buffer for the group, of the size that the first context asks for, whatever the later
 * ones say. So the size is the largest that any graph of any binary needs, and the order of the files is of
 * no matter. Contexts of a group must run one after another. */
#ifndef SW_QNN_GROUP_H
#define SW_QNN_GROUP_H

#include "graph/decoder.h"
#include "qnn/binary_info.h"
#include "qnn/context.h"

/* A context binary, one a shard. All is borrowed. Its hash has been checked: the library crashes on flipped
 * bytes. */
typedef struct sw_htp_binary {
    const char *file; /* for messages */
    const void *data;
    uint64_t size;
    const sw_binary_info *info;
} sw_htp_binary;

typedef struct sw_qnn_group {
    sw_qnn *qnn;                   /* borrowed, as the binaries */
    const sw_htp_binary *binaries; /* [n] */
    uint32_t n;
    Qnn_Handle_t contexts[SW_MAX_SHARDS];
} sw_qnn_group;

/* The largest spill-fill need of any graph; 0: none has one. *shard and *graph say whose it is. */
uint64_t sw_htp_largest_spill(const sw_htp_binary *binaries, uint32_t n, uint32_t *shard, const char **graph);

/* Makes the contexts, in order. No group is asked for where no graph spills: the library wants a size above
 * 0. profile: where the library puts the times of loading, or NULL. Errors: SW_LIBRARY with file and shard,
 * after which none is left. */
sw_code sw_qnn_group_open(sw_qnn_group *group, sw_qnn *qnn, const sw_htp_binary *binaries, uint32_t n,
                          Qnn_Handle_t profile, sw_error *err) SW_MUST_CHECK;
void sw_qnn_group_close(sw_qnn_group *group); /* no-op on a zeroed or closed one */

/* A graph of a shard, ready to run. force_slc_off: without the SLC allocator, though it was compiled with it:
 * for telling what the allocator is worth. Errors: SW_LIBRARY. */
sw_code sw_qnn_group_graph(const sw_qnn_group *group, uint32_t shard, const char *name, bool force_slc_off,
                           Qnn_Handle_t *out, sw_error *err) SW_MUST_CHECK;

#endif
