/* ticker.c: a thread that draws the time five times a second. */
#include "qnn/ticker.h"

#include <stdio.h>
#include <time.h>

static void *tick(void *argument) {
    sw_ticker *t = argument;
    pthread_mutex_lock(&t->lock);
    while (!t->done) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 200000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&t->wake, &t->lock, &until);
        if (!t->done) sw_progress_update(&t->bar, 0);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

void sw_ticker_start(sw_ticker *t, const char *label) {
    *t = (sw_ticker){.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};
    snprintf(t->label, sizeof t->label, "%.63s", label);
    sw_progress_start(&t->bar, t->label, 0);
    t->running = t->bar.active && pthread_create(&t->thread, NULL, tick, t) == 0;
}

void sw_ticker_stop(sw_ticker *t) {
    if (t->running) {
        pthread_mutex_lock(&t->lock);
        t->done = true;
        pthread_cond_signal(&t->wake);
        pthread_mutex_unlock(&t->lock);
        pthread_join(t->thread, NULL);
    }
    sw_progress_end(&t->bar);
}
