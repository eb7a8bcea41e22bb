/* shard.c: layers split evenly, in order; what doesn't divide goes to the first shards, one layer each. */
#include "graph/shard.h"

sw_layer_run sw_shard_layers(uint32_t n_layers, uint32_t n_shards, uint32_t shard) {
    uint32_t each = n_layers / n_shards, longer = n_layers % n_shards;
    uint32_t begin = shard * each + (shard < longer ? shard : longer);
    return (sw_layer_run){begin, begin + each + (shard < longer)};
}
