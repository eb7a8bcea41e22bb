/* tasks.c: each worker takes the tasks of a run of its own one after another, so that it reads memory in its
 * order, and then from the ends of the others' runs. A run is one atomic word, [end: 32][begin: 32]. */
#include "cpu/tasks.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { MOST_WORKERS = 64 };

typedef struct run {
    _Alignas(64) _Atomic uint64_t range;
} run;

typedef struct queue {
    run runs[MOST_WORKERS];
    size_t workers;
    sw_task_body *body;
    void *context;
} queue;

static bool take(run *r, bool from_end, size_t *task) {
    uint64_t range = atomic_load(&r->range);
    for (;;) {
        const uint64_t begin = range & UINT32_MAX, end = range >> 32;
        if (begin >= end) return false;
        *task = (size_t)(from_end ? end - 1 : begin);
        const uint64_t left = from_end ? (end - 1) << 32 | begin : end << 32 | (begin + 1);
        if (atomic_compare_exchange_weak(&r->range, &range, left)) return true;
    }
}

static void run_workers(void *context, size_t first, size_t end) {
    queue *q = context;
    size_t task;
    for (size_t worker = first; worker < end; worker++)
        for (size_t i = 0; i < q->workers; i++)
            while (take(&q->runs[(worker + i) % q->workers], i > 0, &task)) q->body(q->context, worker, task);
}

void sw_tasks_run(sw_pool *pool, size_t count, sw_task_body *body, void *context) {
    queue q;
    q.body = body, q.context = context;
    q.workers = sw_pool_threads(pool);
    if (q.workers > MOST_WORKERS) q.workers = MOST_WORKERS;
    if (q.workers > count) q.workers = count;
    for (uint64_t i = 0; i < q.workers; i++)
        atomic_init(&q.runs[i].range, (count * (i + 1) / q.workers) << 32 | count * i / q.workers);
    sw_pool_for(pool, q.workers, 1, run_workers, &q);
}
