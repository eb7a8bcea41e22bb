/* threads.c: a loop's ranges are handed out by one atomic counter. Workers look for the next loop for some
 * ten microseconds, as loops of a decoder follow each other that closely, and then sleep on a condition.
 *
 * Who is in a loop stands in one atomic word, [generation: 32][workers inside: 31][open: 1]. A worker enters
 * while it is open; the caller closes it when all ranges are taken and nobody is inside. So a worker that the
 * system hasn't woken yet holds nobody up. */
#include "base/threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/trace.h"

enum { MAX_THREADS = 64, LEAST_SPINS = 100, MOST_SPINS = 3200, OPEN = 1, INSIDE = 2 };
#define GENERATION ((uint64_t)1 << 32)

struct sw_pool {
    unsigned n_threads;
    pthread_t workers[MAX_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    atomic_bool stop;
    atomic_uint n_named;      /* workers that have their number in a trace */
    atomic_uint sleepers;     /* workers in a wait for `start` */
    atomic_bool caller_waits; /* for `done` */
    int caller_spins;
    _Alignas(64) _Atomic uint64_t state;
    /* The loop in hand: written while the state is closed. */
    sw_pool_body *body;
    void *context;
    size_t count, step;
    _Alignas(64) atomic_size_t next;
};

static void pause_a_little(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int more_spins(int spins) {
    return spins < MOST_SPINS ? 2 * spins : spins;
}
static int fewer_spins(int spins) {
    return spins > LEAST_SPINS ? spins / 2 : spins;
}

static void run_ranges(sw_pool *pool) {
    for (;;) {
        size_t begin = atomic_fetch_add(&pool->next, pool->step);
        if (begin >= pool->count) return;
        size_t end = pool->count - begin < pool->step ? pool->count : begin + pool->step;
        pool->body(pool->context, begin, end);
    }
}

/* Enters a loop that is open and wasn't entered before. */
static bool enter(sw_pool *pool, uint64_t *seen) {
    uint64_t state = atomic_load(&pool->state);
    while ((state & OPEN) != 0 && state / GENERATION != *seen)
        if (atomic_compare_exchange_weak(&pool->state, &state, state + INSIDE)) {
            *seen = state / GENERATION;
            return true;
        }
    return false;
}

static bool nobody_inside(sw_pool *pool) {
    return atomic_load(&pool->state) % GENERATION < INSIDE;
}

static void leave(sw_pool *pool) {
    atomic_fetch_sub(&pool->state, INSIDE);
    if (!atomic_load(&pool->caller_waits)) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->lock);
}

/* False where the pool ends. */
static bool wait_for_loop(sw_pool *pool, uint64_t *seen, int *spins) {
    for (int i = 0; i < *spins && !atomic_load(&pool->stop); i++) {
        if (enter(pool, seen)) {
            *spins = more_spins(*spins);
            return true;
        }
        pause_a_little();
    }
    *spins = fewer_spins(*spins);
    bool entered = false;
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1); /* before the look: the caller opens, then looks for sleepers */
    while (!atomic_load(&pool->stop) && !(entered = enter(pool, seen)))
        pthread_cond_wait(&pool->start, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
    return entered;
}

static void *worker(void *argument) {
    sw_pool *pool = argument;
    uint64_t seen = 0;
    int spins = LEAST_SPINS;
    sw_trace_set_thread(1 + atomic_fetch_add(&pool->n_named, 1));
    while (wait_for_loop(pool, &seen, &spins)) {
        sw_trace_span span = sw_trace_begin_worker();
        run_ranges(pool);
        sw_trace_end(span);
        leave(pool);
    }
    return NULL;
}

static void open_loop(sw_pool *pool) {
    const uint64_t generation = (atomic_load(&pool->state) / GENERATION + 1) % GENERATION;
    atomic_store(&pool->state, (generation > 0 ? generation : 1) * GENERATION + OPEN);
    if (atomic_load(&pool->sleepers) == 0) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
}

static bool close_loop(sw_pool *pool) {
    uint64_t state = atomic_load(&pool->state) / GENERATION * GENERATION + OPEN;
    return atomic_compare_exchange_strong(&pool->state, &state, state - OPEN);
}

static void wait_and_close(sw_pool *pool) {
    for (int i = 0; i < pool->caller_spins; i++) {
        if (close_loop(pool)) {
            pool->caller_spins = more_spins(pool->caller_spins);
            return;
        }
        pause_a_little();
    }
    pool->caller_spins = fewer_spins(pool->caller_spins);
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_waits, true); /* before the look: a worker leaves, then looks at this */
    while (!close_loop(pool))
        if (!nobody_inside(pool)) pthread_cond_wait(&pool->done, &pool->lock);
    atomic_store(&pool->caller_waits, false);
    pthread_mutex_unlock(&pool->lock);
}

sw_code sw_pool_create(sw_pool **out, unsigned n_threads, sw_error *err) {
    *out = NULL;
    if (n_threads == 0) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        n_threads = n < 1 ? 1u : n > MAX_THREADS ? (unsigned)MAX_THREADS : (unsigned)n;
    }
    if (n_threads > MAX_THREADS)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%u threads, wanted 1 to %d", n_threads, MAX_THREADS);
    sw_pool *pool = aligned_alloc(_Alignof(sw_pool), sizeof *pool);
    if (pool != NULL) memset(pool, 0, sizeof *pool);
    if (pool == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->start, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->n_threads = 1, pool->caller_spins = LEAST_SPINS;
    while (pool->n_threads < n_threads) {
        if (pthread_create(&pool->workers[pool->n_threads], NULL, worker, pool) != 0) {
            unsigned got = pool->n_threads;
            sw_pool_destroy(pool);
            return SW_FAIL(err, SW_NO_MEMORY, "can't start thread %u of %u", got + 1, n_threads);
        }
        pool->n_threads++;
    }
    *out = pool;
    return SW_OK;
}

void sw_pool_destroy(sw_pool *pool) {
    if (pool == NULL) return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 1; i < pool->n_threads; i++) pthread_join(pool->workers[i], NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->start);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

unsigned sw_pool_threads(const sw_pool *pool) {
    return pool != NULL ? pool->n_threads : 1;
}

void sw_pool_for(sw_pool *pool, size_t count, size_t grain, sw_pool_body *body, void *context) {
    if (count == 0) return;
    if (grain == 0) grain = 1;
    if (pool == NULL || pool->n_threads == 1 || count <= grain) {
        body(context, 0, count);
        return;
    }
    /* About four ranges a thread, so that a slow one can be made up for. */
    size_t grains = (count - 1) / grain + 1, per = (grains + 4 * pool->n_threads - 1) / (4 * pool->n_threads);
    pool->body = body, pool->context = context;
    pool->count = count, pool->step = per * grain;
    atomic_store(&pool->next, 0);
    open_loop(pool);
    run_ranges(pool);
    wait_and_close(pool);
}
