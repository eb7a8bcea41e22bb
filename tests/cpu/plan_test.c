/* plan_test.c: no two blocks that live at once share a byte, and the buffer is no larger than it must be
 * where that is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/plan.h"

static uint64_t plan(sw_plan_block *blocks, size_t n) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_error err;
    uint64_t size = 0;
    assert_int_equal(sw_plan(blocks, n, &arena, &size, &err), SW_OK);
    sw_arena_free(&arena);
    return size;
}

static void assert_sound(const sw_plan_block *blocks, size_t n, uint64_t size) {
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(blocks[i].offset % SW_PLAN_ALIGNMENT, 0);
        assert_true(blocks[i].offset + blocks[i].size_bytes <= size);
        for (size_t j = 0; j < i; j++) {
            if (blocks[i].last < blocks[j].first || blocks[j].last < blocks[i].first) continue;
            assert_true(blocks[i].offset + blocks[i].size_bytes <= blocks[j].offset ||
                        blocks[j].offset + blocks[j].size_bytes <= blocks[i].offset);
        }
    }
}

static void a_chain_needs_its_two_largest_neighbours(void **state) {
    (void)state;
    sw_plan_block chain[] = {{.size_bytes = 256, .first = 0, .last = 1},
                             {.size_bytes = 1024, .first = 1, .last = 2},
                             {.size_bytes = 512, .first = 2, .last = 3},
                             {.size_bytes = 128, .first = 3, .last = 4}};
    uint64_t size = plan(chain, 4);
    assert_sound(chain, 4, size);
    assert_int_equal(size, 1024 + 512);
}

/* offset   0          1792         3328     4096          6144
 * step 0   |  4096                          | 2048        |
 * step 1   | 1792     | 1536       |        | 2048        |
 * step 2   |          | 1536       | here   | 2048        |    704 fits in 1792 bytes and, closer, in 768 */
static void the_smallest_gap_is_taken(void **state) {
    (void)state;
    sw_plan_block blocks[] = {{.size_bytes = 704, .first = 2, .last = 2},
                              {.size_bytes = 4096, .first = 0, .last = 0},
                              {.size_bytes = 2048, .first = 0, .last = 2},
                              {.size_bytes = 1792, .first = 1, .last = 1},
                              {.size_bytes = 1536, .first = 1, .last = 2}};
    static const uint64_t offsets[] = {3328, 0, 4096, 0, 1792};
    uint64_t size = plan(blocks, 5);
    assert_sound(blocks, 5, size);
    for (size_t i = 0; i < 5; i++) assert_int_equal(blocks[i].offset, offsets[i]);
    assert_int_equal(size, 6144);
}

static void random_blocks_never_meet(void **state) {
    (void)state;
    enum { N = 200, STEPS = 60 };
    uint32_t seed = 7;
    for (int round = 0; round < 50; round++) {
        sw_plan_block blocks[N], again[N];
        uint64_t alive[STEPS] = {0}, floor = 0, sum = 0;
        for (size_t i = 0; i < N; i++) {
            seed = seed * 1664525u + 1013904223u;
            uint32_t first = (seed >> 8) % STEPS, length = (seed >> 16) % 6;
            uint32_t last = first + length < STEPS ? first + length : STEPS - 1;
            blocks[i] = (sw_plan_block){.size_bytes = 1 + (seed >> 12) % 5000, .first = first, .last = last};
            again[i] = blocks[i];
            uint64_t padded = (blocks[i].size_bytes + 63) / 64 * 64;
            sum += padded;
            for (uint32_t s = first; s <= last; s++) alive[s] += padded;
        }
        for (size_t s = 0; s < STEPS; s++) floor = alive[s] > floor ? alive[s] : floor;
        uint64_t size = plan(blocks, N);
        assert_sound(blocks, N, size);
        assert_true(size + 63 >= floor && size <= sum);
        assert_true(size <= floor + floor / 4); /* greedy by size stays near the floor */
        assert_int_equal(plan(again, N), size);
        for (size_t i = 0; i < N; i++) assert_int_equal(again[i].offset, blocks[i].offset);
    }
}

static void nothing_and_too_much(void **state) {
    (void)state;
    assert_int_equal(plan(NULL, 0), 0);
    sw_plan_block huge[] = {{.size_bytes = UINT64_MAX / 2 + 1, .first = 0, .last = 0},
                            {.size_bytes = UINT64_MAX / 2 + 1, .first = 1, .last = 1}};
    sw_arena arena = SW_ARENA_EMPTY;
    sw_error err;
    uint64_t size;
    assert_int_equal(sw_plan(huge, 2, &arena, &size, &err), SW_NO_MEMORY);
    huge[0].size_bytes = UINT64_MAX;
    assert_int_equal(sw_plan(huge, 1, &arena, &size, &err), SW_NO_MEMORY);
    sw_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_needs_its_two_largest_neighbours),
        cmocka_unit_test(the_smallest_gap_is_taken),
        cmocka_unit_test(random_blocks_never_meet),
        cmocka_unit_test(nothing_and_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
