/* ticker.h: shows on a terminal how long a call of the library has taken, while it is busy. Its own
 * percentages are no measure: they stay at 0 for nine tenths of the time. */
#ifndef SW_QNN_TICKER_H
#define SW_QNN_TICKER_H

#include <pthread.h>

#include "base/log.h"

enum { SW_TICKER_LABEL_BYTES = 64 };

typedef struct sw_ticker {
    sw_progress bar;
    char label[SW_TICKER_LABEL_BYTES];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool done, running;
} sw_ticker;

void sw_ticker_start(sw_ticker *t, const char *label); /* label is copied */
void sw_ticker_stop(sw_ticker *t);                     /* wipes the line */

#endif
