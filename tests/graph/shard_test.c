/* Shards of layers: a partition in order, as even as can be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/shard.h"

static void every_layer_is_in_one_shard(void **state) {
    (void)state;
    for (uint32_t layers = 1; layers <= 40; layers++)
        for (uint32_t shards = 1; shards <= layers; shards++) {
            uint32_t next = 0, least = layers, most = 0;
            for (uint32_t i = 0; i < shards; i++) {
                sw_layer_run run = sw_shard_layers(layers, shards, i);
                assert_int_equal(run.begin, next);
                assert_true(run.end > run.begin);
                next = run.end;
                if (run.end - run.begin < least) least = run.end - run.begin;
                if (run.end - run.begin > most) most = run.end - run.begin;
            }
            assert_int_equal(next, layers);
            assert_true(most - least <= 1);
        }
}

static void the_first_ones_are_longer(void **state) {
    (void)state;
    sw_layer_run run = sw_shard_layers(30, 4, 0); /* 8, 8, 7, 7 */
    assert_int_equal(run.end, 8);
    run = sw_shard_layers(30, 4, 3);
    assert_int_equal(run.begin, 23);
    assert_int_equal(run.end, 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layer_is_in_one_shard),
        cmocka_unit_test(the_first_ones_are_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
