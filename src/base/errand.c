/* errand.c: a thread an errand; starting one takes some 20 microseconds. */
#include "base/errand.h"

static void *run_errand(void *errand) {
    sw_errand *e = errand;
    e->code = e->run(e->context, &e->error);
    return NULL;
}

void sw_errand_start(sw_errand *e, sw_errand_run *run, void *context) {
    *e = (sw_errand){.started = true, .run = run, .context = context};
    e->threaded = pthread_create(&e->thread, NULL, run_errand, e) == 0;
    if (!e->threaded) run_errand(e);
}

sw_code sw_errand_finish(sw_errand *e, sw_error *err) {
    if (!e->started) return SW_OK;
    if (e->threaded) pthread_join(e->thread, NULL);
    e->started = false;
    if (e->code != SW_OK && err != NULL) *err = e->error;
    return e->code;
}
