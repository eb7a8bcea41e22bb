/* errand.h: one thing done in a thread of its own while the caller goes on. */
#ifndef SW_BASE_ERRAND_H
#define SW_BASE_ERRAND_H

#include <pthread.h>
#include <stdbool.h>

#include "spillway/error.h"

typedef sw_code sw_errand_run(void *context, sw_error *err);

typedef struct sw_errand {
    pthread_t thread;
    bool started, threaded;
    sw_errand_run *run;
    void *context;
    sw_code code;
    sw_error error;
} sw_errand;

/* Begins run(context); where the system has no thread left, it is done at once. context, and what run reads
 * of it, stay as they are until sw_errand_finish, which must follow; e is zeroed or finished. */
void sw_errand_start(sw_errand *e, sw_errand_run *run, void *context);

/* Waits; what run returned. SW_OK where none was started. */
sw_code sw_errand_finish(sw_errand *e, sw_error *err);

#endif
