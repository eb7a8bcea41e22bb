/* arena_test.c: blocks are aligned, zeroed and apart, at the edges of chunks too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/arena.h"

/* Sizes around the alignment and around the 256 KiB of a chunk. */
static const size_t sizes[] = {0,      1,      63, 64,         65, 4096,       262143, 262144,     262145,
                               262080, 262081, 1,  262144 - 1, 64, 3 * 262144, 1,      262144 + 64};
enum { SIZE_COUNT = sizeof sizes / sizeof *sizes };

static void blocks_are_aligned_zero_and_apart(void **state) {
    (void)state;
    sw_arena arena = SW_ARENA_EMPTY;
    unsigned char *blocks[SIZE_COUNT];
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        blocks[i] = sw_arena_alloc(&arena, sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(blocks[i][k], 0);
        memset(blocks[i], (int)i + 1, sizes[i]);
    }
    /* No later block has written into an earlier one. */
    for (size_t i = 0; i < SIZE_COUNT; i++)
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(blocks[i][k], i + 1);
    sw_arena_free(&arena);
}

/* Every fill level of a chunk, then a block that just fits and one that just does not. */
static void a_chunk_can_be_filled_to_its_edge(void **state) {
    (void)state;
    enum { CHUNK = 262144, STEP = 64 };
    for (size_t first = CHUNK - 4 * STEP; first <= CHUNK; first++) {
        sw_arena arena = SW_ARENA_EMPTY;
        unsigned char *a = sw_arena_alloc(&arena, first), *b = sw_arena_alloc(&arena, CHUNK - first);
        assert_non_null(a);
        assert_non_null(b);
        memset(a, 1, first);
        memset(b, 2, CHUNK - first);
        assert_int_equal(a[first - 1], 1);
        assert_true(arena.used <= arena.capacity);
        sw_arena_free(&arena);
    }
}

static void impossible_sizes_give_null(void **state) {
    (void)state;
    sw_arena arena = SW_ARENA_EMPTY;
    assert_null(sw_arena_alloc(&arena, SIZE_MAX));
    assert_null(sw_arena_alloc(&arena, SIZE_MAX - 63));
    assert_null(sw_arena_alloc(&arena, SIZE_MAX / 2 + 1));
    assert_null(sw_arena_array(&arena, SIZE_MAX, 2));
    assert_null(sw_arena_array(&arena, (size_t)1 << 32, (size_t)1 << 32)); /* wraps to 0 */
    assert_null(sw_arena_strndup(&arena, "", SIZE_MAX));
    assert_int_equal(arena.total_bytes, 0);
    assert_non_null(sw_arena_array(&arena, 3, 5)); /* still usable */
    sw_arena_free(&arena);
}

static void text_is_copied_and_terminated(void **state) {
    (void)state;
    sw_arena arena = SW_ARENA_EMPTY;
    assert_string_equal(sw_arena_strdup(&arena, "spill"), "spill");
    assert_string_equal(sw_arena_strndup(&arena, "spillway", 5), "spill");
    assert_string_equal(sw_arena_printf(&arena, "%s-%d", "layer", 29), "layer-29");
    char long_text[1000];
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    assert_string_equal(sw_arena_printf(&arena, "%s", long_text), long_text);
    sw_arena_free(&arena);
}

static void a_freed_arena_is_empty_and_usable(void **state) {
    (void)state;
    sw_arena arena = SW_ARENA_EMPTY;
    sw_arena_free(&arena);
    assert_non_null(sw_arena_alloc(&arena, 1000000));
    assert_true(arena.total_bytes >= 1000000);
    sw_arena_free(&arena);
    assert_int_equal(arena.total_bytes, 0);
    assert_null(arena.chunk);
    assert_non_null(sw_arena_alloc(&arena, 1));
    sw_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_zero_and_apart),
        cmocka_unit_test(a_chunk_can_be_filled_to_its_edge),
        cmocka_unit_test(impossible_sizes_give_null),
        cmocka_unit_test(text_is_copied_and_terminated),
        cmocka_unit_test(a_freed_arena_is_empty_and_usable),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
