/* threads.h: a pool that runs one loop at a time over its threads. */
#ifndef SW_BASE_THREADS_H
#define SW_BASE_THREADS_H

#include <stddef.h>

#include "spillway/error.h"

typedef struct sw_pool sw_pool;

/* n_threads counts the caller's: 1 starts no thread. 0 means the number of processors, at most 64. */
sw_code sw_pool_create(sw_pool **out, unsigned n_threads, sw_error *err) SW_MUST_CHECK;
void sw_pool_destroy(sw_pool *pool); /* NULL is allowed */
unsigned sw_pool_threads(const sw_pool *pool);

/* Calls body(context, begin, end) on ranges that cover [0, count) once, each a multiple of grain long (but
 * for the last), and returns when all are done. Ranges run in any order on any thread: the result must not
 * depend on the cut. pool NULL runs all on the caller. One loop at a time: not from a body, nor from two
 * threads. */
typedef void sw_pool_body(void *context, size_t begin, size_t end);
void sw_pool_for(sw_pool *pool, size_t count, size_t grain, sw_pool_body *body, void *context);

#endif
