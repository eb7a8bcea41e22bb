/* shared_test.c: what graphs of a device share: one entry a key while somebody holds it, made anew after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/shared.h"

typedef struct filling {
    int times;
    unsigned char value;
    size_t bytes;
} filling;

static void fill(void *context, void *out) {
    filling *f = context;
    unsigned char *memory = out;
    for (size_t i = 0; i < f->bytes; i += 4095) assert_int_equal(memory[i], 0);
    f->times++;
    memset(out, f->value, f->bytes);
}

typedef struct user {
    sw_arena arena;
    sw_shared shared;
} user;

static void begin(user *u, sw_shared_store *store) {
    *u = (user){.arena = SW_ARENA_EMPTY};
    u->shared = (sw_shared){.store = store, .arena = &u->arena};
}

static void end(user *u) {
    sw_shared_release(&u->shared);
    sw_arena_free(&u->arena);
}

static const unsigned char *get(user *u, const char *key, filling *f) {
    sw_error err = {SW_OK, ""};
    const void *out = NULL;
    assert_int_equal(sw_shared_get(&u->shared, key, strlen(key), f->bytes, fill, f, &out, &err), SW_OK);
    assert_int_equal((uintptr_t)out % 64, 0);
    return out;
}

static void an_entry_is_made_once(void **state) {
    (void)state;
    sw_shared_store *store = sw_shared_store_create();
    assert_non_null(store);
    user a, b;
    begin(&a, store), begin(&b, store);
    filling one = {0, 1, 1000}, two = {0, 2, 64};
    const unsigned char *first = get(&a, "one", &one), *second = get(&a, "two", &two);
    assert_true(first + 1000 <= second || second + 64 <= first);
    assert_ptr_equal(get(&b, "one", &one), first);
    assert_ptr_equal(get(&a, "one", &one), first);
    assert_int_equal(one.times, 1);
    end(&a);
    assert_int_equal(first[0], 1);
    assert_int_equal(first[999], 1); /* b holds it */
    assert_ptr_equal(get(&b, "one", &one), first);
    end(&b);

    /* Nobody held it: it is made anew, of zeros, where a tensor may have come to the same address. */
    begin(&a, store);
    one.value = 7;
    assert_int_equal(get(&a, "one", &one)[999], 7);
    assert_int_equal(one.times, 2);
    end(&a);
    sw_shared_store_destroy(store);
}

/* Larger than a slab, and many small ones before and after it. */
static void large_entries_have_room(void **state) {
    (void)state;
    sw_shared_store *store = sw_shared_store_create();
    assert_non_null(store);
    user a, b;
    begin(&a, store), begin(&b, store);
    filling small = {0, 3, 100000}, large = {0, 4, (size_t)40 << 20};
    const unsigned char *of[40];
    for (int i = 0; i < 40; i++) {
        char key[8] = {'k', (char)('A' + i)};
        of[i] = get(i % 2 ? &a : &b, key, i == 20 ? &large : &small);
    }
    assert_int_equal(of[20][large.bytes - 1], 4);
    end(&a);
    for (int i = 0; i < 40; i += 2)
        for (size_t k = 0; k < small.bytes; k += 999) assert_int_equal(of[i][k], i == 20 ? 4 : 3);
    end(&b);
    sw_shared_store_destroy(store);
}

static void no_memory_is_an_error(void **state) {
    (void)state;
    sw_shared_store *store = sw_shared_store_create();
    assert_non_null(store);
    user a;
    begin(&a, store);
    filling f = {0, 1, SIZE_MAX - 100};
    sw_error err = {SW_OK, ""};
    const void *out = NULL;
    assert_int_equal(sw_shared_get(&a.shared, "k", 1, f.bytes, fill, &f, &out, &err), SW_NO_MEMORY);
    assert_int_equal(f.times, 0);
    end(&a);
    sw_shared_store_destroy(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_entry_is_made_once),
                                       cmocka_unit_test(large_entries_have_room),
                                       cmocka_unit_test(no_memory_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
