/* threads.c: workers sleep on a condition; a loop's ranges are handed out by one atomic counter. */
#include "base/threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_THREADS = 64 };

struct sw_pool {
    unsigned n_threads;
    pthread_t workers[MAX_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    unsigned generation, busy; /* under lock */
    bool stop;                 /* under lock */
    /* The loop in hand; set under lock before `generation` moves. */
    sw_pool_body *body;
    void *context;
    size_t count, step;
    atomic_size_t next;
};

static void run_ranges(sw_pool *pool) {
    for (;;) {
        size_t begin = atomic_fetch_add(&pool->next, pool->step);
        if (begin >= pool->count) return;
        size_t end = pool->count - begin < pool->step ? pool->count : begin + pool->step;
        pool->body(pool->context, begin, end);
    }
}

static void *worker(void *argument) {
    sw_pool *pool = argument;
    unsigned seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->stop && pool->generation == seen) pthread_cond_wait(&pool->start, &pool->lock);
        if (pool->stop) break;
        seen = pool->generation;
        pthread_mutex_unlock(&pool->lock);
        run_ranges(pool);
        pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0) pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

sw_code sw_pool_create(sw_pool **out, unsigned n_threads, sw_error *err) {
    *out = NULL;
    if (n_threads == 0) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        n_threads = n < 1 ? 1u : n > MAX_THREADS ? (unsigned)MAX_THREADS : (unsigned)n;
    }
    if (n_threads > MAX_THREADS)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%u threads, wanted 1 to %d", n_threads, MAX_THREADS);
    sw_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->start, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->n_threads = 1;
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
    pool->stop = true;
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
    pthread_mutex_lock(&pool->lock);
    pool->body = body, pool->context = context;
    pool->count = count, pool->step = per * grain;
    atomic_store(&pool->next, 0);
    pool->busy = pool->n_threads - 1;
    pool->generation++;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    run_ranges(pool);
    pthread_mutex_lock(&pool->lock);
    while (pool->busy > 0) pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
