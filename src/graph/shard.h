/* shard.h: how a decoder's layers are split into shards: runs of layers, each compiled into its own context.
 */
#ifndef SW_GRAPH_SHARD_H
#define SW_GRAPH_SHARD_H

#include <stdint.h>

/* Layers [begin, end). The first shard also has the graph's beginning, the last one its end: final norm and
 * head. */
typedef struct sw_layer_run {
    uint32_t begin, end;
} sw_layer_run;

/* Shard `shard` of n_shards, 1 <= n_shards <= n_layers: in order, none empty, sizes that differ by one layer
 * at most, the longer ones first: the head makes the last one heavy already. */
sw_layer_run sw_shard_layers(uint32_t n_layers, uint32_t n_shards, uint32_t shard);

#endif
