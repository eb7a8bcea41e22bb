/* tasks.h: a loop whose bodies need memory of their own. sw_pool_for doesn't say on which thread a range
 * runs. */
#ifndef SW_CPU_TASKS_H
#define SW_CPU_TASKS_H

#include "base/threads.h"

/* Calls body for each task in [0, count) once. worker < sw_pool_threads(pool), and no two bodies with the
 * same worker run at the same time, so that it can pick a part of the scratch. Tasks run in any order. */
typedef void sw_task_body(void *context, size_t worker, size_t task);
void sw_tasks_run(sw_pool *pool, size_t count, sw_task_body *body, void *context);

#endif
