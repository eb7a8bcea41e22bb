/* tasks.c: the pool's loop runs over the workers; these take tasks from one counter. */
#include "cpu/tasks.h"

#include <stdatomic.h>

typedef struct queue {
    atomic_size_t next;
    size_t count;
    sw_task_body *body;
    void *context;
} queue;

static void run_workers(void *context, size_t begin, size_t end) {
    queue *q = context;
    for (size_t worker = begin; worker < end; worker++)
        for (;;) {
            size_t task = atomic_fetch_add(&q->next, 1);
            if (task >= q->count) break;
            q->body(q->context, worker, task);
        }
}

void sw_tasks_run(sw_pool *pool, size_t count, sw_task_body *body, void *context) {
    queue q = {.count = count, .body = body, .context = context};
    size_t threads = sw_pool_threads(pool);
    sw_pool_for(pool, threads < count ? threads : count, 1, run_workers, &q);
}
